"""How far one row moves cells that are polynomials of two codes: what the wall believes.

A cell is S_pq w_pq a^p b^q summed over rows, with p, q <= 2 and codes a in [0, A], b in [0, B]. In
the tensor Bernstein basis of the box, with s = a / A and t = b / B,

    cell(a, b) = S_ij beta_ij B_i(s) B_j(t),   beta_ij = S_pq w_pq A^p B^q T_pi T_qj,
    T_0 = (1, 1, 1), T_1 = (0, 1/2, 1), T_2 = (0, 0, 1),

and since the B_i(s) B_j(t) are not negative and sum to 1, the cell lies between the least and the
greatest beta_ij. If no beta of any cell is negative, the L1 norm of a row is the sum of its cells,
which lies below the greatest coefficient of the summed polynomial; otherwise the cells' bounds add
up. Both are proved for every polynomial, and exact for soft tables and tensors, whose sum is
constant. A replaced row moves twice as far at most; a single cell, by the width of its range.

Units: integer grid steps, rounded up. Sources: Lorentz, Bernstein Polynomials (1953);
`docs/theory/sensitivities-and-contribution-bounding.md#the-second-proof`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

from dprelease.query.bounded import Primitive

__all__ = ["coefficients", "pair_moves"]

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


def pair_moves(
    weights: Sequence[Sequence[int]],
    used: Sequence[Primitive],
    top: tuple[int, int],
    *,
    absent: bool,
) -> tuple[int, int]:
    """Return bounds of (l1_per_row, l1_per_swap) for the cells `weights @ used`.

    Args:
        used: products of the same two codes, powers at most 2.
        top: A, B; the least code is 0.
        absent: a row may also not be there.
    """
    cells = [coefficients(row, used, top) for row in weights]
    if not cells:  # nothing is made of them
        return 0, 0
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
