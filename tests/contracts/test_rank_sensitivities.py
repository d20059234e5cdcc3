"""What one unit can do to scores by rank and to distinct values, by brute force over small tables.

Neither adds up over units: how far one unit moves them depends on what the others hold. So every
pair of contributions of one unit is put on top of every base table of others. Groups do not see
each other: the worst base table is taken per group, and moves are added over groups.

The score of a candidate is recomputed here from the list of rows, the slow and obvious way.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.core.errors import InternalError
from dprelease.mechanisms.forms.flips import FlipLaw
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.query.bounded import Fixed
from dprelease.schema.domain import GridSet
from dprelease.schema.unit import Adjacency
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.ranks import aimed, spreads
from dprelease.statistics.sensitivity import unit_bounds
from dprelease.wall.recompute import row_sensitivity
from tests.contracts import test_sensitivities as harness
from tests.contracts.brute_cases import Case, obvious_code
from tests.sizes import FULL, some
from tests.statistics.dense_ranks import chances, rank_scores

Ints = npt.NDArray[np.int64]

FAR = 4
"""Which row from the end min and max aim at here; the planner chooses others."""


def made(name: str, column: str, unit: str, adjacency: str, groups: int = 1) -> Case:
    return harness.case(name, column, unit, adjacency, groups)


def measurements(case: Case) -> Iterator[Measurement]:
    for e in case.measurements:
        if e.form == "ranks" and e.weights[0][2]:
            yield replace(e, weights=(aimed(e.weights[0][0] // 2, 1, FAR),))
        else:
            yield e


def codes(case: Case) -> tuple[Fixed, list[int]]:
    """Return the code, and the codes of the raw values a row may hold; a null adds nothing."""
    code = case.task.codes[0]
    assert isinstance(code, Fixed)
    found = {obvious_code(code, v) for v in case.values if v is not None}
    return code, sorted(c for c in found if c is not None)


@cache
def bases(grid: GridSet) -> Ints:
    """Return base tables as rows per code: up to 6 rows at each of two codes, up to 3 anywhere."""
    allowed = [k - grid.lower for low, high in grid.runs for k in range(low, high + 1)]
    out: set[tuple[int, ...]] = set()
    for pair in itertools.combinations(allowed, 2):
        for counts in itertools.product(range(7), repeat=2):
            held = dict(zip(pair, counts, strict=True))
            out.add(tuple(held.get(k, 0) for k in range(grid.hull_steps + 1)))
    for rows in itertools.combinations_with_replacement(allowed, 3):
        out.add(tuple(rows.count(k) for k in range(grid.hull_steps + 1)))
    return np.array(sorted(out), dtype=np.int64)


def statistic(case: Case, measurement: Measurement, tallies: Ints) -> Ints:
    """Return what the measurement's law sees, `(..., cells)`: scores of the allowed codes, or a count."""
    if measurement.form != "ranks":
        return np.asarray((tallies > 0).sum(axis=-1, keepdims=True))
    code = case.task.codes[0]
    assert isinstance(code, Fixed)
    flat = tallies.reshape(-1, tallies.shape[-1])
    scores = rank_scores(flat, *measurement.weights[0]).reshape(tallies.shape)
    return scores[..., code.grid.points() - code.grid.lower]


def enumerated_sensitivity(case: Case, measurement: Measurement) -> tuple[int, int]:
    """Return the largest move in one group, and over all groups together."""
    bounds = unit_bounds(case.query.schema.unit, None, case.groups)
    code, held = codes(case)
    here: list[tuple[int, tuple[int, ...]]] = []  # (rows, rows per code); nulls count as rows
    for rows in range(bounds.rows + 1):
        for known in range(rows + 1):
            for chosen in itertools.combinations_with_replacement(held, known):
                tally = tuple(chosen.count(k) for k in range(code.grid.hull_steps + 1))
                here.append((rows, tally))
    base = bases(code.grid)
    own = np.array([tally for _, tally in here], dtype=np.int64)
    seen = statistic(case, measurement, base[None, :, :] + own[:, None, :])
    worst = np.zeros((len(here), len(here)), dtype=np.int64)
    for i in range(len(here)):
        change = seen - seen[i]
        spread = np.ptp(change, axis=2) if measurement.form == "ranks" else np.abs(change[..., 0])
        worst[i] = spread.max(axis=1)
    total = bounds.total or bounds.rows * bounds.groups
    units = [
        chosen
        for chosen in itertools.product(range(len(here)), repeat=case.groups)
        if sum(here[i][0] > 0 for i in chosen) <= bounds.groups
        and sum(here[i][0] for i in chosen) <= total
    ]
    places = np.array(units)
    starts = places if case.adjacency is Adjacency.substitution else places[places.sum(axis=1) == 0]
    most = per_group = 0
    for start in starts:
        each = worst[start[None, :], places]
        per_group, most = max(per_group, int(each.max())), max(most, int(each.sum(axis=1).max()))
    return per_group, most


