"""The expression language's syntax tree: frozen nodes, their types, canonical text and size.

Numbers are doubles; null is a value of every type. An arithmetic result that is not finite counts
as null. `may_overflow` tells where a node's plain double arithmetic can hold such a result: sums,
differences, products and dividends carry infinities and NaN along unchanged, so the guard that
turns them into null is needed only where a node is consumed by anything else. Guarding every
operation instead would double the SQL text per level.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from fractions import Fraction
from typing import Literal as Choice

Value = None | bool | float | str | date | datetime
ArithmeticOp = Choice["+", "-", "*", "/", "%"]
CompareOp = Choice["=", "!=", "<", "<=", ">", ">="]
PartName = Choice["year", "quarter", "month", "week", "day", "hour", "minute", "weekday"]
FunctionName = Choice["abs", "floor", "ceil", "timestamp"] | PartName
ElapsedUnit = Choice["days", "hours", "minutes", "seconds"]
MICROSECONDS = {
    "days": 86_400_000_000,
    "hours": 3_600_000_000,
    "minutes": 60_000_000,
    "seconds": 1_000_000,
}
KEYWORDS = frozenset(
    "and or not in between is null true false case when then else end".split()  # noqa: SIM905
)


class Type(StrEnum):
    """What an expression yields."""

    number = "number"
    text = "text"
    boolean = "boolean"
    date = "date"
    timestamp = "timestamp"
    null = "null"


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; numbers are finite floats, never -0.0."""

    value: Value
    type: Type


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """The row's value in one column."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left op right` in doubles; x / 0 and x % 0 are null; % takes the dividend's sign."""

    op: ArithmeticOp
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Negate:
    """`-operand`."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Call:
    """`name(operand)`: a number's size, or the nearest whole one below or above; a date's midnight, UTC; a part of a time.

    Parts are numbers: weekday is 1 (Monday) to 7 (Sunday), week that of ISO 8601.
    """

    name: FunctionName
    operand: Node


@dataclass(frozen=True, slots=True)
class Elapsed:
    """`{unit}_between(start, end)`: the time from one timestamp to another, with its fraction."""

    unit: ElapsedUnit
    start: Node
    end: Node


@dataclass(frozen=True, slots=True)
class Compare:
    """`left op right`, operands of one type."""

    op: CompareOp
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Between:
    """`low <= operand <= high`, three-valued."""

    operand: Node
    low: Node
    high: Node


@dataclass(frozen=True, slots=True)
class In:
    """Whether the operand equals one of the non-null constants."""

    operand: Node
    options: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether the operand is null; never null itself."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Not:
    """Three-valued negation."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Logic:
    """Three-valued conjunction or disjunction of two or more operands."""

    op: Choice["and", "or"]
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """The value of the first branch whose condition is true, else `otherwise`."""

    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node


@dataclass(frozen=True, slots=True)
class Coalesce:
    """The first option that is not null."""

    options: tuple[Node, ...]


Node = (
    Literal
    | ColumnRef
    | Arithmetic
    | Negate
    | Call
    | Elapsed
    | Compare
    | Between
    | In
    | IsNull
    | Not
    | Logic
    | Case
    | Coalesce
)


def children(node: Node) -> tuple[Node, ...]:
    """Return the direct operands, in order."""
    match node:
        case Arithmetic() | Compare():
            return node.left, node.right
        case Elapsed():
            return node.start, node.end
        case Between():
            return node.operand, node.low, node.high
        case In():
            return node.operand, *node.options
        case Logic():
            return node.operands
        case Case():
            return *(part for branch in node.branches for part in branch), node.otherwise
        case Coalesce():
            return node.options
        case Literal() | ColumnRef():
            return ()
        case _:
            return (node.operand,)


def compared(node: Node) -> Iterator[tuple[str, Fraction | None]]:
    """Yield each column that is compared, and the number at which the answer changes; None for one not known."""
    parts = children(node)
    pairs = [(parts[0], part) for part in parts[1:] if isinstance(node, Compare | Between | In)]
    for left, right in pairs:
        found = crossing(left, right)
        yield from [found] if found else ((name, None) for name in _numbers(left, right))
    for part in parts:
        yield from compared(part)


def crossing(left: Node, right: Node) -> tuple[str, Fraction] | None:
    """Return the column of which both sides are linear, and its value where they are equal; None if there is none."""
    found = _linear(Arithmetic("-", left, right))
    return (found[0], -found[2] / found[1]) if found and found[1] else None


