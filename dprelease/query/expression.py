"""The small typed expression language over one row: filters and conditions.

Columns (plain or "double-quoted"), numbers, 'text', true/false/null, date '2013-01-31' (plain
'2013-01-31' beside a date or timestamp column), = == != <> < <= > >=, and/or/not, in, between,
is null, + - * / %, abs(), floor(), ceil(), year() quarter() month() week() day() hour() minute() weekday()
(Monday is 1), timestamp(), days_between(start, end) and the same with hours, minutes, seconds,
case when … end, if(c, a, b), coalesce(). Null logic is SQL's. Types are checked when parsing.
A column's name stands for its cleaned value (`query.cleaning`), be it stored or derived.

There are no subqueries, windows, aggregates, clocks or random numbers: the value depends on one
row alone, which is what makes a filter's stability 1.
"""

from __future__ import annotations

from collections.abc import Mapping

from dprelease.core.errors import ConfigError
from dprelease.query.evaluation import evaluate_node
from dprelease.query.grammar import Parser
from dprelease.query.nodes import Expression, Type, Value
from dprelease.schema.column import Column


def parse_expression(text: str, columns: Mapping[str, Column], *, origin: str) -> Expression:
    """Return the typed tree of `text` over `columns`.

    Raises:
        ConfigError: syntax (DPR120), size (DPR121), unknown column (DPR122), mismatched types
            (DPR123), unknown function (DPR124), chained comparison (DPR125), faulty constant
            (DPR126), a column in single quotes (DPR127), null for a value (DPR129), a wrong number of
            arguments (DPR162), a value that its column cannot have (DPR164); `where` is `origin` plus
            the character.
    """
    parser = Parser(text, columns, origin)
    tree, kind = parser.parse()
    return Expression(text, tree, frozenset(parser.used), kind)


def parse_condition(text: str, columns: Mapping[str, Column], *, origin: str) -> Expression:
    """Return `text` as a condition (true, false or null per row).

    Raises:
        ConfigError: as `parse_expression`, or the text is not a condition (DPR127).
    """
    expression = parse_expression(text, columns, origin=origin)
    if expression.type is not Type.boolean:
        raise ConfigError(
            f"`{text}` is not a condition",
            where=origin,
            why=f"it yields a {expression.type}",
            fix=f"compare it with something, e.g. `{text} {'> 0' if expression.type is Type.number else 'is not null'}`",
            code="DPR127",
        )
    return expression


def type_of(text: str, columns: Mapping[str, Column]) -> Type | None:
    """Return what `text` yields over `columns`; None where it is no expression of them."""
    try:
        found = parse_expression(text, columns, origin="")
    except ConfigError:
        return None
    return found.type if found.columns else None


def evaluate(expression: Expression, row: Mapping[str, object]) -> Value:
    """Return the expression's value on `row` (column name to cleaned value).

    The reference for every engine. Numbers come as int or float, NaN is null; timestamps as naive UTC or aware datetimes.
    """
    return evaluate_node(expression.tree, row)