def settings() -> Iterator[tuple[str, str, str, str, int]]:
    for name, column in itertools.product(harness.BY_VALUE, harness.COLUMNS):
        if name == "count_distinct" and column == "half steps":
            continue  # refused: a number's values are as many as its step says
        for unit, adjacency in itertools.product(harness.UNITS, ("add_remove", "substitution")):
            yield name, column, unit, adjacency, {"row": 3, "m=2 G=1": 3}.get(unit, 2)
    for name, unit in itertools.product(harness.BY_VALUE, harness.UNITS):
        yield name, "odd width across zero", unit, "substitution", 1


@pytest.mark.parametrize("name", harness.BY_VALUE)
@pytest.mark.parametrize("column", harness.COLUMNS)
def test_no_neighbour_moves_further_than_stated(name: str, column: str) -> None:
    """Every second unit and adjacency in turn; all in `make evidence`."""
    turn = harness.BY_VALUE.index(name) + list(harness.COLUMNS).index(column)
    every = [setting for setting in settings() if setting[:2] == (name, column)]
    for setting in every if FULL else every[turn % 2 :: 2]:
        case = made(*setting)
        assert len(case.measurements) == (2 if name in ("min", "max") else 1)
        for measurement in measurements(case):
            per_group, total = enumerated_sensitivity(case, measurement)
            stated = case.claimed(measurement)
            assert per_group == stated.l1_per_group, (setting, measurement.weights)
            assert total <= stated.l1_over_groups, (setting, measurement.weights)
            if harness.is_tight(case, measurement):
                assert total == stated.l1_over_groups, (setting, measurement.weights)
            wall = row_sensitivity(case.task, measurement, case.places(measurement))
            assert wall == (measurement.l1_added_row, measurement.l1_replaced_row)


def obvious_score(rows: list[int], y: int, a: int, b: int, offset: int) -> int:
    """b times the distance from the target rank (a n + offset) / b to the ranks that y has; minus that to their nearer end inside."""
    target = Fraction(a * len(rows) + offset, b)
    first, last = (sum(x < y for x in rows), sum(x <= y for x in rows))
    inside = first <= target <= last
    return int(b * min(abs(target - first), abs(target - last)) * (-1 if inside else 1))


@pytest.mark.parametrize(
    "target", [(1, 2, 0), (3, 4, 0), (9, 10, 0), (0, 1, 0), (2, 2, -3), (0, 2, 1)]
)
def test_scores_are_the_distance_in_ranks(target: tuple[int, int, int]) -> None:
    for size in range(5):
        for rows in itertools.combinations_with_replacement(range(5), size):
            tally = np.bincount(np.array(rows, dtype=np.int64), minlength=5)[None, :]
            expected = [obvious_score(list(rows), y, *target) for y in range(5)]
            assert rank_scores(tally, *target)[0].tolist() == expected


