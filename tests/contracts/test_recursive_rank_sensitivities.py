"""Quantiles one inside the other: what one row can do to the scores of a level, and to the whole law."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import pytest

from dprelease.audit.recursive import recursive_worst
from dprelease.core.numeric import exp_lower
from dprelease.statistics.recursive_ranks import UNITS, level_spreads, recursive_spreads
from tests.contracts import recursive_rank_worlds as worlds
from tests.contracts.recursive_rank_worlds import (
    WORLDS,
    Law,
    Rows,
    Table,
    Targets,
    Tree,
    added,
    drawer,
    largest_ratio,
    positions,
    replaced,
    tables,
)

EPSILON = Fraction(2)
EVERY = pytest.mark.parametrize("name", WORLDS)


def moved(one: Table, other: Table, tree: Tree, level: int) -> int:
    """Return P + Q of a level: the most over all choices above of the sum over its choices."""
    here = [node for node in tree if node[3] == level]
    above = {end for node in here for end in node[1:3] if end is not None}
    assert len(above) <= 1  # small trees
    most = 0
    for chosen in one.between(None, None) if above else [None]:
        both = 0
        for node in here:
            lo, hi = (None if end is None else chosen for end in node[1:3])
            changes = [
                other.score(node, lo, hi, y) - one.score(node, lo, hi, y)
                for y in one.between(lo, hi)
            ]
            both += max(0, *changes) + max(0, *(-c for c in changes))
        most = max(most, both)
    return most


def largest_moves(name: str, points: int, most: int) -> dict[tuple[int, str], int]:
    """Return the largest P + Q of each level, of rows added and of rows replaced."""
    targets, tree = WORLDS[name]
    made = {rows: Table(rows, points, targets, tree) for rows in tables(points, most + 1)}
    found: dict[tuple[int, str], int] = {}
    for rows in tables(points, most):
        for how, others in (("added", added(rows, points)), ("replaced", replaced(rows, points))):
            for other in others:
                for level in {node[3] for node in tree}:
                    here = moved(made[rows], made[other], tree, level)
                    found[level, how] = max(found.get((level, how), 0), here)
    return found


@EVERY
def test_no_row_moves_the_scores_of_a_level_further_than_stated(name: str) -> None:
    stated = level_spreads(WORLDS[name][0])
    found = largest_moves(name, 2, 3)
    for level, (row, swap) in enumerate(stated):
        assert 0.8 * row < found[level, "added"] <= row
        assert 0.5 * swap < found[level, "replaced"] <= swap


def test_twin_a_spread_without_room_for_rounding_is_passed() -> None:
    """Sevenths: scores are whole, aims are not."""
    found = largest_moves("uneven", 2, 3)
    assert found[0, "added"] > math.ceil(2 * Fraction(4, 7) * UNITS)


def test_twin_the_addition_of_one_row_does_not_cover_a_replacement() -> None:
    ((row, swap), *_) = level_spreads(WORLDS["one"][0])
    found = largest_moves("one", 2, 3)
    assert row < found[0, "replaced"] <= swap


def test_the_spread_of_quartiles_is_about_two_rows_added_and_four_replaced() -> None:
    row, swap = recursive_spreads(WORLDS["quartiles"][0])
    assert 2 * UNITS < row < 2.001 * UNITS
    assert 4 * UNITS < swap < 4.001 * UNITS


@pytest.mark.parametrize(
    "targets",
    [
        ((2, 4, 0), (1, 4, 0)), ((5, 4, 0),), ((-1, 4, 0),), ((1, 4, 1),), ((1, 4, 0), (2, 5, 0)),
        ((1, 4, 0), (1, 4, 0)), ((0, 4, 0),), ((4, 4, 0),), (),
    ],
)  # fmt: skip
def test_targets_that_do_not_rise_between_0_and_the_whole_have_no_spread(targets: Targets) -> None:
    with pytest.raises(ValueError, match=r"rise|shares"):
        recursive_spreads(targets)


def laws(
    name: str, draw: object, rows: Iterable[Rows], points: int
) -> dict[Rows, dict[object, Fraction]]:
    targets, tree = WORLDS[name]
    return {
        r: Law(draw, Table(r, points, targets, tree)).outcomes(tree)  # type: ignore[arg-type]
        for r in rows
    }  # type: ignore[return-value]


def largest(name: str, draw: object, how: str, points: int, most: int) -> Fraction:
    found = laws(name, draw, tables(points, most + 1), points)
    step = added if how == "added" else replaced
    return max(
        (
            largest_ratio(found[rows], found[other])  # type: ignore[arg-type]
            for rows in tables(points, most)
            for other in step(rows, points)
        ),
        default=Fraction(1),
    )


@pytest.mark.parametrize("how", ["added", "replaced"])
@pytest.mark.parametrize(
    ("name", "points", "most"), [("one", 3, 3), ("two", 2, 3), ("low", 2, 3), ("quartiles", 2, 1)]
)
def test_the_whole_law_keeps_its_epsilon(name: str, points: int, most: int, how: str) -> None:
    targets, _ = WORLDS[name]
    spread = recursive_spreads(targets)[how == "replaced"]
    draw = drawer(targets, EPSILON, points, spread)
    assert draw.law.certify().epsilon_upper <= EPSILON
    found = largest(name, draw, how, points, most)
    assert found <= exp_lower(EPSILON)
    if points > 1:  # of one point a replacement changes nothing
        assert math.log(found) > 0.2 * EPSILON  # control: the bound is not idle


def test_twin_the_spread_of_one_level_alone_is_caught() -> None:
    targets, _ = WORLDS["two"]
    one_level = max(row for row, _ in level_spreads(targets)) // 2
    draw = drawer(targets, EPSILON, 2, one_level)
    assert largest("two", draw, "added", 2, 3) > exp_lower(EPSILON)


@EVERY
def test_the_audit_finds_the_largest_ratio_of_all_outcomes(name: str) -> None:
    targets, _ = WORLDS[name]
    points = 2 if len(targets) < 3 else 1
    draw = drawer(targets, EPSILON, points)
    for rows in [(), (0,), (0, points - 1)]:
        for other in [*added(rows, points), *replaced(rows, points)]:
            worst, _ = recursive_worst(
                draw, positions(rows, targets), positions(other, targets), curves=False
            )
            one, two = (laws(name, draw, [r], points)[r] for r in (rows, other))
            assert worst.ratio == largest_ratio(one, two)  # type: ignore[arg-type]


def test_the_worlds_here_are_those_of_the_library() -> None:
    """But for the number of copies, of which the law has more: no spread depends on it."""
    assert worlds.STEPS == UNITS
