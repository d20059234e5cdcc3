"""The SQL door: one SELECT as the release block that says the same.

    SELECT item ("," item)* FROM table [alias] [WHERE condition] [GROUP BY keys]

    keys   columns, parts of dates such as MONTH(c); with ROLLUP, CUBE or GROUPING SETS a release of several tables that add up, one per
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
    one of these FILTER (WHERE condition)          … where condition

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

from dprelease.core.strict_json import json_text
from dprelease.query.grouping_sets import Grouping, Keys, group_by
from dprelease.query.select_calls import Calls, Names
from dprelease.query.sql_text import Phrase, SqlText, SqlToken
from dprelease.schema.naming import quoted
from dprelease.schema.table import TableSchema

_CLAUSES = {
    "HAVING": "release the groups, then choose among the released ones",
    "ORDER": "sort the released table",
    "LIMIT": "every declared group is released; cut the released table",
    "OFFSET": "every declared group is released; cut the released table",
    "FETCH": "every declared group is released; cut the released table",
    "QUALIFY": "leave it out",
    "WINDOW": "leave it out",
    "USING": "leave it out",
    "WITH": "write GROUP BY ROLLUP(a, b)",
    "SAMPLE": "leave it out",
    "TABLESAMPLE": "leave it out",
    "UNION": "write one SELECT per release",
    "INTERSECT": "write one SELECT per release",
    "EXCEPT": "write one SELECT per release",
}
_JOINS = ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "ASOF", "SEMI", "ANTI")
_STOP = (*_CLAUSES, "GROUP", "WHERE", "FROM")


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
            table (DPR252), an item (DPR253), an argument (DPR254), a key (DPR255), a quotient
            (DPR256) or a function (DPR257) that is not released.
    """
    return _Select(SqlText(sql, origin), schema).parse()


