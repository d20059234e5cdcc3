"""Constants of the expression language: numbers, texts, truths, null, dates and timestamps."""

from __future__ import annotations

import math

from dprelease.query import nodes as n
from dprelease.query.nodes import Type
from dprelease.query.tokens import TokenReader
from dprelease.query.typecheck import Part, TypeChecker


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
