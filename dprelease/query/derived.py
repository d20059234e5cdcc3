"""Derived columns: `delay: {kind: number, from: "arrival - departure", range: [-60, 600]}`.

The expression sees one row's cleaned values (`query.cleaning`), so the column is a map of rows: it
moves no sensitivity, and its own value is cleaned like that of a stored column before anything else
reads it. A derived column may be made from others, `MOST_LEVELS` of them one upon the other.

Limits. An expression yields a double, so `from: "a / 2"` of kind integer is a half before it is
cleaned, and is rounded to the column's step with it. A category of whole numbers may be made from
a number: `{kind: category, from: "month(visited_at)", values: [1, 2, 3]}`. A unit cannot be derived: contributions are
bounded by what the source says a unit is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from dprelease.core.errors import ConfigError
from dprelease.query.expression import parse_expression
from dprelease.query.grammar import COLUMN_TYPES
from dprelease.query.nodes import Expression, Type
from dprelease.query.typecheck import article
from dprelease.schema.column import Column, Kind

MOST_LEVELS = 64
_WHOLE = "; for groups, a category whose values are whole numbers such as [1, 2, 3]"

_KINDS = {
    Type.number: (Kind.number, Kind.integer),
    Type.boolean: (Kind.boolean,),
    Type.text: (Kind.category,),
    Type.date: (Kind.date,),
    Type.timestamp: (Kind.timestamp,),
}


@dataclass(frozen=True, slots=True)
class DerivedColumn:
    """A derived column's name and its expression over other columns' cleaned values."""

    column: str
    expression: Expression


def derived_columns(
    names: Iterable[str], columns: Mapping[str, Column]
) -> tuple[DerivedColumn, ...]:
    """Return the derived columns among `names` and behind them, each after those it is made from.

    Raises:
        ConfigError: a faulty expression (DPR12x), a column made from itself (DPR139), or more than
            `MOST_LEVELS` one upon the other (DPR121).
    """
    found: dict[str, DerivedColumn] = {}
    levels: dict[str, int] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        column = columns[name]
        if column.derived is None or name in found:
            return
        if name in path:
            raise ConfigError(
                f"the derived column `{name}` is made from itself",
                where=columns[path[-1]].origin,
                why=" from ".join(f"`{step}`" for step in (*path[path.index(name) :], name)),
                fix="derive it from stored columns",
                code="DPR139",
            )
        made = column.made or _parsed(column, column.derived, columns)
        for below in sorted(made.columns) if len(path) < MOST_LEVELS else ():
            visit(below, (*path, name))
        levels[name] = 1 + max((levels.get(below, 0) for below in made.columns), default=0)
        if len(path) == MOST_LEVELS or levels[name] > MOST_LEVELS:
            raise ConfigError(
                f"`{(*path, name)[0]}` stands on more than {MOST_LEVELS} derived columns",
                where=columns[(*path, name)[0]].origin,
                fix="write some of their expressions as one",
                code="DPR121",
            )
        found[name] = DerivedColumn(name, made)

    for name in dict.fromkeys(names):
        visit(name, ())
    return tuple(found.values())


def _parsed(column: Column, text: str, columns: Mapping[str, Column]) -> Expression:
    """Return a derived column's expression; a number is the declared whole number that it equals."""
    made = parse_expression(text, columns, origin=column.origin)
    keys = column.values or ()
    whole = keys and all(re.fullmatch(r"0|-?[1-9]\d*", key) for key in keys)
    if column.kind is not Kind.category or made.type is not Type.number or not whole:
        return made
    same = " ".join(f"when ({text}) = {key} then '{key}'" for key in keys)
    return parse_expression(
        f"case when ({text}) is null then null {same} else 'other' end",
        columns,
        origin=column.origin,
    )


def where_true(columns: Mapping[str, Column], name: str, where: str) -> Column:
    """Return a column that is another one on the rows where a condition is true, and null on all others."""
    column, called, quoted = columns[name], f"{name} where {where}", name.replace('"', '""')
    text = f'case when ({where}) then "{quoted}" end'
    while called in columns:
        called += " "
    made = parse_expression(text, columns, origin=column.origin)
    return replace(column, name=called, derived=text, made=made, null_default=None, null_label=None)


def with_derived(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Return a schema's columns, each derived one with its expression, which yields its kind.

    Raises:
        ConfigError: as `derived_columns`; or the kind does not fit (DPR138).
    """
    out = dict(columns)
    for made in derived_columns(columns, columns):
        name, found = made.column, made.expression
        column = columns[name]
        fits = _KINDS[found.type]
        if column.kind in fits:
            out[name] = replace(column, made=found)
            continue
        known = column.kind in COLUMN_TYPES and column.kind not in (Kind.identifier, Kind.node)
        raise ConfigError(
            f"`{name}` is of kind {column.kind}, but its expression yields {article(found.type)}"
            if known
            else f"a column of kind {column.kind} cannot be derived",
            where=column.origin,
            why=None if known else "it says whose rows belong together: that is the source's word",
            fix=f"declare `kind: {fits[0]}`{_WHOLE if found.type is Type.number else ''}"
            if known
            else "remove `from`, and store the column",
            code="DPR138",
        )
    return out
