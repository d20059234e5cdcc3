"""What can never fit is refused by its type; what some value could have is not."""

from __future__ import annotations

import itertools
import random
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.core.errors import SourceError
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.physical import Physical, check_columns, of_duckdb, writes
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import as_source, duckdb_table
from dprelease.query.bounded import BoundedQuery, GroupKeys, Primitive
from dprelease.schema.column import Column, Kind
from tests.sizes import FULL, some

STORED = {
    "BIGINT": "42",
    "TINYINT": "-1",
    "UBIGINT": "18446744073709551615",
    "HUGEINT": "-170141183460469231731687303715884105727",
    "DECIMAL(9,2)": "1.50",
    "DOUBLE": "2.5",
    "FLOAT": "-inf",
    "BOOLEAN": "true",
    "DATE": "0044-03-15",
    "TIMESTAMP": "2020-01-01 00:00:00.5",
    "TIMESTAMP WITH TIME ZONE": "2020-01-01 00:00:00+00",
}


@pytest.mark.parametrize("kind", STORED)
def test_the_text_of_any_stored_value_is_taken_for_one(kind: str) -> None:
    """No type is refused wrongly: values across the whole range, written by the engine itself."""
    pick, connection = random.Random(kind), duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    raw: list[object] = [
        0,
        1,
        -1,
        7,
        10**18,
        10**37,
        0.1,
        1e300,
        1e-7,
        5e-324,
        "inf",
        "-inf",
        "true",
        False,
    ]
    raw += [
        date(2020, 1, 1),
        "infinity",
        "-infinity",
        "0044-03-15 (BC)",
        "9999-12-31 23:59:59.999999",
    ]
    raw += [pick.randrange(-(2**63), 2**64) for _ in range(50)] + [
        pick.gauss(0, 1e9) for _ in range(50)
    ]
    raw += ["12345-01-01", "2020-02-02 10:11:12.5", "2020-07-01 10:00:00+02"]
    seen = 0
    for value in raw:
        (text,) = connection.execute(
            f"SELECT TRY_CAST(TRY_CAST($v AS {kind}) AS VARCHAR)", {"v": str(value)}
        ).fetchone()  # fmt: skip
        if text is not None:
            seen += 1
            far = text.endswith("infinity") or "(BC)" in text or text.startswith("12345-01")
            assert writes(of_duckdb(kind), text) is not far, (
                text
            )  # a day lies in the years 1 to 9999
    assert seen
    assert writes(of_duckdb(kind), STORED[kind])
    assert not writes(of_duckdb(kind), "north")


@pytest.mark.parametrize(
    ("stored", "labels", "fit"),
    [
        (Physical.whole, ("1", "2"), True),
        (Physical.whole, ("north", "2"), False),  # each by itself: no row is ever north
        (Physical.whole, ("01", "10"), False),  # a code: 1 is another text
        (Physical.whole, ("1.0", "2"), True),
        (Physical.whole, ("1.5", "2"), False),
        (Physical.whole, ("1", "1.0"), False),  # one number twice
        (Physical.exact, ("1.1", "1.10"), False),
        (Physical.exact, ("01.5",), False),
        (Physical.float, ("9007199254740991", "inf"), True),
        (Physical.float, ("9007199254740993",), False),  # a double is several such numbers
        (Physical.float, ("0.12345678901234567890",), False),
        (Physical.float, ("0.00001", "5.50"), True),
        (Physical.boolean, ("True", "FALSE"), True),
        (Physical.boolean, ("True", "true"), False),
        (Physical.boolean, ("True", "1"), False),
        (Physical.text, ("01", "1", "True", "true"), True),
        (Physical.whole, ("north", "south"), False),
        (Physical.whole, ("01", "1.0", "+1", " 1"), False),
        (Physical.unsigned, ("-1",), False),
        (Physical.float, ("7", "2.5"), True),
        (Physical.float, ("north",), False),
        (Physical.exact, ("1.50",), True),
        (Physical.exact, ("nan",), False),
        (Physical.boolean, ("yes", "no"), False),
        (Physical.boolean, ("true",), True),
        (Physical.date, ("2020-01-01",), True),
        (Physical.date, ("January",), False),
        (Physical.timestamp, ("2020-01-01",), True),  # its midnight
        (Physical.date, ("2020-01-01 00:00:00",), True),
        (Physical.date, ("2020-01-01 10:00:00",), False),
        (Physical.timestamp, ("2020-01-01 00:00:00",), True),
        (Physical.instant, ("2020-01-01 00:00:00",), False),
        (Physical.text, ("anything",), True),
    ],
)
def test_labels_that_no_value_has(stored: Physical, labels: tuple[str, ...], fit: bool) -> None:
    for other in (None, "rest"):
        column = Column("g", Kind.category, values=labels, other=other, null_label="none")
        if fit:
            check_columns("t", [column], {"g": stored}, ())
            continue
        with pytest.raises(SourceError) as caught:
            check_columns("t", [column], {"g": stored}, ())
        assert caught.value.code == "DPR504"
        assert caught.value.spent == "nothing"


