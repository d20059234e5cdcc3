"""Any Python object in a cell as a value of a plain type, without ever raising.

Frames of objects hold whatever their owner put in: numpy scalars, subclasses with methods of their
own, classes that print badly. What comes out is exactly a None, str, bytes, bool, int, float,
Decimal, date or datetime (pandas' Timestamp is left as it is, for its nanoseconds), so nothing
after this calls a foreign method. A type is looked at, never an instance: `isinstance` would ask
the cell for its `__class__`.

An object of another type is its own text, if its class gives it one: the standard text holds an
address in memory, another in each run.
"""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np

from dprelease.schema.column import Column, Kind

_PLAIN = frozenset({type(None), str, bytes, bool, int, float, date, datetime})
_MISSING = ("NaT", "<NA>", "nan")
_EXPONENT = 1000  # of a decimal; one of 10^9 has as many digits when it is written out


def plain_cell(cell: Any) -> object:
    """Return `cell` as a plain value; None for what is missing (NaN stays) and for what has no text.

    >>> plain_cell(np.float32(2.5)), plain_cell(np.longdouble("nan")), plain_cell(object())
    (2.5, nan, None)
    """
    if type(cell) in _PLAIN:
        return cell
    try:
        with np.errstate(all="ignore"):
            return _plain(cell, type(cell))
    except Exception:  # noqa: BLE001 - a foreign object's own methods: total, hence null
        return None


def _plain(cell: Any, kind: type) -> object:
    # the methods are the plain classes' own: a subclass may have others of the same name
    if issubclass(kind, str):
        return str.__str__(cell)
    if issubclass(kind, (bytes, bytearray, memoryview)):
        return memoryview(cell).tobytes()
    if issubclass(kind, Decimal):
        value = Decimal(cell)
        if value.is_nan():
            return None
        return value if not value.is_finite() or abs(value.adjusted()) < _EXPONENT else str(value)
    if issubclass(kind, int):
        return int.__int__(cell)
    if issubclass(kind, float):
        return float.__float__(cell)
    if issubclass(kind, np.generic):
        return _scalar(cell, kind)
    if issubclass(kind, datetime):
        if kind.__module__.partition(".")[0] == "pandas":
            return None if kind.__name__ == "NaTType" else cell
        return datetime.combine(datetime.date(cell), datetime.timetz(cell))
    if issubclass(kind, date):
        return date.fromordinal(date.toordinal(cell))
    return _foreign(cell, kind)


def _scalar(cell: Any, kind: type) -> object:
    """Return a numpy scalar that is neither text nor bytes."""
    if issubclass(kind, np.datetime64):
        value = None
        with suppress(OverflowError):  # what microseconds do not reach, from numpy 2.5 on
            moment = cell.astype("M8[us]")
            # compared as counts: an earlier numpy wraps it, and calls it equal
            if moment.astype(cell.dtype).view("i8") == cell.view("i8"):
                value = moment.item()
        return value if type(value) is datetime else _foreign(cell, kind)
    if issubclass(kind, np.floating):
        value = float(cell)
        if kind is np.float16:
            return half(value)
        return (
            value if value == cell or math.isnan(value) else str(cell)
        )  # a double has not all its digits
    if issubclass(kind, np.bool_):
        return bool(cell)
    if issubclass(kind, np.integer) and not issubclass(kind, np.timedelta64):
        return int(cell)
    return _foreign(cell, kind)


def half(value: float) -> float:
    """Return the number that one of half precision is written as: 0.1, not 0.0999755859375; a whole one is itself."""
    return value if value.is_integer() else float(str(np.float16(value)))


def _foreign(cell: Any, kind: type) -> str | None:
    if issubclass(kind, np.ndarray):
        return None  # its text leaves out the middle
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        return None
    text = str.__str__(str(cell))
    return None if text in _MISSING else text


def plainly(column: Column) -> str:
    """Return how a column that no kind reads is stored as it is declared; a text that is none of that would be null."""
    if column.kind in (Kind.integer, Kind.number):
        days = f"`frame[{column.name!r}] / pd.Timedelta('1D')`"
        return (
            "store the number that is declared: of a duration its days or seconds, in pandas"
            f" {days} or `.dt.total_seconds()`; of an interval one end; of a complex number its real part"
        )
    if column.kind is Kind.boolean:
        return "store true and false in the column, e.g. by a comparison in pandas"
    if column.kind in (Kind.date, Kind.timestamp):
        return (
            "store moments, or texts such as 2026-01-31: of periods in pandas `.dt.to_timestamp()`"
        )
    return "convert the column in the source, e.g. to text: `.astype(str)` in pandas"
