"""Quantiles of a clamped column: the median, any share p, the least and the greatest value.

Domain: the column's own allowed values, so a forbidden interval of the column is one of its
quantiles too (`docs/theory/domains-and-grids.md#induced-domains`). A value is chosen among
candidates by its rank (`ranks`), because a
quantile itself can move across the whole domain when one row changes. Definition: inverse
distribution function; where two neighbouring rows are equally good (the two middle ones), so is
every allowed value between them.

`min` and `max` aim at the k-th row from the end, so that its value alone is the best candidate (at
k = 1, the least or greatest value itself), or one-sidedly at the end and everything beyond; the planner
prices both, and every k, by public numbers (`planning.choice_price`).

There is no interval in the column's unit: how far a rank error of some rows reaches depends on how
dense the rows lie there, which nobody may know from one choice. The plan states the rank error,
which holds for all data. Two more choices around the first would make an interval, at half of its
budget; whoever wants one asks for two more quantiles.
"""

from __future__ import annotations

from fractions import Fraction

from dprelease.aggregates.direct import cell_bounds, cells_themselves, own_name
from dprelease.aggregates.encoding import Context, Encoding
from dprelease.aggregates.ranks import allowed_values, ranks
from dprelease.query.statistic import read_probability
from dprelease.schema.domain import Domain

__all__ = ["Quantile", "aggregate", "maximum", "median", "minimum"]


class Quantile:
    """`quantile(c, p)`, or a fixed `share` under a name of its own; 0 and 1 are min and max."""

    def __init__(self, name: str, share: Fraction | None = None) -> None:
        self.name = name
        self._share = share

    def domain(self, context: Context) -> Domain:
        return allowed_values(context)

    def encodings(self, context: Context) -> tuple[Encoding, ...]:
        share = self._share
        if share is None:
            share = read_probability(context.spec.arguments[1], context.spec.origin)
        if share not in (0, 1):
            return (ranks(context, share),)
        return ranks(context, share, 1), ranks(context, share)  # which row, the planner decides

    columns = staticmethod(own_name)
    finish = staticmethod(cells_themselves)
    interval = staticmethod(cell_bounds)


aggregate = Quantile("quantile")
median = Quantile("median", Fraction(1, 2))
minimum = Quantile("min", Fraction(0))
maximum = Quantile("max", Fraction(1))
