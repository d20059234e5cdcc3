"""What one unit can do to every aggregate of several columns, by brute force over small tables.

The same contract as `test_sensitivities`, over rows of two columns: values at and beyond the ends, a
gap's edges, nulls in either column. Every measurement that a layout offers is enumerated under both
adjacencies, row and user units, public and private size, and the wall's own moves are compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.core import registry
from dprelease.core.errors import InternalError, WithheldError
from dprelease.query.answer import Answer
from dprelease.query.bounded import BoundedQuery, Fixed, Primitive
from dprelease.schema.unit import Adjacency
from dprelease.statistics.base import kind_named
from dprelease.statistics.exact import exact_cells
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import unit_bounds
from dprelease.wall.recompute import row_sensitivity
from tests.contracts.brute_cases import COLUMNS, Case, built, obvious_code
from tests.kinds import SEVERAL

Ints = npt.NDArray[np.int64]
Row = tuple[float | None, ...]

PAIRS = (
    ("odd width across zero", "from zero"),
    ("with a gap", "half steps"),
    ("below zero", "up to zero"),
)


def case(
    name: str,
    columns: tuple[str, ...],
    unit: str,
    adjacency: str,
    groups: int = 1,
    public: int | None = None,
) -> Case:
    names = "xyz"[: len(columns)]
    declared: dict[str, Any] = {}
    for label, kind in zip(names, columns, strict=True):
        high = COLUMNS[kind]["range"][1]
        nulls = {} if public is None else {"nulls": {"default": high}}
        declared[label] = {"kind": "number", **COLUMNS[kind], **nulls}
    made = built(declared, f"{name}({', '.join(names)})", unit, adjacency, groups, public)
    values: list[tuple[float | None, ...]] = []
    for label in names:
        ends = made.ends(label)
        values.append(tuple(dict.fromkeys([ends[0] - 9.0, ends[-1] + 9.0, ends[1], None]))[:4])
    rows = tuple(itertools.product(*values))
    return replace(made, values=rows if len(columns) == 2 else rows[::3])


def primitives(task: BoundedQuery, row: Row) -> list[int]:
    """Return what one row adds to every primitive, computed the obvious way."""
    codes: dict[str, int | None] = {}
    for code in task.codes:
        assert isinstance(code, Fixed)
        codes[code.column] = obvious_code(code, row["xyz".index(code.column)])
    return [_summand(task, p, codes) for p in task.primitives]


def _summand(task: BoundedQuery, p: Primitive, codes: dict[str, int | None]) -> int:
    def of(place: int | None) -> int | None:
        assert place is not None
        code = task.codes[place]
        assert isinstance(code, Fixed)
        return codes[code.column]

    one = of(p.code)
    if p.kind == "power":
        return 0 if one is None else one**p.power
    assert p.kind == "product"
    other = of(p.other)
    return 0 if one is None or other is None else one**p.power * other**p.other_power


def cells_of(made: Case, measurement: Measurement, sums: Ints) -> Ints:
    """Return exact cells as the wall makes them from primitives, `(tables, cells)`."""
    answer = Answer(sums.astype(object))
    out = exact_cells(measurement, made.places(measurement), answer, sums.shape[0])
    return np.asarray(out, dtype=np.int64)


def contributions(made: Case) -> Ints:
    """Return the primitives of everything one unit may hold, `(contributions, K, primitives)`."""
    bounds = unit_bounds(made.query.schema.unit, None, made.groups)
    rows = np.unique(np.array([primitives(made.task, r) for r in made.values]), axis=0)
    here: dict[int, Ints] = {0: np.zeros((1, rows.shape[1]), dtype=np.int64)}
    for count in range(1, bounds.rows + 1):
        chosen = itertools.combinations_with_replacement(range(len(rows)), count)
        here[count] = np.unique(np.array([rows[list(c)].sum(axis=0) for c in chosen]), axis=0)
    out = []
    total = bounds.total or bounds.rows * bounds.groups
    for counts in itertools.product(range(bounds.rows + 1), repeat=made.groups):
        if sum(c > 0 for c in counts) <= bounds.groups and sum(counts) <= total:
            out += [np.stack(sums) for sums in itertools.product(*(here[c] for c in counts))]
    return np.array(out, dtype=np.int64)


def additive_distances(made: Case, measurement: Measurement) -> Iterator[Ints]:
    """Yield L1 distances per group, `(neighbours, K)`, of a measurement that adds up over units."""
    held = contributions(made)
    flat = cells_of(made, measurement, held.reshape(-1, held.shape[2]))
    cells = np.unique(flat.reshape(held.shape[0], made.groups, -1), axis=0)
    if made.adjacency is Adjacency.add_remove:
        yield np.abs(cells).sum(axis=2)
        return
    # The extremes are at corners: of many contributions only those far apart are needed.
    step = max(1, len(cells) // 150)
    for one in cells[::step]:
        yield np.abs(cells - one).sum(axis=2)


def table_distances(made: Case, measurement: Measurement) -> Iterator[Ints]:
    """Yield the L1 distances between all tables of n rows that differ in one."""
    n = measurement.public_rows
    assert n is not None
    rows = np.unique(np.array([primitives(made.task, r) for r in made.values]), axis=0)
    for others in itertools.combinations_with_replacement(range(len(rows)), n - 1):
        rest = rows[list(others)].sum(axis=0) if others else np.zeros(rows.shape[1], dtype=np.int64)
        cells = cells_of(made, measurement, rest + rows)
        yield np.abs(cells[:, None] - cells[None, :]).sum(axis=2).reshape(-1, 1)


def enumerated_sensitivity(made: Case, measurement: Measurement) -> tuple[int, int]:
    """Return the largest move in one group and over all groups together, L1."""
    source = table_distances if measurement.public_rows is not None else additive_distances
    per_group = total = 0
    for found in source(made, measurement):
        per_group, total = (
            max(per_group, int(found.max())),
            max(total, int(found.sum(axis=1).max())),
        )
    return per_group, total


def grid(name: str) -> Iterator[tuple[tuple[str, ...], str, str, int, int | None]]:
    for pair in PAIRS:
        for n in (1, 2, 3):
            yield pair, "row", "substitution", 1, n
        for adjacency in ("add_remove", "substitution"):
            yield pair, "row", adjacency, 3, None
            yield pair, "m=2 G=1", adjacency, 2, None
    if name == "eigenvalues":
        three = (*PAIRS[0], "half steps")
        for n in (2, 3):
            yield three, "row", "substitution", 1, n
        for adjacency in ("add_remove", "substitution"):
            yield three, "row", adjacency, 2, None
    else:
        for unit in ("m=1 G=2", "m=2 G=2", "m=2 G=2 T=3"):
            yield PAIRS[0], unit, "add_remove", 2, None
        yield PAIRS[0], "m=1 G=2", "substitution", 2, None


def test_every_aggregate_of_several_columns_is_covered() -> None:
    assert set(SEVERAL) <= set(registry.names("aggregates"))
    assert all(kind_named(name).name == name for name in SEVERAL)


ROUNDED = ("spectrum", "matrix")
"""Families whose cells are rounded to a public grid: their bound has an allowance for it."""


@pytest.mark.parametrize("name", SEVERAL)
def test_no_neighbour_moves_further_than_stated_and_the_wall_finds_the_same(name: str) -> None:
    for setting in grid(name):
        made = case(name, *setting)
        assert made.measurements, setting
        for measurement in made.measurements:
            per_group, total = enumerated_sensitivity(made, measurement)
            stated = made.claimed(measurement)
            assert made.proved(measurement) == stated, (setting, measurement.family)
            assert per_group <= stated.l1_per_group, (setting, measurement.family)
            assert total <= stated.l1_over_groups, (setting, measurement.family)
            if measurement.family in ROUNDED:
                continue
            assert row_sensitivity(made.task, measurement, made.places(measurement)) == (
                measurement.l1_added_row,
                measurement.l1_replaced_row,
            )
            reachable = setting[1] == "row" or made.adjacency is Adjacency.add_remove
            if reachable:
                assert per_group == stated.l1_per_group, (setting, measurement.family)
                assert total == stated.l1_over_groups, (setting, measurement.family)


# --- broken twins -------------------------------------------------------------------------------


def test_twin_half_the_sensitivity() -> None:
    for name, n in (("covariance", None), ("covariance", 3), ("correlation", None)):
        made = case(name, PAIRS[0], "row", "substitution", 1, n)
        measurement = made.measurements[0]
        less = replace(measurement, l1_replaced_row=measurement.l1_replaced_row - 1)
        assert enumerated_sensitivity(made, measurement)[0] > made.claimed(less).l1_per_group


def test_twin_moments_over_rows_of_one_column_mixed_with_complete_cases() -> None:
    """S(a) over all rows with a, S(ab) over complete cases: a row (a, null) moves further."""
    made = case("covariance", PAIRS[0], "row", "add_remove")
    measurement = made.measurements[0]
    mixed = tuple(
        replace(p, kind="power", other=None) if p.other_power == 0 and p.kind == "product" else p
        for p in made.task.primitives
    )
    wrong = replace(made.task, primitives=mixed)
    places = made.places(measurement)
    row = made.values[[r[1] for r in made.values].index(None)]
    ours, theirs = (
        np.abs(
            exact_cells(
                measurement, places, Answer(np.array([primitives(t, row)], dtype=object)), 1
            ).astype(int)
        ).sum()
        for t in (made.task, wrong)
    )
    assert ours == 0 < theirs
    assert row_sensitivity(wrong, measurement, places) > (
        measurement.l1_added_row,
        measurement.l1_replaced_row,
    )


def test_twin_a_size_of_the_data_themselves_changes_further() -> None:
    """n S(ab) - S(a) S(b) with the table's own n moves further when a row leaves."""
    made = case("covariance", PAIRS[0], "row", "substitution", 1, 3)
    measurement = next(e for e in made.measurements if e.form == "cross")
    top = measurement.axes[0].scale, measurement.axes[1].scale
    full = [(0, 0)] * 3 + [top] * 3

    def value(rows: list[tuple[int, int]]) -> int:
        n = len(rows)
        return n * sum(a * b for a, b in rows) - sum(a for a, _ in rows) * sum(b for _, b in rows)

    assert value(full) - value(full[:-1]) > measurement.l1_replaced_row
    sums = np.array([primitives(made.task, made.values[0])])
    with pytest.raises(WithheldError) as refused:
        cells_of(made, measurement, sums)
    assert refused.value.code == "DPR702"


