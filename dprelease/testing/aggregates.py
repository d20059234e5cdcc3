"""The contract of a statistic: no neighbour changes its components by more than its measurement says.

Every table of a few rows over a few values is enumerated (ends, middle, out of range, null), every
unit's contribution is added to it, taken away or replaced, primitives are made by the reference
engine, and the sensitivity that is found is compared with the stated one. The domain, the published
columns and the post-processing are looked at on the same tables: whatever the cells are, `finish`
returns one finite value or NaN per group and column.

Units    cells in their own steps. Limits  measurements whose cells add up over units (form `linear`),
the only ones that a statistic of another package can be made of without changes elsewhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import as_source
from dprelease.measurements.base import family_of
from dprelease.planning.layout import layout
from dprelease.query.bounded import BoundedQuery
from dprelease.query.load import Schema
from dprelease.query.merge import merge_release
from dprelease.query.spec import Query, resolve
from dprelease.schema.unit import Adjacency, UserUnit
from dprelease.statistics.base import kind_named
from dprelease.statistics.exact import form_of
from dprelease.statistics.measurement import Context, Measurement
from dprelease.statistics.sensitivity import PrimitivePlaces, bounded_query, unit_bounds

COLUMNS: Mapping[str, Mapping[str, Any]] = {
    "odd width across zero": {"range": [-3, 4], "step": 1},
    "above zero": {"range": [2, 5], "step": 1},
    "with a gap": {"range": [-2, 6], "forbidden": [[0, 3]], "step": 1},
}
_UNITS: tuple[Any, ...] = (
    "row",
    {"user": "who", "max_rows_per_group": 2, "max_groups": 1},
    {"user": "who", "max_rows_per_group": 1, "max_groups": 2},
)
_SALT = b"contract"

Ints = npt.NDArray[np.object_]
_Row = tuple[float | None, str]


@dataclass(frozen=True, slots=True)
class Setting:
    """A statistic in one setting: its query, its measurement, the engine's task."""

    query: Query
    measurement: Measurement
    context: Context
    task: BoundedQuery
    values: tuple[float | None, ...]

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(key[0] for key in self.query.groups.keys)


def check_aggregate(
    name: str,
    statistic: str | None = None,
    columns: Mapping[str, Mapping[str, Any]] = COLUMNS,
) -> int:
    """Check the statistic registered as `name`; return how many settings were enumerated.

    Args:
        statistic: how it is asked of a numeric column x; `name(x)` if None. `{low}` and `{high}`
            stand for the ends of its range.
        columns: what x is declared as, by a name for people, each in turn. For a statistic that takes
            only some columns, of values above 0 say; at least two, as one range may hide a mistake.

    Raises:
        AssertionError: fewer than two columns, a neighbour changes the components by more than stated, or `finish` is not total.
    """
    assert len(columns) > 1, "one column may hide a mistake: give two ranges"
    statistic_kind, count = kind_named(name), 0
    for case in cases(statistic or f"{name}(x)", columns):
        measurement = case.measurement
        assert form_of(measurement).additive, (
            f"{measurement.family}: only additive cells are enumerated"
        )
        found = enumerated_sensitivity(case)
        query = case.query
        bounds = unit_bounds(query.schema.unit, None, len(case.groups))
        kind = family_of(measurement)
        stated = kind.sensitivity(measurement, bounds, query.schema.adjacency, len(case.groups))
        said = f"{name}, {measurement.family}, {query.schema.adjacency.value}, {query.schema.unit}"
        assert found[0] <= stated.l1_per_group, f"{said}: one group changes by {found[0]}"
        assert found[1] <= stated.l1_over_groups, (
            f"{said}: all groups change by {found[1]} together"
        )
        if (
            kind.counted(measurement) == measurement.weights
        ):  # else its cells are made by a draw of its own
            cells = np.array(
                list(itertools.product((-7.0, 0.0, 3.0, 1e6), repeat=len(measurement.cells)))[:256]
            )
            with np.errstate(all="ignore"):
                values = statistic_kind.finish(measurement, cells)
            published = statistic_kind.columns(case.context)
            assert values.shape == (len(cells), len(published)), (
                f"{said}: finish has shape {values.shape}"
            )
        count += 1
    assert count, f"{name} has no measurements"
    return count


