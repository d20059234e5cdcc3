"""Mean of a clamped column, and the proportion of rows that meet a condition.

Private n: two sums (or the Bernstein cells that a variance of the same column pays for anyway, or, where
units are replaced, a size and a sum about the middle), post-processed to a ratio; a mean without point masses is drawn from a truncated law after the size has been
released. Public n: the sum itself, sensitivity w/n; of a share, whose condition is never null then
(`query.never_null`), the count, 1/n. Domain: the hull [l, u]; a forbidden interval of
the *column* does not forbid means. A proportion is the mean of a 0/1 code.

Sources: `docs/theory/sensitivities-and-contribution-bounding.md#partitions-of-unity`,
`#truncated-mean`, `#scalars`; `docs/theory/domains-and-grids.md#induced-domains`.
"""

from __future__ import annotations

from dprelease.query.arguments import RowCondition, Syntax
from dprelease.schema.domain import Domain
from dprelease.statistics.measurement import Context, Measurement
from dprelease.statistics.moments import Quotient
from dprelease.statistics.scalar import (
    bernstein2,
    centred_squares,
    centred_sum,
    centred_sums,
    known_rows,
    public_mean,
    truncated_mean,
    two_sums,
)


class Mean(Quotient):
    degree = 1
    sums = ("sum", "count")

    def __init__(
        self, name: str, syntax: Syntax | None = None, heading: str = "", *, moment: int = 0
    ) -> None:
        self.name = name
        self.syntax = syntax or Syntax(1, 1, f"{name}(column)")
        self.heading = heading
        self.moment = moment

    def domain(self, context: Context) -> Domain:
        return context.hull

    def measurements(self, context: Context) -> tuple[Measurement, ...]:
        if context.public_rows is not None:
            return (public_mean(context),)
        return (
            two_sums(context),
            bernstein2(context),
            truncated_mean(context),
            centred_sums(context),
            centred_squares(context),
        )

    def quotient(self, context: Context) -> tuple[Measurement, Measurement] | None:
        return centred_sum(context), known_rows(context)


statistic = Mean(
    "mean",
    Syntax(
        1,
        1,
        "mean(age)",
        sql=("AVG", "MEAN"),
        winsorised="winsorised_mean",
        weighted="weighted_mean",
    ),
    "Mean of {}",
    moment=1,
)
proportion = Mean(
    "proportion",
    Syntax(
        1,
        1,
        "proportion(age > 65)",
        RowCondition(),
        ("PROPORTION",),
        weighted="weighted_proportion",
    ),
    "Share of rows with {}",
)
