"""Periods: windows meet exactly, names round-trip, faults name the form."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.core.errors import ArgumentError
from dprelease.core.periods import (
    Every,
    check_period_name,
    every_of,
    following_period,
    parse_period,
    period_id,
    row_window,
    zone,
)

EVERY = st.sampled_from(["day", "week", "month", "quarter", "year"])
ZONES = st.sampled_from(
    [
        "UTC", "Europe/Dublin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo",
        "Pacific/Apia", "Pacific/Kwajalein", "America/Havana", "America/St_Johns",
    ]
)  # fmt: skip
MOMENTS = st.datetimes(datetime(1950, 1, 1), datetime(2099, 12, 31), timezones=st.just(UTC))


@pytest.mark.parametrize(
    ("text", "every", "start", "end"),
    [
        ("2013-W05", "week", "2013-01-28", "2013-02-04"),
        ("2013-W01", "week", "2012-12-31", "2013-01-07"),
        ("2020-W53", "week", "2020-12-28", "2021-01-04"),
        ("2013-02-01", "day", "2013-02-01", "2013-02-02"),
        ("2013-02", "month", "2013-02-01", "2013-03-01"),
        ("2013-Q1", "quarter", "2013-01-01", "2013-04-01"),
        ("2013-Q4", "quarter", "2013-10-01", "2014-01-01"),
        ("2013-12", "month", "2013-12-01", "2014-01-01"),
        ("2013", "year", "2013-01-01", "2014-01-01"),
    ],
)
def test_a_period_is_its_window(text: str, every: Every, start: str, end: str) -> None:
    window = parse_period(text, every)
    assert window == tuple(datetime.fromisoformat(x).replace(tzinfo=UTC) for x in (start, end))


def test_midnight_is_local() -> None:
    start, end = parse_period("2013-03-31", "day", "Europe/Dublin")
    assert start == datetime(2013, 3, 31, 0, tzinfo=UTC)
    assert end - start == timedelta(hours=23)  # the clock goes forward that night


@given(MOMENTS, EVERY, ZONES)
def test_every_instant_lies_in_its_own_period_only(
    moment: datetime, every: Every, zone: str
) -> None:
    name = period_id(moment, every, zone)
    start, end = parse_period(name, every, zone)
    assert start <= moment < end
    assert period_id(start, every, zone) == name
    after = following_period(name, every, zone)
    assert parse_period(after, every, zone)[0] == end  # windows meet: no row twice, none lost
    assert name < after


@pytest.mark.parametrize(
    ("text", "every"),
    [
        ("2013-W54", "week"),
        ("2013-W53", "week"),
        ("2013-W00", "week"),
        ("2013-02-30", "day"),
        ("2013-13", "month"),
        ("2013-Q0", "quarter"),
        ("2013-Q5", "quarter"),
        ("2013-02", "quarter"),
        ("0000", "year"),
        ("9999", "year"),
        ("9999-12-31", "day"),
        ("2013-02", "day"),
        ("2013-W05", "month"),
        ("2013-2-1", "day"),
        ("\u0662\u0660\u0661\u0663", "year"),
        ("../x", "day"),
        ("", "day"),
        ("2013\n", "year"),
        ("2013", "hour"),
    ],
)
def test_a_faulty_period_is_refused(text: str, every: Every) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse_period(text, every)
    assert caught.value.code == "DPR640"


def test_names_without_periods() -> None:
    assert check_period_name("once") == "once"
    assert check_period_name("a" * 64)
    for text in ("", "a" * 65, "a/b", "a b", "..", "é", "a\n"):
        with pytest.raises(ArgumentError):
            check_period_name(text)


@pytest.mark.parametrize("place", ["UTC", "Pacific/Kiritimati", "America/New_York"])
@pytest.mark.parametrize("every", ["day", "week", "month", "quarter", "year"])
def test_the_ends_of_the_calendar_are_said(every: Every, place: str) -> None:
    for moment in (datetime(9999, 12, 31, 23, 59, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)):
        with pytest.raises(ArgumentError) as caught:
            period_id(moment, every, place)
        assert "does not lie whole in the calendar" in caught.value.what
    name = {
        "day": "9999-12-31", "week": "9999-W52", "month": "9999-12", "quarter": "9999-Q4", "year": "9999",
    }[every]  # fmt: skip
    with pytest.raises(ArgumentError) as caught:
        parse_period(name, every, place)
    assert caught.value.what == f"{name} does not lie whole in the calendar"
    with pytest.raises(ArgumentError) as caught:
        following_period(name, every, place)
    assert "does not lie whole" in caught.value.what


@pytest.mark.parametrize("name", ["localtime", "posixrules", "Factory", "right/UTC", "posix/UTC"])
def test_a_zone_of_the_machine_is_refused(name: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        zone(name)
    assert (caught.value.code, "depends on the machine" in caught.value.what) == ("DPR641", True)


def test_zones_and_naive_instants() -> None:
    for name in ("Mars/Olympus", "", "/etc/passwd", "../x"):
        with pytest.raises(ArgumentError) as caught:
            parse_period("2013", "year", name)
        assert caught.value.code == "DPR641"
    with pytest.raises(ArgumentError):
        period_id(datetime(2013, 1, 1), "day")
    assert date(2013, 1, 1).isoformat() == period_id(datetime(2013, 1, 1, tzinfo=UTC), "day")


@pytest.mark.parametrize(
    ("zone", "before", "gone", "after"),
    [
        ("Pacific/Apia", "2011-12-29", "2011-12-30", "2011-12-31"),
        ("Pacific/Kwajalein", "1993-08-20", "1993-08-21", "1993-08-22"),
    ],
)
def test_a_day_that_a_zone_left_out_is_not_a_period(
    zone: str, before: str, gone: str, after: str
) -> None:
    for window in (parse_period, lambda *a: row_window(*a, dates=True)):
        with pytest.raises(ArgumentError, match="no instant") as caught:
            window(gone, "day", zone)
        assert caught.value.code == "DPR640"
        assert after in (caught.value.fix or "")
    assert following_period(before, "day", zone) == after
    assert parse_period(before, "day", zone)[1] == parse_period(after, "day", zone)[0]
    assert parse_period(gone, "day", "UTC")  # it exists elsewhere
    assert parse_period(gone[:7], "month", zone)  # and its month there


def test_clocks_put_back_over_midnight_belong_to_the_day_that_has_begun() -> None:
    # at 00:01 of 2009-11-01 clocks in St John's went back to 23:01 of the day before
    moment = datetime(2009, 11, 1, 3, 0, tzinfo=UTC)
    assert period_id(moment, "day", "America/St_Johns") == "2009-11-01"


@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Kiritimati", "Asia/Kolkata", "UTC"])
def test_a_date_has_no_zone(zone: str) -> None:
    assert row_window("2024-11", "month", zone, dates=True) == parse_period("2024-11", "month")
    assert row_window("2024-11", "month", zone) == parse_period("2024-11", "month", zone)


def test_a_quarter_in_words_is_shown_how_one_is_written() -> None:
    with pytest.raises(ArgumentError) as caught:
        every_of("Q1 2026")
    assert "2013-Q1" in str(caught.value.fix)
