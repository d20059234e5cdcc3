"""Tallies, from which values by rank are chosen: how many rows have each code near a rank, by one SQL statement.

A code is a cleaned value as a whole number from 0 on, mostly of grid steps. Rows per code come from grouping sets
of the one statement that also sums, so that the rows are read once. A running sum over the codes of a group gives the
rows at or below each, and what no rank asked for comes near is left out by the engine, where it can spill: what is fetched is
bounded by public numbers (`query.bounded.Near.most` codes of a group), however many values there are.

    tallied   t0, t1, ...   the codes to count, each once however many ranks are asked of it
    sets      GROUPING SETS ((g), (g, t0), (g, t1), ...): the sums, and the rows of each set
    cumulated running and total number of rows of each code, null codes left out
    (last)    the sums of each group; of each code near a rank its rows

Units: ranks in rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dprelease.engines.code_sql import aliased, column
from dprelease.engines.request import is_graph, row_cap
from dprelease.engines.typed_sql import case, number
from dprelease.query.answer import TALLY_COLUMNS, Answer
from dprelease.query.bounded import BoundedQuery, Near

SETS = "sets"
"""Name of the stage that sums."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Tallies:
    """The tallies of one query.

    Attributes:
        places: of the primitives; sets: the different (code, cap of rows) among them.
    """

    query: BoundedQuery
    places: tuple[int, ...]
    sets: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, query: BoundedQuery) -> Tallies:
        places = tuple(i for i, p in enumerate(query.primitives) if p.kind == "tally")
        return cls(query, places, tuple(dict.fromkeys(_counted(query, i) for i in places)))

    # -- statement ---------------------------------------------------------------------------

    def values(self, most_rows: int) -> list[exp.Expression]:
        """Return the codes that are counted, null where a row is beyond its cap."""
        out = []
        for j, (code, cap) in enumerate(self.sets):
            value = column(f"v{code}")
            if self.query.user is not None and cap < most_rows:
                few = exp.LTE(this=column("n"), expression=number(cap))
                value = case((few, value), default=exp.Null())
            out.append(aliased(value, f"t{j}"))
        return out

    def grouped(self, select: exp.Select) -> exp.Select:
        """Return the sums of `select` by group, and the rows of each group and of each code."""
        select = select.select(aliased(exp.Count(this=exp.Star()), "rows"), copy=False)
        sets = [exp.Tuple(expressions=[column("g")])]
        for j in range(len(self.sets)):
            sets.append(exp.Tuple(expressions=[column("g"), column(f"t{j}")]))
            other = exp.Anonymous(this="GROUPING", expressions=[column(f"t{j}")])
            select = select.select(column(f"t{j}"), aliased(other, f"h{j}"), copy=False)
        select.set("group", exp.Group(grouping_sets=[exp.GroupingSets(expressions=sets)]))
        return select

    def cumulated(self, select: exp.Select) -> exp.Select:
        """Return the rows of `grouped` with the rows at or below each code."""
        places = range(len(self.sets))
        known: list[exp.Expression] = []
        for j in places:
            null = exp.And(
                this=self._counts(j), expression=exp.Is(this=column(f"t{j}"), expression=exp.Null())
            )
            known.append(exp.Not(this=exp.Paren(this=null)))
        select = select.where(_balanced(_and, known), copy=False)

        def window(**more: object) -> exp.Expression:
            apart = [column("g"), *(column(f"h{j}") for j in places)]
            return exp.Window(this=exp.Sum(this=column("rows")), partition_by=apart, **more)

        order = exp.Order(expressions=[exp.Ordered(this=column(f"t{j}")) for j in places])
        frame = exp.WindowSpec(
            kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW"
        )
        return select.select(
            aliased(window(order=order, spec=frame), "upto"), aliased(window(), "total"), copy=False
        )

    def chosen(self, select: exp.Select) -> exp.Select:
        """Return what is fetched: see the module's docstring."""
        sums = [column(f"p{i}") for i in range(len(self.query.primitives))]
        codes = [column(f"{letter}{j}") for j in range(len(self.sets)) for letter in "th"]
        select = select.select(
            column("g"), *sums, column("rows"), *codes, column("upto"), column("total"), copy=False
        )
        sums_only: list[exp.Expression] = [
            exp.EQ(this=column(f"h{j}"), expression=number(1)) for j in range(len(self.sets))
        ]
        wanted = [_balanced(_and, sums_only)]
        for j, counted in enumerate(self.sets):
            near = [
                self.query.primitives[i].near
                for i in self.places
                if _counted(self.query, i) == counted
            ]
            if None in near:
                wanted.append(self._counts(j))
            else:
                wanted += [_and(self._counts(j), _near_sql(n)) for n in near if n is not None]
        apart: list[exp.Expression] = [exp.Paren(this=w) for w in wanted]
        return select.where(_balanced(_or, apart), copy=False)

    @staticmethod
    def _counts(j: int) -> exp.Expression:
        return exp.EQ(this=column(f"h{j}"), expression=number(0))


def _counted(query: BoundedQuery, place: int) -> tuple[int, int]:
    primitive = query.primitives[place]
    assert primitive.code is not None
    return primitive.code, 1 if query.user is None else row_cap(query, primitive)


