"""A curator's view: rows of one private table, each beside at most one row of public tables.

    SELECT item ("," item)* FROM private [alias]
    ([LEFT [OUTER] | INNER] JOIN public [alias] ON key = value (AND key = value)*)*
    [WHERE condition]

    item   table.column [AS name], or an expression of the expression language AS name

Stability. A row of the view is made from one private row and public rows alone, and every join
names a key that is unique in its public table (the engine checks it there), so a private row gives
at most one row of the view: neighbouring tables have neighbouring views, for every unit
(`docs/theory/sensitivities-and-contribution-bounding.md#views`). A filter
or an inner join takes rows away, so the number of rows is private
(`docs/theory/sensitivities-and-contribution-bounding.md#when-the-number-of-rows-is-public`);
`keeps_rows` says whether neither occurs.

What is wider (aggregates, windows, DISTINCT, LIMIT, UNION, subqueries, joins of private tables) has
no such argument. It is read only with `allow: [unproven-view]`: then sqlglot's tree must consist of
known nodes, casts become TRY_CAST, and the plan says that the view is observed, not proved.
No text of the file reaches an engine in either form.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NoReturn

from dprelease.errors import PlanError
from dprelease.query.functions import FUNCTIONS
from dprelease.query.nodes import KEYWORDS
from dprelease.query.sql_text import SqlText, SqlToken
from dprelease.query.view import UNPROVEN, Place, View, ViewColumn, ViewJoin
from dprelease.query.wide_view import parse_wide_view

_WIDER = (
    "SELECT", "DISTINCT", "HAVING", "GROUP", "ORDER", "LIMIT", "OFFSET", "UNION", "INTERSECT",
    "EXCEPT", "OVER", "QUALIFY", "FILTER", "WINDOW", "WITH", "EXISTS", "LATERAL", "UNNEST",
    "TABLESAMPLE", "USING", "SAMPLE", "PIVOT",
)  # fmt: skip


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
        self.aliases: dict[str, str] = {}
        self.main = ""

    def parse(self) -> View:
        read = self.read
        wide = next((t for t in read.tokens[1:] if t.word in _WIDER), None)
        if wide is not None:
            self._wider(wide, f"`{wide.word}` is not row by row")
        if not read.take_word("SELECT"):
            self._wider(read.peek(), "the view is not a SELECT")
        body = read.at
        read.until("FROM")
        if not read.take_word("FROM"):
            self._wider(read.peek(), "the view names no table")
        table, at = self._table()
        if table not in self.private:
            self._unknown(at, table, self.private, "after FROM stands the private table")
        self.main = self._alias(table)
        joins = []
        while not read.is_word("WHERE") and read.peek().kind != "end":
            joins.append(self._join())
        where, place = None, read.peek()
        if read.take_word("WHERE"):
            place = read.peek()
            where = self._condition(read.at, len(read.tokens) - 1)
        read.at = body
        columns = [self._item()]
        while read.take_sign(","):
            columns.append(self._item())
        if not read.is_word("FROM"):
            self._bad_item(read.peek(), "an item is a column, or an expression AS a name")
        self._distinct(columns, body)
        return View(
            sql=" ".join(read.clean.split()),
            proven=True,
            keeps_rows=where is None and all(j.kind == "left" for j in joins),
            tables=(table, *(j.table for j in joins)),
            private=(table, self.main),
            joins=tuple(joins),
            columns=tuple(columns),
            where=where,
            where_at=read.place(place),
        )

    # --- tables

    def _table(self) -> tuple[str, SqlToken]:
        token = self.read.next()
        if token.kind not in ("word", "name") or self.read.is_sign("(") or self.read.is_sign("."):
            self.read.fail(
                "a view reads declared tables, by name",
                token,
                fix="declare it under `tables` or `public_tables`",
                code="DPR261",
            )
        return token.value, token

    def _unknown(self, at: SqlToken, name: str, known: tuple[str, ...], why: str) -> NoReturn:
        self.read.fail(
            f"`{name}` is not one of the tables that may stand here",
            at,
            why=why,
            fix=f"declared: {', '.join(known) or 'none'}",
            code="DPR261",
        )

    def _alias(self, table: str) -> str:
        read = self.read
        marked = read.take_word("AS")
        stops = read.is_word("LEFT", "INNER", "JOIN", "WHERE", "ON", "CROSS", "RIGHT", "FULL")
        token = read.peek()
        alias = table
        if marked or (token.kind in ("word", "name") and not stops):
            alias = read.next().value
        if alias in self.aliases or "." in alias:
            read.fail(
                f"two tables are called `{alias}`", token, fix="give one an alias", code="DPR261"
            )
        self.aliases[alias] = table
        return alias

    def _join(self) -> ViewJoin:
        read = self.read
        at = read.peek()
        kind: Literal["left", "inner"] = "inner"
        if read.take_word("LEFT"):
            read.take_word("OUTER")
            kind = "left"
        else:
            read.take_word("INNER")
        if not read.take_word("JOIN"):
            self._bad_join(at, "only LEFT JOIN and INNER JOIN with a public table are row by row")
        before = frozenset(self.aliases)
        table, token = self._table()
        if table not in self.public:
            if table in self.private:
                self._bad_join(token, "a private table on both sides gives one person many rows")
            self._unknown(token, table, self.public, "a view joins public tables only")
        alias = self._alias(table)
        if not read.take_word("ON"):
            self._bad_join(read.peek(), "a join says its key")
        keys = [self._equality(alias, before)]
        while read.take_word("AND"):
            keys.append(self._equality(alias, before))
        return ViewJoin(table, alias, kind, tuple(keys))

    def _equality(self, alias: str, before: frozenset[str]) -> tuple[str, Place]:
        at = self.read.peek()
        left = self._place()
        equal = self.read.take_sign("=") or self.read.take_sign("==")
        right = self._place()
        if not equal or left is None or right is None:
            self._bad_join(at, "a key is an equality of two columns")
        if left[0] != alias:
            left, right = right, left
        if left[0] != alias or right[0] not in before:
            self._bad_join(at, f"one side is a column of `{alias}`, the other of a table before it")
        return left[1], right

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

    def _place(self) -> Place | None:
        """Read `alias.column`, or a bare column of a view of one table; else None, unmoved."""
        read = self.read
        token = read.peek()
        if token.kind not in ("word", "name"):
            return None
        if read.is_sign(".", ahead=1) and token.value in self.aliases:
            column = read.peek(2)
            if column.kind in ("word", "name"):
                read.at += 3
                return token.value, column.value
        if len(self.aliases) > 1 or read.is_sign(".", ahead=1) or read.is_sign("(", ahead=1):
            return None
        read.at += 1
        return self.main, token.value

    def _item(self) -> ViewColumn:
        read = self.read
        token, first = read.peek(), read.at
        place = self._place()
        ends = (
            read.is_sign(",") or read.is_word("FROM", "AS") or read.peek().kind in ("word", "name")
        )
        if place is not None and ends and token.word != "CASE":
            named = read.take_word("AS") or not read.is_word("FROM")
            if named and read.peek().kind in ("word", "name"):
                return ViewColumn(read.next().value, place, "", read.place(token))
            return ViewColumn(place[1], place, "", read.place(token))
        read.at = first
        depth = 0
        while read.peek().kind != "end":
            if depth == 0 and (read.is_sign(",") or read.is_word("FROM", "AS")):
                break
            depth += read.is_sign("(") - read.is_sign(")")
            read.at += 1
        stop = read.at
        if stop == first:
            self._bad_item(token, "an item is missing")
        if not read.take_word("AS") or read.peek().kind not in ("word", "name"):
            self._bad_item(token, "an expression needs a name")
        text = self._condition(first, stop)
        return ViewColumn(read.next().value, None, text, read.place(token))

    def _bad_item(self, at: SqlToken, why: str) -> NoReturn:
        self.read.fail(
            f"`{at.value}` cannot stand here",
            at,
            why=why,
            fix="write v.column, v.column AS name, or expression AS name",
            code="DPR263",
        )

    def _distinct(self, columns: list[ViewColumn], body: int) -> None:
        seen: set[str] = set()
        for column in columns:
            if column.name.casefold() in seen:
                self.read.fail(
                    f"two columns of the view are called `{column.name}`",
                    self.read.tokens[body],
                    fix="give one another name with AS",
                    code="DPR263",
                )
            seen.add(column.name.casefold())

    def _condition(self, first: int, stop: int) -> str:
        """Return the tokens' text with `alias.column` as one quoted name, for the grammar."""
        read = self.read
        if first >= stop:
            self._bad_item(read.tokens[first], "an expression is missing")
        out, i = [], first
        while i < stop:
            token = read.tokens[i]
            called = token.kind == "word" and i + 1 < stop and read.tokens[i + 1].value == "("
            if called and token.value.lower() not in (*FUNCTIONS, *KEYWORDS):
                self._wider(token, f"`{token.value}` is not a function of one row")
            dotted = (
                i + 2 < stop and read.tokens[i + 1].value == "." and token.value in self.aliases
            )
            if dotted:
                name = f"{token.value}.{read.tokens[i + 2].value}"
                out.append('"' + name.replace('"', '""') + '"')
                i += 3
                continue
            out.append(read.sql[token.start : token.end])
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
