"""A view as one SELECT over the tables' registered rows, made from its checked parts.

A column of a table is typed like the schema's column of that name, else by how it is stored; then
conditions and expressions compile like every other (`query.sql`): bound parameters, nothing that
can raise. Joins compare the canonical texts of their keys, as units are compared, and null joins
nothing. The key's uniqueness is the caller's to check, by `repeated_key`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from dprelease.core.errors import SourceError
from dprelease.engines.code_sql import column, not_null
from dprelease.engines.physical import KINDS, Physical, fits
from dprelease.engines.typed_sql import number, typed
from dprelease.query.expression import Expression, parse_condition, parse_expression, to_sql
from dprelease.query.nodes import Type
from dprelease.query.view import Place, View, ViewJoin
from dprelease.schema.column import Column, Kind

Stored = Mapping[str, tuple[str, Physical]]
"""Column name -> (identifier, storage class)."""

_STORED = {
    Type.number: Physical.float,
    Type.boolean: Physical.boolean,
    Type.text: Physical.text,
    Type.date: Physical.date,
    Type.timestamp: Physical.timestamp,
}


@dataclass(frozen=True, slots=True)
class SqlRows:
    """One table of the view: the identifier of its rows, and how its columns are stored."""

    name: str
    stored: Stored


@dataclass(frozen=True, slots=True)
class ViewStatement:
    """A view's SELECT, its bound parameters, and its output columns."""

    tree: exp.Select
    parameters: Mapping[str, object]
    stored: Mapping[str, tuple[str, Physical]] = field(default_factory=dict)


def of_type(kind: Type) -> Physical:
    """Return how a computed column is stored."""
    return _STORED[kind]


def scope(
    view: View, stored: Mapping[str, Mapping[str, Physical]], declared: Mapping[str, Column]
) -> dict[str, Column]:
    """Return what the view's expressions may name: `alias.column`, and `column` in a lone table.

    Args:
        stored: alias -> column -> storage class.
        declared: the schema's columns, whose kinds win over the storage class.
    """
    found: dict[str, Column] = {}
    for alias, columns in stored.items():
        for name, physical in columns.items():
            like = declared.get(name)
            kind = KINDS.get(physical)
            if like is not None and like.derived is None and fits(like.kind, physical):
                kind = like.kind
            if kind is None:
                continue
            found[f"{alias}.{name}"] = Column(f"{alias}.{name}", kind)
            if not view.joins:
                found.setdefault(name, Column(name, kind))
    return found


def view_expressions(
    view: View, columns: Mapping[str, Column]
) -> tuple[dict[str, Expression], Expression | None]:
    """Return the computed columns and the filter of a proven view, typed.

    Raises:
        ConfigError: a faulty expression (DPR12x).
    """
    made = {
        c.name: parse_expression(c.text, columns, origin=c.at)
        for c in view.columns
        if c.place is None
    }
    where = (
        None if view.where is None else parse_condition(view.where, columns, origin=view.where_at)
    )
    return made, where


def build_view(
    view: View, tables: Mapping[str, SqlRows], columns: Mapping[str, Column]
) -> ViewStatement:
    """Return the SELECT of a proven view.

    Args:
        tables: alias -> its rows.
        columns: what its expressions may name (`scope`).

    Raises:
        ConfigError: a faulty expression (DPR12x).
        SourceError: a table lacks a column (DPR503).
    """
    assert view.private is not None
    made, where = view_expressions(view, columns)
    parameters: dict[str, object] = {}

    def cell(name: str) -> exp.Expression:
        """Return the typed value of `alias.column`, or of a column of the lone table."""
        alias, dot, rest = name.partition(".")
        place = (alias, rest) if dot and alias in tables else (view.private[1], name)  # type: ignore[index]
        if place[1] not in tables[place[0]].stored:
            place = (view.private[1], name)  # type: ignore[index]
        return _typed(tables, place, columns[name].kind)

    def compiled(expression: Expression, prefix: str) -> exp.Expression:
        tree, bound = to_sql(expression, cell, prefix=prefix)
        parameters.update(bound)
        return tree

    parts, out = [], {}
    for i, item in enumerate(view.columns):
        name = f"o{i}"
        if item.place is None:
            tree = compiled(made[item.name], f"view{i}_")
            out[item.name] = (name, of_type(made[item.name].type))
        else:
            identifier, physical = _stored(tables, item.place)
            tree = column(identifier, _own(tables, item.place[0]))
            out[item.name] = (name, physical)
        parts.append(exp.Alias(this=tree, alias=exp.to_identifier(name, quoted=True)))
    select = exp.Select(expressions=parts).from_(_table(tables, view.private[1]), copy=False)
    for join in view.joins:
        on: exp.Expression | None = None
        for key, place in join.keys:
            same = exp.EQ(
                this=_typed(tables, (join.alias, key), Kind.identifier),
                expression=_typed(tables, place, Kind.identifier),
            )
            on = same if on is None else exp.And(this=on, expression=same)
        kind = "left" if join.kind == "left" else "inner"
        select = select.join(_table(tables, join.alias), on=on, join_type=kind, copy=False)
    if where is not None:
        select = select.where(compiled(where, "viewwhere_"), copy=False)
    return ViewStatement(select, parameters, out)


def repeated_key(join: ViewJoin, rows: SqlRows) -> exp.Select:
    """Return a SELECT with one row if a key of the public table occurs twice, else none."""
    tables = {join.alias: rows}
    keys = [_typed(tables, (join.alias, key), Kind.identifier) for key, _ in join.keys]
    select = exp.Select(expressions=[number(1)]).from_(_table(tables, join.alias), copy=False)
    for key in keys:
        select = select.where(not_null(key.copy()), copy=False)
    twice = exp.GT(this=exp.Count(this=exp.Star()), expression=number(1))
    return select.group_by(*keys, copy=False).having(twice, copy=False).limit(1, copy=False)


def _table(tables: Mapping[str, SqlRows], alias: str) -> exp.Expression:
    name = exp.TableAlias(this=exp.to_identifier(_own(tables, alias)))
    return exp.Table(this=exp.to_identifier(tables[alias].name, quoted=True), alias=name)


def _own(tables: Mapping[str, SqlRows], alias: str) -> str:
    """Return the alias that SQL gets: no name of the file's enters it."""
    return f"t{list(tables).index(alias)}"


def _stored(tables: Mapping[str, SqlRows], place: Place) -> tuple[str, Physical]:
    check_stored(place, tables[place[0]].stored)
    return tables[place[0]].stored[place[1]]


def check_stored(place: Place, stored: Mapping[str, object]) -> None:
    """Refuse a column that its table does not have.

    Raises:
        SourceError: so it is (DPR503).
    """
    if place[1] not in stored:
        raise SourceError(
            f"the view reads {place[0]}.{place[1]}, which the source does not have",
            fix="check the name: " + ", ".join(sorted(stored)[:20]),
            code="DPR503",
        )


def _typed(tables: Mapping[str, SqlRows], place: Place, kind: Kind) -> exp.Expression:
    identifier, physical = _stored(tables, place)
    return typed(kind, physical, lambda: column(identifier, _own(tables, place[0])))
