"""Pipeline files as a checked `PipelineConfig`.

Paths are relative to the file that names them and stay inside its project. A connection string is
a reference that is read when the source opens. The release block is merged over the schema's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import NoReturn

from dprelease import registry
from dprelease.budget.connection import Place
from dprelease.budget.postgres_place import PostgresPlace
from dprelease.engines.limits import LIMITS, NO_LIMITS, Limits
from dprelease.errors import ArgumentError, ConfigError
from dprelease.numeric import plain
from dprelease.pipeline.models import (
    SOURCES,
    EngineModel,
    PipelineModel,
    SourceModel,
    TableModel,
)
from dprelease.pipeline.period import Every, zone
from dprelease.pipeline.secret_reference import SecretReference
from dprelease.query.merge import merge_release
from dprelease.query.view import View, parse_view
from dprelease.schema.column import Kind
from dprelease.schema.faults import checked
from dprelease.schema.load import load_schema
from dprelease.schema.naming import nearest
from dprelease.schema.paths import confined, confined_glob, project_root
from dprelease.schema.table import ReleaseSpec, TableSchema
from dprelease.schema.yaml_marks import Marks, load_yaml

__all__ = [
    "BudgetConfig",
    "PeriodConfig",
    "PipelineConfig",
    "PublishConfig",
    "ScheduleConfig",
    "SourceConfig",
    "SparkConfig",
    "load_pipeline",
]

_FORMATS = ("parquet", "csv", "html")
_BY_SPARK = ("spark", "parquet", "csv")
_SECRETS = (("dsn",), ("signing_key",), ("remote",), ("ledger",))
_DELAY = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """Where the rows are.

    Attributes:
        kind: parquet, csv, arrow, duckdb, postgres or spark.
        path: absolute path or pattern (parquet, csv, arrow), or the DuckDB file.
        table: table name (duckdb, postgres, spark).
        dsn: reference to the connection string (postgres).
        view: what `tables` are read through (kind view): a name of the view -> its source.
        root: the project's root, when files match; files that appear later may not lead out either.
    """

    kind: str
    path: str | None = None
    table: str | None = None
    dsn: SecretReference | None = None
    view: View | None = None
    tables: Mapping[str, SourceConfig] = field(default_factory=dict)
    root: Path | None = None


@dataclass(frozen=True, slots=True)
class PeriodConfig:
    """Which rows belong to a run; `delay` passes between a period's end and its run."""

    column: str
    every: Every
    delay: timedelta = timedelta(0)
    timezone: str = "UTC"


@dataclass(frozen=True, slots=True)
class BudgetConfig:
    """The dataset's ledger and whole budget; epsilon in nats.

    Attributes:
        per_period: what one period may cost over all pipelines; None for no cap.
        on_crash: "redraw" under the same debit, or "charge_again" first.
        anchor: a second place for the ledger's head, signed if there is a `signing_key`.
    """

    ledger: Place
    dataset: str
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    composition: str = "basic"
    per_period: Fraction | None = None
    on_crash: str = "redraw"
    anchor: Path | None = None
    signing_key: SecretReference | None = None


@dataclass(frozen=True, slots=True)
class PublishConfig:
    """The public folder and the formats written to it."""

    to: Path
    formats: tuple[str, ...] = _FORMATS


@dataclass(frozen=True, slots=True)
class ScheduleConfig:
    """When runs are due; at most `catch_up` missed periods are released after downtime."""

    cron: str
    timezone: str = "UTC"
    catch_up: int = 1


@dataclass(frozen=True, slots=True)
class SparkConfig:
    """Where Spark runs: a master, or a Connect address by reference; exactly one."""

    master: str | None = None
    remote: SecretReference | None = None

    def options(self) -> dict[str, object]:
        """Return the engine's arguments."""
        if self.remote is None:
            return {"master": self.master}
        return {"remote": self.remote.reveal_to_source}


