"""Cells of a simulated row, by formulas of their own: what `statistics.exact` makes of real rows, in floats.

Given columns as shares of their ranges, returns the mean contribution of one row to every cell, so
that a group of n such rows has n times as much. Public and approximate; nothing drawn depends on
it.

Shapes: columns `(rows, columns)`; results `(cells,)`.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from dprelease.statistics.base import Floats
from dprelease.statistics.jacobi import jacobi_eigenvalues
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.spectrum import factors, square_width
from dprelease.statistics.spectrum_cells import matrix_shift


def simulated_cells(measurement: Measurement, shares: Floats, size: int) -> Floats:
    """Return the cells of `size` rows like `shares` for a measurement with axes, in its own steps."""
    k = [float(axis.scale) for axis in measurement.axes]
    columns = list(shares.T)
    match measurement.family:
        case "soft_table":
            return size * _table(_soft(columns[0], k[0]), _soft(columns[1], k[1]))
        case "tensor":
            return size * _table(_bernstein(columns[0], k[0]), _bernstein(columns[1], k[1]))
        case "pairs":
            parts = [_bernstein(s, c).mean(axis=0) for s, c in zip(columns, k, strict=True)]
            for i, j in combinations(range(len(k)), 2):
                parts.append(_table(_soft(columns[i], k[i]), _soft(columns[j], k[j])))
            scaled = zip(factors(measurement.axes), parts, strict=True)
            return size * np.concatenate([float(f) * part for f, part in scaled])
        case _:
            return _spectral(measurement, shares)


def _spectral(measurement: Measurement, shares: Floats) -> Floats:
    """Return the spectrum or the upper triangle in grid steps; the size does not matter."""
    widths = np.array([float(a.width) for a in measurement.axes])
    values = shares * widths / float(np.sqrt(float(square_width(measurement.axes))))
    centred = values - values.mean(axis=0)
    covariance = centred.T @ centred / len(values)
    if measurement.family == "spectrum":
        return np.asarray(jacobi_eigenvalues(covariance[None])[0] / float(measurement.step_size))
    upper = covariance[np.triu_indices(len(widths))]
    return np.asarray(upper / float(measurement.step_size) + float(matrix_shift(measurement)))


def _table(one: Floats, other: Floats) -> Floats:
    return np.asarray((one.T @ other / one.shape[0]).ravel())


def _soft(s: Floats, k: float) -> Floats:
    return k * np.stack([1 - s, s], axis=1)


def _bernstein(s: Floats, k: float) -> Floats:
    return k * k * np.stack([(1 - s) ** 2, 2 * s * (1 - s), s * s], axis=1)
