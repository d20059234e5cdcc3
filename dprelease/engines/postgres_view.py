"""A proven view inside PostgreSQL: the private table stays where it is, public tables come as parameters.

    private_rows   the columns that the view reads, as it reads them (`postgres_cells`)
    view_rows      `view_sql.build_view` over them and unnest() of the public columns
    source_rows    as for a table: the view's columns are read like those of any other

The proof is that of `query.read_view`: a row of the view is made from one private row and at most one
row of each public table. So the public rows are read here (`postgres_public`), their keys are found
unique among these very rows, and these rows travel as arrays.

A column may be read in several ways: as a key by its text, in expressions by its kind, passed on as it
is stored. Each way is a column of its own in `private_rows`. Public cells get their declared kind here,
so that the server casts no cell of a file.

Limits. Unproven views are refused: they hold any SQL that sqlglot knows, and most of it raises at some
cell, where PostgreSQL has nothing like DuckDB's TRY.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dprelease.core.errors import SourceError
from dprelease.engines.bounded_sql import Statement
from dprelease.engines.duckdb_view import (
    calculated_columns,
    check_names,
    needed_columns,
    require_one_table,
)
from dprelease.engines.physical import Physical
from dprelease.engines.postgres import PostgresType
from dprelease.engines.postgres_cells import cell, quoted
from dprelease.engines.postgres_public import PublicTables, check_keys
from dprelease.engines.postgres_sql import postgres_statement
from dprelease.engines.postgres_stages import Projection, fence_large
from dprelease.engines.request import used_columns
from dprelease.engines.source import Source
from dprelease.engines.view_sql import SqlRows, build_view, check_stored, scope, view_expressions
from dprelease.query.bounded import BoundedQuery
from dprelease.query.nodes import Expression, Type
from dprelease.query.view import Place, View, ViewColumn
from dprelease.schema.column import Kind

if TYPE_CHECKING:
    import pyarrow as pa

_PRIVATE = "private_rows"
_KEY = "\0key"
"""Marks the way that a column is joined by; no column's name holds NUL, in PostgreSQL or a file."""

_TEXT = PostgresType("text", Physical.text)
_TYPES = {
    Kind.integer: PostgresType("float8", Physical.float),
    Kind.number: PostgresType("float8", Physical.float),
    Kind.boolean: PostgresType("bool", Physical.boolean),
    Kind.date: PostgresType("date", Physical.date),
    Kind.timestamp: PostgresType("timestamp", Physical.timestamp),
}
"""How the server holds a public cell, or a calculated one, of a kind; all others are texts."""

_KINDS = {
    Type.number: Kind.number,
    Type.boolean: Kind.boolean,
    Type.text: Kind.category,
    Type.date: Kind.date,
    Type.timestamp: Kind.timestamp,
}


@dataclass(frozen=True, slots=True)
class ViewRows:
    """A view as rows under the statement.

    Attributes:
        table: what `source_rows` reads.
        stages: what stands before `source_rows`: name -> rows or SQL, in order.
        parameters: by name.
        columns: declared column -> (identifier, type in the server).
        stored: declared column -> how the view stores it, for the checks of every engine.
    """

    table: str
    stages: Mapping[str, Projection | str]
    parameters: Mapping[str, object]
    columns: Mapping[str, tuple[str, PostgresType]]
    stored: Mapping[str, Physical]


def private_source(source: Source, query: BoundedQuery) -> Source:
    """Return the PostgreSQL table that holds the private rows.

    Raises:
        SourceError: there is none, or the view is unproven (DPR516); several tables and no view, or
            the reverse (DPR509).
    """
    view, found = query.view, source
    if source.kind in ("tables", "postgres"):
        require_one_table(source, view)
    if view is not None and (not view.proven or view.private is None):
        raise SourceError(
            "the PostgreSQL engine reads proven views only",
            why="in any other SQL some cell can raise in the server, after the charge",
            fix="make the view in the database and name it, or use `engine: duckdb`",
            code="DPR516",
        )
    if view is not None and view.private is not None and source.kind == "tables":
        named: Any = source.payload
        found = named[view.private[0]]
    if found.kind != "postgres":
        raise SourceError(
            f"the PostgreSQL engine does not read {found.name}",
            why="it reads one table or view of a PostgreSQL database, where it is",
            fix="name a table of the database, or use `engine: duckdb`",
            code="DPR516",
        )
    return found


