"""Tokens of the expression language, and errors that point at them."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import NoReturn, Protocol

from dprelease.core.errors import ConfigError
from dprelease.schema.naming import did_you_mean

_AROUND = 40
"""Characters shown before the place, and from it."""


class Span(Protocol):
    """A stretch of the text, for pointing at."""

    @property
    def start(self) -> int:
        """First character, from 0."""

    @property
    def end(self) -> int:
        """One past the last character."""


def pointed(
    flat: str, at: Span, why: str | None, *, first: int = 0, stop: int | None = None
) -> str:
    """Return an error's reason with a caret under `at`.

    Args:
        flat: the text, one printable character per character.
        why: what stands above; None for nothing.
        first, stop: the part of the text that may be shown, such as its line.
    """
    left = max(first, at.start - _AROUND)
    shown = flat[left : min(len(flat) if stop is None else stop, at.start + _AROUND)]
    width = max(1, min(at.end, left + len(shown)) - at.start)
    caret = f"{shown}\n         {' ' * (at.start - left)}{'^' * width}"
    return f"{why}\n         {caret}" if why else caret


MAX_BYTES = 4096
MAX_DEPTH = 64
_PATTERN = r"""(?P<space>\s+)
    |(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<text>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")+")
    |(?P<word>[^\W\d]\w*)
    |(?P<op><=|>=|<>|!=|==|&&|\|\||[-=<>+*/%(),!;&|~])"""


_INSTEAD = {
    "≥": "write `>=`",
    "≤": "write `<=`",
    "≠": "write `<>`",
    "−": "write `-`",
    "‘’“”„": "text takes straight single quotes: 'a'",
    "`": 'a name that needs quotes takes double ones: "a b"',
    "[]{}": "write a list in parentheses: column in ('a', 'b'); a column with such a name takes double quotes",
    ":?$@": "write the value itself; a column with such a name takes double quotes",
}
"""What is written instead of characters that the language has not."""
_REMOVE = "remove it; a column with such a name takes double quotes"


@dataclass(frozen=True, slots=True)
class Token:
    """One token; `kind` is number, text, quoted, word, op or end."""

    kind: str
    text: str
    start: int
    end: int


class TokenReader:
    """The tokens of one text and the reading position."""

    def __init__(self, text: str, origin: str, extra: str = "") -> None:
        """Read the tokens of `text`; `extra` are more alternatives of the pattern, verbose."""
        self._token = re.compile(_PATTERN + extra, re.VERBOSE)
        self.text = text
        self.origin = origin
        self.at = 0
        if len(text.encode("utf-8", "replace")) > MAX_BYTES:
            raise ConfigError(
                "an expression is too long",
                where=origin,
                why=f"the limit is {MAX_BYTES} bytes",
                fix="split it, or prepare the column in the source",
                code="DPR121",
            )
        self.tokens = self._lex()

    def _lex(self) -> list[Token]:
        tokens: list[Token] = []
        at = 0
        while at < len(self.text):
            found = self._token.match(self.text, at)
            if found is None:
                self._bad_character(at)
            assert found.lastgroup is not None
            if found.lastgroup != "space":
                tokens.append(Token(found.lastgroup, found.group(), at, found.end()))
            at = found.end()
        tokens.append(Token("end", "", len(self.text), len(self.text)))
        return tokens

    def _bad_character(self, at: int) -> NoReturn:
        char = self.text[at]
        here = Token("op", char, at, at + 1)
        if char in "'\"":
            self.fail("a quote is not closed", here, fix=f"add the closing {char}")
        word = re.search(r"[^\W\d]\w*$", self.text[:at])
        if char == "." and word is not None:
            end = at + len((re.match(r"[.\w]*", self.text[at:]) or word)[0])
            name = self.text[word.start() : end]
            self.fail(
                f"`{name}` is not a name as it stands",
                Token("op", name, word.start(), end),
                fix=f'put a name with a dot into double quotes: "{name}"',
                code="DPR120",
            )
        if char.isdigit() or char == ".":
            end = at
            while end < len(self.text) and (self.text[end].isalnum() or self.text[end] in "._"):
                end += 1
            here = Token("op", self.text[at:end], at, end)
            self.fail(
                f"`{here.text}` is not a number",
                here,
                fix="write a decimal such as 12.5, or quote text with single quotes",
                code="DPR126",
            )
        fix = next((fix for chars, fix in _INSTEAD.items() if char in chars), _REMOVE)
        self.fail(f"unexpected character {char!r}", here, fix=fix)

    def peek(self, ahead: int = 0) -> Token:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def next(self) -> Token:
        token = self.peek()
        self.at += 1
        return token

    def word(self, *words: str, ahead: int = 0) -> bool:
        token = self.peek(ahead)
        return token.kind == "word" and token.text.lower() in words

    def op(self, *ops: str, ahead: int = 0) -> bool:
        token = self.peek(ahead)
        return token.kind == "op" and token.text in ops

    def expect_op(self, op: str) -> Token:
        if not self.op(op):
            self.unexpected(self.peek(), wanted=f"`{op}`")
        return self.next()

    def expect_word(self, word: str) -> Token:
        if not self.word(word):
            self.unexpected(self.peek(), wanted=f"`{word}`")
        return self.next()

    def fail(
        self,
        what: str,
        at: Span,
        *,
        why: str | None = None,
        fix: str | None = None,
        code: str = "DPR120",
    ) -> NoReturn:
        raise ConfigError(
            what,
            where=f"{self.origin}, character {at.start + 1}",
            why=pointed(re.sub(r"\s", " ", self.text), at, why),
            fix=fix,
            code=code,
        )

    def known_function(self, functions: Collection[str], why: str | None = None) -> str:
        """Take the name of a function, the opening parenthesis behind it, and return it in small letters.

        Raises:
            ConfigError: it is not among `functions` (DPR124).
        """
        token = self.next()
        name = token.text.lower()
        if name not in functions:
            self.fail(
                f"unknown function `{token.text}`",
                token,
                why=why,
                fix=did_you_mean(name, functions, f"available: {', '.join(functions)}"),
                code="DPR124",
            )
        self.next()
        return name

    def unexpected(self, token: Token, wanted: str = "") -> NoReturn:
        if token.kind == "end":
            self.fail(
                "the expression ends too early",
                token,
                why=f"{wanted or 'a value'} is missing",
                fix="complete it, or check its parentheses",
            )
        swaps = {"&&": "and", "&": "and", "||": "or", "|": "or", "!": "not", "~": "not"}
        if token.text in swaps:
            self.fail(
                f"`{token.text}` is not an operator here", token, fix=f"write `{swaps[token.text]}`"
            )
        if token.kind == "word" and token.text.lower() in {"like", "ilike", "similar", "glob"}:
            self.fail(
                f"`{token.text}` is not part of the expression language",
                token,
                fix="list the wanted values: column in ('a', 'b')",
                code="DPR124",
            )
        self.fail(
            f"unexpected `{token.text}`",
            token,
            why=f"{wanted} was expected here" if wanted else "nothing can follow here",
            fix=f"write `{token.text}=`, not `={token.text}`"
            if token.text in ("<", ">") and self.text[: token.start].endswith("=")
            else "join conditions with and / or, and quote text with single quotes",
        )

    def too_deep(self, at: Span) -> NoReturn:
        self.fail(
            "the expression is nested too deeply",
            at,
            why=f"the limit is {MAX_DEPTH} levels",
            fix="split it, or prepare the column in the source",
            code="DPR121",
        )
