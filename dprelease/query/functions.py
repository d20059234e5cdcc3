"""The functions of the expression language: what each takes, and the tree that it becomes."""

from __future__ import annotations

from typing import cast

from dprelease.query import nodes as n
from dprelease.query.nodes import Node, Type
from dprelease.query.tokens import Token, TokenReader
from dprelease.query.typecheck import Part, TypeChecker, article, common

PARTS = ("year", "quarter", "month", "week", "day", "hour", "minute", "weekday")
ELAPSED = tuple(f"{unit}_between" for unit in n.MICROSECONDS)
FUNCTIONS = ("abs", "ceil", "coalesce", "floor", "if", "timestamp", *PARTS, *ELAPSED)


class Functions:
    """Build calls from checked arguments, or raise ConfigError where one does not fit.

    Its refusals: a wrong number of arguments (DPR162), a wrong type (DPR123).
    """

    def __init__(self, read: TokenReader, types: TypeChecker) -> None:
        self.read = read
        self.types = types

    def call(self, token: Token, arguments: list[Part], end: int) -> Part:
        """Return the value of the function that `token` names; its `)` ends at `end`."""
        name = token.text.lower()
        wanted = 3 if name == "if" else 2 if name in ELAPSED else 1
        if len(arguments) != wanted if name != "coalesce" else len(arguments) < 2:
            count = "two or more arguments" if name == "coalesce" else f"{wanted} argument(s)"
            self.read.fail(f"`{name}` takes {count}", token, code="DPR162")
        if name == "if":
            self.types.want(arguments[0], Type.boolean, "`if` starts with a condition")
            return self.choice(arguments[:1], arguments[1:], token.start, end)
        if name == "coalesce":
            parts = self.types.unify(arguments, "`coalesce` takes values of one type", nulls=True)
            node: Node = n.Coalesce(tuple(p.node for p in parts))
            return Part(node, common(parts), token.start, end)
        part = arguments[0]
        if name in ("abs", "floor", "ceil"):
            self.types.want(part, Type.number, f"`{name}` takes a number")
            call = n.Call(cast("n.FunctionName", name), part.node)
            return Part(call, Type.number, token.start, end)
        if name in ELAPSED:
            return self._elapsed(name, arguments, token, end)
        return self._time_call(name, part, token, end)

    def choice(self, conditions: list[Part], values: list[Part], start: int, end: int) -> Part:
        """Return the value of the first condition that holds; one more value than conditions."""
        unified = self.types.unify(values, "all branches yield one type", nulls=True)
        branches = tuple((c.node, v.node) for c, v in zip(conditions, unified, strict=False))
        kind = common(unified)
        return Part(n.Case(branches, unified[-1].node), kind, start, end)

    def _elapsed(self, name: str, moments: list[Part], token: Token, end: int) -> Part:
        ends = []
        for moment in moments:
            part = moment
            if part.type is Type.text and isinstance(part.node, n.Literal):
                part = self.types.read_time(part, Type.timestamp)
            if part.type not in (Type.date, Type.timestamp):
                self.read.fail(
                    f"`{name}` takes two dates or timestamps, not {article(part.type)}",
                    part,
                    fix=f"write `{name}(start, end)`",
                    code="DPR123",
                )
            ends.append(self.types.widen(part).node)
        unit = cast("n.ElapsedUnit", name.removesuffix("_between"))
        return Part(n.Elapsed(unit, ends[0], ends[1]), Type.number, token.start, end)

    def _time_call(self, name: str, part: Part, token: Token, end: int) -> Part:
        if part.type is Type.text and isinstance(part.node, n.Literal):
            long = name in ("hour", "minute", "timestamp") or len(cast("str", part.node.value)) > 10
            part = self.types.read_time(part, Type.timestamp if long else Type.date)
        within = name in ("hour", "minute")
        allowed = {Type.timestamp} if within else {Type.date, Type.timestamp}
        if part.type not in allowed:
            names = "timestamp" if within else "date or timestamp"
            self.read.fail(
                f"`{name}` takes a {names}, not {article(part.type)}", part, code="DPR123"
            )
        if name == "timestamp":
            widened = self.types.widen(part)
            return Part(widened.node, Type.timestamp, token.start, end)
        kind = cast("n.PartName", name)
        return Part(n.Call(kind, part.node), Type.number, token.start, end)
