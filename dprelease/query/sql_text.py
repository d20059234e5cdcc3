"""SQL as tokens with places: what the doors that speak SQL read from.

sqlglot cuts the text (DuckDB's dialect); what may follow what is decided by the readers of this
module, token by token, so every refusal points at a line and a column. `clean` is the text with
comments blanked, character for character, for conditions that the expression language reads.

The text is read as a tree of brackets, a `Phrase`: a reader takes from the front of a phrase what it
knows, and whatever is left is refused, so no token is passed over. sqlglot's own
tree of a statement lacks some tokens: the ALL of `SELECT ALL`, the DISTINCT of `GROUP BY DISTINCT a`, a comma
too many, the quotes of `FROM 'file.csv'`, the order of `FROM t SELECT …`; and numbers and operators have no place in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from dprelease.core.errors import ConfigError, DpreleaseError, PlanError
from dprelease.query.tokens import pointed

MAX_BYTES = 1 << 16
_PAIRS = {"(": ")", "[": "]"}


@dataclass(frozen=True, slots=True)
class SqlToken:
    """One token; `kind` is word, name (quoted), text, number, sign or end.

    `value` is a name's or text's content; otherwise the text as written. In a phrase a pair of brackets
    is one token, whose kind and value are the opening one, with what is `inside`.
    """

    kind: str
    value: str
    start: int
    end: int
    inside: Phrase | None = None

    @property
    def word(self) -> str:
        """The word in capitals; no word for quoted names, texts and signs."""
        return self.value.upper() if self.kind == "word" else ""

    @property
    def sign(self) -> str:
        return self.value if self.kind == "sign" else ""

    @property
    def named(self) -> bool:
        """Whether this can be a name: a word, or quoted."""
        return self.kind in ("word", "name")


@dataclass(frozen=True, slots=True)
class Phrase:
    """Tokens in a row, a pair of brackets as one; `end` is the token behind the last one."""

    tokens: tuple[SqlToken, ...]
    end: SqlToken

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, i: int) -> SqlToken:
        """Return a token; the one behind the phrase where it has fewer."""
        return self.tokens[i] if i < len(self.tokens) else self.end

    def words(self, *words: str) -> bool:
        """Return whether it begins with these words."""
        return tuple(t.word for t in self.tokens[: len(words)]) == words

    def after(self, count: int) -> Phrase:
        """Return what is left behind the first tokens."""
        return Phrase(self.tokens[count:], self.end)

    def until(self, *words: str) -> tuple[Phrase, Phrase]:
        """Return what stands before the first of `words`, and the rest."""
        stop = next((i for i, t in enumerate(self.tokens) if t.word in words), len(self))
        return Phrase(self.tokens[:stop], self[stop]), self.after(stop)

    def split(self, sign: str) -> list[Phrase]:
        """Return the phrases between `sign`, at least one."""
        parts, first = [], 0
        for i, token in enumerate((*self.tokens, self.end)):
            if token.sign == sign or i == len(self):
                parts.append(Phrase(self.tokens[first:i], token))
                first = i + 1
        return parts


class SqlText:
    """The tokens of one statement.

    Raises:
        ConfigError: a quote or comment is not closed, or the text is too long (DPR120, DPR121).
    """

    def __init__(self, sql: str, origin: str) -> None:
        self.sql = sql
        self.origin = origin
        if len(sql.encode("utf-8", "replace")) > MAX_BYTES:
            raise ConfigError(
                "the SQL is too long",
                where=origin,
                why=f"the limit is {MAX_BYTES} bytes",
                code="DPR121",
            )
        self.tokens = self._lex()
        in_token = [False] * len(sql)
        for token in self.tokens:
            in_token[token.start : token.end] = [True] * (token.end - token.start)
        self.clean = "".join(c if k else " " for c, k in zip(sql, in_token, strict=True))

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

    def phrase(self) -> Phrase:
        """Return the whole text as a phrase.

        Raises:
            ConfigError: a bracket is not closed, or closes none (DPR120).
        """
        levels: list[list[SqlToken]] = [[]]
        opened: list[SqlToken] = []
        for token in self.tokens[:-1]:
            if token.sign in _PAIRS:
                opened.append(token)
                levels.append([])
            elif token.sign in _PAIRS.values():
                if not opened or _PAIRS[opened[-1].sign] != token.sign:
                    self._unpaired(f"`{token.sign}` closes no bracket", token)
                sign, start = opened[-1].value, opened.pop().start
                inside = Phrase(tuple(levels.pop()), token)
                levels[-1].append(SqlToken(sign, sign, start, token.end, inside))
            else:
                levels[-1].append(token)
        if opened:
            self._unpaired(f"`{opened[-1].sign}` is not closed", opened[-1])
        return Phrase(tuple(levels[0]), self.tokens[-1])

    def flat(self, phrase: Phrase) -> list[SqlToken]:
        """Return the tokens of a phrase, brackets and what is in them one by one."""
        return [t for t in self.tokens if phrase[0].start <= t.start < phrase.end.start]

    def _unpaired(self, what: str, at: SqlToken) -> NoReturn:
        fix = "write each ( with a ), each [ with a ]"
        self.fail(what, at, fix=fix, code="DPR120", error=ConfigError)

    # --- refusing

    def place(self, token: SqlToken) -> str:
        """Return `origin, line L, column C`."""
        before = self.sql[: token.start]
        line = before.count("\n") + 1
        return f"{self.origin}, line {line}, column {token.start - before.rfind(chr(10))}"

    def fail(
        self,
        what: str,
        at: SqlToken,
        *,
        code: str,
        why: str | None = None,
        fix: str | None = None,
        error: type[DpreleaseError] = PlanError,
    ) -> NoReturn:
        """Refuse at `at`: PlanError in most cases, because the statement may be good SQL.

        Raises:
            DpreleaseError: always.
        """
        first = self.sql.rfind("\n", 0, at.start) + 1
        stop = self.sql.find("\n", at.start)
        flat = "".join(c if c.isprintable() else " " for c in self.sql)
        raise error(
            what,
            where=self.place(at),
            why=pointed(flat, at, why, first=first, stop=stop if stop >= 0 else None),
            fix=fix,
            code=code,
        )
