"""Open the rows of a bounded query on a DuckDB connection: a source, or a view over tables.

A proven view becomes `view_sql.build_view` after its public keys were found unique, on the public
tables as they are read now. An unproven one is sqlglot's tree of known nodes, over views of ours
that carry the declared names. Private rows are touched by the one statement only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlglot import exp

from dprelease.core.errors import SourceError
from dprelease.engines import in_memory
from dprelease.engines.code_sql import column
from dprelease.engines.csv_header import read_header
from dprelease.engines.duckdb_tables import DuckDBTables, Opened
from dprelease.engines.hive import files_with_rows
from dprelease.engines.physical import of_duckdb, twice_named
from dprelease.engines.request import used_columns
from dprelease.engines.source import Source
from dprelease.engines.view_sql import (
    SqlRows,
    ViewStatement,
    build_view,
    repeated_key,
    scope,
    view_expressions,
)
from dprelease.query.bounded import BoundedQuery
from dprelease.query.view import Place, View
from dprelease.schema.column import NUMERIC, TEXTS, Column, Kind

_IN_PLACE = ("parquet", "duckdb_table")
"""Sources whose rows DuckDB reads itself; but for Parquet, opened once and without a list of columns."""
_TWICE = (*_IN_PLACE, "arrow", "csv", "objects")
"""Sources that one statement may read twice."""


def open_rows(
    tables: DuckDBTables, source: Source, query: BoundedQuery, *, empty: bool = False
) -> tuple[Opened, ViewStatement | None]:
    """Make the rows of `query` readable.

    Args:
        empty: the same names and types, without a private row: for binding the statement.

    Raises:
        SourceError: a source does not open or lacks a column, several tables and no view or the
            reverse (DPR509), a public key occurs twice (DPR510), or an unproven view reads what
            it cannot (DPR511).
        ConfigError: a faulty expression of the view (DPR12x).
    """
    view = query.view
    require_one_table(source, view)
    if view is None:
        return _open_one(tables, source, query, empty=empty), None
    named: Any = source.payload
    if not view.proven:
        return _open_wide(tables, named, view, empty=empty)
    return _open_proven(tables, named, view, query, empty=empty)


def _open_one(tables: DuckDBTables, source: Source, query: BoundedQuery, *, empty: bool) -> Opened:
    columns = used_columns(query)
    if source.kind in ("parquet", "objects"):
        fewer = files_with_rows(tables.connection, source, query)
        if fewer is not source:  # unless what they store depends on the files left out
            whole, part = (tables.open(s, columns, rows=False).stored for s in (source, fewer))
            source = (
                fewer if all(part.get(c.name) == whole.get(c.name) for c in columns) else source
            )
    if source.kind == "objects" and not empty:
        from dprelease.engines.object_rows import with_groups_of_period

        source = with_groups_of_period(tables.connection, source, query)
    return tables.open(source, columns, rows=True, empty=empty)


def require_one_table(source: Source, view: View | None) -> None:
    """Refuse several tables without a view, and a view without tables.

    Raises:
        SourceError: so it is (DPR509).
    """
    if (view is None) != (source.kind != "tables"):
        raise SourceError(
            "the source and the plan do not belong together",
            why="a view reads tables by name, and a plan without a view reads one table",
            fix="make the plan from the pipeline that names the source",
            code="DPR509",
        )


def repeated_key_error(table: str, columns: Iterable[str]) -> SourceError:
    """Return the refusal of a public table whose key occurs twice."""
    return SourceError(
        f"the public table {table} has a key twice: {', '.join(columns)}",
        why="a row that meets two public rows would become two rows of the view",
        fix="keep one row per key in the public table, or join by more of its columns",
        code="DPR510",
    )


def every_column(source: Source) -> tuple[Column, ...]:
    """Return the columns by which a table is opened whole; none where it is described as it is."""
    names: Iterable[str] = ()
    if source.kind in in_memory.IN_MEMORY:
        names = in_memory.names(source)
    elif source.kind == "csv":
        paths: Any = source.payload
        names = read_header(paths, source.dialect).names
    return tuple(Column(name, Kind.identifier) for name in names)


def read_again(source: Source) -> bool:
    """Return whether a table is opened once more for the columns that are read of it."""
    return source.kind == "parquet" or source.kind not in _IN_PLACE


def needed_columns(view: View, expressions: list[Any]) -> dict[str, list[str]]:
    """Return per alias the columns that a proven view reads."""
    assert view.private is not None
    out: dict[str, dict[str, None]] = {view.private[1]: {}, **{j.alias: {} for j in view.joins}}
    places = [*view.groups, *(c.place for c in view.columns if c.place is not None)]
    for join in view.joins:
        places += [(join.alias, key) for key, _ in join.keys]
        places += [place for _, place in join.keys]
    for alias, name in [*places, *calculated_columns(view, expressions)]:
        out[alias][name] = None
    return {alias: list(names) for alias, names in out.items()}


def passed_as_text(
    view: View, alias: str, declared: Mapping[str, Column], user: str | None
) -> frozenset[str]:
    """Return the columns of `alias` that are compared, or passed on, by their canonical text."""
    texts = {name for name, column in declared.items() if column.kind in TEXTS} | {user}
    places = [*view.groups, *(c.place for c in view.columns if c.name in texts)]
    places += [place for join in view.joins for _, place in join.keys]
    places += [(join.alias, key) for join in view.joins for key, _ in join.keys]
    return frozenset(place[1] for place in places if place is not None and place[0] == alias)


def columns_of(
    source: Source,
    view: View,
    alias: str,
    declared: Mapping[str, Column],
    user: str | None,
    expressions: list[Any],
    columns: Mapping[str, Column],
) -> tuple[Column, ...]:
    """Return the columns that a proven view reads of a table, as kinds that say how cells are read.

    Args:
        user: the unit's column.
        columns: what the expressions may name (`scope`).

    Raises:
        SourceError: a number of a CSV file that spells them in its own way is a text, too (DPR511).
    """
    texts = passed_as_text(view, alias, declared, user)
    names = needed_columns(view, expressions)[alias]
    if source.kind != "csv":
        return tuple(Column(n, Kind.identifier if n in texts else Kind.number) for n in names)
    kinds = [
        (c.place, declared[c.name].kind) for c in view.columns if c.place and c.name in declared
    ]
    kinds += [
        (place, columns[dotted if (dotted := ".".join(place)) in columns else place[1]].kind)
        for place in calculated_columns(view, expressions)
    ]
    numbers = {place[1] for place, kind in kinds if place[0] == alias and kind in NUMERIC}
    both = sorted(numbers & texts)
    if both and source.dialect.decimal is not None:
        raise two_readings(alias, both[0])
    return tuple(Column(n, Kind.number if n in numbers - texts else Kind.identifier) for n in names)


def two_readings(alias: str, name: str) -> SourceError:
    """Return the refusal of a number that a CSV file spells in its own way, and that is read as a text too."""
    return SourceError(
        f"the view reads {alias}.{name} as a number and as a text",
        why="its numbers have a sign of their own, so the text of 12,5 is not that of 12.5",
        fix="write the table as Parquet, or join by another column",
        code="DPR511",
    )


def calculated_columns(view: View, expressions: list[Any]) -> list[Place]:
    """Return the columns that the expressions of a proven view name, in order of their names."""
    assert view.private is not None
    aliases = {view.private[1], *(j.alias for j in view.joins)}
    out = []
    for name in sorted(name for e in expressions for name in e.columns):
        alias, dot, rest = name.partition(".")
        out.append((alias, rest) if dot and alias in aliases else (view.private[1], name))
    return out


def _open_proven(
    tables: DuckDBTables, named: dict[str, Source], view: View, query: BoundedQuery, *, empty: bool
) -> tuple[Opened, ViewStatement]:
    assert view.private is not None
    sources = {view.private[1]: named[view.private[0]]}
    sources |= {join.alias: named[join.table] for join in view.joins}
    opened = {
        alias: tables.open(s, every_column(s), rows=False, name=f"view_table_{i}")
        for i, (alias, s) in enumerate(sources.items())
    }
    declared = {c.name: c for c in query.columns}
    stored = {a: {n: p for n, (_, p) in o.stored.items()} for a, o in opened.items()}
    columns = scope(view, stored, declared)
    made, where = view_expressions(view, columns)
    read = [*made.values(), *([where] if where is not None else [])]
    needed = needed_columns(view, read)
    for i, (alias, s) in enumerate(sources.items()):
        check_names(alias, needed[alias], opened[alias])
        wanted = columns_of(s, view, alias, declared, query.user, read, columns)
        public = alias != view.private[1]
        if s.kind in ("parquet", "objects") or read_again(s):
            opened[alias] = tables.open(
                s, wanted, rows=True, empty=empty and not public, name=f"view_table_{i}"
            )
    parts = {a: SqlRows(f"view_table_{i}", o.stored) for i, (a, o) in enumerate(opened.items())}
    for join in view.joins:
        sql = repeated_key(join, parts[join.alias]).sql(dialect="duckdb")
        tables.statements.append(sql)
        if tables.connection.execute(sql).fetchall():
            raise repeated_key_error(join.table, (key for key, _ in join.keys))
    statement = build_view(view, parts, columns)
    return Opened(dict(statement.stored), frozenset()), statement


def check_names(alias: str, names: list[str], opened: Opened) -> None:
    """Refuse a table of a view that has one of `names` more than once.

    Raises:
        SourceError: so it is (DPR505).
    """
    twice = next((n for n in names if n in opened.repeated), None)
    if twice is not None:
        raise SourceError(
            f"the table {alias} has more than one column {twice!r}",
            fix="rename one of them",
            code="DPR505",
        )


def _open_wide(
    tables: DuckDBTables, named: dict[str, Source], view: View, *, empty: bool
) -> tuple[Opened, ViewStatement]:
    from dprelease.query.wide_view import names_in, wide_tree

    own = {}
    names = names_in(view)
    for i, (table, source) in enumerate(named.items()):
        if source.kind not in _TWICE:
            raise SourceError(
                f"an unproven view cannot read {table}",
                why="its rows come as a stream, which such a view might read twice",
                fix="make the view in the database, or export the table to Parquet",
                code="DPR511",
            )
        raw = source
        if source.kind == "arrow" and empty:
            payload: Any = source.payload
            raw = Source("arrow", payload.slice(0, 0), source.name)
        every = every_column(raw)
        if raw.dialect.decimal == ",":
            raise SourceError(
                f"an unproven view cannot read {table}",
                why="which of its columns hold numbers, with a decimal comma, only a proven view says",
                fix="write the table as Parquet, or with a decimal point",
                code="DPR511",
            )
        if raw.kind in ("parquet", "objects"):
            found = tables.open(raw, (), rows=False, name=f"raw_table_{i}").stored
            every = tuple(
                Column(name, Kind.number)
                for name in found
                if names is None or name.lower() in names
            )
        opened = tables.open(raw, every, rows=True, name=f"raw_table_{i}")
        parts = [
            exp.Alias(this=column(identifier), alias=exp.to_identifier(name, quoted=True))
            for name, (identifier, _) in opened.stored.items()
            if identifier
        ]
        select = exp.Select(expressions=parts).from_(exp.to_table(f"raw_table_{i}"))
        sql = f"CREATE VIEW view_table_{i} AS {select.sql(dialect='duckdb')}"
        tables.statements.append(sql)
        tables.connection.execute(sql)
        own[table] = f"view_table_{i}"
    tree = wide_tree(view, own)
    sql = f"DESCRIBE {tree.sql(dialect='duckdb')}"
    tables.statements.append(sql)
    described = tables.connection.execute(sql).fetchall()
    stored = {row[0]: (row[0], of_duckdb(row[1])) for row in described}
    twice = twice_named(name for name, *_ in described)
    return Opened(stored, twice), ViewStatement(tree, {}, stored)  # type: ignore[arg-type]
