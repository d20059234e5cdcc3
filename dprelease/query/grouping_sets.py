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
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from dprelease.query.select_calls import Names
from dprelease.query.sql_text import Phrase, SqlToken

T = TypeVar("T")

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


def group_by(names: Names, phrase: Phrase, stray: Callable[[SqlToken], NoReturn]) -> Grouping:
    """Read what follows GROUP BY, to the end; `stray` refuses what is no part of it.

    Raises:
        PlanError: it is not a list of keys, or too long a one (DPR255).
    """
    reader, start = _Reader(names), phrase[0]
    sets: list[Keys] = [()]
    for part in phrase.split(","):
        more, left = reader.element(part)
        if len(left):
            stray(left[0])
        reader.few(len(sets) * len(more), start)
        sets = [_joined(a, b) for a, b in itertools.product(sets, more)]
    seen: set[frozenset[str]] = set()
    for keys in sets:
        columns = frozenset(name for name, _ in keys)
        if columns in seen:
            said = ", ".join(name for name, _ in keys)
            names.read.fail(
                f"the grouping set ({said}) stands twice",
                start,
                why="it would be one table, published twice",
                fix="leave one of them out",
                code="DPR255",
            )
        seen.add(columns)
    return Grouping(tuple(sets), reader.many_tables, start)


def _joined(*parts: Keys) -> Keys:
    """Return the columns of all parts, each once."""
    first: dict[str, SqlToken] = {}
    for name, at in itertools.chain(*parts):
        first.setdefault(name, at)
    return tuple(first.items())


class _Reader:
    """Reads elements of GROUP BY, each from the front of a phrase; what it leaves is returned."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.many_tables = False

    def few(self, count: int, token: SqlToken) -> None:
        if count > _MOST:
            self.names.read.fail(
                f"GROUP BY asks for more than {_MOST} tables",
                token,
                fix="name the grouping sets that are needed: GROUPING SETS ((a, b), (a), ())",
                code="DPR255",
            )

    def element(self, phrase: Phrase, depth: int = 0) -> tuple[list[Keys], Phrase]:
        """Read one element; return its grouping sets."""
        head, bracket = phrase[0], phrase[1]
        if head.word in ("ROLLUP", "CUBE") and bracket.kind == "(":
            self.many_tables = True
            parts = self._list(bracket, self._part)
            self.few(len(parts) if head.word == "ROLLUP" else 2 ** len(parts), head)
            sizes = range(len(parts), -1, -1)
            if head.word == "ROLLUP":
                return [_joined(*parts[:n]) for n in sizes], phrase.after(2)
            some = (_joined(*s) for n in sizes for s in itertools.combinations(parts, n))
            return list(some), phrase.after(2)
        if phrase.words("GROUPING", "SETS"):
            self.many_tables = True
            if depth == _DEEPEST:
                self.names.read.fail(
                    "GROUPING SETS stand too deep in each other",
                    head,
                    fix="list them in one",
                    code="DPR255",
                )
            each = self._list(phrase[2], lambda part: self.element(part, depth + 1))
            self.few(sum(map(len, each)), head)
            return list(itertools.chain(*each)), phrase.after(3)
        keys, left = self._part(phrase)
        return [keys], left

    def _list(self, bracket: SqlToken, one: Callable[[Phrase], tuple[T, Phrase]]) -> list[T]:
        """Read what stands in brackets, each part to its end."""
        if bracket.kind != "(" or bracket.inside is None:
            self.names.read.fail(
                "a list of keys is needed here", bracket, fix="add (", code="DPR255"
            )
        out = []
        for part in bracket.inside.split(","):
            found, left = one(part)
            if len(left):
                self._no_key(left[0])
            out.append(found)
        return out

    def _part(self, phrase: Phrase) -> tuple[Keys, Phrase]:
        """Read `column` or `(column, …)`; `()` is no column."""
        inside = phrase[0].inside
        if phrase[0].kind != "(" or inside is None:
            return self._column(phrase)
        keys = self._list(phrase[0], self._column) if len(inside) else []
        return _joined(*keys), phrase.after(1)

    def _column(self, phrase: Phrase) -> tuple[Keys, Phrase]:
        at = phrase[0]
        name, left = self.names.column(phrase)
        if name is None or at.word in ("ALL", "DISTINCT") or left[0].kind == "(":
            self._no_key(at)
        return ((name, at),), left

    def _no_key(self, at: SqlToken) -> NoReturn:
        self.names.read.fail(
            "GROUP BY takes names of columns",
            at,
            why="keys come from the declaration of a column, never from the data",
            fix="name the column, or a part of a date, e.g. MONTH(c); for another computed key declare one with `from`",
            code="DPR255",
        )
