"""When a period is due: a function of the calendar alone, no clock is read here.

    due(P) = the first cron instant at or after the end of P plus `delay`

so a period has one scheduled instant for good, and each cron instant releases the periods that
ended since the one before. All comparisons are made in UTC: at the autumn clock change a local
time exists twice, and Python compares two times of one zone by their wall clocks.

CronSim decides what a cron line means at clock changes (a time that does not exist fires when the
gap closes; one that exists twice fires once). Nothing is spent twice even if it were wrong there:
runs are keyed by the period, not by the instant.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from dprelease.core.errors import ArgumentError, ConfigError
from dprelease.core.periods import following_period, parse_period, period_id, zone
from dprelease.pipeline.closing import closes_at, in_declared_span
from dprelease.pipeline.config import PeriodConfig, PipelineConfig
from dprelease.pipeline.models import ScheduleModel

if TYPE_CHECKING:
    from collections.abc import Iterator

# Zones shift by an hour or two: instants are enumerated from well before the one looked for,
# because CronSim works on wall clocks and a start inside a repeated hour is ambiguous to it.
_BEFORE = timedelta(hours=4)


@dataclass(frozen=True, slots=True)
class Due:
    """One period and its scheduled instant, in UTC."""

    period: str
    at: datetime


def require_schedule(config: PipelineConfig) -> tuple[PeriodConfig, ScheduleModel]:
    """Return the two blocks that a scheduled pipeline needs.

    Raises:
        ConfigError: there is no `schedule` block (DPR170), or its cron line never fires (DPR171).
    """
    if config.period is None or config.schedule is None:
        raise ConfigError(
            f"{config.name} has no schedule",
            where=config.origin,
            why="without one it is not known when its periods are due",
            fix='add e.g. `schedule: {cron: "0 6 * * MON", timezone: Europe/Dublin}`',
            code="DPR170",
        )
    if next(_instants(config.schedule, datetime(2000, 1, 1, tzinfo=UTC)), None) is None:
        raise ConfigError(
            f"the cron line `{config.schedule.cron[:60]}` never fires",
            where=config.origin,
            why="no date of the next fifty years matches it",
            fix="check its day and month fields",
            code="DPR171",
        )
    return config.period, config.schedule


def due_at(config: PipelineConfig, period: str) -> datetime | None:
    """Return the period's scheduled instant in UTC; None without a schedule (or a `period` block).

    Raises:
        ArgumentError: `period` is not one of this pipeline's (DPR640).
    """
    closes = closes_at(config, period)
    if closes is None or config.schedule is None:
        return None
    return next((at for at in _instants(config.schedule, closes - _BEFORE) if at >= closes), None)


def due_periods(config: PipelineConfig, now: datetime, count: int) -> tuple[Due, ...]:
    """Return the `count` newest periods that are due at `now` and that the source holds, oldest first."""
    rule, schedule = require_schedule(config)
    latest = _latest(schedule, now.astimezone(UTC))
    if latest is None:
        return ()
    found: list[Due] = []
    # The greatest period that ended, with its delay, by the latest instant.
    period = _before(rule, latest, rule.delay)
    if period is not None and rule.last is not None:
        period = min(period, rule.last)
    while period is not None and in_declared_span(config, period) and len(found) < count:
        at = due_at(config, period)
        if at is not None and at <= now and period not in rule.skip:
            found.append(Due(period, at))
        start, _ = parse_period(period, rule.every, rule.timezone)
        period = _before(rule, start)
    return tuple(reversed(found))


def next_due(config: PipelineConfig, now: datetime) -> Due | None:
    """Return the first period that becomes due after `now`; None if calendar or source end before."""
    rule, _ = require_schedule(config)
    newest = due_periods(config, now, 1)
    try:
        if newest:
            period = following_period(newest[0].period, rule.every, rule.timezone)
        else:
            period = max(period_id(now - rule.delay, rule.every, rule.timezone), rule.first or "")
        while period in rule.skip:
            period = following_period(period, rule.every, rule.timezone)
        at = due_at(config, period)
    except (ArgumentError, ValueError, OverflowError):
        return None
    return None if at is None or not in_declared_span(config, period) else Due(period, at)


def _before(rule: PeriodConfig, moment: datetime, delay: timedelta = timedelta(0)) -> str | None:
    """Return the last period that ended `delay` before `moment`; None where the calendar begins after it."""
    try:
        start, _ = parse_period(
            period_id(moment - delay, rule.every, rule.timezone), rule.every, rule.timezone
        )
        before = period_id(start - timedelta(seconds=1), rule.every, rule.timezone)
        parse_period(before, rule.every, rule.timezone)
    except (ArgumentError, OverflowError):
        return None
    return before


def _instants(schedule: ScheduleModel, start: datetime) -> Iterator[datetime]:
    """Yield the cron instants after `start`, in UTC."""
    from cronsim import CronSim, CronSimError

    try:
        for instant in CronSim(schedule.cron, start.astimezone(zone(schedule.timezone))):
            yield instant.astimezone(UTC)
    except (CronSimError, OverflowError):  # the second: the calendar ends
        return


def _latest(schedule: ScheduleModel, now: datetime) -> datetime | None:
    """Return the last instant at or before `now`."""
    from cronsim import CronSim, CronSimError

    try:
        guess = next(CronSim(schedule.cron, now.astimezone(zone(schedule.timezone)), reverse=True))
    except (CronSimError, StopIteration, OverflowError):
        return None
    # Going back only finds the neighbourhood; which instants there are is decided forwards.
    latest = None
    for at in _instants(schedule, guess.astimezone(UTC) - _BEFORE):
        if at > now:
            break
        latest = at
    return latest
