"""The bounded query as public JSON, so that the plan's hash covers it and a stranger reads it.

Written: every code (column, allowed runs, step, null default), every primitive, the filter and how
the cells are cleaned that expressions read, the window, the contribution bounds and the intervals they
hold in. Read back, a condition becomes what it is to the arithmetic, a 0/1 code whose column is the condition's
text, with a default where it is never null (`known`); that is enough to recompute every sensitivity, and
cannot be run against rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from itertools import pairwise
from operator import attrgetter
from typing import Annotated, Any

from dprelease.core.codec import decode, encode
from dprelease.core.codec_notes import AtLeast, StoredAs, WrittenAs
from dprelease.core.numeric import FEW, edges_text, whole_edges
from dprelease.query.bounded import (
    BoundedQuery,
    Code,
    Condition,
    Cross,
    Fixed,
    GroupKeys,
    Label,
    Primitive,
    Window,
)
from dprelease.query.cleaning import cleaning_json, read_by_expressions
from dprelease.query.intervals import Intervals
from dprelease.query.never_null import never_null
from dprelease.query.view import View
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import GridSet
from dprelease.schema.read_unit import MAX_NODES


@dataclass(frozen=True, slots=True)
class _ConditionCode:
    """A condition by its text; `known`: it is never null."""

    condition: str
    known: bool = False


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The labels 0, 1, ...: the nodes of a large graph."""

    column: str
    numbers: Annotated[int, AtLeast(0)]


_Code = Fixed | Label | Cross | _ConditionCode | _Numbers
_SHAPES: Mapping[str, Any] = {
    "condition": _ConditionCode,
    "numbers": _Numbers,
    "values": Label,
    "crossed": Cross,
    "runs": Fixed,
}
"""A code's class, by the key that it alone has."""


def _code(value: Mapping[str, Any]) -> _Code:
    kind = next((kind for key, kind in _SHAPES.items() if key in value), Fixed)
    made: _Code = decode(kind, value)
    return made


@dataclass(frozen=True, slots=True)
class _Group:
    """A key column."""

    column: str
    other: str | None
    null: str | None


@dataclass(frozen=True, slots=True)
class _Derived:
    """A derived column and its expression's text."""

    column: str
    text: Annotated[str, StoredAs("from")]


def _listed(primitives: tuple[Primitive, ...]) -> list[Any]:
    """Return primitives as JSON; many bins of a code, each where the one before ends, are one entry with edges."""
    pairs = enumerate(pairwise(zip(primitives, map(_bin_of, primitives), strict=True)), 1)
    ends = [i for i, ((p, own), (q, next_)) in pairs if p.high + 1 != q.low or own != next_]
    out: list[Any] = []
    for start, end in pairwise([0, *ends, len(primitives)]):
        run = primitives[start:end]
        if len(run) <= FEW:
            out += map(encode, run)
            continue
        edges = [*(p.low for p in run), run[-1].high + 1]
        said = {k: part for k, part in encode(run[0]).items() if k not in ("low", "high")}
        out.append({**said, "edges": edges_text(edges)})
    return out


_bin_of = attrgetter(*(name for name in Primitive.__slots__ if name not in ("low", "high")))
"""What equal bins share, beside their ends."""


def _unlisted(value: Sequence[Mapping[str, Any]]) -> tuple[Primitive, ...]:
    out: list[Primitive] = []
    for item in value:
        if "edges" not in item:
            out.append(decode(Primitive, item))
            continue
        said = {k: part for k, part in item.items() if k != "edges"}
        one = decode(Primitive, {**said, "low": "0", "high": "0"})
        edges = whole_edges(str(item["edges"]))
        out += [replace(one, low=low, high=end - 1) for low, end in pairwise(edges)]
    return tuple(out)