@dataclass(frozen=True, slots=True)
class PipelineConfig:
    """One checked pipeline file. `raw` is the file's data, references unresolved."""

    name: str
    origin: str
    source: SourceConfig
    schema: TableSchema
    release: ReleaseSpec
    budget: BudgetConfig
    publish: PublishConfig
    root: Path
    engine: str = "duckdb"
    limits: Limits = NO_LIMITS
    spark: SparkConfig | None = None
    period: PeriodConfig | None = None
    schedule: ScheduleConfig | None = None
    raw: Mapping[str, object] = field(default_factory=dict, compare=False, repr=False)

    def engine_options(self) -> Mapping[str, object]:
        """Return the engine's own arguments, beside its limits."""
        return {} if self.spark is None else self.spark.options()


def load_pipeline(path: str | Path) -> PipelineConfig:
    """Read and check one pipeline file and its schema; opens no source, reads no row.

    Raises:
        ConfigError: as `load_schema`, or source (DPR140), period (DPR141), secret (DPR142),
            schedule (DPR143), budget (DPR145), format (DPR146); `where` is `file:line`.
    """
    document = load_yaml(path)
    folder = Path(path).resolve().parent
    reader = _Reader(document.marks, folder, project_root(folder))
    reader.refuse_references(document.data)
    model = checked(PipelineModel, document.data, document.marks)
    schema_path = reader.path(model.table_schema, "schema")
    schema = load_schema(_shown(schema_path))
    engine = model.engine if isinstance(model.engine, EngineModel) else EngineModel.model_validate({"kind": model.engine})
    raw = document.data.get("release")
    block: dict[str, object] = dict(raw) if isinstance(raw, Mapping) else {}
    if isinstance(block.get("keys_from"), str):
        block["keys_from"] = reader.path(str(block["keys_from"]), "release", "keys_from")
    lines = document.marks.below("release") if raw is not None else {}
    release = merge_release(schema, block, document.marks.at("release"), lines)
    return PipelineConfig(
        name=model.name,
        origin=document.marks.at(),
        source=reader.source(model.source, engine.kind, release.allow),
        schema=schema,
        release=release,
        budget=reader.budget(model),
        publish=reader.publish(model),
        root=reader.root,
        engine=engine.kind,
        limits=reader.limits(engine),
        spark=reader.spark(engine),
        period=reader.period(model, schema),
        schedule=reader.schedule(model),
        raw=document.data,
    )