def _linear(node: Node) -> tuple[str, Fraction, Fraction] | None:
    """Return column, factor and summand of `factor * column + summand`; None for another expression."""
    match node:
        case ColumnRef(name=name, type=Type.number):
            return name, Fraction(1), Fraction(0)
        case Literal(value=float(value)):
            return "", Fraction(0), Fraction(repr(value))
        case Negate(operand=inner):
            return _linear(Arithmetic("-", Literal(0.0, Type.number), inner))
        case Arithmetic(op=op, left=left, right=right):
            a, b = _linear(left), _linear(right)
            if not a or not b or (a[0] and b[0] not in ("", a[0])):
                return None
            name, sign = a[0] or b[0], -1 if op == "-" else 1
            if op in "+-":
                return name, a[1] + sign * b[1], a[2] + sign * b[2]
            if op == "*" and not (a[0] and b[0]):
                return name, a[1] * b[2] + b[1] * a[2], a[2] * b[2]
            if op == "/" and not b[0] and b[2]:
                return name, a[1] / b[2], a[2] / b[2]
    return None


def _numbers(*nodes: Node) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ColumnRef) and node.type is Type.number:
            yield node.name
        yield from _numbers(*children(node))


def may_overflow(node: Node) -> bool:
    """Return whether the unguarded double may be an infinity or NaN that stands for null."""
    match node:
        case Arithmetic():
            return True
        case Negate() | Call(name="abs"):
            return may_overflow(node.operand)
        case _:
            return False


def sql_size(node: Node) -> int:
    """Return the number of nodes of the guarded SQL form (guards repeat their operand)."""
    size = 1
    for i, child in enumerate(children(node)):
        match node:
            case Negate() | Call(name="abs"):
                carried = True
            case _:
                carried = isinstance(node, Arithmetic) and not (node.op in "/%" and i == 1)
        twice = isinstance(node, Elapsed) or (may_overflow(child) and not carried)
        size += sql_size(child) * (2 if twice else 1)
    return size


def canonical_text(node: Node) -> str:
    """Return one fixed spelling of `node`; it parses back to the same tree."""
    match node:
        case Literal():
            return _literal(node)
        case ColumnRef(name=name):
            plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.lower() not in KEYWORDS
            return name if plain else '"' + name.replace('"', '""') + '"'
        case Arithmetic(op=op, left=left, right=right) | Compare(op=op, left=left, right=right):
            return f"{_operand(left)} {op} {_operand(right)}"
        case Negate(operand=inner):
            return f"-{_operand(inner)}"
        case Call(name=name, operand=inner):
            return f"{name}({canonical_text(inner)})"
        case Elapsed(unit=unit, start=start, end=end):
            return f"{unit}_between({canonical_text(start)}, {canonical_text(end)})"
        case Between(operand=inner, low=low, high=high):
            return f"{_operand(inner)} between {_operand(low)} and {_operand(high)}"
        case In(operand=inner, options=options):
            return f"{_operand(inner)} in ({', '.join(map(_literal, options))})"
        case IsNull(operand=inner):
            return f"{_operand(inner)} is null"
        case Not(operand=inner):
            return f"not {_operand(inner)}"
        case Logic(op=op, operands=operands):
            return f" {op} ".join(map(_operand, operands))
        case Case(branches=branches, otherwise=otherwise):
            whens = " ".join(
                f"when {canonical_text(c)} then {canonical_text(v)}" for c, v in branches
            )
            return f"case {whens} else {canonical_text(otherwise)} end"
        case Coalesce(options=options):
            return f"coalesce({', '.join(map(canonical_text, options))})"


def _operand(node: Node) -> str:
    text = canonical_text(node)
    atomic = isinstance(
        node,
        Literal | ColumnRef | Call | Elapsed | Coalesce | Case,
    )
    return text if atomic else f"({text})"


def _literal(node: Literal) -> str:
    match node.value:
        case None:
            return "null"
        case bool(value):
            return "true" if value else "false"
        case float(value):
            return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
        case str(value):
            return "'" + value.replace("'", "''") + "'"
        case datetime() as value:
            return f"timestamp '{value.isoformat(sep=' ')}'"
        case date() as value:
            return f"date '{value.isoformat()}'"


def depth(node: Node) -> int:
    """Return the tree's height; iterative, because it runs before the height is known."""
    height, level = 0, [node]
    while level:
        height += 1
        level = [child for parent in level for child in children(parent)]
    return height


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed, typed expression.

    Attributes:
        source: the text as written.
        tree: its nodes.
        columns: names of the columns it reads.
        type: what it yields.
    """

    source: str
    tree: Node
    columns: frozenset[str]
    type: Type

    @property
    def canonical(self) -> str:
        """One fixed spelling, for hashes and labels; it parses back to the same tree."""
        return canonical_text(self.tree)
