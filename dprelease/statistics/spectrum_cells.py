"""Exact cells of the covariance matrix's measurements, from the engine's sums; see `spectrum`.

    spectrum   round(eigenvalue of C / R^2 to the grid), greatest first
    matrix     round(C_ij / R^2 to the grid) + shift, i <= j
    pairs      a Bernstein part per column, a soft table per pair, each times its factor

C_ij = (n S_ij - S_i S_j) p_i p_j / n^2 with steps p; the integers are exact, C / R^2 is a Fraction,
and only the eigenvalues leave exact arithmetic, by a proved bound. Total for all integers: sums
that no table of n rows has give cells too.

Units: grid steps. Shapes: cells `(groups, cells)`, Python integers.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations, combinations_with_replacement

import numpy as np

from dprelease.query.answer import Objects
from dprelease.statistics.certified_eigen import symmetric_eigenvalues
from dprelease.statistics.exact import CellForm, check_rows
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.pairs import bernstein_weights, kron, soft_weights
from dprelease.statistics.spectrum import factors, square_width

_QUARTER = Fraction(1, 4)


def _covariances(measurement: Measurement, sums: Objects) -> list[Fraction]:
    """Return C_ij / R^2 for i <= j from one group's S(1), S_i, S_ij."""
    n, axes = measurement.public_rows, measurement.axes
    assert n is not None
    unit = n * n * square_width(axes)
    steps = [a.step_size for a in axes]
    single = [int(s) for s in sums[1 : 1 + len(axes)]]
    both = [int(s) for s in sums[1 + len(axes) :]]
    return [
        Fraction(n * both[place] - single[i] * single[j]) * steps[i] * steps[j] / unit
        for place, (i, j) in enumerate(combinations_with_replacement(range(len(axes)), 2))
    ]


def _rounded(value: Fraction, grid: Fraction) -> int:
    return math.floor(value / grid + Fraction(1, 2))


def spectrum_cells(measurement: Measurement, chosen: Objects) -> Objects:
    """Return the eigenvalues in grid steps; 1-Lipschitz in each beyond the solver's error."""
    check_rows(measurement, chosen[:, 0])
    count = len(measurement.axes)
    out = np.zeros((chosen.shape[0], count), dtype=object)
    for g, sums in enumerate(chosen):
        matrix = np.zeros((count, count))
        values = _covariances(measurement, sums)
        for (i, j), value in zip(
            combinations_with_replacement(range(count), 2), values, strict=True
        ):
            # clipped, which changes no entry of a real table: a total conversion to doubles
            matrix[i, j] = matrix[j, i] = float(min(max(value, -_QUARTER), _QUARTER))
        for k, value in enumerate(symmetric_eigenvalues(matrix)[::-1]):
            inside = min(max(Fraction(float(value)), Fraction(0)), _QUARTER)
            out[g, k] = _rounded(inside, measurement.step_size)
    return out


def matrix_shift(measurement: Measurement) -> int:
    """Return what is added to every cell of a matrix: no entry is below -1/4."""
    return math.ceil(_QUARTER / measurement.step_size)


def matrix_cells(measurement: Measurement, chosen: Objects) -> Objects:
    """Return the upper triangle in grid steps, shifted up."""
    check_rows(measurement, chosen[:, 0])
    shift = matrix_shift(measurement)
    cells = [
        [_rounded(v, measurement.step_size) + shift for v in _covariances(measurement, s)]
        for s in chosen
    ]
    return np.array(cells, dtype=object).reshape(chosen.shape[0], len(measurement.cells))


def pair_cells(measurement: Measurement, chosen: Objects) -> Objects:
    """Return all parts, each `weights @ primitives` times its factor."""
    scales, scaled = [a.scale for a in measurement.axes], iter(factors(measurement.axes))
    parts: list[tuple[tuple[int, ...], ...]] = [bernstein_weights(k) for k in scales]
    for a, b in combinations(scales, 2):
        parts.append(kron(soft_weights(a), soft_weights(b)))
    cells, at = [], 0
    for weights in parts:
        factor, width = next(scaled), len(weights[0])
        here = chosen[:, at : at + width]
        cells += [sum(factor * w * here[:, j] for j, w in enumerate(row)) for row in weights]
        at += width
    return np.stack([np.asarray(c, dtype=object) for c in cells], axis=1)


spectrum = CellForm(spectrum_cells)
matrix = CellForm(matrix_cells)
pairs = CellForm(pair_cells)
