"""What one unit can do to weighted statistics and ratios, by brute force over small tables.

Rows of two columns: values beyond the ends, at the ends and between, nulls in either. Every contribution of one
unit is visited, under both adjacencies, row and user units, public and private size; the claim must be reached, and
the wall's own moves, made from the primitives, must be the same numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.core.errors import InternalError
from dprelease.engines.clean_rows import cleaned
from dprelease.query.bounded import Fixed, Label
from dprelease.query.expression import evaluate
from dprelease.schema.unit import Adjacency
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import bounded_query, unit_bounds
from dprelease.wall.recompute import row_sensitivity
from tests.contracts.brute_cases import COLUMNS, Case, built, matrix, obvious_code
from tests.sizes import FULL

Ints = npt.NDArray[np.int64]
Row = tuple[float | None, float | None]

WEIGHTS: dict[str, dict[str, Any]] = {
    "from zero": {"range": [0, 3], "step": 1},
    "above zero": {"range": [2, 5], "step": 1},
    "half steps, a gap": {"range": [0.5, 3], "forbidden": [[1, 2]], "step": 0.5},
}
TEXTS = {
    "weighted_mean": "weighted_mean(x, w)",
    "weighted_proportion": "weighted_proportion(x > {low}, w)",
    "weighted_sum": "weighted_sum(x, w)",
    "weighted_count": "weighted_count(w)",
    "ratio": "ratio(x, w)",
}
VALUES = ("odd width across zero", "below zero", "with a gap", "half steps", "from zero")


def case(
    name: str,
    x: str,
    w: str,
    unit: str,
    adjacency: str,
    groups: int = 1,
    public: int | None = None,
    *,
    known: bool = False,
) -> Case:
    low, high = COLUMNS[x]["range"]
    ends = [
        {"nulls": {"default": e}} if public or known else {} for e in (high, WEIGHTS[w]["range"][0])
    ]
    columns = {
        "x": {"kind": "number", **COLUMNS[x], **ends[0]},
        "w": {"kind": "number", **WEIGHTS[w], **ends[1]},
    }
    asked: dict[str, Any] = {"statistic": TEXTS[name].format(low=low)}
    if name == "ratio":
        asked["domain"] = {"range": [-20, 20]}
    made = built(columns, asked, unit, adjacency, groups, public)
    values = [
        tuple(dict.fromkeys([ends[0] - 9.0, ends[-1] + 9.0, ends[1], 0.0, None]))[:5]
        for ends in (made.ends("x"), made.ends("w"))
    ]
    return replace(made, values=tuple(itertools.product(*values)))


def primitives(made: Case, row: Row) -> list[int]:
    """Return what one row adds to every primitive, the obvious way."""
    held = dict(zip("xw", row, strict=True))
    codes: list[int | None] = []
    for code in made.task.codes:
        if isinstance(code, Fixed):
            codes.append(obvious_code(code, held[code.column]))
        else:
            x = next(c for c in made.task.columns if c.name == "x")
            truth = evaluate(code.expression, {"x": cleaned(x, held["x"])})
            codes.append(None if truth is None else int(bool(truth)))
    out = []
    for p in made.task.primitives:
        factors = [(codes[p.code or 0], p.power)]
        if p.kind == "product":
            factors.append((codes[p.other or 0], p.other_power))
        out.append(
            0 if any(c is None for c, _ in factors) else int(np.prod([c**k for c, k in factors]))
        )  # type: ignore[operator]
    return out


def contributions(made: Case, measurement: Measurement) -> Ints:
    """Return the cells of everything one unit may hold, `(contributions, groups, cells)`."""
    bounds = unit_bounds(made.query.schema.unit, None, made.groups)
    places = list(made.places(measurement))
    rows = np.array([primitives(made, r) for r in made.values], dtype=np.int64)[:, places]
    cells = np.unique(rows @ matrix(measurement).T, axis=0)
    here = {0: np.zeros((1, cells.shape[1]), dtype=np.int64)}
    for count in range(1, bounds.rows + 1):
        chosen = itertools.combinations_with_replacement(range(len(cells)), count)
        here[count] = np.unique(np.array([cells[list(c)].sum(axis=0) for c in chosen]), axis=0)
    if measurement.public_rows is not None:  # a row is always there
        return here[1][:, None]
    total = bounds.total or bounds.rows * bounds.groups
    out: list[Any] = []
    for counts in itertools.product(range(bounds.rows + 1), repeat=made.groups):
        if sum(c > 0 for c in counts) <= bounds.groups and sum(counts) <= total:
            out += itertools.product(*(_hull(here[c], made.groups) for c in counts))
    return np.array(out, dtype=np.int64)


def _hull(cells: Ints, groups: int) -> Ints:
    """Return all contributions of one group; of two groups, those that are extreme in some direction."""
    if groups == 1 or len(cells) < 20:
        return cells
    turns = np.linspace(0, 2 * np.pi, 33)[:-1]
    ways = np.array([np.cos(turns), np.sin(turns)])[: cells.shape[1]]
    return cells[np.unique((cells @ ways).argmax(axis=0))]


def enumerated_sensitivity(made: Case, measurement: Measurement) -> tuple[int, int]:
    """Return the largest L1 distance in one group and over all groups together."""
    held = contributions(made, measurement)
    come = made.adjacency is Adjacency.add_remove
    per_group = total = 0
    for one in np.zeros_like(held[:1]) if come else held:
        found = np.abs(held - one).sum(axis=2)
        per_group, total = (
            max(per_group, int(found.max())),
            max(total, int(found.sum(axis=1).max())),
        )
    return per_group, total


def settings() -> Iterator[tuple[str, str, int, int | None]]:
    for n in (1, 3):
        yield "row", "substitution", 1, n
    for unit, adjacency in itertools.product(("row", "m=2 G=1"), ("add_remove", "substitution")):
        yield unit, adjacency, 1, None
    yield "m=1 G=2", "add_remove", 2, None
    yield "row", "substitution", 2, None


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("x", VALUES)
def test_no_neighbour_moves_further_than_stated_and_one_moves_as_far(name: str, x: str) -> None:
    """Of each column every second weight and setting in turn; all in `make evidence`."""
    turn = VALUES.index(x) + list(TEXTS).index(name)
    every = [*itertools.product(WEIGHTS, settings())]
    for w, setting in every if FULL else every[turn % 2 :: 2]:
        if name == "weighted_count" and x != VALUES[0]:
            continue  # it reads one column alone
        made = case(name, x, w, *setting)
        for measurement in made.measurements:
            stated = made.claimed(measurement)
            assert enumerated_sensitivity(made, measurement) == (
                stated.l1_per_group,
                stated.l1_over_groups,
            ), (
                w,
                setting,
                measurement,
            )
            proved = made.proved(measurement)
            assert (proved.l1_per_group, proved.l1_over_groups) == (
                stated.l1_per_group,
                stated.l1_over_groups,
            )
            assert row_sensitivity(made.task, measurement, made.places(measurement)) == (
                measurement.l1_added_row,
                measurement.l1_replaced_row,
            )


@pytest.mark.parametrize("known", [False, True])
def test_a_ratio_s_nulls_are_among_what_a_row_can_do(known: bool) -> None:
    """A row may bring a numerator and no denominator: with defaults it cannot, and moves less."""
    made = case("ratio", "from zero", "above zero", "row", "substitution", known=known)
    for measurement in made.measurements:
        stated = made.claimed(measurement)
        assert enumerated_sensitivity(made, measurement) == (
            stated.l1_per_group,
            stated.l1_over_groups,
        )
    assert {m.family for m in made.measurements} == {"ratio_sums", "ratio_ends"}


@pytest.mark.parametrize("name", TEXTS)
def test_the_wall_refuses_a_claim_of_one_step_less(name: str) -> None:
    """Twins: what the wall finds is of the primitives, whatever a measurement says of itself."""
    made = case(name, "odd width across zero", "above zero", "row", "substitution")
    for measurement in made.measurements:
        less = replace(
            measurement,
            l1_added_row=measurement.l1_added_row - 1,
            l1_replaced_row=measurement.l1_replaced_row - 1,
        )
        assert (
            made.claimed(less).l1_over_groups
            < made.proved(less).l1_over_groups
            == made.claimed(measurement).l1_over_groups
        )


def test_twin_the_heaviest_weight_is_forgotten() -> None:
    for name in ("weighted_mean", "weighted_proportion", "weighted_sum"):
        made = case(name, "from zero", "above zero", "row", "add_remove")
        for measurement in made.measurements:
            assert (
                enumerated_sensitivity(made, measurement)[0] > measurement.l1_added_row * 4 // 5
            )  # the heaviest is 5


def test_twin_a_row_without_one_column_is_forgotten() -> None:
    """The cells that are best where every row has both columns claim too little where a row may lack one."""
    missed = 0
    for x, w in itertools.product(VALUES, WEIGHTS):
        whole = case("ratio", x, w, "row", "substitution", known=True)
        for measurement in whole.measurements:
            unsure = case("ratio", x, w, "row", "substitution")
            codes = {c.column: c for c in unsure.task.codes if isinstance(c, Fixed)}
            measures = tuple(
                replace(m, code=codes[m.code.column])
                for m in measurement.measures
                if isinstance(m.code, Fixed)
            )
            asked = replace(measurement, measures=measures)
            made = replace(unsure, task=bounded_query(unsure.query, ((asked, None),)))
            found = enumerated_sensitivity(made, asked)[0]
            missed += found > measurement.l1_replaced_row
            assert made.proved(asked).l1_per_group == found
    assert missed >= 5


def test_a_label_is_not_a_factor() -> None:
    made = case("weighted_mean", "from zero", "above zero", "row", "add_remove")
    task = replace(made.task, codes=(Label("g", ("a", "b", "c")), *made.task.codes[1:]))
    (measurement, *_) = made.measurements
    with pytest.raises(InternalError) as refused:
        row_sensitivity(task, measurement, made.places(measurement))
    assert refused.value.code == "DPR902"


def test_sums_over_different_rows_of_a_unit_are_refused() -> None:
    """A row that is in the numerator alone, by a cap of its own, is at no corner."""
    made = case("ratio", "from zero", "above zero", "m=2 G=1", "add_remove", known=True)
    (measurement, *_) = made.measurements
    first, *others = made.task.primitives
    task = replace(made.task, primitives=(replace(first, max_rows=1), *others))
    with pytest.raises(InternalError) as refused:
        replace(made, task=task).proved(measurement, made.places(measurement))
    assert (refused.value.code, "different rows" in str(refused.value)) == ("DPR902", True)
