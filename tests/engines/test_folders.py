"""Folders `key=value` are columns below the part of a path that is a pattern, and nowhere else."""

from __future__ import annotations

import glob
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from dprelease.core.errors import SourceError
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.folders import first_pattern, folders_in
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import Source, as_source, object_source
from dprelease.query.bounded import BoundedQuery, GroupKeys, Primitive
from dprelease.query.expression import parse_condition
from dprelease.schema.column import Column, Kind

COLUMNS = {c.name: c for c in (Column("x", Kind.integer), Column("y", Kind.integer))}


def query(where: str | None = None) -> BoundedQuery:
    condition = None if where is None else parse_condition(where, COLUMNS, origin="test")
    return BoundedQuery(
        tuple(COLUMNS.values()), GroupKeys((), ((),)), (), (Primitive("rows"),), where=condition
    )


def rows(source: Source, where: str) -> list[int]:
    """Return how many rows pass, by DuckDB and by the reference engine."""
    engine = DuckDBEngine()
    engine.preflight(source, query(where))
    return [
        int(e.compute(source, query(where), b"").reveal_to_mechanism().sums[0, 0])
        for e in (engine, ReferenceEngine())
    ]


def write(folder: Path, name: str = "f.parquet", **columns: list[int]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / name)


@pytest.mark.parametrize(
    ("pattern", "fixed"),
    [
        ("a/x=5/f.parquet", 3),
        ("a/x=5/*.parquet", 2),
        ("a/*/x=5/f.parquet", 1),
        ("x=?/f.parquet", 0),
        ("a[12]/f.parquet", 0),
        (glob.escape("a[12]") + "/x=5/*.parquet", 2),
        (glob.escape("a*b?[c") + "/f.parquet", 2),
    ],
)
def test_the_first_part_that_is_a_pattern_is_found(pattern: str, fixed: int) -> None:
    assert first_pattern(Path(pattern).parts) == fixed


def test_folders_above_the_pattern_are_no_columns(tmp_path: Path) -> None:
    """The file's own x is read, wherever the file lies."""
    above = tmp_path / "x=5" / "data[1]"
    write(above, x=[1] * 10)
    escaped = glob.escape(str(above))
    for named in (str(above / "f.parquet"), f"{escaped}/*.parquet", f"{escaped}/**/f.parquet"):
        assert rows(as_source(named), "x = 1") == [10, 10], named
        assert as_source(named).keys == ()


def test_folders_below_it_are_columns_and_those_above_still_are_not(tmp_path: Path) -> None:
    for year in (1, 2):
        write(tmp_path / "x=5" / "z=9" / f"y={year}", x=[1, 2])
    pattern = f"{glob.escape(str(tmp_path / 'x=5'))}/z=9/*/f.parquet"
    source = as_source(pattern)
    assert source.keys == ("y",)
    assert rows(source, "y = 2 and x = 1") == [1, 1]
    assert rows(source, "y = 2 or x = 1") == [3, 3]
    with pytest.raises(SourceError, match="no column 'y'"):
        rows(as_source(str(tmp_path / "x=5" / "z=9" / "y=1" / "f.parquet")), "y = 1")


def test_a_name_in_folder_and_file_is_refused_where_it_is_read(tmp_path: Path) -> None:
    write(tmp_path / "x=5", x=[1], y=[1])
    source = as_source(str(tmp_path / "*" / "f.parquet"))
    with pytest.raises(SourceError, match="as the name of a folder too") as caught:
        DuckDBEngine().preflight(source, query("x = 1"))
    assert caught.value.code == "DPR505"
    assert rows(source, "y = 1") == [1, 1]  # not read: nothing to guess
    (tmp_path / "x=5").rename(tmp_path / "folder=5")  # the fix, followed
    assert rows(as_source(str(tmp_path / "*" / "f.parquet")), "x = 1") == [1, 1]
    write(tmp_path / "a=1" / "a=2", "g.parquet", y=[1])
    doubled = as_source(str(tmp_path / "**" / "g.parquet"))
    assert doubled.keys == ("a", "a")
    assert rows(doubled, "y = 1") == [1, 1]


def test_objects_have_the_same_rule(tmp_path: Path) -> None:
    write(tmp_path / "bucket" / "x=5" / "data", x=[1, 1])
    write(tmp_path / "bucket" / "x=5" / "parts" / "y=1", x=[1])
    write(tmp_path / "bucket" / "x=5" / "both" / "x=2", x=[1])
    store = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    for address in ("s3://bucket/x=5/data/f.parquet", "s3://bucket/x=5/data/*.parquet"):
        assert rows(object_source(address, store=store), "x = 1") == [2, 2]
    parts = object_source("s3://bucket/x=5/parts/*/f.parquet", store=store)
    assert (parts.keys, rows(parts, "y = 1 and x = 1")) == (("y",), [1, 1])
    with pytest.raises(SourceError, match="as the name of a folder too"):
        rows(object_source("s3://bucket/x=5/both/*/f.parquet", store=store), "x = 1")


def test_a_file_is_read_once_by_whichever_names(tmp_path: Path) -> None:
    """A link to a file beside it would count each row twice, and so each person."""
    write(tmp_path / "data", x=[1, 2])
    (tmp_path / "data" / "again.parquet").symlink_to(tmp_path / "data" / "f.parquet")
    assert rows(as_source(str(tmp_path / "data" / "*.parquet")), "x > 0") == [2, 2]
    for folder in ("y=1", "y=2"):
        (tmp_path / "links" / folder).mkdir(parents=True)
        (tmp_path / "links" / folder / "f.parquet").symlink_to(tmp_path / "data" / "f.parquet")
    with pytest.raises(SourceError, match="lies in two folders") as caught:
        as_source(str(tmp_path / "links" / "*" / "f.parquet"))
    assert caught.value.code == "DPR505"
    (tmp_path / "links" / "y=2" / "f.parquet").unlink()  # the fix, followed
    one = as_source(str(tmp_path / "links" / "*" / "f.parquet"))
    assert rows(one, "y = 1 and x > 0") == [2, 2]  # as it is named, not where the link leads


def test_columns_of_folders_are_there_only_where_every_file_has_them(tmp_path: Path) -> None:
    write(tmp_path / "y=1", x=[1])
    write(tmp_path / "y=2", x=[1])
    assert as_source(str(tmp_path / "**" / "*.parquet")).keys == ("y",)
    write(tmp_path, x=[1])
    assert as_source(str(tmp_path / "**" / "*.parquet")).keys == ()


def test_names_are_decoded_as_utf_8() -> None:
    assert folders_in(("a", "b=%C3%A9", "=x", "c=", "d=__HIVE_DEFAULT_PARTITION__")) == (
        ("b", "é"),
        ("c", ""),
        ("d", None),
    )
    with pytest.raises(SourceError) as caught:
        folders_in(("a=%FE",))
    assert caught.value.code == "DPR513"
