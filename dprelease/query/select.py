"""The SQL door: one SELECT as the release block that says the same.

    SELECT item ("," item)* FROM table [alias] [WHERE condition] [GROUP BY column ("," column)*]

    item   column of GROUP BY, or one of these, with an optional alias
    COUNT(*)                                       count
    COUNT(DISTINCT unit column)                    count(persons)
    COUNT(DISTINCT c)                              count_distinct(c)
    SUM AVG MIN MAX MEDIAN VAR_POP STDDEV_POP(c)   sum mean min max median variance std
    QUANTILE_DISC(c, p), PERCENTILE_DISC(p) WITHIN GROUP (ORDER BY c)      quantile(c, p)
    COVAR_POP(a, b), CORR(a, b)                    covariance(a, b), correlation(a, b)
    AVG(CAST(condition AS INT)), PROPORTION(condition)                     proportion(condition)
    AVG(CASE WHEN condition THEN 1 ELSE 0 END)     proportion(coalesce(condition, false))
    HISTOGRAM(c, [edges]), EIGENVALUES(a, b, …)    as written

The result is the same texts as in YAML, merged and checked there: one plan, one hash. No part of
the statement reaches an engine. A CASE with ELSE 0 counts unknown as no, a cast leaves it out, as
SQL does. Everything else is refused where it stands; VAR_SAMP is not read as VAR_POP, because a
number that means something else must not come back without a word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from dprelease.query.select_forms import (
    AS_WRITTEN,
    CLAUSES,
    INSTEAD,
    JOINS,
    KNOWN,
    ONE_COLUMN,
    QUANTILE,
    TWO_COLUMNS,
)
from dprelease.query.sql_text import SqlText, SqlToken
from dprelease.schema.table import TableSchema
from dprelease.schema.unit import UserUnit

__all__ = ["Selected", "parse_select"]

_STOP = (*CLAUSES, "GROUP", "WHERE", "FROM")


@dataclass(frozen=True, slots=True)
class Selected:
    """A SELECT as a release block.

    Attributes:
        table: the name after FROM; `table_at` is its place.
        block: `by`, `where` and `statistics`, as in YAML.
        lines: place in `block` to place in the SQL.
    """

    table: str
    table_at: str
    block: Mapping[str, object]
    lines: Mapping[tuple[str | int, ...], str]


def parse_select(sql: str, schema: TableSchema, origin: str = "SQL") -> Selected:
    """Return the release block that `sql` asks for; column names are checked when it is merged.

    Raises:
        ConfigError: the text is not SQL (DPR120, DPR121).
        PlanError: not one SELECT (DPR250), a clause that is not supported (DPR251), more than one
            table (DPR252), an item (DPR253), an argument (DPR254) or a key (DPR255) that is not.
    """
    return _Select(SqlText(sql, origin), schema).parse()


class _Select:
    def __init__(self, read: SqlText, schema: TableSchema) -> None:
        self.read = read
        self.schema = schema
        self.keys: list[tuple[str, SqlToken]] = []
        self.items: list[tuple[str, str | None, SqlToken]] = []
        self.names: set[str] = set()

    def parse(self) -> Selected:
        read = self.read
        start = read.peek()
        if not read.take_word("SELECT"):
            read.fail(
                "the statement is not a SELECT",
                start,
                fix=f"write e.g. SELECT COUNT(*) FROM {self.schema.name}",  # noqa: S608 - a message
                code="DPR250",
            )
        if read.is_word("DISTINCT", "ALL") or read.is_sign("*"):
            read.fail(
                f"`SELECT {read.peek().value}` would release rows",
                read.peek(),
                why="statistics of groups are released, rows never",
                fix="SELECT column, COUNT(*) … GROUP BY column",
                code="DPR250",
            )
        body = read.at
        read.until("FROM")
        table, token = self._from()
        after = read.at
        read.at = body
        self._item()
        while read.take_sign(","):
            self._item()
        if not read.is_word("FROM"):
            self._no_arithmetic(read.peek())
        read.at = after
        where = self._where()
        by = self._group_by()
        self._rest()
        return self._selected(table, token, where, by)

    # --- FROM, WHERE, GROUP BY

    def _from(self) -> tuple[str, SqlToken]:
        read = self.read
        if not read.take_word("FROM"):
            read.fail(
                "the SELECT names no table",
                read.peek(),
                fix=f"end it with FROM {self.schema.name}",
                code="DPR252",
            )
        token = read.next()
        if token.kind not in ("word", "name") or read.is_sign("(") or read.is_sign("."):
            read.fail(
                "FROM takes the name of one table",
                token,
                why="the schema declares one table, and no subquery or function is read",
                fix=f"FROM {self.schema.name}",
                code="DPR252",
            )
        self.names = {token.value}
        read.take_word("AS")
        if read.peek().kind == "name" or (
            read.peek().kind == "word" and not read.is_word(*_STOP, *JOINS)
        ):
            self.names.add(read.next().value)
        if read.is_sign(",") or read.is_word(*JOINS):
            read.fail(
                "a release is of one table",
                read.peek(),
                why="a join can give one person any number of rows",
                fix="join in the source: a pipeline's `source: {view: …}`",
                code="DPR252",
            )
        return token.value, token

    def _where(self) -> tuple[str, SqlToken] | None:
        read = self.read
        if not read.take_word("WHERE"):
            return None
        token = read.peek()
        return self._plain(*read.until(*_STOP)), token

    def _plain(self, first: int, stop: int) -> str:
        """Return the text of tokens, the table's name before a column left out."""
        read, gone = self.read, list(self.read.clean)
        for i in range(first, stop - 2):
            one, dot, two = read.tokens[i : i + 3]
            if dot.value == "." and one.value in self.names and two.kind in ("word", "name"):
                gone[one.start : dot.end] = " " * (dot.end - one.start)
        if first >= stop:
            return ""
        text = "".join(gone[read.tokens[first].start : read.tokens[stop - 1].end])
        return text.strip()

    def _group_by(self) -> list[tuple[str, SqlToken]]:
        read = self.read
        if not read.take_word("GROUP"):
            return []
        read.take_word("BY")
        by = []
        while True:
            token = read.peek()
            name = None if read.is_word("ALL", "ROLLUP", "CUBE", "GROUPING") else self._column()
            if name is None:
                read.fail(
                    "GROUP BY takes names of columns",
                    token,
                    why="keys come from the declaration of a column, never from the data",
                    fix="name the column; for a computed key declare one with `from`",
                    code="DPR255",
                )
            by.append((name, token))
            if not read.take_sign(","):
                return by

    def _rest(self) -> None:
        token = self.read.peek()
        if token.kind == "end":
            return
        fix = CLAUSES.get(token.word)
        self.read.fail(
            f"`{token.value}` cannot stand here" if fix is None else f"`{token.word}` is not read",
            token,
            why=None if fix is None else "what is released is decided before any row is read",
            fix=fix or "SELECT … FROM … [WHERE …] [GROUP BY …]",
            code="DPR251",
        )

    # --- items

    def _item(self) -> None:
        read = self.read
        token = read.peek()
        if token.kind == "word" and read.is_sign("(", ahead=1):
            statistic = self._call()
            if read.is_word("FILTER", "OVER"):
                read.fail(
                    f"`{read.peek().word}` is not read",
                    read.peek(),
                    fix="put the condition in WHERE, or ask for PROPORTION(condition)",
                    code="DPR253",
                )
            self.items.append((statistic, self._alias(), token))
            return
        name = self._column()
        if name is None or token.word == "CASE":
            self._no_arithmetic(token)
        self.keys.append((name, token))
        at = read.peek()
        alias = self._alias()
        if alias is not None and alias != name:
            read.fail(
                "a key keeps the name of its column",
                at,
                fix=f"leave the alias out, or rename `{name}` in the released table",
                code="DPR255",
            )

    def _alias(self) -> str | None:
        read = self.read
        marked = read.take_word("AS")
        token = read.peek()
        if token.kind in ("word", "name") and (marked or not read.is_word("FROM")):
            return read.next().value
        return None

    def _column(self) -> str | None:
        """Read `column` or `table.column`; None, at the same place, for anything else."""
        read = self.read
        token = read.peek()
        if token.kind not in ("word", "name"):
            return None
        if read.is_sign(".", ahead=1):
            if token.value not in self.names or read.peek(2).kind not in ("word", "name"):
                return None
            read.at += 3
            return read.tokens[read.at - 1].value
        read.at += 1
        return token.value

    def _no_arithmetic(self, token: SqlToken) -> NoReturn:
        self.read.fail(
            f"`{token.value}` cannot stand here",
            token,
            why="an item is a key column or one statistic",
            fix="SELECT the statistics, and compute with the released table",
            code="DPR253",
        )

    def _call(self) -> str:  # noqa: RET503 - `fail` raises
        from dprelease.schema.naming import nearest

        read = self.read
        token = read.next()
        function = token.word
        if function in INSTEAD:
            read.fail(
                f"`{function}` is not released",
                token,
                fix=f"write {INSTEAD[function]}",
                code="DPR253",
            )
        if function not in KNOWN:
            near = nearest(function, KNOWN)
            read.fail(
                f"unknown statistic `{token.value}`",
                token,
                fix=f"did you mean {near}?" if near else f"known: {', '.join(KNOWN)}",
                code="DPR253",
            )
        arguments = self._arguments()
        if function == "COUNT":
            return self._count(arguments, token)
        if function == "AVG" and len(arguments) == 1 and not self._is_column(arguments[0]):
            return f"proportion({self._share(*arguments[0])})"
        if function == "PROPORTION" and len(arguments) == 1:
            return f"proportion({self._plain(*arguments[0])})"
        if function in AS_WRITTEN:
            texts = [self._plain(*a) for a in arguments]
            return f"{function.lower()}({', '.join(texts)})"
        if function in ONE_COLUMN and len(arguments) == 1:
            return f"{ONE_COLUMN[function]}({self._argument(arguments[0])})"
        if function in TWO_COLUMNS and len(arguments) == 2:
            a, b = (self._argument(x) for x in arguments)
            return f"{TWO_COLUMNS[function]}({a}, {b})"
        if function in QUANTILE and len(arguments) == 2:
            return f"quantile({self._argument(arguments[0])}, {self._number(arguments[1])})"
        if function == "PERCENTILE_DISC" and len(arguments) == 1:
            return f"quantile({self._within()}, {self._number(arguments[0])})"
        read.fail(
            f"`{function}` takes another number of arguments",
            token,
            fix="see the forms of the SQL door in the documentation of `dprelease.query.select`",
            code="DPR254",
        )

    def _arguments(self) -> list[tuple[int, int]]:
        """Read `( … )`; return the token range of each argument."""
        read = self.read
        opened = read.next()
        ranges, depth, first = [], 0, read.at
        while True:
            token = read.peek()
            if token.kind == "end":
                read.fail("a bracket is not closed", opened, fix="add )", code="DPR254")
            if depth == 0 and token.kind == "sign" and token.value in (",", ")"):
                ranges.append((first, read.at))
                first = read.at + 1
                if read.next().value == ")":
                    return [] if ranges == [(first - 1, first - 1)] else ranges
                continue
            if token.kind == "sign":
                depth += (token.value in ("(", "[")) - (token.value in (")", "]"))
            read.at += 1

    def _is_column(self, part: tuple[int, int]) -> bool:
        back, self.read.at = self.read.at, part[0]
        found = self._column() is not None and self.read.at == part[1]
        self.read.at = back
        return found

    def _argument(self, part: tuple[int, int]) -> str:
        """Return the column that an argument names, as statistics write it."""
        first, stop = part
        if not self._is_column(part):
            token = self.read.tokens[first]
            if token.word == "DISTINCT":
                self.read.fail(
                    "DISTINCT is read in COUNT only", token, fix="leave it out", code="DPR254"
                )
            written = self._plain(first, stop)[:60] or "…"
            self.read.fail(
                "an argument is the name of a column",
                token,
                why="what is summed needs a declared range to clamp to",
                fix=f'declare a column for it: `NAME: {{kind: number, from: "{written}", range: [0, 100]}}`',
                code="DPR254",
            )
        return _quoted(self.read.tokens[stop - 1].value)

    def _number(self, part: tuple[int, int]) -> str:
        first, stop = part
        token = self.read.tokens[first]
        if stop != first + 1 or token.kind != "number":
            self.read.fail(
                "a quantile's p is a number", token, fix="e.g. QUANTILE_DISC(c, 0.9)", code="DPR254"
            )
        return token.value

    def _within(self) -> str:
        """Read `WITHIN GROUP (ORDER BY column [ASC])`."""
        read = self.read
        token = read.peek()
        words = ("WITHIN", "GROUP", "", "ORDER", "BY")
        for ahead, word in enumerate(words):
            wanted = read.is_word(word, ahead=ahead) if word else read.is_sign("(", ahead=ahead)
            if not wanted:
                read.fail(
                    "PERCENTILE_DISC needs its column",
                    token,
                    fix="PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY c)",
                    code="DPR254",
                )
        read.at += len(words)
        first = read.at
        name = self._column()
        read.take_word("ASC")
        if name is None or not read.take_sign(")"):
            read.fail(
                "the order is one column, ascending",
                read.tokens[first],
                fix="for the upper end write PERCENTILE_DISC(1 - p) with its value",
                code="DPR254",
            )
        return _quoted(name)

    def _count(self, arguments: list[tuple[int, int]], token: SqlToken) -> str:  # noqa: RET503 - `fail` raises
        if not arguments:
            return "count"
        first, stop = arguments[0]
        head = self.read.tokens[first]
        if len(arguments) == 1 and head.word == "DISTINCT":
            name = self._argument((first + 1, stop))
            unit = self.schema.unit
            persons = isinstance(unit, UserUnit) and name == _quoted(unit.column)
            return "count(persons)" if persons else f"count_distinct({name})"
        if len(arguments) == 1 and stop == first + 1 and head.value in ("*", "1"):
            return "count"
        self.read.fail(
            "COUNT is of rows or of different values",
            head if head.kind != "end" else token,
            fix="COUNT(*), with WHERE column IS NOT NULL; or COUNT(DISTINCT column)",
            code="DPR254",
        )

    def _share(self, first: int, stop: int) -> str:
        """Return the condition whose share `AVG(…)` asks for."""
        read = self.read
        tokens = read.tokens[first:stop]
        if len(tokens) >= 3 and tokens[0].word in ("CAST", "TRY_CAST") and tokens[1].value == "(":
            whole = tokens[-1].value == ")" and tokens[-3].word == "AS"
            if whole and tokens[-2].word in ("INT", "INTEGER", "BIGINT", "DOUBLE", "FLOAT"):
                return self._plain(first + 2, stop - 3)
        if len(tokens) >= 3 and tokens[0].word == "CASE" and tokens[1].word == "WHEN":
            tail = [t.word or t.value for t in tokens[-5:]]
            nested = any(t.word in ("CASE", "WHEN") for t in tokens[2:])
            shape = tail[0::2] == ["THEN", "ELSE", "END"] and not nested
            if shape and tail[1] in ("1", "1.0") and tail[3] in ("0", "0.0"):
                return f"coalesce({self._plain(first + 2, stop - 5)}, false)"
        self._argument((first, stop))
        raise AssertionError("an argument that is no column was refused")

    def _selected(
        self,
        table: str,
        token: SqlToken,
        where: tuple[str, SqlToken] | None,
        by: list[tuple[str, SqlToken]],
    ) -> Selected:
        read = self.read
        names = [name for name, _ in by]
        for name, at in self.keys:
            if name not in names:
                read.fail(
                    f"`{name}` is neither a statistic nor a key",
                    at,
                    why="rows are never released",
                    fix=f"add GROUP BY {_quoted(name)}, or ask for a statistic of it",
                    code="DPR255",
                )
        if not self.items:
            read.fail(
                "the SELECT asks for no statistic",
                self.keys[0][1],
                fix="add e.g. COUNT(*)",
                code="DPR253",
            )
        lines: dict[tuple[str | int, ...], str] = {("statistics",): read.origin}
        lines |= {("statistics", i): read.place(at) for i, (_, _, at) in enumerate(self.items)}
        lines |= {("by", i): read.place(at) for i, (_, at) in enumerate(by)}
        if where is not None:
            lines[("where",)] = read.place(where[1])
        block = {
            "by": names,
            "where": where[0] if where is not None else None,
            "statistics": [
                text if alias is None else {"statistic": text, "as": alias}
                for text, alias, _ in self.items
            ],
        }
        return Selected(table, read.place(token), block, lines)


def _quoted(name: str) -> str:
    """Return a column's name as statistics write it: plain where it can be."""
    plain = re.fullmatch(r"[^\W\d]\w*", name)
    return name if plain else '"' + name.replace('"', '""') + '"'
