"""What the raw rows look like against the schema: for the curator's eyes, at a terminal only.

How many rows are null, unreadable, clamped, or of an unknown key, and how many a unit has too many:
the questions that come before a first release, when a schema is written. The answers are EXACT
numbers about private rows. They carry no privacy guarantee at all and no budget pays for them, so

    * no stage of a release imports this module (an import contract holds that),
    * nothing here is written, logged or returned as data for a machine: there is no JSON,
    * bounds must not be tuned by them after the fact: a range that follows the data leaks it.

The rows are read through the same engine and the same typed columns as a release, so what is counted
as clamped here is what a release would clamp. Derived columns and the filter of the release are left
out: only stored columns are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC

from sqlglot import exp

from dprelease.engines.code_sql import column, is_null, not_null
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.duckdb_tables import ROWS, Tables
from dprelease.engines.duckdb_view import open_rows
from dprelease.engines.physical import Physical
from dprelease.engines.request import used_columns
from dprelease.engines.source import Source
from dprelease.engines.typed_sql import number, try_cast, typed
from dprelease.planning.model import ReleasePlan
from dprelease.schema.column import Column, Kind
from dprelease.schema.unit import UserUnit

__all__ = ["MARK", "Finding", "inspect_rows"]

MARK = (
    "PRIVATE: exact numbers about the raw rows. They have no privacy guarantee; "
    "do not copy, log or publish them, and do not tune declared bounds by them."
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One exact number, not to leave the terminal.

    `column` is empty for the table as a whole, `of` is 0 where no share makes sense.
    """

    column: str
    what: str
    rows: int
    of: int

    def __reduce__(self) -> str:
        msg = "an exact number about private rows is not stored"
        raise TypeError(msg)


def inspect_rows(plan: ReleasePlan, source: Source) -> tuple[Finding, ...]:
    """Return the findings on the columns that a release by `plan` would read.

    Args:
        plan: its period's rows alone are looked at, where it has a window of its own.
        source: the pipeline's; checked as a release would.

    Raises:
        SourceError: as `DuckDBEngine.preflight`.
    """
    query = plan.query
    engine = DuckDBEngine()
    engine.preflight(source, query)
    with engine._connection() as connection:  # noqa: SLF001 - the very one that releases read by
        tables = Tables(connection, engine.statements)
        opened, view = open_rows(tables, source, query, rows=True)
        columns = used_columns(query)
        asked = list(_questions(columns, query.user))
        start = exp.Select(
            expressions=[
                part
                for i, c in enumerate(columns)
                for part in _cells(i, c, *opened.stored[c.name])
            ]
            or [_named(number(1), "row")]
        ).from_(exp.to_identifier("viewed" if view is not None else ROWS))
        rows = exp.Select(expressions=[exp.Star()]).from_("typed")
        if query.window is not None:
            moment = f"x{[c.name for c in columns].index(query.window.column)}"
            for compare, end in ((exp.GTE, query.window.start), (exp.LT, query.window.end)):
                naive = end if end.tzinfo is None else end.astimezone(UTC).replace(tzinfo=None)
                limit = try_cast(exp.Literal.string(naive.isoformat(sep=" ")), "TIMESTAMP")
                rows = rows.where(
                    compare(this=try_cast(column(moment), "TIMESTAMP"), expression=limit)
                )
        counted = [_named(exp.Count(this=exp.Star()), "n")] + [
            _named(exp.CountIf(this=condition), f"q{i}") for i, (_, _, condition) in enumerate(asked)
        ]
        tree = exp.Select(expressions=counted).from_("looked")
        tree = tree.with_("typed", as_=start).with_("looked", as_=rows)
        parameters: dict[str, object] = {}
        if view is not None:
            tree = tree.with_("viewed", as_=view.tree, append=True)
            tree.args["with_"].expressions.insert(0, tree.args["with_"].expressions.pop())
            parameters |= dict(view.parameters)
        total, *found = _run(connection, tree, parameters)
        extra = list(_units(connection, tree, parameters, plan, [c.name for c in columns], total))
    first = Finding("", "rows looked at", total, 0)
    counts = zip(asked, found, strict=True)
    return (first, *(Finding(n, what, rows, total) for (n, what, _), rows in counts), *extra)


