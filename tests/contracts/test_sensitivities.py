"""What one unit can do to every registered statistic, by brute force over small tables.

The registry drives the cases: a statistic that is registered is tested here, under both
adjacencies, row and user units, public and private size, and columns with odd widths, either end at
zero, and gaps. Rows are raw values (out of range and null among them); primitives are summed in the
slow, obvious way; every neighbour of every table is visited. Cells that add up over units move by
what one unit adds, whatever the others hold, so for those all contributions of one unit are all
there is to visit; a scatter and a truncated mean are not additive and go over whole tables.
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

from dprelease.core import registry
from dprelease.engines.clean_rows import cleaned
from dprelease.measurements.truncated_mean import sum_sensitivity
from dprelease.query.bounded import BoundedQuery, Fixed
from dprelease.query.expression import evaluate
from dprelease.query.load import Schema
from dprelease.schema.unit import Adjacency
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import unit_bounds
from dprelease.wall.recompute import row_sensitivity
from tests.contracts.brute_cases import COLUMNS, UNITS, Case, built, matrix, obvious_code
from tests.kinds import GRAPH, OF_SOME_COLUMNS, SEVERAL, WEIGHTED

Ints = npt.NDArray[np.int64]
Raw = float | None

TEXTS = {
    "count": "count",
    "count_persons": "count(persons)",
    "count_where": "count where x > {low}",
    "proportion": "proportion(x > {low})",
    "histogram": "histogram(x, [{low}, {middle}, {high}])",
    "histogram_of_ranges": "histogram(x, [{low}, {middle}, {third}, {high}])",
    "cdf": "cdf(x, [{low}, {middle}])",
    "quantile": "quantile(x, 0.75)",
}
OPTIONS = {"histogram_of_ranges": {"accurate_for": "ranges"}}
"""How to ask for a statistic; one that is not listed is asked for as `name(x)`."""

BY_VALUE = ("count_distinct", "max", "median", "min", "quantile")
"""Made of rows per value, not of sums: their tables are in `test_rank_sensitivities`."""

WINSORISED = tuple(n for n in registry.names("aggregates") if n.startswith("winsorised_"))
"""Two draws, one after the other: their tables are in `test_winsorised_sensitivities`."""

ELSEWHERE = (*SEVERAL, *BY_VALUE, *GRAPH, *WEIGHTED, *WINSORISED, *OF_SOME_COLUMNS)

AGGREGATES = tuple(n for n in registry.names("aggregates") if n not in ELSEWHERE)
"""Of any one column; those of several have their own tables in `test_pair_sensitivities`."""


@cache
def case(
    name: str, column: str, unit: str, adjacency: str, groups: int = 1, public: int | None = None
) -> Case:
    declared = COLUMNS[column]
    low, high = declared["range"]
    text = TEXTS.get(name, f"{name}(x)").format(
        low=low, middle=low + declared["step"], third=low + 2 * declared["step"], high=high
    )
    x: dict[str, Any] = {"kind": "integer" if name == "count_distinct" else "number", **declared}
    if public is not None:
        x["nulls"] = {"default": high}
    asked = {"statistic": text, **OPTIONS.get(name, {})}
    made = built({"x": x}, asked, unit, adjacency, groups, public)
    values = tuple(dict.fromkeys([*made.ends("x"), 0.0, low - 9.0, high + 9.0]))
    if name in ("variance", "std"):  # its squares about the middle move most a quarter from an end
        k = round((high - low) / declared["step"])
        c = max(range(k + 1), key=lambda c: (k - c) * (k + 2 * c))
        values = tuple(dict.fromkeys([low + c * declared["step"], *values]))
    return replace(made, values=(*values[:5], None))


def primitives(task: BoundedQuery, value: Raw, number: int) -> list[int]:
    """Return what one row adds to every primitive: the row's value, its number in its group."""
    codes: list[int | None] = []
    for code in task.codes:
        if not isinstance(code, Fixed):
            x = next(c for c in task.columns if c.name == "x")
            truth = evaluate(code.expression, {"x": cleaned(x, value)})
            codes.append(None if truth is None else int(bool(truth)))
        else:
            codes.append(obvious_code(code, value))
    out = []
    for p in task.primitives:
        code_of = None if p.code is None else codes[p.code]
        match p.kind:
            case "rows":
                out.append(1)
            case "persons":
                out.append(int(number == 1))
            case "power":
                out.append(0 if code_of is None else code_of**p.power)
            case _:
                out.append(0 if code_of is None else int(p.low <= code_of <= p.high))
    return out


