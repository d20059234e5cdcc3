"""The expression language over one row in plain Python: slow, obvious, the reference.

`sql` must agree with this on every row. Numbers are IEEE doubles, logic is three-valued, and
nothing raises for any row: division by zero, overflow and missing dates yield null.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, cast

from dprelease.query import nodes as n
from dprelease.query.nodes import Node, Type, Value

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate_node(node: Node, row: Mapping[str, object]) -> Value:
    """Return the value of `node` on `row` (column name to value; absent is null)."""
    match node:
        case n.Literal():
            return node.value
        case n.ColumnRef():
            return _cell(row.get(node.name), node.type)
        case n.Arithmetic():
            return _arithmetic(
                node.op, evaluate_node(node.left, row), evaluate_node(node.right, row)
            )
        case n.Negate():
            value = evaluate_node(node.operand, row)
            return None if value is None else -cast("float", value)
        case n.Call():
            value = evaluate_node(node.operand, row)
            return None if value is None else _called(node.name, value)
        case n.Elapsed():
            return _elapsed(node.unit, evaluate_node(node.start, row), evaluate_node(node.end, row))
        case n.Case():
            for condition, value_node in node.branches:
                if evaluate_node(condition, row) is True:
                    return evaluate_node(value_node, row)
            return evaluate_node(node.otherwise, row)
        case n.Coalesce():
            values = (evaluate_node(option, row) for option in node.options)
            return next((v for v in values if v is not None), None)
        case _:
            return _test(node, row)


def _test(node: Node, row: Mapping[str, object]) -> bool | None:
    match node:
        case n.Compare():
            return _compare(node.op, evaluate_node(node.left, row), evaluate_node(node.right, row))
        case n.Between():
            value = evaluate_node(node.operand, row)
            above = _compare(">=", value, evaluate_node(node.low, row))
            below = _compare("<=", value, evaluate_node(node.high, row))
            return _all([above, below])
        case n.In():
            value = evaluate_node(node.operand, row)
            return None if value is None else any(value == o.value for o in node.options)
        case n.IsNull():
            return evaluate_node(node.operand, row) is None
        case n.Not():
            inner = evaluate_node(node.operand, row)
            return None if inner is None else not inner
        case n.Logic():
            parts = [cast("bool | None", evaluate_node(o, row)) for o in node.operands]
            if node.op == "and":
                return _all(parts)
            negated = _all([None if p is None else not p for p in parts])
            return None if negated is None else not negated
    raise AssertionError(f"unknown node {type(node).__name__}")


def _all(parts: list[bool | None]) -> bool | None:
    if False in parts:
        return False
    return None if None in parts else True


def _compare(op: str, left: Value, right: Value) -> bool | None:
    if left is None or right is None:
        return None
    return _COMPARE[op](left, right)


def _arithmetic(op: str, left: Value, right: Value) -> float | None:
    if left is None or right is None:
        return None
    a, b = cast("float", left), cast("float", right)
    try:
        match op:
            case "+":
                out = a + b
            case "-":
                out = a - b
            case "*":
                out = a * b
            case "/":
                out = a / b
            case _:
                out = math.fmod(a, b)
    except (ZeroDivisionError, ValueError):  # x / 0; fmod(x, 0) and fmod(inf, x)
        return None
    return out if math.isfinite(out) else None


def _called(name: n.FunctionName, value: Value) -> Value:
    if name == "abs":
        return abs(cast("float", value))
    if name in ("floor", "ceil"):
        number = cast("float", value)
        whole = math.floor if name == "floor" else math.ceil
        return number if math.isinf(number) else float(whole(number))
    assert isinstance(value, date)
    return _midnight(value) if name == "timestamp" else _date_part(name, value)


def _date_part(part: str, value: date) -> float:
    if part == "weekday":
        return float(value.isoweekday())
    if part == "week":
        return float(value.isocalendar().week)
    if part == "quarter":
        return float((value.month + 2) // 3)
    return float(getattr(value, part))


def _elapsed(unit: str, start: Value, end: Value) -> float | None:
    if start is None or end is None:
        return None
    assert isinstance(start, datetime)
    assert isinstance(end, datetime)
    # each end as a double first, as in SQL: the two engines round alike
    return (_microseconds(end) - _microseconds(start)) / float(n.MICROSECONDS[unit])


def _microseconds(moment: datetime) -> float:
    return float((moment - datetime(1970, 1, 1)) // timedelta(microseconds=1))  # noqa: DTZ001 - naive UTC


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)  # noqa: DTZ001 - naive UTC


def _cell(value: object, kind: Type) -> Value:
    """Return a row's value in the language's own types; NaN is null."""
    if value is None:
        return None
    if kind is Type.number:
        number = float(value)  # type: ignore[arg-type]
        return None if math.isnan(number) else number
    if kind is Type.timestamp and isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value  # type: ignore[return-value]
