"""The first day of a row's interval as SQL, by the arithmetic of `query.intervals`.

The stretches of a time zone are leaves of a balanced CASE over their starts, so that a row is compared
about log2 times: three hundred years have six hundred of them, most windows one or two. The instant
is moved between FIRST and LAST before anything is added to it, so nothing here can overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from sqlglot import exp

from dprelease.core.periods import FIRST, LAST
from dprelease.engines.typed_sql import case, data_type, try_cast
from dprelease.query.bounded import BoundedQuery
from dprelease.query.intervals import Intervals, Stretch

STRETCHES = "stretches"
"""What a local day's node keeps its stretches under, for a dialect that writes it otherwise."""


def stretches_of(query: BoundedQuery) -> tuple[Stretch, ...]:
    """Return the stretches of the zone that rows in the query's window can lie in; it has a `per`."""
    per, window = query.per, query.window
    assert per is not None
    ends = [] if window is None or window.column != per.column else [window.start, window.end]
    return tuple(per.stretches(*(end.replace(tzinfo=end.tzinfo or UTC) for end in ends)))


def first_day(
    per: Intervals, stretches: Sequence[Stretch], make: Callable[[], exp.Expression]
) -> exp.Expression:
    """Return the first local day of the interval, DATE; `make` gives the date or timestamp, not null."""

    def moment() -> exp.Expression:
        after = exp.Greatest(
            this=try_cast(make(), "TIMESTAMP"), expressions=[instant(FIRST)], ignore_nulls=True
        )
        return exp.Least(this=after, expressions=[instant(LAST)], ignore_nulls=True)

    day = _day(stretches, moment)
    day.meta[STRETCHES] = tuple(stretches)
    if per.every == "day":
        return day
    length = exp.Literal.string(per.every)
    return try_cast(exp.Anonymous(this="date_trunc", expressions=[length, day]), "DATE")


def _day(stretches: Sequence[Stretch], moment: Callable[[], exp.Expression]) -> exp.Expression:
    """Return the local day: of the last stretch that has begun, the first one before all of them."""
    if len(stretches) > 1:
        middle = len(stretches) // 2
        begun = exp.GTE(this=moment(), expression=instant(stretches[middle].start))
        later, earlier = _day(stretches[middle:], moment), _day(stretches[:middle], moment)
        return case((begun, later), default=earlier)
    (only,) = stretches
    shifted = moment()
    if only.shift:
        shifted = exp.Add(this=shifted, expression=shift_of(only))
    return within(shifted, last_of(only))


def shift_of(stretch: Stretch) -> exp.Expression:
    """Return how far local time is ahead of UTC."""
    seconds = exp.Literal.string(str(stretch.shift // timedelta(seconds=1)))
    return exp.Interval(this=seconds, unit=exp.Var(this="SECOND"))


def last_of(stretch: Stretch) -> exp.Expression:
    """Return the last local day that a stretch has."""
    text = exp.Literal.string(stretch.last.isoformat())
    return exp.Cast(this=text, to=data_type("DATE"))


def within(shifted: exp.Expression, last: exp.Expression) -> exp.Expression:
    """Return the day of a shifted instant, at most the stretch's last one."""
    return exp.Least(this=try_cast(shifted, "DATE"), expressions=[last], ignore_nulls=True)


def instant(moment: datetime) -> exp.Expression:
    text = exp.Literal.string(moment.strftime("%Y-%m-%d %H:%M:%S"))
    return exp.Cast(this=text, to=data_type("TIMESTAMP"))
