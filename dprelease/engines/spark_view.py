"""Open the rows of a bounded query in Spark: one source, or a proven view over several.

A proven view is the tree that DuckDB gets (`view_sql`), over DataFrames whose columns are renamed by
position. Its public keys are found unique by one more statement per public table, which reads no
private row.

A column that is joined by, or passed on as a text, is compared by its text form. Where Spark spells
a type differently from DuckDB (`spark_tables`), the column is projected as DuckDB's text; if the
view also calculates with it, it has no one form, and is refused.

Limits. Unproven views are refused: they hold any SQL that sqlglot knows, and rounding, integer
division and the order of nulls differ between the dialects, so the integers could.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dprelease.core.errors import SourceError
from dprelease.engines.duckdb_tables import Opened
from dprelease.engines.duckdb_view import (
    calculated_columns,
    check_names,
    columns_of,
    needed_columns,
    passed_as_text,
    repeated_key_error,
    require_one_table,
)
from dprelease.engines.physical import Physical
from dprelease.engines.request import used_columns
from dprelease.engines.source import Source
from dprelease.engines.spark_sql import translated
from dprelease.engines.spark_tables import check_files, frame_of, of_spark, projected, respelt
from dprelease.engines.view_sql import (
    SqlRows,
    ViewStatement,
    build_view,
    repeated_key,
    scope,
    view_expressions,
)
from dprelease.query.bounded import BoundedQuery
from dprelease.query.view import View
from dprelease.schema.column import Column, Kind


@dataclass(frozen=True, slots=True)
class SparkRows:
    """What a statement reads.

    Attributes:
        frames: name in the statement -> DataFrame, columns `c0`, `c1`, ….
        opened: the declared columns that the rows store.
        view: the query's view over the frames, if it has one.
        keys: public table -> (its key columns, statement with a row if a key occurs twice).
    """

    frames: Mapping[str, Any]
    opened: Opened
    view: ViewStatement | None = None
    keys: tuple[tuple[str, tuple[str, ...], Any], ...] = ()

    def check_keys(self, session: Any, names: Mapping[str, str]) -> None:
        """Read the public tables, which are registered under `names`.

        Raises:
            SourceError: a key of a public table occurs twice (DPR510).
        """
        for table, columns, tree in self.keys:
            sql, parameters = translated(tree, {}, names)
            if session.sql(sql, args=parameters).collect():
                raise repeated_key_error(table, columns)


def session_frame(source: Source) -> Any:
    """Return a DataFrame of `source`, whose session is to be used; None where it has none."""
    payload: Any = source.payload
    if source.kind == "tables":
        found = (session_frame(table) for table in payload.values())
        return next((frame for frame in found if frame is not None), None)
    return payload if source.kind == "spark_frame" else None


def open_frames(session: Any, source: Source, query: BoundedQuery, *, rows: bool) -> SparkRows:
    """Return the rows of `query` as DataFrames; with `rows=False`, look at public data only.

    Raises:
        SourceError: as `duckdb_view.open_rows`; or the view is unproven, or calculates with a column
            that it also compares as a text of Spark's own spelling (DPR516).
        ConfigError: a faulty expression of the view (DPR12x).
    """
    view = query.view
    require_one_table(source, view)
    if view is None:
        columns = used_columns(query)
        check_files(source, columns, missing=query.missing)
        frame = frame_of(session, source, columns if rows or not columns else None, rows=rows)
        found, opened = projected(frame, columns, texts=source.kind == "csv")
        return SparkRows({"source_rows": found}, opened)
    if not view.proven or view.private is None:
        raise SourceError(
            "the Spark engine reads proven views only",
            why="in any other SQL, Spark rounds, divides and sorts otherwise than DuckDB",
            fix="make the view in Spark and name it, or use `engine: duckdb`",
            code="DPR516",
        )
    named: Any = source.payload
    sources = {view.private[1]: named[view.private[0]]}
    sources |= {join.alias: named[join.table] for join in view.joins}
    private = view.private[1]
    frames = {
        alias: frame_of(session, source, rows=source.kind != "csv" and (rows or alias != private))
        for alias, source in sources.items()
    }
    return _joined(session, frames, sources, view, query, rows=rows)


def _joined(
    session: Any,
    frames: dict[str, Any],
    sources: Mapping[str, Source],
    view: View,
    query: BoundedQuery,
    *,
    rows: bool,
) -> SparkRows:
    assert view.private is not None
    declared = {c.name: c for c in query.columns}
    types = {alias: dict(frame.dtypes) for alias, frame in frames.items()}
    physical = {a: {n: of_spark(kind) for n, kind in found.items()} for a, found in types.items()}
    seen = scope(view, physical, declared)
    made, where = view_expressions(view, seen)
    read = [*made.values(), *([where] if where is not None else [])]
    calculated = calculated_columns(view, read)
    needed = needed_columns(view, read)
    opened: dict[str, Opened] = {}
    found: dict[str, Any] = {}
    for i, (alias, source) in enumerate(sources.items()):
        texts = passed_as_text(view, alias, declared, query.user)
        columns = []
        for name in needed[alias]:
            spelt = name in texts and name in types[alias] and respelt(types[alias][name])
            if spelt and (alias, name) in calculated:
                raise SourceError(
                    f"the view uses {alias}.{name} as a text and calculates with it",
                    why=f"Spark stores it as {types[alias][name]}, and spells that otherwise than DuckDB",
                    fix="cast it in Spark, once for each use, or use `engine: duckdb`",
                    code="DPR516",
                )
            columns.append(Column(name, Kind.identifier if spelt else Kind.number))
        check_files(
            source,
            tuple(Column(n, Kind.identifier if n in texts else Kind.number) for n in needed[alias]),
            missing=query.missing,
        )
        if source.kind == "csv":  # its rows, now that it is known which cells are numbers
            wanted = columns_of(source, view, alias, declared, query.user, read, seen)
            now = rows or alias != view.private[1]
            frames[alias] = frame_of(session, source, wanted, rows=now)
        found[f"view_table_{i}"], opened[alias] = projected(
            frames[alias], tuple(columns), texts=source.kind == "csv"
        )
        check_names(alias, needed[alias], opened[alias])
    stored = {a: {n: kind for n, (_, kind) in o.stored.items()} for a, o in opened.items()}
    parts = {a: SqlRows(f"view_table_{i}", _read(o)) for i, (a, o) in enumerate(opened.items())}
    keys = tuple(
        (join.table, tuple(key for key, _ in join.keys), repeated_key(join, parts[join.alias]))
        for join in view.joins
    )
    statement = build_view(view, parts, scope(view, stored, declared))
    return SparkRows(found, Opened(dict(statement.stored), frozenset()), statement, keys)


def _read(opened: Opened) -> dict[str, tuple[str, Physical]]:
    return {name: found for name, found in opened.stored.items() if found[0]}
