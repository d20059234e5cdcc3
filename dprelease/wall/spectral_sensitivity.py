"""What one replaced row can change of a covariance matrix, for the wall: made again, apart from what is claimed.

`spectrum` claims these numbers for its measurements. Here they are made in another way and import nothing of it:
the sum of products R_i R_j over i <= j as half of (S R_j)^2 + S R_j^2, and 2 / sqrt 3 by an integer root. Shared
is the solver's own error, `certified_eigen.backward_error`, which is compared with exact eigenvalues.

Units: steps of the measurement's grid, L1.
Sources: `docs/theory/graphs-and-spectra.md#covariance-matrices`,
`docs/theory/graphs-and-spectra.md#spectra-of-two-tables`.
"""

from __future__ import annotations

from fractions import Fraction
from math import floor, isqrt

from dprelease.statistics.certified_eigen import backward_error
from dprelease.statistics.measurement import Axis

_BITS = 64
_TWO_BY_ROOT_THREE = Fraction(isqrt((4 << 2 * _BITS) // 3) + 1, 1 << _BITS)


def eigenvalue_sensitivity(axes: tuple[Axis, ...], rows: int, step: Fraction) -> int:
    """Return how far the rounded eigenvalues of two tables of `rows` rows lie apart, one row replaced."""
    count = len(axes)
    quotients = Fraction(count, 2**54)
    missed = quotients + Fraction(backward_error(count, Fraction(1, 4) + quotients))
    apart = _TWO_BY_ROOT_THREE * _kept(rows) + 2 * count * missed
    return floor(apart / step) + count


def entry_sensitivity(axes: tuple[Axis, ...], rows: int, step: Fraction) -> int:
    """Return how far the rounded entries of the upper triangle lie apart, all together."""
    widths = [axis.width for axis in axes]
    square = sum((w * w for w in widths), Fraction(0))
    products = (sum(widths, Fraction(0)) ** 2 + square) / 2
    entries = len(axes) * (len(axes) + 1) // 2
    return floor(_kept(rows) * products / square / step) + entries


def _kept(rows: int) -> Fraction:
    """Return 1/n - 1/n^2: a row's part of the matrix, less its part of the means."""
    return Fraction(1, rows) - Fraction(1, rows) ** 2
