"""Quantiles of a clamped column: the median, any share p, the least and the greatest value.

Domain: the column's own allowed values, so a forbidden interval of the column is one of its
quantiles too (`docs/theory/domains-and-grids.md#induced-domains`). A value is chosen among
candidates by its rank (`ranks`), because a
quantile itself can move across the whole domain when one row changes. Definition: inverse
distribution function; where two neighbouring rows are equally good (the two middle ones), so is
every allowed value between them.

`min` and `max` aim at the k-th row from the end, so that its value alone is the best candidate (at
k = 1, the least or greatest value itself), or one-sidedly at the end and everything beyond; the planner
prices both, and every k, by public numbers (`measurements.ranks_price`).

One value is drawn by permute-and-flip, which errs less at the same epsilon, or by the exponential mechanism, which
costs less under zCDP (`measurements.ranks`).

Several quantiles of one column are chosen together, in order, where that is better and not too much work
(`statistics.joint_ranks`, `measurements.joint_ranks`).

One choice has no interval in the column's unit: how far a rank error of some rows reaches depends on how
dense the rows lie there, which nobody may know from it. The plan states the rank error, which holds for
all data, of several values together for data without many equal rows. With `interval: true` two more choices beside the value make an interval that holds the quantile
of all data with 95 %, for two thirds of its budget (`statistics.rank_interval`).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dprelease.core.errors import ArgumentError, ConfigError
from dprelease.core.numeric import exact
from dprelease.query.arguments import NumberColumn, Syntax, Written, unquoted
from dprelease.schema.domain import Domain
from dprelease.statistics.base import Floats, StatisticKind, kind_named
from dprelease.statistics.measurement import Context, Measurement
from dprelease.statistics.rank_interval import with_interval
from dprelease.statistics.ranks import allowed_values, ranks

if TYPE_CHECKING:
    from dprelease.results.consistency import StatisticValues


def read_probability(text: str, origin: str) -> Fraction:
    """Return a quantile's p, strictly between 0 and 1; else ConfigError DPR133."""
    try:
        p = exact(text, "p")
    except ArgumentError:
        p = Fraction(-1)
    if not isinstance(p, Fraction) or not 0 < p < 1:
        raise ConfigError(
            "a quantile's p lies strictly between 0 and 1",
            where=origin,
            why="for 0 and 1 there are min and max, and each p is a statistic of its own",
            code="DPR133",
        )
    return p


def rising(released: Sequence[StatisticValues]) -> dict[str, Floats]:
    """Make quantiles of one column rise with p."""
    groups: dict[object, list[tuple[Fraction, StatisticValues]]] = {}
    for one in released:
        kind = kind_named(one.function)
        share = kind.share(one.arguments) if isinstance(kind, Quantile) else None
        if share is not None:
            key = (
                one.arguments[0],
                one.rows,
                one.statistic.domain.exact_pieces,
                one.statistic.step,
            )
            groups.setdefault(key, []).append((share, one))
    out: dict[str, Floats] = {}
    for found in groups.values():
        shares = sorted({share for share, _ in found})
        at = [shares.index(share) for share, _ in found]
        weights = np.bincount(at).astype(np.float64)
        table = np.zeros((found[0][1].values.shape[0], len(shares)))
        for place, (_, one) in zip(at, found, strict=True):
            table[:, place] += one.values[:, 0] / weights[place]
        falling = np.flatnonzero((np.diff(table, axis=1) < 0).any(axis=1))
        if falling.size:
            from scipy.optimize import isotonic_regression  # half a second and 34 MB

            for row in falling:
                table[row] = isotonic_regression(table[row], weights=weights).x
        for place, (_, one) in zip(at, found, strict=True):
            out[one.statistic.name] = table[:, place : place + 1]
    return out


class ColumnAndShare(NumberColumn):
    """One column of numbers and a share p."""

    sql: Written = "number"

    def read(self, texts: tuple[str, ...], origin: str) -> tuple[str, ...]:
        read_probability(texts[1], origin)
        return tuple(map(unquoted, texts))


class Quantile(StatisticKind):
    """`quantile(c, p)`, or a fixed `share` under a name of its own; 0 and 1 are min and max."""

    rules = (rising,)

    def __init__(
        self, name: str, syntax: Syntax, heading: str, share: Fraction | None = None
    ) -> None:
        self.name = name
        self.syntax = syntax
        self.heading = heading
        self._share = share

    def share(self, arguments: tuple[str, ...]) -> Fraction:
        """Return p, the share of the rows at or below the value."""
        if self._share is not None:
            return self._share
        return read_probability(arguments[1], "the statistic")

    def domain(self, context: Context) -> Domain:
        return allowed_values(context)

    def measurements(self, context: Context) -> tuple[Measurement, ...]:
        share = self._share
        if share is None:
            share = read_probability(context.spec.arguments[1], context.spec.origin)
        if share not in (0, 1):
            alone = ranks(context, share)
            return (with_interval(alone) if context.spec.interval else alone,)
        return ranks(context, share, 1), ranks(context, share)  # which row, the planner decides


def _fixed(name: str, heading: str, share: Fraction) -> Quantile:
    inside = share not in (0, 1)
    syntax = Syntax(1, 1, f"{name}(age)", sql=(name.upper(),), interval=inside)
    return Quantile(name, syntax, heading, share)


statistic = Quantile(
    "quantile",
    Syntax(
        2, 2, "quantile(age, 0.9)", ColumnAndShare(), ("QUANTILE", "QUANTILE_DISC"), interval=True
    ),
    "Quantile {1} of {0}",
)
median = _fixed("median", "Median of {}", Fraction(1, 2))
minimum = _fixed("min", "Smallest {}", Fraction(0))
maximum = _fixed("max", "Largest {}", Fraction(1))
