"""Stated rank errors of quantiles one inside the other, by exact enumeration: heaps, few rows, all rows at an end."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dprelease.core.entropy import SystemBits
from dprelease.measurements.recursive_ranks import RecursiveRanksLaw
from dprelease.statistics.joint_ranks import Positions
from dprelease.statistics.recursive_ranks import recursive_spreads
from tests.contracts.recursive_rank_worlds import (
    COPIES,
    WORLDS,
    Law,
    Rows,
    Table,
    Targets,
    Tree,
    drawer,
)
from tests.sizes import some

LEVEL = 0.95


def missed(counts: tuple[int, ...], point: int, target: tuple[int, int, int]) -> Fraction:
    """Return how many rows the target rank is from the nearest rank of the rows at a point."""
    aim, below = Fraction(target[0] * sum(counts), target[1]), sum(counts[:point])
    return max(Fraction(0), below - aim, aim - below - counts[point])


def law_of(draw: RecursiveRanksLaw, counts: tuple[int, ...], targets: Targets, tree: Tree) -> Law:
    rows: Rows = tuple(point for point, held in enumerate(counts) for _ in range(held))
    return Law(draw, Table(rows, len(counts), targets, tree))


def beyond(
    law: Law, counts: tuple[int, ...], targets: Targets, tree: Tree, error: Fraction
) -> Fraction:
    """Return the exact chance that one value or more is further than `error` rows from its target."""

    def kept(low: int, high: int, lo: int | None, hi: int | None) -> Fraction:
        """Return the chance that the targets from `low` up to `high` are near."""
        if high <= low:
            return Fraction(1)
        node = next(node for node in tree if low <= node[0] < high)
        chance = Fraction(0)
        for copy, own in law.chances(node, lo, hi).items():
            if missed(counts, copy // COPIES, targets[node[0]]) <= error:
                left, right = kept(low, node[0], lo, copy), kept(node[0] + 1, high, copy, hi)
                chance += own * left * right
        return chance

    return 1 - kept(0, len(targets), None, None)


@pytest.mark.parametrize("name", some(WORLDS, 2))
def test_the_rank_error_holds_for_all_small_tables_with_heaps(name: str) -> None:
    targets, tree = WORLDS[name]
    draw, worst, loose, told = drawer(targets, Fraction(12), 3), Fraction(0), Fraction(0), 0
    heaps = (0, 1, 5, 40) if len(targets) < 3 else (0, 2, 40)
    for counts in itertools.product(heaps, repeat=3):
        error = draw.rank_error(targets[0][1], LEVEL, max(1, *counts))
        assert error is not None  # whatever rows share a value
        if 0 < error < sum(counts):
            told += 1
            law = law_of(draw, counts, targets, tree)
            worst = max(worst, beyond(law, counts, targets, tree, Fraction(error)))
            if loose <= Fraction(1, 20):
                loose = beyond(law, counts, targets, tree, Fraction(error, 10))
    assert told > 10
    assert worst <= Fraction(1, 20)
    assert loose > Fraction(1, 20)  # control: a tenth of it is not kept


def test_twin_an_error_that_forgets_heaps_is_missed() -> None:
    """Half of 20,000 rows share the least value, and the first target parts them away from all copies' middles."""
    targets: Targets = ((9, 20, 0), (15, 20, 0))
    tree: Tree = ((0, None, None, 0), (1, 0, None, 1))
    draw = RecursiveRanksLaw.calibrate(
        drawer(targets, Fraction(1), 10_001).allowed, Fraction(1), targets, spread=2**16, epsilon=Fraction(40), copies=16
    )  # fmt: skip
    assert [(n.target, n.low, n.high, n.level) for n in draw.shape.nodes] == [
        (0, -1, -1, 0), (1, 0, -1, 1),
    ]  # fmt: skip
    assert tree[1][1] == 0
    codes = np.arange(10_001)
    upto = 10_000 + np.arange(10_001)
    below = np.concatenate([[0], upto[:-1]])
    rows = Positions(codes, below, upto, 20_000, (9, 15), 20)
    forgets, rule = (draw.rank_error(20, LEVEL, sharing) for sharing in (1, 10_000))
    assert forgets is not None
    assert rule is not None
    exact = np.empty((40, 1), dtype=object)
    exact[:, 0] = [rows] * 40
    drawn = draw.draw(exact, SystemBits())[:, 1].astype(np.int64)
    off = np.maximum(0, np.maximum(below[drawn] - 15_000, 15_000 - upto[drawn]))
    assert (off <= rule).all()
    assert (off > forgets).mean() > 0.05


def test_what_many_rows_of_a_value_part_is_met_between_them() -> None:
    """A million rows on eleven values, sevenths: none is further from its target than one choice would be."""
    targets = tuple((i, 8, 0) for i in range(1, 8))
    draw = RecursiveRanksLaw.calibrate(
        drawer(targets, Fraction(1), 100_001).allowed, Fraction(1), targets,
        spread=recursive_spreads(targets)[0], epsilon=Fraction(1),
    )  # fmt: skip
    codes = np.arange(0, 100_001, 10_000)
    upto = np.cumsum(
        [
            124_000,
            70_000,
            56_200,
            200_000,
            49_900,
            100_000,
            25_000,
            125_100,
            99_800,
            100_000,
            50_000,
        ]
    )
    below = np.concatenate([[0], upto[:-1]])
    rows = Positions(codes, below, upto, 10**6, tuple(range(1, 8)), 8)
    exact = np.empty((30, 1), dtype=object)
    exact[:, 0] = [rows] * 30
    drawn = draw.draw(exact, SystemBits()).astype(np.int64)
    place = np.searchsorted(codes, drawn)
    assert (codes[place] == drawn).all()  # none between them
    aims = 125_000 * np.arange(1, 8)
    off = np.maximum(0, np.maximum(below[place] - aims, aims - upto[place]))
    assert off.max() < 200


def test_equal_rows_are_met() -> None:
    """2,000 equal rows, eighths, epsilon 1."""
    targets = tuple((i, 8, 0) for i in range(1, 8))
    draw = drawer(targets, Fraction(1), 121)
    rows = Positions(np.array([50]), np.array([0]), np.array([2_000]), 2_000, tuple(range(1, 8)), 8)
    exact = np.empty((50, 1), dtype=object)
    exact[:, 0] = [rows] * 50
    assert (draw.draw(exact, SystemBits()) == 50).mean() > 0.99
