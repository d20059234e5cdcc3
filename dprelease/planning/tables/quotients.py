"""Which sums a mean, or a share, of one of several tables is a quotient of.

A quotient is not measured. It is computed from two fitted numbers of the same table: a sum over rows and
the number of these rows. Where the table publishes both it costs nothing. What is missing joins the family
of that name in other tables, or makes one of its own: measured and fitted with the others, and not published.

    rows known    `count`, where no null leaves a row out; else the rows whose value is known
    sum           `sum(column)`, where some table asks for it; else around the middle of the range, which a
                  row moves half as far
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from fractions import Fraction

from dprelease.core.errors import PlanError
from dprelease.measurements.members import Member
from dprelease.planning.layout import member_of
from dprelease.planning.prices import size_of
from dprelease.query.never_null import never_null
from dprelease.query.resolved import Statistic
from dprelease.query.spec import Query
from dprelease.query.tables import TableGroups
from dprelease.schema.domain import Domain
from dprelease.schema.release_spec import StatisticSpec
from dprelease.statistics.base import kind_named
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.scalar import as_counts

_BEND = 4
"""Of the pieces of a ratio's range from 0 on: quotients of rows may be far above those of their sums."""

Key = tuple[object, ...]
"""What one additive number is, in whatever table."""


@dataclass(frozen=True, slots=True)
class QuotientSum:
    """One of a quotient's two sums.

    Attributes:
        counts: of which family the rows are that it is a sum over, if it is a sum.
    """

    key: Key
    member: Member
    counts: Key | None = None

    @property
    def text(self) -> str:
        return self.member.statistic.spec.text


@dataclass(frozen=True, slots=True)
class TableQuotient:
    """A statistic of a table that is computed from two fitted numbers: the names of their families."""

    table: str
    member: Member
    top: str
    bottom: str


@dataclass(frozen=True, slots=True)
class QuotientSpan:
    """Where a quotient of two sums may lie, in steps of the top per step of the bottom.

    Attributes:
        start: what it is counted from, in the statistic's unit; step: a step in that unit.
        square: t^2 that errors are stated at; each: what a row adds to the bottom on average, in steps.
        bend: as of `fitting.quotient.CriticalValues`.
    """

    low: int
    high: int
    start: Fraction
    step: Fraction
    square: float
    each: float
    bend: int = 1


def span_of(quotient: TableQuotient, top: Member, bottom: Member) -> QuotientSpan:
    """Return the range of a quotient, and the sizes that its errors are stated at.

    A mean's is that of one row, and its error that of a value anywhere in it. A ratio's is its domain, and its
    error that of columns in the middle of their ranges.
    """
    step = top.options[0].step_size / bottom.options[0].step_size
    low, high, start = row_range(top)
    if not quotient.member.statistic.columns:
        return QuotientSpan(low, high, start, step, _mean_square(low, high), 1.0)
    first, last = (Fraction(end) / step for end in quotient.member.domain.hull)
    each = sum(row_range(bottom)[:2]) / 2
    typical = min(max(float(first), (low + high) / 2 / each), float(last))
    bend = _BEND if first >= 0 else 1
    return QuotientSpan(
        math.floor(first), math.ceil(last), Fraction(0), step, typical**2, each, bend
    )


def _mean_square(low: int, high: int) -> float:
    """Return the mean of t^2 over the range of a quotient, in steps squared."""
    return (low * low + low * high + high * high) / 3


def row_range(member: Member) -> tuple[int, int, Fraction]:
    """Return what one row adds to a sum at least and at most, in steps, and the value that steps start from."""
    (low, _), step_size = member.options[0].weights[0], member.options[0].step_size
    return low, low + member.statistic.scale, member.statistic.lowest - low * step_size


