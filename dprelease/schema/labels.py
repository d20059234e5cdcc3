"""Which cells a category's declared value stands for: one rule, whatever the cells are stored as.

A cell and a declared value are compared by their texts without blanks at their ends. Beyond that

| the declared value is  | it also stands for                                                    |
|------------------------|-----------------------------------------------------------------------|
| a number such as 5.5   | the same number: 5.50, 05.5, of a double, of a decimal with any scale |
| true or false          | the same word in any case, and the truth value                        |
| a day                  | its midnight, and the other way round                                 |

Storage alone spells these differently: one null makes 1 of pandas 1.0, a decimal has the zeros of its
column's scale. A column one of whose values would itself be spelt otherwise, such as the code 01, or
of which two are the same number (1.1 and 1.10), is compared by its texts alone; so are the keys of published
lists, which are the texts that were found. No column of numbers or
truth values holds such codes, and `engines.physical` refuses it.

Everything here is a function of the declaration.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache

BLANK = " "
TRUTHS = ("true", "false")
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?", re.ASCII)
_SPELT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)", re.ASCII)
_EXPONENT = re.compile(r"-?\d+(\.\d+)?e[-+]\d+", re.ASCII)
_MIDNIGHT = " 00:00:00"
_DAY = re.compile(r"\d{4,}-\d\d-\d\d( \(BC\))?", re.ASCII)


def spelt(text: str) -> str:
    """Return the text by which a cell meets a declared value, where these are compared by value.

    >>> spelt(" 05.50"), spelt("-0.0"), spelt("TRUE"), spelt("1e5"), spelt("north")
    ('5.5', '0', 'true', '1e5', 'north')
    """
    text = text.strip(BLANK)
    if _SPELT.fullmatch(text):
        whole, _, part = text.lstrip("+-").partition(".")
        digits = whole.lstrip("0") or "0"
        part = part.rstrip("0")
        number = f"{digits}.{part}" if part else digits
        return f"-{number}" if text.startswith("-") and number != "0" else number
    word = text.lower()
    return word if word in TRUTHS else text


@lru_cache(maxsize=64)
def compared_by_value(values: tuple[str, ...], lists: tuple[str, ...] = ()) -> bool:
    """Return whether numbers and truth values among a category's values are compared as such; of `lists` none is."""
    own = {value: spelt(value) for value in values}
    meant = [v for v in own if _is_number(v) or v.lower() in TRUTHS]
    alike = all(own[v] == v for v in own if v not in meant)
    return bool(meant) and alike and not lists and len(set(own.values())) == len(own)


def texts_of(values: Sequence[str], lists: Sequence[str] = ()) -> dict[str, str]:
    """Return every text that a cell may have, as `spelt` or stored, and the value that it is; of `lists` each its own."""
    if lists:
        return dict(zip(values, values, strict=True))
    by_value = compared_by_value(tuple(values))
    texts = {spelt(v) if by_value else v: v for v in values}
    others: dict[str, str | None] = {}
    for value in values:
        number = by_value or "e" in value
        for text in {*(_as_doubles(value, by_value) if number else ()), *_as_moment(value)}:
            others[text] = None if text in others else value
    for text, meant in others.items():
        if meant is not None:  # a short double that is near two declared values is none of them
            texts.setdefault(text, meant)
    return texts


def _is_number(value: str) -> bool:
    return _NUMBER.fullmatch(value) is not None and not (value[0] == "-" and spelt(value) == "0")


def _as_doubles(value: str, by_value: bool) -> Iterable[str]:
    """Yield how a double, and one of single precision, is written that holds a number."""
    number = by_value and _is_number(value) and "." in spelt(value)
    if not number and _EXPONENT.fullmatch(value) is None:
        return
    double = float(value)
    if Decimal(repr(double)) == Decimal(value):
        yield repr(double)
    with suppress(OverflowError):
        yield repr(struct.unpack("f", struct.pack("f", double))[0])


def _as_moment(value: str) -> Iterable[str]:
    if _DAY.fullmatch(value):
        yield value + _MIDNIGHT
    elif value.endswith(_MIDNIGHT):
        yield value.removesuffix(_MIDNIGHT)
