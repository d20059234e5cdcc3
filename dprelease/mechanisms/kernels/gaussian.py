"""Discrete Gaussian noise on the integers, exact.

    P(d) = exp(-d^2 / (2 square)) / Z,   d any integer, `square` = scale^2 a positive integer.

Privacy. For answers k steps apart the release is rho-zCDP with rho = k^2 / (2 square), and for
vectors with independent cells k^2 is the squared l2 distance ([CKS20], Theorem 4 and its corollary
for vectors): the continuous Gaussian's cost, exactly. There is no pure guarantee.

Sampler  discrete Laplace proposals of scale t = isqrt(square) + 1, kept with probability
         exp(-(|d| t - square)^2 / (2 square t^2)) ([CKS20], Algorithm 3), split into whole factors
         1/e and a rest: integer comparisons of uniform bits only, no float. Products are Python
         integers, so `wide_draws` draws at any scale.

Units    grid steps, steps squared; rho in nats.
Sources  `docs/theory/composition.md#zcdp`, `docs/theory/certificates.md#exact-sampling`;
         [CKS20] Canonne, Kamath & Steinke, "The Discrete Gaussian for Differential Privacy",
         arXiv:2004.00010.
Limits   square <= 2**24 (4096 steps per scale) but in `wide_draws`. Running time depends on the bits drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.core.codec import Stored
from dprelease.core.entropy import ROUND_LIMIT, RandomBits, drawn_by_rejection
from dprelease.core.errors import ArgumentError
from dprelease.mechanisms.arguments import IntArray
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.kernels.sampling import (
    AnyInts,
    BoolArray,
    bernoulli_exp,
    geometric_e,
)

SQUARE_LIMIT = 2**24
_NARROW = 2**100
"""Proposals at scale^2 up to this, in steps squared, fit int64."""


@dataclass(frozen=True, slots=True)
class DiscreteGaussianNoise(Stored):
    """Discrete Gaussian noise with scale^2 = `square`, in steps squared."""

    square: int

    def __post_init__(self) -> None:
        if not 1 <= self.square <= SQUARE_LIMIT:
            raise ArgumentError(
                "this discrete Gaussian noise cannot be drawn exactly",
                why=f"its scale must lie between 1 and {math.isqrt(SQUARE_LIMIT)} grid steps",
                fix="choose a step between scale / 4096 and scale",
                code="DPR624",
            )

    def rho(self, distance: int) -> Fraction:
        """Return the zCDP cost for answers `distance` steps apart, exact."""
        return Fraction(distance * distance, 2 * self.square)

    def sample(self, count: int, bits: RandomBits) -> IntArray:
        """Return `count` independent exact draws, shape `(count,)`.

        Raises:
            InternalError: the source is stuck (DPR904).
        """
        found: IntArray = wide_draws(self.square, count, bits)
        return found

    def weights(self, count: int) -> npt.NDArray[np.float64]:
        """Return P(0), ..., P(count - 1)."""
        cutoff = max(count, 40 * (math.isqrt(self.square) + 1))
        d = np.arange(cutoff, dtype=np.float64)
        w = np.exp(-d * d / (2 * self.square))
        out: npt.NDArray[np.float64] = w[:count] / (2 * w.sum() - 1)
        return out

    def describe(self) -> str:
        return f"scale {math.sqrt(self.square):.6g} steps"


def wide_draws(square: int, count: int, bits: RandomBits) -> AnyInts:
    """Return `count` independent exact draws of scale^2 `square`: Python integers if they are wide.

    Raises:
        InternalError: the source is stuck (DPR904).
    """
    t = math.isqrt(square) + 1
    divisor = 2 * square * t * t
    proposals = DiscreteLaplaceNoise(Fraction(1, t))

    def attempt(todo: IntArray) -> tuple[BoolArray, AnyInts]:
        found = proposals.draws(todo.size, bits)
        parts = [divmod((abs(d) * t - square) ** 2, divisor) for d in found.tolist()]
        # `geometric_e` stays below ROUND_LIMIT, so a larger whole part never passes.
        whole = np.array([min(w, ROUND_LIMIT) for w, _ in parts], dtype=np.int64)
        accepted = geometric_e(todo.size, bits) >= whole
        hits = np.flatnonzero(accepted)
        rests = np.array([parts[i][1] for i in hits.tolist()], dtype=object)
        accepted[hits] = bernoulli_exp(rests, divisor, bits)
        return accepted, found[accepted]

    return drawn_by_rejection(count, attempt, wide=square > _NARROW)
