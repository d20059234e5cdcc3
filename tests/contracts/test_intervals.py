"""A unit that is a person in an interval: every neighbour of every small table, by exact enumeration.

Rows of two persons in two weeks and two groups, up to four of them. A neighbour lacks one person's rows
of one week; under substitution they are others of that week. The integers of the reference engine never
move further than is claimed, and the claim is attained. An engine that bounds a person's rows of all
weeks together moves further: it is caught.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dprelease.core.errors import InternalError
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import as_source
from dprelease.planning.layout import layout
from dprelease.query.bounded import BoundedQuery
from dprelease.query.intervals import Intervals
from dprelease.query.load import schema_from_dict
from dprelease.query.merge import merge_release
from dprelease.query.spec import resolve
from dprelease.statistics.sensitivity import (
    PrimitivePlaces,
    bounded_query,
    sensitivity,
    unit_bounds,
)
from dprelease.wall.recompute import recompute
from tests.sizes import FULL

SALT = b"salt"
MONDAY = datetime(2013, 1, 28, 5)
Row = tuple[str, int, str]
ROWS: tuple[Row, ...] = tuple(itertools.product("pq", (0, 1), "ab"))
TABLES = [
    Counter(rows)
    for size in range(5)
    for place, rows in enumerate(itertools.combinations_with_replacement(ROWS, size))
    if FULL or size < 4 or place % 3 == 0 or len({row[:2] for row in rows}) == 1
]
"""All of up to three rows; of four rows those of one person's week, and every third."""
BOUNDS = [(1, 1, None), (1, 2, None), (2, 1, None), (2, 2, 3)]


def asked(groups: int, rows: int, total: int | None, adjacency: str = "add_remove") -> Any:
    unit: dict[str, Any] = {
        "user": "who", "per": "week", "max_groups": groups, "max_rows_per_group": rows,
        **({} if total is None else {"max_rows": total}),
    }  # fmt: skip
    schema = schema_from_dict(
        {
            "dprelease": "schema/1",
            "name": "weeks",
            "unit": unit,
            "adjacency": adjacency,
            "time": {"column": "at", "timezone": "America/New_York"},
            "rows": {"max": 50},
            "columns": {
                "who": {"kind": "identifier"},
                "at": {"kind": "timestamp"},
                "g": {"kind": "category", "values": ["a", "b"]},
            },
            "release": {"epsilon": 1, "by": ["g"], "statistics": ["count", "count(persons)"]},
        }
    )
    return resolve(schema, merge_release(schema))


def task_of(query: Any) -> tuple[BoundedQuery, list[Any]]:
    measurements = [e for b in layout(query) for e in b.options]
    return bounded_query(query, tuple((e, None) for e in measurements)), measurements


@cache
def source(rows: tuple[Row, ...]) -> Any:
    return as_source(
        pa.table(
            {
                "who": pa.array([r[0] for r in rows], pa.string()),
                "at": pa.array([MONDAY + timedelta(days=7 * r[1]) for r in rows]),
                "g": pa.array([r[2] for r in rows], pa.string()),
            }
        )
    )


def integers(task: BoundedQuery, table: Counter[Row]) -> Any:
    data = source(tuple(table.elements()))
    answer = ReferenceEngine().compute(data, task, SALT).reveal_to_mechanism()
    return np.array(answer.sums, dtype=np.int64)


def all_integers(task: BoundedQuery) -> dict[frozenset[tuple[Row, int]], Any]:
    """Return what the engine finds in every table."""
    return {frozenset(t.items()): integers(task, t) for t in TABLES}


def unit_of(row: Row) -> tuple[str, int]:
    return row[:2]


def largest_move(made: Mapping[frozenset[tuple[Row, int]], Any], places: tuple[int, ...]) -> int:
    """Return the largest L1 distance when one person's rows of one week are taken away."""
    worst = 0
    for table in TABLES:
        for unit in {unit_of(row) for row in table}:
            fewer = Counter({r: n for r, n in table.items() if unit_of(r) != unit})
            before, after = made[frozenset(table.items())], made[frozenset(fewer.items())]
            worst = max(worst, int(np.abs(before - after)[:, places].sum()))
    return worst


