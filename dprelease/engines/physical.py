"""How a column is stored, and whether that can hold what the schema declares.

Only public metadata is used: names and types. Values that do not convert become null later, row
by row; a type that can never convert (a list where a number is declared, a whole number where a
declared label is the word north or the code 01) is refused here, before anything is charged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, time
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING

from dprelease.core.errors import SourceError
from dprelease.core.strict_json import json_text
from dprelease.engines.csv_header import IN_CELLS
from dprelease.engines.plain_cell import plainly
from dprelease.query.bounded import BoundedQuery
from dprelease.schema.column import Column, Kind
from dprelease.schema.labels import spelt
from dprelease.schema.naming import nearest

if TYPE_CHECKING:
    import pyarrow as pa


class Physical(StrEnum):
    """Storage classes that convert alike."""

    whole = "a whole number"
    unsigned = "an unsigned whole number of 64 bits"
    exact = "an exact number"
    float = "a floating-point number"
    boolean = "a boolean"
    text = "text"
    bytes = "bytes"
    date = "a date"
    timestamp = "a timestamp without time zone"
    instant = "a timestamp with time zone"
    seconds = "a timestamp in seconds or milliseconds"
    nanoseconds = "a timestamp in nanoseconds"
    nanosecond_instant = "a timestamp in nanoseconds with time zone"
    other = "a nested or unsupported type"


KINDS = {
    Physical.whole: Kind.number,
    Physical.unsigned: Kind.number,
    Physical.exact: Kind.number,
    Physical.float: Kind.number,
    Physical.boolean: Kind.boolean,
    Physical.text: Kind.category,
    Physical.bytes: Kind.category,
    Physical.date: Kind.date,
    Physical.timestamp: Kind.timestamp,
    Physical.instant: Kind.timestamp,
    Physical.seconds: Kind.timestamp,
    Physical.nanoseconds: Kind.timestamp,
    Physical.nanosecond_instant: Kind.timestamp,
}
"""What an expression sees in a column that is declared as it is stored."""

_TEXTS = frozenset({Physical.text, Physical.bytes})
_NUMBERS = _TEXTS | {
    Physical.whole,
    Physical.unsigned,
    Physical.exact,
    Physical.float,
    Physical.boolean,
}
_TIMES = _TEXTS | {
    Physical.date,
    Physical.timestamp,
    Physical.instant,
    Physical.seconds,
    Physical.nanoseconds,
    Physical.nanosecond_instant,
}
_FITS: dict[Kind, frozenset[Physical]] = {
    Kind.integer: _NUMBERS,
    Kind.number: _NUMBERS,
    Kind.boolean: _NUMBERS,
    Kind.date: _TIMES,
    Kind.timestamp: _TIMES,
    Kind.identifier: _NUMBERS | _TIMES,
    Kind.category: _NUMBERS | _TIMES,
    Kind.node: _NUMBERS | _TIMES,
}


_DAY = r"\d{4}-\d\d-\d\d"
_MOMENT = _DAY + r" \d\d:\d\d:\d\d(\.\d*[1-9])?"
_NOT_ZERO = r"(?!-0(\.0*)?$)"
"""No stored zero has a sign."""
_WRITTEN = {
    Physical.whole: r"(0|-?[1-9]\d{0,18})(\.0+)?",
    Physical.unsigned: r"(0|[1-9]\d{0,19})(\.0+)?",
    Physical.exact: rf"{_NOT_ZERO}-?(0|[1-9]\d*)(\.\d+)?",
    Physical.float: rf"{_NOT_ZERO}-?(inf|(0|[1-9]\d*)(\.\d+)?(e[+-]\d+)?)",
    Physical.boolean: r"(?i:true|false)",
    Physical.date: rf"{_DAY}( 00:00:00)?",
    **dict.fromkeys(
        (Physical.timestamp, Physical.seconds, Physical.nanoseconds),
        rf"{_DAY}|{_MOMENT}",
    ),
    **dict.fromkeys((Physical.instant, Physical.nanosecond_instant), rf"{_MOMENT}\+00"),
}
"""Patterns of a declared value that a stored one may be; of what is not here, any text may be one."""

_LISTED = 12
"""The most names of columns that a message lists."""
_WIDE = 40
"""Digits of a declared number that is written out, at most."""

_VALUES = (Physical.whole, Physical.unsigned, Physical.exact, Physical.float, Physical.boolean)
"""Numbers and truth values, which no two texts can tell apart."""


def writes(stored: Physical, label: str) -> bool:
    """Return whether some value stored as `stored` may be meant by the declared value `label`.

    >>> [writes(Physical.whole, label) for label in ("7", "7.0", "north", "07")]
    [True, True, False, False]
    """
    if stored not in _WRITTEN:
        return True
    if re.fullmatch(_WRITTEN[stored], label, re.ASCII) is None:
        return False
    if fits(Kind.date, stored):
        return _is_moment(label)
    return stored is not Physical.float or _is_double(label)


def _is_moment(label: str) -> bool:
    """Return whether there is such a day, and such a time of it."""
    with suppress(ValueError):
        return bool(datetime.fromisoformat(label.removesuffix("+00").partition(".")[0]))
    return False


def _is_double(label: str) -> bool:
    """Return whether a double is this number alone; from 2**53 on it is several whole ones."""
    value = float(label)
    if "e" in label:  # as a double is written, which has no exponent below 10^16
        return repr(value) == label
    if not label.strip("-").startswith("inf") and value.is_integer() and abs(value) >= 2**53:
        return False
    return Decimal(repr(value)) == Decimal(label)


def fits(kind: Kind, stored: Physical) -> bool:
    """Return whether a column stored as `stored` can hold what `kind` declares."""
    return stored in _FITS[kind]


def of_arrow(kind: pa.DataType) -> Physical:
    """Return the storage class of an Arrow type (plain, see `in_memory.plain_array`)."""
    import pyarrow.types as t

    if t.is_integer(kind):
        return Physical.unsigned if t.is_uint64(kind) else Physical.whole
    if t.is_decimal(kind):
        return Physical.exact
    if t.is_floating(kind):
        return Physical.float
    if t.is_boolean(kind):
        return Physical.boolean
    if t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind) or t.is_null(kind):
        return Physical.text
    if t.is_date(kind):
        return Physical.date
    if t.is_timestamp(kind):
        if kind.unit == "ns":
            return Physical.nanoseconds if kind.tz is None else Physical.nanosecond_instant
        return Physical.timestamp if kind.tz is None else Physical.instant
    return Physical.other


def of_duckdb(name: str) -> Physical:
    """Return the storage class of a DuckDB type name such as `DECIMAL(18,3)`."""
    if name.endswith("]"):
        return Physical.other
    head = name.partition("(")[0].strip(' "').upper()
    if head in ("FLOAT", "DOUBLE"):
        return Physical.float
    if head in ("HUGEINT", "UHUGEINT", "DECIMAL"):
        return Physical.exact
    if head == "UBIGINT":
        return Physical.unsigned
    if head.endswith("INT") or head in ("INTEGER", "UINTEGER"):
        return Physical.whole
    if head in ("VARCHAR", "ENUM", "UUID", "NULL"):
        return Physical.text
    if head == "BLOB":
        return Physical.bytes
    if head == "BOOLEAN":
        return Physical.boolean
    if head == "DATE":
        return Physical.date
    return _TIMESTAMPS.get(head, Physical.other)


_TIMESTAMPS = {
    "TIMESTAMP": Physical.timestamp,
    "TIMESTAMP WITH TIME ZONE": Physical.instant,
    "TIMESTAMP_S": Physical.seconds,
    "TIMESTAMP_MS": Physical.seconds,
    "TIMESTAMP_NS": Physical.nanoseconds,
    "TIMESTAMPTZ_NS": Physical.nanosecond_instant,
}


def twice_named(names: Iterable[str]) -> frozenset[str]:
    """Return the names that stand more than once: which column is meant would be a guess."""
    counted = Counter(names)
    return frozenset(counted - Counter(counted.keys()))


def check_columns(
    source: str,
    columns: Iterable[Column],
    stored: Mapping[str, Physical],
    repeated: Iterable[str],
    elsewhere: Callable[[str], str | None] = lambda _: None,
    types: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Refuse a source that lacks a column or stores it as a type that does not fit.

    Args:
        source: its public name.
        columns: the declared columns that will be read.
        stored: what the source has.
        repeated: names that the source has more than once.
        elsewhere: says what to do about a name that the source has in another place than among its columns.
        types: what DuckDB calls the types that it found: 300 is no value of TINYINT.

    Raises:
        SourceError: a column is missing (DPR503), of a type that is unfit or that no declared value
            has (DPR504), or there twice (DPR505).
    """
    twice = frozenset(repeated)
    for column in columns:
        name = column.name
        where = f"{source}, column {name!r}"
        if name in twice:
            raise SourceError(
                f"the source has more than one column {name!r}",
                where=where,
                fix="rename one of them",
                code="DPR505",
            )
        if name not in stored:
            near = nearest(name, stored)
            some = [*map(repr, stored)][:_LISTED]
            others = f"its columns: {', '.join(some)}{', …' * (len(stored) > len(some))}"
            meant = f"did you mean {near!r}? Rename it in the source, or write it so wherever the schema names it"
            guess = meant if near else others if some else "it has none"
            if len(stored) == 1:
                guess = _parted(name, *stored) or guess
            raise SourceError(
                f"the source has no column {name!r}",
                where=source,
                why=f"declared at {column.origin}" if column.origin else None,
                fix=elsewhere(name) or guess,
                code="DPR503",
            )
        if stored[name] not in _FITS[column.kind]:
            raise SourceError(
                f"column {name!r} is declared {column.kind.value} but stored as {stored[name]}",
                where=where,
                fix=plainly(column)
                if stored[name] is Physical.other
                else "declare another kind, or convert the column in the source",
                code="DPR504",
            )
        _check_values(where, column, stored[name], types.get(name, ""))


