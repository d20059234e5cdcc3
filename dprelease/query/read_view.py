"""A curator's view: rows of one private table, each beside at most one row of public tables.

    SELECT item ("," item)* FROM private [alias]
    ([LEFT [OUTER] | INNER] JOIN public [alias] ON key = value (AND key = value)*)*
    [WHERE condition] [GROUP BY table.column ("," table.column)*]

    item   table.column [AS name], or an expression of the expression language AS name; where rows are
           grouped, table.column that they are grouped by, or count(*), or count, count distinct, sum, min,
           max or avg of an expression AS name

Stability. A row of the view is made from one private row and public rows alone, and every join
names a key that is unique in its public table (the engine checks it there), so a private row gives
at most one row of the view: neighbouring tables have neighbouring views, for every unit
(`docs/theory/sensitivities-and-contribution-bounding.md#views`). A filter
or an inner join takes rows away, so the number of rows is private
(`docs/theory/sensitivities-and-contribution-bounding.md#when-the-number-of-rows-is-public`);
`keeps_rows` says whether neither occurs. Grouped rows are made of one unit's rows alone if its id is
among what they are grouped by, which `query.view.check_unit` requires
(`docs/theory/sensitivities-and-contribution-bounding.md#views-that-group`).

What is wider (other groups, windows, DISTINCT, LIMIT, UNION, subqueries, joins of private tables) has
no such argument. It is read only with `allow: [unproven-view]`: then sqlglot's tree must consist of
known nodes, casts become TRY_CAST, and the plan says that the view is observed, not proved.
No text of the file reaches an engine in either form.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Literal, NoReturn

from dprelease.core.errors import PlanError
from dprelease.query.functions import FUNCTIONS
from dprelease.query.nodes import KEYWORDS
from dprelease.query.sql_text import Phrase, SqlText, SqlToken
from dprelease.query.view import UNPROVEN, Over, Place, View, ViewColumn, ViewJoin
from dprelease.query.wide_view import parse_wide_view

_WIDER = (
    "SELECT", "DISTINCT", "HAVING", "ORDER", "LIMIT", "OFFSET", "UNION", "INTERSECT",
    "EXCEPT", "OVER", "QUALIFY", "FILTER", "WINDOW", "WITH", "EXISTS", "LATERAL", "UNNEST",
    "TABLESAMPLE", "USING", "SAMPLE", "PIVOT",
)  # fmt: skip
_AFTER_TABLE = ("LEFT", "INNER", "JOIN", "WHERE", "ON", "CROSS", "RIGHT", "FULL", "GROUP")


def parse_view(
    sql: str,
    *,
    private: Iterable[str],
    public: Iterable[str],
    allow: Iterable[str] = (),
    origin: str = "view",
) -> View:
    """Return the checked view.

    Args:
        sql: one SELECT; private, public: the declared tables' names.
        allow: names of shortcuts that are accepted without a proof.

    Raises:
        ConfigError: the text is not SQL (DPR120, DPR121).
        PlanError: it is wider than row by row and that is not allowed (DPR260), reads a table
            that is not declared (DPR261), joins otherwise than by a public key (DPR262), has a
            faulty item (DPR263), or a node that no view may have (DPR264).
    """
    read = SqlText(sql, origin)
    names, tables = tuple(private), tuple(public)
    if UNPROVEN in tuple(allow) and any(t.word == "GROUP" for t in read.tokens):
        return parse_wide_view(read, (*names, *tables))  # as it was before groups were proved
    try:
        return _Reader(read, names, tables).parse()
    except PlanError:
        if UNPROVEN not in tuple(allow):
            raise
    return parse_wide_view(read, (*names, *tables))


class _Reader:
    """Reads the proven form."""

    def __init__(self, read: SqlText, private: tuple[str, ...], public: tuple[str, ...]) -> None:
        self.read = read
        self.private = private
        self.public = public
        self.groups: tuple[Place, ...] = ()
        self.aliases: dict[str, str] = {}
        self.main = ""

    def parse(self) -> View:
        read = self.read
        inner = [t for last, t in pairwise(read.tokens) if (t.word, last.sign) != ("DISTINCT", "(")]
        wide = next((t for t in inner if t.word in _WIDER), None)
        if wide is not None:
            self._wider(wide, f"`{wide.word}` is not row by row")
        whole = read.phrase()
        if not whole.words("SELECT"):
            self._wider(whole[0], "the view is not a SELECT")
        items, left = whole.after(1).until("FROM")
        if not len(left):
            self._wider(left[0], "the view names no table")
        table, at, left = self._table(left.after(1))
        if table not in self.private:
            self._unknown(at, table, self.private, "after FROM stands the private table")
        self.main, left = self._alias(table, left)
        joins = []
        while len(left) and left[0].word not in ("WHERE", "GROUP"):
            join, left = self._join(left)
            joins.append(join)
        where, place = None, left[0]
        if left.words("WHERE"):
            condition, left = left.after(1).until("GROUP")
            where, place = self._condition(condition), condition[0]
        if len(left):
            if not left.words("GROUP", "BY"):
                self._bad_item(left[1], "rows are grouped BY columns")
            self.groups = tuple(map(self._group, left.after(2).split(",")))
        columns = [self._item(part) for part in items.split(",")]
        self._distinct(columns, items[0])
        return View(
            sql=" ".join(read.clean.split()),
            proven=True,
            keeps_rows=where is None and not self.groups and all(j.kind == "left" for j in joins),
            tables=(table, *(j.table for j in joins)),
            private=(table, self.main),
            joins=tuple(joins),
            columns=tuple(columns),
            where=where,
            where_at=read.place(place),
            groups=self.groups,
        )

    # --- tables

    def _table(self, phrase: Phrase) -> tuple[str, SqlToken, Phrase]:
        token, left = phrase[0], phrase.after(1)
        if not token.named or left[0].kind == "(" or left[0].sign == ".":
            self.read.fail(
                "a view reads declared tables, by name",
                token,
                fix="declare it under `tables` or `public_tables`",
                code="DPR261",
            )
        return token.value, token, left

    def _unknown(self, at: SqlToken, name: str, known: tuple[str, ...], why: str) -> NoReturn:
        self.read.fail(
            f"`{name}` is not one of the tables that may stand here",
            at,
            why=why,
            fix=f"declared: {', '.join(known) or 'none'}",
            code="DPR261",
        )

    def _alias(self, table: str, phrase: Phrase) -> tuple[str, Phrase]:
        """Read `[AS] alias`, or nothing."""
        marked = int(phrase.words("AS"))
        token, left = phrase[marked], phrase
        alias = table
        if token.named and (marked or token.word not in _AFTER_TABLE):
            alias, left = token.value, phrase.after(1 + marked)
        if alias in self.aliases or "." in alias:
            self.read.fail(
                f"two tables are called `{alias}`", token, fix="give one an alias", code="DPR261"
            )
        self.aliases[alias] = table
        return alias, left

    def _join(self, phrase: Phrase) -> tuple[ViewJoin, Phrase]:
        at, left = phrase[0], phrase
        kind: Literal["left", "inner"] = "left" if left.words("LEFT") else "inner"
        for word in ("LEFT", "OUTER") if kind == "left" else ("INNER",):
            left = left.after(int(left.words(word)))
        if not left.words("JOIN"):
            self._bad_join(at, "only LEFT JOIN and INNER JOIN with a public table are row by row")
        before = frozenset(self.aliases)
        table, token, left = self._table(left.after(1))
        if table not in self.public:
            if table in self.private:
                self._bad_join(token, "a private table on both sides gives one person many rows")
            self._unknown(token, table, self.public, "a view joins public tables only")
        alias, left = self._alias(table, left)
        if not left.words("ON"):
            self._bad_join(left[0], "a join says its key")
        keys: list[tuple[str, Place]] = []
        while not keys or left.words("AND"):
            key, left = self._equality(left.after(1), alias, before)
            keys.append(key)
        return ViewJoin(table, alias, kind, tuple(keys)), left

    def _equality(
        self, phrase: Phrase, alias: str, before: frozenset[str]
    ) -> tuple[tuple[str, Place], Phrase]:
        left, rest = self._place(phrase)
        equal = rest[0].sign in ("=", "==")
        right, rest = self._place(rest.after(1))
        if not equal or left is None or right is None:
            self._bad_join(phrase[0], "a key is an equality of two columns")
        if left[0] != alias:
            left, right = right, left
        if left[0] != alias or right[0] not in before:
            why = f"one side is a column of `{alias}`, the other of a table before it"
            self._bad_join(phrase[0], why)
        return (left[1], right), rest

    def _bad_join(self, at: SqlToken, why: str) -> NoReturn:
        self.read.fail(
            "this join is not row by row",
            at,
            why=why,
            fix="LEFT JOIN public_table p ON p.key = v.column (AND …), the key unique in it; "
            f"or accept the view without a proof: `allow: [{UNPROVEN}]`",
            code="DPR262",
        )

    # --- items

    def _place(self, phrase: Phrase) -> tuple[Place | None, Phrase]:
        """Read `alias.column`, or a bare column of a view of one table, and return what is left; else None."""
        token, dotted = phrase[0], phrase[1].sign == "."
        if not len(phrase) or not token.named:
            return None, phrase
        if dotted and token.value in self.aliases and len(phrase) > 2 and phrase[2].named:
            return (token.value, phrase[2].value), phrase.after(3)
        if len(self.aliases) > 1 or dotted or phrase[1].kind == "(":
            return None, phrase
        return (self.main, token.value), phrase.after(1)

    def _group(self, phrase: Phrase) -> Place:
        place, left = self._place(phrase)
        if place is None or len(left):
            self._bad_item(phrase[0], "rows are grouped by columns: GROUP BY v.unit_id")
        return place

    def _item(self, phrase: Phrase) -> ViewColumn:
        token, over = phrase[0], None
        place, left = self._place(phrase)
        inside = phrase[1].inside
        if self.groups and token.word in set(Over) and inside is not None:
            over, place, expression, left = Over(token.word), None, inside, phrase.after(2)
            if over is Over.rows and inside.words("DISTINCT"):
                over, expression = Over.different, inside.after(1)
        elif self.groups:
            if place not in self.groups or (len(left) and not left[0].named):
                self._bad_item(token, "it is neither in GROUP BY nor made of a group's rows")
        elif place is None or token.word == "CASE" or not (left[0].named or not len(left)):
            place, (expression, left) = None, phrase.until("AS")
            if not len(expression):
                self._bad_item(token, "an item is missing")
        if place is None and not left.words("AS"):
            alone = "a statistic of a group's rows stands alone, each with a name: a column's `from` computes with them"
            self._bad_item(token, alone if over else "an expression needs a name")
        name = left.after(int(left.words("AS")))
        if len(left) and not (len(name) and name[0].named):
            self._bad_item(token, "an expression needs a name")
        if len(name) > 1:
            self._bad_item(name[1], "an item is a column, or an expression AS a name")
        if place is not None:
            return ViewColumn(
                name[0].value if len(name) else place[1], place, "", self.read.place(token)
            )
        star = over is Over.rows and len(expression) == 1 and expression[0].sign == "*"
        text = "1" if star else self._condition(expression)
        return ViewColumn(name[0].value, None, text, self.read.place(token), over)

    def _bad_item(self, at: SqlToken, why: str) -> NoReturn:
        self.read.fail(
            f"`{at.value}` cannot stand here",
            at,
            why=why,
            fix="write a column of GROUP BY, or MIN(v.column) AS name; also MAX, AVG, SUM and COUNT"
            if self.groups
            else "write v.column, v.column AS name, or expression AS name",
            code="DPR263",
        )

    def _distinct(self, columns: list[ViewColumn], at: SqlToken) -> None:
        seen: set[str] = set()
        for column in columns:
            if column.name.casefold() in seen:
                self.read.fail(
                    f"two columns of the view are called `{column.name}`",
                    at,
                    fix="give one another name with AS",
                    code="DPR263",
                )
            seen.add(column.name.casefold())

    def _condition(self, phrase: Phrase) -> str:
        """Return the phrase's text with `alias.column` as one quoted name, for the grammar."""
        if not len(phrase):
            self._bad_item(phrase[0], "an expression is missing")
        tokens = self.read.flat(phrase)
        out, i = [], 0
        while i < len(tokens):
            token, *rest = tokens[i : i + 3]
            called = token.kind == "word" and rest and rest[0].sign == "("
            if called and token.value.lower() not in (*FUNCTIONS, *KEYWORDS):
                self._wider(token, f"`{token.value}` is not a function of one row")
            if len(rest) == 2 and rest[0].sign == "." and token.value in self.aliases:
                name = f"{token.value}.{rest[1].value}"
                out.append('"' + name.replace('"', '""') + '"')
                i += 3
                continue
            out.append(self.read.sql[token.start : token.end])
            i += 1
        return " ".join(out)

    def _wider(self, at: SqlToken, what: str) -> NoReturn:
        self.read.fail(
            what,
            at,
            why="each row of a proven view is made from one private row and public tables",
            fix="filter and derive columns row by row; "
            f"or accept the view without a proof: `allow: [{UNPROVEN}]`",
            code="DPR260",
        )
