"""Discrete Gaussian noise on the integers, exact.

    P(d) = exp(-d^2 / (2 square)) / Z,   d any integer, `square` = scale^2 a positive integer.

Privacy. For answers k steps apart the release is rho-zCDP with rho = k^2 / (2 square), and for
vectors with independent cells k^2 is the squared l2 distance ([CKS20], Theorem 4 and its corollary
for vectors): the continuous Gaussian's cost, exactly. There is no pure guarantee.

Sampler  discrete Laplace proposals of scale t = isqrt(square) + 1, kept with probability
         exp(-(|d| t - square)^2 / (2 square t^2)) ([CKS20], Algorithm 3), split into whole factors
         1/e and a rest: integer comparisons of uniform bits only, no float. `wide_draws` does the
         same at any scale, with products in Python integers.

Units    grid steps, steps squared; rho in nats.
Sources  `docs/theory/composition.md#zcdp`, `docs/theory/certificates.md#exact-sampling`;
         [CKS20] Canonne, Kamath & Steinke, "The Discrete Gaussian for Differential Privacy",
         arXiv:2004.00010.
Limits   square <= 2**24 (4096 steps per scale) but in `wide_draws`, so that all products stay inside
         int64. Running time depends on the bits drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.core.codec import Stored
from dprelease.core.entropy import ROUND_LIMIT, RandomBits, drawn_by_rejection, stuck
from dprelease.core.errors import ArgumentError
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.kernels.sampling import (
    AnyInts,
    BoolArray,
    bernoulli_exp,
    geometric_e,
    words,
)
from dprelease.mechanisms.law import IntArray

SQUARE_LIMIT = 2**24
_FAR = 2**6  # proposals beyond 64 scales are weighed in Python integers
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


def wide_draws(square: int, count: int, bits: RandomBits) -> AnyInts:
    """Return `count` independent exact draws of scale^2 `square`: Python integers if they are wide.

    Raises:
        InternalError: the source is stuck (DPR901).
    """
    t = math.isqrt(square) + 1
    divisor = 2 * square * t * t
    proposals = DiscreteLaplaceNoise(Fraction(1, t))

    def attempt(todo: IntArray) -> tuple[BoolArray, AnyInts]:
        found = proposals.draws(todo.size, bits)
        parts = [divmod((abs(d) * t - square) ** 2, divisor) for d in found.tolist()]
        # `geometric_e` stays below ROUND_LIMIT, so a larger whole part never passes.
        whole = np.array([min(w, ROUND_LIMIT) for w, _ in parts], dtype=np.int64)
        kept = geometric_e(todo.size, bits) >= whole
        hits = np.flatnonzero(kept)
        kept[hits] = _coins([parts[i][1] for i in hits.tolist()], divisor, bits)
        return kept, found[kept]

    return drawn_by_rejection(count, attempt, wide=square > _NARROW)


def _coins(rests: list[int], t: int, bits: RandomBits) -> list[bool]:
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
