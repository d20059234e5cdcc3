"""Discrete Gaussian noise for a vector of integer cells, at any scale.

    P(d) = exp(-d^2 / (2 square)) / Z  for every cell independently, d any integer.

Privacy. If one unit moves the cells of all groups together by at most sqrt(l2_square) in L2, the
release is rho-zCDP with rho = l2_square / (2 square), a rational ([CKS20]): the shift may be spread
over cells and groups in any way. There is no pure guarantee.

Sampler  up to 4096 steps of scale `DiscreteGaussianNoise` itself; beyond, the same rejection from
         discrete Laplace proposals with products in Python integers: probability
         exp(-(|d| t - square)^2 / (2 square t^2)), whole factors 1/e by integer geometric draws,
         the rest by von Neumann's series with coins of any denominator. No float decides.
Tails    P(D >= k) <= P(N >= k - 1) for k >= 1 and N normal of the same scale: the sum over x >= k
         is at most the integral from k - 1, and Z >= sqrt(2 pi square) (Poisson summation).
Units    grid steps, steps squared; rho in nats.
Sources  [CKS20] Canonne, Kamath & Steinke, "The Discrete Gaussian for Differential Privacy",
         arXiv:2004.00010.
Limits   running time depends on the bits drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np

from dprelease.entropy import ROUND_LIMIT, RandomBits, drawn_by_rejection, stuck
from dprelease.errors import ArgumentError
from dprelease.mechanisms.arguments import check_level
from dprelease.mechanisms.kernels.gaussian import SQUARE_LIMIT, DiscreteGaussianNoise
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.kernels.sampling import AnyInts, BoolArray, geometric_e, words
from dprelease.mechanisms.law import IntArray

__all__ = ["GaussianCells"]

_NARROW = 2**100
"""Proposals at scale^2 up to this, in steps squared, fit int64."""

_EXACT_SUMS = 400
"""Scales up to 20 steps are summed term by term; above, the continuous moments are equal to it
to all digits of a double."""


@dataclass(frozen=True, slots=True)
class GaussianCells:
    """Discrete Gaussian noise of scale^2 = `square` for an L2 move of sqrt(`l2_square`).

    Raises:
        ArgumentError: no sensitivity (DPR620), or a scale below one step (DPR624).
    """

    l2_square: int
    square: int
    family: str = "rectified_gaussian"

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
                fix="use the file as it was written",
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
        return self._wide(count, bits)

    def _wide(self, count: int, bits: RandomBits) -> AnyInts:
        """Draw with unbounded integers, whatever the scale."""
        t = math.isqrt(self.square) + 1
        divisor = 2 * self.square * t * t
        proposals = DiscreteLaplaceNoise(Fraction(1, t))

        def attempt(todo: IntArray) -> tuple[BoolArray, AnyInts]:
            found = proposals.draws(todo.size, bits)
            parts = [divmod((abs(d) * t - self.square) ** 2, divisor) for d in found.tolist()]
            # `geometric_e` stays below ROUND_LIMIT, so a larger whole part never passes.
            whole = np.array([min(w, ROUND_LIMIT) for w, _ in parts], dtype=np.int64)
            kept = geometric_e(todo.size, bits) >= whole
            hits = np.flatnonzero(kept)
            kept[hits] = _bernoulli_exp([parts[i][1] for i in hits.tolist()], divisor, bits)
            return kept, found[kept]

        return drawn_by_rejection(count, attempt, wide=self.square > _NARROW)

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
        return math.ceil(self.scale * -NormalDist().inv_cdf((1 - level) / 2) * (1 + 1e-12))

    def to_json(self) -> dict[str, Any]:
        """Return all integers of the law."""
        return {
            "family": self.family,
            "kind": "gaussian_cells",
            "l2_square": str(self.l2_square),
            "square": str(self.square),
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> GaussianCells:
        return cls(int(value["l2_square"]), int(value["square"]), str(value["family"]))

    def evidence(self) -> dict[str, str]:
        """Return the proof's exact numbers."""
        return {
            "method": "rho = l2_square / (2 square), however the shift is spread",
            "rho": str(self.rho),
            "l2_square": str(self.l2_square),
            "square": str(self.square),
        }

    def describe(self) -> str:
        """Return one line for a plan."""
        return f"{self.family} (scale {self.scale:.6g} steps) on cells"


def _bernoulli_exp(rests: list[int], t: int, bits: RandomBits) -> list[bool]:
    """Return one coin per rest u, True with probability exactly e^(-u/t); 0 <= u < t, any size.

    Von Neumann: the k-th trial succeeds with probability u/(t k); an odd number of trials means
    True (`sampling.bernoulli_exp` with integers of any size).
    """
    out = [False] * len(rests)
    active = list(range(len(rests)))
    for k in range(1, ROUND_LIMIT):
        again = []
        for i, word in zip(active, words(len(active), bits).tolist(), strict=True):
            if _below(word, rests[i], t * k, bits):
                again.append(i)
            elif k % 2:
                out[i] = True
        active = again
        if not active:
            return out
    raise stuck()


def _below(word: int, num: int, den: int, bits: RandomBits) -> bool:
    """Return whether a uniform in [0, 1) whose first 64 digits are `word` lies below num/den.

    num <= den is assumed; equality (u = t, k = 1) cannot occur because rests are below t.
    """
    for _ in range(ROUND_LIMIT):
        head, num = divmod(num << 64, den)
        if word != head:
            return word < head
        if num == 0:
            return False
        word = int.from_bytes(bits.read(8), "little")
    raise stuck()
