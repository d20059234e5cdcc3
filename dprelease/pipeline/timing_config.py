"""When a pipeline runs: the period that a row belongs to, and the cron line that makes runs due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from dprelease.core.errors import ArgumentError
from dprelease.core.periods import EXAMPLES, Every, parse_period, zone
from dprelease.pipeline.models import PeriodModel, ReadyModel, ScheduleModel
from dprelease.pipeline.secret_reference import SecretReference, secret_at
from dprelease.pipeline.source_config import SourceConfig
from dprelease.query.calendar import delay_from_text
from dprelease.schema.column import Kind
from dprelease.schema.declaration_file import DeclarationFile
from dprelease.schema.table import TableSchema


@dataclass(frozen=True, slots=True)
class ReadyConfig:
    """What says that a period's rows have arrived: a file, a partition, or a table of loads.

    `{period}` in the first two stands for the period's name.
    """

    file: Path | None = None
    partition: str | None = None
    database: Path | None = None
    dsn: SecretReference | None = None
    table: str | None = None
    column: str | None = None


@dataclass(frozen=True, slots=True)
class PeriodConfig:
    """Which rows belong to a run; `delay` passes between a period's end and its run.

    `first` and `last` name the periods that the source holds; None where there is no such end. `skip` names
    those between that are never released, each with its `file:line`.
    """

    column: str
    every: Every
    delay: timedelta = timedelta(0)
    timezone: str = "UTC"
    first: str | None = None
    last: str | None = None
    ready: ReadyConfig | None = None
    skip: Mapping[str, str] = field(default_factory=dict)


def read_period(
    file: DeclarationFile, period: PeriodModel, schema: TableSchema, source: SourceConfig
) -> PeriodConfig:
    """Return the period; ConfigError for an unknown column (DPR122) or a faulty block (DPR141)."""
    name, timezone = _column_and_zone(file, period, schema)
    fix = "declare it in the schema"
    column = file.column(name, schema.columns, "column", block="period", fix=fix)
    if column.kind not in (Kind.date, Kind.timestamp):
        file.fail(
            f"`{name}` is of kind {column.kind} and cannot assign rows to periods",
            "column",
            fix="use a date or timestamp column",
            code="DPR141",
        )
    file.zone(timezone, "DPR141")
    delay = delay_from_text("0m" if period.delay is None else period.delay)
    if delay is None:
        file.fail(
            "`delay` is a number and a unit",
            "delay",
            fix="e.g. 30m, 6h, 2d or 1w",
            code="DPR141",
        )
    for key, said in (("first", period.first), ("last", period.last)):
        if said is not None:
            _check_period(file, said, period.every, timezone, key)
    for i, name_skipped in enumerate(period.skip):
        _check_period(file, name_skipped, period.every, timezone, "skip", i)
    if period.first is not None and period.last is not None and period.last < period.first:
        file.fail(
            "`last` comes before `first`",
            "last",
            fix="write the earlier period as `first`",
            code="DPR141",
        )
    ready = _ready(file, period.ready)
    if ready is not None and ready.partition is not None:
        _has_partitions(file, source)
    skip = {said: file.line_of("skip", i) for i, said in enumerate(period.skip)}
    return PeriodConfig(name, period.every, delay, timezone, period.first, period.last, ready, skip)


def _has_partitions(file: DeclarationFile, source: SourceConfig) -> None:
    """Refuse a partition of a source that is not a folder of this machine: it could never be there."""
    path = source.path or ""
    files = source.kind in ("parquet", "csv", "arrow")
    if files and (set("*?[") & set(path) or not Path(path).suffix):
        return
    file.fail(
        "the source has no partitions",
        "ready",
        "partition",
        why="a partition is a folder of a source of many files on this machine",
        fix='write the source as a pattern, e.g. `parquet: "../data/*/*.parquet"`, or name a file or a'
        " table of loads instead: `ready: {file: …}`, `ready: {table: …}`",
        code="DPR147",
    )


def _ready(file: DeclarationFile, ready: ReadyModel | None) -> ReadyConfig | None:
    """Return what says that rows have arrived; ConfigError DPR147 unless exactly one thing does."""
    if ready is None:
        return None
    place = ("ready",)
    signals = [ready.file, ready.partition, ready.table]
    texts = [text for text in (ready.file, ready.partition) if text is not None]
    named = all("{period}" in text for text in texts)
    inside = ready.partition is None or not {"..", ""} & set(ready.partition.split("/"))
    loads = ready.table
    one = loads is None or (loads.database is None) != (loads.dsn is None)
    if sum(part is not None for part in signals) != 1 or not (named and inside and one):
        file.fail(
            "`ready` names one thing that says when a period's rows have arrived",
            *place,
            fix='{file: "../landed/{period}.ok"}, {partition: "week={period}"} or'
            " {table: {database: loads.duckdb, table: loads, column: week}}",
            code="DPR147",
        )
    if loads is None:
        path = None if ready.file is None else file.path(ready.file, *place, "file")
        return ReadyConfig(file=path, partition=ready.partition)
    base = None if loads.database is None else file.path(loads.database, *place, "table")
    dsn = None if loads.dsn is None else secret_at(file, loads.dsn, *place, "table", "dsn")
    return ReadyConfig(database=base, dsn=dsn, table=loads.table, column=loads.column)


def _column_and_zone(
    file: DeclarationFile, period: PeriodModel, schema: TableSchema
) -> tuple[str, str]:
    """Return the period's column and zone: the schema's where it declares a time."""
    time = schema.time
    if time is None:
        if period.column is None:
            file.fail(
                "no column assigns rows to periods",
                fix="declare the schema's `time: {column: visited_at}`, or name a `column` here",
                code="DPR141",
            )
        return period.column, "UTC" if period.timezone is None else period.timezone
    said = (("column", period.column, time.column), ("timezone", period.timezone, time.timezone))
    for key, here, there in said:
        if here not in (None, there):
            file.fail(
                f"the period's {key} is `{here}`, and the schema's time has `{there}`",
                key,
                why="losses are added up by the time that the schema declares",
                fix=f"remove `{key}` here, or write `{here}` in the schema's `time`",
                code="DPR141",
            )
    return time.column, time.timezone


def read_schedule(
    file: DeclarationFile, schedule: ScheduleModel, *, periodic: bool
) -> ScheduleModel:
    """Return the schedule of a pipeline with periods; ConfigError DPR143 for a faulty one."""
    if not periodic:
        file.fail(
            "a schedule needs a `period`",
            fix="add e.g. `period: {every: week}`, and the schema's `time`",
            code="DPR143",
        )
    file.zone(schedule.timezone, "DPR143")
    from cronsim import CronSim, CronSimError

    try:
        if len(schedule.cron.split()) != 5:  # CronSim takes a sixth, seconds, and puts it first
            raise ValueError
        CronSim(schedule.cron, datetime(2000, 1, 1, tzinfo=zone(schedule.timezone)))
    except (CronSimError, ValueError):
        file.fail(
            f"`{schedule.cron[:60]}` is not a cron line",
            "cron",
            fix='five fields: minute hour day month weekday, e.g. "0 6 * * MON"',
            code="DPR143",
        )
    return schedule


def _check_period(
    file: DeclarationFile, name: str, every: Every, timezone: str, *place: str | int
) -> None:
    try:
        parse_period(name, every, timezone)
    except ArgumentError as error:
        fix = (error.fix or "").replace(
            EXAMPLES[every], f'"{EXAMPLES[every]}"'
        )  # else a number, or a date
        file.fail(error.what, *place, fix=fix, code="DPR141")
