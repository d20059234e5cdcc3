"""Name a private table without looking into it.

A `Source` says where rows are and in which input format, nothing else: building one opens no file and
touches no row. Its payload has no repr, so a source may appear in a log line or a traceback.
A unit's rows are found by equality of the canonical text of its id (`identity`), whatever the format.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import methodcaller
from pathlib import Path
from typing import Any, Literal, Protocol

from dprelease.core.errors import SourceError, printable
from dprelease.engines.csv_header import Dialect, dialect
from dprelease.engines.folders import Folders, first_pattern, folders_in, shared_keys
from dprelease.schema.paths import confined

InputFormat = Literal[
    "parquet",
    "csv",
    "objects",
    "arrow",
    "pandas",
    "polars",
    "duckdb_relation",
    "duckdb_table",
    "postgres",
    "spark_table",
    "spark_frame",
    "tables",
]

_SUFFIXES: dict[str, Literal["parquet", "csv"]] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".csv.gz": "csv",
    ".tsv.gz": "csv",
}

_DATABASES = (".duckdb", ".ddb", ".db")

_CLASSES: dict[tuple[str, str], tuple[InputFormat, str]] = {
    ("pandas", "DataFrame"): ("pandas", "pandas frame"),
    ("polars", "DataFrame"): ("polars", "polars frame"),
    ("polars", "LazyFrame"): ("polars", "polars frame"),
    ("pyarrow", "Table"): ("arrow", "arrow table"),
    ("pyarrow", "RecordBatch"): ("arrow", "arrow table"),
    ("duckdb", "DuckDBPyRelation"): ("duckdb_relation", "DuckDB relation"),
    ("_duckdb", "DuckDBPyRelation"): ("duckdb_relation", "DuckDB relation"),
    ("pyspark", "DataFrame"): ("spark_frame", "Spark DataFrame"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Where the rows are.

    Attributes:
        kind: the input format.
        payload: files: a sorted tuple of `Path`; `objects`: one of `object_store.StoredObject`;
            `duckdb_table`: `(database, table)`; `postgres`:
            `(reveal, table)`, where `reveal()` gives the connection string; `spark_table`: a name
            of Spark's catalogue; `tables`: name ->
            `Source`, for a view; else the in-memory object itself. Never shown.
        name: how errors and plans call it; public.
        folders: of files and objects: the folders `key=value` of each that are columns.
        dialect: of CSV files.
    """

    kind: InputFormat
    payload: object = field(repr=False)
    name: str
    folders: tuple[Folders, ...] = field(default=(), repr=False)
    dialect: Dialect = field(default=Dialect(), repr=False)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that folders are."""
        return shared_keys(self.folders)

    @property
    def in_folders(self) -> Mapping[Any, Mapping[str, str | None]]:
        """File -> its value of each of `keys`; no file where there is none."""
        files: Any = self.payload
        return dict(zip(files, map(dict, self.folders), strict=True)) if self.keys else {}

    def holds(self, kind: InputFormat) -> bool:
        """Return whether rows of that kind are read, of this source or of a table below it."""
        tables: Any = self.payload if self.kind == "tables" else {}
        return self.kind == kind or any(map(methodcaller("holds", kind), tables.values()))


class ArrowStream(Protocol):
    """A table that gives itself as an Arrow stream: pandas and polars frames, pyarrow tables."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

    @property
    def shape(self) -> tuple[int, int]: ...  # a column's, a Series', is (int,)


class LazyTable(Protocol):
    """A polars `LazyFrame`."""

    @property
    def collect_schema(self) -> Callable[..., object]: ...


class Relation(Protocol):
    """A DuckDB relation."""

    @property
    def to_arrow_table(self) -> Callable[..., object]: ...


class SparkTable(Protocol):
    """A Spark DataFrame."""

    @property
    def toPandas(self) -> Callable[..., object]: ...  # noqa: N802 - Spark's name


class SparkPandas(Protocol):
    """The pandas look-alike on Spark."""

    @property
    def to_spark(self) -> Callable[..., object]: ...


CsvFile = Mapping[Literal["csv"], str | Mapping[str, str]]
"""`{"csv": {"path": …, "delimiter": …, "decimal": …}}`, as a pipeline names it."""

