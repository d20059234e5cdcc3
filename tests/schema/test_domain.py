"""Domains and grid sets: set algebra against obvious definitions."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import exact
from dprelease.schema.domain import Box, Domain, GridSet
from tests.sizes import whole

EXAMPLES = whole(40, 100)
numbers = st.fractions(-20, 20, max_denominator=8)
steps = st.sampled_from([Fraction(1), Fraction(1, 2), Fraction(1, 10), Fraction(3), Fraction(2, 7)])


@st.composite
def declarations(draw: st.DrawFn) -> tuple[Fraction, Fraction, list[tuple[Fraction, Fraction]]]:
    low, high = sorted([draw(numbers), draw(numbers)])
    pairs = draw(st.lists(st.tuples(numbers, numbers), max_size=4))
    return low, high, [(min(p), max(p)) for p in pairs if p[0] != p[1]]


@st.composite
def domains(draw: st.DrawFn) -> Domain:
    low, high, gaps = draw(declarations())
    try:
        return Domain(low, high, forbidden=gaps)
    except ArgumentError:
        return Domain(low, high)


@st.composite
def grids(draw: st.DrawFn) -> GridSet:
    runs = draw(
        st.lists(st.tuples(st.integers(-30, 30), st.integers(0, 6)), min_size=1, max_size=4)
    )
    return GridSet.from_runs([(a, a + k) for a, k in runs])


def points(domain: Domain) -> list[Fraction]:
    """Every edge, the middle of every piece and gap, and points just outside."""
    edges = [Fraction(e) for piece in domain.exact_pieces for e in piece]
    middles = [(a + b) / 2 for a, b in pairwise(edges)]
    return [*edges, *middles, *(e + Fraction(d, 97) for e in edges for d in (-1, 1))]


@settings(max_examples=EXAMPLES)
@given(declarations(), numbers)
def test_a_domain_is_the_range_minus_open_intervals(
    declared: tuple[Fraction, Fraction, list[tuple[Fraction, Fraction]]], x: Fraction
) -> None:
    low, high, gaps = declared

    def allowed(x: Fraction) -> bool:
        return low <= x <= high and not any(a < x < b for a, b in gaps)

    ends = [low, high, *(e for gap in gaps for e in gap)]
    try:
        domain = Domain(low, high, forbidden=gaps)
    except ArgumentError:
        assert not any(allowed(e) for e in ends)
        return
    for point in [x, *ends, *points(domain)]:
        assert domain.has(point) == allowed(point)
    pieces = domain.exact_pieces
    assert all(a <= b for a, b in pieces)
    assert all(left[1] < right[0] for left, right in pairwise(pieces))


def test_closed_forbidden_intervals_would_be_caught() -> None:
    """Broken twin: dropping the ends of a forbidden interval changes what is allowed."""
    domain = Domain(0, 120, forbidden=[(40, 60)])
    assert domain.has(Fraction(40))
    assert domain.has(Fraction(60))
    assert not domain.has(Fraction(401, 10))


def test_touching_forbidden_intervals_leave_a_point() -> None:
    assert Domain(0, 10, forbidden=[(2, 5), (5, 7)]).exact_pieces == ((0, 2), (5, 5), (7, 10))
    assert Domain(0, 10, forbidden=[(-5, 0)]).exact_pieces == ((0, 10),)
    assert Domain(0, 10, forbidden=[(-1, 10)]).exact_pieces == ((10, 10),)


@settings(max_examples=EXAMPLES)
@given(domains(), numbers)
def test_nearest_is_the_closest_allowed_point_ties_low(domain: Domain, x: Fraction) -> None:
    for point in [x, *points(domain)]:
        near = domain.nearest(point)
        assert domain.has(near)
        rivals = [Fraction(e) for piece in domain.exact_pieces for e in piece]
        if domain.has(point):
            assert near == point
        best = min(abs(r - point) for r in rivals)
        if not domain.has(point):
            assert abs(near - point) == best
            assert near == min(r for r in rivals if abs(r - point) == best)


@settings(max_examples=EXAMPLES)
@given(domains(), domains(), numbers)
def test_an_intersection_holds_the_points_of_both(a: Domain, b: Domain, x: Fraction) -> None:
    both = a.intersect(b)
    for point in [x, *points(a), *points(b)]:
        assert (both is not None and both.has(point)) == (a.has(point) and b.has(point))


@settings(max_examples=EXAMPLES)
@given(domains())
def test_json_round_trip(domain: Domain) -> None:
    assert Domain.from_json(domain.to_json()) == domain
    assert Domain.from_pieces(reversed(domain.exact_pieces)) == domain


@settings(max_examples=EXAMPLES)
@given(domains())
def test_contains_agrees_with_has_on_doubles(domain: Domain) -> None:
    inside = [p for p in points(domain) if Fraction(float(p)) == p]
    assert domain.contains([float(p) for p in inside]).tolist() == [domain.has(p) for p in inside]
    assert not domain.contains([math.nan, math.inf, -math.inf]).any()
    assert domain.contains([float(p) for p in domain.hull]).all()


@settings(max_examples=EXAMPLES)
@given(domains(), steps)
def test_the_grid_holds_exactly_the_allowed_multiples(domain: Domain, step: Fraction) -> None:
    low, high = math.floor(domain.lower / step) - 1, math.ceil(domain.upper / step) + 1
    expected = [k for k in range(low, high + 1) if domain.has(k * step)]
    if not expected:
        with pytest.raises(ArgumentError, match="multiple of the step"):
            domain.on_grid(step)
        return
    grid = domain.on_grid(step)
    assert grid.points().tolist() == expected
    assert len(grid) == len(expected)
    assert (grid.lower, grid.upper) == (expected[0], expected[-1])
    assert grid.hull_steps == expected[-1] - expected[0]


@given(grids(), st.integers(-45, 45))
def test_grid_membership_and_nearest(grid: GridSet, x: int) -> None:
    members = grid.points().tolist()
    assert members == sorted(set(members))
    assert (x in grid) == (x in members)
    values = np.arange(-45, 46)
    assert grid.contains(values).tolist() == [v in members for v in values.tolist()]
    near = grid.nearest(values).tolist()
    assert near == [min(members, key=lambda m: (abs(m - v), m)) for v in values.tolist()]
    ends = list(grid.runs)
    assert all(a[1] + 1 < b[0] for a, b in pairwise(ends))


@given(grids())
def test_snapping_to_the_nearest_is_not_one_lipschitz_across_gaps(grid: GridSet) -> None:
    """Why an exact statistic is never snapped: neighbours one step apart move a gap apart."""
    assume(len(grid.runs) > 1)
    values = np.arange(grid.lower, grid.upper + 1)
    moves = np.abs(np.diff(grid.nearest(values)))
    widest = max(b[0] - a[1] for a, b in pairwise(grid.runs))
    assert moves.max() == widest
    assert widest >= 2


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda: Domain(1, 0), "DPR601"),
        (lambda: Domain(math.inf, math.inf), "DPR601"),
        (lambda: Domain(-math.inf, -math.inf), "DPR601"),
        (lambda: Domain(0, 1, forbidden=[(-1, 2)]), "DPR601"),
        (lambda: Domain(0, 1, forbidden=[(0, 0)]), "DPR602"),
        (lambda: Domain(0, 1, forbidden=[(1, 0)]), "DPR602"),
        (lambda: Domain(0, 1, forbidden=["ab"]), "DPR602"),
        (lambda: Domain(0, 1, forbidden=[(1, 2, 3)]), "DPR602"),
        (lambda: Domain(0, 1, forbidden=[0.5]), "DPR602"),  # type: ignore[list-item]
        (lambda: Domain(math.nan, 1), "DPR605"),
        (lambda: Domain(True, 1), "DPR605"),
        (lambda: Domain("x", 1), "DPR605"),
        (lambda: Domain(0, math.inf).on_grid(Fraction(1)), "DPR603"),
        (lambda: Domain("0.1", "0.2").on_grid(Fraction(1)), "DPR604"),
        (lambda: Domain.from_pieces([]), "DPR601"),
        (lambda: Domain.from_pieces([(2, 1)]), "DPR601"),
        (lambda: Domain(0, 1, forbidden=0.5), "DPR602"),  # type: ignore[arg-type]
        (lambda: Domain(0, 1, forbidden="ab"), "DPR602"),
        (lambda: Box([]), "DPR601"),
        (lambda: Box(Domain(0, 1)), "DPR601"),  # type: ignore[arg-type]
        (lambda: Box(3), "DPR601"),  # type: ignore[arg-type]
        (lambda: Box([3]), "DPR601"),  # type: ignore[list-item]
        (lambda: Box([(1, 2, 3)]), "DPR601"),
    ],
)
def test_a_faulty_domain_is_refused_with_its_code(build: object, code: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        build()  # type: ignore[operator]
    assert caught.value.code == code


def test_infinite_domains() -> None:
    half = Domain(0, math.inf, forbidden=[(1, 2)])
    assert half.nearest(Fraction(5)) == 5
    assert half.nearest(Fraction(-5)) == 0
    assert not half.is_finite
    assert half.width == math.inf
    assert half.hull == (0.0, math.inf)
    assert half.has(Fraction(10**30))
    gap = Domain(-math.inf, math.inf, forbidden=[(0, 1)])
    assert gap.exact_gaps == ((0, 1),)
    assert Domain.from_json(gap.to_json()) == gap
    assert half.intersect(Domain(-5, -1)) is None


def test_decimals_are_exact() -> None:
    assert Domain(0.1, 0.3).lower == Fraction(1, 10)
    assert Domain(0.1, 0.3).on_grid(Fraction(1, 10)).runs == ((1, 3),)
    # control: through binary doubles the end 0.3 would be lost
    assert Domain(Fraction(0.1), Fraction(0.3)).on_grid(Fraction(1, 10)).runs == ((2, 2),)
    assert str(Domain(0, 2, forbidden=[(0, 1.5)])) == "{0} ∪ [1.5, 2]"
    assert exact("1/3") == Fraction(1, 3)


def test_a_box_has_sides() -> None:
    assert [s.hull for s in Box([(0, 10), Domain(1, 9)]).sides] == [(0.0, 10.0), (1.0, 9.0)]
