"""Exact vectorised coin flips and uniforms. No float decides anything here.

A float uniform has finite resolution and a float threshold is wrong in its last bits, and either
is enough to break pure privacy (Mironov 2012). Here every decision is an integer comparison.

* `bernoulli`: probability num/den of any size. The first 64 binary digits of a uniform are
  compared with those of num/den; the rare tie (2**-64) is settled with further digits.
* `bernoulli_exp`: probability e^(-u/t), von Neumann's alternating series as in [CKS20].
* `uniform_each`: uniform below a bound per element, by rejection from the next power of two.

Units    none; counts and integers.
Sources  `docs/theory/certificates.md#exact-sampling`;
         [CKS20] Canonne, Kamath & Steinke, arXiv:2004.00010.
Limits   running time depends on the bits drawn (rejection). A source that never brings a value
         ends as InternalError after `ROUND_LIMIT` rounds instead of looping: a stuck source must
         not release anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.core.entropy import ROUND_LIMIT, RandomBits, drawn_by_rejection, stuck, uniform_below
from dprelease.mechanisms.arguments import IntArray

BoolArray = npt.NDArray[np.bool_]
AnyInts = npt.NDArray[Any]
"""int64, or Python integers where those do not fit."""


def words(count: int, bits: RandomBits) -> npt.NDArray[np.uint64]:
    """Return `count` uniform 64-bit words, shape `(count,)`."""
    return np.frombuffer(bits.read(8 * count), dtype=np.uint64)


def bernoulli(num: int, den: int, count: int, bits: RandomBits) -> BoolArray:
    """Return `count` independent coins, each True with probability exactly num/den < 1."""
    head, rest = divmod(num << 64, den)
    word = words(count, bits)
    out = word < np.uint64(head)
    for i in np.flatnonzero(word == np.uint64(head)):
        out[i] = _settle(rest, den, bits)
    return out


def _settle(rest: int, den: int, bits: RandomBits) -> bool:
    for _ in range(ROUND_LIMIT):
        head, rest = divmod(rest << 64, den)
        word = int.from_bytes(bits.read(8), "little")
        if word != head:
            return word < head
        if rest == 0:
            return False
    raise stuck()


def bernoulli_exp(u: AnyInts, t: int, bits: RandomBits) -> BoolArray:
    """Return one coin per element, True with probability exactly e^(-u/t); 0 <= u <= t of any size.

    The k-th trial succeeds with probability u/(t k), drawn as two coins (u/t and 1/k) so that
    no product leaves int64. The number of trials is odd with probability e^(-u/t).
    """

    def flip(at: IntArray) -> BoolArray:
        return (uniform_below(t, at.size, bits) < u[at]).astype(bool, copy=False)

    return exp_coin(flip, u.size, bits)


def exp_coin(flip: Callable[[IntArray], BoolArray], count: int, bits: RandomBits) -> BoolArray:
    """Return `count` coins, True with probability exactly e^-x for coins `flip` of probability x.

    `flip(at)` returns one fresh coin per index in `at`. Products of probabilities are coins flipped
    together, so x never has to be a number that fits anywhere.
    """
    out = np.zeros(count, dtype=bool)
    active = np.arange(count)
    for k in range(1, ROUND_LIMIT):
        again = flip(active)
        if k > 1:
            # `== k - 1`, not `== 0`: a source stuck at zero then ends, at the answer "no".
            hits = np.flatnonzero(again)
            again[hits] = uniform_below(k, hits.size, bits) == k - 1
        if k % 2:
            out[active[~again]] = True
        active = active[again]
        if not active.size:
            return out
    raise stuck()


def geometric_e(count: int, bits: RandomBits) -> IntArray:
    """Return `count` draws V with P(V >= v) = e^(-v), below `ROUND_LIMIT`; shape `(count,)`."""
    out = np.zeros(count, dtype=np.int64)
    active = np.arange(count)
    for _ in range(ROUND_LIMIT):
        active = active[bernoulli_exp(np.ones(active.size, dtype=np.int64), 1, bits)]
        if not active.size:
            return out
        out[active] += 1
    raise stuck()


def uniform_each(bounds: IntArray, bits: RandomBits) -> IntArray:
    """Return one exact uniform integer in `[0, bound)` per bound in `[1, 2**62)`."""
    # frexp may round a large bound up to the next power of two: a wider draw, never a narrower.
    width = np.maximum(np.frexp(bounds.astype(np.float64))[1], 1).astype(np.uint64)
    drop = np.uint64(64) - width

    def attempt(todo: IntArray) -> tuple[BoolArray, IntArray]:
        value = (words(todo.size, bits) >> drop[todo]).astype(np.int64)
        good = value < bounds[todo]
        return good, value[good]

    return drawn_by_rejection(bounds.size, attempt)