def _run(connection: object, tree: exp.Expression, parameters: dict[str, object]) -> list[int]:
    sql = tree.sql(dialect="duckdb")
    used = {k: v for k, v in parameters.items() if f"${k}" in sql}
    run = connection.execute(sql, used) if used else connection.execute(sql)  # type: ignore[attr-defined]
    return [int(v or 0) for v in run.fetchone()]


def _cells(
    place: int, declared: Column, identifier: str, stored: Physical
) -> tuple[exp.Expression, ...]:
    """The stored cell's nullness and the typed value, as a release would read it."""
    value = typed(declared.kind, stored, lambda: column(identifier))
    return _named(is_null(column(identifier)), f"r{place}"), _named(value, f"x{place}")


def _questions(
    columns: tuple[Column, ...], user: str | None
) -> Iterator[tuple[str, str, exp.Expression]]:
    """Yield (column, what, condition over the typed rows)."""
    for i, declared in enumerate(columns):
        raw, value = f"r{i}", f"x{i}"
        name = declared.name
        yield name, "null", column(raw)
        unread = exp.And(this=exp.Not(this=column(raw)), expression=is_null(column(value)))
        yield name, f"unreadable as {declared.kind}, taken for null", unread
        if name == user:
            continue
        if declared.domain is not None:
            low, high = declared.domain.hull
            ends = ((exp.LT, low, "below"), (exp.GT, high, "above"))
            for compare, end, word in ends:
                if math.isfinite(end):
                    outside = compare(this=column(value), expression=_double(end))
                    yield name, f"{word} {end:g}, clamped", outside
            for low, high in declared.domain.forbidden:
                between = exp.And(
                    this=exp.GT(this=column(value), expression=_double(low)),
                    expression=exp.LT(this=column(value), expression=_double(high)),
                )
                yield name, f"between {low:g} and {high:g}, moved to the nearer end", between
        if declared.kind is Kind.category and declared.values:
            known = [exp.Literal.string(v) for v in declared.values]
            inside = exp.In(this=column(value), expressions=known)
            unknown = exp.And(this=not_null(column(value)), expression=exp.Not(this=inside))
            goes = "dropped" if declared.other is None else f"counted as {declared.other}"
            yield name, f"undeclared value, {goes}", unknown


def _units(
    connection: object,
    tree: exp.Select,
    parameters: dict[str, object],
    plan: ReleasePlan,
    names: list[str],
    total: int,
) -> Iterator[Finding]:
    """Yield what contribution bounding meets: units, and rows beyond what a unit may have."""
    unit = plan.unit
    if not isinstance(unit, UserUnit) or unit.column not in names:
        return
    cap = unit.max_rows_per_group * unit.max_groups
    cap = cap if unit.max_rows is None else min(cap, unit.max_rows)
    at = f"x{names.index(unit.column)}"
    per_unit = (
        exp.Select(expressions=[_named(exp.Count(this=exp.Star()), "n")])
        .from_("looked")
        .where(not_null(column(at)))
        .group_by(column(at))
    )
    beyond = exp.Sub(this=column("n"), expression=number(cap))
    over = exp.GT(this=column("n"), expression=number(cap))
    asked = tree.copy()
    asked.set(
        "expressions",
        [
            exp.Count(this=exp.Star()),
            exp.CountIf(this=over),
            exp.Sum(this=exp.If(this=over.copy(), true=beyond, false=number(0))),
        ],
    )
    asked = asked.with_("units", as_=per_unit).from_("units")
    units, above, dropped = _run(connection, asked, parameters)
    yield Finding(unit.column, "different units", units, 0)
    yield Finding(unit.column, f"units with more than {cap} rows", above, units)
    yield Finding(unit.column, f"rows beyond {cap} per unit, at least these are left out", dropped, total)


def _double(value: float) -> exp.Expression:
    return try_cast(exp.Literal.string(repr(float(value))), "DOUBLE")


def _named(tree: exp.Expression, name: str) -> exp.Expression:
    return exp.Alias(this=tree, alias=exp.to_identifier(name, quoted=True))
