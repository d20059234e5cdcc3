"""Recognising tables without opening them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dprelease.engines.source import Source, as_source, duckdb_table, file_source
from dprelease.errors import SourceError


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