def test_the_wall_refuses_products_it_cannot_bound() -> None:
    made = case("covariance", PAIRS[0], "row", "add_remove")
    measurement = made.measurements[0]
    places = made.places(measurement)
    for change in ({"power": 3}, {"other_power": 3}, {"other": None}):
        forged = tuple(replace(p, **change) for p in made.task.primitives)  # type: ignore[arg-type]
        with pytest.raises(InternalError) as refused:
            row_sensitivity(replace(made.task, primitives=forged), measurement, places)
        assert refused.value.code == "DPR902"
    public = case("covariance", PAIRS[0], "row", "substitution", 1, 3)
    cross = next(e for e in public.measurements if e.form == "cross")
    swapped = tuple(replace(p, other=p.code) for p in public.task.primitives)
    with pytest.raises(InternalError):
        row_sensitivity(replace(public.task, primitives=swapped[::-1]), cross, public.places(cross))


def test_a_column_that_drops_nulls_makes_the_size_private() -> None:
    public = case("covariance", PAIRS[0], "row", "substitution", 1, 3)
    cross = next(e for e in public.measurements if e.form == "cross")
    for place in (0, 1):
        codes = list(public.task.codes)
        codes[place] = replace(codes[place], default=None)  # type: ignore[arg-type]
        forged = replace(public, task=replace(public.task, codes=tuple(codes)))
        with pytest.raises(InternalError) as refused:
            forged.proved(cross, public.places(cross))
        assert refused.value.code == "DPR902"
