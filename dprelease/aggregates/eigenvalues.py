"""Eigenvalues of the population covariance matrix (1/n) of several clamped columns, greatest first.

Public n: noise on the eigenvalues themselves, or on the matrix where that is priced lower
(`spectrum`). Private n: noisy cells of every column and every pair of columns (of two columns: one
tensor), assembled to a matrix; every covariance is then over the complete cases of its own pair, and
with nulls that drop rows the matrix need not be that of any one table.

Released values are consistent: eigenvalues below 0 are raised to 0 (the nearest positive
semidefinite matrix has exactly these), sorted, and moved to the nearest values whose sum is at most
the greatest possible trace. Domain of each: [0, R^2/4], R^2 = S R_j^2, with public n
[0, R^2 floor(n^2/4)/n^2]; the sum lies in the same interval.

Intervals: the noisy eigenvalues' own bounds for a spectrum; otherwise Weyl, |l_i(A) - l_i(B)| <=
|A - B|_2 <= min(|E|_F, greatest row sum), with E from simultaneous bounds of all entries.

Sources: `docs/theory/graphs-and-spectra.md#covariance-matrices`, `#eigenvalues-of-released-matrices`,
`docs/theory/domains-and-grids.md#induced-domains`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from typing import TYPE_CHECKING

import numpy as np

from dprelease.aggregates.base import Aggregate, Asked, Floats, Reading
from dprelease.aggregates.cells import bernstein_variance
from dprelease.aggregates.jacobi import jacobi_eigenvalues
from dprelease.aggregates.measurement import Context, Measurement
from dprelease.aggregates.pair_cells import moments, pair_covariance
from dprelease.aggregates.pair_pivot import covariance_interval, variance_interval
from dprelease.aggregates.pairs import column_notes, tensor
from dprelease.aggregates.spectrum import matrix, pairs, spectrum, square_width
from dprelease.aggregates.spectrum_cells import matrix_shift
from dprelease.query.arguments import NumberColumns, Statistic, Syntax, Written
from dprelease.schema.domain import Domain

if TYPE_CHECKING:
    from dprelease.results.consistency import StatisticValues

MOST_COLUMNS = 64


def falling(released: Sequence[StatisticValues]) -> dict[str, Floats]:
    """Put eigenvalues in their order; a set of values is as well known sorted as unsorted."""
    return {
        one.statistic.name: -np.sort(-one.values, axis=1)
        for one in released
        if one.function == "eigenvalues"
    }


class ColumnsAsWritten(NumberColumns):
    """Columns of numbers; a SELECT writes them as here, any number of them."""

    sql: Written = "text"


class Eigenvalues(Aggregate):
    name = "eigenvalues"
    syntax = Syntax(2, MOST_COLUMNS, "eigenvalues(age, bmi)", ColumnsAsWritten(), ("EIGENVALUES",))
    heading = "Covariance spectrum of {}"
    rules = (falling,)

    def unit(self, statistic: Statistic) -> str:
        units = {c.measure for c in statistic.columns}
        return f"{units.pop()}²" if len(units) == 1 and all(units) else ""

    def notes(self, asked: Asked, measurement: Measurement) -> tuple[str, ...]:
        del measurement
        return (*column_notes(asked.statistic), "population form (divided by n)")

    def without_point_masses(self) -> str:
        return "remove `spikes: forbid`"

    def domain(self, context: Context) -> Domain:
        n = context.public_rows
        most = square_width(context.axes)
        return Domain(0, most * (Fraction(1, 4) if n is None else Fraction(n * n // 4, n * n)))

    def measurements(self, context: Context) -> tuple[Measurement, ...]:
        two = (tensor(context),) if len(context.axes) == 2 else ()
        if context.public_rows is not None:
            return (spectrum(context), matrix(context), *two)
        return two or (pairs(context),)

    def columns(self, context: Context) -> tuple[str, ...]:
        return tuple(f"{context.spec.name}[{k}]" for k in range(1, len(context.axes) + 1))

    def finish(self, measurement: Measurement, cells: Floats) -> Floats:
        unit = float(square_width(measurement.axes))
        if measurement.family == "spectrum":
            values = -np.sort(-np.maximum(cells * float(measurement.step_size), 0.0), axis=1)
        else:
            values = np.maximum(jacobi_eigenvalues(_matrix(measurement, cells)), 0.0)
        return unit * capped(values, _most(measurement))

    def interval(self, measurement: Measurement, reading: Reading) -> tuple[Floats, Floats]:
        unit = float(square_width(measurement.axes))
        grid = float(measurement.step_size)
        if measurement.family == "spectrum":  # a step more: the exact ones were rounded
            low = -np.sort(-(reading.low - 1) * grid, axis=1)
            high = -np.sort(-(reading.high + 1) * grid, axis=1)
        elif measurement.family == "matrix":
            centre = jacobi_eigenvalues(_matrix(measurement, reading.raw))
            error = (len(measurement.axes) * grid) * (
                (reading.high - reading.low).max(axis=1) / 2 + 1
            )
            low, high = centre - error[:, None], centre + error[:, None]
        else:
            centre = jacobi_eigenvalues(_matrix(measurement, reading.raw))
            error = _norm(_errors(measurement, reading))
            low, high = centre - error[:, None], centre + error[:, None]
        most = unit * _most(measurement)
        return np.clip(unit * low, 0.0, most), np.clip(unit * high, 0.0, most)


def _most(measurement: Measurement) -> float:
    """Return the greatest trace in units of R^2."""
    n = measurement.public_rows
    return 0.25 if n is None else float(Fraction(n * n // 4, n * n))


def capped(values: Floats, most: float) -> Floats:
    """Return the nearest descending values >= 0 whose sum is at most `most`, per row.

    Where the sum is too large every value is lowered by the same amount, down to 0: the Euclidean
    projection onto the simplex.
    """
    sums = np.cumsum(values, axis=1)
    rank = np.arange(1, values.shape[1] + 1)
    kept = (values - (sums - most) / rank > 0).sum(axis=1)
    kept = np.maximum(kept, 1)
    cut = (sums[np.arange(len(values)), kept - 1] - most) / kept
    return np.asarray(np.maximum(values - np.maximum(cut, 0.0)[:, None], 0.0))


def _shares(measurement: Measurement) -> Floats:
    """Return R_j / R."""
    widths = [float(a.width) for a in measurement.axes]
    return np.array(widths) / float(np.sqrt(float(square_width(measurement.axes))))


def _matrix(measurement: Measurement, cells: Floats) -> Floats:
    """Return noisy covariance matrices in units of R^2, `(groups, d, d)`."""
    count = len(measurement.axes)
    out = np.zeros((cells.shape[0], count, count))
    if measurement.family == "matrix":
        shift, grid = float(matrix_shift(measurement)), float(measurement.step_size)
        for place, (i, j) in enumerate(combinations_with_replacement(range(count), 2)):
            out[:, i, j] = out[:, j, i] = (cells[:, place] - shift) * grid
        return out
    scale = _shares(measurement)
    if measurement.family == "tensor":
        cov, one, other = moments(cells)
        out[:, 0, 0], out[:, 1, 1] = one * scale[0] ** 2, other * scale[1] ** 2
        out[:, 0, 1] = out[:, 1, 0] = cov * scale[0] * scale[1]
        return out
    for j in range(count):
        out[:, j, j] = bernstein_variance(cells[:, 3 * j : 3 * j + 3]) * scale[j] ** 2
    for place, (i, j) in enumerate(combinations(range(count), 2)):
        at = 3 * count + 4 * place
        out[:, i, j] = out[:, j, i] = pair_covariance(cells[:, at : at + 4]) * scale[i] * scale[j]
    return out


def _errors(measurement: Measurement, reading: Reading) -> Floats:
    """Return bounds of every entry's error that hold together, `(groups, d, d)`."""
    assert reading.scale is not None
    raw, scale, count = reading.raw, reading.scale, len(measurement.axes)
    level = 1 - (1 - reading.level) / (count * (count + 1) // 2)
    groups = raw.shape[0]
    if measurement.family == "tensor":
        table = raw.reshape(-1, 3, 3)
        margins = np.stack([table.sum(axis=2), table.sum(axis=1)], axis=1)
        tables, copies = raw[:, None, :], 3
    else:  # factors scale cells and leave the noise alone, so all parts have one scale
        margins = raw[:, : 3 * count].reshape(groups, count, 3)
        tables, copies = raw[:, 3 * count :].reshape(groups, -1, 4), 1
    own = variance_interval(margins.reshape(-1, 3), scale, level, copies)
    both = covariance_interval(tables.reshape(-1, tables.shape[2]), scale, level)
    found, shares = _matrix(measurement, raw), _shares(measurement)
    errors = np.zeros_like(found)
    one, other = np.triu_indices(count, 1)
    for span, i, j in ((own, np.arange(count), np.arange(count)), (both, one, other)):
        unit = shares[i] * shares[j]
        low, high = (end.reshape(groups, -1) * unit for end in span)
        errors[:, i, j] = np.maximum(np.abs(found[:, i, j] - low), np.abs(high - found[:, i, j]))
        errors[:, j, i] = errors[:, i, j]
    return errors


def _norm(errors: Floats) -> Floats:
    """Return an upper bound of the spectral norm of every symmetric E with |E| <= errors."""
    frobenius = np.sqrt((errors * errors).sum(axis=(1, 2)))
    return np.asarray(np.minimum(frobenius, errors.sum(axis=2).max(axis=1)))


aggregate = Eigenvalues()
