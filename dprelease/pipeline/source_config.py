"""Where a pipeline's rows are: one file, one table of a database, or a view over declared tables.

Paths are absolute when they are here and stay inside the project; a connection string is a
reference that is read when the source opens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dprelease.core import registry
from dprelease.core.errors import ArgumentError, SourceError
from dprelease.engines.csv_header import Dialect, dialect
from dprelease.engines.engine import reads
from dprelease.engines.object_store import is_address, parsed
from dprelease.pipeline.models import SOURCES, CsvModel, SourceModel, TableModel
from dprelease.pipeline.secret_reference import SecretReference, secret_at
from dprelease.query.read_view import parse_view
from dprelease.query.view import View
from dprelease.schema.declaration_file import DeclarationFile
from dprelease.schema.paths import confined_glob


@dataclass(frozen=True, slots=True)
class SourceConfig:
    """Where the rows are.

    Attributes:
        kind: parquet, objects, csv, arrow, duckdb, postgres or spark.
        path: absolute path or pattern (parquet, csv, arrow), the address of objects (objects), or
            the DuckDB file.
        table: table name (duckdb, postgres, spark).
        dsn: reference to the connection string (postgres).
        view: what `tables` are read through (kind view): a name of the view -> its source.
        root: the project's root, when files match; files that appear later may not lead out either.
        signs: of CSV files, as far as stated.
    """

    kind: str
    path: str | None = None
    table: str | None = None
    dsn: SecretReference | None = None
    view: View | None = None
    tables: Mapping[str, SourceConfig] = field(default_factory=dict)
    root: Path | None = None
    signs: Dialect = Dialect()  # noqa: RUF009 - immutable


def read_source(
    file: DeclarationFile, model: SourceModel, engine: str, allow: tuple[str, ...]
) -> SourceConfig:
    """Return where the rows are; opens nothing.

    Args:
        engine: the engine's kind; not every source fits every one.
        allow: the release's opt-ins, for what a view may do.

    Raises:
        ConfigError: not exactly one kind, or one that does not fit (DPR140); as `parse_view`.
        SourceError: a faulty address of objects (DPR525).
    """
    file = file.below("source")
    if model.view is not None:
        return _view(file, model, model.view, engine, allow)
    for key in ("tables", "public_tables"):
        if getattr(model, key):
            file.fail(
                f"`{key}` belongs to a view",
                key,
                fix="add `view: SELECT …`, or name one source",
                code="DPR140",
            )
    return _table(file, model, engine)


def _view(
    file: DeclarationFile, model: SourceModel, select: str, engine: str, allow: tuple[str, ...]
) -> SourceConfig:
    kinds = [kind for kind in SOURCES if getattr(model, kind) is not None]
    if kinds or not model.tables or engine == "spark":
        file.fail(
            "a view reads declared tables",
            "view",
            fix="`source: {view: SELECT …, tables: {visits: {parquet: …}}, public_tables: {…}}`",
            code="DPR140",
        )
    twice = next((n for n in model.public_tables if n in model.tables), None)
    if twice is not None:
        file.fail(
            f"`{twice}` is both private and public",
            "public_tables",
            fix="give one of the tables another name",
            code="DPR140",
        )
    for name, table in model.public_tables.items():
        if table.postgres is not None or table.spark is not None:
            file.fail(
                "a public table is a file",
                "public_tables",
                name,
                fix="parquet, csv, arrow or duckdb",
                code="DPR140",
            )
    # DuckDB reads the public tables of a view in PostgreSQL, which they enter as parameters
    by = {"tables": engine, "public_tables": "duckdb" if engine == "postgres" else engine}
    tables = {
        name: _table(file.below(group, name), table, by[group])
        for group in ("tables", "public_tables")
        for name, table in getattr(model, group).items()
    }
    view = parse_view(
        select,
        private=model.tables,
        public=model.public_tables,
        allow=allow,
        origin=file.line_of("view"),
    )
    used = {name: table for name, table in tables.items() if name in view.tables}
    return SourceConfig("view", view=view, tables=used)


def _table(file: DeclarationFile, model: TableModel, engine: str) -> SourceConfig:
    kinds = [kind for kind in SOURCES if getattr(model, kind) is not None]
    if len(kinds) != 1:
        file.fail(
            f"a source has exactly one kind, not {len(kinds)}",
            fix="e.g. `source: {parquet: ../data/visits.parquet}`",
            code="DPR140",
        )
    kind = kinds[0]
    if not reads(engine, kind):
        at = file if kind == "spark" else replace(file, place=("engine",))
        at.fail(
            f"the source `{kind}` does not fit the engine `{engine}`",
            fix=f"`engine: {engine}` reads {', '.join(k for k in SOURCES if reads(engine, k))}; "
            f"engines that read it: {', '.join(e for e in registry.names('engines') if reads(e, kind))}",
            code="DPR140",
        )
    where = file.line_of(kind)
    inside = {"base": file.folder, "root": file.root, "origin": where}
    if model.duckdb is not None:
        database = file.path(model.duckdb.database, kind, "database")
        return SourceConfig(kind, path=str(database), table=model.duckdb.table)
    if model.postgres is not None:
        dsn = secret_at(file, model.postgres.dsn, kind, "dsn")
        return SourceConfig(kind, table=model.postgres.table, dsn=dsn)
    if model.spark is not None:
        return SourceConfig(kind, table=model.spark.table)
    if isinstance(model.csv, CsvModel):
        path = confined_glob(model.csv.path, **inside)  # type: ignore[arg-type]
        signs = _signs(file, model.csv)
        return SourceConfig(kind, path=path, root=file.root, signs=signs)
    text: str = getattr(model, kind)
    if is_address(text):
        return _objects(file, text, kind, engine)
    path = confined_glob(text, **inside)  # type: ignore[arg-type]
    return SourceConfig(kind, path=path, root=file.root)


def _signs(file: DeclarationFile, model: CsvModel) -> Dialect:
    try:
        return dialect(model.delimiter, model.decimal)
    except ArgumentError as faulty:
        key = "decimal" if "decimal" in faulty.what else "delimiter"
        file.fail(faulty.what, "csv", key, why=faulty.why, fix=faulty.fix or "", code="DPR140")


def _objects(file: DeclarationFile, text: str, kind: str, engine: str) -> SourceConfig:
    """Return a source of objects in a cloud's store; asks the store nothing."""
    if kind != "parquet" or engine == "spark":
        file.fail(
            "objects in a store are read as Parquet, by DuckDB",
            kind,
            fix="`engine: duckdb` with `parquet: s3://…`; Spark reads a store through its own catalogue: "
            "`source: {spark: {table: …}}`",
            code="DPR140",
        )
    try:
        parsed(text)
    except SourceError as faulty:
        fault = (faulty.what, faulty.why, faulty.fix)
    else:
        return SourceConfig("objects", path=text)
    what, why, fix = fault
    raise SourceError(what, where=file.line_of(kind), why=why, fix=fix, code="DPR525")
