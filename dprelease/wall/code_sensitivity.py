"""The sensitivity of sums over rows of polynomials in one code or several, as the wall computes it.

A code is a cleaned value as a whole number from 0 on: of grid steps, the place of a label, or the 0 or 1 of a
condition. S is a sum over the indices that follow it.

One code. A component is c0 + c1 k + c2 k^2 summed over rows, k the row's code, in a public range. The L1 norm of
several components is the largest of the sums S s_i component_i over all choices of signs s, and each of those is such a
polynomial p_s again. So

    a row adds at most                       max over s of max |p_s|  = max over s of max p_s
    a replaced row changes them by at most   max over s of (max p_s - min p_s),

both attained. A polynomial of degree 2 has its extremes over whole k at the ends and next to its vertex.

Two codes. A cell is S_pq w_pq a^p b^q summed over rows, with p, q <= 2 and codes a in [0, A], b in [0, B]. In
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
Cells that are linear in several codes, each known or null by itself, likewise.

Where no row is without any of several codes, each cell of at most two of them is bounded by itself (`cells_apart`): in L1 by
the sum of these bounds, in L2 by that of their squares. What comes or goes attains both where all cells are largest at one corner.

Units: integer grid steps, rounded up. Sources: Lorentz, Bernstein Polynomials (1953);
`docs/theory/sensitivities-and-contribution-bounding.md#the-second-proof`, `#shared-rows`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product

from dprelease.query.bounded import Primitive

Polynomial = tuple[int, int, int]

_MOST = 8
"""Cells up to which all signs are tried; the bounds of more add up."""


def code_sensitivity(
    cells: list[Polynomial], codes: tuple[int, int], *, absent: bool
) -> tuple[int, int]:
    """Return (l1_added_row, l1_replaced_row) of cells of one code in `codes`.

    Args:
        absent: a row may be without a code, and then adds nothing.

    >>> code_sensitivity([(4, -4, 1), (0, 4, -2), (0, 0, 1)], (0, 2), absent=True)
    (4, 8)
    """
    if len(cells) > _MOST:
        parts = [code_sensitivity([c], codes, absent=absent) for c in cells]
        return sum(row for row, _ in parts), sum(swap for _, swap in parts)
    most = apart = 0
    for signs in product((1, -1), repeat=len(cells)):
        c0, c1, c2 = (sum(s * c[i] for s, c in zip(signs, cells, strict=True)) for i in range(3))
        low, high = code_range((c0, c1, c2), codes)
        most, apart = max(most, high), max(apart, high - low)
    return most, max(most, apart) if absent else apart


def polynomial(weights: Sequence[int], used: Sequence[Primitive]) -> tuple[int, int, int]:
    """Return the coefficients of one cell as a function of one row's code."""
    out = [0, 0, 0]
    for weight, primitive in zip(weights, used, strict=True):
        out[primitive.power if primitive.kind == "power" else 0] += weight
    return out[0], out[1], out[2]


def code_range(c: Polynomial, codes: tuple[int, int]) -> tuple[int, int]:
    """Return the least and greatest value of c0 + c1 k + c2 k^2 over whole k in `codes`."""
    low, high = codes
    points = {low, high}
    if c[2]:
        vertex = -c[1] // (2 * c[2])
        points |= {k for k in (vertex, vertex + 1) if low < k < high}
    values = [c[0] + c[1] * k + c[2] * k * k for k in points]
    return min(values), max(values)


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
        return corner_sensitivity(corners, absent=absent)
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


def corner_sensitivity(corners: Sequence[Sequence[int]], *, absent: bool) -> tuple[int, int]:
    """Return how far the corners' cells are from 0 and from each other, in L1."""
    row = max(sum(map(abs, cells)) for cells in corners)
    swap = max(
        sum(abs(a - b) for a, b in zip(one, other, strict=True))
        for one, other in product(corners, repeat=2)
    )
    return row, max(row, swap) if absent else swap


def cells_apart(
    weights: Sequence[Sequence[int]],
    used: Sequence[Primitive],
    spans: Mapping[int, tuple[int, int]],
) -> tuple[int, ...]:
    """Return (l1_added_row, l1_replaced_row) and their squares in L2, each cell by itself; nothing without a bound of each.

    Args:
        spans: of every code that no row is without its least and its greatest value.
    """
    powers = [_powers(p) for p in used]
    if not weights or not all(of and of.keys() <= spans.keys() for of in powers):
        return ()
    each = []
    for row in weights:
        terms = [(w, of) for w, of in zip(row, powers, strict=True) if w]
        codes = sorted({code for _, of in terms for code, power in of.items() if power})
        highest = max((power for _, of in terms for power in of.values()), default=0)
        if len(codes) > 2 or highest > 3 - len(codes):
            return ()
        if len(codes) == 1:
            c0, c1, c2 = (sum(w for w, of in terms if max(of.values()) == i) for i in range(3))
            ends: Sequence[int] = code_range((c0, c1, c2), spans[codes[0]])
        else:
            corners = (
                dict(zip(codes, at, strict=True)) for at in product(*(spans[c] for c in codes))
            )
            ends = [
                sum(w * math.prod(at.get(c, 1) ** n for c, n in of.items()) for w, of in terms)
                for at in corners
            ]
        low, high = min(ends), max(ends)
        each.append((max(-low, high), high - low))
    added, apart = (sum(ends) for ends in zip(*each, strict=True))
    square, squares = (sum(end * end for end in ends) for ends in zip(*each, strict=True))
    return added, max(added, apart), square, max(square, squares)


def _powers(p: Primitive) -> dict[int, int]:
    """Return the powers of a primitive's codes; nothing where it is no product of powers of different codes."""
    factors = [(p.code, p.power), (p.other, p.other_power)][: 1 if p.kind == "power" else 2]
    known = {code: power for code, power in factors if code is not None}
    return known if p.kind in ("power", "product") and len(known) == len(factors) else {}
