"""What a bounded query asks of a source, and the guards that make failure impossible.

Both engines use the same double operations for a code, so their constants are made once here:

    floor(min(max(x, l), u) * den / num + 1/2),   step = num / den,   l, u = hull of the grid.

Overflow raises in SQL and would be a failure that depends on data, so it is excluded for every
table: what one row adds to a sum stays below 2**64 (`digits` takes wider products apart), so a sum
over fewer than 2**63 rows stays below 2**127
(`docs/theory/domains-and-grids.md#sums-that-cannot-overflow`). Grid points beyond 2**53 are refused
because doubles no longer tell neighbouring steps apart.

Units: codes in steps of their column; `max_rows` in rows per (unit, group).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dprelease.core.errors import InternalError, PlanError
from dprelease.core.numeric import plain
from dprelease.engines.digits import MOST_FACTORS, WIDEST, factors, widest
from dprelease.query.answer import MOST_SUMS, TABLE_LIMIT, Answer
from dprelease.query.bounded import (
    BoundedQuery,
    Condition,
    Cross,
    Fixed,
    Label,
    Primitive,
    largest_code,
)
from dprelease.query.cleaning import must_be_exact
from dprelease.schema.column import Column, Kind
from dprelease.schema.naming import LONGEST_KEY, UNFIT

_NUMERIC = (Kind.integer, Kind.number, Kind.boolean)


@dataclass(frozen=True, slots=True)
class Rounding:
    """The doubles of one `Fixed`: clip to [low, high], times `den`, over `num`."""

    low: float
    high: float
    den: float
    num: float


@lru_cache(maxsize=64)  # asked for every cell
def rounding(code: Fixed) -> Rounding:
    """Return the doubles both engines compute `code` with.

    Raises:
        PlanError: an end or the step is out of the range of doubles (DPR231).
    """
    try:
        out = Rounding(
            float(code.grid.lower * code.step),
            float(code.grid.upper * code.step),
            float(code.step.denominator),
            float(code.step.numerator),
        )
    except OverflowError:
        out = None
    if out is None or code.step <= 0:
        raise PlanError(
            f"the step {plain(code.step)} of {code.column} cannot be used",
            why="it or an end of the range is not positive and finite as a double",
            fix="choose a step and a range of ordinary size",
            code="DPR231",
        )
    return out


def used_columns(query: BoundedQuery) -> tuple[Column, ...]:
    """Return the stored columns that `query` reads, each once, in order of first use.

    Raises:
        PlanError: a used column is not declared (DPR232).
    """
    known = {c.name: c for c in (*query.groups.columns, *query.columns)}
    made = {d.column: d for d in query.derived}
    names = [query.user] if query.user is not None else []
    names += [c.name for c in query.groups.columns]
    for code in query.codes:
        if isinstance(code, Fixed | Label):
            names.append(code.column)
        elif isinstance(code, Condition):
            names += sorted(code.expression.columns)
    if query.where is not None:
        names += sorted(query.where.columns)
    if query.window is not None:
        names.append(query.window.column)
    if query.per is not None:
        names.append(query.per.column)
    names += [name for d in query.derived for name in sorted(d.expression.columns)]
    names = [n for n in names if n not in made]
    missing = next((n for n in names if n not in known and n != query.user), None)
    if missing is not None:
        raise PlanError(
            f"the query reads {missing!r}, which is not declared",
            fix="declare the column in the schema",
            code="DPR232",
        )
    undeclared_user = Column(query.user or "", Kind.identifier)
    return tuple(known.get(n, undeclared_user) for n in dict.fromkeys(names))


def row_cap(query: BoundedQuery, primitive: Primitive) -> int:
    """Return the largest row number per (unit, group) that `primitive` counts."""
    if primitive.kind in ("persons", "persons_in_cells"):
        return 1
    return query.max_rows if primitive.max_rows is None else primitive.max_rows


def declared_labels(query: BoundedQuery, place: int) -> tuple[str, ...]:
    """Return the values of the group column at `place` that map to themselves.

    A category declared without values (its keys come from a key table) maps to itself exactly the
    labels that the keys name.
    """
    column = query.groups.columns[place]
    if column.kind is Kind.boolean:
        return ("false", "true")
    if column.values:
        return tuple(dict.fromkeys(column.values))
    special = {column.other, column.null_label}
    return tuple(label for label in query.groups.labels(place) if label not in special)


def found_keys(table: pa.Table) -> Answer:
    """Return the answer of a table of keys and their numbers of persons; a text that may be no label is left out.

    Engines have merged those texts by their own patterns. Leaving out is by the text alone, so it moves no other key.
    """
    keys, persons = (column.combine_chunks() for column in table.columns)
    keys = keys.cast(pa.large_string())
    length, unfit = pc.utf8_length(keys), pc.match_substring_regex(keys, UNFIT)
    short = pc.and_(pc.greater(length, 0), pc.less_equal(length, LONGEST_KEY))
    fits = pc.and_not(short, unfit)
    counts = persons.cast(pa.int64()).filter(fits).to_numpy()  # refuses a null
    return Answer(counts.astype(object)[:, None], keys=keys.filter(fits))


def listed_keys(some: Iterable[Sequence[Sequence[Any]]]) -> Answer:
    """Return the same of lists of pairs, of which one at a time is there as Python's objects."""
    types = pa.schema({"key": pa.string(), "persons": pa.int64()})
    parts = [
        pa.record_batch([[row[0] for row in rows], [int(row[1]) for row in rows]], schema=types)
        for rows in some
    ]
    return found_keys(pa.Table.from_batches(parts, types))


