"""What the raw rows look like against the schema: for the curator's eyes, at a terminal only.

How many rows are null, unreadable, clamped, or of an unknown key, how many pass the filter, and how
many a unit has too many: the questions that come before a first release, when a schema is written.
The answers are EXACT numbers about private rows. They carry no privacy guarantee at all and no
budget pays for them, so

    * no stage of a release imports this module (an import contract holds that),
    * nothing here is written, logged or returned as data for a machine: there is no JSON,
    * bounds must not be tuned by them after the fact: a range that follows the data leaks it.

The rows are read through the same engine, the same typed, cleaned and derived columns, the same
filter and the same keys as a release, so what is counted as clamped here is what a release would
clamp. Each fault is counted twice: among all rows of the period, since a faulty cell may be why a
filter drops its row, and among those that pass the filter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlglot import exp

from dprelease.core.numeric import counted
from dprelease.engines.bounded_sql import BoundedSelect, Statement
from dprelease.engines.bounding_sql import INTERVAL
from dprelease.engines.clean_sql import spelt
from dprelease.engines.code_sql import column
from dprelease.engines.duckdb import LOCK, DuckDBEngine
from dprelease.engines.duckdb_tables import ROWS, DuckDBTables
from dprelease.engines.duckdb_view import open_rows
from dprelease.engines.request import row_cap, used_columns
from dprelease.engines.source import Source
from dprelease.query.bounded import BoundedQuery
from dprelease.release_plan.plan import ReleasePlan
from dprelease.schema.column import Column, Kind
from dprelease.schema.labels import texts_of

MARK = (
    "PRIVATE: exact numbers about the raw rows. They have no privacy guarantee; "
    "do not copy, log or publish them, and do not tune declared bounds by them."
)

_PASSES = "passes"
"""The filter's value on a row, true where there is no filter."""


@dataclass(frozen=True, slots=True)
class RawCount:
    """One exact number, not to leave the terminal.

    Attributes:
        column: empty for the table as a whole.
        rows: how many, among all rows of the period.
        of: the rows it is a share of; 0 where no share makes sense.
        passing: how many of them pass the filter; None without a filter, or where it makes no sense.
    """

    column: str
    what: str
    rows: int
    of: int
    passing: int | None = None

    def __reduce__(self) -> str:
        msg = "an exact number about private rows is not stored"
        raise TypeError(msg)


def inspect_rows(plan: ReleasePlan, source: Source) -> tuple[RawCount, ...]:
    """Return the findings on the columns that a release by `plan` would read.

    Args:
        plan: its period's rows alone are looked at, where it has a window of its own.
        source: the pipeline's; checked as a release would.

    Raises:
        SourceError: as `DuckDBEngine.preflight`.
    """
    query = plan.query
    DuckDBEngine().preflight(source, query)
    questions = list(_questions(query))
    conditions = [_PASSES, f"{_PASSES} IS NULL"]
    for _, _, condition in questions:
        conditions += [condition, f"({condition}) AND {_PASSES}"]
    counts = ", ".join(["COUNT(*)", *(f"COUNT_IF({one})" for one in conditions)])
    with _rows(source, query) as (connection, select):
        found = _run(connection, select.seen(), f"SELECT {counts} FROM bounded")  # noqa: S608 - our names
    total, passing, unknown, *found = found
    out = [RawCount("", "rows looked at", total, 0)]
    if query.where is not None:
        out.append(RawCount("", f"pass the filter {query.where.canonical}", passing, total))
        out.append(RawCount("", "left out because the filter is null for them", unknown, total))
    pairs = zip(questions, found[::2], found[1::2], strict=True)
    for (name, what, _), rows, passing in pairs:
        out.append(RawCount(name, what, rows, total, None if query.where is None else passing))
    return (*out, *_contributions(query, source))


@contextmanager
def _rows(source: Source, query: BoundedQuery) -> Iterator[tuple[Any, BoundedSelect]]:
    """Open the rows on a connection of their own; some sources are streams, read once."""
    engine = DuckDBEngine()
    with engine._connection() as connection:  # noqa: SLF001 - the very one that releases read by
        tables = DuckDBTables(
            lambda: connection, engine.statements, exact=True, missing=query.missing
        )
        opened, view = open_rows(tables, source, query)
        yield connection, BoundedSelect(query, opened.stored, rows_table=ROWS, view=view)


