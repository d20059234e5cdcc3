"""The exact loss of choices one inside the other between two tables, and whether their draws follow their law.

Nothing of the sampler is used: ranks are counted here, copy by copy, a choice's scores are exact rationals rounded
down, and the chance of an outcome is the product over all choices. The outcome of the largest ratio is found
choice by choice, over what may be chosen on both sides of each. Copies without rows between two values are alike but for how
many of them lie on either side: the outer ones of each run are tried, and of many copies some. A law of more than 16 copies of
each point is looked at with 16.

Units    ratios of chances; copies are numbered through all points.
Sources  `docs/theory/quantiles.md#one-inside-the-other`, `docs/theory/certificates.md#audits`.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt

from dprelease.audit.laws import Worst, log_of
from dprelease.audit.sampler import fit
from dprelease.core.entropy import RandomBits, SystemBits
from dprelease.measurements.recursive_ranks import RecursiveRanksLaw
from dprelease.statistics.joint_ranks import Positions
from dprelease.statistics.recursive_ranks import UNITS

_TRIED = 32
"""Copies that are tried, where there are more."""
_COPIES = 16
"""Copies of each point, where a law has more: its proof is one for every number of them."""
_POINTS = 12
_ROWS = 3
Run = tuple[int, int, Fraction, Fraction]
"""First and last copy, and the stretch of ranks of each of them, in rows."""
Spot = tuple[int, int, Fraction]
"""A choice: its target's place, its level, its share of the way between the targets around it."""
Floats = npt.NDArray[np.float64]
Curve = tuple[tuple[Floats, Floats], tuple[Floats, Floats]]


class RecursiveLaw:
    """The law of one group."""

    def __init__(self, law: RecursiveRanksLaw, rows: Positions) -> None:
        self._law, self._targets, self._b = law.law, law.targets, law.b
        self._total, many = int(rows.total), law.copies
        self._many = many
        self.runs: list[Run] = []
        after = 0
        places = law.allowed.places(rows.codes + law.allowed.lower).tolist()
        for place, upto in zip(places, rows.upto.tolist(), strict=True):
            below = self.runs[-1][3] if self.runs else Fraction(0)
            if place * many > after:
                self.runs.append((after, place * many - 1, below, below))
            each = (upto - below) / many
            for i in range(many):
                copy = place * many + i
                self.runs.append((copy, copy, below + i * each, below + (i + 1) * each))
            after = (place + 1) * many
        end = len(law.allowed) * many
        if end > after:
            self.runs.append((after, end - 1, Fraction(self._total), Fraction(self._total)))
        self.end = end
        self.choice = lru_cache(maxsize=None)(self._choice)

    def _run(self, copy: int) -> Run:
        return self.runs[bisect_right(self.runs, copy, key=lambda run: run[0]) - 1]

    def _rank(self, copy: int) -> Fraction:
        _, _, low, high = self._run(copy)
        return (low + high) / 2

    def _steps(self, level: int) -> Fraction:
        return max(max(f, 1 - f) for _, at, f in tree(self._targets, self._b) if at == level)

    def _choice(self, node: Spot, lo: int | None, hi: int | None) -> tuple[dict[int, int], int]:
        """Return the weight of the first copy of each run between two (None: the ends), and that of all."""
        _, level, part = node
        base = Fraction(0) if lo is None else self._rank(lo)
        top = Fraction(self._total) if hi is None else self._rank(hi)
        first, last = (0 if lo is None else lo), (self.end - 1 if hi is None else hi)
        aim = base + part * (top - base)
        unit = math.floor(UNITS * self._steps(level) / max(part, 1 - part))
        found, total = {}, 0
        for start, end, low, high in self.runs:
            many = min(end, last) - max(start, first) + 1
            if many > 0:
                cut = [min(max(v, base), top) for v in (low, high)]
                off = max(Fraction(0), cut[0] - aim, aim - cut[1])
                score = math.floor(unit * off)
                found[start] = int(self._law.weights(np.array([score]))[0])
                total += many * found[start]
        return found, total

    def chance(self, node: Spot, lo: int | None, hi: int | None, copy: int) -> Fraction:
        """Return the chance of one copy in a choice between two."""
        found, total = self.choice(node, lo, hi)
        return Fraction(found[self._run(copy)[0]], total)


@lru_cache(maxsize=64)
def tree(targets: tuple[int, ...], b: int) -> tuple[Spot, ...]:
    """Return (place, level, share) of every choice: of least depth, each as even as that allows."""
    out: list[Spot] = []

    def grow(low: int, high: int, level: int, left: int) -> None:
        if high <= low:
            return
        ends = (targets[low - 1] if low else 0), (targets[high] if high < len(targets) else b)
        full = 2 ** (left - 1) - 1
        able = [i for i in range(low, high) if i - low <= full and high - 1 - i <= full]
        at = min(able, key=lambda i: (abs(targets[i] - Fraction(sum(ends), 2)), i))
        out.append((at, level, Fraction(targets[at] - ends[0], ends[1] - ends[0])))
        grow(low, at, level + 1, left - 1)
        grow(at + 1, high, level + 1, left - 1)

    levels = math.ceil(math.log2(len(targets) + 1))
    grow(0, len(targets), 0, levels)
    return tuple(out)


