"""Post-processing of partition-of-unity cells: means, variances and their ranges over boxes.

Cells come noisy; a negative one is first raised to 0 (rectified: post-processing). In units of
the code range, t = code / K in [0, 1]:

    two_sums     mean = a1 / (a0 + a1)              with a0 = S(1 - t), a1 = S(t)
    centred_sums mean = (1 + c / n) / 2             with n = S(1), c = S(2 t - 1), clipped to [0, 1]
    bernstein2   mean = (b1/2 + b2) / n,  var = (b0 b2 - b1^2/4) / n^2,  n = b0 + b1 + b2

With non-negative cells 0 <= var <= mean (1 - mean) <= 1/4 holds whenever b1^2 <= 4 b0 b2, and the
variance is raised to 0 otherwise: the pair lies in its joint domain by construction
(`docs/theory/domains-and-grids.md#joint-constraints`). When all cells are 0 there is no signal:
mean 1/2, variance 0, by convention.

Ranges over a box (`docs/theory/intervals.md#boxes-and-ranges`) are exact up to rounding:

    mean         see `pivot`: a ratio has a shorter interval than its box.
    variance     (c0 c2 - c1^2/4) / (c0 + c1 + c2)^2 falls in c1 and, in c0 with the others fixed,
                 rises up to c0 = c1 + c2 + c1^2/(2 c2) and falls after it (likewise c2). So the
                 minimum is at a corner with c1 high. At a maximum both partial derivatives cannot
                 vanish (adding the two equations gives c1 = 0, where c0 = c2 attains 1/4 anyway),
                 so c0 or c2 is at its upper bound and the other is the clipped stationary point.

Shapes: cells `(groups, cells)`; results `(groups,)`.
"""

from __future__ import annotations

import numpy as np

from dprelease.aggregates.base import Floats

__all__ = [
    "bernstein_mean",
    "bernstein_variance",
    "bernstein_variance_box",
    "centred_mean",
    "two_sums_mean",
]


def _ratio(top: Floats, bottom: Floats, empty: float) -> Floats:
    """Return top / bottom, and `empty` where bottom is 0."""
    return np.divide(top, bottom, out=np.full_like(top, empty), where=bottom > 0)


def two_sums_mean(cells: Floats) -> Floats:
    """Return the mean of t from (S(t), S(1 - t))."""
    c = np.maximum(cells, 0.0)
    return _ratio(c[:, 0], c[:, 0] + c[:, 1], 0.5)


def centred_mean(cells: Floats) -> Floats:
    """Return the mean of t from (S(1), S(2 t - 1)); the middle where no row is left."""
    n = np.maximum(cells[:, 0], 0.0)
    return np.clip((1 + _ratio(cells[:, 1], n, 0.0)) / 2, 0.0, 1.0)


def bernstein_mean(cells: Floats) -> Floats:
    """Return the mean of t from the Bernstein cells (b0, b1, b2)."""
    c = np.maximum(cells, 0.0)
    return _ratio(c[:, 1] / 2 + c[:, 2], c.sum(axis=1), 0.5)


def _variance(c0: Floats, c1: Floats, c2: Floats) -> Floats:
    n = c0 + c1 + c2
    b0, b1, b2 = (_ratio(c, n, 0.0) for c in (c0, c1, c2))
    return np.clip(b0 * b2 - b1 * b1 / 4, 0.0, 0.25)


def bernstein_variance(cells: Floats) -> Floats:
    """Return the population variance of t from the Bernstein cells."""
    c = np.maximum(cells, 0.0)
    return _variance(c[:, 0], c[:, 1], c[:, 2])


def bernstein_variance_box(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
    corners = [
        _variance(a, high[:, 1], b)
        for a in (low[:, 0], high[:, 0])
        for b in (low[:, 2], high[:, 2])
    ]
    bottom = np.minimum.reduce(corners)

    c1 = low[:, 1]

    def stationary(other: Floats) -> Floats:
        return c1 + other + _ratio(c1 * c1, 2 * other, np.inf)

    first = _variance(high[:, 0], c1, np.clip(stationary(high[:, 0]), low[:, 2], high[:, 2]))
    second = _variance(np.clip(stationary(high[:, 2]), low[:, 0], high[:, 0]), c1, high[:, 2])
    return bottom, np.maximum(first, second)
