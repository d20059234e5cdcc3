"""Intervals for a ratio of noisy cells by a pivot: as short as the noise allows, no nuisance.

A mean is theta = S(u_i a_i) / S(v_i a_i) over exact cells with public scores u_i and parts v_i, by
default v_i = 1 and u_i in [0, 1] of cells a_i >= 0. From the *raw* noisy cells a_i + L_i (not yet raised to 0),

    Z(theta) = S((u_i - theta v_i)(a_i + L_i)) = S((u_i - theta v_i) L_i),

because the exact part cancels at the true theta, whatever the group's size. So its law is known
and {theta : |Z(theta)| <= q(theta)} covers the true theta with the stated probability exactly
(Fieller's argument; an empty group has no mean, and any theta is its own).

The quantile. With independent continuous Laplace noise of scale b and weights w_i,
P(|S(w_i X_i)| > z) = S(c_i e^(-z / (b w_i))), c_i = prod_{j != i} w_i^2 / (w_i^2 - w_j^2). It rises
with every |w_i| (sums of symmetric unimodal variables, Birnbaum's peakedness), so q over a cell of
theta values is bounded by its value at the largest |w_i| in that cell, and equal weights may be
pulled apart upwards. Discrete Laplace noise of scale b differs from a continuous one by at most 1
step under the monotone coupling (P(|D| >= k) = 2r^k/(1+r) lies between r^k and r^(k-1)), which
adds S(w_i). Every step rounds outwards: coverage is at least the stated one.

Units: cells and scale in grid steps; theta in [0, 1], or where a ratio's domain lies on that scale. Shapes: raw `(groups, cells)`.
Sources: `docs/theory/intervals.md#ratios`; Fieller 1954 for the pivot of a ratio.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist

import numpy as np

from dprelease.aggregates.base import Floats

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
    """Return q for every cell of theta values under discrete Gaussian noise of this scale.

    S(w_i N_i) is normal with variance scale^2 S(w_i^2), which rises with every |w_i|. Under the
    monotone coupling a discrete Gaussian lies within 2 steps of a normal of its scale:
    P(|D| >= k) <= P(|N| >= k - 1), and P(|D| >= k) >= P(|N| >= k + 1), because with
    Z <= sqrt(2 pi) scale + 1 the first is at least P(|N| >= k) / (1 + 0.4 / scale), and a step
    further the normal tail has lost the factor e^(-0.79 / scale) or more.
    """
    edges = _edges(span)
    z = -NormalDist().inv_cdf((1 - level) / 2) * (1 + 1e-9)
    out = []
    for a, b in pairwise(edges.tolist()):
        each = [max(abs(u - a * v), abs(u - b * v)) for u, v in zip(scores, parts, strict=True)]
        w = np.repeat(each, copies)
        out.append(z * scale * float(np.sqrt((w * w).sum())) + 2 * float(w.sum()))
    return tuple(out)


@lru_cache(maxsize=2**15)
def sum_quantile(weights: tuple[float, ...], level: float) -> float:
    """Return z with P(|S(w_i X_i)| <= z) >= level for independent unit Laplace X_i, equal w_i too.

    The closed form of `quantiles_apart` cancels where many weights are equal. Here w_i X_i is
    coupled with a discrete Laplace D_i on the lattice of width h (within one h of it, by the same
    coupling as in the module's docstring), whose characteristic function is
    (1 - r)^2 / (1 - 2 r cos(omega) + r^2), r = e^(-h / w_i). The law of the sum is one inverse
    Fourier transform; z is its quantile plus one h per weight. The period of the lattice is 128
    times the largest weight, beyond which less than 1e-15 lies for up to 16 weights.

    >>> 2.995 < sum_quantile((1.0,), 0.95) < 3.01
    True
    """
    w = np.abs(np.asarray(weights, dtype=float))
    w = w[w > 0]
    if w.size == 0:
        return 0.0
    most = float(w.max())
    h, size = 1 / 256, 2**15
    cosine = _cosine(size)
    law = np.ones(cosine.shape)
    for r in np.exp(-h * most / np.maximum(w, most * 1e-6)):
        law *= (1 - r) ** 2 / (1 - 2 * r * cosine + r * r)
    mass = np.fft.irfft(law, size)
    within = mass[0] + 2 * np.cumsum(mass[1 : size // 2])
    k = int(np.searchsorted(within, level + 1e-9)) + 1
    return float(most * h * (k + w.size))


@lru_cache(maxsize=1)
def _cosine(size: int) -> Floats:
    return np.asarray(np.cos(2 * np.pi * np.arange(size // 2 + 1) / size))


def quantiles_apart(weights: Floats, level: float) -> Floats:
    """Return z with P(|S(w_i X_i)| <= z) >= level for independent unit Laplace X_i; `(rows,)`.

    There is no room yet for the rounding of its sums.

    Args:
        weights: positive and sorted along each row, `(rows, weights)`.

    >>> quantiles_apart(np.array([[1.0]]), 0.95).round(6)
    array([2.995732])
    """
    w = weights.copy()
    for i in range(1, w.shape[1]):  # equal weights apart, upwards: conservative, and no 0/0
        w[:, i] = np.maximum(w[:, i], w[:, i - 1] * (1 + 1e-4))
    square = w * w
    c = np.ones_like(w)
    for i in range(w.shape[1]):
        for j in range(w.shape[1]):
            if i != j:
                c[:, i] *= square[:, i] / (square[:, i] - square[:, j])
    low, high = np.zeros(w.shape[0]), w.sum(axis=1) * (1 - np.log(1 - level)) * 2
    for _ in range(60):
        z = (low + high) / 2
        over = (c * np.exp(-z[:, None] / w)).sum(axis=1) > 1 - level
        low, high = np.where(over, z, low), np.where(over, high, z)
    return np.asarray(high)
