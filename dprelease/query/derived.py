"""Derived columns: `delay: {kind: number, from: "arrival - departure", range: [-60, 600]}`.

The expression sees one row, so the column is a map of rows: it moves no sensitivity, and its value
is clamped like that of a stored column. Inside other expressions the column's name stands for its
tree; as an argument or a key, the engine computes it as its second step, before any filter.

Limits. An expression yields a double, so `from: "a / 2"` of kind integer is a half before its
clamp, and is rounded to the column's step with it. A unit cannot be derived: contributions are
bounded by what the source says a unit is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dprelease.errors import ConfigError
from dprelease.query.expression import Expression, parse_expression
from dprelease.query.grammar import COLUMN_TYPES
from dprelease.query.nodes import Type
from dprelease.query.typecheck import article
from dprelease.schema.column import Column, Kind

__all__ = ["Derived", "check_derived", "derived_column"]

_KINDS = {
    Type.number: (Kind.number, Kind.integer),
    Type.boolean: (Kind.boolean,),
    Type.text: (Kind.category,),
    Type.date: (Kind.date,),
    Type.timestamp: (Kind.timestamp,),
}


@dataclass(frozen=True, slots=True)
class Derived:
    """A derived column's name and its expression over stored columns."""

    column: str
    expression: Expression


def derived_column(name: str, columns: Mapping[str, Column]) -> Derived:
    """Return the expression behind `name`, names of derived columns replaced by theirs.

    Raises:
        ConfigError: a faulty expression (DPR12x), or a column made from itself (DPR112).
    """
    column = columns[name]
    assert column.derived is not None
    # read through the column, so that a path back to it is seen
    quoted = '"' + name.replace('"', '""') + '"'
    found = parse_expression(quoted, columns, origin=column.origin)
    return Derived(name, Expression(column.derived, found.tree, found.columns, found.type))


def check_derived(columns: Mapping[str, Column]) -> None:
    """Check every derived column of a schema: its expression, and that it yields its kind.

    Raises:
        ConfigError: as `derived_column`; or the kind does not fit (DPR112).
    """
    for name, column in columns.items():
        if column.derived is None:
            continue
        derived_column(name, columns)  # a cycle is refused here, before types
        found = parse_expression(column.derived, columns, origin=column.origin)
        fits = _KINDS[found.type]
        if column.kind in fits:
            continue
        known = column.kind in COLUMN_TYPES and column.kind not in (Kind.identifier, Kind.node)
        raise ConfigError(
            f"`{name}` is of kind {column.kind}, but its expression yields {article(found.type)}"
            if known
            else f"a column of kind {column.kind} cannot be derived",
            where=column.origin,
            why=None if known else "it says whose rows belong together: that is the source's word",
            fix=f"declare `kind: {fits[0]}`" if known else "remove `from`, and store the column",
            code="DPR112",
        )
