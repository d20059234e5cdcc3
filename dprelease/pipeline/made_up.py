"""Made-up rows for a schema: what a rehearsal is of. No row of any table is read for them.

Values are spread evenly over what the schema declares, by a fixed pseudo-random stream: the same schema
gives the same rows everywhere. A few cells are missing, as in real tables. Rows of a period lie in it.

Units    the columns' own. Tables are Arrow, with the stored columns of the schema.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pyarrow as pa

from dprelease.release_plan.plan import ReleasePlan
from dprelease.schema.column import Column, Kind
from dprelease.schema.table import TableSchema
from dprelease.schema.unit import EdgeUnit

_MOST = 20_000
_GUESS = 200
_MISSING = 0.02
_WIDE = 1000
_YEAR = (datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
_TYPES = {
    Kind.boolean: pa.bool_(),
    Kind.integer: pa.int64(),
    Kind.number: pa.float64(),
    Kind.date: pa.date32(),
    Kind.timestamp: pa.timestamp("us", "UTC"),
}


def made_up_rows(schema: TableSchema, plan: ReleasePlan) -> pa.Table:
    """Return rows as many as the schema expects, at most 20,000, unless it declares their number."""
    count = _count(schema, plan)
    stream = random.Random(f"dprelease rehearsal of {schema.name}")  # noqa: S311 - made-up data, not noise
    columns = {
        name: _column(column, schema, plan, count, stream)
        for name, column in schema.columns.items()
        if column.derived is None
    }
    return pa.table(columns)


def _count(schema: TableSchema, plan: ReleasePlan) -> int:
    rows = schema.rows
    if rows.exact is not None:
        return int(rows.exact)
    guess = int(rows.expected or _GUESS) * max(1, len(plan.keys))
    return min(guess, int(rows.maximum or guess), _MOST)


def _column(
    column: Column, schema: TableSchema, plan: ReleasePlan, count: int, stream: random.Random
) -> pa.Array:
    make = _cell_generator(column, schema, plan, count, stream)
    whole = column.kind in (Kind.identifier, Kind.node, Kind.date, Kind.timestamp)
    cells = [None if not whole and stream.random() < _MISSING else make() for _ in range(count)]
    return pa.array(cells, _TYPES.get(column.kind, pa.string()))


def _cell_generator(
    column: Column, schema: TableSchema, plan: ReleasePlan, count: int, stream: random.Random
) -> Callable[[], Any]:
    match column.kind:
        case Kind.identifier:
            return lambda: f"u{stream.randrange(max(1, count // 2)):06d}"
        case Kind.node:
            unit = schema.unit
            labels = unit.node_labels if isinstance(unit, EdgeUnit) else ("0", "1")
            return lambda: stream.choice(labels)
        case Kind.category:
            values = column.values or ("a",)
            return lambda: stream.choice(values)
        case Kind.boolean:
            return lambda: stream.random() < 0.5
        case Kind.integer | Kind.number:
            return _number(column, stream)
        case _:
            return _moment(column, plan, stream)


def _number(column: Column, stream: random.Random) -> Callable[[], Any]:
    """Return a function that draws multiples of the step inside the declared pieces; infinite ends are replaced."""
    step = column.step or Fraction(1)
    pieces = column.domain.exact_pieces if column.domain is not None else ((0, _WIDE),)
    ends = []
    for low, high in pieces:
        first = low if isinstance(low, Fraction | int) else None
        last = high if isinstance(high, Fraction | int) else None
        bottom = first if first is not None else (last or 0) - _WIDE * step
        ends.append((bottom, last if last is not None else bottom + _WIDE * step))

    def make() -> Any:
        low, high = stream.choice(ends)
        value = low + stream.randint(0, int((high - low) / step)) * step
        return int(value) if column.kind is Kind.integer else float(value)

    return make


def _moment(column: Column, plan: ReleasePlan, stream: random.Random) -> Callable[[], Any]:
    window = plan.query.window
    start, end = _YEAR
    if window is not None and window.column == column.name:
        start, end = (
            at.replace(tzinfo=UTC) if at.tzinfo is None else at for at in (window.start, window.end)
        )
    seconds = max(1, int((end - start).total_seconds()))

    def make() -> Any:
        at = start + timedelta(seconds=stream.randrange(seconds))
        return at.astimezone(UTC).date() if column.kind is Kind.date else at

    return make