def test_the_best_score_is_that_of_the_quantile() -> None:
    """The smallest x with #{<= x} >= p n is among the best; so is what lies between two middle rows."""
    for size in range(1, 6):
        for rows in itertools.combinations_with_replacement(range(5), size):
            tally = np.bincount(np.array(rows), minlength=5)[None, :]
            for a, b in ((1, 2), (3, 4), (1, 10), (0, 1), (1, 1)):
                scores = rank_scores(tally, a, b, 0)[0]
                place = max(1, -(-a * size // b))
                assert scores[rows[place - 1]] == scores.min() <= 0


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("target", [(1, 2, 0), (3, 4, 0), (2, 2, -3)])
def test_ranks_around_the_target_only_lower_the_rank_error(
    flip: bool, target: tuple[int, int, int]
) -> None:
    """P(rank error > k) is at most that of a score that ends at 0, for every k and table, but for scores that weigh alike."""
    law = ScoreLaw.calibrate(4, spread=2, epsilon=Fraction(1, 2))
    law = FlipLaw.from_scores(law) if flip else law
    gained = 0.0
    for tally in itertools.product((0, 1, 2, 9), repeat=4):
        scores = rank_scores([tally], *target)[0]
        off = np.maximum(scores, 0)
        ours, clipped = law.pmf(scores), law.pmf(off)
        for k in set(off.tolist()):
            tails = [
                sum(p for p, miss in zip(c, off, strict=True) if miss > k) for c in (ours, clipped)
            ]
            assert tails[0] <= tails[1] + Fraction(1, 2**20)
            gained = max(gained, float(tails[1] - tails[0]))
    assert gained > 0.05


def test_twin_rows_below_against_rows_above_leave_the_heap_that_holds_the_middle() -> None:
    """Six rows of ten at 0: the median is 0, but 1 to 3 hold no row and have fewer rows on one side than on the other."""
    tally = [60, 0, 0, 0, 20, 20]
    law = ScoreLaw.calibrate(6, spread=2, epsilon=1)
    below = np.cumsum(tally) - tally
    compared = np.abs(below - (100 - below - tally))
    assert float(law.pmf(compared)[0]) < 0.01
    assert float(law.pmf(rank_scores([tally], 1, 2, 0)[0])[0]) > 0.99


@pytest.mark.parametrize(
    "target", [(1, 2, 0), (3, 4, 0), (1, 1, 0), (2, 2, -3), (0, 2, 1), (2, 2, -1)]
)
@pytest.mark.parametrize("most", [None, 3, 1, 0])
def test_codes_near_the_rank_give_the_law_of_all_rows(
    target: tuple[int, int, int], most: int | None
) -> None:
    """Tables of up to four rows at six values, every third, and heaps: the chances are equal, as fractions.

    With `most`, scores weigh alike from so near on that the engine leaves most codes out.
    """
    law = ScoreLaw.calibrate(6, spread=2, epsilon=3, most=most)
    small = (t for n in range(5) for t in itertools.combinations_with_replacement(range(6), n))
    tables = [np.bincount(np.array(t, dtype=np.int64), minlength=6) for t in small]
    tables += [np.array(t) for t in itertools.product((0, 2, 7), repeat=6)][::5]
    for tally in some(tables, 3):
        scores = rank_scores(tally[None, :], *target)[0]
        assert chances(law, tally.tolist(), *target) == law.pmf(scores), tally


def test_twin_codes_from_nearer_than_the_law_can_see_are_another_law() -> None:
    law = ScoreLaw.calibrate(6, spread=2, epsilon=3)
    tally = [2, 2, 3, 1, 0, 1]
    whole = law.pmf(rank_scores([tally], 1, 2, 0)[0])
    assert chances(law, tally, 1, 2, 0) == whole
    assert chances(law, tally, 1, 2, 0, last=0) != whole


def test_the_end_itself_is_the_best_candidate_of_min_and_max() -> None:
    for n in range(1, 5):
        for rows in itertools.combinations_with_replacement(range(6), n):
            tally = np.bincount(np.array(rows), minlength=6)[None, :]
            for target, end in ((aimed(0, 1, 1), rows[0]), (aimed(1, 1, 1), rows[-1])):
                scores = rank_scores(tally, *target)[0].tolist()
                assert scores[end] <= -1
                assert min(s for y, s in enumerate(scores) if y != end) >= 1


# --- broken twins -------------------------------------------------------------------------------


def worst_ratio(score: Any, spread: int, n: int, *, replaced: bool, flip: bool = False) -> float:
    """Return the largest log ratio of the law at epsilon 1 over neighbouring tables of n rows."""
    law = ScoreLaw.calibrate(6, spread=spread, epsilon=1)
    law = FlipLaw.from_scores(law) if flip else law

    @cache
    def logs(table: tuple[int, ...]) -> Any:
        return np.log([float(p) for p in law.pmf(score(table))])

    worst = 0.0
    for table in itertools.combinations_with_replacement(range(6), n):
        near = [table[:i] + table[i + 1 :] for i in range(n)]
        if replaced:
            near = [(*rest, y) for rest in near for y in range(6)]
        for other in near:
            apart = np.abs(logs(table) - logs(tuple(sorted(other))))
            worst = max(worst, float(apart.max()))
    return worst


def by_rank(a: int, b: int, offset: int) -> Any:
    def score(rows: tuple[int, ...]) -> list[int]:
        tally = np.bincount(np.array(rows, dtype=np.int64), minlength=6)[None, :]
        return rank_scores(tally, a, b, offset)[0].tolist()

    return score


TARGETS = [(1, 2, 0), (3, 4, 0), (1, 1, 0), (2, 2, -3), (2, 2, -1), (0, 2, 1)]


@pytest.mark.parametrize(
    ("flip", "target"), [*((False, t) for t in TARGETS), *((True, t) for t in some(TARGETS, 2))]
)
@pytest.mark.parametrize("replaced", [False, True])
def test_the_whole_law_keeps_its_epsilon(
    flip: bool, target: tuple[int, int, int], replaced: bool
) -> None:
    spread = spreads(*target)[int(replaced)]
    assert worst_ratio(by_rank(*target), spread, 4, replaced=replaced, flip=flip) <= 1 + 1e-12


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("flip", [False, True])
def test_twin_a_halved_spread_is_caught(replaced: bool, flip: bool) -> None:
    """The largest change of one score is half the spread: the two sides of the target part."""
    spread = spreads(1, 2, 0)[int(replaced)] // 2
    assert worst_ratio(by_rank(1, 2, 0), spread, 5, replaced=replaced, flip=flip) > 1.01


def test_twin_the_one_sided_spread_for_a_target_inside_is_caught() -> None:
    assert worst_ratio(by_rank(2, 2, -3), 2 * spreads(1, 1, 0)[0], 4, replaced=False) > 1.01


def test_twin_the_replacement_priced_as_an_addition_is_caught() -> None:
    """p = 1/2: adding a row spreads by 2, replacing one by 4."""
    assert spreads(1, 2, 0) == (2, 4)
    assert worst_ratio(by_rank(1, 2, 0), 2, 4, replaced=True) > 1.01


def test_twin_a_guessed_size_in_the_target_is_caught() -> None:
    """The target n / 2 of the data's own n moves with it; half of a public guess does not, and the
    scores on its two sides part by a whole row each: 4 instead of 2."""
    guessed = by_rank(0, 2, 4)
    assert worst_ratio(by_rank(1, 2, 0), 2, 4, replaced=False) <= 1 + 1e-12
    assert worst_ratio(guessed, spreads(0, 2, 4)[0], 4, replaced=False) <= 1 + 1e-12
    assert worst_ratio(guessed, 2, 4, replaced=False) > 1.01


def test_twin_ties_beyond_the_end_put_the_mass_beyond_the_data() -> None:
    """500 rows in the lowest tenth of the range: aiming at the last row lands far above it."""
    tally = np.zeros((1, 1001), dtype=np.int64)
    tally[0, :100] = 5
    naive = ScoreLaw.calibrate(1001, spread=1, epsilon=1).pmf(rank_scores(tally, 1, 1, 0)[0])
    inside = ScoreLaw.calibrate(1001, spread=4, epsilon=1).pmf(rank_scores(tally, 2, 2, -39)[0])
    assert float(sum(naive[100:])) > 0.99
    assert float(sum(inside[100:])) < 0.03


def test_the_wall_refuses_scores_that_it_cannot_bound() -> None:
    case = made("median", "from zero", "row", "add_remove")
    (measurement,) = case.measurements
    places = case.places(measurement)
    for weights in (
        ((3, 2, 0),),
        ((-1, 2, 0),),
        ((1, 0, 0),),
        ((1, 2),),
        (),
        ((1, 2, 0), (1, 2, 0)),
    ):
        with pytest.raises(InternalError) as caught:
            row_sensitivity(case.task, replace(measurement, weights=weights), places)
        assert caught.value.code == "DPR902"
    for changes in ({"kind": "power"}, {"code": None}):
        other = replace(case.task.primitives[places[0]], **changes)
        with pytest.raises(InternalError):
            row_sensitivity(replace(case.task, primitives=(other,)), measurement, (0,))
    with pytest.raises(InternalError):  # a tally belongs to scores by rank and to nothing else
        row_sensitivity(case.task, replace(measurement, form="linear", weights=((1,),)), places)