def largest_replacement(
    known: Mapping[frozenset[tuple[Row, int]], Any], places: tuple[int, ...]
) -> int:
    """Return the largest L1 distance when one person's rows of one week become others of that week."""
    made: dict[Any, list[Any]] = {}
    for table in TABLES:
        for unit in itertools.product("pq", (0, 1)):
            own = Counter({r: n for r, n in table.items() if unit_of(r) == unit})
            if own:
                rest = frozenset((table - own).items()), unit
                made.setdefault(rest, []).append(known[frozenset(table.items())][:, places])
    return max(int(np.abs(np.array(found) - one).sum(axis=(1, 2)).max())
               for found in made.values() for one in found)  # fmt: skip


@pytest.mark.parametrize("bounds", BOUNDS)
def test_no_person_week_moves_the_integers_further_than_claimed(bounds):
    query = asked(*bounds)
    task, measurements = task_of(query)
    made = all_integers(task)
    limits = unit_bounds(query.schema.unit, None, 2)
    for measurement in measurements:
        places = PrimitivePlaces(task).find(measurement, limits.rows)
        claimed = sensitivity(measurement, limits, query.schema.adjacency, 2)
        assert largest_move(made, places) == claimed.l1_over_groups


def test_no_replaced_person_week_moves_the_integers_further_than_claimed():
    query = asked(1, 1, None, "substitution")
    task, measurements = task_of(query)
    made = all_integers(task)
    limits = unit_bounds(query.schema.unit, None, 2)
    for measurement in measurements:
        places = PrimitivePlaces(task).find(measurement, limits.rows)
        claimed = sensitivity(measurement, limits, query.schema.adjacency, 2)
        assert largest_replacement(made, places) == claimed.l1_over_groups == 2


def test_a_twin_that_bounds_a_person_over_all_weeks_moves_further():
    query = asked(1, 1, None)
    task, measurements = task_of(query)
    limits = unit_bounds(query.schema.unit, None, 2)
    places = PrimitivePlaces(task).find(measurements[0], limits.rows)
    claimed = sensitivity(measurements[0], limits, query.schema.adjacency, 2)
    over_all = all_integers(replace(task, per=None))
    assert largest_move(over_all, places) > claimed.l1_over_groups
    month = replace(task, per=Intervals("at", "month", "America/New_York"))
    assert largest_move(all_integers(month), places) >= claimed.l1_over_groups


@pytest.mark.parametrize("per", [None, Intervals("at", "day"), Intervals("other", "week")])
def test_the_wall_refuses_a_query_that_bounds_in_other_intervals(per):
    query = asked(1, 1, None)
    task, measurements = task_of(query)
    places = PrimitivePlaces(task).find(measurements[0], 1)

    def wall(task: BoundedQuery) -> Any:
        return recompute(
            task, measurements[0], places, None, unit=query.schema.unit, groups=2, whole=True,
            adjacency=query.schema.adjacency, per=query.intervals,
        )  # fmt: skip

    assert wall(task).l1_over_groups == 1
    with pytest.raises(InternalError, match="does not measure"):
        wall(replace(task, per=per))


def test_persons_are_counted_once_however_many_weeks_they_come():
    task, _ = task_of(asked(2, 1, None))
    (place,) = [i for i, p in enumerate(task.primitives) if p.kind == "persons"]
    table = Counter({("p", 0, "a"): 3, ("p", 1, "a"): 1, ("q", 1, "a"): 1, ("q", 0, "b"): 1})
    assert integers(task, table)[:, place].tolist() == [2, 1]


def test_rows_without_a_time_are_left_out():
    task, _ = task_of(asked(2, 2, None))
    rows = {"who": ["p", "p", "q"], "at": [None, MONDAY, None], "g": ["a", "a", "b"]}
    table = pa.table({name: pa.array(cells) for name, cells in rows.items()})
    for engine in (ReferenceEngine(), DuckDBEngine(threads=1)):
        found = engine.compute(as_source(table), task, SALT).reveal_to_mechanism().sums
        places = [i for i, p in enumerate(task.primitives) if p.kind == "rows"]
        assert found[:, places[0]].tolist() == [1, 0]
