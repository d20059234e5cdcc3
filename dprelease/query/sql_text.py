"""SQL as tokens with places: what the doors that speak SQL read from.

sqlglot cuts the text (DuckDB's dialect); what may follow what is decided by the readers of this
module, token by token, so every refusal points at a line and a column. `clean` is the text with
comments blanked, character for character, for conditions that the expression language reads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from dprelease.errors import ConfigError, PlanError
from dprelease.query.pointing import pointed

MAX_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class SqlToken:
    """One token; `kind` is word, name (quoted), text, number, sign or end.

    `value` is a name's or text's content; otherwise the text as written.
    """

    kind: str
    value: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """The word in capitals; no word for quoted names, texts and signs."""
        return self.value.upper() if self.kind == "word" else ""


class SqlText:
    """The tokens of one statement and the reading position.

    Raises:
        ConfigError: a quote or comment is not closed, or the text is too long (DPR120, DPR121).
    """

    def __init__(self, sql: str, origin: str) -> None:
        self.sql = sql
        self.origin = origin
        self.at = 0
        if len(sql.encode("utf-8", "replace")) > MAX_BYTES:
            raise ConfigError(
                "the SQL is too long",
                where=origin,
                why=f"the limit is {MAX_BYTES} bytes",
                code="DPR121",
            )
        self.tokens = self._lex()
        kept = [False] * len(sql)
        for token in self.tokens:
            kept[token.start : token.end] = [True] * (token.end - token.start)
        self.clean = "".join(c if k else " " for c, k in zip(sql, kept, strict=True))

    def _lex(self) -> list[SqlToken]:
        import sqlglot
        from sqlglot.errors import SqlglotError

        try:
            found = sqlglot.tokenize(self.sql, read="duckdb")
        except SqlglotError:
            raise ConfigError(
                "the SQL cannot be read",
                where=self.origin,
                why="a quote or a comment is not closed, or a character is not SQL",
                fix="text takes single quotes, names take double quotes",
                code="DPR120",
            ) from None
        special = {
            "STRING": "text",
            "IDENTIFIER": "name",
            "NUMBER": "number",
        }
        tokens = []
        for token in found:
            start, end = token.start, token.end + 1
            written = self.sql[start:end]
            kind = special.get(token.token_type.name)
            if kind is None and re.fullmatch(r"[^\W\d]\w*(\s+[^\W\d]\w*)*", written):
                # the tokenizer joins some pairs, such as GROUP BY
                words = re.finditer(r"\w+", written)
                tokens += [
                    SqlToken("word", w[0], start + w.start(), start + w.end()) for w in words
                ]
                continue
            kind = kind or "sign"
            value = token.text if kind in ("text", "name") else written
            tokens.append(SqlToken(kind, value, start, end))
        while tokens and tokens[-1].value == ";" and tokens[-1].kind == "sign":
            tokens.pop()
        tokens.append(SqlToken("end", "", len(self.sql.rstrip()), len(self.sql.rstrip())))
        return tokens

    # --- reading

    def peek(self, ahead: int = 0) -> SqlToken:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def next(self) -> SqlToken:
        token = self.peek()
        self.at += 1
        return token

    def is_word(self, *words: str, ahead: int = 0) -> bool:
        return self.peek(ahead).word in words and self.peek(ahead).kind == "word"

    def is_sign(self, sign: str, ahead: int = 0) -> bool:
        token = self.peek(ahead)
        return token.kind == "sign" and token.value == sign

    def take_sign(self, sign: str) -> bool:
        found = self.is_sign(sign)
        self.at += found
        return found

    def take_word(self, *words: str) -> bool:
        found = self.is_word(*words)
        self.at += found
        return found

    def until(self, *words: str) -> tuple[int, int]:
        """Pass all tokens up to one of `words` outside brackets; return their range."""
        first, depth = self.at, 0
        while self.peek().kind != "end":
            if depth == 0 and self.is_word(*words):
                break
            depth += self.is_sign("(") - self.is_sign(")")
            self.at += 1
        return first, self.at

    def text(self, first: int, stop: int) -> str:
        """Return the text of tokens `first` up to `stop`, comments blanked."""
        if first >= stop:
            return ""
        return self.clean[self.tokens[first].start : self.tokens[stop - 1].end]

    # --- refusing

    def place(self, token: SqlToken) -> str:
        """Return `origin, line L, column C`."""
        before = self.sql[: token.start]
        line = before.count("\n") + 1
        return f"{self.origin}, line {line}, column {token.start - before.rfind(chr(10))}"

    def fail(
        self, what: str, at: SqlToken, *, code: str, why: str | None = None, fix: str | None = None
    ) -> NoReturn:
        """Refuse at `at`: PlanError, because the statement may be good SQL.

        Raises:
            PlanError: always.
        """
        first = self.sql.rfind("\n", 0, at.start) + 1
        stop = self.sql.find("\n", at.start)
        flat = "".join(c if c.isprintable() else " " for c in self.sql)
        raise PlanError(
            what,
            where=self.place(at),
            why=pointed(flat, at, why, first=first, stop=stop if stop >= 0 else None),
            fix=fix,
            code=code,
        )