@cache
def contributions(case: Case) -> Ints:
    """Return the primitives of everything one unit may hold, `(contributions, K, primitives)`."""
    bounds = unit_bounds(case.query.schema.unit, None, case.groups)
    zero = [0] * len(case.task.primitives)
    added = {
        (v, i): primitives(case.task, v, i) for v in case.values for i in range(1, bounds.rows + 1)
    }
    here = {0: [zero]}
    for rows in range(1, bounds.rows + 1):
        here[rows] = []
        for chosen in itertools.combinations_with_replacement(case.values, rows):
            parts = [added[v, i] for i, v in enumerate(chosen, start=1)]
            here[rows].append([sum(column) for column in zip(*parts, strict=True)])
    out = []
    total = bounds.total or bounds.rows * bounds.groups
    for counts in itertools.product(range(bounds.rows + 1), repeat=case.groups):
        if sum(c > 0 for c in counts) <= bounds.groups and sum(counts) <= total:
            out += [list(sums) for sums in itertools.product(*(here[c] for c in counts))]
    return np.unique(np.array(out, dtype=np.int64), axis=0)


def additive_changes(case: Case, measurement: Measurement) -> Iterator[Ints]:
    """Yield changes, `(neighbours, K, cells)`, of a measurement that adds up over units."""
    weights = matrix(measurement)
    sums = contributions(case)[:, :, list(case.places(measurement))]
    cells = np.unique(sums @ weights.T, axis=0)
    if case.adjacency is Adjacency.add_remove:
        yield cells
        return
    if measurement.public_rows is not None:  # a replaced row is always there before and after
        rows = np.array([[primitives(case.task, v, 1)] for v in case.values], dtype=np.int64)
        cells = np.unique(rows[:, :, list(case.places(measurement))] @ weights.T, axis=0)
    for one in cells:
        yield cells - one


def additive_distances(case: Case, measurement: Measurement) -> Iterator[Ints]:
    """Yield L1 distances per group, `(neighbours, K)`, of a measurement that adds up over units."""
    for change in additive_changes(case, measurement):
        yield np.abs(change).sum(axis=2)


def scatter_distances(case: Case, measurement: Measurement) -> Iterator[Ints]:
    """Yield the changes of n S(k^2) - S(k)^2 between all tables of n rows that differ in one."""
    n = measurement.public_rows
    assert n is not None
    rows = [primitives(case.task, v, 1) for v in case.values]
    places = case.places(measurement)
    for others in itertools.combinations_with_replacement(rows, n - 1):
        sums = np.array([np.sum([*others, row], axis=0) for row in rows], dtype=np.int64)
        first, second = sums[:, places[0]], sums[:, places[1]]
        cells = n * second - first * first
        yield np.abs(cells[:, None] - cells[None, :]).reshape(-1, 1)


def enumerated_sensitivity(case: Case, measurement: Measurement) -> tuple[int, int]:
    """Return the largest move in one group and over all groups together, L1."""
    if not measurement.measures:
        return 0, 0
    source = scatter_distances if measurement.form == "scatter" else additive_distances
    if (
        measurement.family == "truncated_mean"
    ):  # its size is a vector of one cell; its mean, see below
        measurement = replace(measurement, weights=((1, 0),))
    per_group = total = 0
    for found in source(case, measurement):
        per_group, total = (
            max(per_group, int(found.max())),
            max(total, int(found.sum(axis=1).max())),
        )
    return per_group, total


def grid() -> Iterator[tuple[str, str, str, str, int, int | None]]:
    for name, column in itertools.product(AGGREGATES, COLUMNS):
        for n in (1, 2, 3):
            yield name, column, "row", "substitution", 1, n
        for unit, adjacency in itertools.product(UNITS, ("add_remove", "substitution")):
            yield name, column, unit, adjacency, {"row": 3, "m=2 G=1": 3}.get(unit, 2), None
    for name, unit in itertools.product(AGGREGATES, UNITS):
        yield name, "odd width across zero", unit, "substitution", 1, None


