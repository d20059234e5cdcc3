"""The interval of a row: the same first day from SQL as from the calendar, at every odd instant."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import duckdb
import pytest

from dprelease.core.errors import ArgumentError
from dprelease.core.periods import EXAMPLES, FIRST, LAST, interval_day, intervals_met, parse_period
from dprelease.engines.code_sql import column
from dprelease.engines.interval_sql import first_day
from dprelease.query.intervals import Intervals, Stretch
from tests.sizes import FULL, some

ZONES = (
    "UTC", "Europe/Dublin", "America/New_York", "America/Sao_Paulo", "America/Havana",
    "Pacific/Apia", "Pacific/Kwajalein", "Africa/Casablanca", "Asia/Amman", "America/Scoresbysund",
)  # fmt: skip


def days(zone: str, year: int) -> list[date]:
    every = (1 if year == 2011 else 5) if FULL else 20
    found = [date(year, 1, 1) + timedelta(days=n) for n in range(366)]
    return [day for n, day in enumerate(found) if n % every == 0 or is_odd(zone, day)]


def is_odd(zone: str, day: date) -> bool:
    """Return whether clocks change near a day, or a month ends or begins."""
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    near = [(noon + timedelta(days=n)).astimezone(ZoneInfo(zone)) for n in (-1, 1)]
    return near[0].utcoffset() != near[1].utcoffset() or near[0].month != near[1].month


@cache
def odd_instants(zone: str) -> list[datetime]:
    """The first instants of days of some years, with their neighbours, and instants far outside.

    Days are those at a clock change or a month's end, and every so many of the others; in `make
    evidence` every day of 2011.
    """
    out = [FIRST, LAST, *(datetime(y, 6, 1, tzinfo=UTC) for y in (1, 1850, 1899, 2250, 9999))]
    for year in (1993, 2009, 2011, 2013):
        for day in days(zone, year):
            try:
                start, _ = parse_period(day.isoformat(), "day", zone)
            except ArgumentError:  # a day that the zone left out
                continue
            out += [start + timedelta(microseconds=m) for m in (-1, 0)]
            out += [start + timedelta(minutes=m) for m in (-30, 30)]
    return out


def by_sql(
    per: Intervals, moments: list[datetime], stretches: tuple[Stretch, ...] | None = None
) -> list[date]:
    found = first_day(per, stretches or per.stretches(), lambda: column("t"))
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE r AS SELECT UNNEST(?::TIMESTAMP[]) AS t",
                           [[m.replace(tzinfo=None) for m in moments]])  # fmt: skip
        rows = connection.execute(
            f"SELECT {found.sql(dialect='duckdb', copy=False)} FROM r"
        ).fetchall()
    return [day for (day,) in rows]


@pytest.mark.parametrize("zone", some(ZONES, 3))
def test_sql_and_the_calendar_agree_on_every_interval(zone):
    moments = odd_instants(zone)
    # every length in a zone that left a day out; in UTC and Dublin as well in `make evidence`
    whole = ("UTC", "Europe/Dublin") if FULL else ("Pacific/Apia",)
    for every in EXAMPLES if zone in whole else ["day"]:
        per = Intervals("t", every, zone)
        stretches, asked = None, moments
        if not FULL and (every != "day" or zone not in ZONES[:3]):  # the stretches of some years
            start, end = datetime(1993, 1, 1, tzinfo=UTC), datetime(2014, 1, 1, tzinfo=UTC)
            stretches = per.stretches(start, end)
            asked = [m for m in moments if start <= m < end]
        assert by_sql(per, asked, stretches) == [per.first_day(m) for m in asked], every


def test_the_stretches_of_a_window_are_enough_for_its_rows():
    start, end = datetime(2013, 3, 1, tzinfo=UTC), datetime(2013, 12, 1, tzinfo=UTC)
    per = Intervals("t", "week", "Europe/Dublin")
    few = per.stretches(start, end)
    assert len(few) == 3
    assert len(per.stretches()) > 300
    moments = [m for m in odd_instants("Europe/Dublin") if start <= m < end]
    assert by_sql(per, moments, few) == by_sql(per, moments)


def test_a_twin_without_the_last_day_of_a_stretch_loses_the_repeated_hour():
    """Clocks put back over midnight show the old date again, after the new day would have begun."""
    per = Intervals("t", "day", "America/Sao_Paulo")
    moments = odd_instants("America/Sao_Paulo")
    careless = tuple(Stretch(s.start, s.shift, date(9999, 1, 1)) for s in per.stretches())
    assert by_sql(per, moments, careless) != by_sql(per, moments)


def test_a_window_meets_whole_intervals():
    zone = "America/New_York"
    week, month = parse_period("2013-W05", "week", zone), parse_period("2013-02", "month", zone)
    assert intervals_met(*week, "week", zone) == week
    first, last = parse_period("2013-W05", "week", zone), parse_period("2013-W09", "week", zone)
    assert intervals_met(*month, "week", zone) == (first[0], last[1])
    assert intervals_met(*week, "month", zone) == (
        parse_period("2013-01", "month", zone)[0], month[1],
    )  # fmt: skip
    assert intervals_met(None, week[1], "week", zone) == (None, week[1])
    assert intervals_met(week[0], None, "week", zone) == (week[0], None)
    early = datetime(1850, 1, 1, tzinfo=UTC)
    assert intervals_met(early, early + timedelta(days=7), "week", "UTC")[0] is None
    late = datetime(2250, 1, 1, tzinfo=UTC)
    assert intervals_met(late, late + timedelta(days=7), "week", "UTC")[1] is None


@pytest.mark.parametrize("zone", ZONES)
def test_an_instant_lies_in_the_interval_that_names_it(zone):
    for moment in odd_instants(zone)[7 :: 97 if FULL else 29]:
        for every in EXAMPLES:
            low, high = intervals_met(moment, moment + timedelta(microseconds=1), every, zone)
            assert low is None or low <= moment
            assert high is None or moment < high
            inside = low or FIRST
            assert interval_day(inside, every, zone) == interval_day(moment, every, zone)