TableLike = (
    ArrowStream
    | LazyTable
    | Relation
    | SparkTable
    | SparkPandas
    | str
    | os.PathLike[str]
    | CsvFile
    | Source
)
"""What `as_source` takes, by shape: none of the libraries need be installed to check a call."""


def as_source(data: TableLike) -> Source:
    """Return the source that `data` is.

    `data` is a pandas or polars frame, a pyarrow table or record batch, a DuckDB relation, a Spark
    DataFrame, a path (or glob) of Parquet or CSV files, a CSV file with its signs (`CsvFile`), an address
    of Parquet objects (`object_store`), or already a `Source`.

    Raises:
        SourceError: none of these (DPR500), no such file (DPR501), or as `object_source`.
        ArgumentError: no such sign of a CSV file (DPR643).
    """
    if isinstance(data, Source):
        return data
    if isinstance(data, Mapping) and (file := _csv_file(data)) is not None:
        return file
    if isinstance(data, (str, os.PathLike)):
        text = os.fspath(data)
        if isinstance(text, str) and "://" in text:
            return object_source(text)
        kind = next((k for s, k in _SUFFIXES.items() if str(text).lower().endswith(s)), None)
        if kind is None or not isinstance(text, str):
            raise SourceError(
                f"cannot tell what {str(text)!r} holds",
                why="its name ends in none of " + ", ".join(_SUFFIXES),
                fix="name its table: FILE:TABLE for `schema draft`, duckdb.connect(FILE).table(TABLE) in Python"
                if str(text).lower().endswith(_DATABASES)
                else "name a Parquet or CSV file, or a glob such as visits/*.parquet",
                code="DPR500",
            )
        return file_source(kind, text)
    # Classes are recognised by name and home, so no library is imported that the caller lacks.
    for base in type(data).__mro__:
        kind_and_name = _CLASSES.get((base.__module__.partition(".")[0], base.__name__))
        if base.__module__.startswith("pyspark.pandas"):  # the pandas look-alike on Spark
            return as_source(data.to_spark())  # type: ignore[union-attr, arg-type]
        if kind_and_name is not None:
            return Source(kind_and_name[0], data, kind_and_name[1])
    if type(data).__name__ == "Series":
        raise SourceError(
            "a Series is one column, not a table",
            why="a release reads rows: columns by their names, and whose row it is",
            fix="pass the DataFrame that it comes from: `df`, not `df[…]`; its statistics name the column",
            code="DPR500",
        )
    if type(data).__name__.endswith("GroupBy"):
        raise SourceError(
            "a groupby is not a table",
            why="groups are of declared keys, never of those that the rows happen to have",
            fix=f"pass the DataFrame that it comes from, and the keys as `by={_keys_of(data)}`",
            code="DPR500",
        )
    raise SourceError(
        f"cannot read rows from an object of type {type(data).__qualname__}",
        why="tables are pandas, polars, pyarrow, DuckDB relations, Spark DataFrames, or Parquet and "
        "CSV files",
        fix='a CSV file with its signs is {"csv": {"path": FILE, "delimiter": ";", "decimal": ","}}'
        if isinstance(data, Mapping) and "csv" in data
        else "pass one of these, or a path",
        code="DPR500",
    )


def _keys_of(grouped: Any) -> str:
    """Return the keys of a groupby of pandas as they are written, if they name its columns: they may be values of rows."""
    keys, columns = (
        getattr(grouped, "keys", None),
        getattr(getattr(grouped, "obj", None), "columns", ()),
    )
    keys = [keys] if isinstance(keys, str) else keys
    named = isinstance(keys, list) and all(isinstance(k, str) and k in columns for k in keys)
    return repr(keys) if named else "[...]"


def _csv_file(data: Mapping[Any, Any]) -> Source | None:
    """Return the source of a CSV file that is named with its signs; None for anything else."""
    said = data.get("csv") if set(data) == {"csv"} else None
    said = {"path": said} if isinstance(said, str | os.PathLike) else said
    if not isinstance(said, Mapping) or not set(said) <= {"path", "delimiter", "decimal"}:
        return None
    path, delimiter, decimal = (said.get(key) for key in ("path", "delimiter", "decimal"))
    if not isinstance(path, str | os.PathLike):
        return None
    return file_source("csv", path, signs=dialect(delimiter, decimal))