def unread(why: str, fix: str) -> InternalError:
    """Return the one error of whatever failed while rows were read."""
    return InternalError("the rows could not be aggregated", why=why, fix=fix, code="DPR900")


def check_query(query: BoundedQuery) -> None:
    """Refuse a query that some table could make fail or that would count a row twice.

    Raises:
        PlanError: a sum may overflow (DPR230), a step or a grid is unusable (DPR231), a column is
            undeclared or of a kind without codes (DPR232), keys repeat (DPR233), a
            rank is none (DPR234), a cap is below 1 (DPR235), a map is not of the groups (DPR236), or
            a tally is too large for memory (DPR219), edges are asked for beside other things (DPR272).
    """
    kinds = {c.name: c.kind for c in (*query.groups.columns, *query.columns)}
    used_columns(query)
    for code in query.codes:
        if isinstance(code, Condition):
            continue
        if isinstance(code, Cross):
            _check_cross(query, code)
            continue
        if isinstance(code, Label):
            _check_label(code, kinds[code.column], ends=is_graph(query))
            continue
        rounding(code)
        if kinds[code.column] not in _NUMERIC:
            raise PlanError(
                f"{code.column} is a {kinds[code.column].value} and has no numeric code",
                fix="use an integer, number or boolean column",
                code="DPR232",
            )
        must_be_exact(code)
    _check_graph(query)
    caps = [query.max_groups, query.max_rows]
    for primitive in query.primitives:
        _check_overflow(query, primitive)
        caps.append(row_cap(query, primitive))
    _check_tallies(query)
    if query.max_rows_total is not None:
        caps.append(query.max_rows_total)
    if min(caps) < 1:
        raise PlanError("every contribution bound is at least 1", code="DPR235")
    width = 0 if query.groups.whole else len(query.groups.columns)
    keys = query.groups.keys
    if len(set(keys)) != len(keys) or {*map(len, keys)} - {width}:
        raise PlanError(
            "the group keys repeat, or do not have one label per column",
            why="a repeated key would count its rows twice",
            fix="list every key once",
            code="DPR233",
        )
    _check_cells(query)


