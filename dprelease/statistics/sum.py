"""Sum of a clamped column.

A row lies in [l, u]. Adding or removing one moves the sum by at most M = max(|l|, |u|); replacing
the data of a unit by none, or by any other, moves it by at most w0 = max(u, 0) - min(l, 0) per row.
With public n a replaced row moves it by w = u - l. Domain [N min(l, 0), N max(u, 0)], or [nl, nu]
with public n (`docs/theory/sensitivities-and-contribution-bounding.md#scalars`).
"""

from __future__ import annotations

import math
from fractions import Fraction

from dprelease.query.arguments import Syntax
from dprelease.schema.column import Column
from dprelease.schema.domain import Domain
from dprelease.statistics.base import StatisticKind
from dprelease.statistics.measurement import Context, Measure, Measurement
from dprelease.statistics.scalar import require_cap


class Sum(StatisticKind):
    name = "sum"
    syntax = Syntax(
        1,
        1,
        "sum(age)",
        sql=("SUM",),
        certain=True,
        winsorised="winsorised_sum",
        weighted="weighted_sum",
    )
    heading = "Sum of {}"
    additive = adds_up = constant = True
    within: str | None = "count"

    def cap(self, low: Fraction, high: Fraction, column: Column | None) -> int | None:
        """Return the rows with which the sum reaches every declared value that it can have."""
        least, most = Fraction(0), Fraction(1)
        if column is not None and column.domain is not None:
            least, most = Fraction(column.domain.lower), Fraction(column.domain.upper)
        rows = [Fraction(0)]
        rows += [high / most] if most > 0 else []
        rows += [low / least] if least < 0 else []
        return math.ceil(max(rows)) or None

    def domain(self, context: Context) -> Domain:
        cap, hull = require_cap(context), context.hull
        if context.public_rows is not None:
            return Domain(cap * hull.lower, cap * hull.upper)
        return Domain(cap * min(hull.lower, 0), cap * max(hull.upper, 0))

    def measurements(self, context: Context) -> tuple[Measurement, ...]:
        low, cap = int(context.lowest / context.step), require_cap(context)
        high = low + context.scale
        n = context.public_rows
        public = n is not None
        return (
            Measurement(
                family="scalar",
                key=("scalar", "sum", context.subject, context.spec.name),
                cells=(f"sum of {context.subject}",),
                measures=(Measure("power", context.code, 0), Measure("power", context.code, 1)),
                weights=((low, 1),),
                l1_added_row=max(abs(low), abs(high)),
                l1_replaced_row=high - low if public else max(high, 0) - min(low, 0),
                lower=cap * (low if public else min(low, 0)),
                upper=cap * (high if public else max(high, 0)),
                scale=context.scale,
                step_size=context.step,
                public_rows=n,
            ),
        )


statistic = Sum()
