"""The SQL door's statistics: one call of an item as the text that YAML would have.

Which form becomes what stands in `query.select`; a call that is none of them is refused. SUM(w) of SQL is over
all rows whose w is known, a weighted mean's denominator over those whose x is known, too. Where that is not
the same the quotient SUM(x * w) / SUM(w) is refused, and WEIGHTED_AVG(x, w) is named, which is over rows with both.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NoReturn

from dprelease.query.arguments import Syntax, sql_functions
from dprelease.query.expression import type_of
from dprelease.query.functions import PARTS
from dprelease.query.nodes import Type
from dprelease.query.sql_text import Phrase, SqlText, SqlToken
from dprelease.schema.column import Column
from dprelease.schema.naming import nearest, quoted
from dprelease.schema.unit import Unit, UserUnit

_PART = "the part of the date, here and in GROUP BY: MONTH(c), or YEAR, QUARTER, WEEK, DAY, WEEKDAY, HOUR"
_INSTEAD = {
    "DATE_PART": _PART,
    "DATE_TRUNC": _PART,
    "EXTRACT": _PART,
    "STRFTIME": _PART,
    "TO_CHAR": _PART,
    "VAR_SAMP": "VAR_POP(c), the population form",
    "VARIANCE": "VAR_POP(c), the population form",
    "STDDEV": "STDDEV_POP(c), the population form",
    "STDDEV_SAMP": "STDDEV_POP(c), the population form",
    "COVAR_SAMP": "COVAR_POP(a, b), the population form",
    "QUANTILE_CONT": "QUANTILE_DISC(c, p)",
    "PERCENTILE_CONT": "PERCENTILE_DISC(p) WITHIN GROUP (ORDER BY c)",
    "APPROX_QUANTILE": "QUANTILE_DISC(c, p)",
    "APPROX_COUNT_DISTINCT": "COUNT(DISTINCT c)",
    "COUNT_IF": "COUNT(*) FILTER (WHERE condition)",
    "COUNTIF": "COUNT(*) FILTER (WHERE condition)",
    "GROUPING": "the statistics alone: every grouping set is a table of its own, with its own keys",
    "GROUPING_ID": "the statistics alone: every grouping set is a table of its own",
    "MODE": "COUNT(*) with GROUP BY c",
    "ROUND": "the statistic alone, and round the released values",
}
"""Functions that are not released, and what to write instead."""
_NUMBERS = ("INT", "INTEGER", "BIGINT", "DOUBLE", "FLOAT")


class Names:
    """The columns of one table, named with or without the table's name before them."""

    def __init__(self, read: SqlText, tables: set[str]) -> None:
        self.read = read
        self.tables = tables
        gone, tokens = list(read.clean), read.tokens
        for i, (one, dot, two) in enumerate(zip(tokens, tokens[1:], tokens[2:], strict=False)):
            alone = i == 0 or tokens[i - 1].sign != "."
            if one.named and one.value in tables and dot.sign == "." and two.named and alone:
                gone[one.start : dot.end] = " " * (dot.end - one.start)
        self.text = "".join(gone)

    def column(self, phrase: Phrase) -> tuple[str | None, Phrase]:
        """Read `column`, `table.column` or a part of a date, and what is left; None where it begins with anything else."""
        part, inside = phrase[0].word.lower(), phrase[1].inside
        if part in PARTS and phrase[1].kind == "(" and inside is not None:
            moment = self.only(inside)
            called = None if moment is None else f"{part}({quoted(moment)})"
            return called, phrase if called is None else phrase.after(2)
        dotted = phrase[1].sign == "."
        used = 3 if dotted else 1
        known = not dotted or (phrase[0].named and phrase[0].value in self.tables)
        if not known or len(phrase) < used or not phrase[used - 1].named:
            return None, phrase
        return phrase[used - 1].value, phrase.after(used)

    def only(self, phrase: Phrase) -> str | None:
        """Return the column that the whole phrase names."""
        name, left = self.column(phrase)
        return None if len(left) else name

    def plain(self, phrase: Phrase) -> str:
        """Return the text of a phrase, the table's name before a column left out."""
        if not len(phrase):
            return ""
        return self.text[phrase[0].start : phrase[len(phrase) - 1].end].strip()


