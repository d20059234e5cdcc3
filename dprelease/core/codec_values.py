"""Single values of JSON: how each is written, and what is refused where it stands (see `codec`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime
from fractions import Fraction
from typing import Any, NamedTuple

from dprelease.core.errors import DpreleaseError
from dprelease.core.numeric import fraction_from_json, fraction_to_json, whole_from_json

EXACT_IN_JSON = 2**53
"""Integers below this are the same number to every reader of JSON."""


class Fault(Exception):  # noqa: N818 - becomes the one error of `decode`
    """What is wrong with a stored value; `path` is filled on the way out, innermost first."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        self.path: list[str] = []


_REFUSALS = (DpreleaseError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError)
"""What constructors and the functions of `WrittenAs` raise for a value that they do not take."""


class Coder(NamedTuple):
    """How values of one type are written and read; `decode` raises `Fault` alone."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


def guarded(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return `read`, whose refusals of a value become a `Fault`."""

    def careful(value: Any) -> Any:
        try:
            return read(value)
        except DpreleaseError as refusal:
            raise Fault(refusal.what) from None
        except _REFUSALS as refusal:
            raise Fault(f"{type(refusal).__name__} while it was read") from None

    return careful


def same(value: Any) -> Any:
    """Return JSON data as it is."""
    return value


def expected(kind: type, word: str) -> Callable[[Any], Any]:
    """Return a reader of values of one JSON type, called `word` where another one stands."""

    def read(value: Any) -> Any:
        if not isinstance(value, kind):
            raise Fault(f"{word} is needed, not {_kind_of(value)}")
        return value

    return read


def _kind_of(value: object) -> str:
    """Return what a JSON value is, never what it holds."""
    if value is None:
        return "null"
    words = {bool: "true or false", str: "text", list: "a list", dict: "an object"}
    return words.get(type(value), "a number")


def text(value: Any) -> str:
    """Return text; half a surrogate pair is refused, as no file could hold it again."""
    said: str = expected(str, "text")(value)
    if not said.isascii():
        try:
            said.encode()
        except UnicodeEncodeError:
            raise Fault("the text is not Unicode") from None
    return said


def _whole_out(value: int) -> int | str:
    return value if -EXACT_IN_JSON < value < EXACT_IN_JSON else str(value)


def _number_out(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("JSON has no infinity")
    return float(value)  # an int in a float's place is written as it is read back


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Fault(f"a number is needed, not {_kind_of(value)}")
    number = float(value)
    if not math.isfinite(number):
        raise Fault("the number is not finite")
    return number


def _iso(kind: type[date]) -> Coder:
    return Coder(lambda v: v.isoformat(), guarded(lambda v: kind.fromisoformat(text(v))))


def one_of(known: Mapping[Any, Any]) -> Callable[[Any], Any]:
    """Return a reader of the values in `known`; 1 and true are two values."""
    by_type = {(type(value), value): meant for value, meant in known.items()}

    def read(value: Any) -> Any:
        key = (type(value), value)
        if isinstance(value, list | dict) or key not in by_type:
            raise Fault("it is none of the known values")
        return by_type[key]

    return read


PLAIN: dict[Any, Coder] = {
    Any: Coder(same, same),
    object: Coder(same, same),
    bool: Coder(same, expected(bool, "true or false")),
    str: Coder(same, text),
    int: Coder(_whole_out, guarded(lambda v: whole_from_json(v, "the number"))),
    float: Coder(_number_out, guarded(_number)),
    Fraction: Coder(fraction_to_json, guarded(lambda v: fraction_from_json(v, "the number"))),
    datetime: _iso(datetime),
    date: _iso(date),
}
