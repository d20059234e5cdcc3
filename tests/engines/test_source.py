"""Recognising tables without opening them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.core.errors import SourceError
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import (
    Source,
    as_source,
    duckdb_table,
    file_source,
)
from dprelease.query.bounded import BoundedQuery, Fixed, GroupKeys, Primitive
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain


class Visits(pd.DataFrame):
    """A subclass, as extension packages make them."""


def test_every_make_is_recognised(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1]})
    assert as_source(frame).kind == "pandas"
    assert as_source(Visits({"a": [1]})).kind == "pandas"
    assert as_source(pl.DataFrame({"a": [1]})).kind == "polars"
    assert as_source(pl.LazyFrame({"a": [1]})).kind == "polars"
    assert as_source(pa.table({"a": [1]})).kind == "arrow"
    assert as_source(pa.record_batch({"a": [1]})).kind == "arrow"
    assert as_source(duckdb.connect().sql("SELECT 1 AS a")).kind == "duckdb_relation"
    for name in ("b.csv", "a.csv", "c.parquet", "d.tsv", "e.csv.gz", "f.pq", "G.CSV"):
        (tmp_path / name).touch()
    assert as_source(tmp_path / "c.parquet").kind == "parquet"
    assert as_source(str(tmp_path / "f.pq")).kind == "parquet"
    assert as_source(str(tmp_path / "G.CSV")).kind == "csv"
    for name in ("d.tsv", "e.csv.gz"):
        assert as_source(tmp_path / name).kind == "csv"
    both = as_source(str(tmp_path / "[ab].csv"))
    assert both.payload == (tmp_path / "a.csv", tmp_path / "b.csv")
    assert as_source(both) is both


@pytest.mark.parametrize("data", [None, 3, [1, 2], {"a": [1]}, pd.Series([1]), b"x.csv", "x.xlsx"])
def test_other_objects_are_refused(data: object) -> None:
    with pytest.raises(SourceError) as caught:
        as_source(data)
    assert caught.value.code == "DPR500"
    assert caught.value.fix


@pytest.mark.parametrize("name", ["clinic.duckdb", "CLINIC.DB"])
def test_a_database_is_asked_for_its_table(name: str) -> None:
    with pytest.raises(SourceError, match="cannot tell") as caught:
        as_source(name)
    assert "FILE:TABLE" in str(caught.value.fix)


def test_missing_files_are_refused(tmp_path: Path) -> None:
    calls: tuple[Callable[[], Source], ...] = (
        lambda: as_source(tmp_path / "no.csv"),
        lambda: as_source(str(tmp_path / "*.parquet")),
        lambda: file_source("csv", tmp_path),
        lambda: duckdb_table(tmp_path / "no.duckdb", "t"),
    )
    for call in calls:
        with pytest.raises(SourceError) as caught:
            call()
        assert caught.value.code == "DPR501"


def test_a_file_whose_name_is_a_pattern_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "a[1].csv").touch()
    (tmp_path / "a1.csv").touch()
    assert file_source("csv", tmp_path / "a[1].csv").payload == (tmp_path / "a[1].csv",)


def test_a_source_shows_no_rows() -> None:
    assert "CANARY" not in repr(as_source(pd.DataFrame({"a": ["CANARY"]})))
    assert repr(Source("csv", ("x",), "x")) == "Source(kind='csv', name='x')"


def test_no_table_library_is_imported() -> None:
    code = (
        "import sys, dprelease.engines.source as s, dprelease.engines.duckdb\n"
        "heavy = {'polars', 'duckdb', 'sqlglot'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def hive(folder: Path) -> str:
    """Write `region=…/year=…/part.parquet`; one region needs escaping, one is null."""
    for region, year, ages in (
        ("north", 2020, [1, 2]),
        ("sou%20th", 2020, [3]),
        ("__HIVE_DEFAULT_PARTITION__", 2021, [4]),
    ):
        part = folder / f"region={region}" / f"year={year}"
        part.mkdir(parents=True)
        pq.write_table(pa.table({"age": ages}), part / "part.parquet")
    return str(folder / "**" / "*.parquet")


def test_hive_partitions_are_columns_of_text(tmp_path: Path) -> None:
    source = as_source(hive(tmp_path))
    region = Column("region", Kind.category, values=("north", "sou th"), nulls="as", null_label="?")
    columns = (region, Column("age", Kind.integer), Column("year", Kind.integer))
    ages = Fixed("age", Domain(0, 9).on_grid(Fraction(1)), Fraction(1))
    years = Fixed("year", Domain(2000, 2030).on_grid(Fraction(1)), Fraction(1))
    query = BoundedQuery(
        columns,
        GroupKeys((region,), tuple((k,) for k in region.keys)),
        (ages, years),
        (Primitive("rows"), Primitive("power", 0, 1), Primitive("power", 1, 1)),
    )
    for engine in (DuckDBEngine(), ReferenceEngine()):
        engine.preflight(source, query)
        found = engine.compute(source, query, b"").reveal_to_mechanism().sums
        assert found.tolist() == [[2, 3, 40], [1, 3, 20], [1, 4, 21]]
