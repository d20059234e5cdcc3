"""One stored type is taken or refused alike at every door, before the charge, by its type alone.

Columns of Python objects have no type that one could look at without looking at rows: they are read as
text, cell by cell, and are not here.
"""

from __future__ import annotations

import itertools
from functools import cache

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.core.errors import SourceError
from dprelease.engines.source import as_source
from dprelease.pipeline.planned import plan_release
from dprelease.pipeline.preflight import engine_named, preflight
from dprelease.query.load import schema_from_dict
from tests.sizes import FULL, some

DECLARED = {
    "integer": {"kind": "integer", "range": [0, 10]},
    "number": {"kind": "number", "range": [0, 10]},
    "words": {"kind": "category", "values": ["a", "b"]},
    "digits": {"kind": "category", "values": ["1", "2"]},
    "boolean": {"kind": "boolean"},
    "date": {"kind": "date"},
    "timestamp": {"kind": "timestamp"},
}
NUMBERS = {"integer", "number", "digits", "boolean"}
STORED = {  # what may be declared of it
    "durations": (pa.array([1, 2], pa.duration("us")), set()),
    "nested": (pa.array([[1], [2]]), set()),
    "records": (pa.array([{"a": 1}, {"a": 2}]), set()),
    "whole numbers": (pa.array([1, 2]), NUMBERS),
    "floats": (pa.array([1.0, 2.5]), NUMBERS),
    "booleans": (pa.array([True, False]), {"integer", "number", "boolean"}),
    "instants": (pa.array([0, 1], pa.timestamp("us")), {"date", "timestamp"}),
    "bytes": (
        pa.array([b"a", b"1"]),
        set(DECLARED),
    ),  # read as texts, which most databases make of them
    "texts": (pa.array(["a", "1"]), set(DECLARED)),
}


@cache
def plan_of(declared: str):
    column = DECLARED[declared]
    grouped = column["kind"] in ("category", "boolean")
    block = {
        "dprelease": "schema/1", "name": "t", "unit": "row", "adjacency": "add_remove",
        "rows": {"max": 100}, "columns": {"x": column},
    }  # fmt: skip
    release = {"epsilon": 1, "statistics": ["count"]}
    if grouped:
        release["by"] = ["x"]
    elif column["kind"] in ("integer", "number"):
        release["statistics"] = ["mean(x)"]
    else:
        release["where"] = "year(x) >= 2000"
    return plan_release(schema_from_dict(block, origin="test"), release)


def doors(array: pa.Array, folder):
    """Yield the same column as every kind of table that holds its type."""
    table = pa.table({"x": array})
    yield "arrow", table
    yield "record batch", pa.record_batch({"x": array})
    yield "polars", pl.from_arrow(table)
    yield "polars, lazy", pl.from_arrow(table).lazy()
    yield "pandas with Arrow's types", table.to_pandas(types_mapper=pd.ArrowDtype)
    frame = table.to_pandas()
    if frame["x"].dtype != object:
        yield "pandas", frame
    yield "DuckDB", duckdb.from_arrow(table)
    if not pa.types.is_duration(array.type):  # Parquet has no durations
        pq.write_table(table, folder / "t.parquet")
        yield "Parquet", folder / "t.parquet"


@pytest.mark.parametrize("declared", DECLARED)
def test_every_door_takes_and_refuses_the_same(declared, tmp_path):
    """Every pair of a declaration, a stored type and a door; all of all in `make evidence`."""
    plan, engine = plan_of(declared), engine_named("duckdb")
    turn = list(DECLARED).index(declared)
    for row, (stored, (array, taken)) in enumerate(STORED.items()):
        for column, (door, data) in enumerate(doors(array, tmp_path)):
            if not FULL and (turn + row + column) % 6:
                continue
            try:
                preflight(plan, as_source(data), engine)
                code = None
            except SourceError as refused:
                code = refused.code
            assert code == (None if declared in taken else "DPR504"), (stored, door)


PANDAS_ALONE = {
    "timedelta": pd.Series(pd.to_timedelta([1, 2], unit="s")),
    "complex": pd.Series(np.array([1 + 2j, 3])),
    "interval": pd.Series(pd.interval_range(0, 2)),
    **{f"period {f}": pd.Series(pd.period_range("2024-01-01", periods=2, freq=f)) for f in "MQWD"},
    "categories of durations": pd.Series(pd.to_timedelta([1, 2], unit="s"), dtype="category"),
    "categories of periods": pd.Series(
        pd.period_range("2024-01", periods=2, freq="M"), dtype="category"
    ),
    "categories of intervals": pd.Series(pd.interval_range(0, 2), dtype="category"),
}


@pytest.mark.parametrize(
    ("declared", "name"), some(itertools.product(DECLARED, PANDAS_ALONE), 3)
)  # fmt: skip
def test_types_that_pandas_alone_has_are_refused(declared, name):
    with pytest.raises(SourceError) as caught:
        preflight(
            plan_of(declared),
            as_source(pd.DataFrame({"x": PANDAS_ALONE[name]})),
            engine_named("duckdb"),
        )
    assert caught.value.code == "DPR504"
