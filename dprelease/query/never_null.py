"""Which conditions are true or false on every row, so that no row leaves a share unnoticed.

A condition may be unknown (null) on a row, and then the row counts neither in the share's numerator
nor in its denominator: the number of rows is private, although the table's own is public. `never_null`
says where that cannot happen, from the declared columns alone:

    a column        its nulls have a default; of a category: declared values, `other` and the key of null
    x is null       always known
    coalesce        one option is always known
    case, if        every value it can give is known (an unknown condition goes on to the next branch)
    + - *           both sides known, and bounded so that no double overflows
    / %             the same, and the divisor a constant other than 0
    others          all operands known

Everything else may be null: dates and timestamps have no default, and days between two may be unknown.

Sources: `docs/theory/sensitivities-and-contribution-bounding.md#when-the-number-of-rows-is-public`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from dprelease.query import nodes as n
from dprelease.query.nodes import Expression, Node, Type
from dprelease.schema.column import Column, Kind

_FINITE = 1e150
"""Far enough from the largest double that no rounding of a bound matters."""


def never_null(expression: Expression, columns: Iterable[Column]) -> bool:
    """Return whether `expression` is known on every row of cleaned `columns`, whatever they hold."""
    return _known(expression.tree, {c.name: c for c in columns})


def _known(node: Node, columns: dict[str, Column]) -> bool:
    match node:
        case n.Literal():
            return node.value is not None
        case n.ColumnRef():
            return _filled(columns[node.name]) if node.name in columns else False
        case n.IsNull():
            return True
        case n.Coalesce():
            return any(_known(option, columns) for option in node.options)
        case n.Case():
            values = [*(value for _, value in node.branches), node.otherwise]
            return all(_known(value, columns) for value in values)
        case n.Arithmetic():
            return _known_arithmetic(node, columns)
        case (
            n.Compare()
            | n.Between()
            | n.In()
            | n.Not()
            | n.Logic()
            | n.Negate()
            | n.Call(name="abs")
        ):
            return all(_known(child, columns) for child in n.children(node))
        case _:
            return False


def _filled(column: Column) -> bool:
    """Return whether the column's cleaned value is never null (`query.cleaning`)."""
    if column.kind in (Kind.integer, Kind.number, Kind.boolean):
        return column.null_default is not None
    named = bool(column.values) and column.other is not None and column.null_label is not None
    return column.kind is Kind.category and named


def _known_arithmetic(node: n.Arithmetic, columns: dict[str, Column]) -> bool:
    if not (_known(node.left, columns) and _known(node.right, columns)):
        return False
    if node.op in "/%" and not (isinstance(node.right, n.Literal) and node.right.value):
        return False
    return _most(node, columns) < _FINITE


def _most(node: Node, columns: dict[str, Column]) -> float:
    """Return a bound of |value| of numbers, infinity where none is known."""
    match node:
        case n.Literal(type=Type.number):
            return abs(float(node.value)) if isinstance(node.value, float) else math.inf
        case n.ColumnRef():
            domain = columns[node.name].domain
            finite = domain is not None and domain.is_finite
            return max(abs(float(end)) for end in domain.hull) if finite and domain else math.inf
        case n.Negate() | n.Call(name="abs"):
            return _most(node.operand, columns)
        case n.Arithmetic():
            left, right = _most(node.left, columns), _most(node.right, columns)
            match node.op:
                case "+" | "-":
                    return left + right
                case "*":
                    return left * right if max(left, right) < math.inf else math.inf
                case "/":
                    return left / right if 0 < right < math.inf else math.inf
                case _:
                    return left
        case n.Case():
            values = [*(value for _, value in node.branches), node.otherwise]
            return max(_most(value, columns) for value in values)
        case n.Coalesce():
            return max(_most(option, columns) for option in node.options)
        case _:
            return math.inf
