"""A request with every name resolved against the schema: the `Query`.

Public metadata only. Resolution decides the group keys (from the schema, never from the data), the
fixed-point code of every argument, and whether the number of rows is public (semantics 1.2).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Literal

from dprelease import registry
from dprelease.errors import PlanError
from dprelease.numeric import exact
from dprelease.query.bounded import Code, Condition, Fixed, GroupKeys, Window
from dprelease.query.expression import Expression, parse_condition
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import GridSet
from dprelease.schema.table import ReleaseSpec, StatisticSpec, TableSchema
from dprelease.schema.unit import Adjacency, RowUnit

__all__ = ["MAX_GROUPS", "Query", "Statistic", "resolve"]

MAX_GROUPS = 1_000_000


@dataclass(frozen=True, slots=True)
class Statistic:
    """One statistic with its arguments resolved.

    `function` is the aggregate's registered name (`count(persons)` is `count_persons`).
    `public_rows` is n when the rows that enter this statistic are publicly many.
    """

    spec: StatisticSpec
    function: str
    column: Column | None = None
    condition: Expression | None = None
    code: Code | None = None
    edges: tuple[Fraction, ...] = ()
    public_rows: int | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A resolved request: what is asked of which groups, and for how much."""

    schema: TableSchema
    spec: ReleaseSpec
    statistics: tuple[Statistic, ...]
    groups: GroupKeys
    where: Expression | None
    window: Window | None

    @property
    def epsilon(self) -> Fraction:
        return self.spec.epsilon

    @property
    def loss(self) -> Literal["absolute", "squared"]:
        return self.spec.loss


def resolve(
    schema: TableSchema,
    spec: ReleaseSpec,
    *,
    window: tuple[str, datetime, datetime] | None = None,
) -> Query:
    """Resolve `spec` against `schema`.

    Args:
        window: (timestamp column, start, end) of a period, UTC, half-open.

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
        and not spec.by
    )
    size = schema.rows.exact if fixed_size else None
    statistics = tuple(_statistic(schema, s, size) for s in spec.statistics)
    return Query(schema, spec, statistics, groups, where, period)


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
    column = schema.columns[spec.arguments[0]]
    code = _code(column)
    if code is None:
        raise PlanError(
            f"cannot bound {spec.text}: `{column.name}` has no finite range",
            where=spec.origin,
            why="one row could move the statistic by any amount, so no finite noise would hide it",
            fix=f"give `{column.name}` a range in the schema, e.g. `range: [0, 100]`; rows are clamped to it",
            code="DPR202",
        )
    # A null that keeps its row (nulls: {default: x}) keeps n; a dropped one makes n private (1.2).
    public = size if code.default is not None else None
    edges: tuple[Fraction, ...] = ()
    if spec.function == "histogram":
        edges = tuple(Fraction(exact(a)) for a in spec.arguments[1:])
    return Statistic(spec, spec.function, column=column, code=code, edges=edges, public_rows=public)


def _code(column: Column) -> Fixed | None:
    if column.kind is Kind.boolean:
        default = None if column.null_default is None else int(column.null_default)
        return Fixed(column.name, GridSet(((0, 1),)), Fraction(1), default)
    if column.domain is None or not column.domain.is_finite or column.step is None:
        return None
    grid = column.grid
    default = None
    if column.null_default is not None:
        default = int(column.null_default / column.step) - grid.lower
    return Fixed(column.name, grid, column.step, default)
