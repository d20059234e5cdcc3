"""The shape of pipeline/1 files: pydantic models, used for checking and for the JSON Schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema

from dprelease.core import registry
from dprelease.core.errors import ArgumentError
from dprelease.core.periods import Every
from dprelease.engines.engine import DEFAULT
from dprelease.engines.limits import MOST_THREADS, bytes_of, memory_of, seconds_of, threads_of
from dprelease.pipeline.budget_config import BudgetModel, PublishModel
from dprelease.schema.about import Words
from dprelease.schema.model_values import Identifier, Sql, Strict, Text, fault
from dprelease.schema.models import ReleaseModel
from dprelease.schema.naming import did_you_mean

SOURCES = ("parquet", "csv", "arrow", "duckdb", "postgres", "spark")


class CsvModel(Strict):
    """CSV files and the signs that their header does not say."""

    path: Text = Field(description="Path or pattern of CSV files with a header.")
    delimiter: Text | None = Field(
        None, description="What separates cells; by default the header says it."
    )
    decimal: Text | None = Field(
        None,
        description='The sign in numbers, "," or "."; needed where the header is separated by ";". The other '
        "one, a space or an apostrophe may part groups of three digits.",
    )


def _csv_tag(value: object) -> str:
    return "keys" if isinstance(value, Mapping | CsvModel) else "path"


Csv = Annotated[
    Annotated[Text, Tag("path")] | Annotated[CsvModel, Tag("keys")], Discriminator(_csv_tag)
]


class DuckDBModel(Strict):
    """A table of a DuckDB database file."""

    database: Text = Field(description="Path of the database file.")
    table: Text = Field(
        description="Name of the table, as schema.table; a part that holds a dot in double quotes."
    )


class PostgresModel(Strict):
    """A Postgres table."""

    dsn: Text = Field(description='Connection string by reference: "${env:NAME}".')
    table: Text = Field(
        description="Name of the table, as schema.table; a part that holds a dot in double quotes."
    )


class SparkModel(Strict):
    """A Spark table."""

    table: Text = Field(description="Name of the table.")


class TableModel(Strict):
    """Where one table's rows are: exactly one kind."""

    parquet: Text | None = Field(
        None,
        description="Path or pattern of Parquet files, or an address of objects (s3://, gs://, az://).",
    )
    csv: Csv | None = Field(
        None,
        description="Path or pattern of CSV files with a header, or {path, delimiter, decimal}.",
    )
    arrow: Text | None = Field(None, description="Path of an Arrow IPC file.")
    duckdb: DuckDBModel | None = Field(None, description="A table of a DuckDB file.")
    postgres: PostgresModel | None = Field(None, description="A Postgres table.")
    spark: SparkModel | None = Field(None, description="A Spark table.")


class SourceModel(TableModel):
    """Where the rows are: exactly one kind, or a view of declared tables."""

    view: Sql | None = Field(
        None, description="One SELECT: rows of a private table, each beside public ones."
    )
    tables: dict[Text, TableModel] = Field({}, description="Private tables of the view, by name.")
    public_tables: dict[Text, TableModel] = Field(
        {}, description="Public tables of the view, by name."
    )


def _limit(read: Callable[[str], object]) -> Callable[[object], str]:
    """Return a check by the engines' own reader, which keeps the text."""

    def checked(value: object) -> str:
        text = str(value) if type(value) is int else value
        try:
            read(text if isinstance(text, str) else "")
        except ArgumentError as error:
            shown = error.what if isinstance(text, str) else "text is needed here"
            raise fault("DPR112", shown, error.fix or "") from None
        return str(text)

    return checked


_SIZE = WithJsonSchema({"type": "string", "pattern": r"^[0-9.]+ ?([KMGT]i?)?B$"})
_TIME = WithJsonSchema({"type": "string", "pattern": "^[0-9]+[smh]$"})
_COUNT = WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MOST_THREADS})
Memory = Annotated[str, BeforeValidator(_limit(memory_of)), _SIZE]
Space = Annotated[str, BeforeValidator(_limit(bytes_of)), _SIZE]
Threads = Annotated[str, BeforeValidator(_limit(threads_of)), _COUNT]
Duration = Annotated[str, BeforeValidator(_limit(seconds_of)), _TIME]


def _engine_kind(value: object) -> object:
    """Return the name of an engine: one of ours, or one that an installed package offers."""
    known = (*registry.names("engines"), *registry.third_party_names("engines"))
    if value in known:
        return value
    fix = did_you_mean(str(value), known, f"known engines: {', '.join(known)}")
    raise fault("DPR112", f"there is no engine called `{str(value)[:60]}`", fix)


