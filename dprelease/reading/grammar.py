"""Expressions over published values: the expression grammar, with groups, periods and functions.

    late / count                             the names of published columns, numbers, + - * / ( )
    late[carrier='UA'] - late[carrier='AA']  one group; the other columns of `by` are the row's
    count / nation.count                     another table of the same release, at the row's place
    count@2026-W45, count@previous           another period of the same series
    deaths / population                      columns of the public table
    rate(a, b, per)                          per * a / b
    growth(a)                                a / a@previous - 1
    index(a, '2026-W01')                     100 * a / a@2026-W01
    share(a)                                 a / total(a)
    total(a)                                 a, summed over all rows
    standardise(a, weights)                  a, averaged with public weights over the left-out columns
    rank(a)                                  1 is the largest; it stands alone
    top(a, 10)                               the ten groups with the largest; it stands alone

A name of other characters takes double quotes: "departures[5,9)". So does a period in an odd form:
count@'2026 spring'.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

from dprelease.query import nodes as n
from dprelease.query.grammar import Parser
from dprelease.query.nodes import Node, Type
from dprelease.query.tokens import Token
from dprelease.query.typecheck import Part
from dprelease.schema.column import Column, Kind
from dprelease.schema.naming import nearest

PREVIOUS = "previous"
STANDING_ALONE = ("rank", "top")
_DOT = r"""|(?P<dot>\.)"""
_EXTRA = r"""|(?P<period>@(?:previous\b|'[^']+'|\d{4}(?:-(?:W\d\d|Q\d|\d\d(?:-\d\d)?))?))|(?P<bracket>[\[\]])"""


@dataclass(frozen=True, slots=True)
class Reference(n.ColumnRef):
    """A published column, or one of the public table.

    Attributes:
        where: (column of `by`, label) pairs that are fixed; period: another period, or None.
        table: another table of the release, or None; keyed: whether key columns are left open.
    """

    where: tuple[tuple[str, str], ...] = ()
    period: str | None = None
    public: bool = False
    table: str | None = None
    keyed: bool = True


@dataclass(frozen=True, slots=True)
class Across:
    """`share`, `total`, `standardise` (with weights), `rank` or `top` (of so many): something over several groups."""

    how: str
    operand: Node
    weights: Node | None = field(default=None)


class Names(NamedTuple):
    """Names of one table: its published columns, the labels of each key column, and coarser levels of these."""

    published: Collection[str]
    by: Mapping[str, Collection[str]]
    levels: Collection[str] = ()


def parse(
    text: str,
    own: Names,
    public: Collection[str],
    tables: Mapping[str, Names] | None = None,
    named: str | None = None,
) -> Node:
    """Return the tree of `text`.

    Args:
        own, public: names that may stand in it.
        tables: the names of other tables, which are written before a dot; named: the table's own name, which may be.

    Raises:
        ConfigError: as the expression grammar does (DPR120 to DPR129, DPR162 to DPR164), `where` with its character.
    """
    return _Parser(text, own, public, tables or {}, named).parse()[0]


def references(node: Node) -> list[Reference]:
    """Return every reference of a tree."""
    if isinstance(node, Reference):
        return [node]
    below = [node.operand, node.weights] if isinstance(node, Across) else n.children(node)
    return [found for child in below if child is not None for found in references(child)]


class _Parser(Parser):
    def __init__(
        self,
        text: str,
        own: Names,
        public: Collection[str],
        tables: Mapping[str, Names],
        named: str | None = None,
    ) -> None:
        names = [*own.published, *public]
        columns = {name: Column(name, Kind.number) for name in names}
        super().__init__(
            text, columns, "expression", extra=_EXTRA + (_DOT if tables or named else "")
        )
        self.public, self.tables = frozenset(public), tables
        self.own, self.named = own, named

    def _or(self) -> Part:
        """Read a sum: there is nothing to compare here, and no condition."""
        return self._deeper(self._sum)

    def _column(self, token: Token, name: str) -> Part:
        if self.read.peek().kind == "dot":
            return self._of_table(token, name)
        several = [f'"{c}"' for c in self.columns if c.startswith(f"{name}[")]
        near = self.public or nearest(name, self.columns)
        if name not in self.columns and (several or not near):
            some = ", ".join(several[:6] + ["…"] * (len(several) > 6))
            self.read.fail(
                f"`{name}` is several values" if several else f"unknown column `{name}`",
                token,
                fix=f"name one of its {len(several)}, with the double quotes: {some}"
                if several
                else f"published columns: {', '.join(sorted(self.columns)) or 'none'}; numbers that are not "
                "published here, such as a population, come in a table of their own: `public=`",
                code="DPR122",
            )
        part = super()._column(token, name)
        if name in self.public:
            node = Reference(name, Type.number, public=True)
            return Part(node, Type.number, part.start, part.end)
        return self._reference(name, self.own, part.start)

    def _of_table(self, token: Token, table: str) -> Part:
        """Read a name behind a dot: of another table."""
        self.read.next()
        if table != self.named and table not in self.tables:
            known = ", ".join([*([self.named] if self.named else []), *self.tables])
            self.read.fail(
                f"there is no table `{table}`",
                token,
                fix=f"the tables are: {known}; a name with a dot takes double quotes",
                code="DPR163",
            )
        named = self.read.next()
        name = named.text[1:-1] if named.kind == "quoted" else named.text
        own = self.own if table == self.named else self.tables[table]
        if named.kind not in ("word", "quoted") or name not in own.published:
            self.read.fail(
                f"table `{table}` has no `{name}`",
                named,
                fix=f"it has: {', '.join(own.published)}",
                code="DPR163",
            )
        return self._reference(name, own, token.start, None if table == self.named else table)

    def _reference(self, name: str, of: Names, start: int, table: str | None = None) -> Part:
        where = self._where(of) if self.read.peek().text == "[" else ()
        period = None
        if self.read.peek().kind == "period":
            period = self.read.next().text[1:].strip("'")
        keyed = len(of.by) > len(dict(where))
        made = Reference(name, Type.number, where, period, table=table, keyed=keyed)
        return Part(made, Type.number, start, self.read.tokens[self.read.at - 1].end)

    def _where(self, of: Names) -> tuple[tuple[str, str], ...]:
        self.read.next()
        by, coarser = of.by, f"; a coarser level goes into `by`: {', '.join(of.levels)}"
        found: list[tuple[str, str]] = []
        while True:
            token = self.read.next()
            column = token.text.strip('"')
            if column not in by:
                near = nearest(column.strip("'"), [] if column in of.levels else list(by))
                self.read.fail(
                    f"`{column}` is not a key column",
                    token,
                    fix=f"did you mean `{_written(near)}`?"
                    if near
                    else f"key columns: {', '.join(by) or 'none'}" + coarser * bool(of.levels),
                    code="DPR163",
                )
            self.read.expect_op("=")
            found.append((column, self._label(column, by[column])))
            if self.read.op(",") or self.read.word("and"):
                self.read.next()
                continue
            break
        if self.read.peek().text != "]":
            self.read.unexpected(self.read.peek(), wanted="`]`")
        self.read.next()
        return tuple(found)

    def _label(self, column: str, labels: Collection[str]) -> str:
        token = self.read.next()
        label = token.text[1:-1].replace("''", "'") if token.kind == "text" else token.text
        if token.kind not in ("text", "number", "word") or label not in labels:
            inner = label.strip('"')  # double quotes are for names
            near = inner if inner in labels else nearest(inner, list(labels))
            self.read.fail(
                f"there is no group {label!r} of `{column}`",
                token,
                fix=f"did you mean '{near}'?" if near else f"its labels: {_some(labels)}",
                code="DPR164",
            )
        return label

    def _call(self) -> Part:
        token = self.read.peek()
        name = self.read.known_function(tuple(_FUNCTIONS))
        usage, make = _FUNCTIONS[name]
        arguments: list[Node] = []
        while not self.read.op(")"):
            arguments.append(self._argument())
            if not self.read.op(","):
                break
            self.read.next()
        end = self.read.expect_op(")").end
        wanted, last = usage.count(",") + 1, arguments[-1] if arguments else None
        what = (
            f"`{name}` takes {wanted}, not {len(arguments)}" if len(arguments) != wanted else None
        )
        if name == "top" and not (isinstance(last, n.Literal) and _is_count(last.value)):
            what = what or "`top` takes a whole number of groups"
        if what is not None:
            self.read.fail(what, token, fix=f"write {usage}", code="DPR162")
        self._base_of_index(name, arguments, token)
        self._standing_alone(name, token)
        return Part(make(*arguments), Type.number, token.start, end)

    def _argument(self) -> Node:
        if self.read.peek().kind == "text":
            token = self.read.next()
            return n.Literal(token.text[1:-1], Type.text)
        return self._or().node

    def _base_of_index(self, name: str, arguments: Sequence[Node], token: Token) -> None:
        base = arguments[-1]
        if name != "index" or not isinstance(base, n.Literal):
            return
        if isinstance(base.value, str):
            return
        said = f"{base.value:g}"
        self.read.fail(
            f"the base of `index` is a period or a published number, not the number {said}",
            token,
            fix=f"a period takes quotes: index(…, '{said}'); a fixed base is written 100 * … / {said}",
            code="DPR162",
        )

    def _standing_alone(self, name: str, token: Token) -> None:
        alone = token.start == 0 and self.read.peek().kind == "end"
        if name in STANDING_ALONE and not alone:
            fix = f"write {_FUNCTIONS[name][0].replace('cases', 'expression')}"
            self.read.fail(f"`{name}` stands alone", token, fix=fix)


def _written(name: str) -> str:
    """Return a name as an expression takes it: in double quotes if it is not a plain word."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else f'"{name}"'


def _some(labels: Collection[str]) -> str:
    shown = ", ".join(f"'{label}'" for label in sorted(labels)[:8])
    return shown + (", …" if len(labels) > 8 else "")


def _of_period(node: Node, period: str) -> Node:
    """Return the same expression of another period."""
    if isinstance(node, Reference):
        return node if node.public else replace(node, period=period)
    if isinstance(node, Across):
        return _across(node.how, _of_period(node.operand, period), node.weights)
    if isinstance(node, n.Arithmetic):
        return n.Arithmetic(node.op, _of_period(node.left, period), _of_period(node.right, period))
    if isinstance(node, n.Negate):
        return n.Negate(_of_period(node.operand, period))
    return node


def _across(how: str, operand: Node, weights: Node | None = None) -> Node:
    """Return a node over several groups: the grammar passes it on as it does its own."""
    return cast("Node", Across(how, operand, weights))


def _is_count(value: object) -> bool:
    return isinstance(value, float) and value >= 1 and value.is_integer()


def _number(value: float) -> Node:
    return n.Literal(value, Type.number)


def _index(a: Node, base: Node) -> Node:
    other = (
        _of_period(a, str(base.value))
        if isinstance(base, n.Literal) and isinstance(base.value, str)
        else base
    )
    return n.Arithmetic("*", _number(100.0), n.Arithmetic("/", a, other))


_FUNCTIONS: Mapping[str, tuple[str, Callable[..., Node]]] = {
    "rate": (
        "rate(cases, people, 100000)",
        lambda a, b, per: n.Arithmetic("/", n.Arithmetic("*", per, a), b),
    ),
    "growth": (
        "growth(cases)",
        lambda a: n.Arithmetic("-", n.Arithmetic("/", a, _of_period(a, PREVIOUS)), _number(1.0)),
    ),
    "index": ("index(cases, '2026-W01')", _index),
    "share": ("share(cases)", lambda a: _across("share", a)),
    "total": ("total(cases)", lambda a: _across("total", a)),
    "standardise": (
        "standardise(cases / people, weights)",
        lambda a, weights: _across("standardise", a, weights),
    ),
    "rank": ("rank(cases)", lambda a: _across("rank", a)),
    "top": ("top(cases, 10)", lambda a, count: _across("top", a, count)),
}
"""Name -> how it is written, and the tree that it makes of what it is given."""
