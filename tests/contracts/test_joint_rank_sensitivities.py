"""Several quantiles chosen together: what one row can do to the errors of gaps, and to the whole law."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache

import pytest

from dprelease.audit.joint import joint_worst
from dprelease.core.numeric import exp_lower
from dprelease.measurements.joint_ranks import JointLaw
from dprelease.statistics.joint_ranks import joint_spreads
from tests.contracts.joint_rank_worlds import (
    TARGETS,
    Outcome,
    Rows,
    Targets,
    added,
    drawer,
    ends,
    errors,
    in_steps,
    largest_ratio,
    masses,
    positions,
    replaced,
    sequences,
    steps,
    tables,
)

MOST = 4
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


def heaps(most: int) -> Iterator[Rows]:
    for held in itertools.product(range(most + 1), repeat=3):
        if sum(held) <= most:
            yield tuple(v for v, many in zip((0, 1, 3), held, strict=True) for _ in range(many))


@pytest.mark.parametrize("targets", TARGETS)
def test_no_row_moves_the_errors_further_than_stated(targets: Targets) -> None:
    """Tables of up to four rows, and of up to ten on three values: never passed, and attained where targets differ."""
    every = {*tables(MOST), *heaps(10)}
    found_row = max(spread_of(rows, list(added(rows)), targets) for rows in every)
    found_swap = max(spread_of(rows, list(replaced(rows)), targets) for rows in every if rows)
    l1_added_row, l1_replaced_row = joint_spreads(targets)
    assert found_row <= l1_added_row
    assert found_swap <= l1_replaced_row
    if len(set(targets)) == len(targets):
        assert (found_row, found_swap) == (l1_added_row, l1_replaced_row)


@pytest.mark.parametrize("targets", TARGETS)
def test_no_two_rows_of_a_unit_move_the_errors_further_than_twice_as_stated(
    targets: Targets,
) -> None:
    l1_added_row, l1_replaced_row = joint_spreads(targets)
    found_rows = found_swaps = 0
    for rows in tables(MOST - 1):
        both = [other for one in added(rows) for other in added(one)]
        found_rows = max(found_rows, spread_of(rows, both, targets))
        swapped = {other for one in replaced(rows) for other in replaced(one)}
        found_swaps = max(found_swaps, spread_of(rows, sorted(swapped), targets))
    assert l1_added_row < found_rows <= 2 * l1_added_row
    assert l1_replaced_row < found_swaps <= 2 * l1_replaced_row


def test_the_spread_of_quartiles_is_three_rows_added_and_four_replaced() -> None:
    quartiles = ((1, 4, 0), (2, 4, 0), (3, 4, 0))
    assert joint_spreads(quartiles) == (3 * 4, 4 * 4)


@pytest.mark.parametrize(
    "targets",
    [((2, 4, 0), (1, 4, 0)), ((5, 4, 0),), ((-1, 4, 0),), ((1, 4, 1),), ((1, 4, 0), (2, 5, 0))],
)
def test_targets_that_do_not_rise_have_no_spread(targets: Targets) -> None:
    with pytest.raises(ValueError, match="rise"):
        joint_spreads(targets)


def masses_of(draw: JointLaw, targets: Targets) -> Callable[[Rows], dict[Outcome, int]]:
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
            exact = largest_ratio(mass(rows), mass(other))
            assert (
                (1 - Fraction(1, 10**12)) * exact <= found <= exact
            )  # of sequences alike to that, one


@pytest.mark.parametrize("targets", TARGETS)
def test_the_errors_add_up_to_the_least_that_any_ranks_of_the_values_give(targets: Targets) -> None:
    """By every choice of ranks, to half a step, within those of each value."""
    for rows in tables(3):
        row = 2 * targets[0][1]  # in half steps
        for outcome in sequences(len(targets)):
            cost = {0: 0}
            for point, (a, _, _) in zip(outcome, targets, strict=True):
                low, high = (row * end for end in ends(rows, point))
                misses = [r - 2 * a * len(rows) for r in range(low, high + 1)]
                cost = {e: min(c + abs(e - d) for d, c in cost.items()) for e in misses}
            least = min(c + abs(e) for e, c in cost.items())
            assert 2 * sum(in_steps(rows, outcome, targets)) == least


def test_heaps_hold_several_quantiles() -> None:
    """With 8 of 10 rows at one point, that point three times is the likeliest answer to the quartiles: it costs nothing."""
    targets = ((1, 4, 0), (2, 4, 0), (3, 4, 0))
    draw = drawer(targets, Fraction(8), joint_spreads(targets)[0])
    rows = (0, *(1,) * 8, 2)
    assert sum(errors(rows, (1, 1, 1), targets)) == 0
    chances = masses(draw, rows, targets)
    assert chances[1, 1, 1] > 5 * max(m for y, m in chances.items() if y != (1, 1, 1))


def test_twin_the_sum_of_all_misses_has_a_larger_spread() -> None:
    """Why a miss is carried on: the misses of nine deciles by themselves move by more than twice as much together."""
    deciles = tuple((i, 10, 0) for i in range(1, 10))
    one, other = (0,) * 20, (0,) * 20 + (1,)
    up = down = 0
    for y in ((0,) * 9, (1,) * 9):
        alone = [
            sum(
                max(low - r, r - high, Fraction(0))
                for r, (low, high) in zip(
                    (Fraction(a * len(rows), b) for a, b, _ in deciles),
                    (ends(rows, p) for p in y),
                    strict=True,
                )
            )
            for rows in (one, other)
        ]
        up, down = max(up, alone[1] - alone[0]), max(down, alone[0] - alone[1])
    assert 10 * (up + down) > joint_spreads(deciles)[0]
