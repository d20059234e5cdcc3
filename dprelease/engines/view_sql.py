"""A view as one SELECT over the tables' registered rows, made from its checked parts.

A column of a table is typed like the schema's column of that name, else by how it is stored; then
conditions and expressions compile like every other (`query.sql`): bound parameters, nothing that
can raise. Joins compare the canonical texts of their keys, as units are compared, and null joins
nothing. The key's uniqueness is the caller's to check, by `repeated_key`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dprelease.core.errors import PlanError, SourceError
from dprelease.engines.code_sql import all_of, column, not_null
from dprelease.engines.physical import KINDS, Physical, fits
from dprelease.engines.typed_sql import case, number, try_cast, typed
from dprelease.query.expression import parse_condition, parse_expression
from dprelease.query.nodes import Expression, Type
from dprelease.query.sql import to_sql
from dprelease.query.typecheck import DECLARE, article
from dprelease.query.view import COUNTS, ENDS, Over, Place, View, ViewColumn, ViewJoin
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


MOST = "1e290"
"""What is summed over a group's rows is cut to at most this size, so that no sum overflows."""


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
            declaration = declared.get(name)
            kind = KINDS.get(physical)
            if (
                declaration is not None
                and declaration.derived is None
                and fits(declaration.kind, physical)
            ):
                kind = declaration.kind
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
        PlanError: a statistic of a group's rows that takes no such values (DPR264).
    """
    made = {
        c.name: _of_group(c, parse_expression(c.text, columns, origin=c.at))
        for c in view.columns
        if c.place is None
    }
    where = (
        None if view.where is None else parse_condition(view.where, columns, origin=view.where_at)
    )
    return made, where


def _of_group(column: ViewColumn, cell: Expression) -> Expression:
    """Return an expression, of the type that its statistic of a group's rows has."""
    if column.over in COUNTS:
        return replace(cell, type=Type.number)
    times = (Type.date, Type.timestamp) if column.over in ENDS else ()
    if column.over is None or cell.type in (Type.number, *times):
        return cell
    raise PlanError(
        f"{column.over}() takes no {cell.type}",
        where=column.at,
        why=f"`{column.text[:60]}` is {article(cell.type)}",
        fix=DECLARE + "; one of dates `NAME: {kind: date}`" * bool(times)
        if cell.type is Type.text
        else "count it, or write e.g. sum(if(condition, 1, 0))",
        code="DPR264",
    )


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
            tree = _over_rows(item.over, tree) if item.over else tree
            out[item.name] = (name, of_type(made[item.name].type))
        elif view.groups:
            tree = _typed(tables, item.place, Kind.identifier)
            out[item.name] = (name, Physical.text)
        else:
            identifier, physical = _stored(tables, item.place)
            tree = column(identifier, _own(tables, item.place[0]))
            out[item.name] = (name, physical)
        parts.append(exp.Alias(this=tree, alias=exp.to_identifier(name, quoted=True)))
    select = exp.Select(expressions=parts).from_(_table(tables, view.private[1]), copy=False)
    for join in view.joins:
        table, on = _table(tables, join.alias), _meeting(tables, join)
        select = select.join(table, on=on, join_type=join.kind, copy=False)
    if where is not None:
        select = select.where(compiled(where, "viewwhere_"), copy=False)
    if view.groups:
        keys = (_typed(tables, place, Kind.identifier) for place in view.groups)
        select = select.group_by(*keys, copy=False)
    return ViewStatement(select, parameters, out)


def _meeting(tables: Mapping[str, SqlRows], join: ViewJoin) -> exp.Expression:
    """Return the condition of a join: each key's text is that of the value beside it."""
    return all_of(
        exp.EQ(
            this=_typed(tables, (join.alias, key), Kind.identifier),
            expression=_typed(tables, place, Kind.identifier),
        )
        for key, place in join.keys
    )


def _over_rows(over: Over, cell: exp.Expression) -> exp.Expression:
    """Return a statistic of a group's rows; sums in one order, so that no other row moves a last digit."""
    if over in ENDS:
        return exp.Min(this=cell) if over is Over.least else exp.Max(this=cell)
    rows = exp.Distinct(expressions=[cell]) if over is Over.different else cell
    count = try_cast(exp.Count(this=rows), "DOUBLE")
    if over in COUNTS:
        return count
    low, high = (try_cast(exp.Literal.string(end), "DOUBLE") for end in (f"-{MOST}", MOST))
    below, above = exp.LT(this=cell, expression=low), exp.GT(this=cell.copy(), expression=high)
    term = case((below, low.copy()), (above, high.copy()), default=cell.copy())
    order = exp.Order(this=term, expressions=[exp.Ordered(this=cell.copy())])
    total: exp.Expression = exp.Sum(this=order)
    if over is Over.average:
        total = exp.Div(this=total, expression=count.copy())
    return case((exp.GT(this=exp.Count(this=cell.copy()), expression=number(0)), total))


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