def _near_sql(near: Near) -> exp.Expression:
    """Return `near_rows` of one code in SQL."""
    many = _times(near.a, "total")
    many = exp.Add(this=many, expression=number(near.offset))
    target = exp.Least(
        this=exp.Greatest(this=many, expressions=[number(0)], ignore_nulls=True),
        expressions=[_times(near.b, "total")],
        ignore_nulls=True,
    )
    below = exp.Paren(this=exp.Sub(this=column("upto"), expression=column("rows")))
    under = exp.Mul(this=number(near.b), expression=below)
    over = exp.Add(this=_times(near.b, "upto"), expression=number(near.last))
    return _and(
        exp.LTE(this=under, expression=exp.Add(this=target, expression=number(near.last))),
        exp.GTE(this=over, expression=target.copy()),
    )


def _balanced(
    join: Callable[[exp.Expression, exp.Expression], exp.Expression], parts: list[exp.Expression]
) -> exp.Expression:
    """Return the parts joined as a tree of little depth: hundreds of tallies are read by recursion."""
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        parts = [*(join(*pair) for pair in pairs), *parts[len(parts) // 2 * 2 :]]
    return parts[0]


def _times(factor: int, name: str) -> exp.Expression:
    return exp.Mul(this=number(factor), expression=column(name))


def _and(one: exp.Expression, other: exp.Expression) -> exp.Expression:
    return exp.And(this=one, expression=other)


def _or(one: exp.Expression, other: exp.Expression) -> exp.Expression:
    return exp.Or(this=one, expression=other)


class Counted:
    """Takes the statement's rows apart: sums of groups are handed on, counts of codes are kept until all are read."""

    def __init__(self, tallies: Tallies) -> None:
        self._tallies = tallies
        self._width = len(tallies.query.primitives)
        self._parts: list[list[Ints]] = [[] for _ in tallies.sets]

    @property
    def any(self) -> bool:
        return bool(self._parts)

    def take(self, rows: Sequence[Sequence[int]]) -> Iterator[tuple[int, Sequence[int], int]]:
        """Keep the codes among some rows; yield (group, sums, rows) of the groups among them."""
        found: list[list[tuple[int, ...]]] = [[] for _ in self._parts]
        first = self._width + 2
        for row in rows:
            group, count, upto, total = row[0], row[first - 1], row[-2], row[-1]
            at = next((j for j in range(len(found)) if row[first + 2 * j + 1] == 0), None)
            if at is None:
                yield int(group), row[1 : first - 1], int(count)
            else:
                found[at].append((group, row[first + 2 * at], upto - count, upto, total))
        for part, new in zip(self._parts, found, strict=True):
            if new:
                part.append(np.array(new, dtype=np.int64))

    def tables(self) -> dict[int, Ints]:
        """Return every tally, by its primitive's place."""
        query, out = self._tallies.query, {}
        for place in self._tallies.places:
            at = self._tallies.sets.index(_counted(query, place))
            table = np.concatenate([no_codes(), *self._parts[at]])
            table = table[np.lexsort((table[:, 1], table[:, 0]))]
            near = query.primitives[place].near
            out[place] = table if near is None else table[near_rows(table, near)]
        return out


def no_codes() -> Ints:
    """Return a tally without codes."""
    return np.zeros((0, TALLY_COLUMNS), dtype=np.int64)


def near_rows(table: Ints, near: Near) -> npt.NDArray[np.bool_]:
    """Return which codes of a tally come near the rank; see `query.bounded.Near`."""
    below, upto, total = table[:, 2], table[:, 3], table[:, 4]
    target = np.clip(near.a * total + near.offset, 0, near.b * total)
    out: npt.NDArray[np.bool_] = (near.b * below <= target + near.last) & (
        near.b * upto >= target - near.last
    )
    return out


def answer_of(
    query: BoundedQuery, batches: Iterable[Sequence[Sequence[int]]], most: int | None = None
) -> Answer:
    """Return a statement's rows, read in batches, as arrays.

    Raises:
        OverflowError: a group has `most` rows or more, so that its sums are not proven.
        TypeError: a sum is null: it overflowed.
    """
    out = np.zeros((len(query.groups.keys), len(query.primitives)), dtype=object)
    if is_graph(query):
        edges = [np.array(rows, dtype=np.int64).reshape(-1, 2) for rows in batches]
        return Answer(
            out, {0: np.concatenate(edges) if edges else np.zeros((0, 2), dtype=np.int64)}
        )
    counted, width = Counted(Tallies.of(query)), len(query.primitives)
    for rows in batches:
        alone = ((row[0], row[1 : width + 1], row[-1]) for row in rows)
        for group, sums, count in counted.take(rows) if counted.any else alone:
            if most is not None and count >= most:
                raise OverflowError
            out[group] = list(map(int, sums))
    return Answer(out, {}, counted.tables())


def whole(rows: Iterable[Sequence[Any]]) -> list[list[int]]:
    """Return rows of whole numbers, of whatever type, as Python's own; None stays."""
    return [[None if v is None else int(v) for v in row] for row in rows]  # type: ignore[misc]
