"""Several quantiles chosen together: what one row can do to the errors of gaps, and to the whole law."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import pytest

from dprelease.aggregates.joint_ranks import LEVELS, joint_spreads
from dprelease.audit.joint import joint_worst
from dprelease.measurements.joint_ranks import JointExponentialDraw
from dprelease.numeric import exp_lower
from tests.contracts.joint_rank_worlds import (
    TARGETS,
    Outcome,
    Rows,
    Targets,
    added,
    drawer,
    largest_ratio,
    masses,
    positions,
    replaced,
    steps,
    tables,
)

MOST = 3
EPSILON = Fraction(2)


def spread_of(rows: Rows, others: list[Rows], targets: Targets) -> int:
    """Return P + Q in steps: the most that errors rise together, and the most that they fall together."""
    worst, before = 0, steps(rows, targets)
    for other in others:
        rise, fall, after = 0, 0, steps(other, targets)
        for y, old in before.items():
            change = [b - a for a, b in zip(old, after[y], strict=True)]
            rise = max(rise, sum(c for c in change if c > 0))
            fall = max(fall, sum(-c for c in change if c < 0))
        worst = max(worst, rise + fall)
    return worst


@pytest.mark.parametrize("targets", TARGETS)
def test_no_row_moves_the_errors_further_than_stated(targets: Targets) -> None:
    l1_added_row, l1_replaced_row = joint_spreads(targets)
    found_row = max(spread_of(rows, list(added(rows)), targets) for rows in tables(MOST))
    found_swap = max(
        spread_of(rows, list(replaced(rows)), targets) for rows in tables(MOST) if rows
    )
    assert found_row <= l1_added_row
    assert found_swap <= l1_replaced_row


def test_the_spread_of_quartiles_is_three_rows_added_and_four_replaced() -> None:
    quartiles = ((1, 4, 0), (2, 4, 0), (3, 4, 0))
    assert joint_spreads(quartiles) == (3 * 4 * 2 * LEVELS, 4 * 4 * 2 * LEVELS)


@pytest.mark.parametrize(
    "targets",
    [((2, 4, 0), (1, 4, 0)), ((5, 4, 0),), ((-1, 4, 0),), ((1, 4, 1),), ((1, 4, 0), (2, 5, 0))],
)
def test_targets_that_do_not_rise_have_no_spread(targets: Targets) -> None:
    with pytest.raises(ValueError, match="rise"):
        joint_spreads(targets)


def masses_of(draw: JointExponentialDraw, targets: Targets) -> Callable[[Rows], dict[Outcome, int]]:
    """Return what gives the weight of every sequence, of each table once."""
    return cache(lambda rows: masses(draw, rows, targets))


@pytest.mark.parametrize("neighbours", ["added", "replaced"])
@pytest.mark.parametrize("targets", TARGETS)
def test_the_whole_law_keeps_its_epsilon(targets: Targets, neighbours: str) -> None:
    spread = joint_spreads(targets)[neighbours == "replaced"]
    draw = drawer(targets, EPSILON, spread)
    mass = masses_of(draw, targets)
    assert draw.law.certify().epsilon_upper <= EPSILON
    limit, largest = exp_lower(EPSILON), Fraction(0)
    for rows in tables(MOST):
        for other in (added if neighbours == "added" else replaced)(rows):
            largest = max(largest, largest_ratio(mass(rows), mass(other)))
    assert largest <= limit
    assert math.log(largest) > 0.4 * EPSILON  # control: the bound is not idle


def test_twin_a_third_of_the_spread_is_caught() -> None:
    targets = TARGETS[1]
    mass = masses_of(drawer(targets, EPSILON, joint_spreads(targets)[0] // 3), targets)
    largest = max(
        largest_ratio(mass(rows), mass(other)) for rows in tables(MOST) for other in added(rows)
    )
    assert largest > exp_lower(EPSILON)


def test_twin_the_addition_of_one_row_does_not_cover_a_replacement() -> None:
    targets = ((1, 2, 0),)
    assert joint_spreads(targets)[0] < joint_spreads(targets)[1]
    found = max(spread_of(rows, list(replaced(rows)), targets) for rows in tables(MOST) if rows)
    assert found > joint_spreads(targets)[0]


@pytest.mark.parametrize("targets", TARGETS)
def test_the_audit_finds_the_largest_ratio_of_all_outcomes(targets: Targets) -> None:
    draw = drawer(targets, EPSILON)
    mass = masses_of(draw, targets)
    for rows in [(), (0,), (0, 2), (1, 1, 2)]:
        for other in [*added(rows), *replaced(rows)]:
            found = joint_worst(draw, positions(rows, targets), positions(other, targets))
            assert found == largest_ratio(mass(rows), mass(other))


def test_heaps_hold_several_quantiles() -> None:
    """With 8 of 10 rows at one point, that point three times is the likeliest answer to the quartiles."""
    targets = ((1, 4, 0), (2, 4, 0), (3, 4, 0))
    draw = drawer(targets, Fraction(8), joint_spreads(targets)[0])
    rows = (0, *(1,) * 8, 2)
    chances: dict[tuple[int, ...], int] = {}
    for outcome, mass in masses(draw, rows, targets).items():
        key = tuple(point for point, _ in outcome)
        chances[key] = chances.get(key, 0) + mass
    assert max(chances, key=lambda key: chances[key]) == (1, 1, 1)
    assert chances[1, 1, 1] > 5 * chances[0, 0, 1]  # whose gaps would hold 0, 0, 8 of the rows at 1