def recursive_worst(
    law: RecursiveRanksLaw, here: Positions, there: Positions, *, curves: bool
) -> tuple[Worst, Curve | None]:
    """Return the largest ratio of the chances of one outcome, either way, and the losses of the first choice.

    Args:
        here, there: the rows of one group in two tables; curves: whether losses are wanted. Those of the first
            choice alone are less than those of all, so what follows of them is a lower bound.
    """
    codes = np.union1d(here.codes, there.codes)
    few = _of_few(law)
    laws = [RecursiveLaw(few, rows.over(codes)) for rows in (here, there)]
    every = sorted({c for run in laws[0].runs for c in run[:2]})
    tried = every[:: max(1, math.ceil(len(every) / _TRIED))]
    nodes = tree(law.targets, law.b)
    ratio = max(_largest(one, other, nodes, tried) for one, other in (laws, laws[::-1]))
    whole = len(tried) == len(every) and all(end - start < 2 for start, end, *_ in laws[0].runs)
    worst = Worst(ratio, None, len(tried), complete=whole)
    return worst, _first_losses(laws, nodes[0]) if curves else None


def _first_losses(laws: Sequence[RecursiveLaw], root: Spot) -> Curve:
    """Return (losses, chances) of the first choice, in both directions."""
    (p, all_p), (r, all_r) = (law.choice(root, None, None) for law in laws)
    many = np.array([end - start + 1 for start, end, *_ in laws[0].runs], dtype=np.float64)
    logs = [
        np.array([log_of(Fraction(found[start], total)) for start in p])
        for found, total in ((p, all_p), (r, all_r))
    ]
    apart = logs[0] - logs[1]
    return (apart, many * np.exp(logs[0])), (-apart, many * np.exp(logs[1]))


def _largest(
    one: RecursiveLaw, other: RecursiveLaw, nodes: Sequence[Spot], tried: Sequence[int]
) -> Fraction:
    """Return the largest quotient of the chances of one outcome among the copies that are tried.

    Logarithms of the quotients find it; it is then a product of rationals.
    """

    @cache
    def quotients(node: Spot, lo: int | None, hi: int | None) -> tuple[tuple[int, float], ...]:
        between = [c for c in tried if (lo is None or lo <= c) and (hi is None or c <= hi)]
        return tuple((c, log_of(_quotient(one, other, node, lo, hi, c))) for c in between)

    @cache
    def best(low: int, high: int, lo: int | None, hi: int | None) -> tuple[float, tuple[int, ...]]:
        """Return the logarithm for the targets from `low` up to `high`, and their copies."""
        if high <= low:
            return 0.0, ()
        node = next(node for node in nodes if low <= node[0] < high)
        found: tuple[float, tuple[int, ...]] = (-math.inf, ())
        for copy, own in quotients(node, lo, hi):
            left, right = best(low, node[0], lo, copy), best(node[0] + 1, high, copy, hi)
            logs = own + left[0] + right[0]
            if logs > found[0]:
                found = logs, (*left[1], copy, *right[1])
        return found

    path = best(0, len(nodes), None, None)[1]
    product, ends = Fraction(1), dict(enumerate(path))
    done: set[int] = set()  # the targets of the choices above
    for node in nodes:
        low = max((place for place in done if place < node[0]), default=-1)
        high = min((place for place in done if place > node[0]), default=-1)
        done.add(node[0])
        product *= _quotient(one, other, node, ends.get(low), ends.get(high), path[node[0]])
    return product


def _quotient(
    one: RecursiveLaw,
    other: RecursiveLaw,
    node: Spot,
    lo: int | None,
    hi: int | None,
    copy: int,
) -> Fraction:
    return one.chance(node, lo, hi, copy) / other.chance(node, lo, hi, copy)


def _of_few(whole: RecursiveRanksLaw) -> RecursiveRanksLaw:
    """Return the draw with at most `_COPIES` copies of each point."""
    few = min(whole.copies, _COPIES)
    law = replace(whole.law, candidates=few * len(whole.allowed))
    return replace(whole, copies=few, law=law)


def recursive_fit(
    whole: RecursiveRanksLaw, count: int, bits: RandomBits | None = None
) -> list[float]:
    """Return the p-values of the first choice's point, and of its last level's, over draws of a made-up group."""
    points = len(whole.allowed)
    places = np.unique(np.linspace(0, points - 1, min(points, _POINTS)).astype(np.int64))
    codes = whole.allowed.points_at(places) - whole.allowed.lower
    upto = _ROWS * np.arange(1, places.size + 1)
    rows = Positions(codes, upto - _ROWS, upto, int(upto[-1]), whole.targets, whole.b)
    whole = _of_few(whole)
    law = RecursiveLaw(whole, rows)
    made = np.empty((count, 1), dtype=object)
    made[:, 0] = [rows] * count
    drawn = whole.draw(made, bits or SystemBits())
    nodes = tree(whole.targets, whole.b)
    found, total = law.choice(nodes[0], None, None)
    lengths = {run[0]: run[1] - run[0] + 1 for run in law.runs}
    starts = np.array([start // whole.copies for start in found])
    points_of = np.unique(starts)
    chance = np.zeros(points_of.size)
    for start, weight in found.items():
        chance[np.searchsorted(points_of, start // whole.copies)] += lengths[start] * weight / total
    seen = np.searchsorted(points_of, drawn[:, nodes[0][0]].astype(np.int64), side="right") - 1
    return [fit(seen, np.arange(points_of.size), chance)]
