"""Discrete Gaussian noise of any scale, by integers without bounds.

The rejection of `kernels/gaussian.py`, from discrete Laplace proposals, with products in Python
integers: probability exp(-(|d| t - square)^2 / (2 square t^2)), whole factors 1/e by integer
geometric draws, the rest by von Neumann's series with coins of any denominator. No float decides.

Units    grid steps, steps squared.
Sources  `docs/theory/certificates.md#exact-sampling`;
         [CKS20] Canonne, Kamath & Steinke, arXiv:2004.00010, Algorithm 3.
Limits   running time depends on the bits drawn.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dprelease.core.entropy import ROUND_LIMIT, RandomBits, drawn_by_rejection, stuck
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.kernels.sampling import AnyInts, BoolArray, geometric_e, words
from dprelease.mechanisms.law import IntArray

_NARROW = 2**100
"""Proposals at scale^2 up to this, in steps squared, fit int64."""


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
        kept[hits] = _bernoulli_exp([parts[i][1] for i in hits.tolist()], divisor, bits)
        return kept, found[kept]

    return drawn_by_rejection(count, attempt, wide=square > _NARROW)


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
