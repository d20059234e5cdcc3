"""Intervals for covariance and correlation from noisy cells: a pivot with few nuisances.

Let a_ij >= 0 be the exact cells of a soft table or a tensor (`pairs`), a_ij + L_ij the raw ones, and
x_i, y_j the scores of s and t (0, 1 or 0, 1/2, 1), u_i those of s^2 and v_j those of t^2 (0, 0, 1; a
tensor only). The moments E[s], E[t], E[st], E[s^2], E[t^2] of the rows are exact ratios of cells,
so with the *true* means m and k, and r = sd(t) / sd(s), each of

    covariance    w_ij = (x_i - m)(y_j - k) - c
    variance      w_i  = u_i - 2 m x_i + m^2 - v
    correlation   w_ij = (x_i - m)(y_j - k) - rho/2 (r (u_i - 2 m x_i + m^2) + (v_j - 2 k y_j + k^2)/r)

has S w_ij a_ij = 0 at the true value, whatever the group's size, and S w_ij (a_ij + L_ij) = S w_ij L_ij
has a known law: P(|S w L| <= q(w)) >= level. The nuisances m, k (and r) are replaced by the worst
case over intervals that hold together up to a tenth of the permitted error (Berger and Boos 1994), the pivot
itself spends the rest. At the truth the derivative of the sum by each nuisance vanishes, so their
uncertainty enters in second order only and the interval is close to the one with known nuisances.

q rises with every |w_ij| (`pivot`), so it is taken at weights rounded up: over the nuisance box,
over the values not yet excluded (twice, each time over fewer), and to 32nds of the largest.
Every step rounds outwards: coverage is at least the stated one.

Units: cells and scale in grid steps; results in units of the code ranges. Shapes: raw
`(groups, 4)` or `(groups, 9)`; results `(groups,)`.
Sources: `docs/theory/intervals.md#covariances-and-correlations`; Fieller 1954; Berger and Boos 1994.
"""

from __future__ import annotations

import numpy as np

from dprelease.intervals.few import normal_quantiles, sum_quantile
from dprelease.intervals.quotient import ratio_interval
from dprelease.statistics.base import Floats

_NUISANCE = 0.1
"""Part of the permitted error that the nuisances' intervals share."""
_ROUNDS = 3
_DISTINCT = 1024
"""Most quantiles computed per call; beyond it weights are rounded up further."""

Span = tuple[Floats, Floats]
Rows = tuple[tuple[float, ...], ...]


def covariance_interval(
    raw: Floats, scale: float, level: float, *, own: Rows = (), gaussian: bool = False
) -> Span:
    """Return the ends of a confidence interval for cov(s, t), within [-1/4, 1/4].

    Args:
        own: B, where the cells of a soft table are B times those of `raw`: the weights of their noise are
            B' w then, linear in c and in either mean, and so largest at corners.
        gaussian: the noise is rounded normal of this scale.
    """
    miss, mix = 1 - level, np.asarray(own) if own else np.eye(raw.shape[1])
    part, drawn, raw = _NUISANCE * miss / 2, raw, raw @ mix.T
    find = normal_quantiles if gaussian else _critical_value
    side = 2 if raw.shape[1] == 4 else 3
    x = np.linspace(0.0, 1.0, side)
    if own:
        total, tops = tuple(mix.sum(axis=0)), (mix[rows].sum(axis=0) for rows in ([2, 3], [1, 3]))
        m, k = (
            ratio_interval(drawn, tuple(top), scale, 1 - part, parts=total, gaussian=gaussian)
            for top in tops
        )
    else:
        m, k = _means(raw, side, scale, part)
    corners = _corners(x, m, k)
    middle = _centred_product(raw, x, m, k)
    total = raw.sum(axis=1)
    low, high = np.full(total.shape, -0.25), np.full(total.shape, 0.25)
    for _ in range(_ROUNDS):
        weights = [np.abs((w - c[:, None]) @ mix) for w in corners for c in (low, high)]
        critical = find(np.maximum.reduce(weights), scale, 1 - (1 - _NUISANCE) * miss)
        low, high = _solve(middle, (total, total), critical, low, high)
    return low, high


