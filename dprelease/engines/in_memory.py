"""Turn columns of any in-memory table into plain Arrow arrays, without ever raising for a value.

Every map here is total and works cell by cell. What has no plain type becomes text, text that is
not valid UTF-8 is escaped (`backslashreplace`, not `replace`: two different unit ids must not
become one unit), cells that cannot even be printed become null. Only the asked columns are read.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from dprelease.engines.plain_cell import plain_cell
from dprelease.engines.source import Source

__all__ = ["names", "plain_array", "plain_batches", "plain_table", "text_of"]

IN_MEMORY = ("arrow", "pandas", "polars")


def names(source: Source) -> Counter[str]:
    """Return how often each column name occurs."""
    payload: Any = source.payload
    if source.kind == "arrow":
        return Counter(payload.schema.names)
    if source.kind == "polars":
        lazy = hasattr(payload, "collect_schema")
        return Counter(payload.collect_schema().names() if lazy else payload.columns)
    return Counter(c for c in payload.columns if isinstance(c, str))


def plain_table(source: Source, columns: Sequence[str], *, rows: bool = True) -> pa.Table:
    """Return the named columns as plain Arrow, renamed `c0`, `c1`, … in the order asked.

    Names are replaced because SQL does not tell `Age` from `age`. With `rows=False` the table is
    empty: types only, for the preflight.
    """
    payload: Any = source.payload
    arrays: list[pa.Array | pa.ChunkedArray]
    if source.kind == "pandas":
        frame = payload if rows else payload.iloc[:0]
        arrays = [pandas_array(frame[name]) for name in columns]
    else:
        table: Any
        if source.kind == "polars":
            frame = payload.lazy().select(list(columns))
            table = (frame if rows else frame.head(0)).collect().to_arrow()
        else:
            table = payload if rows else payload.slice(0, 0)
        arrays = [plain_array(table.column(name)) for name in columns]
    return pa.table(arrays, names=[f"c{i}" for i in range(len(arrays))])


def plain_batches(reader: pa.RecordBatchReader, width: int) -> pa.RecordBatchReader:
    """Return a reader over the same batches with plain columns `c0`, …, `c{width-1}`."""
    empty = [plain_array(pa.array([], f.type)) for f in reader.schema]
    schema = pa.schema([(f"c{i}", a.type) for i, a in enumerate(empty[:width])])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            arrays = [plain_array(a) for a in batch.columns[:width]]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def plain_array(array: pa.Array | pa.ChunkedArray) -> Any:
    """Return `array` in a type that every engine reads the same way; nested types pass through."""
    if isinstance(array, pa.ChunkedArray):
        chunks = [plain_array(c) for c in array.chunks] or [plain_array(pa.array([], array.type))]
        return pa.chunked_array(chunks)
    t, kind = pa.types, array.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain_array(array.storage)
    if t.is_dictionary(kind):
        return plain_array(array.dictionary_decode())
    if t.is_run_end_encoded(kind):
        return plain_array(pa.compute.run_end_decode(array))
    if t.is_float16(kind):
        return array.cast(pa.float64())
    if t.is_decimal256(kind):
        return array.cast(pa.string())
    if t.is_timestamp(kind) and kind.unit != "us":
        # safe=False: an instant beyond the range wraps instead of raising
        return array.cast(pa.timestamp("us", kind.tz), safe=False)
    if t.is_date64(kind):
        return array.cast(pa.date32(), safe=False)
    if t.is_null(kind):
        return array.cast(pa.string())
    if t.is_string_view(kind) or t.is_large_string(kind) or t.is_string(kind):
        return _valid_text(array.cast(pa.large_binary()))
    if t.is_binary(kind) or t.is_large_binary(kind) or t.is_fixed_size_binary(kind):
        return _valid_text(array.cast(pa.large_binary()))
    if t.is_binary_view(kind):
        return _valid_text(array.cast(pa.large_binary()))
    return array


def _valid_text(array: pa.Array) -> pa.Array:
    try:
        return array.cast(pa.large_string())  # checks UTF-8
    except pa.ArrowInvalid:
        cells = (
            v if v is None else v.decode("utf-8", "backslashreplace") for v in array.to_pylist()
        )
        return pa.array(list(cells), pa.large_string())


def pandas_array(series: Any) -> Any:
    """Return a pandas series as plain Arrow, by its dtype alone; objects and exotic ones as text.

    The categories of a Categorical are values of rows. So they are text, as objects are: by their
    common type, one odd row would change how all others are read.
    """
    kind = getattr(series.dtype, "kind", "O")
    if series.dtype.name == "category":
        codes = series.cat.codes.to_numpy()
        return _as_text(series.cat.categories).take(pa.array(codes, mask=codes < 0))
    if kind == "c":  # no engine has them: a type that fits no declaration
        return pa.nulls(len(series), pa.list_(pa.float64(), 2))
    if kind in "mM":
        return plain_array(pa.Array.from_pandas(series))
    if series.dtype != object and kind not in "SUV":
        try:
            array = pa.Array.from_pandas(series)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return _as_text(series)
        # a period is its text; an interval has none that any declaration means
        if not isinstance(array.type, pa.BaseExtensionType) or series.dtype.name.startswith("interval"):
            return plain_array(array)
    return _as_text(series)


def _as_text(cells: Iterable[object]) -> pa.Array:
    return pa.array([text_of(plain_cell(cell)) for cell in cells], pa.large_string())


def text_of(cell: object) -> str | None:
    """Return a cell's text; None for every kind of missing and for what has no text.

    Whole floats read as integers ("7", not "7.0"), so that one missing value in a column of
    numbers does not rename its keys.
    """
    if cell is None:
        return None
    if isinstance(cell, str):
        return cell.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(cell, (bytes, bytearray)):
        return bytes(cell).decode("utf-8", "backslashreplace")
    if isinstance(cell, np.generic) and not isinstance(cell, (np.datetime64, np.timedelta64)):
        return text_of(cell.item())
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        return float_text(cell)
    if isinstance(cell, Decimal) and cell.is_nan():
        return None
    try:
        text = cell.isoformat() if isinstance(cell, (date, datetime)) else str(cell)
    except Exception:  # noqa: BLE001 - a foreign object's own __str__: total, hence null
        return None
    return None if text in ("NaT", "<NA>", "nan") else text_of(text)


def float_text(value: float) -> str | None:
    """Return a float's text; None for NaN, whole numbers below 2**53 without a fraction."""
    if math.isnan(value):
        return None
    if value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return repr(value)