def cases(statistic: str, columns: Mapping[str, Mapping[str, Any]] = COLUMNS) -> Iterator[Setting]:
    """Yield every setting of a statistic of one numeric column x, declared as `columns` say."""
    adjacencies = ("add_remove", "substitution")
    for column, unit, adjacency in itertools.product(columns, _UNITS, adjacencies):
        low, high = columns[column]["range"]
        text = statistic.replace("{low}", str(low)).replace("{high}", str(high))
        schema = Schema.from_dict(
            {
                "dprelease": "schema/1",
                "name": "contract",
                "unit": unit,
                "adjacency": adjacency,
                "rows": {"max": 50},
                "columns": {
                    "who": {"kind": "identifier"},
                    "x": {"kind": "number", **columns[column]},
                    "g": {"kind": "category", "values": ["a", "b"]},
                },
                "release": {"epsilon": 1, "by": ["g"], "statistics": [text]},
            }
        )
        query = resolve(schema, merge_release(schema))
        values = (float(low), float(high), 1.0, high + 9.0, None)
        for block in layout(query):
            for measurement in block.options:
                yield Setting(
                    query,
                    measurement,
                    block.members[0].statistic,
                    bounded_query(query, ((measurement, None),)),
                    values,
                )


def enumerated_sensitivity(case: Setting) -> tuple[int, int]:
    """Return the largest L1 distance of one group's cells, and of all groups' together."""
    contributions = _contributions(case)
    if case.query.schema.adjacency is Adjacency.add_remove:
        steps = [np.abs(c) for c in contributions]
    else:
        steps = [np.abs(a - b) for a, b in itertools.combinations(contributions, 2)]
    per_group = max(int(s.sum(axis=1).max()) for s in steps)
    return per_group, max(int(s.sum()) for s in steps)


def _contributions(case: Setting) -> list[Ints]:
    """Return what one unit can add to the cells, shape `(groups, cells)` each, nothing included.

    Cells are linear in the rows, so what a unit adds does not depend on the others' rows. A
    truncated mean's first draw is its size; its mean follows from that (`statistics.scalar`).
    """
    measurement, schema = case.measurement, case.query.schema
    most = 1
    if isinstance(schema.unit, UserUnit):
        most = schema.unit.max_rows_per_group * schema.unit.max_groups
    kinds = tuple(itertools.product(case.values, case.groups))
    weights = np.array(family_of(measurement).counted(measurement), dtype=object)
    m = unit_bounds(schema.unit, None, len(case.groups)).rows
    places = list(PrimitivePlaces(case.task).find(measurement, m))
    out: dict[bytes, Ints] = {}
    for sums in _sums(case.task, kinds, most):
        cells = np.asarray(sums[:, places] @ weights.T, dtype=object)
        out[repr(cells.tolist()).encode()] = cells
    return list(out.values())


@lru_cache(maxsize=8)
def _sums(task: BoundedQuery, kinds: tuple[_Row, ...], most: int) -> list[Any]:
    """Return the sums of all that a unit of at most so many rows can be. Settings that ask for the same sums share them."""
    tables = (
        _table(rows)
        for size in range(most + 1)
        for rows in itertools.combinations_with_replacement(kinds, size)
    )
    answers = (ReferenceEngine().compute(as_source(table), task, _SALT) for table in tables)
    return [answer.reveal_to_mechanism().sums for answer in answers]


def _table(rows: tuple[_Row, ...]) -> pa.Table:
    return pa.table(
        {
            "who": pa.array(["one"] * len(rows), pa.string()),
            "x": pa.array([x for x, _ in rows], pa.float64()),
            "g": pa.array([g for _, g in rows], pa.string()),
        }
    )
