"""A folder held against the bytes it should have: names, sizes, then bytes.

Text files are equal byte by byte. A Parquet file of another writer has other bytes for the same
table, so where bytes differ it is compared by content: schema, metadata, row groups, statistics,
values; and it may hold nothing else, so its column chunks fill it without a gap, none is larger
than the same one made here (by more than a twentieth), and the footer has no field that its reader
passes over and names a version of Arrow as its writer.

Nothing is read before its size fits, so that a large file costs nothing.

Limits  Within a column chunk, what compression and encoding let a writer hide in a twentieth of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dprelease.results.published_folder import Listing, left_by, read_small

_SPARE = 4096
_ARROW = b"ARROW:schema"
_CLAIMS = (
    "physical_type", "num_values", "metadata", "file_path", "geo_statistics", "bloom_filter_offset",
    "has_column_index", "has_offset_index",
)  # fmt: skip
_WRITER = re.compile(
    r"parquet-cpp(-arrow)? version [0-9]{1,4}(\.[0-9]{1,4}){2}(-SNAPSHOT)?", re.ASCII
)


def as_published(path: Path, made: bytes) -> bytes:
    """Return the bytes of a published Parquet file if it holds the table of `made`; else `made`."""
    if path.suffix != ".parquet":
        return made
    data = read_small(path, len(made) + len(made) // 20 + _SPARE)
    return data if data is not None and _same(data, made) else made


def differences(path: Path, found: Listing, made: Mapping[str, bytes]) -> dict[str, str]:
    """Return what is not as it was made: file name to what is wrong with it."""
    wrong = {name: "does not follow from the release" for name in found if name not in made}
    wrong |= {n: f"{wrong[n]}: {who} made it, remove it" for n in wrong if (who := left_by(n))}
    wrong |= {name: "is missing" for name in made if name not in found}
    for name in sorted(set(found) & set(made)):
        if not holds(path / name, found[name], made[name]):
            wrong[name] = "is not what the release gives"
    return dict(sorted(wrong.items()))


def holds(path: Path, size: int, made: bytes) -> bool:
    """Return whether the file, of `size`, holds exactly `made`."""
    return size == len(made) and read_small(path, len(made)) == made


def _same(data: bytes, made: bytes) -> bool:
    """Return whether two Parquet files are equal, or hold one table."""
    try:
        return data == made or _same_table(data, made)
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError):
        return False


def _same_table(data: bytes, made: bytes) -> bool:
    """Return whether two Parquet files hold one table, and the first one nothing beside it."""
    with pq.ParquetFile(pa.BufferReader(data)) as one, pq.ParquetFile(pa.BufferReader(made)) as two:
        if not _fills(data, one.metadata) or not _same_row_groups(one.metadata, two.metadata):
            return False
        if not _plain_footer(data, one.metadata, two.metadata):
            return False
        if not one.schema_arrow.equals(two.schema_arrow, check_metadata=True):
            return False
        for i in range(two.num_row_groups):
            for name in two.schema_arrow.names:  # one at a time: a large table takes room twice
                parts = (file.read_row_group(i, columns=[name]) for file in (one, two))
                if not _identical(*parts):
                    return False
        return True


def _identical(one: pa.Table, two: pa.Table) -> bool:
    """Return whether two tables of one schema are equal, the signs of zeros included."""
    if not one.equals(two):
        return False
    for a, b in zip(one.columns, two.columns, strict=True):
        if pa.types.is_floating(a.type):
            signs = (np.signbit(c.fill_null(0).to_numpy()) for c in (a, b))
            if not np.array_equal(*signs):
                return False
    return True


def _plain_footer(data: bytes, one: Any, two: Any) -> bool:
    """Return whether the footer holds what the other one holds, and what is read of it is all of it.

    The metadata is the file's own, which most readers show, not only that of the Arrow schema in it.
    """
    said, expected = one.metadata or {}, two.metadata or {}
    # The Arrow schema was compared as a schema: its bytes are the writer's.
    if any(said.get(key) != expected[key] for key in set(expected) - {_ARROW}):
        return False
    if len(said.get(_ARROW, b"")) > len(expected.get(_ARROW, b"")):
        return False
    if not _WRITER.fullmatch(one.created_by):
        return False
    again = pa.BufferOutputStream()
    one.write_metadata_file(again)  # without what its reader passed over
    footer = int.from_bytes(data[-8:-4], "little") + 8
    return bool(again.getvalue().to_pybytes()[4:] == data[-footer:])


def _fills(data: bytes, said: Any) -> bool:
    """Return whether column chunks and footer are all that the file holds."""
    footer = int.from_bytes(data[-8:-4], "little")
    at = 4
    for i in range(said.num_row_groups):
        for j in range(said.num_columns):
            chunk = said.row_group(i).column(j)
            first = chunk.dictionary_page_offset
            start = chunk.data_page_offset if first is None else min(first, chunk.data_page_offset)
            if start != at:
                return False
            at += chunk.total_compressed_size
    return at + footer + 8 == len(data)


def _same_row_groups(one: Any, two: Any) -> bool:
    """Return whether two footers say the same of the same row groups."""
    if (one.num_rows, one.num_row_groups, one.num_columns) != (
        two.num_rows,
        two.num_row_groups,
        two.num_columns,
    ):
        return False
    if set(one.metadata or {}) != set(two.metadata or {}):
        return False
    for i in range(two.num_row_groups):
        if one.row_group(i).num_rows != two.row_group(i).num_rows:
            return False
        if one.row_group(i).sorting_columns != two.row_group(i).sorting_columns:
            return False
        for j in range(two.num_columns):
            a, b = one.row_group(i).column(j), two.row_group(i).column(j)
            limit = b.total_uncompressed_size + b.total_uncompressed_size // 20 + _SPARE
            if a.path_in_schema != b.path_in_schema or a.total_uncompressed_size > limit:
                return False
            if _statistics(a) not in (None, _statistics(b)) or _claims(a) != _claims(b):
                return False
    return True


def _statistics(chunk: Any) -> tuple[Any, ...] | None:
    said = chunk.statistics
    if said is None:
        return None
    ends = (said.min, said.max) if said.has_min_max else None
    distinct = said.distinct_count if said.has_distinct_count else None
    return ends, said.null_count if said.has_null_count else None, distinct


def _claims(chunk: Any) -> list[Any]:
    """Return what a footer says of a column chunk beside its place, its size and its statistics."""
    return [getattr(chunk, name, None) for name in _CLAIMS]


def paths_apart(one: object, other: object, most: int = 3) -> list[str]:
    """Return where two JSON values differ first, as `plan.statistics[0].name`; at most `most`."""
    out: list[str] = []
    waiting = [("", one, other)]
    while waiting and len(out) < most:
        path, a, b = waiting.pop()
        if isinstance(a, dict) and isinstance(b, dict):
            keys = sorted({*a, *b}, reverse=True)
            new = [(f"{path}.{k[:60]}" if path else k[:60], a, b, k) for k in keys]
            out += [p for p, x, y, k in reversed(new) if (k in x) != (k in y)]
            waiting += [(p, x[k], y[k]) for p, x, y, k in new if k in x and k in y]
        elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
            pairs = [
                (f"{path}[{i}]", x, y) for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y
            ]
            waiting += reversed(pairs[:most])
        elif type(a) is not type(b) or a != b:
            out.append(path)
    return out[:most]