@dataclass(frozen=True, slots=True)
class _Task:
    """A bounded query as it is written; what most queries lack is left out."""

    codes: tuple[Annotated[_Code, WrittenAs(encode, _code, Mapping[str, Any])], ...]
    primitives: Annotated[
        tuple[Primitive, ...], WrittenAs(_listed, _unlisted, tuple[Mapping[str, Any], ...])
    ]
    groups: tuple[_Group, ...]
    where: str | None
    window: tuple[str, datetime, datetime] | None
    user: str | None
    max_groups: Annotated[int, AtLeast(1)]
    max_rows: Annotated[int, AtLeast(1)]
    max_rows_total: Annotated[int | None, AtLeast(1)]
    derived: tuple[_Derived, ...] = ()
    cleaned: tuple[Mapping[str, Any], ...] = ()
    view: View | None = None
    per: Intervals | None = None
    missing: bool = False
    late: bool = False


def _written(query: BoundedQuery) -> _Task:
    """Return what is written of `query`; the group keys themselves are in the plan."""
    window = query.window
    return _Task(
        codes=tuple(_shape(c, query.columns) for c in query.codes),
        primitives=query.primitives,
        groups=tuple(_Group(c.name, c.other, c.null_key) for c in query.groups.columns),
        where=None if query.where is None else query.where.canonical,
        window=None if window is None else (window.column, window.start, window.end),
        user=query.user,
        max_groups=query.max_groups,
        max_rows=query.max_rows,
        max_rows_total=query.max_rows_total,
        derived=tuple(
            _Derived(d.column, d.expression.canonical)
            for d in sorted(query.derived, key=lambda d: d.column)
        ),
        cleaned=tuple(_cleaned(query)),
        view=query.view,
        per=query.per,
        missing=query.missing,
        late=query.groups.found,
    )


def _cleaned(query: BoundedQuery) -> list[dict[str, Any]]:
    """Return how the cells that expressions read are cleaned; of codes it is in the codes."""
    read = read_by_expressions(query)
    columns = sorted(query.columns, key=lambda column: column.name)  # their order decides nothing
    return cleaning_json(c for c in columns if c.name in read)


def _shape(code: Code, columns: Sequence[Column]) -> _Code:
    if isinstance(code, Condition):
        return _ConditionCode(code.expression.canonical, never_null(code.expression, columns))
    if isinstance(code, Label) and code.values == _numbers(len(code.values)):
        return _Numbers(code.column, len(code.values))
    return code


def _numbers(count: int) -> tuple[str, ...]:
    return tuple(str(i) for i in range(count))


def _query(task: _Task) -> BoundedQuery:
    """Return the query for re-checking (not for running), without its keys."""
    groups = tuple(
        Column(g.column, Kind.category, other=g.other, null_label=g.null) for g in task.groups
    )
    return BoundedQuery(
        columns=groups,
        groups=GroupKeys(groups, (), task.late),
        codes=tuple(map(_meant, task.codes)),
        primitives=task.primitives,
        window=None if task.window is None else Window(*task.window),
        user=task.user,
        max_groups=task.max_groups,
        max_rows=task.max_rows,
        max_rows_total=task.max_rows_total,
        view=task.view,
        per=task.per,
        missing=task.missing,
    )


def _meant(code: _Code) -> Code:
    if isinstance(code, _Numbers) and code.numbers > MAX_NODES:
        raise ValueError("a graph of so many nodes fits no memory")
    if isinstance(code, _ConditionCode):
        known = 0 if code.known else None  # else a row may be left out
        return Fixed(code.condition, GridSet(((0, 1),)), Fraction(1), known)
    return Label(code.column, _numbers(code.numbers)) if isinstance(code, _Numbers) else code


def for_keys(query: BoundedQuery, keys: Sequence[Sequence[str]]) -> BoundedQuery:
    """Return a query that was read, with the group keys that its plan lists."""
    return replace(query, groups=replace(query.groups, keys=tuple(tuple(k) for k in keys)))


WrittenTask = Annotated[BoundedQuery, WrittenAs(_written, _query, _Task)]
"""A bounded query in a stored dataclass."""
