"""Turn columns of any in-memory table into plain Arrow arrays, without ever raising for a value.

Every map here is total and works cell by cell. What has no plain type becomes its canonical text
(`identity`), bytes do as well, cells that cannot even be printed become null. A plain array holds
what is stored, exactly: an instant of seconds or milliseconds that microseconds do not reach is
null, never wrapped into another. Only the asked columns are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from dprelease.engines.identity import ESCAPE, text_of, text_of_bytes
from dprelease.engines.plain_cell import half
from dprelease.engines.source import Source

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


def elsewhere(source: Source, name: str) -> str | None:
    """Return what to do where a pandas frame holds `name` but not as a column's text; None where it does not."""
    frame: Any = source.payload
    if source.kind != "pandas" or source.payload is None:
        return None
    if name in frame.index.names:
        return f"`{name}` is the frame's index: pass frame.reset_index()"
    if frame.columns.nlevels > 1:
        return (
            "the frame's columns have several levels: make each one text, e.g."
            ' frame.columns = ["_".join(map(str, c)) for c in frame.columns], and declare these names'
        )
    others = [str(c) for c in frame.columns if not isinstance(c, str)]
    if name in others or len(others) == len(frame.columns) > 0:
        return "the frame's labels are no texts: frame.columns = frame.columns.map(str), and declare these names"
    return None


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
    elif source.kind == "polars":
        frame = payload.lazy().select(list(columns))
        table = (frame if rows else frame.head(0)).collect()
        arrays = [polars_array(table.get_column(name)) for name in columns]
    else:
        table = payload if rows else payload.slice(0, 0)
        arrays = [plain_array(table.column(name)) for name in columns]
    return pa.table(arrays, names=[f"c{i}" for i in range(len(arrays))])


def plain_batches(reader: pa.RecordBatchReader, width: int) -> pa.RecordBatchReader:
    """Return a reader over the same batches with plain columns `c0`, …, `c{width-1}`."""
    empty = [plain_array(pa.nulls(0, f.type)) for f in reader.schema]
    schema = pa.schema([(f"c{i}", a.type) for i, a in enumerate(empty[:width])])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            arrays = [plain_array(a) for a in batch.columns[:width]]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def plain_array(array: pa.Array | pa.ChunkedArray) -> Any:
    """Return `array` in a type that every engine reads the same way; nested types pass through."""
    if isinstance(array, pa.ChunkedArray):
        chunks = [plain_array(c) for c in array.chunks] or [plain_array(pa.nulls(0, array.type))]
        return pa.chunked_array(chunks)
    t, kind = pa.types, array.type
    if isinstance(kind, pa.UuidType):
        cells = (None if c is None else str(UUID(bytes=c)) for c in array.storage.to_pylist())
        return pa.array(list(cells), pa.large_string())
    if isinstance(kind, pa.BaseExtensionType):
        return plain_array(array.storage)
    if t.is_dictionary(kind):
        return plain_array(array.dictionary_decode())
    if t.is_run_end_encoded(kind):
        return plain_array(pc.run_end_decode(array))
    if t.is_float16(kind):
        found = array.cast(pa.float64()).dictionary_encode()
        numbers = pa.array([half(value) for value in found.dictionary.to_pylist()], pa.float64())
        return numbers.take(found.indices)
    if t.is_decimal(kind) and not (kind.precision <= _DIGITS and 0 <= kind.scale <= kind.precision):
        return _texts(array.to_pylist())
    if t.is_decimal256(
        kind
    ):  # of at most 38 digits: engines know it by its precision, not by its width
        return array.cast(pa.decimal128(kind.precision, kind.scale))
    if t.is_timestamp(kind) and kind.unit in _MICROSECONDS:
        return _rescaled(array, _MICROSECONDS[kind.unit]).cast(pa.timestamp("us", kind.tz))
    if t.is_date64(kind):
        return _days(array)
    if t.is_null(kind):
        return array.cast(pa.string())
    if t.is_string_view(kind) or t.is_large_string(kind) or t.is_string(kind):
        return _valid_text(array)
    if (
        t.is_binary(kind)
        or t.is_large_binary(kind)
        or t.is_binary_view(kind)
        or t.is_fixed_size_binary(kind)
    ):
        return _valid_text(array)
    return array


_DIGITS = 38
"""The most that a DECIMAL of the engines has."""