def variance_interval(raw: Floats, scale: float, level: float, copies: int) -> Span:
    """Return an interval for the variance of t from raw Bernstein cells, `(groups, 3)`."""
    miss = 1 - level
    mean = ratio_interval(raw, (0.0, 0.5, 1.0), scale, 1 - _NUISANCE * miss, copies=copies)
    each = _squares(mean)
    middle = _centred_square(raw, mean)
    total = raw.sum(axis=1)
    low, high = np.zeros(total.shape), np.full(total.shape, 0.25)
    for _ in range(_ROUNDS):
        most = np.maximum(np.abs(each[0] - high[:, None]), np.abs(each[1] - low[:, None]))
        critical = _critical_value(
            np.repeat(most, copies, axis=1), scale, 1 - (1 - _NUISANCE) * miss
        )
        low, high = _solve(middle, (total, total), critical, low, high)
    return low, high


def correlation_interval(raw: Floats, scale: float, level: float) -> Span:
    """Return the ends of a confidence interval for the correlation from a raw tensor."""
    miss = 1 - level
    part = _NUISANCE * miss / 4
    x = np.linspace(0.0, 1.0, 3)
    m, k = _means(raw, 3, scale, part)
    margins = raw.reshape(-1, 3, 3).sum(axis=2), raw.reshape(-1, 3, 3).sum(axis=1)
    one, other = (variance_interval(c, scale, 1 - part, 3) for c in margins)
    known = (one[0] > 0) & (other[0] > 0)
    r = (
        np.sqrt(np.divide(other[0], one[1], out=np.ones_like(one[0]), where=known)),
        np.sqrt(np.divide(other[1], one[0], out=np.ones_like(one[0]), where=known)),
    )
    spread = _spread(_centred_square(margins[0], m), _centred_square(margins[1], k), r)
    products = _products(x, m, k)
    left = tuple(np.repeat(u, 3, axis=1) for u in _squares(m))
    right = tuple(np.tile(v, (1, 3)) for v in _squares(k))
    half = _times((left[0], left[1]), (r[0][:, None] / 2, r[1][:, None] / 2))
    rest = _times((right[0], right[1]), (1 / (2 * r[1][:, None]), 1 / (2 * r[0][:, None])))
    weight = half[0] + rest[0], half[1] + rest[1]
    middle = _centred_product(raw, x, m, k)
    low, high = -np.ones(raw.shape[0]), np.ones(raw.shape[0])
    for _ in range(_ROUNDS):
        taken = _times(weight, (low[:, None], high[:, None]))
        most = np.maximum(np.abs(products[0] - taken[1]), np.abs(products[1] - taken[0]))
        critical = _critical_value(most, scale, 1 - (1 - _NUISANCE) * miss)
        low, high = _solve(middle, spread, critical, low, high)
    return np.where(known, low, -1.0), np.where(known, high, 1.0)


def _solve(middle: Span, divisor: Span, critical: Floats, low: Floats, high: Floats) -> Span:
    """Return [low, high] without values v for which |z - v d| is above the critical value for all z, d in their spans.

    Where d may be 0 or negative nothing is excluded, nor where all would be.
    """
    positive = divisor[0] > 0
    least = np.where(positive, divisor[0], 1.0)
    most = np.where(positive, divisor[1], 1.0)
    first, last = middle[0] - critical, middle[1] + critical
    first = np.where(first < 0, first / least, first / most)
    last = np.where(last > 0, last / least, last / most)
    bottom, top = np.clip(first, low, high), np.clip(last, low, high)
    some = positive & (bottom < top)
    return np.where(some, bottom, low), np.where(some, top, high)


def _means(raw: Floats, side: int, scale: float, miss: float) -> list[Span]:
    """Return the intervals of both columns' means: their margins have one law, and are read at once."""
    table = raw.reshape(-1, side, side)
    scores = tuple(np.linspace(0.0, 1.0, side).tolist())
    margins = np.concatenate([table.sum(axis=2), table.sum(axis=1)])
    ends = ratio_interval(margins, scores, scale, 1 - miss, copies=side)
    return list(zip(*(np.split(end, 2) for end in ends), strict=True))


