"""Spark tells ids apart as DuckDB does: every storage type it reads, collations, bytes, one odd cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.core.errors import SourceError
from dprelease.engines.source import as_source
from dprelease.engines.spark import SparkEngine
from dprelease.query.bounded import BoundedQuery, GroupKeys, Primitive, Window
from dprelease.schema.column import Column, Kind
from tests.contracts.test_identity import KINDS, STORED, persons
from tests.engines.spark_session import needs_spark, session
from tests.engines.test_parquet_rows import ALL, MONTH, X, lying
from tests.sizes import FULL, some

pytestmark = needs_spark

_UNREAD = ("[ns", "[ms", "decimal(76", "uint64", "uuid")
"""Refused by name, or no type of Spark's."""
READ = [name for name in STORED if not any(part in name for part in _UNREAD)]


@pytest.mark.parametrize("name", some(READ, 2))
def test_no_two_stored_ids_meet_and_equal_ones_do(name: str, tmp_path: Path) -> None:
    session()
    column = STORED[name]
    different = column.different - (
        2 if name == "date32[day]" else 0
    )  # days beyond timestamps are null
    pq.write_table(pa.table({"id": column.array}), tmp_path / "t.parquet", version="2.6")
    # as an identifier, every other type as one more kind in turn; as all kinds in `make evidence`
    (first, *others), i = KINDS[name], READ.index(name) // 2
    for kind in (first, *(others if FULL else [others[i % len(others)]][: 1 - i % 2])):
        found = persons(SparkEngine(), as_source(tmp_path / "t.parquet"), kind)
        assert found == (different + 2, different, different), kind


@pytest.mark.parametrize(
    "collation", some(("UTF8_LCASE", "UNICODE_CI", "UNICODE_CI_AI", "de_CI"), 2)
)
def test_a_collation_makes_no_two_people_one(collation: str) -> None:
    cells = ["a", "A", "á", "b", "a"]
    frame = session().createDataFrame([(cell,) for cell in cells], "id STRING")
    frame = frame.selectExpr(f"id COLLATE {collation} AS id")
    assert persons(SparkEngine(), as_source(frame), Kind.identifier) == (5, 4, 4)
    region = Column("id", Kind.category, values=("a", "A", "b"))
    query = BoundedQuery(
        (region,), GroupKeys((region,), (("a",), ("A",), ("b",))), (), (Primitive("rows"),)
    )
    assert SparkEngine().compute(
        as_source(frame), query, b""
    ).reveal_to_mechanism().sums.tolist() == [[2], [1], [1]]


def refused(table: pa.Table, column: Column, tmp_path: Path, **options: Any) -> str:
    pq.write_table(table, tmp_path / "t.parquet", **options)
    query = BoundedQuery(
        (column,), GroupKeys((), ((),)), (), (Primitive("rows"),), user=column.name
    )
    with pytest.raises(SourceError) as error:
        SparkEngine().preflight(as_source(tmp_path / "t.parquet"), query)
    return str(error.value.code)


def test_what_spark_does_not_read_exactly_is_refused(tmp_path: Path) -> None:
    session()
    moments = pa.array([0, 2**62], pa.int64())
    identifier = Column("id", Kind.identifier)
    assert (
        refused(pa.table({"id": moments.view(pa.timestamp("ms"))}), identifier, tmp_path)
        == "DPR504"
    )
    nanoseconds = pa.table({"id": moments.view(pa.timestamp("ns"))})
    assert (
        refused(nanoseconds, identifier, tmp_path, use_deprecated_int96_timestamps=True) == "DPR504"
    )


def test_an_odd_date_stops_nobody_and_no_claim_filters(tmp_path: Path) -> None:
    session()
    days = pa.array([18_262, 2**31 - 1, -(2**31)], pa.int32()).view(pa.date32())
    pq.write_table(pa.table({"at": days}), tmp_path / "t.parquet")
    day = Column("at", Kind.date)
    query = BoundedQuery(
        (day,),
        GroupKeys((), ((),)),
        (),
        (Primitive("rows"),),
        window=Window("at", MONTH.start, MONTH.end),
    )
    assert SparkEngine().compute(
        as_source(tmp_path / "t.parquet"), query, b""
    ).reveal_to_mechanism().sums.tolist() == [[1]]
    from dprelease.query.expression import parse_condition

    asked = BoundedQuery(
        (X,),
        GroupKeys((), ((),)),
        (),
        (Primitive("rows"),),
        where=parse_condition("x > 700000000", ALL, origin="test"),
    )
    source = lying(tmp_path / "lie.parquet")
    assert SparkEngine().compute(source, asked, b"").reveal_to_mechanism().sums.tolist() == [[1000]]
