"""What one row can do to both draws of winsorised statistics, by brute force over small tables.

Everything is made again from lists of rows: ranks are counted, rows are clamped one by one, and the chance of a pair
of limits is a product of two choices, whose equal limits are moved apart. The exact loss of a pair of tables
is then the largest ratio over all pairs of limits, times what the noise costs at those limits.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np
import pytest

from dprelease.audit.sampler import g_test
from dprelease.core.entropy import ReplayBits
from dprelease.measurements.winsorised import WinsorisedLaw
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.mechanisms.forms.vector import CellNoise
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.schema.domain import GridSet
from dprelease.statistics.clipped import clipped, limit_points, limit_scores, limit_spreads
from dprelease.statistics.joint_ranks import Positions
from dprelease.statistics.sensitivity import Sensitivity
from tests.sizes import FULL

Rows = tuple[int, ...]
GRIDS = {"whole": GridSet(((0, 4),)), "with a gap": GridSet(((0, 1), (4, 5)))}
SHARES = [(1, 4), (1, 10)]
EPSILON = Fraction(24)
"""Large, so that choices in small tables are sharp: then the bound of the loss is nearly attained."""


def held(rows: Rows, a: int, b: int) -> Positions:
    codes = np.unique(np.array(rows, dtype=np.int64))
    below = np.array([sum(v < c for v in rows) for c in codes], dtype=np.int64)
    upto = np.array([sum(v <= c for v in rows) for c in codes], dtype=np.int64)
    return Positions(codes, below, upto, len(rows), (a, b - a), b)


def points(grid: GridSet) -> list[int]:
    return [k for low, high in grid.runs for k in range(low, high + 1)]


def tables(grid: GridSet, most: int) -> Iterator[Rows]:
    for n in range(most + 1):
        yield from itertools.combinations_with_replacement(points(grid), n)


@cache
def cells(rows: Rows, low: int, high: int, degree: int) -> list[int]:
    """Return the cells row by row."""
    out = [0] * (degree + 1)
    for v in rows:
        t = min(max(v, low), high) - low
        u = high - low - t
        parts = [t, u] if degree == 1 else [u * u, 2 * t * u, t * t]
        out = [one + part for one, part in zip(out, parts, strict=True)]
    return out


def score(rows: Rows, y: int, a: int, b: int) -> int:
    """Return b times the distance of rank a n / b from the ranks that y has."""
    below, upto, target = sum(v < y for v in rows), sum(v <= y for v in rows), a * len(rows)
    return max(0, b * below - target, target - b * upto)


def drawer(
    grid: GridSet, share: tuple[int, int], degree: int, *, swap: bool = False, spread: int = 0
) -> WinsorisedLaw:
    stated = limit_spreads(((share[0], share[1], 0), (share[1] - share[0], share[1], 0)))[swap]
    choice = ScoreLaw.calibrate(len(points(grid)), spread=spread or stated, epsilon=EPSILON / 2)
    noise = CellNoise.calibrate(2 if swap else 1, EPSILON / 2)
    return WinsorisedLaw(choice, noise, degree, grid, Fraction(1))


@lru_cache(maxsize=4096)
def limits(draw: WinsorisedLaw, rows: Rows, a: int, b: int) -> dict[tuple[int, int], Fraction]:
    """Return the chance of every pair of limits."""
    grid, law = draw.allowed, draw.choice
    chances = []
    for target in (a, b - a):
        scores = np.array([score(rows, y, target, b) for y in points(grid)])
        chances.append(law.pmf(scores))
    out: Counter[tuple[int, int]] = Counter()
    for (i, p), (j, q) in itertools.product(enumerate(chances[0]), enumerate(chances[1])):
        out[draw.pair(i, j)] += p * q  # type: ignore[assignment]
    return dict(out)  # type: ignore[arg-type]


def loss(draw: WinsorisedLaw, one: Rows, other: Rows, a: int, b: int) -> float:
    """Return the exact loss of a pair of tables: noise of rate r costs r times what all cells move by."""
    p, q = (limits(draw, rows, a, b) for rows in (one, other))
    worst = 0.0
    for low, high in p:
        here, there = (cells(rows, low, high, draw.degree) for rows in (one, other))
        moved = sum(abs(x - y) for x, y in zip(here, there, strict=True))
        rate = float(draw.noise_at(low, high).rate)
        worst = max(worst, abs(math.log(p[low, high] / q[low, high])) + rate * moved)
    return worst


def neighbours(grid: GridSet, most: int, *, swap: bool) -> Iterator[tuple[Rows, Rows]]:
    for rows in tables(grid, most):
        if not swap:
            yield from ((rows, tuple(sorted((*rows, v)))) for v in points(grid))
        for i, v in itertools.product(range(len(rows) if swap else 0), points(grid)):
            yield rows, tuple(sorted((*rows[:i], *rows[i + 1 :], v)))


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
@pytest.mark.parametrize("degree", [1, 2])
def test_cells_are_those_of_rows_clamped_one_by_one(grid: GridSet, degree: int) -> None:
    for rows in tables(grid, 3):
        for low, high in itertools.combinations(points(grid), 2):
            assert clipped(held(rows, 1, 4), low, high, degree) == cells(rows, low, high, degree)


@pytest.mark.parametrize("degree", [1, 2])
def test_cells_of_wide_limits_and_many_rows_are_whole_numbers_of_any_size(degree: int) -> None:
    wide, many = 2**50, 2**40
    rows = Positions(
        np.array([0, wide]), np.array([0, many]), np.array([many, 2 * many]), 2 * many, (1, 3), 4
    )
    unit = wide**degree * many
    assert clipped(rows, 0, wide, degree) == ([unit, unit] if degree == 1 else [unit, 0, unit])


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
@pytest.mark.parametrize("degree", [1, 2])
def test_one_row_adds_exactly_one_unit_between_any_limits(grid: GridSet, degree: int) -> None:
    for low, high in itertools.combinations(points(grid), 2):
        unit = (high - low) ** degree
        added = [cells((v,), low, high, degree) for v in points(grid)]
        assert all(min(row) >= 0 and sum(row) == unit for row in added)
        apart = max(
            sum(abs(x - y) for x, y in zip(one, other, strict=True))
            for one, other in itertools.combinations(added, 2)
        )
        assert apart == 2 * unit  # a replaced row: attained by one at each limit


@pytest.mark.parametrize("share", SHARES)
def test_scores_of_limits_are_distances_in_ranks(share: tuple[int, int]) -> None:
    a, b = share
    for grid in GRIDS.values():
        codes = np.array(points(grid))
        for rows in tables(grid, 4):
            for scores, target in zip(
                limit_scores(held(rows, a, b), codes), (a, b - a), strict=True
            ):
                assert scores.tolist() == [score(rows, y, target, b) for y in points(grid)]


def test_of_a_wide_grid_some_thousand_points_may_be_limits() -> None:
    wide = GridSet(((-3, 100_000), (400_000, 10**7)))
    codes = limit_points(wide)
    assert codes.size < 2_000
    assert wide.contains(codes).all()
    assert (np.diff(codes) > 0).all()
    assert {-3, 0, 1, 2, 100_000, 400_000, 10**7} <= set(codes.tolist())
    near = codes[(codes > 0) & (codes < 100_000)]
    assert (np.diff(near) <= np.maximum(1, near[:-1] // 32)).all()
    assert (np.diff(codes[codes >= 400_000]) <= 1 + 10**7 // 1024).all()
    rows = held((5, 5, 70_000, 9_000_000), 1, 4)
    for scores, target in zip(limit_scores(rows, codes), (1, 3), strict=True):
        slow = [score((5, 5, 70_000, 9_000_000), y, target, 4) for y in codes.tolist()]
        assert scores.tolist() == slow


ALIKE = [*itertools.product(GRIDS, [1, 2], SHARES, [False, True])]
HALF = [place for place in range(16) if place.bit_count() % 2 == 0]
"""Half of them: of any three of their parts every combination."""


@pytest.mark.parametrize(
    ("name", "degree", "share", "swap"), ALIKE if FULL else [ALIKE[i] for i in HALF]
)
def test_no_neighbours_cost_more_than_both_draws_claim(
    name: str, degree: int, share: tuple[int, int], swap: bool
) -> None:
    grid = GRIDS[name]
    draw = drawer(grid, share, degree, swap=swap)
    moved = limit_spreads(((share[0], share[1], 0), (share[1] - share[0], share[1], 0)))[swap]
    proved = draw.certify(Sensitivity(0, 2 if swap else 1, 1, 1, score_spread=moved))
    assert proved <= EPSILON
    worst = max(loss(draw, *pair, *share) for pair in neighbours(grid, 4, swap=swap))
    assert worst <= float(proved) + 1e-12
    assert worst > 0.65 * float(
        proved
    )  # control: the noise attains its half, choices of few rows a third of theirs


def worst_of(draw: WinsorisedLaw, share: tuple[int, int], *, swap: bool = False) -> float:
    pairs = neighbours(draw.allowed, 3, swap=swap)
    return max(loss(draw, *pair, *share) for pair in pairs) / float(EPSILON)


def test_twin_noise_for_one_step_whatever_the_limits_is_caught() -> None:
    class Narrow(WinsorisedLaw):
        def noise_at(self, low: int, high: int) -> DiscreteLaplaceNoise:
            return self.noise.noise

    known = drawer(GRIDS["whole"], SHARES[0], 1)
    twin = Narrow(known.choice, known.noise, known.degree, known.allowed, known.step)
    assert worst_of(twin, SHARES[0]) > 1.5


def test_twin_a_quarter_of_the_spread_is_caught() -> None:
    """Of 28: the ranges of both choices add up."""
    assert worst_of(drawer(GRIDS["whole"], SHARES[1], 1, spread=6), SHARES[1]) > 1.1


def test_twin_noise_for_an_added_row_does_not_cover_a_replaced_one() -> None:
    known = drawer(GRIDS["whole"], SHARES[0], 1, swap=True)
    draw = replace(known, noise=CellNoise.calibrate(1, EPSILON / 2))
    assert worst_of(draw, SHARES[0], swap=True) > 1.1


def test_equal_limits_are_moved_one_candidate_apart() -> None:
    draw = drawer(GRIDS["with a gap"], SHARES[0], 1)
    assert [draw.pair(i, i) for i in range(4)] == [(0, 1), (1, 4), (4, 5), (4, 5)]
    assert draw.pair(3, 1) == (1, 5)


@pytest.mark.parametrize(
    "weights", [(), ((1, 4, 0),), ((1, 4, 0), (1, 4, 0)), ((1, 4, 0), (2, 4, 0)), ((0, 4, 0), (4, 4, 0)),
                ((3, 4, 0), (1, 4, 0)), ((1, 4, 1), (3, 4, 1)), ((1, 4), (3, 4)), ((2, 8, 0), (3, 4, 0))]
)  # fmt: skip
def test_limits_at_other_ranks_have_no_proved_spread(weights: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ValueError, match="limits"):
        limit_spreads(weights)


@pytest.mark.parametrize("share", [(1, 10), (1, 4), (2, 5), (3, 7)])
def test_the_scores_of_both_limits_change_by_no_more_than_stated(share: tuple[int, int]) -> None:
    """All tables of up to 8 rows on 4 points; attained by added and by replaced rows where a quantile lies inside."""
    a, b = share
    grid = GridSet(((0, 3),))
    stated = limit_spreads(((a, b, 0), (b - a, b, 0)))
    found = [0, 0]

    @cache
    def scores(rows: Rows) -> list[list[int]]:
        return [[score(rows, y, t, b) for y in points(grid)] for t in (a, b - a)]

    for swap in (False, True):
        for one, other in neighbours(grid, 8, swap=swap):
            moved = [
                [after - before for before, after in zip(*limit, strict=True)]
                for limit in zip(scores(one), scores(other), strict=True)
            ]
            found[swap] = max(found[swap], sum(max(m) - min(m) for m in moved))
    assert found[0] <= stated[0]
    assert found[1] <= stated[1]
    assert found[0] > 2 * (b - a)  # one limit's would not do
    if 8 * a > b:
        assert tuple(found) == stated


def test_draws_follow_both_laws_and_not_those_of_another_table() -> None:
    """2,000 draws: the pair of limits, and the first cell's noise in units of its width; p-values of G tests."""
    share, rows = SHARES[0], (0, 1, 1, 3, 4, 4)
    known = drawer(GRIDS["whole"], share, 1)
    choice = ScoreLaw.calibrate(5, spread=10, epsilon=Fraction(4))
    draw = replace(known, choice=choice, noise=CellNoise.calibrate(1, Fraction(1)))
    exact = np.empty((2_000, 1), dtype=object)
    exact[:, 0] = [held(rows, *share)] * 2_000
    raw = draw.draw(exact, ReplayBits("both laws"))
    law = limits(draw, rows, *share)
    other = limits(draw, (4, 4, 4, 4, 4, 4), *share)
    pairs = sorted(law)
    seen = Counter((low, high) for low, high, *_ in raw.tolist())
    counts = np.array([seen[pair] for pair in pairs], dtype=float)
    assert counts.sum() == 2_000
    assert g_test(counts, np.array([2_000 * float(law[p]) for p in pairs])) > 1e-6
    assert g_test(counts, np.array([2_000 * float(other[p]) for p in pairs])) < 1e-6
    narrow = [
        c - cells(rows, low, high, 1)[0] for low, high, c, _ in raw.tolist() if high - low == 1
    ]
    wide = [c - cells(rows, low, high, 1)[0] for low, high, c, _ in raw.tolist() if high - low == 4]
    assert min(len(narrow), len(wide)) > 200
    assert np.mean(np.abs(wide)) / np.mean(np.abs(narrow)) == pytest.approx(4 * 1.17, rel=0.35)
