"""The plan of a release and of a pipeline's run: the first stage, from public metadata alone.

It imports the planner and nothing behind the wall, so `dprelease plan` starts without engines,
ledger, formats or validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from dprelease.core.errors import ArgumentError, ConfigError
from dprelease.core.periods import EXAMPLES, every_of, parse_period
from dprelease.planning.make import make_plan
from dprelease.query.calendar import Calendar, window_of, zone_tables
from dprelease.query.merge import merge_release
from dprelease.query.spec import resolve
from dprelease.query.view import View
from dprelease.release_plan.plan import ReleasePlan
from dprelease.schema.naming import LONGEST_KEY
from dprelease.schema.release_spec import ReleaseSpec
from dprelease.schema.table import TableSchema
from dprelease.schema.time import how_to_declare

if TYPE_CHECKING:
    from dprelease.pipeline.config import PipelineConfig


def plan_release(
    schema: TableSchema,
    overrides: Mapping[str, object] | ReleaseSpec | None = None,
    *,
    window: tuple[str, datetime, datetime] | None = None,
    origin: str = "release(...)",
    table: str | None = None,
    view: View | None = None,
    calendar: Calendar | None = None,
    during: str | None = None,
    composition: str | None = None,
    brief: bool = False,
) -> ReleasePlan:
    """Return the plan of the schema's default release with `overrides` merged over it.

    Args:
        during: a period of the schema's `time`, instead of window and calendar.
        composition: how the ledger adds up, where there is one.
        brief: as `make_plan`.

    Raises:
        ConfigError, PlanError: the request is faulty, or no proved plan exists.
        ArgumentError: `during` names no period (DPR640), or the schema has no time (DPR639).
    """
    if during is not None:
        calendar = _calendar_during(schema, during)
        window = (calendar.column, *window_of(schema, calendar))
    if isinstance(overrides, ReleaseSpec):
        spec = overrides
    else:
        spec = merge_release(schema, overrides, origin, table=table)
    spec = replace(spec, composition=composition or spec.composition)
    query = resolve(schema, spec, window=window, view=view, calendar=calendar)
    column = schema.columns[spec.by[0]] if spec.found else None
    for label in () if column is None else (column.other, column.null_label):
        if label is not None and not 0 < len(label) <= LONGEST_KEY:
            raise ConfigError(
                f"`{label[:60]}` is a key of `{spec.by[0]}`, and a found key has 1 to {LONGEST_KEY} characters",
                where=schema.origin,
                fix='call these cells e.g. "other"',
                code="DPR112",
            )
    return make_plan(query, brief=brief)


def plan_pipeline(config: PipelineConfig, period: str | None = None) -> ReleasePlan:
    """Return the plan of one run; without `period`, of any run (its window left open)."""
    window = calendar = None
    if config.period is not None:
        stated = config.period
        # Any period's plan costs the same: the window is public and prices nothing.
        name = EXAMPLES[stated.every] if period is None else period
        calendar = Calendar(
            stated.column, stated.every, stated.timezone, name, zone_tables(), stated.delay
        )
        window = (stated.column, *window_of(config.schema, calendar))
    return plan_release(
        config.schema,
        config.release,
        window=window,
        origin=config.origin,
        view=config.source.view,
        calendar=calendar,
        composition=config.budget.composition,
    )


def closing_at(plan: ReleasePlan, instant: datetime) -> ReleasePlan:
    """Return the plan of a period that closes at `instant`, as was said when it was paid for.

    The pipeline's `delay` may have changed since; it decides nothing that is priced or hashed.
    """
    request = plan.request
    if request is None or request.calendar is None:
        return plan
    calendar = request.calendar
    _, end = parse_period(calendar.name, calendar.every, calendar.timezone)  # type: ignore[arg-type]
    return replace(plan, request=replace(request, calendar=replace(calendar, delay=instant - end)))


def _calendar_during(schema: TableSchema, during: str) -> Calendar:
    """Return the period `during`, 2026-W46, of the schema's time: its rows alone are released.

    Raises:
        ArgumentError: the schema declares no time (DPR639), or it names no period (DPR640).
    """
    if schema.time is None:
        raise ArgumentError(
            f"`during` needs to know when a row was, and schema {schema.name} does not say it",
            fix=how_to_declare(schema.columns),
            code="DPR639",
        )
    time = schema.time
    return Calendar(time.column, every_of(during), time.timezone, during, zone_tables())
