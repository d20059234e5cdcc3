"""Intervals for a ratio of noisy cells by a pivot: as short as the noise allows, no nuisance.

A mean is theta = S(u_i a_i) / S(v_i a_i) over exact cells with public scores u_i and parts v_i, by
default v_i = 1 and u_i in [0, 1] of cells a_i >= 0. From the *raw* noisy cells a_i + L_i (not yet raised to 0),

    Z(theta) = S((u_i - theta v_i)(a_i + L_i)) = S((u_i - theta v_i) L_i),

because the exact part cancels at the true theta, whatever the group's size. So its law is known
and {theta : |Z(theta)| <= q(theta)} covers the true theta with the stated probability exactly
(Fieller's argument; an empty group has no mean, and any theta is its own).

The quantile q rises with every |w_i| (`intervals.few`), so over a cell of theta values it is bounded by its value at
the largest |w_i| in that cell. Every step rounds outwards: coverage is at least the stated one.

Units: cells and scale in grid steps; theta in [0, 1], or where a ratio's domain lies on that scale. Shapes: raw `(groups, cells)`.
Sources: `docs/theory/intervals.md#ratios`; Fieller 1954 for the pivot of a ratio.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dprelease.aggregates.base import Floats
from dprelease.intervals.few import normal_quantiles, quantiles_apart, sum_quantile

Span = tuple[float, float]

_CELLS = 256
_ROOM = 1 + 1e-9
"""For the rounding of a quantile's sums."""


def ratio_interval(
    raw: Floats,
    scores: tuple[float, ...],
    scale: float,
    level: float,
    *,
    parts: tuple[float, ...] = (),
    copies: int = 1,
    gaussian: bool = False,
    span: Span = (0.0, 1.0),
) -> tuple[Floats, Floats]:
    """Return the ends of the confidence interval for theta, shape `(groups,)` each.

    Args:
        raw: noisy cells as drawn, not raised to 0.
        scores: u_i; parts: v_i, by default 1 each.
        scale: the noise's scale b, in steps.
        level: 0.95.
        copies: independent noises in every cell.
        gaussian: the noise is a discrete Gaussian of this scale.
        span: where theta lies.

    Where the noise leaves no theta in the span, the end nearest to the point estimate is returned.
    """
    edges = _edges(span)
    parts = parts or (1.0,) * len(scores)
    find = _normal_critical_values if gaussian else _critical_values
    critical = np.array(find(scores, parts, scale, level, copies, span))
    top, total = raw @ np.asarray(scores), raw @ np.asarray(parts)
    low = _scan(top, total, critical, edges, upwards=True)
    high = _scan(top, total, critical, edges, upwards=False)
    nothing = low > high
    nearest = np.where(2 * top >= (span[0] + span[1]) * total, span[1], span[0])
    return np.where(nothing, nearest, low), np.where(nothing, nearest, high)


def _scan(top: Floats, total: Floats, critical: Floats, edges: Floats, *, upwards: bool) -> Floats:
    """Return the least (or, downwards, the largest) theta with theta total in [top - q, top + q].

    Every group walks over the cells in order and stops at the first that is not empty: later ones
    hold no smaller (larger) theta. It starts beside its point estimate, as far away as the widest
    quantile reaches and a cell more. Infinite where all are empty.
    """
    sign = -1.0 if upwards else 1.0
    found = np.full(top.shape, -sign * np.inf)
    cell = np.full(top.shape, 0 if upwards else _CELLS - 1, dtype=np.int64)
    some = total > 0
    with np.errstate(over="ignore"):
        wanted = (top[some] + sign * critical.max()) / total[some]
    near = np.searchsorted(edges, wanted, side="right") - 1 + sign
    cell[some] = np.clip(near, 0, _CELLS - 1).astype(np.int64)
    rows = np.arange(top.size)
    while rows.size:
        j = cell[rows]
        t, n, a, b = top[rows], total[rows], edges[j], edges[j + 1]
        left, right = t - critical[j], t + critical[j]
        with np.errstate(divide="ignore", invalid="ignore"):
            one, other = left / n, right / n
        first = np.where(n == 0, np.where(left <= 0, -np.inf, np.inf), np.minimum(one, other))
        last = np.where(n == 0, np.where(right >= 0, np.inf, -np.inf), np.maximum(one, other))
        first, last = np.maximum(first, a), np.minimum(last, b)
        hit = first <= last
        found[rows[hit]] = (first if upwards else last)[hit]
        j += 1 if upwards else -1
        cell[rows] = j
        rows = rows[~hit & (j >= 0) & (j < _CELLS)]
    return found


@lru_cache(maxsize=64)
def _edges(span: Span) -> Floats:
    """Return the ends of the cells of theta values: even, beyond [0, 1] wider with the distance from its middle."""
    if span == (0.0, 1.0):
        return np.linspace(0.0, 1.0, _CELLS + 1)
    low, high = np.arcsinh(2 * (np.asarray(span) - 0.5))
    edges = 0.5 + np.sinh(np.linspace(low, high, _CELLS + 1)) / 2
    edges[[0, -1]] = span
    return np.asarray(edges)


def _critical_values(
    scores: tuple[float, ...],
    parts: tuple[float, ...],
    scale: float,
    level: float,
    copies: int,
    span: Span,
) -> tuple[float, ...]:
    """Return q for every cell of theta values."""
    return tuple(
        scale * z + room for z, room in _unit_critical_values(scores, parts, level, copies, span)
    )


@lru_cache(maxsize=256)
def _unit_critical_values(
    scores: tuple[float, ...], parts: tuple[float, ...], level: float, copies: int, span: Span
) -> tuple[tuple[float, float], ...]:
    """Return (quantile at scale 1, room for the lattice) for every cell: the same for all scales."""
    edges = _edges(span)[:, None]
    u, v = np.asarray(scores), np.asarray(parts)
    weights = np.maximum(np.abs(u - edges[:-1] * v), np.abs(u - edges[1:] * v))
    if copies == 1:
        quantiles = (quantiles_apart(np.sort(weights, axis=1), level) * _ROOM).tolist()
    else:
        quantiles = [sum_quantile(tuple(np.repeat(w, copies)), level) for w in weights]
    return tuple((z, copies * float(w.sum())) for z, w in zip(quantiles, weights, strict=True))


@lru_cache(maxsize=256)
def _normal_critical_values(
    scores: tuple[float, ...],
    parts: tuple[float, ...],
    scale: float,
    level: float,
    copies: int,
    span: Span,
) -> tuple[float, ...]:
    """Return q for every cell of theta values under discrete Gaussian noise of this scale."""
    edges = _edges(span)[:, None]
    u, v = np.asarray(scores), np.asarray(parts)
    weights = np.abs([u - ends * v for ends in (edges[:-1], edges[1:])]).max(axis=0)
    return tuple(normal_quantiles(np.repeat(weights, copies, axis=1), scale, level).tolist())
