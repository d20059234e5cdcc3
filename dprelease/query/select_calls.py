"""The SQL door's statistics: one call of an item as the text that YAML would have.

Which form becomes what stands in `query.select`; a call that is none of them is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from dprelease.query.arguments import Syntax, quoted, sql_functions
from dprelease.query.select_forms import INSTEAD
from dprelease.query.select_sums import Summed, quotient, summed_text
from dprelease.query.sql_text import SqlText, SqlToken
from dprelease.schema.column import Column
from dprelease.schema.naming import nearest
from dprelease.schema.unit import Unit, UserUnit


class Names:
    """Reads columns of one table, with or without the table's name before them."""

    def __init__(self, read: SqlText, tables: set[str]) -> None:
        self.read = read
        self.tables = tables

    def column(self) -> str | None:
        """Read `column` or `table.column`; None, at the same place, for anything else."""
        read = self.read
        token = read.peek()
        if token.kind not in ("word", "name"):
            return None
        if read.is_sign(".", ahead=1):
            if token.value not in self.tables or read.peek(2).kind not in ("word", "name"):
                return None
            read.at += 3
            return read.tokens[read.at - 1].value
        read.at += 1
        return token.value

    def plain(self, first: int, stop: int) -> str:
        """Return the text of tokens, the table's name before a column left out."""
        read, gone = self.read, list(self.read.clean)
        for i in range(first, stop - 2):
            one, dot, two = read.tokens[i : i + 3]
            if dot.value == "." and one.value in self.tables and two.kind in ("word", "name"):
                gone[one.start : dot.end] = " " * (dot.end - one.start)
        if first >= stop:
            return ""
        text = "".join(gone[read.tokens[first].start : read.tokens[stop - 1].end])
        return text.strip()


class Calls:
    """Reads the statistics of one SELECT: an item (DPR253) or an argument (DPR254) may be refused."""

    def __init__(self, names: Names, unit: Unit, columns: Mapping[str, Column]) -> None:
        self.read = names.read
        self.names = names
        self.unit = unit
        self.columns = columns

    def item(self) -> str:
        """Read a call, or one SUM divided by another; return the statistic as YAML writes it."""
        read = self.read
        top, text = self._summed(), ""
        if top is None:
            text = self.call()
        if not read.is_sign("/"):
            return summed_text(top) if top is not None else text
        slash = read.next()
        bottom = self._summed() if top is not None else None
        if top is None or bottom is None:
            read.fail(
                "what is divided is one SUM by another",
                slash,
                why="of other statistics the quotient is made from the released ones",
                fix="SUM(a) / SUM(b); or SELECT both, and divide the released values",
                code="DPR253",
            )
        return quotient(read, top, bottom, self.columns)

    def _summed(self) -> Summed | None:
        """Read `SUM(column)` or `SUM(column * column)`; None, at the same place, for anything else."""
        read, back = self.read, self.read.at
        token = read.next()
        if token.word == "SUM" and read.take_sign("("):
            found = [self.names.column()]
            if read.take_sign("*"):
                found.append(self.names.column())
            names = tuple(name for name in found if name is not None)
            if len(names) == len(found) and read.take_sign(")"):
                return Summed(names, token)
        read.at = back
        return None

    def call(self) -> str:  # noqa: RET503 - `fail` raises
        """Read `function(arguments)`; return the statistic as YAML writes it."""
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
        known = _known()
        if function not in known:
            near = nearest(function, known)
            read.fail(
                f"unknown statistic `{token.value}`",
                token,
                fix=f"did you mean {near}?" if near else f"known: {', '.join(known)}",
                code="DPR253",
            )
        arguments = self._arguments()
        if function == "COUNT":
            return self._count(arguments, token)
        if function == "AVG" and len(arguments) == 1 and not self._is_column(arguments[0]):
            return f"{known['PROPORTION'][0]}({self._share(*arguments[0])})"
        name, syntax = known[function]
        if function == "PROPORTION" and len(arguments) == 1:
            return f"{name}({self.names.plain(*arguments[0])})"
        if function == "PERCENTILE_DISC" and len(arguments) == 1:
            return f"{name}({self._within()}, {self._number(arguments[0])})"
        if syntax.arguments.sql == "text":
            return f"{name}({', '.join(self.names.plain(*a) for a in arguments)})"
        if syntax.least <= len(arguments) <= syntax.most and function != "PERCENTILE_DISC":
            columns, rest = arguments, []
            if syntax.arguments.sql == "number":
                columns, rest = arguments[:-1], arguments[-1:]
            texts = [*map(self._argument, columns), *map(self._number, rest)]
            return f"{name}({', '.join(texts)})"
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
        found = self.names.column() is not None and self.read.at == part[1]
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
            written = self.names.plain(first, stop)[:60] or "…"
            self.read.fail(
                "an argument is the name of a column",
                token,
                why="what is summed needs a declared range to clamp to",
                fix=f'declare a column for it: `NAME: {{kind: number, from: "{written}", range: [0, 100]}}`',
                code="DPR254",
            )
        return quoted(self.read.tokens[stop - 1].value)

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
        name = self.names.column()
        read.take_word("ASC")
        if name is None or not read.take_sign(")"):
            read.fail(
                "the order is one column, ascending",
                read.tokens[first],
                fix="for the upper end write PERCENTILE_DISC(1 - p) with its value",
                code="DPR254",
            )
        return quoted(name)

    def _count(self, arguments: list[tuple[int, int]], token: SqlToken) -> str:  # noqa: RET503 - `fail` raises
        known = sql_functions()
        rows, distinct = known["COUNT"][0], known["COUNT_DISTINCT"][0]
        if not arguments:
            return rows
        first, stop = arguments[0]
        head = self.read.tokens[first]
        if len(arguments) == 1 and head.word == "DISTINCT":
            name = self._argument((first + 1, stop))
            persons = isinstance(self.unit, UserUnit) and name == quoted(self.unit.column)
            return f"{rows}(persons)" if persons else f"{distinct}({name})"
        if len(arguments) == 1 and stop == first + 1 and head.value in ("*", "1"):
            return rows
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
                return self.names.plain(first + 2, stop - 3)
        if len(tokens) >= 3 and tokens[0].word == "CASE" and tokens[1].word == "WHEN":
            tail = [t.word or t.value for t in tokens[-5:]]
            nested = any(t.word in ("CASE", "WHEN") for t in tokens[2:])
            shape = tail[0::2] == ["THEN", "ELSE", "END"] and not nested
            if shape and tail[1] in ("1", "1.0") and tail[3] in ("0", "0.0"):
                return f"coalesce({self.names.plain(first + 2, stop - 5)}, false)"
        self._argument((first, stop))
        raise AssertionError("an argument that is not a column was refused")


@cache
def _known() -> dict[str, tuple[str, Syntax]]:
    """Return the functions that are read: what each is called here, and how that is written."""
    found = sql_functions()
    return {**found, "PERCENTILE_DISC": found["QUANTILE_DISC"]}
