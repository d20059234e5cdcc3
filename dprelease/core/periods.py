"""Periods: `2013-02-01`, `2013-W05`, `2013-02`, `2013-Q1`, `2013` to half-open windows, and back.

A period's text is the idempotency key of a run, so it never comes from the clock alone: it is
given, or derived from a scheduled instant. Weeks are ISO weeks, Monday to Sunday. A window runs
from local midnight to local midnight in the pipeline's time zone, expressed in UTC; consecutive
windows meet exactly, across clock changes too. Where midnight does not exist, the day starts when
the clock arrives; where it comes twice, at the first. A day that a zone left out (Pacific/Apia
2011-12-30) has no instant: it is not a period.

A date has no zone: rows of a date column belong to the days that the period's name spans, wherever
the pipeline is (`row_window`). The zone says when a run is due, for both kinds of column.

The *interval* of an instant is the period that holds it, of the instant moved into FIRST to LAST: rows
before and after them are of the first and of the last interval, which have no other end.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Literal, get_args
from zoneinfo import ZoneInfo

from dprelease.core.errors import ArgumentError

Every = Literal["day", "week", "month", "quarter", "year"]
_FORMS = {
    "day": (r"(\d{4})-(\d\d)-(\d\d)", "2013-02-01"),
    "week": (r"(\d{4})-W(\d\d)", "2013-W05"),
    "month": (r"(\d{4})-(\d\d)", "2013-02"),
    "quarter": (r"(\d{4})-Q(\d)", "2013-Q1"),
    "year": (r"(\d{4})", "2013"),
}
EXAMPLES = {every: example for every, (_, example) in _FORMS.items()}
"""A period's name of each kind: for messages, and for a plan of any period."""
FIRST = datetime(1900, 1, 1, tzinfo=UTC)
LAST = datetime(2200, 1, 1, tzinfo=UTC)
"""Where intervals are told apart."""
_MONTHS = {"month": 1, "quarter": 3, "year": 12}


_INSTANT = "%Y-%m-%dT%H:%M:%SZ"
_FIRST_YEAR = 1000
"""Instants are written with four digits of a year, and compared as they are written."""
_OF_THE_MACHINE = ("localtime", "posixrules", "Factory")
"""Files beside the zones: a link or default of each machine, not a place."""


def zone(name: str) -> ZoneInfo:
    """Return the time zone `name`, e.g. Europe/Dublin.

    Raises:
        ArgumentError: there is none, or the name means another zone on another machine (DPR641).
    """
    if name in _OF_THE_MACHINE or name.startswith(("posix/", "right/")):
        raise ArgumentError(
            f"the time zone `{name[:60]}` depends on the machine",
            why="a reader elsewhere could not tell which periods the release is of",
            fix="name the place, e.g. UTC or Europe/Dublin",
            code="DPR641",
        )
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise ArgumentError(
            f"unknown time zone `{name[:60]}`", fix="e.g. UTC or Europe/Dublin", code="DPR641"
        ) from None


def check_period_name(text: str) -> str:
    """Return `text` if it may key a run: 1 to 64 of A-Z a-z 0-9 _ -; else ArgumentError DPR640."""
    fits = re.fullmatch(r"[A-Za-z0-9_-]{1,64}", str(text))
    if isinstance(text, str) and fits:
        return text
    what = "the period is not a valid name"
    fix = "use 1 to 64 of A-Z a-z 0-9 _ -, e.g. 2013-02, 2013-Q1 or 2013-W05"
    if fits:
        what, fix = f"the period {text} is not a text", f'write it in quotes: "{text}"'
    elif text == "":
        what = "the period has no name: its text is empty"
    raise ArgumentError(what, fix=fix, code="DPR640")


def known_every(value: object) -> Every:
    """Return a period's length; ArgumentError DPR640 for anything else."""
    if value not in get_args(Every):
        raise ArgumentError(
            f"unknown period length `{str(value)[:20]}`",
            fix="day, week, month, quarter or year",
            code="DPR640",
        )
    return value  # type: ignore[return-value]


def names_a_period(text: str) -> bool:
    """Return whether `text` is written as a day, week, month, quarter or year is."""
    return any(re.fullmatch(form, text, re.ASCII) for form, _ in _FORMS.values())


def every_of(text: str) -> Every:
    """Return the length of the period that `text` names; ArgumentError DPR640 if it names none."""
    check_period_name(text)
    for every in get_args(Every):
        if re.fullmatch(_FORMS[every][0], text, re.ASCII):
            return every  # type: ignore[no-any-return]
    raise ArgumentError(
        f"`{text}` names no day, week, month, quarter or year",
        fix=f"write e.g. {', '.join(EXAMPLES.values())}",
        code="DPR640",
    )


def parse_period(text: str, every: Every, timezone: str = "UTC") -> tuple[datetime, datetime]:
    """Return the period's start and end (excluded), aware, in UTC.

    Raises:
        ArgumentError: not a period of this length, or one without an instant (DPR640); unknown
            time zone (DPR641).
    """
    start, end = _window(text, every, timezone)
    if start >= end:
        raise ArgumentError(
            f"the {every} {text} has no instant in {timezone}",
            why="clocks there went from the day before it straight to the day after it",
            fix=f"the period after it is {following_period(text, every, timezone)}",
            code="DPR640",
        )
    return start, end


