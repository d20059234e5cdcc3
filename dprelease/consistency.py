"""Free consistency: released values made to fit each other, without looking at the data again.

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

A rule maps the group's released values to new ones for the statistics it touches. To add one, add
it to `RULES`; order matters only where rules share a statistic.

Units: each statistic's own. Shapes: values `(groups, columns)`.
Sources: `docs/theory/domains-and-grids.md#joint-constraints` (Bhatia-Davis; the bound of a gap),
`docs/theory/intervals.md#consistent-values`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dprelease.aggregates.base import Floats
from dprelease.aggregates.encoding import Encoding
from dprelease.planning.draws import (
    CellDraw,
    ConstantDraw,
    GaussianDraw,
    ScalarDraw,
    draw_from_json,
)
from dprelease.planning.model import PlannedBlock, PlannedStatistic
from dprelease.query.statistic import parse_statistic, read_probability
from dprelease.schema.domain import Domain

__all__ = ["RULES", "Released", "Rule", "consistent", "fit_parts", "to_domain"]


@dataclass(frozen=True, slots=True)
class Released:
    """One statistic with its values so far, `(groups, columns)`."""

    statistic: PlannedStatistic
    block: PlannedBlock
    values: Floats

    @property
    def function(self) -> str:
        return self.statistic.function

    @property
    def arguments(self) -> tuple[str, ...]:
        return _arguments_of(self.statistic.text)

    @property
    def rows(self) -> object:
        """Which rows enter: statistics of one column with equal `rows` see the same ones."""
        return self.block.encoding["max_rows"]

    @property
    def data(self) -> Mapping[str, Any]:
        """Public facts about the column: `complete` (no row left out), `forbidden` gaps."""
        found: Mapping[str, Any] = self.block.encoding.get("data", {})
        return found

    @property
    def plain(self) -> bool:
        """Whether the domain starts at 0 and has no gap: nothing but noise was clamped there."""
        domain = self.statistic.domain
        return domain.lower == 0 and not domain.forbidden


@lru_cache(maxsize=4096)
def _arguments_of(text: str) -> tuple[str, ...]:
    """Rules compare statistics with each other: the text of each is parsed once."""
    return parse_statistic(text, origin="the plan").arguments


Rule = Callable[[Sequence[Released]], Mapping[str, Floats]]
"""Released statistics -> new values by statistic name; a fixed function of released values."""


def to_domain(values: Floats, domain: Domain, step: Fraction) -> Floats:
    """Round to `step`, then map to the nearest allowed multiple of it: always in the domain.

    Only noised values come here; an exact statistic is never snapped
    (`docs/theory/domains-and-grids.md#never-into-a-gap`).
    """
    allowed = domain.on_grid(step)
    num, den = step.as_integer_ratio()
    clipped = np.clip(values, *domain.hull)
    k = allowed.nearest(np.floor(clipped * den / num + 0.5).astype(np.int64))
    return np.asarray(k.astype(np.float64) * num / den)


def consistent(
    statistics: Sequence[PlannedStatistic],
    blocks: Sequence[PlannedBlock],
    values: Sequence[Floats],
) -> list[Floats]:
    """Return the consistent values, one array per statistic, each inside its domain."""
    by_name = {b.name: b for b in blocks}
    now = {s.name: v for s, v in zip(statistics, values, strict=True)}
    for rule in RULES:
        released = [Released(s, by_name[s.block], now[s.name]) for s in statistics]
        for name, fitted in rule(released).items():
            statistic = next(s for s in statistics if s.name == name)
            moved = fitted != now[name]
            # Untouched values keep their bytes.
            mapped = to_domain(fitted, statistic.domain, statistic.step)
            now[name] = np.where(moved, mapped, now[name])
    return [now[s.name] for s in statistics]


def quantiles(released: Sequence[Released]) -> dict[str, Floats]:
    """Make quantiles of one column rise with p."""
    groups: dict[object, list[tuple[Fraction, Released]]] = {}
    for one in released:
        share = _share(one)
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


def _share(one: Released) -> Fraction | None:
    fixed = {"min": Fraction(0), "median": Fraction(1, 2), "max": Fraction(1)}
    if one.function == "quantile":
        return read_probability(one.arguments[1], "the plan")
    return fixed.get(one.function)


def histograms(released: Sequence[Released]) -> dict[str, Floats]:
    """Make bins that hold every row add up to the count of the same rows."""
    out: dict[str, Floats] = {}
    for total in (r for r in released if r.function == "count" and _counts(r)):
        same = [r for r in released if r.rows == total.rows and _counts(r)]
        parts = [r for r in same if r.function == "histogram" and r.data.get("partition")]
        if not parts or sum(r.function == "count" for r in same) > 1:
            continue
        counted, spread = total.values[:, 0], _variance(total)
        for part in parts:
            noise = _variance(part)
            if noise is None or spread is None:
                continue
            ratio = spread / noise if noise > 0 else math.inf
            top = int(min(total.statistic.domain.upper, part.statistic.domain.upper))
            fitted = fit_parts(part.values, counted, ratio, top)
            out[part.statistic.name] = fitted
            counted, spread = fitted.sum(axis=1), 0.0  # further histograms fit the same total
            out[total.statistic.name] = counted[:, None]
    return out


def _counts(one: Released) -> bool:
    return one.plain and one.statistic.step == 1 and math.isfinite(one.statistic.domain.hull[1])


def _variance(one: Released) -> float | None:
    """Return the variance of the noise on one cell, near enough for a weight; None if unknown."""
    draw = draw_from_json(one.block.law)
    match draw:
        case ConstantDraw():
            return 0.0
        case CellDraw() | GaussianDraw():
            return float(draw.noise.variance())
        case ScalarDraw():
            error = draw.law.expected_error().average
            absolute = getattr(draw.law, "loss", "absolute") == "absolute"
            return 2 * error**2 if absolute else error  # exact for a Laplace law
        case _:
            return None


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


def moments(released: Sequence[Released]) -> dict[str, Floats]:
    """Move variances and standard deviations to what the released mean allows."""
    out: dict[str, Floats] = {}
    spreads: dict[tuple[str, ...], list[Released]] = {}
    for one in released:
        if one.function in ("variance", "std") and one.plain:
            spreads.setdefault(one.arguments[:1], []).append(one)
    for mean in (r for r in released if r.function == "mean" and r.arguments in spreads):
        hull = _hull(mean)
        if hull is None or mean.statistic.domain != Domain(*hull):
            continue
        low, high = map(float, hull)
        m = mean.values[:, 0]
        ceiling, floor = (high - m) * (m - low), np.zeros_like(m)
        for a, b in mean.data.get("forbidden", ()):
            floor = np.maximum(floor, (m - float(Fraction(a))) * (float(Fraction(b)) - m))
        floor = np.minimum(floor, ceiling)
        for one in spreads[mean.arguments]:
            if one.rows != mean.rows:
                continue
            ends = (floor, ceiling)
            if one.function == "std":
                ends = np.sqrt(floor), np.sqrt(ceiling)
            out[one.statistic.name] = _inside(one, *ends)
    return out


def _inside(one: Released, low: Floats, high: Floats) -> Floats:
    """Return the values moved into [low, high], rounded to the step towards the inside."""
    values, step = one.values[:, 0], float(one.statistic.step)
    down = np.floor(high / step) * step
    up = np.minimum(np.ceil(low / step) * step, np.maximum(down, 0.0))
    moved = np.where(values > high, down, np.where(values < low, up, values))
    return moved[:, None]


def _hull(mean: Released) -> tuple[Fraction, Fraction] | None:
    """Return the column's hull [l, u], as the mean's encoding knows it."""
    encoding = Encoding.from_json(dict(mean.block.encoding))
    if mean.statistic.view is not None:
        axis = encoding.axes[mean.statistic.view]
        return axis.offset, axis.offset + axis.width
    if encoding.axes or encoding.family not in (
        "two_sums",
        "bernstein2",
        "truncated_mean",
        "scalar",
    ):
        return None
    rows = encoding.public_rows if encoding.family == "scalar" else 1
    return encoding.offset, encoding.offset + encoding.scale * encoding.pitch * (rows or 1)


def covariances(released: Sequence[Released]) -> dict[str, Floats]:
    """Move covariances to what two released variances of the same rows allow."""
    out: dict[str, Floats] = {}
    spreads = {
        (r.arguments[0], r.rows): r
        for r in released
        if r.function == "variance" and r.plain and r.data.get("complete")
    }
    for one in (r for r in released if r.function == "covariance" and r.data.get("complete")):
        a, b = (spreads.get((name, one.rows)) for name in one.arguments)
        if a is None or b is None or one.statistic.domain.forbidden:
            continue
        reach = np.sqrt(a.values * b.values)
        step = float(one.statistic.step)
        reach = np.floor(reach / step) * step
        out[one.statistic.name] = np.clip(one.values, -reach, reach)
    return out


def spectra(released: Sequence[Released]) -> dict[str, Floats]:
    """Put eigenvalues in their order; a set of values is as well known sorted as unsorted."""
    out: dict[str, Floats] = {}
    for one in released:
        if one.function == "eigenvalues":
            out[one.statistic.name] = -np.sort(-one.values, axis=1)
        elif one.function == "laplacian_eigenvalues":
            out[one.statistic.name] = np.sort(one.values, axis=1)
    return out


def connectivity(released: Sequence[Released]) -> dict[str, Floats]:
    """Move lambda_2 to at most the least released degree, unless it says the graph is complete.

    lambda_2 <= min degree for every graph but the complete one, where lambda_2 = n
    (`docs/theory/domains-and-grids.md#joint-constraints`).
    A released n is left alone: no released degree contradicts it for certain.
    """
    out: dict[str, Floats] = {}
    degrees = [r.values[:, :1] for r in released if r.function == "degree"]
    for one in (r for r in released if r.function == "algebraic_connectivity" and degrees):
        top = one.statistic.domain.hull[1]
        step = float(one.statistic.step)
        least = np.floor(np.minimum.reduce(degrees) / step) * step
        # Where the top of the domain is no gap's far end it says nothing about completeness.
        complete = (one.values >= top) & bool(one.statistic.domain.forbidden)
        out[one.statistic.name] = np.where(complete, one.values, np.minimum(one.values, least))
    return out


RULES: tuple[Rule, ...] = (quantiles, histograms, moments, covariances, spectra, connectivity)
"""All rules, in the order in which they run."""
