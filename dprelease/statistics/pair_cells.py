"""Post-processing of the cells of two columns: covariance, correlation, margins.

Cells come noisy; a negative one is first raised to 0. In units of the code ranges s = a / Ka and
t = b / Kb, with normalised cells c >= 0 that sum to 1 (row index of s, column index of t):

    soft_table   cov = c11 c00 - c10 c01
    tensor       E[s] = S x_i c_ij, E[st] = S x_i x_j c_ij with x = (0, 1/2, 1); the variances are
                 those of the margins (`cells.bernstein_variance`); cov = E[st] - E[s] E[t]

Joint domain. From a soft table cov is the covariance of a law on {0, 1}^2, so |cov| <= 1/4. From a
tensor E[st] - E[s] E[t] is the covariance of a law on {0, 1/2, 1}^2, whose variances are *larger*
than the Bernstein ones (by a quarter of the middle cell), so cov is clipped to +-sqrt(var var):
the exact triple obeys Cauchy and Schwarz, hence clipping only brings cov nearer to the truth. The
published correlation is cov / sqrt(var var), in [-1, 1], and 0 where a released variance is 0.
When all cells are 0 there is no signal: covariance and correlation 0, by convention.

Shapes: cells `(groups, 4)` or `(groups, 9)`; results `(groups,)`.
Sources: `docs/theory/domains-and-grids.md#joint-constraints`,
`docs/theory/sensitivities-and-contribution-bounding.md#partitions-of-unity`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dprelease.intervals.few import sum_quantile
from dprelease.statistics.base import Floats, Reading
from dprelease.statistics.cells import bernstein_variance
from dprelease.statistics.measurement import Measurement


def shares(cells: Floats) -> Floats:
    """Return cells raised to 0 and divided by their sum; all 0 where there is no signal."""
    c = np.maximum(cells, 0.0)
    total = c.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(c, total, out=np.zeros_like(c), where=total > 0))


def moments(cells: Floats) -> tuple[Floats, Floats, Floats]:
    """Return (cov, var_s, var_t) of a tensor, each `(groups,)`, in their joint domain."""
    c = shares(cells).reshape(-1, 3, 3)
    x, s, t = np.array([0.0, 0.5, 1.0]), c.sum(axis=2), c.sum(axis=1)
    one, other = bernstein_variance(s), bernstein_variance(t)
    cov = np.einsum("gij,i,j->g", c, x, x) - (s @ x) * (t @ x)
    most = np.sqrt(one * other)
    return np.clip(cov, -most, most), one, other


def pair_covariance(cells: Floats) -> Floats:
    """Return cov of (s, t), in [-1/4, 1/4], from four or nine cells."""
    if cells.shape[1] == 9:
        return moments(cells)[0]
    c = shares(cells)
    return np.asarray(np.clip(c[:, 3] * c[:, 0] - c[:, 2] * c[:, 1], -0.25, 0.25))


def pair_correlation(cells: Floats) -> Floats:
    """Return the correlation from a tensor, in [-1, 1]; 0 where a variance is 0."""
    cov, one, other = moments(cells)
    most = np.sqrt(one * other)
    return np.clip(np.divide(cov, most, out=np.zeros_like(cov), where=most > 0), -1.0, 1.0)


def one_column(
    measurement: Measurement, cells: Floats, reading: Reading, view: int
) -> tuple[Measurement, Floats, Reading]:
    """Return what a statistic of column `view` sees of a tensor: that column's Bernstein cells.

    Every cell of a margin is the sum of three noisy ones; its bounds hold for all three margins
    together at the reading's level.
    """
    axis = measurement.axes[view]
    seen = replace(
        measurement,
        family="bernstein2",
        scale=axis.scale,
        offset=axis.offset,
        step_size=axis.step_size,
        axes=(),
    )
    raw = _margin(reading.raw, view)
    assert reading.scale is not None
    half = reading.scale * sum_quantile((1.0, 1.0, 1.0), 1 - (1 - reading.level) / 3) + 3.0
    return (
        seen,
        _margin(np.maximum(cells, 0.0), view),
        Reading(
            np.maximum(raw - half, 0.0),
            np.maximum(raw + half, 0.0),
            raw,
            reading.scale,
            reading.level,
            copies=3,
        ),
    )


def _margin(cells: Floats, view: int) -> Floats:
    return np.asarray(cells.reshape(-1, 3, 3).sum(axis=2 - view))
