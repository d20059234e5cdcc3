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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, combinations_with_replacement
from typing import TYPE_CHECKING, cast

import numpy as np

from dprelease.core import registry
from dprelease.query.arguments import NumberColumns, Syntax, Written
from dprelease.query.resolved import Statistic
from dprelease.schema.domain import Domain
from dprelease.statistics.base import Floats, Planned, Reading, StatisticKind
from dprelease.statistics.cells import bernstein_variance
from dprelease.statistics.jacobi import jacobi_eigenvalues
from dprelease.statistics.measurement import Context, Measurement
from dprelease.statistics.pair_cells import moments, pair_covariance
from dprelease.statistics.pair_pivot import covariance_interval, variance_interval
from dprelease.statistics.pairs import column_notes, tensor
from dprelease.statistics.spectrum import matrix, pairs, spectrum, square_width
from dprelease.statistics.spectrum_cells import matrix_shift

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


class Eigenvalues(StatisticKind):
    name = "eigenvalues"
    syntax = Syntax(2, MOST_COLUMNS, "eigenvalues(age, bmi)", ColumnsAsWritten(), ("EIGENVALUES",))
    heading = "Covariance spectrum of {}"
    rules = (falling,)

    def unit(self, statistic: Statistic) -> str:
        units = {c.measure for c in statistic.columns}
        return f"{units.pop()}²" if len(units) == 1 and all(units) else ""

    def notes(self, planned: Planned, measurement: Measurement) -> tuple[str, ...]:
        del measurement
        return (*column_notes(planned.statistic), "population form (divided by n)")

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
        of = matrices_of(measurement.family)
        if of is None:
            values = -np.sort(-np.maximum(cells * float(measurement.step_size), 0.0), axis=1)
        else:
            values = np.maximum(jacobi_eigenvalues(of.found(measurement, cells)), 0.0)
        return float(square_width(measurement.axes)) * capped(values, _most(measurement))

    def interval(self, measurement: Measurement, reading: Reading) -> tuple[Floats, Floats]:
        of = matrices_of(measurement.family)
        if of is None:  # a step more: the exact ones were rounded
            grid = float(measurement.step_size)
            low = -np.sort(-(reading.low - 1) * grid, axis=1)
            high = -np.sort(-(reading.high + 1) * grid, axis=1)
        else:
            centre = jacobi_eigenvalues(of.found(measurement, reading.raw))
            error = of.error(measurement, reading)[:, None]
            low, high = centre - error, centre + error
        unit = float(square_width(measurement.axes))
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
    positive = (values - (sums - most) / rank > 0).sum(axis=1)
    positive = np.maximum(positive, 1)
    cut = (sums[np.arange(len(values)), positive - 1] - most) / positive
    return np.asarray(np.maximum(values - np.maximum(cut, 0.0)[:, None], 0.0))


def _shares(measurement: Measurement) -> Floats:
    """Return R_j / R."""
    widths = [float(a.width) for a in measurement.axes]
    return np.array(widths) / float(np.sqrt(float(square_width(measurement.axes))))


@dataclass(frozen=True, slots=True)
class MatrixCells:
    """Cells of which covariance matrices are made, in units of R^2, `(groups, d, d)`.

    Attributes:
        found: the matrices; error: how far their eigenvalues may be off, `(groups,)`.
    """

    found: Callable[[Measurement, Floats], Floats]
    error: Callable[[Measurement, Reading], Floats]


@lru_cache(maxsize=16)
def matrices_of(family: str) -> MatrixCells | None:
    """Return how a family's cells are read; None: they are eigenvalues, in steps of the grid."""
    known = family in registry.names("matrix_cells")
    return cast("MatrixCells", registry.load("matrix_cells", family)) if known else None


def _entries(measurement: Measurement, cells: Floats) -> Floats:
    shift, grid = float(matrix_shift(measurement)), float(measurement.step_size)
    out = np.zeros((cells.shape[0], len(measurement.axes), len(measurement.axes)))
    for place, (i, j) in enumerate(combinations_with_replacement(range(len(measurement.axes)), 2)):
        out[:, i, j] = out[:, j, i] = (cells[:, place] - shift) * grid
    return out