def _parted(name: str, header: str) -> str | None:
    """Return what to do where the one name of a source holds `name` between equal signs: a header `k:x`."""
    signs = {sign for sign in header if not (sign.isalnum() or sign in IN_CELLS)}
    if len(signs) != 1 or not header.isascii() or name not in re.split(r"\W", header):
        return None
    return (
        f"the source has one column, {header!r}: if its names have a sign between them, say so,"
        f" `csv: {{path: FILE, delimiter: {json_text(signs.pop())}}}`"
    )


def _spelling(stored: Physical, label: str) -> str | None:
    """Return how a declared value is spelt that is meant, if it is another spelling of one."""
    others = [
        spelt(label),
        label.lower(),
        label.replace("T", " ").replace("Z", "+00"),
        f"{label}+00",
        label.replace(",", "."),
    ]
    with suppress(ArithmeticError):
        others.append(
            spelt(f"{Decimal(label):f}") if abs(Decimal(label).adjusted()) < _WIDE else label
        )
        others.append(repr(float(label)))
    meant = next((other for other in others if writes(stored, other)), None)
    return (
        meant
        and f"declare {meant!r}, as {stored} is spelt; a code is a text: convert the column in the source"
    )


def _check_values(where: str, column: Column, stored: Physical, kind: str) -> None:
    """Refuse a declared value that no stored one can be, each by itself."""
    never = next((label for label in column.values if not writes(stored, label)), None)
    shown, fix = str(stored), never and _spelling(stored, never)
    if never is None and stored in _VALUES:
        shown = f"{stored}, {kind}"
        never = next((label for label in column.values if not _has_room(kind, label)), None)
    if never is not None:
        raise SourceError(
            f"column {column.name!r} is stored as {shown}, and its declared value {never!r} can never be one",
            where=where,
            why="no row could ever have it, and the release would still be charged",
            fix=fix
            or "declare the values as they are stored, or convert the column to text in the source",
            code="DPR504",
        )
    if stored in _VALUES and len(set(map(spelt, column.values))) < len(column.values):
        raise SourceError(
            f"column {column.name!r} is stored as {stored}, and two of its declared values are the same",
            where=where,
            why="a row that has one has the other, too: such as 1.1 and 1.10",
            fix="declare each value once, or convert the column to text in the source",
            code="DPR504",
        )