def parts_of(
    query: Query, table: TableGroups, statistic: Statistic, additive: Collection[Key]
) -> tuple[Member, QuotientSum, QuotientSum] | None:
    """Return a statistic with the two sums that it is a quotient of; None: it is none.

    Args:
        additive: the additive numbers that some table asks for.

    Raises:
        PlanError: a `max_error` is declared for it, and no number of rows is expected (DPR292); or as
            `layout.member_of`.
    """
    member = member_of(query, statistic)
    measurements = member.kind.quotient(member.statistic)
    if measurements is None:
        return None
    if statistic.spec.max_error is not None and not size_of(query, table.name).known:
        raise PlanError(
            f"`max_error` of {statistic.spec.text} needs a public guess of the number of rows",
            where=statistic.spec.origin,
            why=f"table `{table.name}` computes it from fitted sums: its error depends on the number of rows",
            fix="declare `rows: {expected: ...}`, or a `max_error` of the sum or the count",
            code="DPR292",
        )
    if member.statistic.columns:
        return member, _sum_of(query, table, member, 0), _sum_of(query, table, member, 1)
    bottom = _bottom(query, table, member, measurements[1])
    top = _top(query, table, member, measurements[0], additive, bottom.key)
    return member, top, bottom


def _complete(query: Query, statistic: Statistic) -> bool:
    """Return whether no null leaves a row out."""
    if statistic.condition is not None:
        return never_null(statistic.condition, query.schema.columns.values())
    return statistic.column is not None and statistic.column.null_default is not None


def _sum_of(query: Query, table: TableGroups, member: Member, place: int) -> QuotientSum:
    """Return the sum of one of a ratio's two columns."""
    column, function = member.statistic.columns[place], member.kind.sums[place]
    text, name = f"{function}({column.name})", f"sum of {column.name}"
    spec = _spec(member, text, function, (column.name,), name)
    statistic = Statistic(spec, function, column=column, code=member.statistic.codes[place])
    return QuotientSum((function, (column.name,)), settled(member_of(query, statistic), table.name))


def _bottom(query: Query, table: TableGroups, member: Member, known: Measurement) -> QuotientSum:
    subject = member.statistic.subject
    if _complete(query, member.statistic):
        rows = member.kind.sums[1]
        count = Statistic(_spec(member, rows, rows, (), "number of rows"), rows)
        return QuotientSum((rows, ()), settled(member_of(query, count), table.name))
    name = f"rows with {subject}"
    spec = _spec(member, name, member.kind.sums[1], (subject,), name)
    return QuotientSum((name,), _own(member, spec, known, table.name))


def _top(
    query: Query,
    table: TableGroups,
    member: Member,
    centred: Measurement,
    additive: Collection[Key],
    counts: Key,
) -> QuotientSum:
    subject, arguments = member.statistic.subject, member.statistic.spec.identity
    function = member.kind.sums[0]
    key: Key = (function, arguments)
    if member.statistic.column is not None and key in additive:
        spec = _spec(member, f"{function}({subject})", function, arguments, f"sum of {subject}")
        own = replace(member.statistic, spec=spec, function=function)
        return QuotientSum(key, settled(member_of(query, own), table.name), counts)
    name = f"sum of {subject} around the middle"
    if member.statistic.condition is not None:
        name = f"rows where {subject}"
    spec = _spec(member, name, function, (subject,), name)
    return QuotientSum((name,), _own(member, spec, centred, table.name), counts)


def _spec(
    member: Member, text: str, function: str, arguments: tuple[str, ...], name: str
) -> StatisticSpec:
    spec = member.statistic.spec
    return StatisticSpec(
        text=text,
        function=function,
        arguments=arguments,
        name=name,
        weight=spec.weight,
        origin=spec.origin,
    )


def _own(member: Member, spec: StatisticSpec, measurement: Measurement, table: str) -> Member:
    """Return a number that nobody asked for by itself."""
    step_size, top = measurement.step_size, measurement.upper
    assert top is not None
    domain = Domain(measurement.lower * step_size, top * step_size)
    made = Member(
        statistic=replace(member.statistic, spec=spec, function=spec.function),
        kind=kind_named(spec.function),
        domain=domain,
        options=(measurement,),
        induced=domain,
    )
    return settled(made, table)


def settled(member: Member, table: str) -> Member:
    """Return the number as integer cells that noise is added to, one per cell of `table`."""
    measurement, statistic = member.options[0], member.statistic
    added = replace(as_counts(measurement), key=(*measurement.key, "table", table))
    settled = replace(statistic.spec, step=statistic.spec.step or measurement.step_size)
    return replace(member, statistic=replace(statistic, spec=settled), options=(added,))
