"""A request with every name resolved against the schema: the `Query`.

Public metadata only. Resolution decides the group keys (from the schema, never from the data), the
fixed-point code of every argument, and whether the number of rows is public
(`docs/theory/sensitivities-and-contribution-bounding.md#when-the-number-of-rows-is-public`).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Literal

from dprelease import registry
from dprelease.errors import PlanError
from dprelease.numeric import exact
from dprelease.query.bounded import Code, Condition, Fixed, GroupKeys, Label, Window
from dprelease.query.calendar import Calendar
from dprelease.query.cleaning import code_of
from dprelease.query.expression import Expression, parse_condition
from dprelease.query.graph import FUNCTIONS as GRAPH
from dprelease.query.graph import Graph, graph_of
from dprelease.query.view import View, check_unit
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import GridSet
from dprelease.schema.table import ReleaseSpec, StatisticSpec, TableSchema
from dprelease.schema.unit import Adjacency, RowUnit

__all__ = ["MAX_GROUPS", "SEVERAL", "Query", "Statistic", "resolve"]

MAX_GROUPS = 1_000_000
PRODUCT_STEPS = 1024
"""Most steps of a column whose codes are multiplied with another one's."""
SEVERAL = ("covariance", "correlation", "eigenvalues")
"""Statistics of two columns or more."""