def view_rows(
    table: str, types: Mapping[str, PostgresType], source: Source, query: BoundedQuery
) -> ViewRows:
    """Return the view of `query` over a table of the database and public tables, which are read now.

    Args:
        table: the private table, quoted.
        types: of its columns.
        source: has passed `private_source`.

    Raises:
        SourceError: a public table does not open (DPR502 and its like), lacks a column (DPR503), has one
            twice (DPR505), repeats a key (DPR510) or holds what PostgreSQL has no place for (DPR516).
        ConfigError: a faulty expression of the view (DPR12x).
    """
    view = query.view
    assert view is not None
    named: Any = source.payload
    sources = {join.alias: named[join.table] for join in view.joins}
    with PublicTables(sources, missing=query.missing) as public:
        return _Builder(view, query, types, public).build(table)


class _Builder:
    """One view of one query; `readings` are the columns that its tables are read by."""

    def __init__(
        self,
        view: View,
        query: BoundedQuery,
        types: Mapping[str, PostgresType],
        public: PublicTables,
    ) -> None:
        assert view.private is not None
        self.private = view.private[1]
        self.types = types
        self.public = public
        declared = {c.name: c for c in query.columns}
        own = {name: kind.physical for name, kind in types.items()}
        self.physical = {self.private: own, **public.physical}
        self.scope = scope(view, self.physical, declared)
        made, where = view_expressions(view, self.scope)
        self._check(view, made, where)
        used = used_columns(query)
        self.kinds = {c.name: c.kind for c in used}
        self.view = replace(view, columns=tuple(c for c in view.columns if c.name in self.kinds))
        self.made = {name: tree for name, tree in made.items() if name in self.kinds}
        self.read = [*self.made.values(), *([where] if where is not None else [])]
        self.names: dict[tuple[str, str, Kind | None], str] = {}
        self.readings: dict[Place, tuple[str, Kind | None]] = {}

    def _check(self, view: View, made: Mapping[str, Expression], where: Expression | None) -> None:
        """Refuse missing and repeated columns, also of what no statistic reads: all engines do."""
        read = [*made.values(), *([where] if where is not None else [])]
        for alias, names in needed_columns(view, read).items():
            for name in names:
                check_stored((alias, name), self.physical[alias])
            if alias != self.private:
                check_names(alias, names, self.public.opened[alias])

    def build(self, table: str) -> ViewRows:
        view = self._by_readings()
        parts: dict[str, str] = {}
        stored: dict[str, dict[str, tuple[str, Physical]]] = {a: {} for a in self.physical}
        kinds: dict[str, Physical] = {}
        wanted: dict[str, dict[str, tuple[str, Kind]]] = {a: {} for a in self.public.physical}
        for (alias, reading), (name, kind) in self.readings.items():
            identifier = self.names[alias, name, kind]
            if alias == self.private:
                parts[identifier], kinds[identifier] = self._own(name, kind)
            else:
                assert kind is not None
                wanted[alias][identifier] = (name, kind)
                kinds[identifier] = _TYPES.get(kind, _TEXT).physical
            stored[alias][reading] = (identifier, kinds[identifier])
        tables = self._public_tables(wanted)
        rows = {
            a: SqlRows(_named(a, self.private, list(stored)), columns)
            for a, columns in stored.items()
        }
        made = build_view(view, rows, self.scope)
        fence_large(made.tree, Projection(table, parts).sizes)
        sql, parameters = postgres_statement(
            Statement(made.tree, made.parameters, tables),
            {},
            booleans=frozenset(n for n, p in kinds.items() if p is Physical.boolean),
            doubles=frozenset(n for n, p in kinds.items() if p is Physical.float),
        )
        return ViewRows(
            "view_rows",
            {_PRIVATE: Projection(table, parts), "view_rows": sql},
            parameters,
            {c.name: (made.stored[c.name][0], self._type(c)) for c in self.view.columns},
            {c.name: self._stored(c, made.stored[c.name][1]) for c in self.view.columns},
        )

    def _public_tables(
        self, wanted: Mapping[str, Mapping[str, tuple[str, Kind]]]
    ) -> dict[str, pa.Table]:
        """Return the public rows under the names that the view calls them by; no key is there twice."""
        aliases = list(self.physical)
        tables = {}
        for join in self.view.joins:
            found = self.public.rows(join.alias, wanted[join.alias])
            keys = [self.names[join.alias, key, Kind.identifier] for key, _ in join.keys]
            check_keys(join, found.select(keys))
            tables[_named(join.alias, self.private, aliases)] = found
        return tables

    # -- ways ----------------------------------------------------------------------------------

    def _by_readings(self) -> View:
        """Return the view over ways in place of columns, which are remembered."""
        joins = []
        for join in self.view.joins:
            keys = tuple(
                (self._key((join.alias, key))[1], self._key(place)) for key, place in join.keys
            )
            joins.append(replace(join, keys=keys))
        columns = []
        for one in self.view.columns:
            if one.place is None:
                columns.append(one)
                continue
            if self.view.groups:
                columns.append(replace(one, place=self._key(one.place)))
                continue
            kind = None if one.place[0] == self.private else _plain(self.kinds[one.name])
            reading = f"{one.place[1]}\0{'' if kind is None else kind}"
            columns.append(replace(one, place=self._reading(one.place, reading, kind)))
        for alias, name in calculated_columns(self.view, self.read):
            dotted = self.scope.get(f"{alias}.{name}") or self.scope[name]
            self._reading((alias, name), name, _plain(dotted.kind))
        groups = tuple(map(self._key, self.view.groups))
        return replace(self.view, joins=tuple(joins), columns=tuple(columns), groups=groups)

    def _key(self, place: Place) -> Place:
        return self._reading(place, place[1] + _KEY, Kind.identifier)

    def _reading(self, place: Place, reading: str, kind: Kind | None) -> Place:
        alias, name = place
        self.names.setdefault((alias, name, kind), f"r{len(self.names)}")
        self.readings[alias, reading] = (name, kind)
        return alias, reading

    # -- columns -------------------------------------------------------------------------------

    def _own(self, name: str, kind: Kind | None) -> tuple[str, Physical]:
        """Return a private column as the view reads it, and how that is stored."""
        if kind is None:
            return quoted(name), self.types[name].physical
        made = cell(name, self.types[name], kind, unit=False)
        return made.sql, made.physical

    def _type(self, one: ViewColumn) -> PostgresType:
        if one.place is None:
            return _TYPES.get(_KINDS[self.made[one.name].type], _TEXT)
        if self.view.groups:
            return _TEXT
        if one.place[0] == self.private:
            return self.types[one.place[1]]
        return _TYPES.get(self.kinds[one.name], _TEXT)

    def _stored(self, one: ViewColumn, calculated: Physical) -> Physical:
        if one.place is None or self.view.groups:
            return calculated
        return self.physical[one.place[0]][one.place[1]]


def _plain(kind: Kind) -> Kind:
    """Return one kind for those that are read alike."""
    if kind is Kind.integer:
        return Kind.number
    return Kind.identifier if kind in (Kind.category, Kind.node) else kind


def _named(alias: str, private: str, aliases: list[str]) -> str:
    return _PRIVATE if alias == private else f"public_rows_{aliases.index(alias)}"