class _Reader:
    """Turn checked models into frozen configuration, with a place for every error."""

    def __init__(self, marks: Marks, folder: Path, root: Path) -> None:
        self.marks = marks
        self.folder = folder
        self.root = root

    def _fail(self, what: str, *place: str | int, fix: str, code: str) -> NoReturn:
        raise ConfigError(what, where=self.marks.at(*place), fix=fix, code=code)

    def path(self, text: str, *place: str) -> Path:
        return confined(text, base=self.folder, root=self.root, origin=self.marks.at(*place))

    def refuse_references(self, value: object, *place: str | int) -> None:
        """Refuse `${…}` anywhere but where a connection string or a key is named (`_SECRETS`)."""
        if isinstance(value, Mapping):
            for key, item in value.items():
                self.refuse_references(item, *place, key)
        elif isinstance(value, list):
            for i, item in enumerate(value):
                self.refuse_references(item, *place, i)
        elif isinstance(value, str) and "${" in value and place[-1:] not in _SECRETS:
            self._fail(
                "`${…}` is read in connection strings and keys only",
                *place,
                fix="write the value out",
                code="DPR142",
            )

    def source(self, model: SourceModel, engine: str, allow: tuple[str, ...]) -> SourceConfig:
        given = [kind for kind in SOURCES if getattr(model, kind) is not None]
        if model.view is None:
            for key in ("tables", "public_tables"):
                if getattr(model, key):
                    self._fail(
                        f"`{key}` belongs to a view",
                        "source",
                        key,
                        fix="add `view: SELECT …`, or name one source",
                        code="DPR140",
                    )
            return self._table(model, engine, "source")
        if given or not model.tables or engine == "spark":
            self._fail(
                "a view reads declared tables",
                "source",
                "view",
                fix="`source: {view: SELECT …, tables: {visits: {parquet: …}}, public_tables: {…}}`",
                code="DPR140",
            )
        twice = next((n for n in model.public_tables if n in model.tables), None)
        if twice is not None:
            self._fail(
                f"`{twice}` is both private and public",
                "source",
                "public_tables",
                fix="give one of the tables another name",
                code="DPR140",
            )
        for name, table in model.public_tables.items():
            if table.postgres is not None or table.spark is not None:
                self._fail(
                    "a public table is a file",
                    "source",
                    "public_tables",
                    name,
                    fix="parquet, csv, arrow or duckdb",
                    code="DPR140",
                )
        tables = {
            name: self._table(table, engine, "source", group, name)
            for group in ("tables", "public_tables")
            for name, table in getattr(model, group).items()
        }
        view = parse_view(
            model.view,
            private=model.tables,
            public=model.public_tables,
            allow=allow,
            origin=self.marks.at("source", "view"),
        )
        used = {name: table for name, table in tables.items() if name in view.tables}
        return SourceConfig("view", view=view, tables=used)

    def _table(self, model: TableModel, engine: str, *place: str) -> SourceConfig:
        given = [kind for kind in SOURCES if getattr(model, kind) is not None]
        if len(given) != 1:
            self._fail(
                f"a source has exactly one kind, not {len(given)}",
                *place,
                fix="e.g. `source: {parquet: ../data/visits.parquet}`",
                code="DPR140",
            )
        kind = given[0]
        if (kind not in _BY_SPARK) if engine == "spark" else (kind == "spark"):
            self._fail(
                f"the source `{kind}` does not fit the engine `{engine}`",
                *(("engine",) if engine == "spark" else place),
                fix="`engine: spark` reads spark, parquet and csv; the others are for `engine: duckdb`",
                code="DPR140",
            )
        where = self.marks.at(*place, kind)
        inside = {"base": self.folder, "root": self.root, "origin": where}
        if model.duckdb is not None:
            database = self.path(model.duckdb.database, *place, kind, "database")
            return SourceConfig(kind, path=str(database), table=model.duckdb.table)
        if model.postgres is not None:
            dsn = SecretReference(
                model.postgres.dsn,
                base=self.folder,
                root=self.root,
                origin=self.marks.at(*place, kind, "dsn"),
            )
            return SourceConfig(kind, table=model.postgres.table, dsn=dsn)
        if model.spark is not None:
            return SourceConfig(kind, table=model.spark.table)
        text: str = getattr(model, kind)
        path = confined_glob(text, **inside)  # type: ignore[arg-type]
        return SourceConfig(kind, path=path, root=self.root)

    def spark(self, model: EngineModel) -> SparkConfig | None:
        if model.master is None and model.remote is None:
            return None
        if model.kind != "spark" or (model.master is not None and model.remote is not None):
            self._fail(
                "`master` and `remote` are two ways to say where Spark runs",
                "engine",
                fix="name one of them, beside `kind: spark`",
                code="DPR140",
            )
        if model.remote is None:
            return SparkConfig(master=model.master)
        return SparkConfig(remote=self._secret(model.remote, "engine", "remote"))

    def limits(self, model: EngineModel) -> Limits:
        texts = {name: getattr(model, name) for name in LIMITS}
        found: dict[str, object] = {n: LIMITS[n](text) for n, text in texts.items() if text}
        if model.temp_directory:
            folder = self.path(model.temp_directory, "engine", "temp_directory")
            found["temp_directory"] = folder
        return Limits(**found)  # type: ignore[arg-type]

    def period(self, model: PipelineModel, schema: TableSchema) -> PeriodConfig | None:
        period = model.period
        if period is None:
            return None
        column = schema.columns.get(period.column)
        if column is None:
            near = nearest(period.column, schema.columns)
            self._fail(
                f"the period names an unknown column `{period.column}`",
                "period",
                "column",
                fix=f"did you mean `{near}`?" if near else "declare it in the schema",
                code="DPR122",
            )
        if column.kind not in (Kind.date, Kind.timestamp):
            self._fail(
                f"`{period.column}` is of kind {column.kind} and cannot assign rows to periods",
                "period",
                "column",
                fix="use a date or timestamp column",
                code="DPR141",
            )
        self._zone(period.timezone, "DPR141", "period", "timezone")
        found = re.fullmatch(r"(\d{1,6})([mhdw])", period.delay or "0m", re.ASCII)
        if found is None:
            self._fail(
                "`delay` is a number and a unit",
                "period",
                "delay",
                fix="e.g. 30m, 6h, 2d or 1w",
                code="DPR141",
            )
        delay = timedelta(**{_DELAY[found[2]]: int(found[1])})
        return PeriodConfig(period.column, period.every, delay, period.timezone)

    def _zone(self, name: str, code: str, *place: str) -> None:
        try:
            zone(name)
        except ArgumentError as error:
            self._fail(error.what, *place, fix="e.g. UTC or Europe/Dublin", code=code)

    def budget(self, model: PipelineModel) -> BudgetConfig:
        budget = model.budget
        if not isinstance(budget.epsilon, Fraction) or budget.epsilon <= 0:
            self._fail(
                f"the budget's epsilon is {plain(budget.epsilon)}",
                "budget",
                "epsilon",
                fix="give a finite number above 0",
                code="DPR145",
            )
        delta = Fraction(0) if budget.delta == 0 else budget.delta
        if not isinstance(delta, Fraction) or not 0 <= delta < 1:
            self._fail(
                f"the budget's delta is {plain(delta)}",
                "budget",
                "delta",
                fix="give a number from 0 to below 1",
                code="DPR145",
            )
        ledger: Place
        if budget.ledger.startswith("${"):
            secret = self._secret(budget.ledger, "budget", "ledger")
            assert secret is not None
            ledger = PostgresPlace(f"PostgreSQL {budget.ledger}", secret.reveal_to_source)
        else:
            ledger = self.path(budget.ledger, "budget", "ledger")
        cap = budget.per_period
        if cap is not None and (not isinstance(cap, Fraction) or cap <= 0):
            self._fail(
                f"the cap per period is {plain(cap)}",
                "budget",
                "per_period",
                fix="give a finite number above 0, or leave it out",
                code="DPR145",
            )
        if budget.signing_key is not None and budget.anchor is None:
            self._fail(
                "a signed head needs a place",
                "budget",
                "signing_key",
                fix="add e.g. `anchor: ../heads/clinic.json`",
                code="DPR145",
            )
        return BudgetConfig(
            ledger,
            budget.dataset,
            budget.epsilon,
            delta,
            budget.composition,
            per_period=cap,
            on_crash=budget.on_crash,
            anchor=None if budget.anchor is None else self.path(budget.anchor, "budget", "anchor"),
            signing_key=self._secret(budget.signing_key, "budget", "signing_key"),
        )

    def _secret(self, text: str | None, *place: str) -> SecretReference | None:
        if text is None:
            return None
        where = self.marks.at(*place)
        return SecretReference(text, base=self.folder, root=self.root, origin=where)

    def publish(self, model: PipelineModel) -> PublishConfig:
        publish = model.publish
        known = (*_FORMATS, *registry.third_party_names("formats"))
        for i, name in enumerate(publish.formats):
            if name not in known or name in publish.formats[:i]:
                near = nearest(name, known)
                fix = f"did you mean `{near}`?" if near else f"known formats: {', '.join(known)}"
                what = "unknown format" if name not in known else "repeated format"
                self._fail(f"{what} `{name}`", "publish", "formats", i, fix=fix, code="DPR146")
        return PublishConfig(self.path(publish.to, "publish", "to"), tuple(publish.formats))

    def schedule(self, model: PipelineModel) -> ScheduleConfig | None:
        schedule = model.schedule
        if schedule is None:
            return None
        if model.period is None:
            self._fail(
                "a schedule needs a `period`",
                "schedule",
                fix="add e.g. `period: {column: visited_at, every: week}`",
                code="DPR143",
            )
        self._zone(schedule.timezone, "DPR143", "schedule", "timezone")
        from datetime import datetime

        from cronsim import CronSim, CronSimError

        try:
            CronSim(schedule.cron, datetime(2000, 1, 1, tzinfo=zone(schedule.timezone)))
        except (CronSimError, ValueError):
            self._fail(
                f"`{schedule.cron[:60]}` is not a cron line",
                "schedule",
                "cron",
                fix='five fields: minute hour day month weekday, e.g. "0 6 * * MON"',
                code="DPR143",
            )
        return ScheduleConfig(schedule.cron, schedule.timezone, schedule.catch_up)


def _shown(path: Path) -> Path:
    """Return `path` relative to the current folder where that is shorter, for messages."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