@dataclass(frozen=True, slots=True)
class Statistic:
    """One statistic with its arguments resolved.

    `function` is the aggregate's registered name (`count(persons)` is `count_persons`).
    `columns` and `codes` are of a statistic of several columns, in the order of the columns'
    names: covariance(b, a) is covariance(a, b). `column` and `code` are None then.
    `public_rows` is n when the rows that enter this statistic are publicly many.
    """

    spec: StatisticSpec
    function: str
    column: Column | None = None
    condition: Expression | None = None
    code: Code | None = None
    edges: tuple[Fraction, ...] = ()
    public_rows: int | None = None
    columns: tuple[Column, ...] = ()
    codes: tuple[Code, ...] = ()
    graph: Graph | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A resolved request: what is asked of which groups, and for how much."""

    schema: TableSchema
    spec: ReleaseSpec
    statistics: tuple[Statistic, ...]
    groups: GroupKeys
    where: Expression | None
    window: Window | None
    view: View | None = None
    calendar: Calendar | None = None

    @property
    def epsilon(self) -> Fraction:
        return self.spec.epsilon

    @property
    def loss(self) -> Literal["absolute", "squared"]:
        return self.spec.loss

    @property
    def judge(self) -> Literal["average", "worst"]:
        return self.spec.judge


def resolve(
    schema: TableSchema,
    spec: ReleaseSpec,
    *,
    window: tuple[str, datetime, datetime] | None = None,
    view: View | None = None,
    calendar: Calendar | None = None,
) -> Query:
    """Resolve `spec` against `schema`.

    Args:
        window: (timestamp column, start, end) of a period, UTC, half-open.
        view: the curator's view that the rows come through.
        calendar: the period that the window is of.

    Raises:
        ConfigError: an unknown column, a faulty expression (DPR12x).
        PlanError: too many groups, or a statistic that does not fit its column (DPR20x).
    """
    where = (
        parse_condition(spec.where, schema.columns, origin=spec.where_origin or spec.origin)
        if spec.where
        else None
    )
    period = Window(*window) if window else None
    groups = _groups(schema, spec)
    fixed_size = (
        schema.adjacency is Adjacency.substitution
        and isinstance(schema.unit, RowUnit)
        and schema.rows.exact is not None
        and where is None
        and period is None
        and (view is None or view.keeps_rows)
        and not spec.by
    )
    size = schema.rows.exact if fixed_size else None
    statistics = tuple(
        Statistic(s, s.function, graph=graph_of(schema, spec, s))
        if s.function in GRAPH
        else _statistic(schema, s, size)
        for s in spec.statistics
    )
    if view is not None:
        check_unit(view, schema.unit)
    return Query(schema, spec, statistics, groups, where, period, view, calendar)


def _groups(schema: TableSchema, spec: ReleaseSpec) -> GroupKeys:
    columns = tuple(schema.columns[name] for name in spec.by)
    if spec.keys_from is not None:
        keys = spec.keys_from
    else:
        total = 1
        for column in columns:
            total *= len(column.keys)
        if total > MAX_GROUPS:
            raise PlanError(
                f"grouping by {', '.join(spec.by)} makes {total:,} groups",
                where=spec.origin,
                why=f"every declared combination is released; at most {MAX_GROUPS:,} are supported",
                fix="group by fewer columns, or list the combinations with `keys_from: FILE`",
                code="DPR205",
            )
        keys = tuple(itertools.product(*(c.keys for c in columns)))
    return GroupKeys(columns, keys)


def _statistic(schema: TableSchema, spec: StatisticSpec, size: int | None) -> Statistic:
    if spec.function == "count":
        persons = spec.arguments == ("persons",)
        return Statistic(spec, "count_persons" if persons else "count", public_rows=size)
    if spec.function == "proportion":
        condition = parse_condition(spec.arguments[0], schema.columns, origin=spec.origin)
        # A condition may be unknown (null) on a row, which leaves the row out: n is private.
        return Statistic(spec, spec.function, condition=condition, code=Condition(condition))
    known = spec.function in registry.names("aggregates")
    if not known and spec.function not in registry.third_party_names("aggregates"):
        raise PlanError(
            f"this version cannot release {spec.text}",
            where=spec.origin,
            why=f"no aggregate called `{spec.function}` is registered",
            fix=f"available: {', '.join(registry.names('aggregates'))}",
            code="DPR208",
        )
    if spec.function in SEVERAL:
        return _several(schema, spec, size)
    column = schema.columns[spec.arguments[0]]
    code = code_of(column)
    if spec.function == "count_distinct" and column.kind is Kind.category:
        return Statistic(spec, spec.function, column=column, code=Label(column.name, column.values))
    if code is None and spec.function == "count_distinct":  # the aggregate says what it can count
        return Statistic(spec, spec.function, column=column)
    if code is None:
        raise _no_range(spec, column)
    # A null that keeps its row (nulls: {default: x}) keeps n; a dropped one makes n private.
    public = size if code.default is not None else None
    edges: tuple[Fraction, ...] = ()
    if spec.function == "histogram":
        edges = tuple(Fraction(exact(a)) for a in spec.arguments[1:])
    return Statistic(spec, spec.function, column=column, code=code, edges=edges, public_rows=public)


def _several(schema: TableSchema, spec: StatisticSpec, size: int | None) -> Statistic:
    """Resolve a statistic of several columns; its rows are those where all of them are known."""
    columns = tuple(schema.columns[name] for name in sorted(spec.arguments))
    codes: list[Fixed] = []
    for column in columns:
        code = code_of(column)
        if code is None:
            raise _no_range(spec, column)
        if code.grid.hull_steps == 0:
            raise PlanError(
                f"{spec.text} needs columns that vary: `{column.name}` can hold one value only",
                where=spec.origin,
                why="its variance and covariances are 0 whatever the rows are",
                fix=f"leave `{column.name}` out, or widen its range",
                code="DPR222",
            )
        codes.append(_coarse(column, code))
    kept = all(c.default is not None for c in codes)
    return Statistic(
        spec,
        spec.function,
        public_rows=size if kept else None,
        columns=columns,
        codes=tuple(codes),
    )


def _coarse(column: Column, code: Fixed) -> Fixed:
    """Return `code` on a step that leaves at most `PRODUCT_STEPS`, if one fits the column's edges.

    Products of finer codes outgrow the integers that noise is drawn in. Any map of rows keeps
    neighbouring tables neighbours, and rounding by a share h of the range moves a variance by about
    h^2 / 12 of its square: far below the noise. The plan names the step.
    """
    if code.grid.hull_steps <= PRODUCT_STEPS or column.domain is None:
        return code
    least = -(-code.grid.hull_steps // PRODUCT_STEPS)
    common = math.gcd(*(edge for run in code.grid.runs for edge in run))
    for parts in range(common // least, 0, -1):  # at most PRODUCT_STEPS of them
        factor = common // parts
        if common % parts or factor > 8 * least:
            continue
        step = code.step * factor
        grid = GridSet(tuple((a // factor, b // factor) for a, b in code.grid.runs))
        default = None
        if code.default is not None:
            at = Fraction(code.default + code.grid.lower, factor)
            ends = [min(max(at, Fraction(a)), Fraction(b)) for a, b in grid.runs]
            nearest = min(ends, key=lambda end: (abs(end - at), end))
            default = math.floor(nearest + Fraction(1, 2)) - grid.lower
        return Fixed(code.column, grid, step, default)
    return code


def _no_range(spec: StatisticSpec, column: Column) -> PlanError:
    return PlanError(
        f"cannot bound {spec.text}: `{column.name}` has no finite range",
        where=spec.origin,
        why="one row could move the statistic by any amount, so no finite noise would hide it",
        fix=f"give `{column.name}` a range in the schema, e.g. `range: [0, 100]`; rows are clamped to it",
        code="DPR202",
    )
