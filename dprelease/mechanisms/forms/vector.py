"""Form: independent noise on a vector of integer components; nothing is mapped.

* `CellNoise`: discrete Laplace noise. The loss is rate times the L1 sensitivity, however a unit splits it.
* `GaussianCells`: normal noise of scale^2 = `square` per component, rounded to the nearest integer. What is drawn is
  discrete Gaussian noise on a grid 2^`bits` times finer, rounded. If one unit moves the components of all groups
  together by at most sqrt(l2_square) in L2, the release is rho-zCDP with rho = l2_square / (2 square), a rational
  ([CKS20]): the move may be spread over components and groups in any way. There is no pure guarantee.

Rounding is of the noisy integer of the finer grid, hence post-processing, and on so fine a grid a discrete Gaussian is
a normal draw rounded to it, but for factors within e^(+-2^-60): so (epsilon, delta) follow by the analytic formula.
Folders of 0.2.0 have `bits` 0: discrete Gaussian noise itself, whose (epsilon, delta) follow from rho alone.

Units    grid steps, steps squared; epsilon and rho in nats.
Sources  [CKS20] Canonne, Kamath & Steinke, "The Discrete Gaussian for Differential Privacy",
         arXiv:2004.00010; `docs/theory/kernels-and-boundaries.md#discrete-laplace`, `#rounded-normal-noise`.
Limits   running time depends on the bits drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar

from dprelease.budget.normal import MOST
from dprelease.core.codec import Stored
from dprelease.core.codec_notes import AtLeast, Digits, Note
from dprelease.core.entropy import RandomBits, drawn_by_rejection
from dprelease.core.errors import ArgumentError
from dprelease.intervals.noise import Gaussian, Laplace
from dprelease.mechanisms.arguments import check_level
from dprelease.mechanisms.certificate import Certificate
from dprelease.mechanisms.kernels.gaussian import wide_draws
from dprelease.mechanisms.kernels.gaussian_wide import WideGaussianNoise
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.kernels.sampling import AnyInts

_FINE = Fraction(2**92)
"""The least square of a scale in steps of the finer grid."""

_PER_CELL = 2**68
"""So much of that square for each cell that one unit touches: `budget.normal.NEAR`."""

_DIGITS = 34
_SPAN = 10
"""Draws end 2^10 blocks out, more than 128 scales: exponents that no coin survives."""


@dataclass(frozen=True, slots=True)
class GaussianCells(Stored):
    """Rounded normal noise of scale^2 = `square` for an L2 sensitivity of sqrt(`l2_square`).

    Raises:
        ArgumentError: no sensitivity (DPR620), or a scale below one step or that cannot be drawn (DPR624).
    """

    kind: ClassVar[str] = "gaussian_cells"
    constants: ClassVar[Mapping[str, str]] = {"kind": "kind"}

    l2_square: Digits
    square: Fraction
    bits: Annotated[int, AtLeast(0)] = 0
    family: Annotated[str, Note.always] = "rectified_gaussian"

    def __post_init__(self) -> None:
        if self.l2_square < 1:
            raise ArgumentError(
                "the L2 sensitivity must be at least one grid step",
                fix="give a sensitivity of at least one step",
                code="DPR620",
            )
        top, bottom = self.square.as_integer_ratio()
        drawn = bottom == 1 or self.bits
        if self.bits:
            fine = _FINE <= self.square * 4 ** min(self.bits, _DIGITS * 2) < 4 * _FINE
            drawn = fine and not top & (top - 1) and bottom < 2**_DIGITS
        if self.square < 1 or not drawn:
            raise ArgumentError(
                "this is not a scale of rounded normal noise",
                why="its square is at least 1 grid step, of few digits, and finely divided",
                fix="use the file unchanged",
                code="DPR624",
            )

    @classmethod
    def calibrate(cls, l2_square: int, rho: Fraction) -> GaussianCells:
        """Return the least noise whose zCDP cost is at most `rho` > 0 (scale at least 1 step).

        Raises:
            ArgumentError: rho <= 0 (DPR606), or as the class.
        """
        if rho <= 0:
            raise ArgumentError("rho must be above 0", fix="give a positive rho", code="DPR606")
        least = max(Fraction(1), Fraction(l2_square) / (2 * rho))
        if least >= _FINE / 2:  # steps are fine enough themselves
            return cls(l2_square, Fraction(math.ceil(least)))
        top = 1 << (_DIGITS - 1 + math.floor(least).bit_length())
        square = Fraction(top, math.floor(top / least))
        bits = ((math.ceil(_FINE / square) - 1).bit_length() + 1) // 2
        return cls(l2_square, square, bits)

    @property
    def rho(self) -> Fraction:
        """The zCDP cost, exact: recomputed from the law's own numbers."""
        return Fraction(self.l2_square) / (2 * self.square)

    def rounded(self, cells: int) -> bool:
        """Return whether it is near enough to rounded normal noise for a unit that touches at most so many cells."""
        near = self.square * 4**self.bits >= max(_FINE, _PER_CELL * min(cells, self.l2_square))
        return near and self.l2_square <= MOST**2 * self.square

    @property
    def scale(self) -> float:
        """Standard deviation of the normal law before it is rounded, in steps."""
        return math.sqrt(self.square)

    def sample(self, count: int, bits: RandomBits) -> AnyInts:
        """Return `count` independent exact draws, shape `(count,)`: Python integers if they are wide.

        Raises:
            InternalError: the source is stuck (DPR904).
        """
        if not self.bits:
            return wide_draws(int(self.square), count, bits)
        top, bottom = self.square.as_integer_ratio()
        more = _DIGITS - bottom.bit_length()
        m = (2 * top << more).bit_length() - 1 + 2 * self.bits
        noise = WideGaussianNoise(bottom << more, m)
        span = 1 << (noise.block[0] + _SPAN)

        def attempt(todo: AnyInts) -> tuple[AnyInts, AnyInts]:
            return noise.attempt_block(todo.size, span, bits)

        fine = drawn_by_rejection(count, attempt)
        return (fine + (1 << (self.bits - 1))) >> self.bits

    @property
    def fitted(self) -> Gaussian:
        """What it is for fits and intervals."""
        return Gaussian(self.square)

    def variance(self) -> float:
        """Return E D^2, in steps squared."""
        return float(self.fitted.variance())

    def quantile(self, level: float) -> int:
        """Return the least k with P(|D| <= k) >= level, per cell.

        Raises:
            ArgumentError: level is not strictly between 0 and 1 (DPR625).
        """
        check_level(level)
        return self.fitted.quantile(level)

    def evidence(self) -> dict[str, str]:
        """Return the proof's exact numbers."""
        return {
            "method": "rho = l2_square / (2 square), however the move is spread",
            "rho": str(self.rho),
            "l2_square": str(self.l2_square),
            "square": str(self.square),
        }

    def describe(self) -> str:
        """Return one line for a plan."""
        return f"{self.family} (scale {self.scale:.6g} steps) on cells"