def _run(connection: Any, bounded: Statement, query: str) -> list[int]:
    """Return the one row of a query over `bounded`, whole numbers; 0 for a null."""
    for name, table in bounded.tables.items():
        connection.register(name, table)
    for setting in LOCK:
        connection.execute(setting)
    sql = f"WITH bounded AS ({bounded.tree.sql(dialect='duckdb')}) {query}"
    used = {k: v for k, v in bounded.parameters.items() if f"${k}" in sql}
    run = connection.execute(sql, used) if used else connection.execute(sql)
    return [int(v or 0) for v in run.fetchone()]


def _questions(query: BoundedQuery) -> Iterator[tuple[str, str, str]]:
    """Yield (column, what, condition over the rows of `BoundedSelect.seen`)."""
    stored = used_columns(query)
    for i, declared in enumerate(stored):
        yield declared.name, "null", f"r{i}"
        unread = f"NOT r{i} AND x{i} IS NULL"
        yield declared.name, f"unreadable as {declared.kind}, taken for null", unread
        if declared.name != query.user:
            yield from _misfits(declared, f"x{i}")
    declarations = {c.name: c for c in (*query.groups.columns, *query.columns)}
    for i, made in enumerate(query.derived):
        declared, said = declarations[made.column], made.expression.canonical
        said = said if len(said) <= 200 else "it"  # a part of a date is a case per value
        yield made.column, f"null: {said} has no value", f"y{i} IS NULL"
        yield from _misfits(declared, f"y{i}")


def _misfits(declared: Column, value: str) -> Iterator[tuple[str, str, str]]:
    """Yield what the declared range and values do to the typed column `value`."""
    name = declared.name
    if declared.domain is not None:
        low, high = declared.domain.hull
        for compare, end, word in (("<", low, "below"), (">", high, "above")):
            if math.isfinite(end):
                yield name, f"{word} {end:g}, clamped", f"{value} {compare} {_double(end)}"
        for low, high in declared.domain.forbidden:
            between = f"{value} > {_double(low)} AND {value} < {_double(high)}"
            yield name, f"between {low:g} and {high:g}, moved to the nearer end", between
    if declared.kind is Kind.category and declared.values:
        known = [exp.Literal.string(v) for v in texts_of(declared.values, declared.lists)]
        inside = exp.In(this=spelt(declared, partial(column, value)), expressions=known)
        unknown = f"{value} IS NOT NULL AND NOT {inside.sql(dialect='duckdb')}"
        goes = "dropped" if declared.other is None else f"counted as {declared.other}"
        yield name, f"undeclared value, {goes}", unknown


def _contributions(query: BoundedQuery, source: Source) -> Iterator[RawCount]:
    """Yield what contribution bounding meets: units, and the rows that it is sure to leave out.

    Of the rows that count (period, filter, unit, declared key). Which groups a unit keeps is the
    salt's choice, so the rows left out are counted as if it kept its fullest ones: never more than
    a release leaves out.
    """
    if query.user is None:
        return
    most = max((row_cap(query, p) for p in query.primitives), default=1)
    whole = query.max_groups * most
    if query.max_rows_total is not None:
        whole = min(whole, query.max_rows_total)
    unit = "u" if query.per is None else f"u, {INTERVAL}"
    totals = f"""
        , cells AS (SELECT {unit}, COUNT(*) AS n FROM bounded GROUP BY {unit}, g)
        , ranked AS (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY {unit} ORDER BY n DESC) AS place FROM cells)
        , kept AS (
            SELECT SUM(n) AS n, LEAST({whole}, SUM(
                CASE WHEN place <= {query.max_groups} THEN LEAST(n, {most}) ELSE 0 END)) AS kept
            FROM ranked GROUP BY {unit})
        SELECT COUNT(*), COUNT_IF(n > kept), SUM(n - kept), SUM(n) FROM kept"""  # noqa: S608 - numbers
    with _rows(source, query) as (connection, select):
        found = _run(connection, select.counting(), totals)
    different, above, dropped, used = found
    bounds = f"{counted(query.max_groups, 'group')} of {counted(most, 'row')}"
    if query.max_rows_total is not None:
        bounds += f", {counted(query.max_rows_total, 'row')} in all"
    yield RawCount(
        query.user, "rows that count: in the period, past the filter, with unit and key", used, 0
    )
    yield RawCount(query.user, "different units among them", different, 0)
    yield RawCount(query.user, f"units with more than {bounds}", above, different)
    yield RawCount(query.user, "their rows beyond that, at least these are left out", dropped, used)


def _double(value: float) -> str:
    return f"CAST('{float(value)!r}' AS DOUBLE)"