def object_source(text: str, *, store: Any = None) -> Source:
    """Return the source made of the objects that an address matches, in name order.

    Args:
        store: a file system of `pyarrow.fs` in place of the scheme's own.

    Raises:
        SourceError: as `object_store.objects_at`.
    """
    from dprelease.engines.object_store import (
        objects_at,  # threads and stores: where they are asked for
        parsed,
    )

    found = objects_at(text, store=store)
    fixed = first_pattern(parsed(text)[1].split("/"))
    return Source("objects", found, text, tuple(folders_in(o.parts[fixed:-1]) for o in found))


def file_source(
    kind: Literal["parquet", "csv"],
    pattern: str | os.PathLike[str],
    *,
    root: Path | None = None,
    signs: Dialect = Dialect(),  # noqa: B008 - immutable
) -> Source:
    """Return the source made of the files that match `pattern` (a path or a glob), in name order.

    Args:
        root: a folder that no file may lie outside of, links followed.
        signs: of CSV files.

    Raises:
        SourceError: no file matches (DPR501), a name on the way is not UTF-8 (DPR513), or links put one file
            into different folders `key=value` (DPR505).
        ConfigError: one lies outside `root` (DPR116).
    """
    text = os.fspath(pattern)
    plain = Path(text)
    found = [text] if plain.is_file() else glob.glob(text, recursive=True)  # noqa: PTH207 - absolute patterns
    fixed = len(plain.parts) if plain.is_file() else first_pattern(plain.parts)
    named: dict[Path, Folders] = {}
    for match in sorted(p for p in found if Path(p).is_file()):
        path, folders = Path(match).resolve(), folders_in(Path(match).parts[fixed:-1])
        if named.setdefault(path, folders) != folders:  # by links
            raise SourceError(
                f"{path.name} lies in two folders `key=value`",
                where=text,
                why="its rows would have two values in one column, and each row counts once",
                fix="remove one of the links to it, or its folder",
                code="DPR505",
            )
    paths = tuple(sorted(named))
    if not paths:
        raise SourceError(
            f"no {kind} file matches {text!r}",
            fix="check the path; relative paths start at the naming file or the working folder",
            code="DPR501",
        )
    for path in paths:
        if root is not None:
            confined(str(path), base=root, root=root, origin=text)
        _must_be_text(path)
    return Source(kind, paths, text, tuple(named[path] for path in paths), signs)


def _must_be_text(path: Path) -> None:
    """Raise DPR513 for a path whose bytes are not UTF-8: no reader of ours can name it."""
    try:
        str(path).encode("utf-8")
    except UnicodeEncodeError:
        raise SourceError(
            "the name of a file, or of a folder above it, is not UTF-8",
            where=printable(str(path)),
            why="the readers of Parquet and CSV cannot open it",
            fix="rename it",
            code="DPR513",
        ) from None


def duckdb_table(database: str | Path, table: str) -> Source:
    """Return the source that is `table` (or `schema.table`) of a DuckDB database file.

    Raises:
        SourceError: there is no such file (DPR501).
    """
    path = Path(database)
    if not path.is_file():
        raise SourceError(f"there is no DuckDB database {str(database)!r}", code="DPR501")
    return Source("duckdb_table", (path.resolve(), table), f"{database}:{table}")


def postgres_table(reveal: Callable[[], str], table: str) -> Source:
    """Return the source that is `table` (or `schema.table`) of a PostgreSQL database.

    Args:
        reveal: gives the connection string when the source opens; it is kept nowhere else.
    """
    return Source("postgres", (reveal, table), f"postgres:{table}")


def spark_table(table: str) -> Source:
    """Return the source that is `table` (or `schema.table`, `catalog.schema.table`) in Spark."""
    return Source("spark_table", table, f"spark:{table}")


def tables_source(tables: Mapping[str, Source]) -> Source:
    """Return the source of a query with a view: its tables by the names that the view uses."""
    return Source("tables", dict(tables), ", ".join(tables))