Kind = Annotated[
    str,
    BeforeValidator(_engine_kind),
    WithJsonSchema({"type": "string", "examples": list(registry.names("engines"))}),
]


class EngineModel(Strict):
    """What computes, and how much of the machine it may take."""

    kind: Kind = Field(DEFAULT, description="The engine.")
    memory_limit: Memory | None = Field(
        None, description="Memory above which rows spill to disk, e.g. 2GiB."
    )
    threads: Threads | None = Field(None, description="Threads at most.")
    temp_directory: Text | None = Field(
        None, description="An existing folder of the project for spilled rows."
    )
    max_temp: Space | None = Field(
        None, description="Space that spilled rows may take, e.g. 10GiB."
    )
    timeout: Duration | None = Field(
        None,
        description="Time after which a computation is stopped, e.g. 2h; needs `allow: [visible-timeout]`.",
    )
    master: Text | None = Field(None, description="Spark's master, e.g. local[2] or yarn.")
    remote: Text | None = Field(
        None, description='Spark Connect address by reference: "${env:SPARK_REMOTE}".'
    )


def _engine_tag(value: object) -> str:
    return "keys" if isinstance(value, Mapping | EngineModel) else "word"


Engine = Annotated[
    Annotated[Kind, Tag("word")] | Annotated[EngineModel, Tag("keys")], Discriminator(_engine_tag)
]


class LoadsModel(Strict):
    """A public table that names the periods that are loaded."""

    database: Text | None = Field(None, description="Path of a DuckDB file.")
    dsn: Text | None = Field(None, description='Or PostgreSQL by reference: "${env:NAME}".')
    table: Text = Field(description="Name of the table, as in `source`.")
    column: Text = Field(description="Its column of period names.")


class ReadyModel(Strict):
    """What says that a period's rows have arrived, for periods without rows too: exactly one."""

    file: Text | None = Field(None, description="A file, e.g. ../landed/{period}.ok.")
    partition: Text | None = Field(None, description="A partition of the source, week={period}.")
    table: LoadsModel | None = Field(None, description="A table of loads.")


class PeriodModel(Strict):
    """Which rows belong to a run."""

    column: Text | None = Field(
        None,
        description="The date or timestamp column that assigns rows to periods; by default the "
        "schema's `time`.",
    )
    every: Every = Field(description="A period's length.")
    delay: Text | None = Field(None, description="Wait after the period's end: 30m, 6h, 2d, 1w.")
    timezone: Text | None = Field(
        None,
        description="Zone of the periods' midnights, for timestamps; by default the schema's, or "
        "UTC. A date has no zone.",
    )
    ready: ReadyModel | None = Field(
        None, description="What says that a period's rows have arrived; runs wait for it."
    )
    first: Text | None = Field(None, description="The first period that the source holds.")
    last: Text | None = Field(
        None, description="The last one; leave it out while the source grows."
    )
    skip: tuple[Text, ...] = Field((), description="Periods that are never released.")


def _catch_up(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1000:
        return value
    raise fault("DPR113", "a whole number from 0 to 1000 is needed here", "e.g. `catch_up: 4`")


class ScheduleModel(Strict):
    """When runs are due."""

    cron: Text = Field(description="Five cron fields.")
    timezone: Text = Field("UTC", description="Zone of the cron fields.")
    catch_up: Annotated[
        int,
        BeforeValidator(_catch_up),
        WithJsonSchema({"type": "integer", "minimum": 0, "maximum": 1000}),
    ] = Field(1, description="Missed periods released at most after downtime.")


class PipelineModel(Words):
    """A pipeline: source, schema, release, budget, publication; its words go before the schema's."""

    dprelease: Literal["pipeline/1"] = Field(description="Format and version of this file.")
    name: Identifier = Field(description="The pipeline's name.")
    source: SourceModel = Field(description="Where the rows are.")
    table_schema: Text = Field(alias="schema", description="Path of the schema file.")
    engine: Engine = Field(
        DEFAULT, description="What computes: a name, or its kind and what it may take."
    )
    period: PeriodModel | None = Field(None, description="Which rows belong to a run.")
    release: ReleaseModel | None = Field(
        None, description="Merged over the schema's block key by key; lists replace."
    )
    budget: BudgetModel = Field(description="What pays.")
    publish: PublishModel = Field(description="Where releases go.")
    schedule: ScheduleModel | None = Field(None, description="When runs are due.")