def _products(x: Floats, m: Span, k: Span) -> Span:
    """Return the range of (x_i - m)(x_j - k) over the box, `(groups, cells)` each."""
    ends = _corners(x, m, k)
    return np.minimum.reduce(ends), np.maximum.reduce(ends)


def _corners(x: Floats, m: Span, k: Span) -> list[Floats]:
    """Return (x_i - m)(x_j - k) at the corners of the box, `(groups, cells)` each."""
    return [
        ((x[None, :] - one[:, None])[:, :, None] * (x[None, :] - two[:, None])[:, None, :]).reshape(
            one.shape[0], -1
        )
        for one in m
        for two in k
    ]


def _centred_product(raw: Floats, x: Floats, m: Span, k: Span) -> Span:
    """Return the range over the box of S (x_i - m)(x_j - k) raw_ij: bilinear, so at corners."""
    table = raw.reshape(-1, x.size, x.size)
    total = table.sum(axis=(1, 2))
    one, two = table.sum(axis=2) @ x, table.sum(axis=1) @ x
    both = np.einsum("gij,i,j->g", table, x, x)
    ends = [both - a * two - b * one + a * b * total for a in m for b in k]
    return np.minimum.reduce(ends), np.maximum.reduce(ends)


def _squares(m: Span) -> Span:
    """Return the range of u_i - 2 m x_i + m^2, `(groups, 3)` each; convex in m, least at m = x_i."""
    x, u = np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.0, 1.0])

    def square(mean: Floats) -> Floats:
        return np.asarray(u - 2 * mean * x + mean * mean)

    ends = square(m[0][:, None]), square(m[1][:, None])
    least = square(np.clip(x[None, :], m[0][:, None], m[1][:, None]))
    return least, np.maximum(*ends)


def _centred_square(raw: Floats, m: Span) -> Span:
    """Return the range of S (u_i - 2 m x_i + m^2) raw_i over m."""
    total, one = raw.sum(axis=1), raw[:, 1] / 2 + raw[:, 2]

    def square(mean: Floats) -> Floats:
        return np.asarray(raw[:, 2] - 2 * mean * one + mean * mean * total)

    vertex = np.clip(np.divide(one, total, out=m[0].copy(), where=total > 0), *m)
    values = [square(m[0]), square(m[1]), square(vertex)]
    return np.minimum.reduce(values), np.maximum.reduce(values)


def _spread(one: Span, other: Span, r: Span) -> Span:
    """Return the range of (r A + B / r) / 2; not positive at its lower end if A or B may not be."""
    positive = (one[0] > 0) & (other[0] > 0)
    a, b = (np.where(positive, s[0], 1.0) for s in (one, other))
    best = np.clip(np.sqrt(b / a), *r)
    least = (best * a + b / best) / 2
    most = np.maximum(*((e * one[1] + other[1] / e) / 2 for e in r))
    return np.where(positive, least, -1.0), most


def _times(a: Span, b: Span) -> Span:
    ends = [one * two for one in a for two in b]
    return np.minimum.reduce(ends), np.maximum.reduce(ends)


def _critical_value(weights: Floats, scale: float, level: float) -> Floats:
    """Return q per group with P(|S w L| <= q) >= level, from |w| rounded up; `(groups,)`."""
    top = weights.max(axis=1)
    safe = np.where(top > 0, top, 1.0)
    for parts in (32, 16, 8, 4, 2, 1):
        shape = -np.sort(-np.ceil(weights / safe[:, None] * parts), axis=1) / parts
        rows = list(map(tuple, shape.tolist()))
        if len(set(rows)) <= _DISTINCT:
            break
    units = np.array([sum_quantile(row, level) for row in rows])
    steps = shape.sum(axis=1)  # noise is discrete: one step per unit of weight
    return np.asarray(top * (scale * units + steps))
