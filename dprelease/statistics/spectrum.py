"""Measurements of a covariance matrix for its eigenvalues: spectrum, matrix, pairs.

Columns j = 1..d with widths R_j, R^2 = S R_j^2; C is the population covariance (1/n). Everything is
in units of R^2, so eigenvalues lie in [0, 1/4]: their sum is the trace, at most S R_j^2 / 4.

Public n, one row replaced, kappa = (n - 1)/n^2. C moves by kappa (aa' - bb') with a, b in a box of
widths R_j (`docs/theory/graphs-and-spectra.md#covariance-matrices`).

    spectrum   the eigenvalues. L1 <= kappa |aa' - bb'|_* <= (2/sqrt 3) kappa (Mirsky). They are
               computed in floating point from the exact integer matrix, each within tau of the
               true ones, so two tables' computed spectra differ by at most 2 d tau more; rounded
               to a grid g, by floor(L1 / g) + d steps.
    matrix     the upper triangle, exact rationals rounded to a grid: L1 <= kappa S_{i<=j} R_i R_j,
               so floor(L1 / g) + d(d+1)/2 steps. Shifted up, so that no cell is negative.

Private n: pairs. One Bernstein-2 partition of unity per column and one soft table per pair of
columns (complete cases of that pair), each scaled by a whole number so that a row adds nearly the
same to each; a row moves all by the sum of the parts (attained), a replaced row by twice that. For
d = 2 the tensor holds the same for less.

tau. Every entry of C / R^2 is one correctly rounded quotient of integers, at most 1/4: an error of
at most 2^-55 (and 2^-1074 for tiny ones), in Frobenius norm at most d 2^-54, which moves no
eigenvalue further (Weyl); the solver adds `backward_error`.

Units: cells in steps of g, counts of `pairs` in its scaled steps.
Sources: `docs/theory/graphs-and-spectra.md#spectra-of-two-tables`,
`docs/theory/sensitivities-and-contribution-bounding.md#rounded-vectors`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, combinations_with_replacement

from dprelease.statistics.certified_eigen import backward_error
from dprelease.statistics.measurement import Axis, Context, Measure, Measurement
from dprelease.statistics.pairs import pair_measures

MIRSKY = Fraction(1_154_700_539, 10**9)
"""An upper bound of 2 / sqrt 3: its square times 3 is above 4."""

_FINE = 1024
"""Grid steps per cell and unit of sensitivity: rounding costs less than a thousandth."""
_BALANCE = 1024
"""Parts of `pairs` differ by less than a thousandth in what a row adds."""


def square_width(axes: tuple[Axis, ...]) -> Fraction:
    """Return R^2."""
    return sum((a.width**2 for a in axes), Fraction(0))


def solver_error(count: int) -> Fraction:
    """Return tau: the most by which a computed eigenvalue of C / R^2 misses the true one."""
    rounding = Fraction(count, 2**54)
    return Fraction(backward_error(count, Fraction(1, 4) + rounding)) + rounding


def _kappa(n: int) -> Fraction:
    return Fraction(n - 1, n * n)


def spectrum_sensitivity(axes: tuple[Axis, ...], n: int, grid: Fraction) -> int:
    """Return how many grid steps one replaced row moves all computed eigenvalues, L1."""
    count = len(axes)
    return math.floor(_spectrum_sensitivity(count, n) / grid) + count


def _spectrum_sensitivity(count: int, n: int) -> Fraction:
    return MIRSKY * _kappa(n) + 2 * count * solver_error(count)


def matrix_sensitivity(axes: tuple[Axis, ...], n: int, grid: Fraction) -> int:
    """Return how many grid steps one replaced row moves the upper triangle, L1."""
    count = len(axes)
    return math.floor(_matrix_sensitivity(axes, n) / grid) + count * (count + 1) // 2


def _matrix_sensitivity(axes: tuple[Axis, ...], n: int) -> Fraction:
    products = (a.width * b.width for a, b in combinations_with_replacement(axes, 2))
    return _kappa(n) * sum(products, Fraction(0)) / square_width(axes)


def _grid(sensitivity: Fraction, cells: int) -> Fraction:
    """Return the largest power of two that keeps the allowance for rounding small, below 2^30 rows."""
    target = max(sensitivity, Fraction(1, 2**30)) / (_FINE * cells)
    return Fraction(1, 2 ** math.ceil(math.log2(1 / target)))


def scatter_measures(context: Context) -> tuple[Measure, ...]:
    """Return S(1), S(a_i), S(a_i a_j) for i <= j."""
    codes = context.codes
    return (
        Measure("power", codes[0], 0),
        *(Measure("power", c, 1) for c in codes),
        *(
            Measure("product", a, 1, other=b, other_power=1)
            for a, b in combinations_with_replacement(codes, 2)
        ),
    )


Shape = tuple[str, int, int, int | None, int]
"""Kind, code, power, other code, other power of one primitive, codes by number."""


def scatter_shape(codes: tuple[int, ...]) -> tuple[Shape, ...]:
    """Return what `scatter_measures` becomes for numbered codes, in order."""
    return (
        ("power", codes[0], 0, None, 0),
        *(("power", c, 1, None, 0) for c in codes),
        *(("product", a, 1, b, 1) for a, b in combinations_with_replacement(codes, 2)),
    )


def pair_shape(codes: tuple[int, ...]) -> tuple[Shape, ...]:
    """Return what the measures of `pairs` become for numbered codes, in order."""
    return (
        *(("power", c, p, None, 0) for c in codes for p in range(3)),
        *(
            ("product", a, p, b, q)
            for a, b in combinations(codes, 2)
            for p in range(2)
            for q in range(2)
        ),
    )


def spectrum(context: Context) -> Measurement:
    """Public n: the eigenvalues, greatest first, in steps of a grid."""
    n, axes = context.public_rows, context.axes
    assert n is not None
    count = len(axes)
    grid = _grid(_spectrum_sensitivity(count, n), count)
    move = spectrum_sensitivity(axes, n, grid)
    return Measurement(
        family="spectrum",
        key=("spectrum", context.subject, context.spec.name),
        cells=tuple(f"eigenvalue {k}" for k in range(1, count + 1)),
        measures=scatter_measures(context),
        weights=(),
        l1_added_row=move,
        l1_replaced_row=move,
        step_size=grid,
        form="spectrum",
        public_rows=n,
        axes=axes,
    )


def matrix(context: Context) -> Measurement:
    """Public n: the upper triangle of the covariance matrix in steps of a grid, shifted up."""
    n, axes = context.public_rows, context.axes
    assert n is not None
    names = [c.name for c in context.columns]
    count = len(axes) * (len(axes) + 1) // 2
    grid = _grid(_matrix_sensitivity(axes, n), count)
    move = matrix_sensitivity(axes, n, grid)
    return replace(
        spectrum(context),
        family="matrix",
        key=("matrix", context.subject, context.spec.name),
        cells=tuple(
            f"covariance of {a} and {b}" for a, b in combinations_with_replacement(names, 2)
        ),
        l1_added_row=move,
        l1_replaced_row=move,
        step_size=grid,
        form="matrix",
    )


def pair_parts(axes: tuple[Axis, ...]) -> tuple[int, ...]:
    """Return what a row adds to each part before scaling: columns first, then pairs."""
    scales = [a.scale for a in axes]
    return (*(k * k for k in scales), *(a * b for a, b in combinations(scales, 2)))


def factors(axes: tuple[Axis, ...]) -> tuple[int, ...]:
    """Return the whole number by which each part is scaled."""
    parts = pair_parts(axes)
    return tuple(_BALANCE * max(parts) // part for part in parts)


def pairs(context: Context) -> Measurement:
    """Private n: a Bernstein part per column, a soft table per pair of columns."""
    axes, codes = context.axes, context.codes
    names = [c.name for c in context.columns]
    total = sum(f * part for f, part in zip(factors(axes), pair_parts(axes), strict=True))
    return Measurement(
        family="pairs",
        key=("pairs", context.subject),
        cells=(
            *(f"Bernstein cell {i} of {name}" for name in names for i in range(3)),
            *(
                f"{a} {i}, {b} {j}"
                for a, b in combinations(names, 2)
                for i in ("low", "high")
                for j in ("low", "high")
            ),
        ),
        measures=(
            *(Measure("power", c, p) for c in codes for p in range(3)),
            *(m for a, b in combinations(codes, 2) for m in pair_measures(a, b, 1)),
        ),
        weights=(),
        l1_added_row=total,
        l1_replaced_row=2 * total,
        form="pairs",
        axes=axes,
    )