def _check_cross(query: BoundedQuery, code: Cross) -> None:
    """A cross is of different key columns of rows that are one group, with all labels of each."""
    named = {c.name: i for i, c in enumerate(query.groups.columns)}
    places = [named.get(name) for name in code.crossed]
    sizes = [0 if i is None else len(query.groups.labels(i)) for i in places]
    if not query.groups.whole or len(set(places)) != len(places) or sizes != list(code.sizes):
        raise PlanError(
            "a cross is not of the key columns, with all their labels",
            why="rows would be counted in cells that are not those of the table",
            fix="make the plan again",
            code="DPR236",
        )


def _check_cells(query: BoundedQuery) -> None:
    """Groups are put together by a map that has a cell for each, and for nothing else than persons."""
    for primitive in query.primitives:
        wanted = len(query.groups.keys) if primitive.kind == "persons_in_cells" else 0
        whole = all(type(cell) is int and 0 <= cell < wanted for cell in primitive.cells)
        if len(primitive.cells) != wanted or not whole:
            raise PlanError(
                "a map of the groups does not have one cell for each",
                why="persons would be counted in cells that are not those of the table",
                fix="make the plan again",
                code="DPR236",
            )


def is_graph(query: BoundedQuery) -> bool:
    """Return whether edges are asked for."""
    return "edges" in map(attrgetter("kind"), query.primitives)


def _check_graph(query: BoundedQuery) -> None:
    """A graph is one table of edges between two labelled ends, and nothing else beside it."""
    if not is_graph(query):
        return
    alone = len(query.primitives) == 1 and query.user is None and query.groups.keys == ((),)
    first = query.primitives[0]
    places = (first.code, first.other)
    ends = [query.codes[place] for place in places if place is not None]
    labels = [code.values for code in ends if isinstance(code, Label)]
    if not alone or len(labels) != 2 or labels[0] != labels[1]:
        raise PlanError(
            "a graph is made of two columns that hold the same nodes, in one group",
            why="its edges are one table, not a number per group",
            fix="ask for statistics of the graph alone, without groups",
            code="DPR272",
        )


def _check_label(code: Label, kind: Kind, *, ends: bool = False) -> None:
    fits = (Kind.category, Kind.node, Kind.identifier) if ends else (Kind.category,)
    if kind not in fits or not code.values or len(set(code.values)) < len(code.values):
        raise PlanError(
            f"{code.column} is a {kind.value} and has no codes by label",
            why="labels are the different declared values of a category",
            fix="use a category column with its public `values`",
            code="DPR232",
        )


def _check_tallies(query: BoundedQuery) -> None:
    """Rows per code and group fit in memory: of tallies, and of bins too many for a sum each."""
    counted = Counter(map(attrgetter("kind", "code"), query.primitives))
    for primitive in query.primitives:
        code, near = primitive.code, primitive.near
        if code is None or (primitive.kind != "tally" and counted["between", code] <= MOST_SUMS):
            continue
        each = largest_code(query.codes[code]) + 1
        if near is not None:
            if not (0 <= near.a <= near.b and 1 <= near.b <= 2**10 and 0 <= near.last < 2**48):
                raise PlanError("a rank is asked for that no table has", code="DPR234")
            each = min(each, near.most)
        codes = len(query.groups.keys) * each
        if codes > TABLE_LIMIT:
            raise PlanError(
                "a tally of rows per value and group does not fit in memory",
                why=f"up to {codes:,} values over all groups; at most {TABLE_LIMIT:,} are supported",
                fix="ask for fewer groups or bins, or give the statistic a larger `step` or more epsilon",
                code="DPR219",
            )


def _check_overflow(query: BoundedQuery, primitive: Primitive) -> None:
    count = sum(power for _, power in factors(primitive))
    if count > MOST_FACTORS and widest(query, primitive) >= WIDEST:
        raise PlanError(
            f"a sum of products of {count} codes may overflow",
            why=f"wide products of up to {MOST_FACTORS} codes are summed digit by digit, no longer ones",
            fix="choose a larger step",
            code="DPR230",
        )
