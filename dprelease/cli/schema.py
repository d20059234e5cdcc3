"""`dprelease schema`: check a schema file, or print the JSON Schema for editors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from dprelease.cli.check import open_lines
from dprelease.cli.terminal import AsJson, guarded, print_json, save, say
from dprelease.core.numeric import counted

Kind = Literal["schema", "pipeline", "manifest"]

app = typer.Typer(
    help="Check schema files, draft one, or print their JSON Schema.", no_args_is_help=True
)


@app.command("check")
@guarded
def check(
    file: Annotated[Path, typer.Argument(help="A schema file.")],
    as_json: AsJson = False,
) -> None:
    """Check a schema file and, if it has a default release, that it can be planned.

    Example: dprelease schema check schemas/flights.yaml
    """
    from dprelease.pipeline.planned import plan_release
    from dprelease.query.load import Schema
    from dprelease.release_plan.weak import weak_promise
    from dprelease.schema.unit import describe

    schema = Schema.load(file)
    planned = plan_release(schema, origin=str(file), brief=True) if schema.release else None
    found = {
        "schema": schema.name,
        "protects": describe(schema.adjacency, schema.unit, schema.about.unit_name),
        "columns": {c.name: c.kind.value for c in schema.columns.values()},
        "statistics": [s.name for s in planned.statistics] if planned else [],
    }
    if as_json:
        print_json(found)
        return
    say(", ".join(filter(None, (f"{file}: valid", open_lines(file)))), style="green")
    say(f"protects  {found['protects']}")
    for column in schema.columns.values():
        domain = f" {column.domain}" if column.domain is not None else ""
        step = f" step {column.step}" if column.step not in (None, 1) else ""
        lists = "".join(f" {each.partition('@')[0]}" for each in column.lists)
        say(f"  {column.name:<18} {column.kind.value:<10}{domain}{step}{lists}")
    if planned:
        asks = counted(len(planned.statistics), "statistic")
        say(f"default release: {asks}, {planned.in_words(planned.guarantee)}")
        if weak := weak_promise(planned.epsilon):
            say(weak, style="yellow")


@app.command("json-schema")
@guarded
def json_schema(
    which: Annotated[Kind, typer.Argument(help="`schema`, `pipeline` or `manifest`.")] = "schema",
    of: Annotated[Kind | None, typer.Option(help="The same, by name.")] = None,
) -> None:
    """Print the JSON Schema of schema files (or pipeline files, or manifests).

    Example: dprelease schema json-schema pipeline > pipeline.schema.json

    Example: dprelease schema json-schema --of manifest > release.schema.json
    """
    from dprelease.schema.json_schema import json_schema as build

    print_json(build(of or which))


@app.command("draft")
@guarded
def draft(
    source: Annotated[
        str,
        typer.Argument(
            help="A Parquet or CSV file, FILE.duckdb:TABLE, '${env:DSN}:TABLE' of PostgreSQL, or a"
            " Frictionless resource (.json, .yaml)."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write here instead of printing.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the schema.")] = None,
) -> None:
    """Draft a schema from a table's column names and types; no value is read.

    Every question that only you can answer stands on a line with ANSWER.

    Example: dprelease schema draft data/visits.parquet -o schemas/visits.yaml
    """
    from dprelease.pipeline.drafted import draft_schema, named_source

    if Path(source).suffix in (".json", ".yaml", ".yml"):
        from dprelease.schema.importers.contracts import draft_schema as contract

        _write(contract(source), out)
        return
    found, called = named_source(source)
    _write(draft_schema(found, name=called if name is None else name), out)


@app.command("import")
@guarded
def import_(
    file: Annotated[Path, typer.Argument(help="The contract.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write here instead of printing.")
    ] = None,
    table: Annotated[
        str | None, typer.Option("--table", help="Which table, if the contract has several.")
    ] = None,
) -> None:
    """Draft a schema from an Open Data Contract (v3), a Frictionless schema or a pandera schema.

    The format is detected. Only declared bounds are taken over; lines with ANSWER are yours.

    Example: dprelease schema import contract.yaml -o schemas/visits.yaml
    """
    from dprelease.schema.importers.contracts import draft_schema

    _write(draft_schema(file, table=table), out)


def _write(text: str, out: Path | None) -> None:
    """Print a draft, or write it where nothing is yet."""
    from dprelease.core.errors import ArgumentError

    if out is None:
        typer.echo(text, nl=False)
        return
    if out.exists():
        raise ArgumentError(
            f"{out} exists already",
            why="a draft never replaces a schema somebody may have edited",
            fix="choose another name with --out, or remove the file",
            code="DPR608",
        )
    save(out, text.encode())
    lines = text.count("# ANSWER ") - text.count("`# ANSWER `")  # the head says what it means
    say(f"{out}: drafted, {counted(lines, 'line')} to answer", style="green")