G = Column("g", Kind.category, values=("north", "south"))
QUERY = BoundedQuery((G,), GroupKeys((G,), (("north",), ("south",))), (), (Primitive("rows"),))
NEVER: dict[str, Any] = {
    "int64": pa.array([1, 2]),
    "double": pa.array([1.0, None]),
    "boolean": pa.array([True, False]),
    "date": pa.array([date(2020, 1, 1)]),
    "timestamp": pa.array([datetime(2020, 1, 1)]),
    "decimal": pa.array([1]).cast(pa.decimal128(20, 0)),
    "duration": pa.array([1], pa.duration("us")),
    "time": pa.array([1], pa.time64("us")),
    "list": pa.array([["north"]]),
    "int64 by codes": pa.array([1, 2]).dictionary_encode(),
}


@pytest.mark.parametrize("kind", NEVER)
def test_every_door_refuses_labels_that_its_type_never_has(kind: str, tmp_path: Path) -> None:
    table = pa.table({"g": NEVER[kind]})
    sources: dict[str, Any] = {
        "arrow": table,
        "polars": pl.from_arrow(table),
        "arrow in pandas": None,
    }
    sources["arrow in pandas"] = table.to_pandas(types_mapper=pd.ArrowDtype)
    sources["relation"] = duckdb.from_arrow(table)
    if kind not in ("duration", "time", "list"):
        sources["pandas"] = table.to_pandas(date_as_object=False)
    if kind != "duration":  # Parquet keeps whole numbers of it
        pq.write_table(table, tmp_path / "t.parquet")
        sources["parquet"] = str(tmp_path / "t.parquet")
    with duckdb.connect(str(tmp_path / "t.duckdb")) as made:
        made.from_arrow(table).create("t")
    sources["duckdb"] = duckdb_table(tmp_path / "t.duckdb", "t")
    if kind in ("date", "decimal", "int64 by codes"):
        del sources["pandas"]  # objects, or a Categorical: text
    if kind == "boolean":
        sources["nullable"] = table.to_pandas().convert_dtypes()
    doors = list(sources.items())
    for name, data in doors if FULL else doors[list(NEVER).index(kind) % 2 :: 2]:
        for engine in (DuckDBEngine(), ReferenceEngine()):
            with pytest.raises(SourceError) as caught:
                engine.preflight(as_source(data), QUERY)
            assert caught.value.code == "DPR504", (name, engine.name)


PANDAS = {
    "timedelta": pd.Series(pd.to_timedelta(["1 day", None])),
    "complex": pd.Series([1 + 2j, 0]),
    "interval": pd.Series(pd.interval_range(0, 2)),
    "sparse complex": pd.Series(pd.arrays.SparseArray([1j, 0])),
    "arrow duration": pd.Series([1], dtype=pd.ArrowDtype(pa.duration("ns"))),
}


@pytest.mark.parametrize(
    ("name", "kind"),
    some(  # every type and every kind
        itertools.product(
            PANDAS,
            (Kind.identifier, Kind.category, Kind.number, Kind.boolean, Kind.date, Kind.timestamp),
        ),
        5,
    ),
)
def test_pandas_types_that_fit_nothing(name: str, kind: Kind) -> None:
    column = Column("g", kind, values=("north",) if kind is Kind.category else ())
    query = BoundedQuery((column,), GroupKeys((), ((),)), (), (Primitive("rows"),), user="g")
    for series in (PANDAS[name], PANDAS[name].iloc[:0]):
        for engine in (DuckDBEngine(), ReferenceEngine()):
            with pytest.raises(SourceError) as caught:
                engine.preflight(as_source(pd.DataFrame({"g": series})), query)
            assert caught.value.code == "DPR504"
