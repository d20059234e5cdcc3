"""Joint choices by rank the slow and obvious way: every sequence of candidates, from lists of rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import numpy as np

from dprelease.measurements.joint_ranks import JointLaw
from dprelease.schema.domain import GridSet
from dprelease.statistics.joint_ranks import Positions, joint_spreads

Rows = tuple[int, ...]
Targets = tuple[tuple[int, int, int], ...]
Outcome = tuple[int, ...]

POINTS = 4
TARGETS: tuple[Targets, ...] = (
    ((1, 2, 0),),
    ((1, 4, 0), (3, 4, 0)),
    ((1, 10, 0), (2, 10, 0)),
    ((1, 3, 0), (1, 3, 0)),
    ((1, 4, 0), (2, 4, 0), (3, 4, 0)),
)


def sequences(many: int, points: int = POINTS) -> Iterator[Outcome]:
    yield from itertools.combinations_with_replacement(range(points), many)


@cache
def ends(rows: Rows, point: int) -> tuple[int, int]:
    """Return the first and the last rank of a point: the rows below it, and those at it too."""
    below = sum(1 for v in rows if v < point)
    return below, below + sum(1 for v in rows if v == point)


def in_steps(rows: Rows, outcome: Outcome, targets: Targets) -> list[int]:
    """Return by how much the miss changes at every value and after the last, in steps: so many are a row."""
    misses = [0]
    for point, (a, b, _) in zip(outcome, targets, strict=True):
        low, high = (b * end - a * len(rows) for end in ends(rows, point))
        misses.append(min(max(misses[-1], low), high))
    return [abs(after - before) for before, after in itertools.pairwise([*misses, 0])]


def errors(rows: Rows, outcome: Outcome, targets: Targets) -> list[Fraction]:
    """Return the same in rows."""
    return [Fraction(e, targets[0][1]) for e in in_steps(rows, outcome, targets)]


@cache
def steps(rows: Rows, targets: Targets, points: int = POINTS) -> dict[Outcome, list[int]]:
    """Return the errors of every sequence in steps, the same for every law."""
    return {y: in_steps(rows, y, targets) for y in sequences(len(targets), points)}


def drawer(
    targets: Targets, epsilon: Fraction, spread: int | None = None, points: int = POINTS
) -> JointLaw:
    grid = GridSet(((0, points - 1),))
    return JointLaw.calibrate(
        grid, Fraction(1), len(targets),
        spread=spread or max(joint_spreads(targets)), epsilon=epsilon,
    )  # fmt: skip


def positions(rows: Rows, targets: Targets) -> Positions:
    codes = np.unique(np.array(rows, dtype=np.int64))
    below = np.array([sum(v < c for v in rows) for c in codes], dtype=np.int64)
    upto = np.array([sum(v <= c for v in rows) for c in codes], dtype=np.int64)
    return Positions(codes, below, upto, len(rows), tuple(a for a, _, _ in targets), targets[0][1])


def masses(draw: JointLaw, rows: Rows, targets: Targets) -> dict[Outcome, int]:
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


def replaced(rows: Rows) -> list[Rows]:
    """Return all other tables, each once."""
    every = itertools.product(range(len(rows)), range(POINTS))
    return sorted({tuple(sorted((*rows[:i], v, *rows[i + 1 :]))) for i, v in every} - {rows})


def added(rows: Rows) -> Iterator[Rows]:
    for v in range(POINTS):
        yield tuple(sorted((*rows, v)))
