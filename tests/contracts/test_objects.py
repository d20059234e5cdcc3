"""Python objects whose type no declaration means: null cell by cell where the typed column is refused.

Which objects a column of dtype `object` holds is what its rows hold. A refusal for it would tell of the
one row that differs, so nothing is refused, and nothing raises: such a cell is its text.
"""

from __future__ import annotations

import enum
import ipaddress
import itertools
import uuid
from datetime import date, time, timedelta
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dprelease as dp
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import as_source
from dprelease.schema.column import Kind
from tests.contracts.cells import KINDS, answer_of, query_of, refuses
from tests.rules_alone import built_in_rules_only
from tests.sizes import FULL

ENGINES = (DuckDBEngine, ReferenceEngine)


class Colour(enum.Enum):
    red = 1


OBJECTS: dict[str, list[Any]] = {
    "months": [pd.Period("2024-01", "M")] * 3,
    "quarters": [pd.Period("2024Q1")] * 3,
    "weeks": [pd.Period("2024-01-01", "W")] * 3,
    "durations": [
        timedelta(0),
        pd.Timedelta(1, "D"),
        np.timedelta64(5, "D"),
        np.timedelta64(5, "ns"),
    ],
    "records": [{}, {"a": 1}],
    "lists": [[1], (1,), [], [[1]]],
    "sets": [{1}, frozenset({2})],
    "uuids": [uuid.UUID(int=1)],
    "addresses": [ipaddress.ip_address("1.2.3.4"), ipaddress.ip_address("::1")],
    "enums": [Colour.red],
    "intervals": [pd.Interval(0, 1)],
    "complex": [1j, 1 + 0j],
    "clocks": [time(10)],
    "arrays": [np.array([1]), np.array(1), pd.Series([1]), pd.DataFrame()],
    "bytes": [b"\xff\xfe", b"north"],
}
TYPED = {
    "months": pd.array(OBJECTS["months"], dtype="period[M]"),
    "quarters": pd.array(OBJECTS["quarters"]),
    "weeks": pd.array(OBJECTS["weeks"]),
    "durations": pd.to_timedelta([0, 1]),
    "intervals": pd.arrays.IntervalArray(OBJECTS["intervals"]),
    "complex": np.array(OBJECTS["complex"]),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_such_objects_are_null_and_no_object_decides_whether_a_column_is_taken(name: str) -> None:
    """One table of each kind in turn, and a day among the objects; all of all in `make evidence`."""
    frame = pd.DataFrame({"x": pd.Series(OBJECTS[name], dtype=object)})
    day = pd.DataFrame({"x": pd.Series([*OBJECTS[name], date(2024, 1, 1)], dtype=object)})
    objects = [frame, frame.iloc[:0]]
    if name != "enums":  # of which polars takes the value
        objects.append(pl.DataFrame({"x": pl.Series(OBJECTS[name], dtype=pl.Object)}))
    turn = list(OBJECTS).index(name)
    own = (Kind.number, Kind.boolean)[turn % 2], Kind.date
    for place, kind in enumerate(KINDS if FULL else own):
        if kind is Kind.category:
            continue
        some_of = objects if FULL else [objects[(turn + place) % len(objects)]]
        for engine, one in itertools.product(ENGINES if FULL else ENGINES[:1], some_of):
            assert answer_of(engine(), as_source(one), kind, ()) == (0, 0), kind
        dated = kind in (Kind.date, Kind.timestamp)
        for engine in ENGINES if FULL else [ENGINES[(turn + place) % 2]]:
            assert answer_of(engine(), as_source(day), kind, ()) == ((1, 1) if dated else (0, 0))
    if name in TYPED:
        typed = as_source(pd.DataFrame({"x": TYPED[name]}))
        assert all(
            refuses(DuckDBEngine(), typed, query_of(kind, ("2024-01",)))
            for kind in (KINDS if FULL else [KINDS[turn % len(KINDS)]])
        )


def test_an_object_is_met_by_its_text_where_labels_are_declared() -> None:
    cells = [pd.Period("2024-01", "M"), pd.Period("2024Q1"), Colour.red, uuid.UUID(int=1), b"north"]
    frame = as_source(pd.DataFrame({"x": pd.Series(cells, dtype=object)}))
    labels = ("2024-01", "2024Q1", "Colour.red", str(uuid.UUID(int=1)), "north")
    for engine in ENGINES:
        assert answer_of(engine(), frame, Kind.category, labels) == (1, 1, 1, 1, 1, 0)


def test_the_release_of_such_a_column_says_that_it_holds_no_signal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built_in_rules_only(monkeypatch)
    schema = {
        "dprelease": "schema/1", "name": "t", "unit": "row", "adjacency": "add_remove",
        "rows": {"max": 1000, "expected": 400},
        "columns": {"x": {"kind": "number", "range": [0, 100], "step": 1}},
        "release": {"epsilon": 400, "statistics": ["mean(x)", "median(x)"]},
    }  # fmt: skip
    frame = pd.DataFrame({"x": pd.Series([timedelta(1)] * 400, dtype=object)})
    table = dp.release(frame, schema).table.to_pylist()
    assert {row["status"] for row in table} == {"empty_signal"}
