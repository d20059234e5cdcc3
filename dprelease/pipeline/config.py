"""Pipeline files as a checked `PipelineConfig`.

Paths are relative to the file that names them and stay inside its project. A connection string is
a reference that is read when the source opens. The release block is merged over the schema's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dprelease.core import registry
from dprelease.core.caller import path_from
from dprelease.engines.limits import LIMITS, NO_LIMITS, Limits
from dprelease.pipeline.budget_config import BudgetConfig, PublishModel, pipeline_file, read_budget
from dprelease.pipeline.models import EngineModel, PipelineModel, ScheduleModel
from dprelease.pipeline.secret_reference import SecretReference, secret_at
from dprelease.pipeline.source_config import SourceConfig, read_source
from dprelease.pipeline.timing_config import (
    PeriodConfig,
    read_period,
    read_schedule,
)
from dprelease.query.load import load_schema
from dprelease.query.merge import merge_release
from dprelease.schema.about import about_of
from dprelease.schema.block_paths import with_paths
from dprelease.schema.declaration_file import DeclarationFile
from dprelease.schema.faults import checked
from dprelease.schema.naming import did_you_mean
from dprelease.schema.release_spec import ReleaseSpec
from dprelease.schema.table import TableSchema

__all__ = [
    "BudgetConfig",
    "PeriodConfig",
    "PipelineConfig",
    "PublishConfig",
    "SourceConfig",
    "load_pipeline",
]


@dataclass(frozen=True, slots=True)
class PublishConfig:
    """The public folder, the formats written to it, and the key that signs what is written."""

    to: Path
    formats: tuple[str, ...]
    signing_key: SecretReference | None = None


@dataclass(frozen=True, slots=True)
class PipelineConfig:
    """One checked pipeline file.

    Attributes:
        spark: where Spark runs: its master, or a Connect address by reference.
        raw: the file's data, references unresolved.
    """

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
    spark: str | SecretReference | None = None
    period: PeriodConfig | None = None
    schedule: ScheduleModel | None = None
    raw: Mapping[str, object] = field(default_factory=dict, compare=False, repr=False)

    def engine_options(self) -> Mapping[str, object]:
        """Return the engine's own arguments, beside its limits."""
        if isinstance(self.spark, SecretReference):
            return {"remote": self.spark.reveal_to_source}
        return {} if self.spark is None else {"master": self.spark}


def load_pipeline(path: str | Path) -> PipelineConfig:
    """Read and check one pipeline file and its schema; opens no source, reads no row.

    Raises:
        ConfigError: as `load_schema`, or source (DPR140), period (DPR141), secret (DPR142),
            schedule (DPR143), budget (DPR145, DPR174, DPR184), format (DPR146); `where` is `file:line`.
        ArgumentError: it is no path (DPR642).
    """
    named = path_from(path, "a pipeline", "pipelines/clinic_weekly.yaml")
    file, said = pipeline_file(named)
    model = checked(PipelineModel, said, file.marks)
    schema_path = file.path(model.table_schema, "schema")
    schema = load_schema(_shown(schema_path))
    schema = replace(schema, about=about_of(model).over(schema.about))
    engine = (
        model.engine
        if isinstance(model.engine, EngineModel)
        else EngineModel.model_validate({"kind": model.engine})
    )
    raw = said.get("release")
    block = with_paths(file.released, raw) if isinstance(raw, Mapping) else {}
    lines = file.marks.below("release") if raw is not None else {}
    release = merge_release(schema, block, file.marks.line_of("release"), lines)
    period, schedule = model.period, model.schedule
    source = read_source(file, model.source, engine.kind, release.allow)
    publish = _publish(file, model.publish, many_tables=bool(release.tables))
    return PipelineConfig(
        name=model.name,
        origin=file.marks.line_of(),
        source=source,
        schema=schema,
        release=release,
        budget=read_budget(file.below("budget"), model.budget, schema.population, publish.to),
        publish=publish,
        root=file.root,
        engine=engine.kind,
        limits=_limits(file, engine),
        spark=_spark(file, engine),
        period=None
        if period is None
        else read_period(file.below("period"), period, schema, source),
        schedule=None
        if schedule is None
        else read_schedule(file.below("schedule"), schedule, periodic=period is not None),
        raw=said,
    )


def _spark(file: DeclarationFile, engine: EngineModel) -> str | SecretReference | None:
    if engine.master is None and engine.remote is None:
        return None
    if engine.kind != "spark" or (engine.master is not None and engine.remote is not None):
        file.fail(
            "`master` and `remote` are two ways to say where Spark runs",
            "engine",
            fix="name one of them, beside `kind: spark`",
            code="DPR140",
        )
    if engine.remote is None:
        return engine.master
    return secret_at(file, engine.remote, "engine", "remote")


def _limits(file: DeclarationFile, engine: EngineModel) -> Limits:
    texts = {name: getattr(engine, name) for name in LIMITS}
    found: dict[str, object] = {n: LIMITS[n](text) for n, text in texts.items() if text}
    if engine.temp_directory:
        folder = file.path(engine.temp_directory, "engine", "temp_directory")
        found["temp_directory"] = folder
    return Limits(**found)  # type: ignore[arg-type]


def _publish(file: DeclarationFile, publish: PublishModel, *, many_tables: bool) -> PublishConfig:
    """Return where what is written. What a format cannot write it can refuse only after the charge."""
    ours = registry.names("formats")
    known = (*ours, *registry.third_party_names("formats"))
    for i, name in enumerate(publish.formats):
        if name not in known or name in publish.formats[:i]:
            what, fix = "repeated format", "name it once"
            if name not in known:
                fix = did_you_mean(name, known, f"known formats: {', '.join(known)}")
                what = "unknown format"
            file.fail(f"{what} `{name}`", "publish", "formats", i, fix=fix, code="DPR146")
        if name in ours and not many_tables:  # every format of ours writes one table
            continue
        from dprelease.results.formats.format import unfit  # a plan with our formats loads none

        if (why := unfit(name, many_tables=many_tables)) is not None:
            file.fail(
                f"the format `{name}` cannot write this release",
                "publish",
                "formats",
                i,
                why=why,
                fix="take it out of `publish.formats`, or mend the format",
                code="DPR146",
            )
    key = publish.signing_key
    return PublishConfig(
        file.path(publish.to, "publish", "to"),
        tuple(publish.formats),
        None if key is None else secret_at(file, key, "publish", "signing_key"),
    )


def _shown(path: Path) -> Path:
    """Return `path` relative to the current folder where that is shorter, for messages."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