_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}


def _has_room(kind: str, label: str) -> bool:
    """Return whether a number is one of a type; of a type that is none of these any may be.

    >>> [_has_room("TINYINT", "127"), _has_room("UTINYINT", "-1"), _has_room("DECIMAL(4,2)", "5.255")]
    [True, False, False]
    """
    signed = kind.removeprefix("U")
    digits = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", kind)
    if digits:
        scaled = Fraction(label) * 10 ** int(digits[2])
        return scaled.denominator == 1 and len(str(abs(scaled.numerator))) <= int(digits[1])
    if signed not in _BITS:
        return True
    half = 2 ** (_BITS[signed] - 1)
    low, high = (-half, half) if signed == kind else (0, 2 * half)
    return Fraction(label).denominator == 1 and low <= Fraction(label) < high


def check_times(source: str, query: BoundedQuery, stored: Mapping[str, Physical]) -> None:
    """Refuse a stored date that a zone would move: it has no time of day.

    Read as a timestamp it is midnight in UTC, which is the day before west of Greenwich.

    Raises:
        SourceError: a period, or a unit's interval, of another zone is asked of it (DPR504).
    """
    for column in (*query.groups.columns, *query.columns):
        found = column.lists or (query.groups.found and column in query.groups.columns)
        if found and stored.get(column.name) is Physical.float:
            raise SourceError(
                f"the keys of column {column.name!r} are found as texts, and it is stored as {Physical.float}",
                where=source,
                why="one empty cell makes floats of whole numbers, and other texts of large ones: all keys would show it",
                fix="convert the column to whole numbers or text, e.g. `astype('Int64')`",
                code="DPR504",
            )
    midnights = query.window is None or all(
        at.astimezone(UTC).time() == time.min for at in (query.window.start, query.window.end)
    )
    zoned = [] if midnights or query.window is None else [query.window.column]
    if query.per is not None and query.per.zone != "UTC":
        zoned.append(query.per.column)
    kinds = {column.name: column.kind for column in query.columns}
    for name in zoned:
        if stored.get(name) is Physical.date and kinds.get(name) is Kind.timestamp:
            raise SourceError(
                f"column {name!r} is declared timestamp but stored as {stored[name]}",
                where=f"{source}, column {name!r}",
                why="a date has no time of day, so a period in a time zone would take it for midnight in UTC",
                fix=f"declare `{name}: {{kind: date}}`",
                code="DPR504",
            )
