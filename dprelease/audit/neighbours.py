"""Made-up neighbouring tables for a plan, from public numbers alone.

The pairs are those at which sensitivities are attained: a unit with all the rows it may
give, and more, at either end of every column's range, in one group or spread over as many as it may
touch, all rows alike or with a value each; rows that are null, not a number, out of range, in no
declared group or outside the filter; for replacement, the same unit with two such contents; for
graphs a complete graph and one without a star, and parallel and reversed copies of an edge. A table
with a public number of rows keeps it.

Around them stand a few rows of other units, or none.

Units    the columns' own. Tables are Arrow, with the stored columns of the plan's query.
Sources  `docs/theory/sensitivities-and-contribution-bounding.md#what-one-unit-can-change`.
Limits   a choice, not all pairs: mixed contents are taken in even steps from their product, at most
         `most` of them. A plan over a view has none: its tables' joins are not made up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pyarrow as pa

from dprelease.release_plan.plan import ReleasePlan
from dprelease.schema.column import Column, Kind
from dprelease.schema.unit import Adjacency, EdgeUnit, UserUnit

Row = dict[str, Any]
_UNDECLARED = "no declared value"
_TYPES = {
    Kind.boolean: pa.bool_(),
    Kind.integer: pa.float64(),
    Kind.number: pa.float64(),
    Kind.date: pa.date32(),
    Kind.timestamp: pa.timestamp("us"),
}
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_AROUND = 7
_NODES = 60
_ROWS = 2_000


@dataclass(frozen=True, slots=True)
class Pair:
    """Two tables that differ in one unit, and how."""

    name: str
    first: pa.Table
    second: pa.Table


def neighbouring_tables(plan: ReleasePlan, *, most: int = 40) -> Iterator[Pair]:
    """Yield pairs of neighbouring tables for `plan`, the extremal ones first."""
    if plan.query.view is not None:
        return
    if isinstance(plan.unit, EdgeUnit):
        yield from _graphs(plan, plan.unit)
        return
    source = _PlanRows(plan)
    contents = list(source.contents(most))
    public = next(
        (b.measurement.public_rows for b in plan.blocks if b.measurement.public_rows), None
    )
    if public is not None:
        around = source.around(public - 1)
        for (one, a), (other, b) in _couples(contents, most):
            yield source.pair(f"{one} replaced by {other}", around, a[:1], b[:1])
        return
    arounds = {"among others": source.around(_AROUND), "alone": []}
    if plan.query.groups.found:
        arounds["among as many as decide"] = source.deciding()
    for where, around in arounds.items():
        if plan.adjacency is Adjacency.add_remove:
            for name, rows in contents:
                yield source.pair(f"{name}, {where}", around, [], rows)
        else:
            for (one, a), (other, b) in _couples(contents, most):
                yield source.pair(f"{one} replaced by {other}, {where}", around, a, b)


def _couples(
    contents: Sequence[tuple[str, list[Row]]], most: int
) -> list[tuple[tuple[str, list[Row]], tuple[str, list[Row]]]]:
    """Return couples of contents: each with the first and its follower, then evenly chosen ones."""
    every = [(a, b) for i, a in enumerate(contents) for b in contents[i + 1 :]]
    chosen = [(contents[0], c) for c in contents[1:]] + list(pairwise(contents[1:]))
    chosen += every[:: max(1, len(every) // max(1, most))]
    return chosen[: 2 * most]


class _PlanRows:
    """Rows of one plan's source."""

    def __init__(self, plan: ReleasePlan) -> None:
        self.plan, self.query = plan, plan.query
        unit = plan.unit
        self.user = unit.column if isinstance(unit, UserUnit) else None
        self.columns = [c for c in self.query.columns if c.derived is None]
        self.rows = self.query.max_rows if self.user else 1
        self.groups = self.query.max_groups if self.user else 1
        # where keys are found twice one more than count
        self.keys = plan.keys or tuple((f"key {i}",) for i in range(2 * self.groups + 2))
        self.choices = {c.name: self._values(c) for c in self.columns}

    def _values(self, column: Column) -> list[Any]:
        """Return telling values of a column, ordinary ones first."""
        match column.kind:
            case Kind.identifier | Kind.node:
                return ["unit"]
            case Kind.category:
                keys = self._keys_of(column)
                return list(dict.fromkeys([*keys[:3], *keys[-1:], _UNDECLARED, None]))
            case Kind.boolean:
                return [True, False, None]
            case Kind.integer | Kind.number:
                return self._numbers(column)
            case _:
                return self._moments(column)

    def _keys_of(self, column: Column) -> list[str]:
        names = [c.name for c in self.query.groups.columns]
        if column.name in names:
            place = names.index(column.name)
            return list(dict.fromkeys(key[place] for key in self.keys))
        return list(column.values)

    def _numbers(self, column: Column) -> list[Any]:
        domain = column.domain
        ends = [e for piece in domain.exact_pieces for e in piece] if domain else []
        finite = [float(e) for e in ends if isinstance(e, Fraction)] or [0.0, 1.0, 1000.0]
        middle = (finite[0] + finite[-1]) / 2
        step = float(column.step or 1)
        marks = [float(m) for m in _NUMBER.findall(self.plan.where or "")]
        near = [x for m in marks for x in (m, m + step, m - step)]
        inside = [x for x in near if finite[0] <= x <= finite[-1]]
        odd = [None, 1e308, -1e308] + ([math.nan] if column.kind is Kind.number else [])
        whole = column.kind is Kind.integer
        plain = [
            finite[-1],
            finite[0],
            math.floor(middle) if whole else middle,
            *inside,
            *finite[1:-1],
        ]
        return list(dict.fromkeys([*plain, *odd]))

    def _moments(self, column: Column) -> list[Any]:
        window = self.plan.window
        inside = [window[0], window[1] - timedelta(days=1), window[1]] if window else [_DAY]
        plain = [m.replace(tzinfo=None) for m in inside]
        if column.kind is Kind.date:
            return [*dict.fromkeys(m.date() for m in plain), None]
        return [*plain, None]

    def row(self, unit: str, choice: Row) -> Row:
        out = {c.name: choice.get(c.name, self.choices[c.name][0]) for c in self.columns}
        return out if self.user is None else {**out, self.user: unit}

    def plain(self) -> dict[str, list[Any]]:
        """Return ordinary values per column, at most four."""
        return {n: [v for v in vs if v is not None][:4] for n, vs in self.choices.items()}

    def around(self, count: int) -> list[Row]:
        """Return ordinary rows of other units, values and groups taken in turn."""
        plain = self.plain()
        turns = [
            {n: vs[(i + p) % len(vs)] for p, (n, vs) in enumerate(plain.items())}
            for i in range(count)
        ]
        return [self.row(f"other {i}", turn) for i, turn in enumerate(turns)]

    def deciding(self) -> list[Row]:
        """Return rows of units that make the first keys about as often published as not."""
        persons = self.plan.blocks[0].law.bound or 0
        few = self.keys[: min(self.groups, 1 + _ROWS // (persons + 1))]
        name = self.query.groups.columns[0].name
        return [self.row(f"other {i}", {name: key}) for i in range(persons) for (key,) in few]

    def contents(self, most: int) -> Iterator[tuple[str, list[Row]]]:
        """Yield (name, rows of the unit): extremes, then an even choice of mixtures."""
        grouping = [c.name for c in self.query.groups.columns]
        keyed: list[Row] = [
            {n: _stored(str(key[p]), self._column(n)) for p, n in enumerate(grouping)}
            for key in self.keys
        ]
        spread = keyed[: self.groups + 1] or [{}]
        others = keyed[self.groups + 1 :] if self.query.groups.found else spread[-1:]
        numbers = [c.name for c in self.columns if c.kind in (Kind.integer, Kind.number)]
        for label, at in (("all high", 0), ("all low", 1), ("all in the middle", 2)):
            choice = {n: self.choices[n][at] for n in numbers}
            yield label, self._filled([{**s, **choice} for s in spread])
            if len(spread) > 1:
                yield f"{label}, other group", self._filled([{**s, **choice} for s in others])
        for column in self.columns:
            for value in self.choices[column.name][1:]:
                if column.name != self.user:
                    yield (
                        f"{column.name} = {value}",
                        self._filled([{**s, column.name: value} for s in spread]),
                    )
        if self.user is not None:  # what counts different values moves most with a value each
            turns = [
                {n: vs[i % len(vs)] for n, vs in self.plain().items() if n not in grouping}
                for i in range(self.rows + 1)
            ]
            yield "a value each", [self.row("unit", {**spread[0], **turn}) for turn in turns]
        names = [c.name for c in self.columns if c.name != self.user]
        total = math.prod(len(self.choices[n]) for n in names)
        for i in range(0, total, max(1, total // max(1, most))):
            rest, mixed = i, {}
            for name in names:
                rest, place = divmod(rest, len(self.choices[name]))
                mixed[name] = self.choices[name][place]
            yield f"mixture {i}", self._filled([mixed])

    def _column(self, name: str) -> Column:
        return next(c for c in self.query.columns if c.name == name)

    def _filled(self, choices: list[Row]) -> list[Row]:
        """Return one row more per choice than counts, so that contribution bounds have work."""
        if self.user is None:
            return [self.row("unit", choices[0])]
        return [self.row("unit", c) for c in choices for _ in range(self.rows + 1)]

    def pair(self, name: str, around: list[Row], first: list[Row], second: list[Row]) -> Pair:
        return Pair(name, self._table([*first, *around]), self._table([*second, *around]))

    def _table(self, rows: list[Row]) -> pa.Table:
        return pa.table(
            {
                c.name: pa.array([r[c.name] for r in rows], _TYPES.get(c.kind, pa.utf8()))
                for c in self.columns
            }
        )


_DAY = datetime(2030, 1, 2, 12)  # noqa: DTZ001 - naive is UTC


def _stored(label: str, column: Column) -> object:
    if column.kind is Kind.boolean:
        return {"true": True, "false": False}.get(label)
    return label


def _graphs(plan: ReleasePlan, unit: EdgeUnit) -> Iterator[Pair]:
    """Yield graphs that differ in k edges, and copies of edges that differ in none."""
    nodes = unit.node_labels[:_NODES]
    complete = [(a, b) for i, a in enumerate(nodes) for b in nodes[i + 1 :]]
    star = [(nodes[0], b) for b in nodes[1 : unit.k + 1]]
    path = list(pairwise(nodes))
    turned = [(b, a) for a, b in star]
    others = [(name, c.name) for name, c in ((c.name, c) for c in plan.query.columns)]
    extra = [n for n, _ in others if n not in (unit.source, unit.target)]

    def table(edges: list[tuple[str, str]]) -> pa.Table:
        made = {
            unit.source: pa.array([a for a, _ in edges], pa.utf8()),
            unit.target: pa.array([b for _, b in edges], pa.utf8()),
        }
        return pa.table(made | {n: pa.nulls(len(edges), pa.utf8()) for n in extra})

    def pair(name: str, first: list[tuple[str, str]], second: list[tuple[str, str]]) -> Pair:
        return Pair(name, table(first), table(second))

    thin = [e for e in complete if e not in set(star)]
    yield pair("complete graph, a star less", complete, thin)
    yield pair("no edge, a star", [], star)
    yield pair("a path, a star more", path, [*path, *star])
    yield pair("a star taken back and forth", thin, [*thin, *star, *turned, *star])
    yield pair("self-loops", path, [*path, *[(n, n) for n in nodes]])
    if plan.adjacency is Adjacency.substitution:
        last = [(nodes[-1], b) for b in nodes[: unit.k]]
        less = [e for e in thin if e not in set(last)]
        yield pair("a star moved", [*less, *star], [*less, *last])
