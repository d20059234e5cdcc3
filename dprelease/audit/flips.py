"""What permute-and-flip draws, from its coins alone.

A candidate of coin v is drawn with chance v times the integral of the product of 1 - t v over all others. Float64
integrals only choose: where two tables' ratio is largest, to 1e-9, it is laid out again in integers, every
product rounded down once and up once: by stretches of t, and how many others have a time in one.

Units    coins in 0..1; places are those of runs of equal coins.
Sources  `docs/theory/certificates.md#permute-and-flip`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.audit.laws import Worst
from dprelease.mechanisms.forms.flips import FlipLaw, power_bounds, time_spans

FloatArray = npt.NDArray[np.float64]
Ints = npt.NDArray[Any]
_ONE = 2**256
_LITTLE = 2**96
_HEADS = 128
_NODES = 64
_TIE = 1e-9
_TIES = 4


def flip_chances(law: FlipLaw, counts: Ints, scores: Ints) -> FloatArray:
    """Return the chance of one candidate of each run, `(runs,)`; 0 where a run is empty."""
    coins = np.array([float(c) for c in _coins(law, counts, scores)])
    node, share = np.polynomial.legendre.leggauss(_NODES)
    out = np.zeros(counts.size)
    for low, high, of in time_spans(int((counts * coins).sum())):
        t = (low + (high - low) * (node[:, None] + 1) / 2) / of
        logs = np.log1p(-t * coins)
        each = np.exp((logs * counts).sum(axis=1, keepdims=True) - logs)
        out += coins * (share * (high - low) / (2 * of) @ each)
    return np.where(counts > 0, out, 0.0)


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


def _coins(law: FlipLaw, counts: Ints, scores: Ints) -> list[Fraction]:
    best = int(scores[counts > 0].min())
    *weights, whole = law.weights(np.append(np.maximum(scores - best, 0), 0))
    return [Fraction(int(w), int(whole)) for w in weights]


def _bounds(law: FlipLaw, counts: Ints, scores: Ints, run: int) -> tuple[Fraction, Fraction]:
    """Return bounds of the chance of one candidate of a run: its time is in a stretch, and the first of those there."""
    coins = _coins(law, counts, scores)
    many = [int(n) - (i == run) for i, n in enumerate(counts)]
    least, most = Fraction(0), Fraction(0)
    for start, end, of in time_spans(int(coins[run] + sum(map(operator.mul, coins, many)))):
        later = _ONE
        for coin, others in zip(coins, many, strict=True):
            left = power_bounds(*(1 - Fraction(start, of) * coin).as_integer_ratio(), others, _ONE)[
                1
            ]
            later = -(-later * left // _ONE)
        if later < _LITTLE:
            return least, most + coins[run] * Fraction(later, _ONE)
        low, high = [_ONE], [_ONE]
        for coin, others in zip(coins, many, strict=True):
            down, up = _lot(Fraction(end - start, of) * coin, 1 - Fraction(end, of) * coin, others)
            low, high = _product(low, down), _product(high, up, up=_ONE - 1)
        each = coins[run] * Fraction(end - start, of * _ONE)
        least += each * sum(Fraction(h, n + 1) for n, h in enumerate(low))
        most += each * sum(Fraction(h, n + 1) for n, h in enumerate(high))
        most += each * Fraction(max(0, later - sum(low)), _HEADS)
    return least, most


def _lot(width: Fraction, rest: Fraction, others: int) -> tuple[list[int], list[int]]:
    """Return bounds of the chances that so many of `others` have their time in a stretch, the rest later."""
    if not rest:
        least, most = power_bounds(*width.as_integer_ratio(), others, _ONE)
        return [0] * others + [least], [0] * others + [most]
    more_bits = math.ceil(
        -others * math.log2(rest)
    )  # none of many is rare, and the others are multiples of it
    low, high = ([n] for n in power_bounds(*rest.as_integer_ratio(), others, _ONE << more_bits))
    odds = width / rest
    for n in range(min(others, _HEADS - 1)):
        more = odds * (others - n) / (n + 1)
        low.append(low[-1] * more.numerator // more.denominator)
        high.append(-(-high[-1] * more.numerator // more.denominator))
    return [n >> more_bits for n in low], [-(-n >> more_bits) for n in high]


def _product(one: list[int], other: list[int], *, up: int = 0) -> list[int]:
    """Return the law of a sum, in units of 2**-256, of fewer than `_HEADS`."""
    out = [0] * min(len(one) + len(other) - 1, _HEADS)
    for n, a in enumerate(one):
        for m, b in enumerate(other[: len(out) - n]):
            out[n + m] += (a * b + up) // _ONE
    return out
