"""The sensitivity of sums of polynomials of two codes, as the wall computes it.

A cell is S_pq w_pq a^p b^q summed over rows, with p, q <= 2 and codes a in [0, A], b in [0, B]. In
the tensor Bernstein basis of the box, with s = a / A and t = b / B,

    cell(a, b) = S_ij beta_ij B_i(s) B_j(t),   beta_ij = S_pq w_pq A^p B^q T_pi T_qj,
    T_0 = (1, 1, 1), T_1 = (0, 1/2, 1), T_2 = (0, 0, 1),

and since the B_i(s) B_j(t) are not negative and sum to 1, the cell lies between the least and the
greatest beta_ij. If no beta of any cell is negative, the L1 norm of a row is the sum of its cells,
which lies below the greatest coefficient of the summed polynomial; otherwise the cells' bounds add
up. Both are proved for every polynomial, and exact for soft tables and tensors, whose sum is
constant. A replaced row changes the cells by at most twice as much, and a single cell by the width of its range.

Without squares (p, q <= 1) cells are linear in either code while the other stays. So is what a row, or the
difference of two rows, adds to them, and an L1 norm of it is convex in each code by itself: it is largest with
every code at an end. The four corners of the box, and for replaced rows their pairs, then give both sensitivities exactly.
Cells that are linear in several codes, each known or null by itself, likewise (`linear_sensitivity`).

Units: integer grid steps, rounded up. Sources: Lorentz, Bernstein Polynomials (1953);
`docs/theory/sensitivities-and-contribution-bounding.md#the-second-proof`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product

from dprelease.query.bounded import Primitive

_T = (
    (Fraction(1), Fraction(1), Fraction(1)),
    (Fraction(0), Fraction(1, 2), Fraction(1)),
    (Fraction(0), Fraction(0), Fraction(1)),
)


def coefficients(
    weights: Sequence[int], used: Sequence[Primitive], top: tuple[int, int]
) -> tuple[Fraction, ...]:
    """Return beta_ij of one cell, j running fastest; powers of `used` are at most 2."""
    out = [Fraction(0)] * 9
    for weight, p in zip(weights, used, strict=True):
        if not weight:
            continue
        size = weight * top[0] ** p.power * top[1] ** p.other_power
        for place, (i, j) in enumerate(product(range(3), repeat=2)):
            out[place] += size * _T[p.power][i] * _T[p.other_power][j]
    return tuple(out)


def pair_sensitivity(
    weights: Sequence[Sequence[int]],
    used: Sequence[Primitive],
    top: tuple[int, int],
    *,
    absent: bool,
) -> tuple[int, int]:
    """Return bounds of (l1_added_row, l1_replaced_row) for the cells `weights @ used`.

    Args:
        used: products of the same two codes, powers at most 2.
        top: A, B; the least code is 0.
        absent: a row may also not be there.
    """
    if not weights:  # nothing is made of them
        return 0, 0
    if all(max(p.power, p.other_power) <= 1 for p in used):
        corners = [
            [
                sum(w * a**p.power * b**p.other_power for w, p in zip(row, used, strict=True))
                for row in weights
            ]
            for a, b in product((0, top[0]), (0, top[1]))
        ]
        return _apart(corners, absent=absent)
    cells = [coefficients(row, used, top) for row in weights]
    if len(cells) == 1:
        low, high = min(cells[0]), max(cells[0])
        zero = Fraction(0)
        swap = max(high, zero) - min(low, zero) if absent else high - low
        return math.ceil(max(abs(low), abs(high))), math.ceil(swap)
    if all(min(cell) >= 0 for cell in cells):
        most = max(sum(parts, Fraction(0)) for parts in zip(*cells, strict=True))
    else:
        most = sum((max(map(abs, cell)) for cell in cells), Fraction(0))
    return math.ceil(most), math.ceil(2 * most)


def linear_sensitivity(
    weights: Sequence[Sequence[int]],
    used: Sequence[Primitive],
    spans: Mapping[int, tuple[int, int, bool]],
) -> tuple[int, int]:
    """Return (l1_added_row, l1_replaced_row) of cells that are linear in several codes: attained.

    Args:
        used: powers 0 and 1 of codes.
        spans: of every code its least and its greatest value, and whether a row may be without one.
    """
    codes = list(spans)
    ends = [(low, high, *((None,) if null else ())) for low, high, null in spans.values()]
    corners = []
    for chosen in product(*ends):
        at = dict(zip(codes, chosen, strict=True))
        adds = [_adds(at[p.code], p.power) for p in used if p.code is not None]
        corners.append([sum(w * a for w, a in zip(row, adds, strict=True)) for row in weights])
    return _apart(corners, absent=True)


def _adds(code: int | None, power: int) -> int:
    return 0 if code is None else code**power


def _apart(corners: Sequence[Sequence[int]], *, absent: bool) -> tuple[int, int]:
    """Return how far the corners' cells are from 0 and from each other, in L1."""
    row = max(sum(map(abs, cells)) for cells in corners)
    swap = max(
        sum(abs(a - b) for a, b in zip(one, other, strict=True))
        for one, other in product(corners, repeat=2)
    )
    return row, max(row, swap) if absent else swap
