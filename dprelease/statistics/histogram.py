"""Histogram of a clamped column: one count per declared bin, half-open, the last one closed.

A row falls into at most one bin, so adding a row moves the vector by 1 in L1 and replacing one by
2 (`docs/theory/sensitivities-and-contribution-bounding.md#scalars`). Values outside the edges are
counted nowhere. Bins come from the schema, never from the data. Domain of every bin: {0..N}.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dprelease.core.errors import ConfigError, PlanError, shortened
from dprelease.core.numeric import FEW, MOST_EDGES, bins, edges_of, edges_text
from dprelease.query.arguments import NumberColumn, RequestContext, Syntax, Written, unquoted
from dprelease.query.grammar import between_steps
from dprelease.query.resolved import Statistic
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain
from dprelease.schema.release_spec import StatisticSpec
from dprelease.schema.table import TableSchema
from dprelease.statistics.base import Floats, Planned, Rule, StatisticKind
from dprelease.statistics.measurement import Context, Measure, Measurement
from dprelease.statistics.scalar import require_cap

if TYPE_CHECKING:
    from dprelease.results.consistency import StatisticValues


def adding_up(released: Sequence[StatisticValues]) -> dict[str, Floats]:
    """Make bins that hold every row add up to the count of the same rows."""
    out: dict[str, Floats] = {}
    for total in (r for r in released if r.function == "count" and _counts(r)):
        same = [r for r in released if r.rows == total.rows and _counts(r)]
        parts = [r for r in same if r.function == "histogram" and r.data.get("partition")]
        if not parts or sum(r.function == "count" for r in same) > 1:
            continue
        counted, spread = total.values[:, 0], total.noise
        for part in parts:
            noise = part.noise
            if noise is None or spread is None:
                continue
            ratio = spread / noise if noise > 0 else math.inf
            top = int(min(total.statistic.domain.upper, part.statistic.domain.upper))
            fitted = fit_parts(part.values, counted, ratio, top)
            out[part.statistic.name] = fitted
            counted, spread = fitted.sum(axis=1), 0.0  # further histograms fit the same total
            out[total.statistic.name] = counted[:, None]
    return out


def _counts(one: StatisticValues) -> bool:
    return one.plain and one.statistic.step == 1 and math.isfinite(one.statistic.domain.hull[1])


def fit_parts(parts: Floats, total: Floats, ratio: float, top: int) -> Floats:
    """Return non-negative integers near `parts` whose sum is near `total`, `(groups, parts)`.

    Minimises S(x_i - part_i)^2 ratio + (S(x_i) - total)^2 over x >= 0, then rounds. `ratio` is the
    variance of the total over that of a part: 0 makes the sum equal the total, infinity leaves the
    parts alone. At the minimum x_i = max(0, part_i + t) with ratio t = total - S(x_i); if the m
    largest parts are positive, t = (total - their sum) / (ratio + m), and m is the largest number
    for which the m-th part stays positive, as in projecting on a simplex.

    Rounding: the sum to the nearest integer in 0..top, every part down, and the units still
    missing to the largest remainders, earlier parts first.
    """
    x = np.maximum(parts, 0.0)
    if math.isfinite(ratio):
        falling = -np.sort(-parts, axis=1)
        shifts = (total[:, None] - np.cumsum(falling, axis=1)) / (
            ratio + np.arange(1, parts.shape[1] + 1)
        )
        positive = np.maximum((falling + shifts > 0).sum(axis=1), 1)
        shift = np.take_along_axis(shifts, positive[:, None] - 1, axis=1)
        x = np.maximum(parts + shift, 0.0)
    sums = x.sum(axis=1)
    over = sums > top
    x[over] *= (top / sums[over])[:, None]
    whole = np.floor(np.minimum(x.sum(axis=1), top) + 0.5)
    down = np.floor(x)
    missing = whole - down.sum(axis=1)
    order = np.argsort(-(x - down), axis=1, kind="stable")
    rank = np.argsort(order, axis=1, kind="stable")
    return np.asarray(down + (rank < missing[:, None]))


class ColumnAndEdges(NumberColumn):
    """One column of numbers and its edges, kept as one exact text."""

    sql: Written = "text"

    def read(self, texts: tuple[str, ...], origin: str) -> tuple[str, ...]:
        try:
            edges = edges_of(texts[1])
        except ValueError:
            raise ConfigError(
                f"edges are two or more increasing numbers in brackets, at most {MOST_EDGES:,}, or a range of whole steps",
                where=origin,
                code="DPR133",
            ) from None
        return unquoted(texts[0]), edges_text(edges)

    def named(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        return arguments[:1]

    def check(self, spec: StatisticSpec, schema: TableSchema) -> StatisticSpec:
        column = schema.columns.get(spec.arguments[0])
        for edge in edges_of(spec.arguments[1]) if column and not column.stepped else ():
            if column and (finer := column.finer_step(edge)) is not None:
                what, why, fix = between_steps(column, edge, finer)
                raise ConfigError(what, where=spec.origin, why=why, fix=fix, code="DPR164")
        return super().check(spec, schema)

    def fits(self, column: Column) -> bool:
        return super().fits(column) and column.kind is not Kind.boolean

    def instead(self, column: Column) -> str:
        if column.kind is Kind.category:
            return f"group by it: `by: [{column.name}]` with the statistic count"
        return super().instead(column)

    def resolve(self, spec: StatisticSpec, context: RequestContext) -> Statistic:
        edges = edges_of(spec.arguments[1])
        function = spec.function if spec.accurate_for is None else f"{spec.function}_of_ranges"
        return replace(super().resolve(spec, context), function=function, edges=edges)


class Histogram(StatisticKind):
    name = "histogram"
    syntax: Syntax | None = Syntax(
        2,
        2,
        "histogram(hour, [0, 6, 12, 18, 24])",
        ColumnAndEdges(),
        ("HISTOGRAM",),
        accurate_for=("ranges",),
        certain=True,
    )
    heading = "Distribution of {0}"
    measure = "rows"
    whole = parts = adds_up = True
    rules: tuple[Rule, ...] = (adding_up,)

    def cap(self, low: Fraction, high: Fraction, column: Column | None) -> int | None:
        del low, column
        return int(high) if high >= 1 else None

    def notes(self, planned: Planned, measurement: Measurement) -> tuple[str, ...]:
        del planned, measurement  # values outside the edges are counted nowhere
        return ()

    def domain(self, context: Context) -> Domain:
        return Domain(0, require_cap(context))

    def measurements(self, context: Context) -> tuple[Measurement, ...]:
        column, edges, labels = context.column, context.edges, bins("", context.spec.arguments[1])
        assert column is not None
        grid = column.grid
        num, den = context.step.as_integer_ratio()
        starts = [-(-edge.numerator * den // (edge.denominator * num)) for edge in edges]
        ends = [*(start - 1 for start in starts[1:-1]), math.floor(edges[-1] / context.step)]
        measures, (firsts, lasts) = [], zip(*grid.runs, strict=True)
        for label, low, high in zip(labels, starts, ends, strict=False):
            if bisect_right(firsts, high) == bisect_left(lasts, low):  # no run meets it
                raise PlanError(
                    f"the bin {label} of {shortened(context.spec.text, 200)} can hold no allowed value",
                    where=context.spec.origin,
                    why=f"the domain of `{column.name}` is {column.domain}",
                    fix="remove the bin, or widen the column's domain",
                    code="DPR204",
                )
            measures.append(
                Measure("between", context.code, low=low - grid.lower, high=high - grid.lower)
            )
        n = len(labels)
        few = n <= FEW
        return (
            Measurement(
                family="bins",
                key=("bins", context.subject, *(labels if few else ()), context.spec.name),
                cells=labels,
                measures=tuple(measures),
                weights=tuple(tuple(int(i == j) for j in range(n)) for i in range(n))
                if few
                else (),
                l1_added_row=1,
                l1_replaced_row=2,
                upper=require_cap(context),
                public_rows=context.public_rows,
            ),
        )

    def columns(self, context: Context) -> tuple[str, ...]:
        return bins(context.spec.name, context.spec.arguments[1])


statistic = Histogram()
