"""The rows of Parquet objects in a store: only the columns that are used, and only the row groups of the period.

A file's claims of its least and greatest values decide nothing here either. Which row groups hold a
row of the period is asked of the rows: the column of the period is read first, through the very
stages that will filter the rows (`bounded_sql`), and the other columns are then read where one of
its rows counts. A row group is left out only if no row of it passes; so the answer is the same, and
what is saved is reading.

Memory: the used columns of one row group at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from dprelease.engines.hive import of_columns, places_with_rows
from dprelease.engines.object_store import StoredObject, opened_footers
from dprelease.engines.parquet_rows import (
    BATCH,
    ParquetRows,
    StoredColumn,
    check_alike,
    plain_column,
)
from dprelease.engines.physical import Physical, of_arrow, twice_named
from dprelease.engines.source import Source
from dprelease.query.bounded import BoundedQuery
from dprelease.schema.column import Column


class ObjectRows(ParquetRows):
    """Some columns of Parquet objects (`paths`) as plain arrays; each scan reads them again."""

    def _schema_of(self, path: Any) -> pa.Schema:
        return _arrow_schema(path)

    def _batches_of(self, path: Any, columns: list[str]) -> Iterator[pa.RecordBatch]:
        return _rows_of(path, path.row_groups, columns)


def described(
    source: Source, columns: tuple[Column, ...], *, missing: bool
) -> tuple[dict[str, Physical], frozenset[str]]:
    """Return what a source's objects store, folders' keys as text, and the names that one has more than once; read no row.

    Args:
        columns: which of them will be read.
        missing: an object may lack one of them.

    Raises:
        SourceError: an object does not open (DPR502), or as `check_alike`.
    """
    objects: tuple[StoredObject, ...] = source.payload  # type: ignore[assignment]
    opened_footers(objects, source.name)
    found: dict[str, list[StoredColumn]] = {}
    twice: set[str] = set()
    for one in objects:
        schema, times = _arrow_schema(one), _times_of_96_bits(one)
        twice |= twice_named(schema.names)
        for name, kind in zip(schema.names, schema.types, strict=True):
            entry = _stored(kind, cut=name in times)._replace(file=str(one))
            found.setdefault(name, []).append(entry)
    check_alike(source, columns, found, missing=missing)
    names = dict.fromkeys((*found, *source.keys))
    rows = ObjectRows(objects, tuple(n for n in names if n not in twice), source.in_folders)
    stored = {name: physical for name, (_, physical) in rows.stored.items()}
    return {**dict.fromkeys(twice, Physical.other), **stored}, frozenset(twice)


def with_groups_of_period(connection: Any, source: Source, query: BoundedQuery) -> Source:
    """Return the source less the row groups of which no row lies in the period.

    Args:
        connection: of DuckDB, set up as for the rows.
        source: of objects.
        query: as for the rows; without a view.
    """
    objects: tuple[StoredObject, ...] = source.payload  # type: ignore[assignment]
    places = [(one, group) for one in objects for group in one.row_groups]
    own = query.window.column if query.window is not None else None
    elsewhere = {*source.keys, *(made.column for made in query.derived)}
    stored = {name for one in objects for name in _arrow_schema(one).names}
    narrowed = None if own is None else of_columns(query, frozenset({own}))
    if own is None or narrowed is None or own not in stored - elsewhere or len(places) < 2:
        return source
    rows = _Placed(ObjectRows(objects, (own,)), places)
    groups: dict[StoredObject, list[int]] = {one: [] for one in objects}
    for place in places_with_rows(connection, narrowed, rows, rows.rows.stored, "place"):
        one, group = places[place]
        groups[one].append(group)
    left = tuple(one.only(tuple(found)) for one, found in groups.items())
    return replace(source, payload=left)


@dataclass(frozen=True)
class _Placed:
    """Rows, and beside each the place of its row group in `places`."""

    rows: ObjectRows
    places: list[tuple[StoredObject, int]]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        schema = self.rows.schema.append(pa.field("place", pa.int64()))
        reader = pa.RecordBatchReader.from_batches(schema, self._batches(schema))
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for place, (one, group) in enumerate(self.places):
            read = self.rows.read_of(one)
            for batch in _rows_of(one, (group,), read):
                plain = self.rows.plain_batch(one, batch, read)
                places = pa.array([place] * batch.num_rows, pa.int64())
                yield pa.RecordBatch.from_arrays([*plain.columns, places], schema=schema)


def _rows_of(
    one: StoredObject, groups: Iterable[int], columns: list[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some row groups; of none, the object is not opened."""
    if groups := tuple(groups):
        with one.opened() as file:
            for group in groups:  # one by one: what is read ahead is one group at most
                yield from file.iter_batches(BATCH, row_groups=[group], columns=columns)


def _arrow_schema(one: StoredObject) -> pa.Schema:
    schema = one.footer.schema.to_arrow_schema()
    for name in _times_of_96_bits(one):
        place = schema.get_field_index(name)
        if place >= 0:
            schema = schema.set(place, schema.field(place).with_type(pa.timestamp("us")))
    return schema


def _times_of_96_bits(one: StoredObject) -> frozenset[str]:
    columns = one.footer.schema
    found = (columns.column(i) for i in range(len(columns)))
    return frozenset(c.path for c in found if c.physical_type == "INT96")


def _stored(kind: pa.DataType, *, cut: bool) -> StoredColumn:
    plain = plain_column(pa.array([], kind)).type
    if pa.types.is_null(kind):
        return StoredColumn('"NULL"')
    physical = of_arrow(plain)
    same = physical in (Physical.whole, Physical.float)
    return StoredColumn(str(kind), cut=cut, alike=str(physical) if same else str(plain))
