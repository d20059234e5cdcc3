"""Which interval of a unit with `per` a row is in: the same first local day in every engine.

A row's instant t is a function of its own stored time (`periods.clamped` moves it into the years that
are told apart). Local days begin at S(d), and where clocks are d days of 86,400 seconds and a shift
from UTC, S(d) = 86,400 d - shift(d). The shift is constant over stretches of days, so

    day of t       = min(last day of its stretch, floor((t + shift) / 86,400))
    interval of t  = the first day of that day's week, month, quarter or year

Where clocks are put back over midnight, the minimum keeps the repeated hour in the day that has not
ended. Dates have no zone: one stretch without a shift.

Stability. The interval is a function of one row, so a row is in one of them, whatever the table.
Limits   the time zone tables are those of the machine; tables of another version may move the ends of
         an interval, and with them the rows that are bounded together.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

from dprelease.core.periods import FIRST, LAST, Every, clamped, day_start, interval_day
from dprelease.schema.time import Time
from dprelease.schema.unit import Unit, UserUnit

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Local days, one after the other, whose midnights are `shift` before those of UTC.

    Attributes:
        start: the instant at which the first one begins, UTC; last: the last one.
    """

    start: datetime
    shift: timedelta
    last: date


@dataclass(frozen=True, slots=True)
class Intervals:
    """The days, weeks, months, quarters or years of a time column."""

    column: str
    every: Every
    timezone: str = "UTC"
    dates: bool = False

    @property
    def zone(self) -> str:
        """The zone of the stored instants' days."""
        return "UTC" if self.dates else self.timezone

    def first_day(self, moment: datetime) -> date:
        """Return the first local day of the interval of an aware instant."""
        return interval_day(moment, self.every, self.zone)

    def stretches(
        self, start: datetime | None = None, end: datetime | None = None
    ) -> tuple[Stretch, ...]:
        """Return the stretches of the instants from `start` to `end`, in order, at least one."""
        low = FIRST if start is None else clamped(start)
        return _stretches(self.zone, low, LAST if end is None else clamped(end))


def intervals_of(unit: Unit, time: Time | None) -> Intervals | None:
    """Return the intervals of a declared unit with `per`, else None."""
    if not isinstance(unit, UserUnit) or unit.per is None or time is None:
        return None
    return Intervals(time.column, unit.per, time.timezone, time.dates)


@lru_cache(64)
def _stretches(zone: str, low: datetime, high: datetime) -> tuple[Stretch, ...]:
    day = interval_day(low, "day", zone)
    if zone == "UTC":
        return (Stretch(day_start(day, zone), timedelta(0), interval_day(high, "day", zone)),)
    begun: list[tuple[datetime, timedelta, date]] = []
    while (start := day_start(day, zone)) <= high:
        shift = datetime(day.year, day.month, day.day, tzinfo=UTC) - start
        if not begun or begun[-1][1] != shift:
            begun.append((start, shift, day))
        day += _DAY
    after = [first for _, _, first in begun[1:]] + [day]
    return tuple(
        Stretch(start, shift, first - _DAY)
        for (start, shift, _), first in zip(begun, after, strict=True)
    )
