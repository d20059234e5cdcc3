"""The sensitivity of sums of polynomials of one code, as the wall computes it.

A component is c0 + c1 k + c2 k^2 summed over rows, with a whole code k in a public range. The L1 norm of several
components is the largest of the sums S s_i component_i over all choices of signs s, and each of those is such a
polynomial p_s again. So

    a row adds at most                       max over s of max |p_s|  = max over s of max p_s
    a replaced row changes them by at most   max over s of (max p_s - min p_s),

both attained. A polynomial of degree 2 has its extremes over whole k at the ends and beside its vertex.

Units: integer grid steps. Source: `docs/theory/sensitivities-and-contribution-bounding.md#the-second-proof`.
"""

from __future__ import annotations

from itertools import product

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


def code_range(c: Polynomial, codes: tuple[int, int]) -> tuple[int, int]:
    """Return the least and greatest value of c0 + c1 k + c2 k^2 over whole k in `codes`."""
    low, high = codes
    points = {low, high}
    if c[2]:
        vertex = -c[1] // (2 * c[2])
        points |= {k for k in (vertex, vertex + 1) if low < k < high}
    values = [c[0] + c[1] * k + c[2] * k * k for k in points]
    return min(values), max(values)
