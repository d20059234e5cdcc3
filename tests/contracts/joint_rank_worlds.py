"""Joint choices by rank the slow and obvious way: every sequence of candidates, from lists of rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache

import numpy as np

from dprelease.aggregates.joint_ranks import LEVELS, Positions, joint_spreads
from dprelease.measurements.joint_ranks import JointExponentialDraw
from dprelease.schema.domain import GridSet

Rows = tuple[int, ...]
Targets = tuple[tuple[int, int, int], ...]
Outcome = tuple[tuple[int, int], ...]

POINTS = 3
TARGETS: tuple[Targets, ...] = (
    ((1, 2, 0),),
    ((1, 4, 0), (3, 4, 0)),
    ((1, 10, 0), (2, 10, 0)),
    ((1, 3, 0), (1, 3, 0)),
)


def sequences(many: int, points: int = POINTS) -> Iterator[Outcome]:
    every = list(itertools.product(range(points), range(LEVELS)))
    yield from itertools.combinations_with_replacement(every, many)


@cache
def rank(rows: Rows, point: int, level: int) -> Fraction:
    """Return the rows below a candidate, its share of the rows at its point included."""
    below = sum(1 for v in rows if v < point)
    return below + Fraction(2 * level + 1, 2 * LEVELS) * sum(1 for v in rows if v == point)


def errors(rows: Rows, outcome: Outcome, targets: Targets) -> list[Fraction]:
    """Return the error of each gap, in rows."""
    ranks = [Fraction(0), *(rank(rows, *one) for one in outcome), Fraction(len(rows))]
    ends = [Fraction(0), *(Fraction(a, b) for a, b, _ in targets), Fraction(1)]
    return [
        abs((after - before) - (high - low) * len(rows))
        for (before, after), (low, high) in zip(
            itertools.pairwise(ranks), itertools.pairwise(ends), strict=True
        )
    ]


@cache
def steps(rows: Rows, targets: Targets, points: int = POINTS) -> dict[Outcome, list[int]]:
    """Return the errors of every sequence's gaps in whole steps, the same for every law."""
    unit = targets[0][1] * 2 * LEVELS
    return {
        y: [int(unit * e) for e in errors(rows, y, targets)]
        for y in sequences(len(targets), points)
    }


def drawer(targets: Targets, epsilon: Fraction, spread: int | None = None) -> JointExponentialDraw:
    grid = GridSet(((0, POINTS - 1),))
    return JointExponentialDraw.calibrate(
        grid, Fraction(1), len(targets),
        spread=spread or max(joint_spreads(targets)), epsilon=epsilon,
    )  # fmt: skip


def positions(rows: Rows, targets: Targets) -> Positions:
    codes = np.unique(np.array(rows, dtype=np.int64))
    below = np.array([sum(v < c for v in rows) for c in codes], dtype=np.int64)
    upto = np.array([sum(v <= c for v in rows) for c in codes], dtype=np.int64)
    return Positions(codes, below, upto, len(rows), tuple(a for a, _, _ in targets), targets[0][1])


def masses(draw: JointExponentialDraw, rows: Rows, targets: Targets) -> dict[Outcome, int]:
    """Return the weight of every sequence: the product of its gaps' weights."""
    gaps = steps(rows, targets, len(draw.allowed))
    weights = draw.law.weights(np.array(list(gaps.values())))
    return {y: math.prod(row) for y, row in zip(gaps, weights.tolist(), strict=True)}


def tables(most: int) -> Iterator[Rows]:
    for n in range(most + 1):
        yield from itertools.combinations_with_replacement(range(POINTS), n)


def largest_ratio(one: dict[Outcome, int], other: dict[Outcome, int]) -> Fraction:
    totals = sum(one.values()), sum(other.values())
    up = down = (0, 1)
    for y, mass in one.items():
        a, b = mass * totals[1], other[y] * totals[0]
        up = (a, b) if a * up[1] > b * up[0] else up
        down = (b, a) if b * down[1] > a * down[0] else down
    return max(Fraction(*up), Fraction(*down))


def replaced(rows: Rows) -> Iterator[Rows]:
    for i, v in itertools.product(range(len(rows)), range(POINTS)):
        yield tuple(sorted((*rows[:i], v, *rows[i + 1 :])))


def added(rows: Rows) -> Iterator[Rows]:
    for v in range(POINTS):
        yield tuple(sorted((*rows, v)))


def published(outcomes: Sequence[Outcome]) -> set[tuple[int, ...]]:
    return {tuple(p for p, _ in y) for y in outcomes}