def _error_of_entries(measurement: Measurement, reading: Reading) -> Floats:
    most = (reading.high - reading.low).max(axis=1) / 2 + 1
    return np.asarray((len(measurement.axes) * float(measurement.step_size)) * most)


def _from_tensor(measurement: Measurement, cells: Floats) -> Floats:
    scale, out = _shares(measurement), np.zeros((cells.shape[0], 2, 2))
    cov, one, other = moments(cells)
    out[:, 0, 0], out[:, 1, 1] = one * scale[0] ** 2, other * scale[1] ** 2
    out[:, 0, 1] = out[:, 1, 0] = cov * scale[0] * scale[1]
    return out


def _from_pairs(measurement: Measurement, cells: Floats) -> Floats:
    scale, count = _shares(measurement), len(measurement.axes)
    out = np.zeros((cells.shape[0], count, count))
    for j in range(count):
        out[:, j, j] = bernstein_variance(cells[:, 3 * j : 3 * j + 3]) * scale[j] ** 2
    for place, (i, j) in enumerate(combinations(range(count), 2)):
        at = 3 * count + 4 * place
        out[:, i, j] = out[:, j, i] = pair_covariance(cells[:, at : at + 4]) * scale[i] * scale[j]
    return out


def _error_of_tensor(measurement: Measurement, reading: Reading) -> Floats:
    table = reading.raw.reshape(-1, 3, 3)
    margins = np.stack([table.sum(axis=2), table.sum(axis=1)], axis=1)
    found = _from_tensor(measurement, reading.raw)
    return _error(measurement, reading, found, margins, reading.raw[:, None, :], 3)


def _error_of_pairs(measurement: Measurement, reading: Reading) -> Floats:
    raw, count = reading.raw, len(measurement.axes)
    margins = raw[:, : 3 * count].reshape(len(raw), count, 3)
    tables = raw[:, 3 * count :].reshape(len(raw), -1, 4)
    # factors scale cells and leave the noise alone, so all parts have one scale
    return _error(measurement, reading, _from_pairs(measurement, raw), margins, tables, 1)


def _error(
    measurement: Measurement,
    reading: Reading,
    found: Floats,
    margins: Floats,
    tables: Floats,
    copies: int,
) -> Floats:
    """Return an upper bound of the spectral norm of the error, from bounds of every entry's that hold together.

    It holds for every symmetric E with |E| <= these bounds.

    Args:
        margins: Bernstein cells of each column, sums of `copies` noisy ones; tables: cells of each pair.
    """
    assert reading.scale is not None
    groups, scale, count = len(found), reading.scale, found.shape[1]
    level = 1 - (1 - reading.level) / (count * (count + 1) // 2)
    own = variance_interval(margins.reshape(-1, 3), scale, level, copies)
    both = covariance_interval(tables.reshape(-1, tables.shape[2]), scale, level)
    shares = _shares(measurement)
    errors = np.zeros_like(found)
    one, other = np.triu_indices(count, 1)
    for span, i, j in ((own, np.arange(count), np.arange(count)), (both, one, other)):
        unit = shares[i] * shares[j]
        low, high = (end.reshape(groups, -1) * unit for end in span)
        errors[:, i, j] = np.maximum(np.abs(found[:, i, j] - low), np.abs(high - found[:, i, j]))
        errors[:, j, i] = errors[:, i, j]
    frobenius = np.sqrt((errors * errors).sum(axis=(1, 2)))
    return np.asarray(np.minimum(frobenius, errors.sum(axis=2).max(axis=1)))


entries = MatrixCells(_entries, _error_of_entries)
pairs_of_columns = MatrixCells(_from_pairs, _error_of_pairs)
tensor_of_two = MatrixCells(_from_tensor, _error_of_tensor)
statistic = Eigenvalues()
