"""Tallies, from which values by rank are chosen: how many rows have each code near a rank, by one SQL statement.

A code is a cleaned value as a whole number from 0 on, mostly of grid steps. Rows per code come from grouping sets
of the one statement that also sums, so that the rows are read once. A running sum over the codes of a group gives the
rows at or below each, and what no rank asked for comes near is left out by the engine, where it can spill: what is fetched is
bounded by public numbers (`query.bounded.Near.most` codes of a group), however many values there are.

    tallied   t0, t1, ...   the codes to count, each once however many ranks are asked of it
    sets      GROUPING SETS ((g), (g, t0), (g, t1), ...): the sums, and the rows of each set
              (of `MANY` tallies and no sum, in DuckDB: each row once per tally, which needs one hash table for all)
    by_code   of each row of a set which tally it counts (null: the sums) and its code, null codes left out
    cumulated running and total number of rows of each code
    (last)    the sums of each group; of each code near a rank its rows

Units: ranks in rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from dprelease.engines.code_sql import aliased, all_of, column, is_null, not_null
from dprelease.engines.request import is_graph, row_cap
from dprelease.engines.typed_sql import case, number
from dprelease.query.answer import TALLY_COLUMNS, Answer
from dprelease.query.bounded import BoundedQuery, Near

SETS = "sets"
"""Name of the stage that sums."""

MANY = 16
"""So many tallies without a sum beside them are counted row by row: a hash table per grouping set takes 2 MB and more."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Tallies:
    """The tallies of one query.

    Attributes:
        places: of the primitives; others: those that are sums; sets: the different (code, cap of rows) of tallies.
    """

    query: BoundedQuery
    places: tuple[int, ...]
    others: tuple[int, ...]
    sets: tuple[tuple[int, int], ...]

    @classmethod
    def of_query(cls, query: BoundedQuery) -> Tallies:
        places = tuple(i for i, p in enumerate(query.primitives) if p.kind == "tally")
        others = tuple(i for i in range(len(query.primitives)) if i not in places)
        return cls(query, places, others, tuple(dict.fromkeys(_counted(query, i) for i in places)))

    @property
    def many(self) -> bool:
        """Return whether rows are better counted by `stacked` and `counted` than by `grouped`."""
        return len(self.sets) >= MANY and not self.others

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

    def by_code(self, select: exp.Select) -> exp.Select:
        """Return the rows of `grouped` by tally and code: two columns, however many tallies there are."""
        every = range(len(self.sets))
        which = case(
            *((exp.EQ(this=column(f"h{j}"), expression=number(0)), number(j)) for j in every)
        )
        code = exp.Coalesce(this=column("t0"), expressions=[column(f"t{j}") for j in every[1:]])
        sums = [column(f"p{i}") for i in self.others]
        numbers = aliased(which, "tally"), aliased(code, "code")
        return select.select(column("g"), *sums, column("rows"), *numbers, copy=False)

    def stacked(self, select: exp.Select) -> exp.Select:
        """Return each row once per tally, with the tally's number and its code."""
        every = range(len(self.sets))
        lists = [number(j) for j in every], [column(f"t{j}") for j in every]
        arrays = [exp.Array(expressions=parts) for parts in lists]
        each = [exp.Anonymous(this="UNNEST", expressions=[array]) for array in arrays]
        return select.select(aliased(each[0], "tally"), aliased(each[1], "code"), copy=False)

    def counted(self, select: exp.Select) -> exp.Select:
        """Return the rows of `stacked` of each code, as `by_code` does."""
        rows = aliased(exp.Count(this=exp.Star()), "rows")
        keys = [column(name) for name in ("g", "tally", "code")]
        return select.select(keys[0], rows, *keys[1:], copy=False).group_by(*keys, copy=False)

    def cumulated(self, select: exp.Select) -> exp.Select:
        """Return the rows of `by_code` with the rows at or below each code."""
        known = exp.Or(this=is_null(column("tally")), expression=not_null(column("code")))

        def window(**more: object) -> exp.Expression:
            apart = [column("g"), column("tally")]
            return exp.Window(this=exp.Sum(this=column("rows")), partition_by=apart, **more)

        order = exp.Order(expressions=[exp.Ordered(this=column("code"))])
        frame = exp.WindowSpec(
            kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW"
        )
        upto, total = aliased(window(order=order, spec=frame), "upto"), aliased(window(), "total")
        return select.select(upto, total, copy=False).where(known, copy=False)

    def chosen(self, select: exp.Select) -> exp.Select:
        """Return what is fetched: see the module's docstring."""
        wanted: list[exp.Expression] = [is_null(column("tally"))]
        for place in self.places:
            which = number(self.sets.index(_counted(self.query, place)))
            here = exp.EQ(this=column("tally"), expression=which)
            near = self.query.primitives[place].near
            wanted.append(here if near is None else exp.Paren(this=all_of((here, _near_sql(near)))))
        return select.select(exp.Star(), copy=False).where(_balanced(wanted), copy=False)


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
    near_enough = exp.LTE(this=under, expression=exp.Add(this=target, expression=number(near.last)))
    return all_of((near_enough, exp.GTE(this=over, expression=target.copy())))


def _balanced(parts: list[exp.Expression]) -> exp.Expression:
    """Return an OR of the parts as a tree of little depth: hundreds of tallies are read by recursion."""
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        joined = [exp.Or(this=one, expression=other) for one, other in pairs]
        parts = [*joined, *parts[len(parts) // 2 * 2 :]]
    return parts[0]


def _times(factor: int, name: str) -> exp.Expression:
    return exp.Mul(this=number(factor), expression=column(name))


class Counted:
    """Takes the statement's rows apart: sums of groups are handed on, counts of codes are kept until all are read."""

    def __init__(self, tallies: Tallies) -> None:
        self._tallies = tallies
        self._parts: list[list[Ints]] = [[] for _ in tallies.sets]

    def take(self, rows: Sequence[Sequence[int]]) -> Iterator[tuple[int, Sequence[int], int]]:
        """Keep the codes among some rows; yield (group, sums, rows) of the groups among them."""
        found: list[list[tuple[int, ...]]] = [[] for _ in self._parts]
        for row in rows:
            count, at, code, upto, total = row[-5:]
            if at is None:
                sums = dict(zip(self._tallies.others, row[1:], strict=False))
                every = range(len(self._tallies.query.primitives))
                yield int(row[0]), [sums.get(place, 0) for place in every], int(count)
            else:
                found[at].append((row[0], code, upto - count, upto, total))
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
    tallies, width = Tallies.of_query(query), len(query.primitives)
    counted = Counted(tallies)
    for rows in batches:
        alone = ((row[0], row[1 : width + 1], row[-1]) for row in rows)
        for group, sums, count in counted.take(rows) if tallies.places else alone:
            if most is not None and count >= most:
                raise OverflowError
            out[group] = list(map(int, sums))
    return Answer(out, {}, counted.tables())


def whole(rows: Iterable[Sequence[Any]]) -> list[list[int]]:
    """Return rows of whole numbers, of whatever type, as Python's own; None stays."""
    return [[None if v is None else int(v) for v in row] for row in rows]  # type: ignore[misc]