class Calls:
    """Reads the statistics of one SELECT: an argument (DPR254), a quotient (DPR256), a function (DPR257) may be refused."""

    def __init__(self, names: Names, unit: Unit, columns: Mapping[str, Column]) -> None:
        self.read = names.read
        self.names = names
        self.unit = unit
        self.columns = columns

    def item(self, phrase: Phrase) -> tuple[str, Phrase]:
        """Read a call, or one SUM divided by another; return the statistic as YAML writes it, and what is left."""
        top = self._summed(phrase)
        if top:
            function, syntax = sql_functions()["SUM"]
            function = function if len(top) == 1 else syntax.weighted
            text, left = f"{function}({', '.join(map(quoted, top))})", phrase.after(2)
        else:
            text, left = self._call(phrase)
        slash = left[0]
        if slash.sign != "/":
            return text, left
        bottom = self._summed(left.after(1))
        if not top or not bottom:
            self.read.fail(
                "what is divided is one SUM by another",
                slash,
                why="of other statistics the quotient is made from the released ones",
                fix="SUM(a) / SUM(b); or SELECT both, and divide the released values",
                code="DPR256",
            )
        return self._quotient(top, bottom, left[1]), left.after(3)

    def _summed(self, phrase: Phrase) -> list[str]:
        """Return the columns of `SUM(column)` or `SUM(column * column)`; none for anything else."""
        inside = phrase[1].inside
        if phrase[0].word != "SUM" or phrase[1].kind != "(" or inside is None:
            return []
        found = [self.names.only(part) for part in inside.split("*")]
        names = [name for name in found if name is not None]
        return names if len(names) == len(found) <= 2 else []

    def _quotient(self, top: list[str], bottom: list[str], at: SqlToken) -> str:
        """Return the statistic of one SUM divided by another, which stands `at`."""
        if len(bottom) > 1:
            self.read.fail(
                "a quotient divides by the sum of one column",
                at,
                fix="declare the product as a column, `from: ...`, and write SUM(a) / SUM(product)",
                code="DPR256",
            )
        (below,) = bottom
        if len(top) == 1:
            return f"{sql_functions()['RATIO'][0]}({quoted(top[0])}, {quoted(below)})"
        if below not in top:
            self.read.fail(
                f"SUM({' * '.join(top)}) is divided by the sum of neither column",
                at,
                fix=f"SUM(x * w) / SUM(w) is a weighted mean; for another ratio declare the product as a column,"
                f' `from: "{" * ".join(top)}"`',
                code="DPR256",
            )
        value = top[top[0] == below]
        column = self.columns.get(value)
        if column is not None and column.null_default is None:
            self.read.fail(
                f"SUM({below}) also has the rows whose `{value}` is null",
                at,
                why="their weight would be in the denominator alone, and no average comes out",
                fix=f"write WEIGHTED_AVG({quoted(value)}, {quoted(below)}), over rows where both are known",
                code="DPR256",
            )
        _, mean = sql_functions()["AVG"]
        return f"{mean.weighted}({quoted(value)}, {quoted(below)})"

    def _call(self, phrase: Phrase) -> tuple[str, Phrase]:
        """Read `function(arguments)`; return the statistic as YAML writes it, and what is left."""
        token, bracket, left = phrase[0], phrase[1], phrase.after(2)
        function, known = token.word, _known()
        if function in _INSTEAD:
            self.read.fail(
                f"`{function}` is not released",
                token,
                fix=f"write {_INSTEAD[function]}",
                code="DPR257",
            )
        if function not in known:
            near = nearest(function, known)
            self.read.fail(
                f"unknown statistic `{token.value}`",
                token,
                fix=f"did you mean {near}?" if near else f"known: {', '.join(known)}",
                code="DPR257",
            )
        inside = bracket.inside
        arguments = inside.split(",") if inside is not None and len(inside) else []
        name, syntax = known[function]
        if function == "COUNT":
            return self._count(arguments), left
        if function == "AVG" and len(arguments) == 1 and self.names.only(arguments[0]) is None:
            return f"{known['PROPORTION'][0]}({self._share(arguments[0])})", left
        if function == "PROPORTION" and len(arguments) == 1:
            return f"{name}({self.names.plain(arguments[0])})", left
        if function == "PERCENTILE_DISC" and len(arguments) == 1:
            column = self._within(left)
            return f"{name}({column}, {self._number(arguments[0])})", left.after(3)
        if syntax.arguments.sql == "text":
            return f"{name}({', '.join(map(self.names.plain, arguments))})", left
        if not syntax.least <= len(arguments) <= syntax.most or function == "PERCENTILE_DISC":
            self.read.fail(
                f"`{function}` takes another number of arguments",
                token,
                fix="see the forms of the SQL door in the documentation of `dprelease.query.select`",
                code="DPR254",
            )
        columns = len(arguments) - (syntax.arguments.sql == "number")
        texts = [*map(self._argument, arguments[:columns]), *map(self._number, arguments[columns:])]
        return f"{name}({', '.join(texts)})", left

    def _argument(self, phrase: Phrase) -> str:
        """Return the column that an argument names, as statistics write it."""
        name = self.names.only(phrase)
        if name is None:
            self._no_column(phrase)
        return quoted(name)

    def _no_column(self, phrase: Phrase) -> NoReturn:
        token = phrase[0]
        if token.word == "DISTINCT":
            self.read.fail(
                "DISTINCT is read in COUNT only", token, fix="leave it out", code="DPR254"
            )
        written = self.names.plain(phrase)[:60] or "…"
        fix = (
            f'declare a column for it: `NAME: {{kind: number, from: "{written}", range: [0, 100]}}`'
        )
        if type_of(written, self.columns) is Type.boolean:
            fix = f"write PROPORTION({written}), or COUNT(*) FILTER (WHERE {written})"
        self.read.fail(
            "an argument is the name of a column",
            token,
            why="what is summed needs a declared range to clamp to",
            fix=fix,
            code="DPR254",
        )

    def _number(self, phrase: Phrase) -> str:
        token = phrase[0]
        if len(phrase) != 1 or token.kind != "number":
            self.read.fail(
                "a quantile's p is a number", token, fix="e.g. QUANTILE_DISC(c, 0.9)", code="DPR254"
            )
        return token.value

    def _within(self, phrase: Phrase) -> str:
        """Read `WITHIN GROUP (ORDER BY column [ASC])`."""
        inside = phrase[2].inside
        if not phrase.words("WITHIN", "GROUP") or inside is None or not inside.words("ORDER", "BY"):
            self.read.fail(
                "PERCENTILE_DISC needs its column",
                phrase[0],
                fix="PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY c)",
                code="DPR254",
            )
        name, left = self.names.column(inside.after(2))
        if name is None or len(left) > left.words("ASC"):
            self.read.fail(
                "the order is one column, ascending",
                inside[2],
                fix="for the upper end write PERCENTILE_DISC(1 - p) with its value",
                code="DPR254",
            )
        return quoted(name)

    def _count(self, arguments: list[Phrase]) -> str:
        known = sql_functions()
        rows, distinct = known["COUNT"][0], known["COUNT_DISTINCT"][0]
        if not arguments:
            return rows
        head = arguments[0][0]
        if len(arguments) == 1 and head.word == "DISTINCT":
            name = self._argument(arguments[0].after(1))
            persons = isinstance(self.unit, UserUnit) and name == quoted(self.unit.column)
            return f"{rows}(persons)" if persons else f"{distinct}({name})"
        one = head.value in ("*", "1") and head.kind != "name"
        if len(arguments) > 1 or len(arguments[0]) > 1 or not one:
            self.read.fail(
                "COUNT is of rows or of different values",
                head,
                fix="write COUNT(*) FILTER (WHERE column IS NOT NULL), or COUNT(DISTINCT column)",
                code="DPR254",
            )
        return rows

    def _share(self, phrase: Phrase) -> str:
        """Return the condition whose share `AVG(…)` asks for."""
        head, cast = phrase[0], phrase[1].inside
        if head.word in ("CAST", "TRY_CAST") and len(phrase) == 2 and cast is not None:
            kind = cast.after(len(cast) - 2)
            if kind[0].word == "AS" and kind[1].word in _NUMBERS:
                return self.names.plain(Phrase(cast.tokens[:-2], kind[0]))
        if not phrase.words("CASE", "WHEN") or not self._one_or_zero(phrase):
            self._no_column(phrase)
        condition = Phrase(phrase.tokens[2:-5], phrase.tokens[-5])
        return f"coalesce({self.names.plain(condition)}, false)"

    def _one_or_zero(self, phrase: Phrase) -> bool:
        """Return whether a CASE has one WHEN, and ends with THEN 1 ELSE 0 END."""
        tail = phrase.tokens[-5:]
        inner = (t.word for t in self.read.flat(phrase.after(2)))
        numbers = [t.value for t in tail if t.kind == "number"]
        return (
            [t.word for t in tail] == ["THEN", "", "ELSE", "", "END"]
            and numbers in (["1", "0"], ["1", "0.0"], ["1.0", "0"], ["1.0", "0.0"])
            and not {"CASE", "WHEN"}.intersection(inner)
        )


@cache
def _known() -> dict[str, tuple[str, Syntax]]:
    """Return the functions that are read: what each is called here, and how that is written."""
    found = sql_functions()
    return {**found, "PERCENTILE_DISC": found["QUANTILE_DISC"]}