@dataclass(frozen=True, slots=True)
class CellNoise(Stored):
    """Discrete Laplace noise for a vector of integer cells with L1 sensitivity `l1_sensitivity`.

    The loss is linear in the L1 sensitivity, however a unit splits it over the cells.
    """

    family: ClassVar[str] = "discrete_laplace"
    kind: ClassVar[str] = "cells"
    constants: ClassVar[Mapping[str, str]] = {"family": "family", "kind": "kind"}

    l1_sensitivity: int
    epsilon: Fraction
    noise: DiscreteLaplaceNoise

    @classmethod
    def calibrate(cls, l1_sensitivity: int, epsilon: Fraction) -> CellNoise:
        """Return the cells' noise with loss at most `epsilon` (nats) for the whole vector.

        Raises:
            ArgumentError: l1_sensitivity < 1 (DPR620) or epsilon <= 0 (DPR606).
        """
        if l1_sensitivity < 1:
            raise ArgumentError(
                "the L1 sensitivity must be at least one grid step",
                fix="give a sensitivity of at least one step",
                code="DPR620",
            )
        if epsilon <= 0:
            raise ArgumentError(
                "epsilon must be above 0", fix="give a positive epsilon", code="DPR606"
            )
        return cls(l1_sensitivity, epsilon, DiscreteLaplaceNoise.calibrate(l1_sensitivity, epsilon))

    @property
    def scale(self) -> Fraction:
        """1 / rate, in steps."""
        return self.noise.scale

    @property
    def certificate(self) -> Certificate:
        return self.certify()

    def certify(self) -> Certificate:
        """Recompute the proof from the rate: loss = l1_sensitivity * rate."""
        return self.noise.certify(self.family, self.l1_sensitivity, self.epsilon, splits=True)

    def sample(self, count: int, bits: RandomBits) -> AnyInts:
        """Return `count` independent exact noise values, in steps; see `DiscreteLaplaceNoise.draws`."""
        return self.noise.draws(count, bits)

    def quantile(self, level: float) -> int:
        """Return the smallest k (rounded up in doubt) with P(|d| <= k) >= level, per cell."""
        return Laplace(self.noise.rate).quantile(level)

    def variance(self) -> float:
        """Return the variance of one cell's noise, in steps squared."""
        return self.noise.variance()

    def mean_abs(self) -> float:
        """Return the mean absolute noise of one cell, in steps."""
        return self.noise.mean_abs()

    def describe(self) -> str:
        """Return one line for a plan."""
        return f"{self.family} ({self.noise.describe()}) on cells"