CASES = tuple(grid())


def test_every_registered_aggregate_is_covered() -> None:
    assert {c[0] for c in CASES} | set(ELSEWHERE) == set(registry.names("aggregates"))
    assert len(CASES) >= 300


def is_tight(case: Case, measurement: Measurement) -> bool:
    """Where the bound over all groups is attained: not for K groups between G and 2 G."""
    bounds = unit_bounds(case.query.schema.unit, None, case.groups)
    capped = bounds.total is not None
    reachable = case.groups <= bounds.groups or case.groups >= 2 * bounds.groups
    return case.adjacency is Adjacency.add_remove or (reachable and not capped)


@pytest.mark.parametrize("name", AGGREGATES)
@pytest.mark.parametrize("column", COLUMNS)
def test_no_neighbour_moves_further_than_stated(name: str, column: str) -> None:
    for setting in CASES:
        if setting[:2] != (name, column):
            continue
        made = case(*setting)
        assert made.measurements, setting
        for measurement in made.measurements:
            per_group, total = enumerated_sensitivity(made, measurement)
            stated = made.claimed(measurement)
            assert per_group <= stated.l1_per_group, (setting, measurement.family)
            assert total <= stated.l1_over_groups, (setting, measurement.family)
            assert per_group == stated.l1_per_group, (setting, measurement.family)
            if is_tight(made, measurement):
                assert total == stated.l1_over_groups, (setting, measurement.family)


def test_what_comes_and_what_goes_is_half_of_the_move_where_that_is_said() -> None:
    """The larger of both in each group, over all groups (`Sensitivity.one_sided_half`); else it is often more."""
    said, more = 0, 0
    for setting in CASES:
        if setting[0] != "histogram":
            continue
        made = case(*setting)
        for measurement in made.measurements:
            worst = max(
                int(np.maximum(rises.sum(axis=2), falls.sum(axis=2)).sum(axis=1).max())
                for change in additive_changes(made, measurement)
                for rises, falls in [(np.maximum(change, 0), np.maximum(-change, 0))]
            )
            stated = made.claimed(measurement)
            said, more = said + stated.one_sided_half, more + (2 * worst > stated.l1_over_groups)
            assert not stated.one_sided_half or 2 * worst <= stated.l1_over_groups, setting
    assert said >= 10
    assert more >= 10  # controls


@pytest.mark.parametrize("name", AGGREGATES)
def test_the_wall_recomputes_the_stated_moves_from_the_primitives(name: str) -> None:
    for setting in CASES:
        if setting[0] != name:
            continue
        made = case(*setting)
        for measurement in made.measurements:
            places, known = made.places(measurement), measurement
            if measurement.family == "truncated_mean":
                known, places = replace(measurement, weights=((1,),)), places[:1]
            assert row_sensitivity(made.task, known, places) == (
                measurement.l1_added_row,
                measurement.l1_replaced_row,
            )


@pytest.mark.parametrize("adjacency", ["add_remove", "substitution"])
@pytest.mark.parametrize("unit", ["row", "m=2 G=1", "m=1 G=2"])
@pytest.mark.parametrize("column", COLUMNS)
def test_a_truncated_mean_moves_by_its_sum_s_sensitivity_over_any_released_size(
    column: str, unit: str, adjacency: str
) -> None:
    """|clamp(c + S(x - c) / n')| moves by at most its sensitivity / n' per move, for every n' >= 1."""
    made = case("mean", column, unit, adjacency)
    measurement = next(e for e in made.measurements if e.family == "truncated_mean")
    stated = made.claimed(measurement)
    width = measurement.scale * measurement.step_size
    most = sum_sensitivity(stated, width)
    centre, half = measurement.offset + width / 2, Fraction(measurement.scale, 2)
    places = made.places(measurement)
    rows = sorted({tuple(primitives(made.task, v, 1)[p] for p in places) for v in made.values})
    worst = Fraction(0)
    for size, others in itertools.product((1, 2, 3, 7), range(3)):
        for table in itertools.combinations_with_replacement(rows, others):
            for changed in itertools.combinations_with_replacement(rows, made.m):
                answers = []
                for kept in (table, (*table, *changed)):
                    n, s = sum(r[0] for r in kept), sum(r[1] for r in kept)
                    free = centre + measurement.step_size * (s - half * n) / size
                    answers.append(min(max(free, measurement.offset), measurement.offset + width))
                move = abs(answers[1] - answers[0]) * size
                assert move <= most
                worst = max(worst, move)
    assert worst == most


