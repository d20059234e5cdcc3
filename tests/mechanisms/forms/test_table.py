"""The certificate of a truncated table against exact enumeration, for honest and odd weights."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import ArgumentError, InternalError
from dprelease.mechanisms.certifiers.table import loss_curve, range_rho, worst_ratio
from dprelease.mechanisms.forms.table import SymmetricTable, masses, top_bits
from dprelease.schema.domain import GridSet
from tests.mechanisms.plans import renyi_rate
from tests.mechanisms.plans import worst_ratio as brute_ratio

runs = st.lists(st.tuples(st.integers(0, 25), st.integers(0, 6)), min_size=1, max_size=3)


def table_of(parts: list[tuple[int, int]], drops: list[int]) -> SymmetricTable:
    """Return a table with weights of any non-increasing shape."""
    allowed = GridSet.from_runs([(a, a + w) for a, w in parts])
    weights, w = [], 1000
    for d in range(allowed.hull_steps + 1):
        weights.append(w)
        w = max(1, w * drops[d % len(drops)] // 10)
    return SymmetricTable.from_weights(allowed, np.array(weights, dtype=np.int64))


def pmfs(table: SymmetricTable) -> dict[int, dict[int, Fraction]]:
    return {q: table.pmf(q) for q in range(table.allowed.lower, table.allowed.upper + 1)}


@given(runs, st.lists(st.integers(1, 10), min_size=1, max_size=5))
@settings(max_examples=100)
def test_masses_are_the_sums_of_the_weights_seen(
    parts: list[tuple[int, int]], drops: list[int]
) -> None:
    table = table_of(parts, drops)
    low, high = table.allowed.lower, table.allowed.upper
    seen = [
        sum(int(table.weights[abs(int(y) - q)]) for y in table.allowed.points())
        for q in range(low, high + 1)
    ]
    assert table.mass.tolist() == seen
    assert masses(table.allowed, table.head / 7).tolist() == pytest.approx([s / 7 for s in seen])


@given(runs, st.lists(st.integers(1, 10), min_size=1, max_size=5), st.integers(1, 30))
@settings(max_examples=60)
def test_every_ratio_is_bounded_whatever_the_weights(
    parts: list[tuple[int, int]], drops: list[int], distance: int
) -> None:
    table = table_of(parts, drops)
    hull = table.allowed.hull_steps
    if hull == 0:
        assert worst_ratio(table, 1) == 1
        return
    distance = min(distance, hull)
    exact = brute_ratio(pmfs(table), distance)
    assert worst_ratio(table, distance) >= exact
    curve = loss_curve(table, distance)
    assert curve[0] == 0
    assert np.exp(curve[-1]) >= float(exact) * (1 - 1e-12)
    assert (np.diff(curve) >= 0).all()


@given(runs, st.lists(st.integers(1, 10), min_size=1, max_size=5), st.integers(1, 30))
@settings(max_examples=40)
def test_renyi_divergences_are_bounded_whatever_the_weights(
    parts: list[tuple[int, int]], drops: list[int], distance: int
) -> None:
    table = table_of(parts, drops)
    distance = min(distance, table.allowed.hull_steps)
    assert (
        renyi_rate(pmfs(table), distance) <= float(range_rho(table, distance)) * (1 + 1e-9) + 1e-12
    )


def test_ranges_not_losses_are_squared() -> None:
    """The twin that takes an eighth of the squared loss: two points, one likely, show it."""
    table = SymmetricTable.from_weights(
        GridSet.from_runs([(0, 1)]), np.array([1000, 900], dtype=np.int64)
    )
    found = renyi_rate(pmfs(table), 1)
    loss = math.log(float(worst_ratio(table, 1)))
    assert found > loss**2 / 8 * 3
    assert found <= float(range_rho(table, 1)) <= loss**2 / 2 * (1 + 1e-9)


def test_the_range_is_that_of_the_furthest_pair_for_a_geometric_table() -> None:
    table = SymmetricTable.from_weights(
        GridSet.from_runs([(0, 20)]), np.array([3 ** (20 - d) for d in range(21)], dtype=np.int64)
    )
    assert float(range_rho(table, 7)) == pytest.approx((14 * math.log(3)) ** 2 / 8)


def test_the_bound_is_exact_for_a_geometric_table_on_an_interval() -> None:
    for parts, distance in (([(0, 20)], 7), ([(0, 9)], 9), ([(0, 33)], 1)):
        table = table_of(parts, [8])
        exact = brute_ratio(pmfs(table), distance)
        assert exact <= worst_ratio(table, distance) <= exact * (1 + Fraction(1, 2**46))


def test_shorter_distances_are_checked_too() -> None:
    """The twin that checks the largest distance only: here a shorter one is worse."""
    weights = np.array([1000, 1000, 1000, 10, 10, 10, 10], dtype=np.int64)
    table = SymmetricTable.from_weights(GridSet.from_runs([(0, 6)]), weights)
    law = pmfs(table)
    at = {
        k: max(law[q][y] / law[q + s * k][y] for q in law for s in (1, -1) if q + s * k in law
               for y in law[q])
        for k in (3, 6)
    }  # fmt: skip
    assert at[3] > at[6]
    assert worst_ratio(table, 6) >= at[3]


def test_answers_in_gaps_are_checked_too() -> None:
    table = table_of([(0, 2), (20, 6)], [6])
    inside = {q: p for q, p in pmfs(table).items() if q in table.allowed}
    assert worst_ratio(table, 2) > 2 * brute_ratio(inside, 2)
    assert worst_ratio(table, 2) >= brute_ratio(pmfs(table), 2)


def test_draws_intervals_and_errors() -> None:
    table = table_of([(0, 5), (9, 3)], [7])
    bits = ReplayBits("table")
    for q in (0, 7, 12):
        drawn = table.draw(np.full(20_000, q, dtype=np.int64), bits)
        pmf = table.pmf(q)
        assert sum(pmf.values()) == 1
        assert set(drawn.tolist()) <= set(pmf)
        chi = sum(
            (np.count_nonzero(drawn == y) - 20_000 * float(p)) ** 2 / (20_000 * float(p))
            for y, p in pmf.items()
        )
        assert chi < 50  # 9 degrees of freedom: p > 1e-6
        below = [float(table.below(np.array([q]), np.array([y]))[0]) for y in range(13)]
        assert below[-1] == 1
        assert all(b >= a for a, b in pairwise(below))
        assert below[3] == pytest.approx(float(sum(p for y, p in pmf.items() if y <= 3)))
    low, high = table.interval(np.arange(13), 0.9)
    assert (low <= high).all()
    for q in range(13):  # coverage of at least 90 % for every answer
        covered = sum(p for y, p in table.pmf(q).items() if low[y] <= q <= high[y])
        assert covered >= Fraction(9, 10)
    with pytest.raises(ArgumentError):
        table.interval(np.arange(3), 1.0)


@pytest.mark.parametrize("weights", [[5, 6], [5], [5, 0], [5, 4, 3]], ids=str)
def test_malformed_weights_are_refused(weights: list[int]) -> None:
    with pytest.raises(InternalError):
        SymmetricTable.from_weights(GridSet.from_runs([(0, 1)]), np.array(weights, dtype=np.int64))


def test_no_pairs_is_an_error() -> None:
    table = table_of([(0, 4)], [5])
    for distance in (0, 5):
        with pytest.raises(InternalError):
            worst_ratio(table, distance)


def test_sums_stay_inside_int64() -> None:
    for steps in (1, 100, 2**18 - 1):
        allowed = GridSet.from_runs([(0, steps)])
        assert (2 ** top_bits(allowed)) * (steps + 1) <= 2**62
