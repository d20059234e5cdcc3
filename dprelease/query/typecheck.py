"""Types and constants of the expression language: what fits together, and what a text constant becomes."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import NoReturn, cast

from dprelease.query import nodes as n
from dprelease.query.nodes import Node, Type
from dprelease.query.tokens import TokenReader


@dataclass(frozen=True, slots=True)
class Part:
    """A parsed piece of the text: its tree, type and place."""

    node: Node
    type: Type
    start: int
    end: int


class TypeChecker:
    """Checks parts of one text; errors point into it."""

    def __init__(self, read: TokenReader) -> None:
        self.read = read

    def read_time(self, part: Part, kind: Type) -> Part:  # noqa: RET503 - `fail` raises
        """Turn a text constant into a date or timestamp constant."""
        assert isinstance(part.node, n.Literal)
        text = cast("str", part.node.value)
        form = r"\d{4}-\d\d-\d\d"
        try:
            if kind is Type.date and re.fullmatch(form, text, re.ASCII):
                node = n.Literal(date.fromisoformat(text), Type.date)
                return Part(node, Type.date, part.start, part.end)
            tail = r"([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?"
            if kind is Type.timestamp and re.fullmatch(form + tail, text, re.ASCII):
                moment = datetime.fromisoformat(text)
                if moment.tzinfo is not None:
                    moment = moment.astimezone(UTC).replace(tzinfo=None)
                node = n.Literal(moment, Type.timestamp)
                return Part(node, Type.timestamp, part.start, part.end)
        except (ValueError, OverflowError):
            pass
        example = "2013-01-31" if kind is Type.date else "2013-01-31 08:30"
        self.read.fail(
            f"'{text[:30]}' is not a {kind}", part, fix=f"write '{example}'", code="DPR126"
        )

    def want(self, part: Part, kind: Type, why: str) -> None:
        if part.type is kind:
            return
        fix = None
        if kind is Type.boolean and part.type is Type.number:
            fix = "compare it, e.g. `> 0`"
        elif kind is Type.boolean and part.type is Type.text:
            fix = "compare it, e.g. `= 'x'`"
        elif kind is Type.number and part.type is Type.boolean:
            fix = "use if(condition, 1, 0)"
        elif kind is Type.number and isinstance(part.node, n.Literal):
            fix = "write the number without quotes"
        elif kind is Type.number and part.type is Type.text:
            fix = DECLARE
        self.read.fail(
            f"{article(kind)} is needed here, this is {article(part.type)}",
            part,
            why=why,
            fix=fix,
            code="DPR123",
        )

    def unify(self, parts: list[Part], why: str, *, nulls: bool = False) -> list[Part]:
        """Return `parts` in one type: text constants become dates, dates become timestamps."""
        for part in parts:
            if part.type is Type.null and not nulls:
                self.read.fail(
                    "a comparison with null is never true",
                    part,
                    fix="write `is null` or `is not null`",
                    code="DPR129",
                )
        known: set[Type] = {p.type for p in parts if p.type is not Type.null}
        if not known:
            self.read.fail("at least one value must not be null", parts[0], why=why, code="DPR129")
        times: set[Type] = known & {Type.date, Type.timestamp}
        if times:
            parts = [self.as_time(p, times) for p in parts]
            if any(p.type is Type.timestamp for p in parts):
                parts = [self.widen(p) if p.type is Type.date else p for p in parts]
        target = common(parts)
        for part in parts:
            if part.type not in (target, Type.null):
                self.mismatch(parts[0], part, target, why)
        return parts

    def as_time(self, part: Part, times: set[Type]) -> Part:
        if part.type is not Type.text or not isinstance(part.node, n.Literal):
            return part
        short = len(cast("str", part.node.value)) <= 10
        return self.read_time(part, Type.date if short and Type.date in times else Type.timestamp)

    def widen(self, part: Part) -> Part:
        if part.type is Type.timestamp:
            return part
        node: Node = n.Call("timestamp", part.node)
        if isinstance(part.node, n.Literal):
            day = cast("date", part.node.value)
            node = n.Literal(datetime(day.year, day.month, day.day), Type.timestamp)  # noqa: DTZ001
        return Part(node, Type.timestamp, part.start, part.end)

    def mismatch(self, first: Part, part: Part, target: Type, why: str) -> NoReturn:
        shown = self.read.text[part.start : part.end]
        fix = None
        if target is Type.text and isinstance(part.node, n.Literal):
            fix = f"quote it: '{shown}'"
            if part.type is Type.number:
                fix = f"if it holds numbers, {DECLARE}; if texts, {fix}"
        elif target is Type.number and part.type is Type.text:
            fix = f"write the number without quotes, or {DECLARE}"
        elif target is Type.boolean:
            fix = "compare with true or false"
        elif {target, part.type} & {Type.date, Type.timestamp}:
            fix = "a day is written in single quotes: '2013-01-31'"
        other = self.read.text[first.start : first.end]
        self.read.fail(
            f"`{other[:40]}` is {article(target)}, `{shown[:40]}` is {article(part.type)}",
            part,
            why=why,
            fix=fix,
            code="DPR123",
        )


DECLARE = (
    "declare the column as a number, one that only a view reads too: `NAME: {kind: number, range: [0, 100], step: 1}`;"
    " a name that is declared in other capitals is written so in the file's header"
)


def article(kind: Type) -> str:
    """Return the type in words, for messages."""
    names = {Type.text: "text", Type.null: "null", Type.boolean: "a condition"}
    return names.get(kind, f"a {kind}")


def common(parts: list[Part]) -> Type:
    """Return the type of the parts that are not null."""
    return next((p.type for p in parts if p.type is not Type.null), Type.null)


def constant(read: TokenReader, types: TypeChecker) -> Part:  # noqa: RET503 - `fail` raises
    """Read one constant.

    Raises:
        ConfigError: none stands here (DPR120), or a faulty one (DPR126).
    """
    token = read.next()
    if token.kind == "op" and token.text == "-" and read.peek().kind == "number":
        part = constant(read, types)
        assert isinstance(part.node, n.Literal)
        assert isinstance(part.node.value, float)
        node = n.Literal(0.0 - part.node.value, Type.number)
        return Part(node, Type.number, token.start, part.end)
    word = token.text.lower() if token.kind == "word" else ""
    if token.kind == "number":
        value = float(token.text)
        if not math.isfinite(value):
            read.fail(f"the number {token.text[:20]} is too large", token, code="DPR126")
        return Part(n.Literal(value, Type.number), Type.number, token.start, token.end)
    if token.kind == "text":
        text = token.text[1:-1].replace("''", "'")
        if "\0" in text or text.encode("utf-8", "ignore").decode() != text:
            read.fail("text holds what UTF-8 cannot", token, code="DPR126")
        return Part(n.Literal(text, Type.text), Type.text, token.start, token.end)
    if word in ("true", "false"):
        node = n.Literal(word == "true", Type.boolean)
        return Part(node, Type.boolean, token.start, token.end)
    if word == "null":
        return Part(n.Literal(None, Type.null), Type.null, token.start, token.end)
    if word in ("date", "timestamp") and read.peek().kind == "text":
        part = constant(read, types)
        whole = Part(part.node, part.type, token.start, part.end)
        return types.read_time(whole, Type(word))
    if token.kind == "quoted":
        read.fail(
            "a constant was expected here",
            token,
            why="double quotes name a column",
            fix=f"text takes single quotes: '{token.text[1:-1]}'",
        )
    read.fail("a constant was expected here", token, fix="numbers, 'text', true, false or dates")
