"""Form: independent noise on a vector of integer components; nothing is mapped.

* `CellNoise`: discrete Laplace noise. The loss is rate times the L1 sensitivity, however a unit splits it.
* `GaussianCells`: discrete Gaussian noise, P(d) = exp(-d^2 / (2 square)) / Z per component. If one unit
  moves the components of all groups together by at most sqrt(l2_square) in L2, the release is rho-zCDP
  with rho = l2_square / (2 square), a rational ([CKS20]): the move may be spread over components and
  groups in any way. There is no pure guarantee.

Tails    P(D >= k) <= P(N >= k - 1) for k >= 1 and N normal of the same scale: the sum over x >= k
         is at most the integral from k - 1, and Z >= sqrt(2 pi square) (Poisson summation).
Units    grid steps, steps squared; epsilon and rho in nats.
Sources  [CKS20] Canonne, Kamath & Steinke, "The Discrete Gaussian for Differential Privacy",
         arXiv:2004.00010; `docs/theory/kernels-and-boundaries.md#discrete-laplace`, `#discrete-gaussian`.
Limits   running time depends on the bits drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar

import numpy as np

from dprelease.core.codec import Stored
from dprelease.core.codec_notes import Always, Digits
from dprelease.core.entropy import RandomBits
from dprelease.core.errors import ArgumentError
from dprelease.intervals.noise import Gaussian, Laplace
from dprelease.mechanisms.arguments import check_level
from dprelease.mechanisms.certificate import Certificate
from dprelease.mechanisms.kernels.gaussian import SQUARE_LIMIT, DiscreteGaussianNoise
from dprelease.mechanisms.kernels.gaussian_unbounded import wide_draws
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.kernels.sampling import AnyInts

_EXACT_SUMS = 400
"""Scales up to 20 steps are summed term by term; above, the continuous moments are equal to it
to all digits of a double."""


@dataclass(frozen=True, slots=True)
class GaussianCells(Stored):
    """Discrete Gaussian noise of scale^2 = `square` for an L2 sensitivity of sqrt(`l2_square`).

    Raises:
        ArgumentError: no sensitivity (DPR620), or a scale below one step (DPR624).
    """

    kind: ClassVar[str] = "gaussian_cells"
    constants: ClassVar[Mapping[str, str]] = {"kind": "kind"}

    l2_square: Digits
    square: Digits
    family: Annotated[str, Always()] = "rectified_gaussian"

    def __post_init__(self) -> None:
        if self.l2_square < 1:
            raise ArgumentError(
                "the L2 sensitivity must be at least one grid step",
                fix="give a sensitivity of at least one step",
                code="DPR620",
            )
        if self.square < 1:
            raise ArgumentError(
                "this is not a scale of discrete Gaussian noise",
                why="its square is a whole number of at least 1 grid step",
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
        return cls(l2_square, max(1, math.ceil(l2_square / (2 * rho))))

    @property
    def rho(self) -> Fraction:
        """The zCDP cost, exact: recomputed from the two integers."""
        return Fraction(self.l2_square, 2 * self.square)

    @property
    def scale(self) -> float:
        """Standard deviation of the normal law of the same exponent, in steps."""
        return math.sqrt(self.square)

    def sample(self, count: int, bits: RandomBits) -> AnyInts:
        """Return `count` independent exact draws, shape `(count,)`: Python integers if they are wide.

        Raises:
            InternalError: the source is stuck (DPR901).
        """
        if self.square <= SQUARE_LIMIT:
            return DiscreteGaussianNoise(self.square).sample(count, bits)
        return wide_draws(self.square, count, bits)

    @property
    def fitted(self) -> Gaussian:
        """What it is for fits and intervals."""
        return Gaussian(self.square)

    def variance(self) -> float:
        """Return E D^2, in steps squared."""
        if self.square > _EXACT_SUMS:
            return float(self.square)
        d, w = self._weights()
        return float((d * d * w).sum() / w.sum())

    def mean_abs(self) -> float:
        """Return E |D|, in steps."""
        if self.square > _EXACT_SUMS:
            return math.sqrt(2 * self.square / math.pi)
        d, w = self._weights()
        return float((d * w).sum() / w.sum())

    def _weights(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return distances and the weight of both signs together."""
        d = np.arange(40 * (math.isqrt(self.square) + 1), dtype=np.float64)
        w = np.exp(-d * d / (2 * self.square)) * np.where(d > 0, 2.0, 1.0)
        return d, w

    def quantile(self, level: float) -> int:
        """Return a k (at most a step or two too large) with P(|D| <= k) >= level, per cell.

        P(|D| > k) <= P(|N| >= k) by the bound on the tails.

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
