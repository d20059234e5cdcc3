"""The columns that form groups: a category, a truth value, a part of a date, few whole numbers, or in `tables` a level.

`month(visited_at)` in a `by` is a column of its own, derived in every engine. Its values are public: the months of
the released period (`2026-03`), else those of the days that the column declares as its `range`, else the part itself
(`03`); never what the rows hold. Parts of timestamps are read in UTC, but in the time zone of the
period, or of the schema's `time`, where their values come from there. A derived whole number is a key by its value
before it is clamped. A null, and what is none of the values, is of no group.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import cast

from dprelease.core.errors import ConfigError
from dprelease.core.periods import Every, day_start, following_period, parse_period, period_id
from dprelease.core.strict_json import json_text
from dprelease.query import nodes as n
from dprelease.query.calendar import Calendar, window_of
from dprelease.query.functions import PARTS
from dprelease.query.grammar import COLUMN_TYPES, MAX_SQL
from dprelease.query.nodes import Expression
from dprelease.schema.column import Column, Kind
from dprelease.schema.naming import did_you_mean, nearest, quoted
from dprelease.schema.synonyms import DATE_PARTS, meant
from dprelease.schema.table import TableSchema

_LISTED = 32
"""The most values that a message lists."""
_FEW = 64
"""The most values of a whole number that is a key."""
_MOST = 1000
"""The most values of a part of a date."""
_LABELS = {
    "quarter": ("Q{}", 1, 4),
    "month": ("{:02d}", 1, 12),
    "week": ("W{:02d}", 1, 53),
    "day": ("{:02d}", 1, 31),
    "hour": ("{:02d}", 0, 23),
}
"""What a part is called where no year is known, its first and its last value."""
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_PARTS = ("year", *_LABELS, "weekday")
_TIMES = (Kind.date, Kind.timestamp)


def unfit_key(
    schema: TableSchema, name: str, *, levels: bool, found: bool = False
) -> tuple[str, str, str] | None:
    """Return what is wrong with `name` in a `by`, its fix and code; None if groups can be made by it.

    Args:
        levels: levels of hierarchies are keys here, as in `tables`; found: its keys are yet to be found.
    """
    column = schema.columns.get(name)
    if column is not None:
        if found and (column.kind is not Kind.category or column.values):
            fix = f"declare `{json_text(name)}: {{kind: category}}`, without values"
            return f"no keys can be found in `{name}`", fix, "DPR136"
        if column.kind is Kind.category and not (found or column.values or column.unread):
            what = f"the category `{name}` needs either `values` or `values_from`"
            return what, 'add e.g. `values: ["a", "b"]`; or find its keys first', "DPR111"
        if column.kind in (Kind.category, Kind.boolean) or _few(column):
            return None
        return f"cannot group by `{name}`: it is of kind {column.kind}", _declared(column), "DPR136"
    coarser = [level for h in schema.hierarchies.values() for level in h.levels]
    if name in coarser:
        if levels:
            return None
        what = f"`{name}` is a level of a hierarchy, not a column"
        return (
            what,
            f"write `tables: [{{name: by_{name}, by: [{name}], statistics: […]}}]`",
            "DPR122",
        )
    if date_part(schema, name):
        return None
    part, _, inside = re.sub(r"^([^()]+?)\.(?:dt\.)?(\w+)$", r"\2(\1)", name).partition("(")
    of = schema.columns.get(inside.removesuffix(")"))
    part = meant(part, DATE_PARTS) or part.lower()
    closed = f"{part}({quoted(of.name)})" if of else ""
    if date_part(schema, closed):
        return f"`{name}` is no key", f"did you mean `{closed}`?", "DPR136"
    if of and (part in PARTS or (of.kind in _TIMES and not nearest(part, _PARTS))):
        listed = ", ".join(p for p in _PARTS if p != "hour")
        return (
            f"`{name}` is no key",
            f"group by a part of a date or timestamp: {listed}, or a timestamp's hour",
            "DPR136",
        )
    dates = [c for c in schema.columns if schema.columns[c].kind in _TIMES]
    parts = [f"{part}({quoted(c)})" for c in dates for part in _PARTS]
    named = (*schema.columns, *(coarser if levels else ()), *parts)
    known = f"declare it, or use a declared column: {', '.join(schema.columns)}"
    return (
        f"unknown column{' or level' * levels} `{name}`",
        did_you_mean(name, named, known),
        "DPR122",
    )


def date_part(schema: TableSchema, name: str) -> tuple[str, Column] | None:
    """Return the part and the column of a key such as `month(visited_at)`, None for any other name."""
    called = re.fullmatch(rf'({"|".join(_PARTS)})\((?:(\w+)|"(.+)")\)', name)
    column = schema.columns.get(called[2] or called[3].replace('""', '"')) if called else None
    if called is None or column is None or name in schema.columns:
        return None
    fits = column.kind is Kind.timestamp or (column.kind is Kind.date and called[1] != "hour")
    return (called[1], column) if fits else None


def key_column(schema: TableSchema, calendar: Calendar | None, origin: str, name: str) -> Column:
    """Return the column whose values are the keys of a `by` that fits (`unfit_key`).

    Args:
        calendar: the period whose rows are released, None for all rows.

    Raises:
        ConfigError: a part of a date without public values, or with too many (DPR136).
    """
    declared = schema.columns.get(name)
    if declared is not None:
        return _whole(declared) if declared.kind is Kind.integer else declared
    found = date_part(schema, name)
    assert found is not None
    part, column = found
    spans = [] if part in ("weekday", "hour") else list(_spans(schema, part, column, calendar))
    labels = [label for label, _ in spans if label] or list(_parts(part))
    if not 0 < len(labels) <= _MOST:
        raise ConfigError(
            f"`{name}` has {'too many' if labels else 'no'} public values",
            where=origin,
            why=f"at most {_MOST:,} are supported"
            if labels
            else "no row says which years there are",
            fix=f"declare `range: [2024-01-01, 2025-12-31]` of `{column.name}`, or name a period (`during`)",
            code="DPR136",
        )
    at = n.ColumnRef(column.name, COLUMN_TYPES[column.kind])
    branches: list[tuple[n.Node, str | None]] = [(n.IsNull(at), None)]
    if spans:
        branches += [(n.Compare("<", at, _moment(column, end)), label) for label, end in spans]
    else:
        value = n.Call(cast("n.PartName", part), at)
        branches += [(_equal(value, i), label) for label, i in _parts(part).items()]
    return _derived(name, column, branches, tuple(labels))


def _parts(part: str) -> dict[str, int]:
    """Return the values of a part by what they are called; none for a year."""
    if part == "weekday":
        return {name: i for i, name in enumerate(_WEEKDAYS, 1)}
    form, first, last = _LABELS.get(part, ("", 1, 0))
    return {form.format(i): i for i in range(first, last + 1)}


def _spans(
    schema: TableSchema, part: str, column: Column, calendar: Calendar | None
) -> Iterator[tuple[str, datetime]]:
    """Yield the public values of a part with the first instant after each; the first one, "", is what lies before."""
    every, time_of, dates = cast("Every", part), schema.time, column.kind is Kind.date
    zone = time_of.timezone if time_of is not None and time_of.column == column.name else "UTC"
    if calendar is not None and calendar.column == column.name:
        zone, (start, end) = calendar.timezone, window_of(schema, calendar)
    elif column.days is not None:
        first, last = column.days
        zone = "UTC" if dates else zone
        start, end = day_start(first, zone), day_start(last + timedelta(days=1), zone)
    else:
        return
    zone = "UTC" if dates else zone
    yield "", start
    label, low = period_id(start, every, zone), start
    while low < end:
        low = min(parse_period(label, every, zone)[1], end)
        yield label, low
        label = following_period(label, every, zone)


def _moment(column: Column, at: datetime) -> n.Literal:
    if column.kind is Kind.date:
        return n.Literal(at.date(), n.Type.date)
    return n.Literal(at.astimezone(UTC).replace(tzinfo=None), n.Type.timestamp)


def _few(column: Column) -> bool:
    """Return whether a column is a derived whole number of few values, short enough for every engine."""
    made, domain = column.made, column.domain
    if column.kind is not Kind.integer or made is None or domain is None or not domain.is_finite:
        return False
    grid = column.grid
    return grid.hull_steps < _FEW and (grid.hull_steps + 2) * n.sql_size(made.tree) < MAX_SQL


def _whole(column: Column) -> Column:
    """Return the keys of a derived whole number: its values in steps, before they are clamped."""
    assert column.made is not None
    assert column.step is not None
    step, tree = int(column.step), column.made.tree
    scaled = n.Arithmetic("/", tree, n.Literal(float(step), n.Type.number)) if step > 1 else tree
    half = n.Arithmetic("+", scaled, n.Literal(0.5, n.Type.number))
    steps = [i for low, high in column.grid.runs for i in range(low, high + 1)]
    null = None if column.null_default is None else str(column.null_default)
    branches: list[tuple[n.Node, str | None]] = [(n.IsNull(tree), null)]
    branches += [(_equal(n.Call("floor", half), i), str(i * step)) for i in steps]
    return _derived(
        f"{column.name} as a key", column, branches, tuple(str(i * step) for i in steps)
    )


def _equal(value: n.Node, number: int) -> n.Node:
    return n.Compare("=", value, n.Literal(float(number), n.Type.number))


def _derived(
    name: str, source: Column, branches: list[tuple[n.Node, str | None]], values: tuple[str, ...]
) -> Column:
    """Return the category that is made of a column: the first branch that holds."""
    kinds = {True: n.Type.null, False: n.Type.text}
    made = [(test, n.Literal(label, kinds[label is None])) for test, label in branches]
    tree = n.Case(tuple(made), n.Literal("", n.Type.text))
    columns = source.made.columns if source.kind is Kind.integer and source.made else {source.name}
    expression = Expression(n.canonical_text(tree), tree, frozenset(columns), n.Type.text)
    return Column(name, Kind.category, values=values, derived=expression.source, made=expression)


def _quoted(name: str) -> str:
    return n.canonical_text(n.ColumnRef(name, n.Type.text))


def _declared(column: Column) -> str:
    """Return what to group by instead: a part of a date, or the column declared as a category."""
    if column.kind in _TIMES:
        return f"group by a part of it: `month({_quoted(column.name)})`"
    made = "" if column.derived is None else f"from: {json_text(column.derived)}, "
    return _line(column.name, f"{made}values: [{_values(column)}]")


def _line(name: str, rest: str) -> str:
    return f"declare `{_quoted(name)}: {{kind: category, {rest}}}` with all public values, and group by it"


def _values(column: Column) -> str:
    ends = (
        None
        if column.domain is None
        else (column.domain.exact_pieces[0][0], column.domain.exact_pieces[-1][1])
    )
    if ends is None or math.inf in (-ends[0], ends[1]):
        return "…"
    low, high = math.ceil(ends[0]), math.floor(ends[1])
    whole = range(low, high + 1)
    return ", ".join(map(str, whole)) if len(whole) <= _LISTED else f"{low}, {low + 1}, …, {high}"
