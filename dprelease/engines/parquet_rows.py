"""Parquet files column by column: what each stores, and the rows of those that DuckDB does not read exactly.

DuckDB reads most columns itself. Not these, by what their files say of them:

    timestamps in milliseconds   one that microseconds do not hold stops the scan, used or not, as
                                 DuckDB reads the least and greatest value of every column
    decimals of over 38 digits   become doubles, in which 10**50 and 10**50 + 1 are one id
    times of 96 bits             are cut to microseconds: good as times, refused as ids and labels

The first two are read by Arrow, as plain arrays (`ParquetRows`). What only reading tells (a text that
is not UTF-8) stops DuckDB, and the files are then read again in that way: the same integers, slower.

Files that are read together store a column alike. DuckDB would otherwise cast to a common type, by
which whole numbers become doubles, or stop at a cell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from dprelease.core.errors import SourceError
from dprelease.engines.in_memory import plain_array
from dprelease.engines.physical import Physical, of_arrow, of_duckdb
from dprelease.engines.source import Source
from dprelease.query.shortcuts import MISSING_COLUMN
from dprelease.schema.column import TEXTS, Column

_NULL = '"NULL"'
_NAMED = 5
"""Files that a refusal names."""
BATCH = 16_384


class StoredColumn(NamedTuple):
    """A top-level column of one file.

    Attributes:
        type: what DuckDB reads it as.
        exact: whether that holds every value.
        cut: whether it holds them to the microsecond only.
        stops: whether one value, of the column or nested in it, can stop DuckDB's scan.
        alike: its family, where DuckDB does not read the file.
        file: the file's name, as it is asked for.
    """

    type: str
    exact: bool = True
    cut: bool = False
    stops: bool = False
    alike: str | None = None
    file: str = ""

    @property
    def family(self) -> str:
        """What columns of several files must share to be read as one."""
        if self.alike is not None:
            return self.alike
        physical = of_duckdb(self.type)
        alike = physical in (Physical.whole, Physical.float) and self.exact
        return str(physical) if alike else self.type


def stored_columns(run: Callable[[str], Any], paths: str) -> dict[str, list[StoredColumn]]:
    """Return the columns of all files by name, one entry per file that has it.

    Args:
        run: executes SQL.
        paths: the files as a list in SQL.
    """
    rows = run(
        "SELECT name, num_children, type, converted_type, precision, logical_type, duckdb_type, file_name "  # noqa: S608 - quoted
        f"FROM parquet_schema({paths}) ORDER BY file_name, column_id"
    ).fetchall()
    out: dict[str, list[StoredColumn]] = {}
    places = iter(rows)
    for root in places:
        for _ in range(root[1] or 0):
            name, children, *facts = next(places)
            found, left = _stored(*facts), children or 0
            while left:  # what is nested in it
                _, children, *facts = next(places)
                left += (children or 0) - 1
                found = found._replace(stops=found.stops or _stored(*facts).stops)
            out.setdefault(name, []).append(found)
    return out


def _stored(
    kind: str,
    converted: str | None,
    precision: int | None,
    logical: str | None,
    found: str,
    file: str,
) -> StoredColumn:
    millis = converted == "TIMESTAMP_MILLIS" or (
        "TimestampType" in (logical or "") and "MILLIS=M" in (logical or "")
    )
    wide = converted == "DECIMAL" and (precision or 0) > 38
    half = "Float16" in (logical or "")
    return StoredColumn(
        found, exact=not (millis or wide or half), cut=kind == "INT96", stops=millis, file=file
    )


def check_alike(
    source: Source,
    columns: tuple[Column, ...],
    stored: Mapping[str, list[StoredColumn]],
    *,
    missing: bool,
) -> None:
    """Refuse columns that a file lacks, that the files store differently, or not exactly enough.

    Args:
        columns: what will be read.
        stored: each column's entries, one per file that has it.
        missing: a file may lack a column.

    Raises:
        SourceError: so it is (DPR503, DPR506, DPR504), or a column is there twice, or as the name of a folder
            too (DPR505).
    """
    files: Any = source.payload
    for column in columns:
        if source.keys.count(column.name) + (column.name in stored) > 1:
            raise SourceError(
                f"the column {column.name!r} is there twice, as the name of a folder too",
                where=source.name,
                why="which of the two values a row has would be a guess",
                fix=f"rename the folders `{column.name}=…`, or write the files without it",
                code="DPR505",
            )
        every = stored.get(column.name, [])
        counted = Counter(one.file for one in every)
        if twice := [file for file, count in counted.items() if count > 1]:
            raise SourceError(
                f"the source has more than one column {column.name!r}: {twice[0]}",
                where=source.name,
                why="which of them is meant would be a guess, and the ways to read the file differ in it",
                fix="rename one of them",
                code="DPR505",
            )
        if every and not missing:
            lack = [str(file) for file in files if str(file) not in counted]
            if lack:
                raise _lacking(source.name, column.name, lack, len(files), stored)
        found = [one for one in every if one.type != _NULL]
        kinds = sorted({one.type for one in found})
        if len({one.family for one in found}) > 1:
            raise SourceError(
                f"the files store column {column.name!r} differently: {', '.join(kinds)}",
                where=source.name,
                why="read as one type, some values would be rounded, or would not fit",
                fix="rewrite the files with one type, or name them separately",
                code="DPR506",
            )
        if column.kind in TEXTS and any(one.cut for one in found):
            raise SourceError(
                f"column {column.name!r} is declared {column.kind} but stored as timestamps of 96 bits (INT96)",
                where=source.name,
                why="they are read in microseconds, in which different ones would be equal",
                fix="write the file with timestamps in microseconds or nanoseconds",
                code="DPR504",
            )


def _lacking(
    source: str, column: str, files: list[str], of: int, stored: Mapping[str, list[StoredColumn]]
) -> SourceError:
    """Return the refusal of files that lack a used column, with their names."""
    named = ", ".join(files[:_NAMED]) + (f" and {len(files) - _NAMED} more" * (len(files) > _NAMED))
    other = next(
        (
            name
            for name, entries in stored.items()
            if name != column and name.lower() == column.lower() and entries[0].file in files
        ),
        None,
    )
    return SourceError(
        f"{len(files)} of {of} files have no column {column!r}: {named}",
        where=source,
        why="their cells in it would all be null"
        + (f"; {other!r} is another name, as case counts" if other else ""),
        fix=f"write {column!r} into these files, or name other files; `release: {{allow: "
        f"[{MISSING_COLUMN}]}}` takes these cells for null, and the release says so",
        code="DPR503",
    )


@dataclass(frozen=True)
class ParquetRows:
    """Some columns of Parquet files as plain arrays `c0`, `c1`, …; each scan reads the files again.

    Attributes:
        paths: the files, in order.
        columns: the wanted names; one that a file lacks is null there.
        folders: `Source.in_folders`.
    """

    paths: tuple[Any, ...]
    columns: tuple[str, ...]
    folders: Mapping[Any, Mapping[str, str | None]] = field(default_factory=dict)

    @cached_property
    def schema(self) -> pa.Schema:
        """The plain types; one column of nothing where rows are only counted."""
        found: dict[str, pa.DataType] = {}
        for path in self.paths:
            own = self._schema_of(path)
            for name, count in Counter(own.names).items():
                if name in self.columns and count == 1:
                    kind = plain_column(pa.array([], own.field(name).type)).type
                    before = found.get(name, pa.null())
                    found[name] = (
                        _wider(before, kind)
                        if not pa.types.is_null(own.field(name).type)
                        else before
                    )
            found |= {
                key: pa.large_string() for key in self.folders.get(path, ()) if key in self.columns
            }
        kinds = [found.get(name, pa.null()) for name in self.columns]
        plain = [pa.large_string() if pa.types.is_null(kind) else kind for kind in kinds]
        return pa.schema([(f"c{i}", kind) for i, kind in enumerate(plain)] or [("row", pa.bool_())])

    @property
    def stored(self) -> dict[str, tuple[str, Physical]]:
        """Column -> (identifier, storage class)."""
        fields = zip(self.columns, self.schema, strict=False)
        return {name: (field.name, of_arrow(field.type)) for name, field in fields}

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return a new stream of the rows, by Arrow's PyCapsule protocol."""
        reader = pa.RecordBatchReader.from_batches(self.schema, self.batches())
        return reader.__arrow_c_stream__(requested_schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in file order."""
        for path in self.paths:
            read = self.read_of(path)
            for batch in self._batches_of(path, read):
                yield self.plain_batch(path, batch, read)

    def read_of(self, path: Any) -> list[str]:
        """Return the wanted columns that one file stores, once each."""
        fixed = self.folders.get(path, {})
        own = Counter(self._schema_of(path).names)
        return [name for name in self.columns if own[name] == 1 and name not in fixed]

    def plain_batch(self, path: Any, batch: pa.RecordBatch, read: list[str]) -> pa.RecordBatch:
        """Return rows of one file in the plain types; `read` as `read_of`."""
        fixed = self.folders.get(path, {})
        arrays = []
        for name, own in zip(self.columns, self.schema, strict=False):
            if name in fixed:
                arrays.append(pa.array([fixed[name]] * batch.num_rows, own.type))
            elif name in read:
                arrays.append(_as(plain_column(batch.column(name)), own.type))
            else:
                arrays.append(pa.nulls(batch.num_rows, own.type))
        empty = [pa.nulls(batch.num_rows, pa.bool_())]
        return pa.RecordBatch.from_arrays(arrays or empty, schema=self.schema)

    def _schema_of(self, path: Any) -> pa.Schema:
        """Return the types that `_batches_of` gives: times of 96 bits in microseconds."""
        with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
            return file.schema_arrow

    def _batches_of(self, path: Any, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one file as they are stored."""
        with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
            yield from file.iter_batches(BATCH, columns=columns)


def plain_column(array: Any) -> Any:
    """Return a plain array; a duration is the whole number that the file stores."""
    return plain_array(array.cast(pa.int64()) if pa.types.is_duration(array.type) else array)


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type that holds both; only whole numbers and floats differ (`check_alike`)."""
    if pa.types.is_null(one) or one == other:
        return other
    if pa.types.is_integer(one) and pa.types.is_integer(other):
        return pa.int64()
    return pa.float64() if pa.types.is_floating(one) else one


def _as(array: Any, kind: pa.DataType) -> Any:
    return array if array.type == kind else array.cast(kind)