class _Select:
    """Reads a SELECT clause by clause: each takes its part from the front, and what is left is refused."""

    def __init__(self, read: SqlText, schema: TableSchema) -> None:
        self.read = read
        self.schema = schema
        self.keys: list[tuple[str, SqlToken]] = []
        self.items: list[tuple[str, str | None, SqlToken]] = []

    def parse(self) -> Selected:
        whole = self.read.phrase()
        if whole[0].word == "WITH":
            self._no_table(next((token for token in whole.tokens if token.kind == "("), whole[0]))
        if whole[0].word != "SELECT":
            self.read.fail(
                "the statement is not a SELECT",
                whole[0],
                fix=f"write e.g. SELECT COUNT(*) FROM {self.schema.name}",  # noqa: S608 - a message
                code="DPR250",
            )
        if whole[1].word in ("DISTINCT", "ALL") or whole[1].sign == "*":
            self.read.fail(
                f"`SELECT {whole[1].value}` would release rows",
                whole[1],
                why="statistics of groups are released, rows never",
                fix="SELECT column, COUNT(*) … GROUP BY column",
                code="DPR250",
            )
        items, left = whole.after(1).until("FROM")
        table, names, left = self._from(left)
        calls = Calls(names, self.schema.unit, self.schema.columns)
        for phrase in items.split(","):
            self._item(phrase, names, calls)
        where, grouping = None, Grouping(((),), many_tables=False, at=left[0])
        if left.words("WHERE"):
            condition, left = left.after(1).until(*_STOP)
            where = names.plain(condition), condition[0]
        if left.words("GROUP", "BY"):
            grouping = group_by(names, left.after(2), self._no_clause)
        elif len(left):
            self._no_clause(left[0])
        return self._selected(table, where, grouping)

    # --- FROM, and what may not follow

    def _from(self, phrase: Phrase) -> tuple[SqlToken, Names, Phrase]:
        """Read `FROM table [[AS] alias]`; return the table, the columns' names, and what is left."""
        if not len(phrase):
            self.read.fail(
                "the SELECT names no table",
                phrase[0],
                fix=f"end it with FROM {self.schema.name}",
                code="DPR252",
            )
        table, left = phrase[1], phrase.after(2)
        if not table.named or left[0].kind == "(" or left[0].sign == ".":
            self._no_table(table)
        marked = left.words("AS")
        alias = left[int(marked)]
        tables = {table.value}
        if alias.named and alias.word not in (*_STOP, *_JOINS):
            tables.add(alias.value)
            left = left.after(1 + marked)
        if left[0].sign == "," or left[0].word in _JOINS:
            self.read.fail(
                "a release is of one table",
                left[0],
                why="a join can give one person any number of rows",
                fix="join in the source: a pipeline's `source: {view: …}`",
                code="DPR252",
            )
        return table, Names(self.read, tables), left

    def _no_table(self, token: SqlToken) -> NoReturn:
        """Refuse what is not a name; a SELECT in brackets is read by a pipeline's view, which proves whose row each row is."""
        fix = f"FROM {self.schema.name}"
        if token.inside is not None and token.inside[0].word == "SELECT":
            inner = " ".join(self.read.sql[token.start + 1 : token.end - 1].split())
            named = re.search(r"\bfrom\s+(\w+)", inner, re.IGNORECASE)
            fix = (
                "write its WHERE in this SELECT, and declare its expressions as columns of the schema (`from`); or run a"
                f" pipeline, whose schema declares its columns, with\nsource:\n  view: {json_text(inner)}\n"
                f"  tables: {{{named[1] if named else self.schema.name}: {{parquet: FILE}}}}"
            )
        self.read.fail(
            "FROM takes the name of one table",
            token,
            why="the schema declares one table, and no subquery or function is read",
            fix=fix,
            code="DPR252",
        )

    def _no_clause(self, token: SqlToken) -> NoReturn:
        fix = _CLAUSES.get(token.word)
        self.read.fail(
            f"`{token.value}` cannot stand here" if fix is None else f"`{token.word}` is not read",
            token,
            why=None if fix is None else "what is released is decided before any row is read",
            fix=fix or "SELECT … FROM … [WHERE …] [GROUP BY …]",
            code="DPR251",
        )

    # --- items

    def _item(self, phrase: Phrase, names: Names, calls: Calls) -> None:
        token = phrase[0]
        key, left = names.column(phrase)
        if token.kind == "word" and left[0].kind == "(":
            statistic, left = calls.item(phrase)
            if left[0].word in ("FILTER", "OVER"):
                inside = left[1].inside
                of_one = left[0].word == "FILTER" and phrase[2].sign != "/"
                if not of_one or inside is None or not inside.words("WHERE") or len(inside) == 1:
                    self.read.fail(
                        f"`{left[0].word}` is not read here",
                        left[0],
                        fix="write one statistic, e.g. COUNT(*) FILTER (WHERE condition)",
                        code="DPR253",
                    )
                statistic, left = f"{statistic} where {names.plain(inside.after(1))}", left.after(2)
            self.items.append((statistic, self._alias(left), token))
            return
        if key is None or token.word == "CASE":
            self._no_item(token)
        self.keys.append((key, token))
        if self._alias(left) not in (None, key):
            self.read.fail(
                "a key keeps the name of its column",
                left[0],
                fix=f"leave the alias out, or rename `{key}` in the released table",
                code="DPR255",
            )

    def _alias(self, phrase: Phrase) -> str | None:
        """Read `[AS] name`, or nothing."""
        if not len(phrase):
            return None
        marked = int(phrase.words("AS"))
        if len(phrase) == marked or not phrase[marked].named:
            self._no_item(phrase[marked])
        if len(phrase) > marked + 1:
            self._no_item(phrase[marked + 1])
        return phrase[marked].value

    def _no_item(self, token: SqlToken) -> NoReturn:
        self.read.fail(
            f"`{token.value}` cannot stand here",
            token,
            why="an item is a key column or one statistic",
            fix="SELECT the statistics, and compute with the released table",
            code="DPR253",
        )

    def _selected(
        self,
        table: SqlToken,
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
        return Selected(table.value, read.place(table), block, lines)

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
