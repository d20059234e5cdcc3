"""The wall's own sensitivities of forms that are no weighted sums: made from what the engine counts, nothing else.

    ranks     the spread of scores, from the targets that the engine tallies around
    trees     of bins: a row is in one bin of every level
    spectra   of covariance matrices, apart from what is claimed: `statistics.spectrum` claims these numbers, and nothing
              of it is imported. Here the sum of products R_i R_j over i <= j is half of (S R_j)^2 + S R_j^2, and 2 / sqrt 3
              comes by an integer root. Shared is the solver's own error, `certified_eigen.backward_error`, which is
              compared with exact eigenvalues

Units: scores in rows times the targets' denominator, of values chosen together that times PARTS; rows; L1 steps of the
measurement's grid.
Sources: `docs/theory/quantiles.md#spread-of-the-scores`, `#several-quantiles-together`;
`docs/theory/sensitivities-and-contribution-bounding.md#trees-over-bins`;
`docs/theory/graphs-and-spectra.md#covariance-matrices`, `#spectra-of-two-tables`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor, isqrt

from dprelease.query.bounded import BoundedQuery, Fixed, Primitive
from dprelease.statistics.bin_sensitivity import apart
from dprelease.statistics.certified_eigen import backward_error
from dprelease.statistics.clipped import limit_spreads
from dprelease.statistics.joint_ranks import joint_spreads
from dprelease.statistics.measurement import Axis, Measurement
from dprelease.statistics.rank_interval import interval_spreads
from dprelease.statistics.ranks import spreads
from dprelease.statistics.recursive_ranks import recursive_spreads
from dprelease.statistics.tree_shape import tree_of
from dprelease.wall.sums_of_groups import set_sensitivity

_BITS = 64
_TWO_BY_ROOT_THREE = Fraction(isqrt((4 << 2 * _BITS) // 3) + 1, 1 << _BITS)


def form_sensitivity(
    query: BoundedQuery, measurement: Measurement, used: Sequence[Primitive]
) -> tuple[int, ...]:
    """Return the spreads of an added and of a replaced row; of winsorised rows, trees and tables how far their cells move.

    Raises:
        ValueError: the scores are not the ranks of one column's values, or the cells no tree over its bins, in words.
    """
    if measurement.form == "binned_tree":
        return _tree(measurement, used)
    if measurement.form == "table_set":
        return set_sensitivity(query, measurement, used)
    codes = [query.codes[p.code] for p in used if p.code is not None]
    if [p.kind for p in used] != ["tally"] or len(codes) != 1 or not isinstance(codes[0], Fixed):
        raise ValueError("its scores are not the ranks of one column's values")
    if measurement.form == "ranks":
        return _alone(measurement, used[0])
    if measurement.form == "winsorised":
        return _clipped(measurement, used[0])
    if measurement.form == "rank_interval":
        return _three(measurement, used[0])
    if used[0].near is not None:  # every gap of rows counts, wherever it lies
        raise ValueError("its values are chosen together, and codes far from one rank are left out")
    if measurement.form == "recursive_ranks":
        return recursive_spreads(measurement.weights)
    return joint_spreads(measurement.weights)


def _clipped(measurement: Measurement, tally: Primitive) -> tuple[int, int]:
    """Return what an added and a replaced row move cells between two limits, in units of one row there.

    Clamped to whatever limits, a row adds non-negative parts that add up to one such unit.
    """
    limit_spreads(measurement.weights)
    if tally.near is not None:
        raise ValueError("its sums are of all rows, and codes far from one rank are left out")
    return 1, 2


def _three(measurement: Measurement, tally: Primitive) -> tuple[int, int]:
    if tally.near is not None or [len(w) for w in measurement.weights] != [3]:
        raise ValueError(
            "its three values are not chosen by the ranks of all rows around one target"
        )
    a, b, offset = measurement.weights[0]
    return interval_spreads(a, b, offset)


def _alone(measurement: Measurement, tally: Primitive) -> tuple[int, int]:
    target = measurement.weights[0] if len(measurement.weights) == 1 else ()
    around = "its scores are not the ranks of one column's values around one target"
    if len(target) != 3 or not 0 <= target[0] <= target[1] or target[1] < 1:
        raise ValueError(around)
    near = tally.near  # codes left out are those of another rank, unless it is the same
    if near is not None and (near.a, near.b, near.offset) != target:
        raise ValueError(around)
    return spreads(target[0], target[1], target[2])


def _tree(measurement: Measurement, used: Sequence[Primitive]) -> tuple[int, int]:
    """Return what moves in a tree over disjoint bins of one code: 1 and 2 in every level, as a row has one code at most."""
    if len({p.code for p in used}) != 1 or any(p.kind != "between" for p in used):
        raise ValueError("its tree is not made of bins of one code")
    if not apart((p.low, p.high) for p in used):
        raise ValueError("its tree is not made of disjoint bins")
    tree = tree_of(measurement)
    if tree.bins != len(used):
        raise ValueError("its tree has other bins than are counted")
    return len(tree.widths), 2 * len(tree.widths)


def eigenvalue_sensitivity(axes: tuple[Axis, ...], rows: int, step: Fraction) -> int:
    """Return how far the rounded eigenvalues of two tables of `rows` rows lie apart, one row replaced."""
    count = len(axes)
    quotients = Fraction(count, 2**54)
    missed = quotients + Fraction(backward_error(count, Fraction(1, 4) + quotients))
    apart = _TWO_BY_ROOT_THREE * _row_part(rows) + 2 * count * missed
    return floor(apart / step) + count


def entry_sensitivity(axes: tuple[Axis, ...], rows: int, step: Fraction) -> int:
    """Return how far the rounded entries of the upper triangle lie apart, all together."""
    widths = [axis.width for axis in axes]
    square = sum((w * w for w in widths), Fraction(0))
    products = (sum(widths, Fraction(0)) ** 2 + square) / 2
    entries = len(axes) * (len(axes) + 1) // 2
    return floor(_row_part(rows) * products / square / step) + entries


def _row_part(rows: int) -> Fraction:
    """Return 1/n - 1/n^2: a row's part of the matrix, less its part of the means."""
    return Fraction(1, rows) - Fraction(1, rows) ** 2
