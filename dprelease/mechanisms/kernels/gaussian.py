"""Discrete Gaussian noise on the integers, exact.

    P(d) = exp(-d^2 / (2 square)) / Z,   d any integer, `square` = scale^2 a positive integer.

Privacy. For answers k steps apart the release is rho-zCDP with rho = k^2 / (2 square), and for
vectors with independent cells k^2 is the squared l2 distance ([CKS20], Theorem 4 and its corollary
for vectors): the continuous Gaussian's cost, exactly. There is no pure guarantee.

Sampler  discrete Laplace proposals of scale t = isqrt(square) + 1, kept with probability
         exp(-(|d| t - square)^2 / (2 square t^2)) ([CKS20], Algorithm 3), split into whole factors
         1/e and a rest: integer comparisons of uniform bits only, no float.

Units    grid steps, steps squared; rho in nats.
Sources  `docs/theory/composition.md#zcdp`, `docs/theory/certificates.md#exact-sampling`;
         [CKS20] Canonne, Kamath & Steinke, "The Discrete Gaussian for Differential Privacy",
         arXiv:2004.00010.
Limits   square <= 2**24 (4096 steps per scale), so that all products stay inside int64. Running
         time depends on the bits drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.core.codec import Stored
from dprelease.core.entropy import RandomBits, drawn_by_rejection
from dprelease.core.errors import ArgumentError
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.kernels.sampling import BoolArray, bernoulli_exp, geometric_e
from dprelease.mechanisms.law import IntArray

SQUARE_LIMIT = 2**24
_FAR = 2**6  # proposals beyond 64 scales are weighed in Python integers


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
            InternalError: the source is stuck (DPR901).
        """
        t = math.isqrt(self.square) + 1
        proposals = DiscreteLaplaceNoise(Fraction(1, t))

        def attempt(todo: IntArray) -> tuple[BoolArray, IntArray]:
            found = proposals.sample(todo.size, bits)
            kept = self._keep(np.abs(found), t, bits)
            return kept, found[kept]

        return drawn_by_rejection(count, attempt)

    def _keep(self, size: IntArray, t: int, bits: RandomBits) -> BoolArray:
        """Flip one coin of probability exp(-(size t - square)^2 / (2 square t^2)) each."""
        divisor = 2 * self.square * t * t
        near = size <= _FAR * t
        x = np.where(near, size, 0) * t - self.square
        whole, rest = x * x // divisor, x * x % divisor
        for i in np.flatnonzero(~near).tolist():
            w, rest[i] = divmod((int(size[i]) * t - self.square) ** 2, divisor)
            whole[i] = min(w, 2**62)
        kept: npt.NDArray[np.bool_] = geometric_e(size.size, bits) >= whole
        hits = np.flatnonzero(kept)
        kept[hits] = bernoulli_exp(rest[hits], divisor, bits)
        return kept

    def weights(self, count: int) -> npt.NDArray[np.float64]:
        """Return P(0), ..., P(count - 1)."""
        cutoff = max(count, 40 * (math.isqrt(self.square) + 1))
        d = np.arange(cutoff, dtype=np.float64)
        w = np.exp(-d * d / (2 * self.square))
        out: npt.NDArray[np.float64] = w[:count] / (2 * w.sum() - 1)
        return out

    def describe(self) -> str:
        return f"scale {math.sqrt(self.square):.6g} steps"
