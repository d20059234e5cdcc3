"""Whole columns as text, by Arrow's formatters: cell by cell, Python took a third of a large run.

    shortest   the text of `repr`: the shortest one that reads back as the same double
    fixed      `f"{value:.{decimals}f}"`; `fixed_apart` with other decimals in every row
    joined     cells side by side; `lines` makes one line of each row, and one file of the lines

Both kinds of number are those texts exactly; what Arrow writes in another way goes through Python:

* Arrow's shortest digits are those of `repr`, but it writes 2 for 2.0 and turns to exponents
  elsewhere. So whole numbers are written as integers with `.0`, and its text of others is taken only
  where neither of the two has an exponent.
* k / 10^d with |k| and 10^d below 2^53 is one correctly rounded division. If it gives the value
  back, the value is the double nearest to that decimal; with |k| below 2^51 as well, doubles there
  are closer together than the decimals, so no other decimal of d places is as near: k is what `.df`
  writes. Arrow writes k as a decimal without exponents for up to six places.

-0.0 is written as 0: a released zero has no sign.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dprelease.results.formats.numbers import machine_text

TEXT = pa.large_utf8()
_EXPONENT_FROM = 1e16
_EXPONENT_BELOW = 1e-4
_PLAIN_DECIMALS = 6
_APART = 2.0**51

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def shortest(column: pa.Array | pa.ChunkedArray, missing: str = "") -> pa.Array:
    """Return doubles in their shortest exact form, `missing` where there is none; `(rows,)`."""

    def plain(values: Floats) -> tuple[pa.Array, Flags]:
        whole = (np.abs(values) < _EXPONENT_FROM) & (np.rint(values) == values)
        others = values[~whole]
        size = np.abs(others)
        texts = pa.array(others).cast(TEXT)
        sure = whole.copy()
        sure[~whole] = (size >= _EXPONENT_BELOW) & (size < _EXPONENT_FROM)
        sure[~whole] &= ~np.asarray(pc.match_substring(texts, "e"))
        if whole.any():
            counted = pa.array(np.where(whole, values, 0).astype(np.int64)).cast(TEXT)
            texts = pc.replace_with_mask(joined([counted, ".0"], ""), pa.array(~whole), texts)
        return texts, sure

    return _written(column, plain, repr, missing)


def fixed(column: pa.Array | pa.ChunkedArray, decimals: int | None) -> pa.Array:
    """Return doubles with `decimals`, or in their shortest form where that is None; `(rows,)`.

    A missing value is an empty text; integers keep their digits.
    """
    array = one_array(column)
    if pa.types.is_integer(array.type):
        return pc.fill_null(array.cast(TEXT), "")
    if decimals is None:
        return shortest(array)

    def plain(values: Floats) -> tuple[pa.Array, Flags]:
        if decimals > _PLAIN_DECIMALS:
            return pa.nulls(len(values), TEXT), np.zeros(len(values), dtype=bool)
        with np.errstate(all="ignore"):
            steps = np.rint(values * 10.0**decimals)
            sure = (np.abs(steps) < _APART) & (steps / 10.0**decimals == values)
        low = np.where(sure, steps, 0).astype(np.int64)
        words = np.ascontiguousarray(np.stack([low, low >> 63], axis=1), dtype="<i8")
        kind = pa.decimal128(38, decimals)
        return pa.Array.from_buffers(kind, len(low), [None, pa.py_buffer(words)]).cast(TEXT), sure

    return _written(array, plain, lambda value: machine_text(value, decimals), "")


def fixed_apart(
    column: pa.Array | pa.ChunkedArray, decimals: Sequence[int | None], which: Places
) -> pa.Array:
    """Return doubles with `decimals[which]` places, row by row; `(rows,)`."""
    array = one_array(column)
    kinds = list(dict.fromkeys(decimals))
    kind = np.array([kinds.index(d) for d in decimals], dtype=np.int64)[which]
    rows = [np.flatnonzero(kind == i) for i in range(len(kinds))]
    texts = [fixed(array.take(pa.array(at)), d) for at, d in zip(rows, kinds, strict=True)]
    back = np.empty(len(array), dtype=np.int64)
    back[np.concatenate(rows)] = np.arange(len(array))
    return one_array(pa.chunked_array(texts, TEXT)).take(pa.array(back))


def joined(cells: Sequence[pa.Array | str], separator: str) -> pa.Array:
    """Return every row's cells with `separator` between them, null where a cell is; `(rows,)`.

    Args:
        cells: arrays of texts, and texts that stand in every row.
    """
    columns = [pa.scalar(c, TEXT) if isinstance(c, str) else c.cast(TEXT) for c in cells]
    return pc.binary_join_element_wise(*columns, pa.scalar(separator, TEXT))


def lines(head: str, cells: Sequence[pa.Array], separator: str, end: str) -> bytes:
    """Return `head` and then the text of all rows, their cells with `separator` between and `end` after.

    Args:
        cells: one array of texts per column, none missing.
    """
    *first, last = cells
    rows = joined([*first, joined([last, end], "")], separator)
    if not len(rows):
        return head.encode()
    # The texts stand one behind the other in their buffer: that is the file.
    _, offsets, texts = rows.buffers()
    ends = np.frombuffer(offsets, np.int64)[rows.offset : rows.offset + len(rows) + 1]
    return b"".join((head.encode(), memoryview(texts)[int(ends[0]) : int(ends[-1])]))


def _written(
    column: pa.Array | pa.ChunkedArray,
    plain: Callable[[Floats], tuple[pa.Array, Flags]],
    one: Callable[[float], str],
    missing: str,
) -> pa.Array:
    """Return the texts of `plain` where it is sure of them, those of `one` elsewhere."""
    array = one_array(column).cast(pa.float64())
    unknown = np.asarray(array.is_null())
    with np.errstate(invalid="ignore"):
        values: Floats = np.asarray(array.fill_null(0.0)) + 0.0  # -0.0 becomes 0.0
    texts, sure = plain(values)
    rest = ~(sure | unknown)
    if rest.any():
        texts = pc.replace_with_mask(
            texts, pa.array(rest), pa.array([one(x) for x in values[rest].tolist()], TEXT)
        )
    if unknown.any():
        texts = pc.if_else(pa.array(unknown), pa.scalar(missing, TEXT), texts)
    return texts
