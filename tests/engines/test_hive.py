"""Files of Hive partitions that the period or the filter excludes are not read, and nothing else changes."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.hive import of_columns
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.request import used_columns
from dprelease.engines.source import Source, as_source
from dprelease.query.bounded import BoundedQuery, GroupKeys, Primitive, Window
from dprelease.query.expression import parse_condition
from dprelease.query.intervals import Intervals
from dprelease.schema.column import Column, Kind

COLUMNS = {
    c.name: c
    for c in (
        Column("day", Kind.date),
        Column("region", Kind.category, values=("n", "s")),
        Column("x", Kind.integer),
    )
}
DAY = Window("day", datetime(2020, 1, 1), datetime(2020, 1, 2))


@pytest.fixture
def source(tmp_path: Path) -> Source:
    for day in ("2020-01-01", "2020-01-02", "noon", "__HIVE_DEFAULT_PARTITION__"):
        for region in ("n", "s"):
            folder = tmp_path / f"day={day}" / f"region={region}"
            folder.mkdir(parents=True)
            pq.write_table(pa.table({"x": [1, 2, None]}), folder / "a.parquet")
    return as_source(str(tmp_path / "**" / "*.parquet"))


@pytest.mark.parametrize(
    ("window", "where", "files", "rows"),
    [
        (None, None, 8, 24),
        (DAY, None, 2, 6),
        (None, "region = 'n'", 4, 12),
        (None, "region = 'n' and x > 1", 4, 4),
        (None, "region = 'n' or x > 1", 8, 16),
        (None, "day is null", 4, 12),
        (DAY, "x >= 1 and (region = 's' and x < 9)", 1, 2),
        (None, "x > 0 and not (region = 'n')", 4, 8),
        (DAY, "region = 'n' and region = 's'", 1, 0),
    ],
)
def test_only_files_that_can_count_are_read(
    window: Window | None, where: str | None, files: int, rows: int, source: Source
) -> None:
    condition = None if where is None else parse_condition(where, COLUMNS, origin="test")
    asked = BoundedQuery(
        tuple(COLUMNS.values()),
        GroupKeys((), ((),)),
        (),
        (Primitive("rows"),),
        where=condition,
        window=window,
    )
    engine = DuckDBEngine()
    engine.preflight(source, asked)
    found = [
        e.compute(source, asked, b"").reveal_to_mechanism().sums.tolist()
        for e in (engine, ReferenceEngine())
    ]
    assert found == [[[rows]], [[rows]]]
    last = [sql for sql in engine.statements if "read_parquet" in sql][-1]
    assert last.count(".parquet'") == files


def test_what_reads_the_keys_alone_reads_no_column_of_a_unit() -> None:
    """Rows are bounded per unit and interval after files are left out: its time is in no folder's name."""
    asked = BoundedQuery(
        tuple(COLUMNS.values()),
        GroupKeys((), ((),)),
        (),
        (Primitive("rows"),),
        window=DAY,
        user="id",
        per=Intervals("at", "month", "UTC"),
    )
    part = of_columns(asked, frozenset({"day"}))
    assert part is not None
    assert [c.name for c in used_columns(part)] == ["day"]


def test_a_column_that_only_other_files_have_is_still_found(source: Source) -> None:
    paths: Any = source.payload
    pq.write_table(pa.table({"y": [1]}), paths[0])
    asked = BoundedQuery(tuple(COLUMNS.values()), GroupKeys((), ((),)), (), (Primitive("rows"),),
                         where=parse_condition("region = 'n' and day = date '2020-01-01' and x is null", COLUMNS, origin="test"), missing=True)  # fmt: skip
    for engine in (DuckDBEngine(), ReferenceEngine()):
        engine.preflight(source, asked)
        assert engine.compute(source, asked, b"").reveal_to_mechanism().sums.tolist() == [[1]]
