"""When periods are due: exhaustively over clock changes, against a definition that is slow."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.core.errors import ConfigError
from dprelease.core.periods import instant_text, parse_period
from dprelease.pipeline import due
from dprelease.pipeline.config import PeriodConfig, load_pipeline
from dprelease.pipeline.due import due_at, due_periods, next_due, require_schedule
from dprelease.pipeline.models import ScheduleModel
from tests.pipeline.tiny import project
from tests.sizes import whole


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return load_pipeline(project(tmp_path_factory.mktemp("due")))


def config(base, cron, zone, every="week", delay=timedelta(0), period_zone=None):
    return replace(
        base,
        schedule=ScheduleModel(cron=cron, timezone=zone, catch_up=4),
        period=PeriodConfig("at", every, delay, period_zone or zone),
    )


def at(*parts):
    return datetime(*parts, tzinfo=UTC)


def test_a_week_is_due_at_the_first_instant_after_its_end_and_delay(base):
    dublin = config(base, "0 6 * * TUE", "Europe/Dublin", delay=timedelta(days=1))
    assert due_at(dublin, "2026-W01") == at(2026, 1, 6, 6)  # ends Monday, plus a day, 06:00
    late = config(base, "0 6 * * TUE", "Europe/Dublin", delay=timedelta(days=1, hours=7))
    assert due_at(late, "2026-W01") == at(2026, 1, 13, 6)
    exact = config(base, "0 6 * * TUE", "Europe/Dublin", delay=timedelta(days=1, hours=6))
    assert due_at(exact, "2026-W01") == at(2026, 1, 6, 6)  # at the instant itself


def test_nothing_is_due_a_second_early(base):
    weekly = config(base, "0 6 * * TUE", "Europe/Dublin", delay=timedelta(days=1))
    just = at(2026, 1, 6, 6)
    assert [d.period for d in due_periods(weekly, just, 1)] == ["2026-W01"]
    assert [d.period for d in due_periods(weekly, just - timedelta(seconds=1), 1)] == ["2025-W52"]
    assert next_due(weekly, just - timedelta(seconds=1)).period == "2026-W01"
    assert next_due(weekly, just) == due.Due("2026-W02", at(2026, 1, 13, 6))


@pytest.mark.parametrize(
    ("zone", "cron", "period", "expected"),
    [
        # Dublin, 29 March 2026: 01:00 GMT becomes 02:00; 01:30 does not exist.
        ("Europe/Dublin", "30 1 * * *", "2026-03-28", at(2026, 3, 29, 1, 0)),
        ("Europe/Dublin", "30 1 * * *", "2026-03-29", at(2026, 3, 30, 0, 30)),
        # Dublin, 25 October 2026: 02:00 becomes 01:00 again; 01:30 exists twice, fires first.
        ("Europe/Dublin", "30 1 * * *", "2026-10-24", at(2026, 10, 25, 0, 30)),
        ("Europe/Dublin", "30 1 * * *", "2026-10-25", at(2026, 10, 26, 1, 30)),
        # New York, 8 March and 1 November 2026.
        ("America/New_York", "30 2 * * *", "2026-03-07", at(2026, 3, 8, 7, 0)),
        ("America/New_York", "30 2 * * *", "2026-03-08", at(2026, 3, 9, 6, 30)),
        ("America/New_York", "30 1 * * *", "2026-10-31", at(2026, 11, 1, 5, 30)),
        ("America/New_York", "30 1 * * *", "2026-11-01", at(2026, 11, 2, 6, 30)),
    ],
)
def test_clock_changes(base, zone, cron, period, expected):
    daily = config(base, cron, zone, "day")
    assert due_at(daily, period) == expected
    [newest] = due_periods(daily, expected, 1)
    assert newest == due.Due(period, expected)


@pytest.mark.parametrize(
    ("zone", "cron", "around"),
    [
        ("Europe/Dublin", "30 1 * * *", (2026, 3, 28)),
        ("Europe/Dublin", "30 1 * * *", (2026, 10, 24)),
        ("Europe/Dublin", "15 * * * *", (2026, 10, 24)),
        ("America/New_York", "30 2 * * *", (2026, 3, 7)),
        ("America/New_York", "30 1 * * *", (2026, 10, 31)),
        ("America/New_York", "*/30 * * * *", (2026, 10, 31)),
        ("Australia/Lord_Howe", "45 1 * * *", (2026, 4, 4)),
    ],
)
def test_around_a_clock_change_every_period_is_newest_exactly_once(base, zone, cron, around):
    """Through the change in steps of ten minutes, or forty: no period is skipped, none comes back."""
    daily = config(base, cron, zone, "day", delay=timedelta(hours=1))
    moment, seen = datetime(*around, 12, tzinfo=UTC), []
    step = whole(40, 10)
    for _ in range(0, 3 * 24 * 60, step):
        [newest] = due_periods(daily, moment, 1)
        assert newest.at <= moment
        upcoming = next_due(daily, moment)
        assert upcoming.at > moment
        if not seen or seen[-1] != newest.period:
            seen.append(newest.period)
        moment += timedelta(minutes=step)
    assert seen == sorted(set(seen))
    assert len(seen) == 4  # three midnights were passed


def test_months_come_at_one_instant_when_the_cron_is_rarer_than_the_period(base):
    monthly = config(base, "0 6 1 * *", "UTC", "week")
    found = due_periods(monthly, at(2026, 3, 2), 6)
    assert [d.period for d in found] == [f"2026-W0{w}" for w in (3, 4, 5, 6, 7, 8)]
    assert {d.at for d in found[2:]} == {at(2026, 3, 1, 6)}
    assert {d.at for d in found[:2]} == {at(2026, 2, 1, 6)}


ZONES = st.sampled_from(["UTC", "Europe/Dublin", "America/New_York", "Asia/Kolkata"])
CRONS = st.sampled_from(["0 6 * * TUE", "30 1 * * *", "15 */4 * * *", "0 0 1 * *", "59 23 28 2 *"])


@settings(max_examples=40)
@given(
    ZONES, ZONES, CRONS, st.sampled_from(["day", "week", "month"]),
    st.integers(0, 200), st.integers(0, 2 * 365 * 24 * 60),
)  # fmt: skip
def test_the_newest_periods_are_those_of_the_definition(
    base, zone, other, cron, every, delay, minute
):
    made = config(base, cron, zone, every, timedelta(hours=delay), other)
    now = at(2026, 1, 1) + timedelta(minutes=minute)
    found = due_periods(made, now, 3)
    assert [d.at for d in found] == [due_at(made, d.period) for d in found]
    assert all(d.at <= now for d in found)
    for first, second in itertools.pairwise(found):
        assert (
            parse_period(first.period, every, other)[1]
            == parse_period(second.period, every, other)[0]
        )
    upcoming = next_due(made, now)
    assert upcoming.at > now  # so the newest found is the newest there is
    end = parse_period(found[-1].period, every, other)[1]
    assert parse_period(upcoming.period, every, other)[0] == end


def test_a_schedule_is_needed_and_must_fire(base):
    with pytest.raises(ConfigError) as refused:
        require_schedule(replace(base, schedule=None))
    assert refused.value.code == "DPR170"
    with pytest.raises(ConfigError) as refused:
        require_schedule(config(base, "0 0 30 2 *", "UTC"))
    assert refused.value.code == "DPR171"
    assert due_at(replace(base, schedule=None), "2026-W01") is None


def test_text_is_utc():
    assert (
        instant_text(datetime.fromisoformat("2026-07-01T06:00:00+01:00")) == "2026-07-01T05:00:00Z"
    )


def test_comparing_wall_clocks_would_be_wrong():
    """The twin: two instants an hour apart that one zone shows as the same time compare equal."""
    from zoneinfo import ZoneInfo

    dublin = ZoneInfo("Europe/Dublin")
    first = datetime(2026, 10, 25, 1, 30, tzinfo=dublin)
    second = first.replace(fold=1)
    assert first == second
    assert first.astimezone(UTC) != second.astimezone(UTC)


@pytest.mark.parametrize("moment", [at(1, 1, 3), at(999, 12, 31), at(1000, 1, 1), at(1000, 1, 4)])
def test_before_the_calendar_begins_nothing_is_due(base, moment):
    assert due_periods(config(base, "0 6 * * *", "UTC"), moment, 3) == ()


def test_periods_with_a_delay_longer_than_the_calendar_are_never_due(base):
    """The clock minus the delay was an instant that no calendar has: the scheduler ended with a traceback."""
    slow = config(base, "0 6 * * *", "UTC", delay=timedelta(days=3_650_000))
    assert due_periods(slow, at(2026, 11, 26), 3) == ()
    assert next_due(slow, at(2026, 11, 26)) is None
