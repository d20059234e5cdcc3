"""Released values made to fit each other: post-processing, which costs no privacy.

Every rule is a function of the published values of one group (and of public plan facts), so it
costs nothing
(`docs/theory/composition.md#post-processing`). The raw values stay in `value`; what fits is in
`consistent`, equal to `value` where no rule applies or nothing has to move.

    counts       integers inside their domain: they are released so
    quantiles    of one column and one domain: weighted isotonic regression over p (pool adjacent
                 violators), then the nearest allowed value, a monotone map
    histogram    bins that every row falls into, and one count of the same rows: the non-negative
                 least-squares fit, weights from the noise, rounded by largest remainder so that
                 the bins add up to the count exactly
    moments      mean m and variance v of one column with hull [l, u] and gaps (p, q):
                 max(0, (m - p)(q - m)) <= v <= (u - m)(m - l); standard deviations likewise
    covariance   |cov| <= the root of the product of the two released variances
    spectrum     eigenvalues in their order, largest first; of a Laplacian, smallest first
    lambda_2     at most the least released degree, unless the graph is complete (lambda_2 = n)

Why a mean stays and the variance moves: as a share of its range the mean is the better known of
the two, and the variance's bounds are exact functions of it. Every rule needs whole domains: where a
declared domain cuts or has gaps the released values are of clamped statistics, for which
the theorem is not one.

A rule maps the group's released values to new ones for the statistics it touches. It stands in the
file of the statistic that it moves, which names it in `rules`, after those it builds on.

Units: each statistic's own. Shapes: values `(groups, columns)`.
Sources: `docs/theory/domains-and-grids.md#joint-constraints` (Bhatia-Davis; the bound of a gap),
`docs/theory/intervals.md#consistent-values`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.measurements.base import family_of
from dprelease.measurements.law import placed
from dprelease.query.statistic import parse_statistic
from dprelease.release_plan.block import Block
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.schema.domain import Domain
from dprelease.statistics.base import Floats, Rule, kind_named
from dprelease.statistics.measurement import Measurement


@dataclass(frozen=True, slots=True)
class StatisticValues:
    """One statistic with its values after the rules that ran so far, `(groups, columns)`."""

    statistic: PlannedStatistic
    block: Block
    values: Floats

    @property
    def function(self) -> str:
        return self.statistic.function

    @property
    def arguments(self) -> tuple[str, ...]:
        return _arguments_of(self.statistic.text)

    @property
    def rows(self) -> object:
        """The cap of rows per unit: statistics of one column with equal caps see the same rows."""
        return self.block.measurement.max_rows

    @property
    def data(self) -> Mapping[str, Any]:
        """Public facts about the column: `complete` (no row left out), `forbidden` gaps."""
        return self.block.measurement.data

    @property
    def measurement(self) -> Measurement:
        return self.block.measurement

    @property
    def noise(self) -> float | None:
        """The variance of the noise on one cell, not a draw of it; near enough for a weight, None if unknown."""
        variance, of = self.block.law.variance, self.measurement
        part = family_of(of).part(of, self.statistic.view)
        square = 1 if part is None else sum(w * w for w in part.mix[0])
        return None if variance is None else variance * float(square)

    @property
    def plain(self) -> bool:
        """Whether the domain starts at 0 and has no gap: nothing but noise was clamped there."""
        domain = self.statistic.domain
        return domain.lower == 0 and not domain.forbidden


@lru_cache(maxsize=4096)
def _arguments_of(text: str) -> tuple[str, ...]:
    """Rules compare statistics with each other: the text of each is parsed once."""
    found = parse_statistic(text, origin="the plan")
    return found.identity if found.where else found.arguments


def to_domain(values: Floats, domain: Domain, step: Fraction) -> Floats:
    """Round to `step`, then map to the nearest allowed multiple of it: always in the domain.

    Only noised values come here; an exact statistic is never snapped
    (`docs/theory/domains-and-grids.md#never-into-a-gap`).
    """
    allowed = domain.on_grid(step)
    num, den = step.as_integer_ratio()
    clipped = np.clip(values, *domain.hull)
    k = allowed.nearest(np.floor(clipped * den / num + 0.5).astype(np.int64))
    return placed(k.astype(np.float64), step, Fraction(0))


def consistent(
    statistics: Sequence[PlannedStatistic],
    blocks: Sequence[Block],
    values: Sequence[Floats],
) -> list[Floats]:
    """Return the consistent values, one array per statistic, each inside its domain."""
    by_name = {b.name: b for b in blocks}
    now = {s.name: v for s, v in zip(statistics, values, strict=True)}
    for rule in rules_of(statistics):
        released = [StatisticValues(s, by_name[s.block], now[s.name]) for s in statistics]
        for name, fitted in rule(released).items():
            statistic = next(s for s in statistics if s.name == name)
            changed = fitted != now[name]
            # Untouched values keep their bytes.
            mapped = to_domain(fitted, statistic.domain, statistic.step)
            now[name] = np.where(changed, mapped, now[name])
    return [now[s.name] for s in statistics]


def rules_of(statistics: Sequence[PlannedStatistic]) -> tuple[Rule, ...]:
    """Return the rules of the statistics, each once, in the order in which they run."""
    found = (rule for s in statistics for rule in kind_named(s.function).rules)
    return tuple(dict.fromkeys(found))


def outward(ends: Floats, step: Fraction, rounded: np.ufunc) -> Floats:
    """Return multiples of `step`, each the double nearest to it: `ends` moved by `rounded`.

    Args:
        rounded: `np.floor` for lower ends, `np.ceil` for upper ones; an end that is the double
            nearest to a multiple stays there, and NaN stays NaN.
    """
    p, q = step.numerator, step.denominator
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.rint(ends * (q / p))
        k = np.where(near * p / q == ends, near, rounded(ends * (q / p)))
        out: Floats = np.asarray(k * p / q) + 0.0  # no -0.0
    # One correctly rounded division while k * p and q are below 2**53; the others one by one.
    for at in zip(
        *np.nonzero((np.abs(k) * p >= 2**53) | (np.isfinite(ends) & (q >= 2**53))), strict=True
    ):
        out[at] = float(int(k[at]) * step)
    return out


def published_interval(
    statistic: PlannedStatistic,
    value: Floats,
    ends: tuple[Floats, Floats],
    empty: npt.NDArray[np.bool_],
) -> tuple[Floats, Floats, npt.NDArray[np.object_]]:
    """Return (lower, upper, status) of values, `(groups, …)`; `empty`: groups in which no signal is left."""
    low_end, high_end = statistic.domain.hull
    # Outward to the published step, so that rounding never makes an interval too short.
    lower = outward(np.clip(ends[0], low_end, high_end), statistic.step, np.floor)
    upper = outward(np.clip(ends[1], low_end, high_end), statistic.step, np.ceil)
    lower, upper = np.minimum(lower, value), np.maximum(upper, value)
    status = np.full(value.shape, "ok", dtype=object)
    status[(value <= low_end) | (value >= high_end)] = "at_bound"
    whole = (lower <= low_end) & (upper >= high_end) & (low_end < high_end)
    status[whole] = "uninformative"
    status[empty] = "empty_signal"
    return lower, upper, status
