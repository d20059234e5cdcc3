r"""The canonical text of a stored cell: what ids, join keys and text constants are compared by, and labels begin with (`schema.labels`).

Two cells of one column have the same text where they are the same value, and only there. The text
is compared by its bytes: no collation, no declared kind and no cast to a double comes between.

| stored                         | canonical text                                                   |
|--------------------------------|------------------------------------------------------------------|
| whole number of any width      | its digits                                                       |
| decimal of any precision       | its digits, with the scale of its column ("1.50"), no exponent   |
| decimal of a scale of its own  | its digits without zeros at the end ("1.5"): objects of pandas   |
|                                | and polars, PostgreSQL's numeric without a scale                 |
| floating point                 | an integer's digits where it is whole and below 2**53, else the  |
|                                | shortest digits that read as the same double; -0 is "0"          |
| boolean                        | "true", "false"                                                  |
| text, UUID, enumeration        | itself                                                           |
| bytes                          | themselves where they are UTF-8, else NUL and hexadecimal digits;|
|                                | so are bytes that begin with NUL                                 |
| date, timestamp                | ISO 8601 with a blank, no zeros at the end of a second's fraction|
| timestamp with a zone          | the same in UTC, then "+00"                                      |

So the integer 1 and the double 1.0 are equal, across columns too; a decimal 1.00 is "1.00". From
2**53 on a double stands for several whole numbers, and equals no integer.
NaN is null, and so is an instant that no timestamp of DuckDB holds (years beyond 290,000, infinity).
No declared label may hold NUL, so nothing that is not text can meet a label.

`typed_sql` says the same as SQL; `in_memory` and the reference engine use this.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import NamedTuple

from dprelease.engines.plain_cell import plain_cell

ESCAPE = "\0"
"""What the hexadecimal form of bytes begins with."""

_PER_DAY = 86_400
_LEAST, _INFINITE = -9_223_372_022_400_000_000, 2**63 - 1
"""The first microsecond that DuckDB reads as an instant, 290309-12-22 (BC), and its infinity."""
_INFINITE_DAYS = {2**31 - 1: "infinity", -(2**31) + 1: "-infinity"}


class Moment(NamedTuple):
    """A stored date or timestamp as the count that it is stored as: total, where datetime is not.

    Attributes:
        ticks: since 1970-01-01, in units of which a second has `per_second`; days where that is 0.
        zoned: with a time zone: an instant, counted in UTC.
    """

    ticks: int
    per_second: int
    zoned: bool = False

    @property
    def finite(self) -> bool:
        """Return whether this is no count that DuckDB reads as an infinity."""
        return not self.per_second or abs(self.ticks) != _INFINITE

    def date(self) -> date | None:
        """Return the day, in UTC; None for one that Python has not."""
        days = self.ticks if not self.per_second else self.ticks // (self.per_second * _PER_DAY)
        ordinal = days + _EPOCH
        return date.fromordinal(ordinal) if 1 <= ordinal <= date.max.toordinal() else None

    def datetime(self) -> datetime | None:
        """Return the instant in UTC, naive, cut to microseconds; None for one that Python has not."""
        day = self.date()
        if day is None:
            return None
        whole, part = divmod(self.ticks, self.per_second) if self.per_second else (0, 0)
        minutes, second = divmod(whole % _PER_DAY, 60)
        hour, minute = divmod(minutes, 60)
        microsecond = part * 1_000_000 // max(1, self.per_second)
        return datetime(day.year, day.month, day.day, hour, minute, second, microsecond)  # noqa: DTZ001 - naive is UTC

    def text(self) -> str | None:
        """Return the canonical text; None for an instant that has none."""
        if not self.per_second:
            return _INFINITE_DAYS.get(self.ticks) or _day_text(self.ticks)
        microseconds = self.ticks * 1_000_000 // self.per_second
        if not self.finite or not _LEAST <= microseconds < _INFINITE:
            return None
        whole, part = divmod(self.ticks, self.per_second)
        days, seconds = divmod(whole, _PER_DAY)
        day, era = _split_era(_day_text(days))
        minutes, second = divmod(seconds, 60)
        digits = str(self.per_second + part)[1:].rstrip("0")
        clock = f"{minutes // 60:02}:{minutes % 60:02}:{second:02}{'.' if digits else ''}{digits}"
        return f"{day}{era} {clock}{'+00' if self.zoned else ''}"


_EPOCH = date(1970, 1, 1).toordinal()


def _split_era(day: str) -> tuple[str, str]:
    return (day[:-5], " (BC)") if day.endswith(" (BC)") else (day, "")


def _day_text(days: int) -> str:
    """Return a day of the proleptic Gregorian calendar; the year before 0001 is 0001 (BC)."""
    # eras of 400 years, from 0000-03-01 (H. Hinnant, "chrono-compatible low-level date algorithms")
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    month += 3 if month < 10 else -9
    year += era * 400 + (month <= 2)
    return (
        f"{year:04}-{month:02}-{day:02}" if year > 0 else f"{1 - year:04}-{month:02}-{day:02} (BC)"
    )


def text_of_bytes(cell: bytes, encoding: str = "utf-8") -> str:
    """Return the canonical text of bytes."""
    if not cell.startswith(b"\0"):
        try:
            return cell.decode(encoding)
        except UnicodeDecodeError:
            pass
    return ESCAPE + cell.hex()


def text_of(cell: object) -> str | None:
    """Return a cell's canonical text; None for every kind of missing and for what has no text."""
    if type(cell) is Moment:
        return cell.text()
    plain = plain_cell(cell)
    if isinstance(plain, str):
        # a lone surrogate is not a character: its bytes are not UTF-8
        return text_of_bytes(plain.encode("utf-8", "surrogatepass"))
    if isinstance(plain, bytes):
        return text_of_bytes(plain)
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if isinstance(plain, float):
        return float_text(plain)
    if isinstance(plain, Decimal):
        return format(plain, "f")
    try:
        return (
            _moment_text(plain)
            if isinstance(plain, date)
            else None
            if plain is None
            else str(plain)
        )
    except Exception:  # noqa: BLE001 - a foreign time zone, or a whole number too long to print: null
        return None


def text_of_plain(cell: object) -> str | None:
    """Return the canonical text of a cell of a plain array (`in_memory`), whose texts are canonical."""
    return cell if isinstance(cell, str) else text_of(cell)


def _moment_text(cell: date | datetime) -> str:
    """Return the text of a date or datetime, nanoseconds of pandas' own included."""
    if not isinstance(cell, datetime):
        return cell.isoformat()
    zoned = cell.tzinfo is not None
    moment = cell.astimezone(UTC).replace(tzinfo=None) if zoned else cell
    day, _, clock = moment.isoformat(sep=" ").partition(" ")
    clock = clock.rstrip("0") if "." in clock else clock
    return f"{day} {clock.rstrip('.')}{'+00' if zoned else ''}"


def float_text(value: float) -> str | None:
    """Return a float's text; None for NaN, whole numbers below 2**53 without a fraction."""
    if math.isnan(value):
        return None
    if value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return repr(value)
