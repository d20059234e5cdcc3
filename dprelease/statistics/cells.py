"""Post-processing of partition-of-unity cells: variances and their ranges over boxes (`moments` has their means).

Cells come noisy; a negative one is first raised to 0 (rectified: post-processing). In units of
the code range, t = code / K in [0, 1]:

    centred_squares  var = (e - m^2) / 4  with m, e the means of s = 2 t - 1 and s^2, m clipped to [-1, 1],
                 e to [m^2, 1]
    bernstein2   var = (b0 b2 - b1^2/4) / n^2,  n = b0 + b1 + b2

With non-negative cells 0 <= var <= mean (1 - mean) <= 1/4 holds whenever b1^2 <= 4 b0 b2, and the
variance is raised to 0 otherwise: the pair lies in its joint domain by construction
(`docs/theory/domains-and-grids.md#joint-constraints`). When all cells are 0 there is no signal:
mean 1/2, variance 0, by convention.

Ranges over a box (`docs/theory/intervals.md#boxes-and-ranges`) are exact up to rounding:

    variance     (c0 c2 - c1^2/4) / (c0 + c1 + c2)^2 falls in c1 and, in c0 with the others fixed,
                 rises up to c0 = c1 + c2 + c1^2/(2 c2) and falls after it (likewise c2). So the
                 minimum is at a corner with c1 high. At a maximum both partial derivatives cannot
                 vanish (adding the two equations gives c1 = 0, where c0 = c2 attains 1/4 anyway),
                 so c0 or c2 is at its upper bound and the other is the clipped stationary point.

Shapes: cells `(groups, cells)`; results `(groups,)`.
"""

from __future__ import annotations

import numpy as np

from dprelease.statistics.base import Floats


def _ratio(top: Floats, bottom: Floats, empty: float) -> Floats:
    """Return top / bottom, and `empty` where bottom is 0."""
    return np.divide(top, bottom, out=np.full_like(top, empty), where=bottom > 0)


def centred_squares_of(cells: Floats, rows: float | None) -> Floats:
    """Return (S(1), S(s), S(s^2)), s = 2 t - 1 in [-1, 1], `(groups, 3)`, in one unit.

    Args:
        cells: (3 S(1), 4 S(s), 2 S(2 s^2 - 1)), or (S(s), S(s^2)) of a public number of rows.
        rows: that number, in the cells' steps.
    """
    if rows is not None:
        return np.stack([np.full(cells.shape[0], rows), cells[:, 0], cells[:, 1]], axis=1)
    n = cells[:, 0] / 3
    return np.stack([n, cells[:, 1] / 4, (cells[:, 2] / 2 + n) / 2], axis=1)


def centred_variance(sums: Floats) -> Floats:
    """Return the variance of t from (S(1), S(s), S(s^2)); 0 where no row is left."""
    n = np.maximum(sums[:, 0], 0.0)
    m = np.clip(_ratio(sums[:, 1], n, 0.0), -1.0, 1.0)
    e = np.clip(_ratio(sums[:, 2], n, 0.0), m * m, 1.0)
    return np.asarray(np.where(n > 0, (e - m * m) / 4, 0.0))


def centred_variance_box(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return a range of `centred_variance` over boxes of (S(1), S(s), S(s^2)).

    Mean and mean square by themselves, so it may be wider than the exact one.
    """
    least, most = (np.maximum(n[:, 0], 0.0) for n in (low, high))
    ends = []
    for i in (1, 2):
        a = np.where(low[:, i] > 0, _ratio(low[:, i], most, 0.0), _ratio(low[:, i], least, -np.inf))
        b = np.where(
            high[:, i] > 0, _ratio(high[:, i], least, np.inf), _ratio(high[:, i], most, 0.0)
        )
        ends.append((np.clip(a, -1.0, 1.0), np.clip(b, -1.0, 1.0)))
    (a, b), (c, d) = ends
    near = np.where((a <= 0) & (b >= 0), 0.0, np.minimum(np.abs(a), np.abs(b)))
    far = np.maximum(np.abs(a), np.abs(b))
    bottom = np.clip((c - far * far) / 4, 0.0, 0.25)
    return np.where(least > 0, bottom, 0.0), np.clip((d - near * near) / 4, 0.0, 0.25)


def _variance(c0: Floats, c1: Floats, c2: Floats) -> Floats:
    b0, b1, b2 = _ratio(np.stack((c0, c1, c2)), c0 + c1 + c2, 0.0)
    return np.asarray(np.clip(b0 * b2 - b1 * b1 / 4, 0.0, 0.25))


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