def test_a_change_of_one_unit_is_a_chain_of_at_most_the_stated_moves() -> None:
    """i groups left, j entered, h changed: i + h <= G, j + h <= G, so i + j + 2 h <= 2 G."""
    for unit, groups in itertools.product(UNITS, (1, 2, 3)):
        made = case("mean", "from zero", unit, "substitution", groups)
        bounds = unit_bounds(made.query.schema.unit, None, groups)
        sets = [
            set(s)
            for size in range(bounds.groups + 1)
            for s in itertools.combinations(range(groups), size)
        ]
        most = max(len(a - b) + len(b - a) + 2 * len(a & b) for a in sets for b in sets)
        changed_groups = max(len(a | b) for a in sets for b in sets)
        stated = made.claimed(made.measurements[0])
        assert most <= stated.chain_length
        assert changed_groups == stated.changed_groups


# --- broken twins: each of these known mistakes must fail the enumeration --------------


def broken(name: str, setting: tuple[str, str, str, int, int | None], **wrong: int) -> None:
    made = case(name, *setting)
    measurement = made.measurements[0]
    twin = made.claimed(replace(measurement, **wrong))
    per_group, total = enumerated_sensitivity(made, measurement)
    assert per_group > twin.l1_per_group or total > twin.l1_over_groups


def test_twin_the_factor_two_of_replacement_is_lost() -> None:
    setting = ("from zero", "row", "substitution", 1, None)
    for name in ("mean", "variance", "histogram", "proportion"):
        broken(name, setting, l1_replaced_row=case(name, *setting).measurements[0].l1_added_row)


def test_twin_a_sum_uses_its_width_although_rows_can_vanish() -> None:
    broken("sum", ("above zero", "row", "substitution", 1, None), l1_replaced_row=3)


def test_twin_one_end_is_used_twice() -> None:
    broken("sum", ("up to zero", "row", "add_remove", 1, None), l1_added_row=0)
    broken("sum", ("odd width across zero", "row", "add_remove", 1, None), l1_added_row=3)


def test_twin_an_odd_width_is_halved_in_integers() -> None:
    broken("mean", ("odd width across zero", "row", "add_remove", 1, None), l1_added_row=7 // 2)


def test_twin_parallel_composition_under_substitution() -> None:
    made = case("count", "from zero", "row", "substitution", 3)
    assert (
        made.claimed(made.measurements[0]).l1_over_groups
        == enumerated_sensitivity(made, made.measurements[0])[1]
        > 1
    )


def test_twin_a_private_size_taken_for_a_public_one() -> None:
    """(u - l) / n with a promised n = 3 under add/remove: smaller tables move further."""
    assert case("mean", "from zero", "row", "add_remove").query.statistics[0].public_rows is None
    tables = [t for n in (2, 3) for t in itertools.product((0, 5), repeat=n)]
    worst = max(abs(Fraction(sum(t), len(t)) - Fraction(sum(t[1:]), len(t) - 1)) for t in tables)
    assert worst > Fraction(5, 3)


def test_twin_the_mean_projected_onto_a_gapped_domain_jumps() -> None:
    """Semantics 2.4: nearest point of [0, 2] u [3, 5] before the noise moves by the whole gap."""
    made = case("mean", "from zero", "row", "substitution", 1, 3)
    domain = (
        Schema.from_dict(
            {
                "dprelease": "schema/1",
                "name": "gap",
                "unit": "row",
                "adjacency": "substitution",
                "columns": {
                    "x": {"kind": "number", "range": [0, 5], "forbidden": [[2, 3]], "step": 1}
                },
            }
        )
        .columns["x"]
        .domain
    )
    assert domain is not None
    n = 500
    before, after = Fraction(5 * 249, n), Fraction(5 * 250 + 1, n)
    snapped = domain.nearest(after) - domain.nearest(before)
    assert made.measurements[0].l1_replaced_row == 5
    assert after - before <= Fraction(6, n) < snapped == 1