def row_window(
    text: str, every: Every, timezone: str = "UTC", *, dates: bool = False
) -> tuple[datetime, datetime]:
    """Return the window that a row's period column is compared with, aware, in UTC.

    Args:
        dates: the column holds dates: midnights of the calendar, whatever the zone.

    Raises:
        ArgumentError: as `parse_period`, in the zone for dates too: such a run is never due.
    """
    found = parse_period(text, every, timezone)
    return parse_period(text, every) if dates else found


def _window(text: str, every: Every, timezone: str) -> tuple[datetime, datetime]:
    check_period_name(text)
    first = _first_day(text, every)
    if first.year < _FIRST_YEAR:
        raise _beyond(text)
    try:
        return _midnight(first, timezone), _midnight(_next_first(first, every), timezone)
    except OverflowError:
        raise _beyond(text) from None


def period_id(moment: datetime, every: Every, timezone: str = "UTC") -> str:
    """Return the name of the period that holds the aware `moment`."""
    if moment.tzinfo is None:
        raise ArgumentError("the instant has no time zone", fix="use UTC", code="DPR641")
    try:
        name = _name(moment.astimezone(zone(timezone)).date(), every)
    except OverflowError:
        raise _beyond(moment.date().isoformat()) from None
    # clocks put back over midnight show the old date again, after the new one has begun
    return (
        name
        if moment < _window(name, every, timezone)[1]
        else following_period(name, every, timezone)
    )


def following_period(text: str, every: Every, timezone: str = "UTC") -> str:
    """Return the name of the next period that has an instant; ArgumentError DPR640 as `parse_period`."""
    try:
        name = _name(_next_first(_first_day(text, every), every), every)
    except OverflowError:
        raise _beyond(text) from None
    try:
        start, end = _window(name, every, timezone)
    except ArgumentError:  # the calendar ends within it
        return name
    return name if start < end else following_period(name, every, timezone)


def clamped(moment: datetime) -> datetime:
    """Return the aware `moment`, moved into FIRST to LAST."""
    return min(max(moment, FIRST), LAST)


def interval_day(moment: datetime, every: Every, timezone: str) -> date:
    """Return the first local day of the interval of the aware `moment`; it names the interval."""
    return _first_day(period_id(clamped(moment), every, timezone), every)


@lru_cache(maxsize=65_536)
def intervals_met(
    start: datetime | None, end: datetime | None, every: Every, timezone: str
) -> tuple[datetime | None, datetime | None]:
    """Return the union of the intervals that the window [start, end) meets; None for no end."""
    low = None
    if start is not None and start > FIRST:
        low, _ = _window(period_id(clamped(start), every, timezone), every, timezone)
        low = low if low > FIRST else None
    if end is None or end > LAST:
        return low, None
    last = clamped(end - timedelta(microseconds=1))
    _, high = _window(period_id(last, every, timezone), every, timezone)
    return low, high if high <= LAST else None


@lru_cache(maxsize=65_536)
def instant(text: str) -> datetime:
    """Return the instant that `instant_text` wrote; ValueError for any other text."""
    found = datetime.strptime(text, _INSTANT).replace(tzinfo=UTC)
    if found.strftime(_INSTANT) != text:
        raise ValueError(text)
    return found


def is_instant(value: object) -> bool:
    """Return whether `instant_text` can have written it."""
    try:
        return isinstance(value, str) and bool(instant(value))
    except ValueError:
        return False


def instant_text(at: datetime) -> str:
    """Return `2013-02-06T11:00:00Z`."""
    return at.astimezone(UTC).strftime(_INSTANT)


def day_start(day: date, timezone: str) -> datetime:
    """Return the instant at which a local day begins, in UTC."""
    return _midnight(day, timezone)


def _first_day(text: str, every: Every) -> date:
    known_every(every)
    found = re.fullmatch(_FORMS[every][0], text, re.ASCII)
    if found is None:
        raise _no_period(text, every)
    numbers = [int(part) for part in found.groups()]
    try:
        if every == "week":
            return date.fromisocalendar(numbers[0], numbers[1], 1)
        if every == "quarter":
            return date(numbers[0], 3 * numbers[1] - 2, 1)
        return date(*[*numbers, 1, 1][:3])
    except ValueError:
        raise _no_period(text, every) from None


def _no_period(text: str, every: Every) -> ArgumentError:
    other = next((k for k, (form, _) in _FORMS.items() if re.fullmatch(form, text)), None)
    return ArgumentError(
        f"`{text[:64]}` is not a {every}",
        why=f"it is written as a {other}" if other not in (None, every) else None,
        fix=f"write e.g. {_FORMS[every][1]}",
        code="DPR640",
    )


def _beyond(text: str) -> ArgumentError:
    return ArgumentError(
        f"{text[:64]} does not lie whole in the calendar",
        why=f"instants have years of four digits: from {_FIRST_YEAR} to the end of 9999",
        fix="name a period within these years",
        code="DPR640",
    )


def _next_first(first: date, every: Every) -> date:
    if every == "day":
        return first + timedelta(days=1)
    if every == "week":
        return first + timedelta(days=7)
    months = first.year * 12 + first.month - 1 + _MONTHS[every]
    if months // 12 > 9999:
        raise OverflowError
    return date(months // 12, months % 12 + 1, 1)


def _name(day: date, every: Every) -> str:
    if every == "week":
        year, week, _ = day.isocalendar()
        return f"{year:04d}-W{week:02d}"
    text = day.isoformat()
    quarter = f"{text[:4]}-Q{(day.month + 2) // 3}"
    return {"day": text, "month": text[:7], "quarter": quarter, "year": text[:4]}[every]


def _midnight(day: date, timezone: str) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=zone(timezone)).astimezone(UTC)
