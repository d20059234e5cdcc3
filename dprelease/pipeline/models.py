"""The shape of pipeline/1 files: pydantic models, used for checking and for the JSON Schema."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from dprelease.schema.models import Identifier, Number, ReleaseModel, Sql, Strict, Text, fault

__all__ = ["SOURCES", "PipelineModel", "SourceModel", "TableModel"]

SOURCES = ("parquet", "csv", "arrow", "duckdb", "postgres", "spark")


class DuckDBModel(Strict):
    """A table of a DuckDB database file."""

    database: Text = Field(description="Path of the database file.")
    table: Text = Field(description="Name of the table.")


class PostgresModel(Strict):
    """A Postgres table."""

    dsn: Text = Field(description='Connection string by reference: "${env:NAME}".')
    table: Text = Field(description="Name of the table.")


class SparkModel(Strict):
    """A Spark table."""

    table: Text = Field(description="Name of the table.")


class TableModel(Strict):
    """Where one table's rows are: exactly one kind."""

    parquet: Text | None = Field(None, description="Path or pattern of Parquet files.")
    csv: Text | None = Field(None, description="Path or pattern of CSV files with a header.")
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


class PeriodModel(Strict):
    """Which rows belong to a run."""

    column: Text = Field(description="The date or timestamp column that assigns rows to periods.")
    every: Literal["day", "week", "month", "year"] = Field(description="A period's length.")
    delay: Text | None = Field(None, description="Wait after the period's end: 30m, 6h, 2d, 1w.")
    timezone: Text = Field("UTC", description="Zone of the periods' midnights.")


class BudgetModel(Strict):
    """The durable budget that runs are charged to."""

    ledger: Text = Field(description="Path of the ledger file.")
    dataset: Identifier = Field(description="The dataset whose budget is charged.")
    epsilon: Number = Field(description="The dataset's whole budget, in nats.")
    delta: Number = Field(0, description="The dataset's whole delta.")
    composition: Literal["basic", "zcdp"] = Field(
        "basic", description="How releases add up; zcdp needs a delta."
    )


def _formats(value: object) -> object:
    if not isinstance(value, list | tuple) or not value:
        raise fault("DPR112", "a list of formats is needed here", "e.g. [parquet, csv, html]")
    return list(value)


class PublishModel(Strict):
    """Where releases go."""

    to: Text = Field(description="The public folder.")
    formats: Annotated[list[Identifier], BeforeValidator(_formats)] = Field(
        ["parquet", "csv", "html"], description="What to write beside the manifest."
    )


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


class PipelineModel(Strict):
    """A pipeline: source, schema, release, budget, publication."""

    dprelease: Literal["pipeline/1"] = Field(description="Format and version of this file.")
    name: Identifier = Field(description="The pipeline's name.")
    source: SourceModel = Field(description="Where the rows are.")
    table_schema: Text = Field(alias="schema", description="Path of the schema file.")
    engine: Literal["duckdb", "spark"] = Field("duckdb", description="What computes.")
    period: PeriodModel | None = Field(None, description="Which rows belong to a run.")
    release: ReleaseModel | None = Field(
        None, description="Merged over the schema's block key by key; lists replace."
    )
    budget: BudgetModel = Field(description="What pays.")
    publish: PublishModel = Field(description="Where releases go.")
    schedule: ScheduleModel | None = Field(None, description="When runs are due.")