_MICROSECONDS = {"s": 1_000_000, "ms": 1_000}
_DAY = 86_400_000


def _rescaled(array: Any, factor: int) -> Any:
    """Return counts of a coarser unit as counts of a finer one; null where 64 bits do not hold them."""
    counts = array.cast(pa.int64())
    most = (2**63 - 1) // factor
    inside = pc.and_(pc.greater_equal(counts, -most), pc.less_equal(counts, most))
    return pc.multiply(pc.if_else(inside, counts, None), factor)


def _days(array: Any) -> Any:
    """Return days of milliseconds as days; null where 32 bits do not hold them, or within a day."""
    counts = array.cast(pa.int64())
    days = pc.divide(counts, _DAY)
    whole = pc.equal(pc.subtract(counts, pc.multiply(days, _DAY)), 0)
    inside = pc.and_(pc.less_equal(pc.abs(days), 2**31 - 1), whole)
    return pc.if_else(inside, days, None).cast(pa.int32()).cast(pa.date32())


def _valid_text(array: pa.Array) -> pa.Array:
    """Return texts or bytes as canonical text, cell by cell only where one is not its own."""
    array = array.cast(pa.large_binary())
    try:
        texts = array.cast(pa.large_string())  # checks UTF-8
    except pa.ArrowInvalid:
        texts = None
    if texts is None or pc.any(pc.starts_with(texts, ESCAPE)).as_py():
        cells = (None if v is None else text_of_bytes(v) for v in array.to_pylist())
        return pa.array(list(cells), pa.large_string())
    return texts


def pandas_array(series: Any) -> Any:
    """Return a pandas series as plain Arrow, by its dtype alone; objects and exotic ones as text.

    The categories of a Categorical are values of rows. So they are text, as objects are: by their
    common type, one odd row would change how all others are read. A type that no declaration means
    (periods, intervals, durations, complex numbers) fits none, in a Categorical too.
    """
    if hasattr(
        series.dtype, "pyarrow_dtype"
    ):  # Arrow's own array: a way round would decode its texts
        return plain_array(series.array.__arrow_array__())
    if series.dtype.name.startswith("Sparse"):
        return pandas_array(series.sparse.to_dense())
    kind = getattr(series.dtype, "kind", "O")
    dtype = series.cat.categories.dtype if series.dtype.name == "category" else series.dtype
    if dtype.name.startswith(_UNFIT):
        return pa.nulls(len(series), pa.list_(pa.float64(), 2))
    if series.dtype.name == "category":
        codes = series.cat.codes.to_numpy()
        return _texts(series.cat.categories).take(pa.array(codes, mask=codes < 0))
    if kind == "M":
        return plain_array(pa.Array.from_pandas(series))
    if series.dtype != object and kind not in "SUV":
        try:
            array = pa.Array.from_pandas(series)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return _texts(series)
        if not isinstance(array.type, pa.BaseExtensionType):
            return plain_array(array)
    return _texts(series)


def polars_array(series: Any) -> Any:
    """Return a polars series as plain Arrow; objects, and whole numbers that Arrow has not, as text.

    Of an object polars would hand over its place in memory: by that, two rows of one person are two
    persons. A list of UUIDs becomes a column of objects.
    """
    return (
        _texts(series.to_list())
        if str(series.dtype) in _OBJECTS
        else plain_array(series.to_arrow())
    )


_OBJECTS = ("Object", "Int128", "UInt128")
_UNFIT = ("period", "interval", "timedelta", "duration", "complex")


def _texts(cells: Iterable[object]) -> pa.Array:
    """Return the texts of objects; of a decimal, which has no column's scale, without zeros at the end."""
    plain = (_unscaled(cell) if issubclass(type(cell), Decimal) else cell for cell in cells)
    return pa.array([text_of(cell) for cell in plain], pa.large_string())


def _unscaled(cell: Any) -> Decimal:
    """Return the one of all equal decimals whose last digit is not 0: 1.5 for 1.50, 0 for -0.0."""
    value = Decimal(cell)
    if not value.is_finite() or not value:
        return Decimal(0) if value.is_finite() else value
    sign, digits, exponent = value.as_tuple()
    trimmed = "".join(map(str, digits)).rstrip("0")
    return Decimal((sign, tuple(map(int, trimmed)), int(exponent) + len(digits) - len(trimmed)))
