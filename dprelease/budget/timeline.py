"""How the releases of a dataset lie in time: which of them can have read one protected unit.

Declared with the dataset, once: the time column, its zone, and whether a row's time is immutable. A
unit then lives in one interval: a row in an instant, a person's rows of a week in that week. An entry
reads the rows of its window, so it can have read a unit only if the window meets the unit's interval:

    instants(entry) = the union of the unit intervals that its window meets     (an instant: the window)

Two units' losses are told apart by instants alone. Without the declaration, and for an entry without a
window, the instants are all of time: such entries add up with every other one.

Law      docs/theory/composition.md#over-time. It rests on `immutable` (a row that moved between two runs could be
         read by both) and on filters that are functions of one row.
Units    instants of the time column as it stores them, UTC; of dates, their midnights.
Limits   intervals are those of the time zone tables in use when losses are added up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from dprelease.core.periods import Every, instant, interval_day, intervals_met, known_every

Instants = tuple[datetime | None, datetime | None]
"""Half-open, aware, UTC; None where it has no end."""

ALWAYS: Instants = (None, None)


@dataclass(frozen=True, slots=True)
class Timeline:
    """How losses are added up over time.

    Attributes:
        per: the interval of a unit that is a person in it; None for a row.
        person: whether a unit is a person, or one in an interval; dates: whether times have no zone.
        zone: of the intervals; apart: whether disjoint releases are told apart; pairs: whether
            neighbours differ in units of two instants (a replaced row may be of another one).
    """

    per: Every | None = None
    zone: str = "UTC"
    apart: bool = False
    pairs: bool = False
    person: bool = False
    dates: bool = False

    @property
    def calendar(self) -> str:
        """By which days its intervals are counted."""
        return "dates" if self.dates else self.zone

    def instants(self, window: Instants) -> Instants:
        """Return the instants whose units an entry with this window may have read."""
        if not self.apart:
            return ALWAYS
        if self.per is None:
            return window
        return intervals_met(*window, self.per, self.zone)

    def met(self, window: Instants) -> int | None:
        """Return how many unit intervals a window meets: None where there is no bound, or for rows."""
        if self.per is None:
            return None
        low, high = intervals_met(*window, self.per, self.zone)
        if low is None or high is None:
            return None
        first = interval_day(low, self.per, self.zone)
        last = interval_day(high - timedelta(microseconds=1), self.per, self.zone)
        return _place(last, self.per) - _place(first, self.per) + 1


def _place(first_day: date, per: Every) -> int:
    """Return the number of an interval in the order of time."""
    if per in ("day", "week"):
        return first_day.toordinal() // (1 if per == "day" else 7)
    return (first_day.year * 12 + first_day.month - 1) // {"month": 1, "quarter": 3, "year": 12}[
        per
    ]


def timeline(adjacency: str, unit: str, time: str | None) -> Timeline:
    """Return the timeline of a dataset by its declaration: adjacency, and JSON of unit and time.

    Raises:
        ArgumentError, KeyError, TypeError, ValueError: no ledger wrote this.
    """
    declared, value = json.loads(unit), None if time is None else json.loads(time)
    per = declared.get("per") if isinstance(declared, Mapping) else None
    person = isinstance(declared, Mapping) and "user" in declared
    if value is None:
        return Timeline(person=person and per is None)  # without a time nothing bounds intervals
    return Timeline(
        per=None if per is None else known_every(per),
        zone="UTC" if value["dates"] else str(value["timezone"]),
        apart=bool(value["immutable"]) and (per is not None or declared == "row"),
        pairs=per is None and adjacency == "substitution",
        person=person,
        dates=bool(value["dates"]),
    )


def window_of_texts(window: Sequence[str | None]) -> Instants:
    """Return the window that an entry states; ValueError for what no instant is written as."""
    start, end = (None if text is None else instant(text) for text in window)
    return start, end
