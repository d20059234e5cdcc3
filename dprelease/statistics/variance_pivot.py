"""Interval for a variance of noisy Bernstein cells by two pivots: no box, no nuisance left over.

From the exact cells a = (a0, a1, a2) of values t in [0, 1]: n = S(a_i), mean m = (a1/2 + a2) / n,
and for any c the mean of (t - c)^2 is S(s_i(c) a_i) / n with s(c) = (c^2, c^2 - c, (1 - c)^2), because
these are the Bernstein coefficients of (t - c)^2. At c = m it is the variance v. So with the *raw*
noisy cells a_i + L_i, at the true (m, v),

    Y(m)    = S((u_i - m) (a_i + L_i))      = S((u_i - m) L_i),         u = (0, 1/2, 1)
    Z(m, v) = S((s_i(m) - v) (a_i + L_i))   = S((s_i(m) - v) L_i):

the exact parts cancel, whatever the group's size. The set of all (m, v) with |Y(m)| <= q_Y(m) at
level 1 - d and |Z(m, v)| <= q_Z(m, v) at level 1 - alpha + d holds the truth with chance 1 - alpha
(union bound), and so does its shadow on v. Since

    S(s_i(m) raw_i) = total (m - m0)^2 + const,   m0 the noisy mean,

an error in m enters squared: d is small (a tenth of alpha) and hardly widens Z's part.

Both m and v run over cells of a public grid. In a cell |s_i(m) - v| is bounded by its largest value
(s_i is monotone between the cell's ends but for s_1, whose least value is at m = 1/2, an end of two
cells), and the quantile rises with every weight (`pivot`). Every step rounds outwards: coverage is
at least the stated one. An empty group has no variance, and any v is its own.

Cells c with a = B c (`MIXED`), or a = B c + n d with a public number of rows n (`PUBLIC`), have the same pivots:
the weights of their own noise are B' (s(m) - v). Of both every weight is a function of m plus one of v, each
monotone between the ends of a cell, as the s_i themselves are.

Units: cells and scale in grid steps; v in [0, 1/4]. Shapes: raw `(groups, 3)`, ends `(groups,)`.
Sources: `docs/theory/intervals.md#variances`; Fieller 1954 for the pivot of a ratio.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dprelease.intervals.few import normal_quantiles, quantiles
from dprelease.intervals.quotient import ratio_interval
from dprelease.statistics.base import Floats

_MEANS = 128
_VARIANCES = 64
_SHARE = 0.1
_CHUNK = 20_000

Integers = npt.NDArray[np.int64]
Rows = tuple[tuple[float, ...], ...]

_SELF: Rows = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
MIXED: Rows = ((1 / 8, -1 / 8, 1 / 16), (1 / 12, 0.0, -1 / 8), (1 / 8, 1 / 8, 1 / 16))
"""Bernstein cells of (3 S(1), 4 S(s), 2 S(2 s^2 - 1)), s = 2 t - 1."""
PUBLIC: Rows = ((-1 / 2, 1 / 4), (0.0, -1 / 2), (1 / 2, 1 / 4))
"""The same of (S(s), S(s^2)), beside a quarter, a half and a quarter of the public number of rows."""


def variance_interval(
    raw: Floats, scale: float, level: float, *, gaussian: bool = False, own: Rows = ()
) -> tuple[Floats, Floats]:
    """Return the ends of the confidence interval for v, shape `(groups,)` each.

    Args:
        raw: noisy Bernstein cells as drawn, not raised to 0.
        scale: the noise's scale, in steps.
        level: 0.95.
        gaussian: the noise is rounded normal of this standard deviation.
        own: B, where Bernstein cells are B times the drawn ones.
    """
    spare, mix = _SHARE * (1 - level), np.asarray(own or _SELF)
    ends = (tuple((np.array(w) @ mix).tolist()) for w in ((0.0, 0.5, 1.0), (1.0, 1.0, 1.0)))
    scores, parts = ends
    mean = ratio_interval(raw, scores, scale, 1 - spare, parts=parts, gaussian=gaussian)
    critical = _critical_values(own or _SELF, scale, level + spare, gaussian=gaussian)
    return _shadows(raw @ mix.T, mean, critical)


def mixed_interval(
    raw: Floats, scale: float, level: float, rows: float | None = None
) -> tuple[Floats, Floats]:
    """Return the same from cells (3 S(1), 4 S(s), 2 S(2 s^2 - 1)), or (S(s), S(s^2)) with `rows`.

    Args:
        rows: the public number of rows, in the cells' steps.
    """
    spare = _SHARE * (1 - level)
    own = MIXED if rows is None else PUBLIC
    cells = raw @ np.array(own).T
    if rows is None:
        mean = ratio_interval(raw[:, :2], (0.5, 0.375), scale, 1 - spare, parts=(1.0, 0.0))
    else:
        cells = cells + rows * np.array([0.25, 0.5, 0.25])
        # the law of one cell: P(|L| > z + 1) <= exp(-z / scale)
        critical = (-scale * np.log(spare) + 1) * (1 + 1e-9)
        ends = ((1 + (raw[:, 0] + s * critical) / rows) / 2 for s in (-1.0, 1.0))
        low, high = (np.clip(e, 0.0, 1.0) for e in ends)
        mean = low, high
    return _shadows(cells, mean, _critical_values(own, scale, level + spare, gaussian=False))


def _shadows(raw: Floats, mean: tuple[Floats, Floats], critical: Floats) -> tuple[Floats, Floats]:
    cuts = range(_CHUNK, raw.shape[0], _CHUNK)
    parts = zip(*(np.split(array, cuts) for array in (raw, *mean)), strict=True)
    low, high = zip(*(_shadow(a, b, c, critical) for a, b, c in parts), strict=True)
    return np.concatenate(low), np.concatenate(high)


def _shadow(raw: Floats, left: Floats, right: Floats, critical: Floats) -> tuple[Floats, Floats]:
    """Return the least and the largest v of the set, per group.

    Only cells that can widen what a group has so far are looked at; the others cannot change a
    minimum or a maximum.
    """
    total, top = raw.sum(axis=1), raw[:, 1] / 2 + raw[:, 2]
    low, high = np.full(raw.shape[0], np.inf), np.full(raw.shape[0], -np.inf)
    means = np.linspace(0.0, 1.0, _MEANS + 1)
    peaks = np.maximum(
        *(m * (1 - m) for m in (means[:-1], means[1:]))
    )  # 1/2 is an end of two cells
    # From the middle, where v may be largest: a group without signal is finished there.
    order = np.argsort(np.abs(2 * np.arange(_MEANS) + 1 - _MEANS), kind="stable")
    for part in np.array_split(order, -(-_MEANS * max(1, raw.shape[0]) // _CHUNK)):
        i = part[:, None]
        open_ = (left <= means[i + 1]) & (right >= means[i]) & ((low > 0) | (high < peaks[i]))
        places, rows = np.nonzero(open_)
        if not rows.size:
            continue
        own = part[places]
        a, b = np.maximum(left[rows], means[own]), np.minimum(right[rows], means[own + 1])
        n, t = total[rows], top[rows]
        vertex = np.clip(np.divide(t, n, out=a.copy(), where=n != 0), a, b)
        # A parabola in m: its extremes are at the ends and at the vertex.
        sums = np.stack([n * m * m - 2 * m * t + raw[rows, 2] for m in (a, vertex, b)])
        roof = np.max(
            [a * (1 - a), b * (1 - b), np.where((a <= 0.5) & (b >= 0.5), 0.25, 0.0)], axis=0
        )
        _widen(rows, own, n, sums.min(axis=0), sums.max(axis=0), roof, critical, low, high)
    nothing = low > high  # left: then every variance is possible
    return np.where(nothing, 0.0, low), np.where(nothing, 0.25, high)


def _widen(
    rows: Integers,
    own: Integers,
    n: Floats,
    least: Floats,
    most: Floats,
    roof: Floats,
    critical: Floats,
    low: Floats,
    high: Floats,
) -> None:
    """Widen [low, high] in place, for `rows`, by the v of one cell of m each, `own`.

    Args:
        n, least, most, roof: shape `(rows,)`: noisy size, ends of S(s_i(m) raw_i), largest v.
        critical: q_Z, shape `(means, variances)`.
    """
    edges = np.linspace(0.0, 0.25, _VARIANCES + 1)
    per_unit = 4.0 * _VARIANCES
    first, last = _possible(n, least, most, roof, critical.max(axis=1)[own])
    # Of these, the cells below `low` and those above `high`.
    below = np.minimum(last, np.ceil(np.minimum(low[rows], 1.0) * per_unit) + 1)
    above = np.maximum(
        np.maximum(first, below), np.floor(np.maximum(high[rows], 0.0) * per_unit) - 1
    )
    for start, stop in ((first, below), (above, last)):
        count = np.maximum(stop - start, 0).astype(np.int64)
        here = np.flatnonzero(count)
        if not here.size:
            continue
        count = count[here]
        begin = np.cumsum(count) - count
        at = np.repeat(here, count)
        j = (
            np.arange(at.size)
            - np.repeat(begin, count)
            + np.repeat(start[here].astype(np.int64), count)
        )
        wide = critical[own[at], j]
        size, floor, ceiling = n[at], least[at] - wide, most[at] + wide
        with np.errstate(divide="ignore", invalid="ignore"):
            one, other = floor / size, ceiling / size
        lower = np.where(size == 0, np.where(floor <= 0, -np.inf, np.inf), np.minimum(one, other))
        upper = np.where(size == 0, np.where(ceiling >= 0, np.inf, -np.inf), np.maximum(one, other))
        lower = np.maximum(lower, edges[j])
        upper = np.minimum(np.minimum(upper, edges[j + 1]), roof[at])
        possible = lower <= upper
        into = rows[here]
        lows = np.minimum.reduceat(np.where(possible, lower, np.inf), begin)
        highs = np.maximum.reduceat(np.where(possible, upper, -np.inf), begin)
        np.minimum.at(low, into, lows)
        np.maximum.at(high, into, highs)


def _possible(
    n: Floats, least: Floats, most: Floats, roof: Floats, widest: Floats
) -> tuple[Floats, Floats]:
    """Return a superset of the cells of v that are not empty, from the widest quantile, first and last.

    A cell more on either side outweighs rounding.
    """
    first, last = np.zeros(n.shape), np.full(n.shape, float(_VARIANCES))
    some, per_unit = n > 0, 4.0 * _VARIANCES
    with np.errstate(over="ignore"):
        down, up = (
            (e[some] + s * widest[some]) / n[some] * per_unit
            for e, s in ((least, -1.0), (most, 1.0))
        )
    first[some] = np.clip(np.floor(down) - 1, 0, _VARIANCES)
    last[some] = np.clip(np.ceil(up) + 1, 0, _VARIANCES)
    return first, np.minimum(last, np.ceil(roof * per_unit) + 1).clip(max=_VARIANCES)


@lru_cache(maxsize=64)
def _critical_values(own: Rows, scale: float, level: float, *, gaussian: bool) -> Floats:
    """Return q_Z for every (cell of m, cell of v), shape `(means, variances)`, in steps.

    Args:
        own: B, a row per Bernstein cell (module docstring).
    """
    m, v = np.linspace(0.0, 1.0, _MEANS + 1), np.linspace(0.0, 0.25, _VARIANCES + 1)
    scores = np.stack([m * m, m * m - m, (1 - m) ** 2], axis=-1)
    corners = [
        np.abs((scores[i : i + _MEANS, None] - v[j : j + _VARIANCES, None]) @ np.array(own))
        for i in (0, 1)
        for j in (0, 1)
    ]
    w = np.maximum.reduce(corners)
    flat = w.reshape(-1, w.shape[-1])
    if gaussian:
        critical = normal_quantiles(flat, scale, level)
    else:
        critical = scale * quantiles(flat, level) + flat.sum(axis=1)
    out: Floats = critical.reshape(w.shape[:2])
    out.setflags(write=False)
    return out
