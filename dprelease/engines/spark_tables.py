"""Sources as Spark DataFrames whose columns are `c0`, `c1`, …: names and types, no row.

A table of the catalogue, a DataFrame, Parquet and CSV files. Columns are renamed by position,
because Spark does not tell `Age` from `age`. CSV files are read by the driver with the reader of the
other engines (`csv_rows`): Spark's own leaves out empty lines, lets an open quote run on and stops at a
line of too many cells, so that one row would decide about others. Everything a column needs to mean the same as in DuckDB is done in
one projection: collations off, decimals and instants of a text column spelt like DuckDB's.

Limits. Dates more than 290,000 years away are null. Files must lie on a path that driver and executors share, and what is read of a CSV file fits the driver's memory. Parquet files with nanosecond timestamps do not open
(Spark has microseconds), nor do paths with a file or folder whose name starts with `_` or `.`,
which Spark would leave out in silence, or that holds a pattern's sign.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa

from dprelease.core.errors import SourceError
from dprelease.engines.csv_header import decimal_labels, read_header, require_decimal
from dprelease.engines.csv_rows import CsvRows
from dprelease.engines.duckdb_tables import Opened, path_list
from dprelease.engines.folders import Folders, folders_in
from dprelease.engines.parquet_rows import check_alike, stored_columns
from dprelease.engines.physical import Physical, twice_named
from dprelease.engines.source import Source
from dprelease.schema.column import NUMERIC, TEXTS, Column, Kind

_DAYS = 106_751_990
"""Days from 1970 on either side of which every timestamp in microseconds has a date."""
_PHYSICAL = {
    "boolean": Physical.boolean,
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), Physical.whole),
    "decimal": Physical.exact,
    **dict.fromkeys(("float", "double"), Physical.float),
    **dict.fromkeys(("string", "char", "varchar", "binary", "void"), Physical.text),
    "date": Physical.date,
    "timestamp": Physical.instant,
    "timestamp_ntz": Physical.timestamp,
}


def of_spark(name: str) -> Physical:
    """Return the storage class of a Spark type name such as `decimal(18,3)`."""
    head = name.partition("(")[0].partition(" ")[0]
    return _PHYSICAL.get(head, Physical.other)


def frame_of(
    session: Any, source: Source, wanted: Collection[Column] | None = None, *, rows: bool = True
) -> Any:
    """Return the DataFrame that `source` is; reads names and types only, of CSV files the rows.

    Args:
        wanted: the columns that will be read; all, as texts, if None.
        rows: whether a CSV file's rows are read; else it has none.

    Raises:
        SourceError: two CSV headers differ (DPR506), a CSV file has none (DPR518) or one that leaves the
            decimal sign open (DPR526), a path cannot
            be given to Spark (DPR517), or Spark does not read this kind of source (DPR516).
    """
    payload: Any = source.payload
    match source.kind:
        case "spark_frame":
            return payload
        case "spark_table":
            return session.table(payload)
        case "csv":
            return _csv(session, source, wanted, rows=rows)
        case "parquet":
            return _parquet(session, source)
        case _:
            raise SourceError(
                f"the Spark engine does not read {source.name}",
                why="it reads Spark tables and DataFrames, Parquet and CSV files",
                fix="use `engine: duckdb`, or make a Spark DataFrame of it",
                code="DPR516",
            )


def check_files(source: Source, columns: tuple[Column, ...], *, missing: bool) -> None:
    """Refuse Parquet columns that Spark does not read exactly, or at one of whose cells it stops.

    Args:
        missing: a file may lack one of them.

    Raises:
        SourceError: so it is (DPR504), or as `check_alike`.
    """
    if source.kind != "parquet":
        return
    import duckdb

    paths: Any = source.payload
    with duckdb.connect() as connection:
        stored = stored_columns(connection.execute, path_list(paths))
    check_alike(source, columns, stored, missing=missing)
    own = {*stored, *source.keys}
    for column in columns:
        if any(name.lower() == column.name.lower() and name != column.name for name in own):
            raise SourceError(
                f"Spark does not tell column {column.name!r} from another one of the files",
                where=source.name,
                why="their names differ in case only, and it would read both as one column",
                fix="use `engine: duckdb`, or rename one of them",
                code="DPR506",
            )
        if any(not one.exact for one in stored.get(column.name, ())):
            raise SourceError(
                f"Spark does not read column {column.name!r} exactly",
                where=source.name,
                why="it is stored as timestamps in milliseconds, one of which may not fit Spark's microseconds, "
                "or as a decimal of more than 38 digits, or in half precision",
                fix="use `engine: duckdb`, or rewrite the file with microseconds or wider numbers",
                code="DPR504",
            )


def projected(frame: Any, columns: tuple[Column, ...], *, texts: bool) -> tuple[Any, Opened]:
    """Return the DataFrame of the asked columns, and what it stores.

    Args:
        columns: what will be read.
        texts: empty cells are missing (CSV).
    """
    types = frame.dtypes
    twice = twice_named(name for name, _ in types)
    kinds = {c.name: c.kind for c in columns}
    stored = {name: ("", of_spark(kind)) for name, kind in types}
    parts = []
    for i, (name, kind) in enumerate(types):
        if name in kinds and name not in twice and of_spark(kind) is not Physical.other:
            cell, physical = _cell(f"`c{i}`", kind, kinds[name], empty_is_null=texts)
            parts.append(f"{cell} AS `c{i}`")
            stored[name] = (f"c{i}", physical)
    # with no column at all the rows still have to come through
    renamed = frame.toDF(*(f"c{i}" for i in range(len(types))))
    return renamed.selectExpr(*(parts or ["1 AS `row`"])), Opened(stored, twice)


def respelt(stored: str) -> bool:
    """Return whether a text column of this Spark type is projected otherwise than a calculated one."""
    as_text, as_value = (
        _cell("c", stored, kind, empty_is_null=False) for kind in (Kind.identifier, Kind.number)
    )
    return as_text != as_value


def _cell(name: str, stored: str, kind: Kind, *, empty_is_null: bool) -> tuple[str, Physical]:
    """Return Spark SQL for one column, and how its value counts as stored."""
    physical = of_spark(stored)
    if stored == "binary":
        return _bytes(name), physical
    if physical is Physical.date:  # a cast of one beyond timestamps stops the task
        return (
            f"IF({name} BETWEEN DATE_FROM_UNIX_DATE(-{_DAYS}) AND DATE_FROM_UNIX_DATE({_DAYS}), {name}, NULL)",
            physical,
        )
    if physical is Physical.text:
        # also drops a collation, by which two different unit ids could be equal
        text = f"CAST({name} AS STRING)"
        return (f"NULLIF({text}, '')" if empty_is_null else text), physical
    if kind in TEXTS:
        scale = stored.rstrip(")").partition(",")[2]
        if stored.startswith("decimal") and scale.strip("0"):
            # a cast would write 0.0000001 as 1E-7
            return f"REPLACE(FORMAT_NUMBER({name}, '0.{'0' * int(scale)}'), ',', '')", Physical.text
        if physical is Physical.instant:
            return f"CAST({name} AS STRING) || '+00'", Physical.text
    return name, physical


def _bytes(name: str) -> str:
    """Return Spark SQL for a column of bytes: its canonical text (`identity`)."""
    text = f"CAST({name} AS STRING)"
    plain = f"IS_VALID_UTF8({text}) AND NOT STARTSWITH({text}, CHR(0))"
    return f"IF({plain}, {text}, CHR(0) || LOWER(HEX({name})))"


def _local(paths: tuple[Path, ...]) -> list[str]:
    """Return the paths as Spark takes them.

    Raises:
        SourceError: Spark would read a pattern or skip the file (DPR517).
    """
    for path in paths:
        hidden = any(part.startswith(("_", ".")) for part in path.parts[-1:])
        if hidden or any(sign in str(path) for sign in "*?[]{}\\,"):
            raise SourceError(
                f"Spark does not read a file of this name: {path.name}",
                why="it skips names that start with _ or . and takes *?[]{},\\ for patterns",
                fix="rename the file, or use `engine: duckdb`",
                code="DPR517",
            )
    return [f"file://{path}" for path in paths]


def _parquet(session: Any, source: Source) -> Any:
    paths: Any = source.payload
    names = _local(paths)
    reader = session.read.option("mergeSchema", str(len(paths) > 1).lower())
    if source.keys:
        reader = reader.option("basePath", f"file://{_base(paths[0], source.folders[0])}")
    return reader.parquet(*names)


def _base(path: Path, folders: Folders) -> Path:
    """Return the folder below which all `key=value` folders of a file lie.

    Raises:
        SourceError: links hide them (DPR517).
    """
    for base in path.parents:
        if folders_in(path.relative_to(base).parts[:-1]) == folders:
            return base
    raise SourceError(
        f"Spark does not find the folders `key=value` of {path.name}",
        why="a link leads to the file, and Spark reads the columns from the names that it leads to",
        fix="name the files where they are, or use `engine: duckdb`",
        code="DPR517",
    )


def _csv(session: Any, source: Source, wanted: Collection[Column] | None, *, rows: bool) -> Any:
    paths: Any = source.payload
    header = read_header(paths, source.dialect)
    names = header.names
    every = [Column(name, Kind.identifier) for name in names]
    require_decimal(source.name, header, source.dialect, every if wanted is None else wanted)
    kinds = None if wanted is None else {column.name: column.kind for column in wanted}
    places = tuple(i for i, name in enumerate(names) if kinds is None or name in kinds)
    numbers = frozenset(i for i in places if kinds is not None and kinds[names[i]] in NUMERIC)
    named = decimal_labels(wanted or ())
    labels = frozenset(i for i in places if names[i] in named)
    read = CsvRows(paths, header.delimiter, places, numbers, source.dialect.decimal, labels)
    table = pa.Table.from_batches(read.batches() if rows else (), read.schema)
    short = pa.schema([(f.name, pa.string() if places else f.type) for f in read.schema])
    return session.createDataFrame(table.cast(short)).toDF(*([names[i] for i in places] or ["row"]))
