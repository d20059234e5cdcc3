"""The SQL door: one SELECT as the release block that says the same.

    SELECT item ("," item)* FROM table [alias] [WHERE condition] [GROUP BY keys]

    keys   columns; with ROLLUP, CUBE or GROUPING SETS a release of several tables that add up, one per
           grouping set (`query.grouping_sets`), called `by_region_sex`, and `all_rows` for ()
    item   column of GROUP BY, or one of these, with an optional alias
    COUNT(*)                                       count
    COUNT(DISTINCT unit column)                    count(persons)
    COUNT(DISTINCT c)                              count_distinct(c)
    SUM AVG MIN MAX MEDIAN VAR_POP STDDEV_POP(c)   sum mean min max median variance std
    QUANTILE_DISC(c, p), PERCENTILE_DISC(p) WITHIN GROUP (ORDER BY c)      quantile(c, p)
    SUM(x * w), SUM(a) / SUM(b), SUM(x * w) / SUM(w)   weighted_sum(x, w), ratio(a, b), weighted_mean(x, w)
    WEIGHTED_AVG(x, w), RATIO(a, b), WEIGHTED_PROPORTION(condition, w)     weighted_mean, ratio, weighted_proportion
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

from dprelease.query.arguments import quoted
from dprelease.query.grouping_sets import Grouping, Keys, group_by
from dprelease.query.select_calls import Calls, Names
from dprelease.query.select_forms import CLAUSES, JOINS
from dprelease.query.sql_text import SqlText, SqlToken
from dprelease.schema.table import TableSchema

_STOP = (*CLAUSES, "GROUP", "WHERE", "FROM")


@dataclass(frozen=True, slots=True)
class Selected:
    """A SELECT as a release block.

    Attributes:
        table: the name after FROM; `table_at` is its place.
        block: `by`, `where` and `statistics`, or `where` and `tables`, as in YAML.
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
        self.names = Names(read, set())
        self.calls = Calls(self.names, schema.unit, schema.columns)

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
        self.names.tables.add(token.value)
        read.take_word("AS")
        if read.peek().kind == "name" or (
            read.peek().kind == "word" and not read.is_word(*_STOP, *JOINS)
        ):
            self.names.tables.add(read.next().value)
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
        return self.names.plain(*read.until(*_STOP)), token

    def _group_by(self) -> Grouping:
        if not self.read.take_word("GROUP"):
            return Grouping(((),), many_tables=False, at=self.read.peek())
        self.read.take_word("BY")
        return group_by(self.read, self.names)

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
            statistic = self.calls.item()
            if read.is_word("FILTER", "OVER"):
                read.fail(
                    f"`{read.peek().word}` is not read",
                    read.peek(),
                    fix="put the condition in WHERE, or ask for PROPORTION(condition)",
                    code="DPR253",
                )
            self.items.append((statistic, self._alias(), token))
            return
        name = self.names.column()
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

    def _no_arithmetic(self, token: SqlToken) -> NoReturn:
        self.read.fail(
            f"`{token.value}` cannot stand here",
            token,
            why="an item is a key column or one statistic",
            fix="SELECT the statistics, and compute with the released table",
            code="DPR253",
        )

    def _selected(
        self,
        table: str,
        token: SqlToken,
        where: tuple[str, SqlToken] | None,
        by: Grouping,
    ) -> Selected:
        read = self.read
        for name, at in self.keys:
            if name not in by.names:
                read.fail(
                    f"`{name}` is neither a statistic nor a key",
                    at,
                    why="rows are never released",
                    fix=f"add GROUP BY {quoted(name)}, or ask for a statistic of it",
                    code="DPR255",
                )
        if not self.items:
            read.fail(
                "the SELECT asks for no statistic",
                self.keys[0][1],
                fix="add e.g. COUNT(*)",
                code="DPR253",
            )
        lines: dict[tuple[str | int, ...], str] = {}
        if where is not None:
            lines[("where",)] = read.place(where[1])
        block: dict[str, object] = {"where": where[0] if where is not None else None}
        if by.many_tables:
            lines |= {("tables", i): read.place(by.at) for i in range(len(by.sets))}
            block["tables"] = [
                {"name": _table_name(keys), **self._table(("tables", i), keys, lines)}
                for i, keys in enumerate(by.sets)
            ]
        else:
            block |= self._table((), by.sets[0], lines)
        return Selected(table, read.place(token), block, lines)

    def _table(
        self, place: tuple[str | int, ...], keys: Keys, lines: dict[tuple[str | int, ...], str]
    ) -> dict[str, object]:
        """Return `by` and `statistics` of one table; `lines` is told where they stand."""
        read = self.read
        lines[(*place, "statistics")] = read.origin
        lines |= {
            (*place, "statistics", i): read.place(at) for i, (_, _, at) in enumerate(self.items)
        }
        lines |= {(*place, "by", i): read.place(at) for i, (_, at) in enumerate(keys)}
        return {
            "by": [name for name, _ in keys],
            "statistics": [
                text if alias is None else {"statistic": text, "as": alias}
                for text, alias, _ in self.items
            ],
        }


def _table_name(keys: Keys) -> str:
    """Return the name of a grouping set's table, and of its files."""
    return "_".join(["by", *(re.sub(r"\W", "_", name) for name, _ in keys)]) if keys else "all_rows"
