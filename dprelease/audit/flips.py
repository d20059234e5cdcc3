"""What permute-and-flip draws, from its coins alone.

A candidate of coin v is drawn with chance v E[1 / (1 + kept)], `kept` the number of the others whose coin falls
right. Float64 integrals only choose: where two tables' ratio is largest, to 1e-9, the law of `kept` is laid
out again in integers, every product rounded down once and up once.

Units    coins in 0..1; places are those of runs of equal coins.
Sources  `docs/theory/certificates.md#permute-and-flip`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.audit.laws import Worst
from dprelease.mechanisms.forms.flips import FlipLaw

FloatArray = npt.NDArray[np.float64]
Ints = npt.NDArray[Any]
_PLACES = 256
_TIE = 1e-9
_TIES = 4


def flip_chances(law: FlipLaw, counts: Ints, scores: Ints) -> FloatArray:
    """Return the chance of one candidate of each run, `(runs,)`; 0 where a run is empty."""
    coins = np.array([float(c) for c in _coins(law, counts, scores)])
    node, share = _nodes(law.candidates // 2 + 1)  # exact at that degree
    t = (node[:, None] + 1) / 2
    logs = np.log1p(-t * coins)
    each = np.exp((logs * counts).sum(axis=1, keepdims=True) - logs)
    return np.where(counts > 0, coins * (share / 2 @ each), 0.0)


def flip_worst(
    law: FlipLaw,
    first: tuple[Ints, Ints],
    second: tuple[Ints, Ints],
    pairs: Sequence[tuple[int, int]],
) -> Worst:
    """Return the largest ratio of chances of one candidate under two tables, either way.

    Args:
        first, second: (counts, scores) of the runs of each; pairs: runs that hold a candidate in common.
    """
    tables = (first, second)
    here, there = (flip_chances(law, *one) for one in tables)
    off = np.array([abs(np.log(here[a] / there[b])) for a, b in pairs])
    ties = np.flatnonzero(off >= off.max() - _TIE).tolist()
    ratio = Fraction(1)
    for place in ties[:_TIES]:
        a, b = (_bounds(law, *one, run) for one, run in zip(tables, pairs[place], strict=True))
        ratio = max(ratio, a[1] / b[0], b[1] / a[0])
    return Worst(ratio, None, len(pairs), complete=len(ties) <= _TIES)


@lru_cache(maxsize=8)
def _nodes(count: int) -> tuple[FloatArray, FloatArray]:
    node, share = np.polynomial.legendre.leggauss(count)
    return node, share


def _coins(law: FlipLaw, counts: Ints, scores: Ints) -> list[Fraction]:
    best = int(scores[counts > 0].min())
    *weights, whole = law.weights(np.append(np.maximum(scores - best, 0), 0))
    return [Fraction(int(w), int(whole)) for w in weights]


def _bounds(law: FlipLaw, counts: Ints, scores: Ints, run: int) -> tuple[Fraction, Fraction]:
    """Return bounds of the chance of one candidate of a run."""
    coins = _coins(law, counts, scores)
    others = [c for i, c in enumerate(coins) for _ in range(int(counts[i]) - (i == run))]
    low, high = ([1 << _PLACES] for _ in range(2))
    for coin in others:
        down = (coin.numerator << _PLACES) // coin.denominator
        low, high = (_after(heads, down, up=up) for heads, up in ((low, 0), (high, 1)))
    least, most = (
        coins[run] * sum(Fraction(h, n + 1) for n, h in enumerate(heads)) / (1 << _PLACES)
        for heads in (low, high)
    )
    return least, most


def _after(heads: list[int], coin: int, *, up: int) -> list[int]:
    """Return the law of the number of heads after one more coin, in units of 2**-256, rounded down or up."""
    whole = 1 << _PLACES
    right, wrong = coin + up, whole - coin - (1 - up)
    stay, more = [*heads, 0], [0, *heads]
    if up:
        return [-(-(s * wrong + m * right) >> _PLACES) for s, m in zip(stay, more, strict=True)]
    return [(s * wrong + m * right) >> _PLACES for s, m in zip(stay, more, strict=True)]
