"""GROUP BY of the SQL door: columns, ROLLUP, CUBE and GROUPING SETS as the keys of each table.

    GROUP BY element ("," element)*

    column, (a, b)              one grouping set
    ROLLUP(a, (b, c))           (a, b, c), (a) and ()
    CUBE(a, b)                  (a, b), (a), (b) and ()
    GROUPING SETS (a, (b, c), ROLLUP(…), …)      all of those inside

Elements beside each other are crossed, as in SQL: `a, ROLLUP(b)` is (a, b) and (a). Each grouping set is one
table of a release of several. SQL would return a set that stands twice twice; here it is refused.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from dprelease.query.select_calls import Names
from dprelease.query.sql_text import SqlText, SqlToken

_MOST = 50
"""Grouping sets, as many as a release has tables (`query.read_tables`)."""

_DEEPEST = 8

Keys = tuple[tuple[str, SqlToken], ...]
"""Columns of one grouping set, each with its place."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """What GROUP BY asks for: `sets` in the order of the text; `many_tables`: whether it names several tables; `at`: its place."""

    sets: tuple[Keys, ...]
    many_tables: bool
    at: SqlToken

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name for keys in self.sets for name, _ in keys)


def group_by(read: SqlText, names: Names) -> Grouping:
    """Read what follows GROUP BY; PlanError where it is not a list of keys, or too long a one (DPR255)."""
    start, found = read.peek(), _Reader(read, names)
    sets = found.element()
    while read.take_sign(","):
        more = found.element()
        found.few(len(sets) * len(more), start)
        sets = [_joined(a, b) for a, b in itertools.product(sets, more)]
    seen: set[frozenset[str]] = set()
    for keys in sets:
        columns = frozenset(name for name, _ in keys)
        if columns in seen:
            said = ", ".join(name for name, _ in keys)
            read.fail(
                f"the grouping set ({said}) stands twice",
                start,
                why="it would be one table, published twice",
                fix="leave one of them out",
                code="DPR255",
            )
        seen.add(columns)
    return Grouping(tuple(sets), found.many_tables, start)


def _joined(one: Keys, other: Keys) -> Keys:
    """Return the columns of both, each once."""
    known = {name for name, _ in one}
    return (*one, *((name, at) for name, at in other if name not in known))


class _Reader:
    def __init__(self, read: SqlText, names: Names) -> None:
        self.read, self.names = read, names
        self.many_tables, self.depth = False, 0

    def few(self, count: int, token: SqlToken) -> None:
        if count > _MOST:
            self.read.fail(
                f"GROUP BY asks for more than {_MOST} tables",
                token,
                fix="name the grouping sets that are needed: GROUPING SETS ((a, b), (a), ())",
                code="DPR255",
            )

    def element(self) -> list[Keys]:
        """Read one element; return its grouping sets."""
        read = self.read
        token = read.peek()
        if read.is_sign("(", ahead=1) and read.take_word("ROLLUP"):
            parts = self._list(token)
            return [_flat(parts[:n]) for n in range(len(parts), -1, -1)]
        if read.is_sign("(", ahead=1) and read.take_word("CUBE"):
            parts = self._list(token)
            self.few(2 ** len(parts), token)
            sizes = range(len(parts), -1, -1)
            return [_flat(some) for n in sizes for some in itertools.combinations(parts, n)]
        if read.is_word("SETS", ahead=1) and read.take_word("GROUPING"):
            read.next()
            return self._sets(token)
        return [self._part()]

    def _sets(self, token: SqlToken) -> list[Keys]:
        """Read the inside of GROUPING SETS."""
        read, out = self.read, list[Keys]()
        self._open()
        self.depth += 1
        if self.depth > _DEEPEST:
            read.fail(
                "GROUPING SETS stand too deep in each other",
                token,
                fix="list them in one",
                code="DPR255",
            )
        while True:
            out += self.element()
            self.few(len(out), token)
            if not read.take_sign(","):
                break
        self.depth -= 1
        self._close(token)
        return out

    def _list(self, token: SqlToken) -> list[Keys]:
        """Read the columns, or lists of columns, of ROLLUP or CUBE."""
        read = self.read
        self._open()
        out = [self._part()]
        while read.take_sign(","):
            out.append(self._part())
        self._close(token)
        self.few(len(out), token)
        return out

    def _part(self) -> Keys:
        """Read `column` or `(column, …)`; `()` is not a column."""
        read = self.read
        token = read.peek()
        if not read.take_sign("("):
            return ((self._column(), token),)
        if read.take_sign(")"):
            return ()
        out: Keys = ()
        while True:
            at = read.peek()
            out = _joined(out, ((self._column(), at),))
            if not read.take_sign(","):
                break
        self._close(token)
        return out

    def _open(self) -> None:
        self.many_tables = True
        if not self.read.take_sign("("):
            self.read.fail(
                "a list of keys is needed here", self.read.peek(), fix="add (", code="DPR255"
            )

    def _close(self, token: SqlToken) -> None:
        if not self.read.take_sign(")"):
            self.read.fail("a bracket is not closed", token, fix="add )", code="DPR255")

    def _column(self) -> str:
        read = self.read
        token = read.peek()
        name = None if read.is_word("ALL", "DISTINCT") else self.names.column()
        if name is None or read.is_sign("("):
            read.fail(
                "GROUP BY takes names of columns",
                token,
                why="keys come from the declaration of a column, never from the data",
                fix="name the column; for a computed key declare one with `from`",
                code="DPR255",
            )
        return name


def _flat(parts: tuple[Keys, ...] | list[Keys]) -> Keys:
    out: Keys = ()
    for part in parts:
        out = _joined(out, part)
    return out
