"""A request with every name resolved against the schema: the `Query`.

Public metadata only. Resolution decides the group keys (from the schema, never from the data), the
fixed-point code of every argument, and whether the number of rows is public
(`docs/theory/sensitivities-and-contribution-bounding.md#when-the-number-of-rows-is-public`).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from functools import partial
from operator import attrgetter
from typing import Literal

from dprelease.core.errors import ConfigError, PlanError
from dprelease.query.arguments import RequestContext, syntax_of, syntaxes
from dprelease.query.bounded import GroupKeys, Window
from dprelease.query.calendar import Calendar
from dprelease.query.derived import where_true
from dprelease.query.intervals import Intervals, intervals_of
from dprelease.query.keys import key_column
from dprelease.query.nodes import Expression
from dprelease.query.resolved import Statistic
from dprelease.query.tables import Tables, table_groups
from dprelease.query.view import View, check_unit, of_period
from dprelease.schema.column import Column, Kind
from dprelease.schema.release_spec import ReleaseSpec, StatisticSpec
from dprelease.schema.table import TableSchema
from dprelease.schema.unit import Adjacency, RowUnit, UserUnit

MAX_GROUPS = 1_000_000


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
    tables: Tables | None = None

    @property
    def columns(self) -> dict[str, Column]:
        """The schema's columns, and those of keys that are made of them."""
        made = [*self.groups.columns]
        for statistic in self.statistics:
            if statistic.spec.where:
                made += statistic.read
        return {
            **self.schema.columns,
            **dict(zip(map(attrgetter("name"), made), made, strict=True)),
        }

    @property
    def intervals(self) -> Intervals | None:
        """The intervals within which contributions are bounded, of a unit with `per`."""
        return intervals_of(self.schema.unit, self.schema.time)

    @property
    def epsilon(self) -> Fraction:
        return self.spec.epsilon

    @property
    def expected(self) -> int | None:
        """The public guess of rows per group: declared, of the middle key, or exact where no row is left out."""
        rows, by_key = self.schema.rows, sorted(self.schema.rows.expected_by_key.values())
        typical = by_key[len(by_key) // 2] if by_key else None
        whole = not (self.spec.by or self.where or self.window)
        return rows.expected or typical or (rows.exact if whole else None)

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
        ConfigError: an unknown column, a faulty expression (DPR12x), a name that is taken (DPR134).
        PlanError: the period is of another column than the schema's time (DPR209), too many groups, or a statistic that does not fit its column (DPR20x).
    """
    if (unread := next((c.unread for c in schema.columns.values() if c.unread), None)) is not None:
        raise unread
    period = Window(*window) if window else None
    if period is not None and schema.time is not None and period.column != schema.time.column:
        raise PlanError(
            f"the period is of `{period.column}`, and the table's time is `{schema.time.column}`",
            where=spec.origin,
            why="losses are added up by the time that the schema declares",
            fix="leave the period's column out: the schema's `time` says it",
            code="DPR209",
        )
    if spec.found and isinstance(schema.unit, UserUnit):
        limits = replace(schema.unit, max_groups=spec.found, max_rows_per_group=1, max_rows=None)
        schema = replace(schema, unit=limits)
    tables = table_groups(schema, spec, calendar, MAX_GROUPS) if spec.tables else None
    groups = _groups(schema, spec, calendar) if tables is None else tables.groups
    fixed_size = (
        schema.adjacency is Adjacency.substitution
        and isinstance(schema.unit, RowUnit)
        and schema.rows.exact is not None
        and spec.where is None
        and period is None
        and (view is None or view.keeps_rows)
        and not spec.by
        and tables is None
    )
    size = schema.rows.exact if fixed_size else None
    context = RequestContext(schema, spec, size)
    statistics = tuple(_statistic(s, context) for s in spec.statistics)
    statistics = tuple(each for s in statistics for each in (s, *_companions(s, spec)))
    if view is not None:
        check_unit(view, schema.unit, schema.time)
        if window is not None:
            view = of_period(view, *window, dates=schema.columns[window[0]].kind is Kind.date)
    return Query(schema, spec, statistics, groups, spec.where, period, view, calendar, tables)


def _groups(schema: TableSchema, spec: ReleaseSpec, calendar: Calendar | None) -> GroupKeys:
    if spec.found:
        return GroupKeys(tuple(schema.columns[name] for name in spec.by), (), found=True)
    made = partial(key_column, schema, calendar, spec.origin)
    columns = tuple(map(made, spec.by))
    if spec.keys_from is not None:
        keys = spec.keys_from
        _check_listed(columns, spec)
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
        keys = tuple(itertools.product(*map(attrgetter("keys"), columns)))
    return GroupKeys(columns, keys)


def _check_listed(columns: tuple[Column, ...], spec: ReleaseSpec) -> None:
    """Refuse listed groups whose part of a date is none of the released ones."""
    for place, column in enumerate(columns):
        known = frozenset(column.keys)
        strange = next(
            (key[place] for key in spec.keys_from or () if key[place] not in known), None
        )
        if strange is not None:
            raise ConfigError(
                f"the listed group `{strange[:60]}` is no value of `{column.name}`",
                where=spec.origin,
                why=f"its values are {column.keys[0]} to {column.keys[-1]}",
                fix="list groups of these values",
                code="DPR117",
            )


def _companions(found: Statistic, release: ReleaseSpec) -> tuple[Statistic, ...]:
    """Return what is published with a statistic, from the same block: it asks for no budget of its own."""
    spec, out = found.spec, []
    syntax = syntax_of(spec.function)
    for end, function in () if syntax is None or release.tables else syntax.companions:
        name = f"{spec.name}_{end}"
        taken = next((s for s in release.statistics if s.name == name), None)
        if taken is not None:
            raise ConfigError(
                f"two statistics are published as `{name}`",
                where=taken.origin,
                why=f"it is published beside `{spec.name}`",
                fix=f'give this one a name of its own: {{statistic: "{taken.text}", as: OTHER_NAME}}',
                code="DPR134",
            )
        companion = replace(
            spec, name=name, weight=Fraction(0), share=None, max_error=None, domain=None, step=None,
            note=None, title=None,
        )  # fmt: skip
        out.append(replace(found, spec=companion, function=function))
    return tuple(out)


def _statistic(spec: StatisticSpec, context: RequestContext) -> Statistic:
    syntax = syntax_of(spec.function)
    if syntax is None:
        raise PlanError(
            f"this version cannot release {spec.text}",
            where=spec.origin,
            why=f"no statistic called `{spec.function}` is registered",
            fix=f"available: {', '.join(syntaxes())}",
            code="DPR208",
        )
    return syntax.arguments.resolve(spec, _of_some_rows(spec, context) if spec.where else context)


def _of_some_rows(spec: StatisticSpec, context: RequestContext) -> RequestContext:
    """Return what a statistic with `where` is resolved against: no row is known to be in it, and its columns are null elsewhere."""
    named = {
        a: where_true(context.schema.columns, a, spec.where)
        for a in spec.arguments
        if a in context.schema.columns
    }
    schema = replace(context.schema, columns={**context.schema.columns, **named})
    return replace(context, schema=schema, size=None)
