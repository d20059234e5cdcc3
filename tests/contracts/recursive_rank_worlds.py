"""Choices one inside the other the slow and obvious way: every copy, from lists of rows and trees written by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache

import numpy as np

from dprelease.measurements.recursive_ranks import RecursiveRanksLaw
from dprelease.schema.domain import GridSet
from dprelease.statistics.joint_ranks import Positions
from dprelease.statistics.recursive_ranks import recursive_spreads

COPIES = 16
STEPS = 2**14
Rows = tuple[int, ...]
Targets = tuple[tuple[int, int, int], ...]
Node = tuple[int, int | None, int | None, int]
"""(target, the one below, the one above, level) of a choice."""
Tree = tuple[Node, ...]
"""Every choice, those above first."""
Outcome = tuple[int, ...]

WORLDS: dict[str, tuple[Targets, Tree]] = {
    "one": (((1, 3, 0),), ((0, None, None, 0),)),
    "two": (((1, 3, 0), (2, 3, 0)), ((0, None, None, 0), (1, 0, None, 1))),
    "low": (((1, 10, 0), (2, 10, 0)), ((1, None, None, 0), (0, None, 1, 1))),
    "quartiles": (
        ((1, 4, 0), (2, 4, 0), (3, 4, 0)),
        ((1, None, None, 0), (0, None, 1, 1), (2, 1, None, 1)),
    ),
    "uneven": (
        ((1, 7, 0), (3, 7, 0), (6, 7, 0)),
        ((1, None, None, 0), (0, None, 1, 1), (2, 1, None, 1)),
    ),
}


def tables(points: int, most: int) -> Iterator[Rows]:
    for n in range(most + 1):
        yield from itertools.combinations_with_replacement(range(points), n)


def added(rows: Rows, points: int) -> Iterator[Rows]:
    for v in range(points):
        yield tuple(sorted((*rows, v)))


def replaced(rows: Rows, points: int) -> list[Rows]:
    """Return all other tables, each once."""
    every = itertools.product(range(len(rows)), range(points))
    return sorted({tuple(sorted((*rows[:i], v, *rows[i + 1 :]))) for i, v in every} - {rows})


@cache
def share_of(node: Node, targets: Targets) -> Fraction:
    """Return how far a choice's target is on the way between those around it."""
    place, low, high, _ = node
    start = Fraction(0) if low is None else Fraction(*targets[low][:2])
    end = Fraction(1) if high is None else Fraction(*targets[high][:2])
    return (Fraction(*targets[place][:2]) - start) / (end - start)


@cache
def unit_of(node: Node, targets: Targets, tree: Tree) -> int:
    """Return the score steps of a choice to a row."""
    moved = {other: max(f, 1 - f) for other in tree for f in [share_of(other, targets)]}
    most = max(m for other, m in moved.items() if other[3] == node[3])
    return math.floor(STEPS * most / moved[node])


class Table:
    """One table: stretches and scores of all copies; ranks are in parts of a row, so many of which are a copy's middle."""

    def __init__(self, rows: Rows, points: int, targets: Targets, tree: Tree) -> None:
        self.total, self._targets, self._tree = 2 * COPIES * len(rows), targets, tree
        held = [2 * sum(1 for v in rows if v == p) for p in range(points)]
        below = [2 * COPIES * sum(1 for v in rows if v < p) for p in range(points)]
        self.stretches = [
            (below[p] + i * held[p], below[p] + (i + 1) * held[p])
            for p in range(points)
            for i in range(COPIES)
        ]
        self.score, self.aim = cache(self._score), cache(self._aim)

    def middle(self, copy: int | None, end: int) -> int:
        return end if copy is None else sum(self.stretches[copy]) // 2

    def between(self, lo: int | None, hi: int | None) -> range:
        return range(lo or 0, len(self.stretches) if hi is None else hi + 1)

    def _aim(self, node: Node, lo: int | None, hi: int | None) -> tuple[int, int, int, int, int]:
        """Return the ends of what a choice is between, and times a number where it aims; that number, and the steps of the score."""
        base, top = self.middle(lo, 0), self.middle(hi, self.total)
        near, whole = share_of(node, self._targets).as_integer_ratio()
        unit = unit_of(node, self._targets, self._tree)
        return base, top, whole * base + near * (top - base), whole, unit

    def _score(self, node: Node, lo: int | None, hi: int | None, copy: int) -> int:
        base, top, aim, whole, unit = self.aim(node, lo, hi)
        first, last = (whole * min(max(end, base), top) for end in self.stretches[copy])
        return unit * max(0, first - aim, aim - last) // (2 * COPIES * whole)


class Law:
    """The law of one table under a draw's weights: the chance of every copy in every choice."""

    def __init__(self, draw: RecursiveRanksLaw, table: Table) -> None:
        self._draw, self.table = draw, table
        self.chances = cache(self._chances)

    def _chances(self, node: Node, lo: int | None, hi: int | None) -> Mapping[int, Fraction]:
        between = self.table.between(lo, hi)
        scores = np.array([self.table.score(node, lo, hi, copy) for copy in between])
        weights = [int(w) for w in self._draw.law.weights(scores)]
        total = sum(weights)
        return {copy: Fraction(w, total) for copy, w in zip(between, weights, strict=True)}

    def outcomes(self, tree: Tree) -> dict[Outcome, Fraction]:
        """Return the chance of every sequence of copies."""
        found: dict[Outcome, Fraction] = {(): Fraction(1)}  # in the tree's order
        order = [node[0] for node in tree]
        for node in tree:
            longer: dict[Outcome, Fraction] = {}
            for chosen, chance in found.items():
                at = dict(zip(order, chosen, strict=False))
                lo, hi = (None if end is None else at[end] for end in node[1:3])
                for copy, own in self.chances(node, lo, hi).items():
                    longer[*chosen, copy] = chance * own
            found = longer
        return found


def drawer(
    targets: Targets, epsilon: Fraction, points: int, spread: int | None = None
) -> RecursiveRanksLaw:
    return RecursiveRanksLaw.calibrate(
        GridSet(((0, points - 1),)), Fraction(1), targets,
        spread=spread or max(recursive_spreads(targets)), epsilon=epsilon, copies=COPIES,
    )  # fmt: skip


def positions(rows: Rows, targets: Targets) -> Positions:
    codes = np.unique(np.array(rows, dtype=np.int64))
    below = np.array([sum(v < c for v in rows) for c in codes], dtype=np.int64)
    upto = np.array([sum(v <= c for v in rows) for c in codes], dtype=np.int64)
    return Positions(codes, below, upto, len(rows), tuple(a for a, _, _ in targets), targets[0][1])


def largest_ratio(one: Mapping[Outcome, Fraction], other: Mapping[Outcome, Fraction]) -> Fraction:
    up = down = Fraction(1)
    for y, chance in one.items():
        a = chance.numerator * other[y].denominator, chance.denominator * other[y].numerator
        if a[0] * up.denominator > a[1] * up.numerator:
            up = Fraction(*a)
        elif a[1] * down.denominator > a[0] * down.numerator:
            down = Fraction(a[1], a[0])
    return max(up, down)
