"""How far a row moves bins, and which of them hold every row, so that no replaced row changes their sum.

Units: codes, steps above the column's lower end. Source:
`docs/theory/sensitivities-and-contribution-bounding.md#when-the-number-of-rows-is-public`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from dprelease.query.bounded import Fixed, Primitive

if TYPE_CHECKING:
    from dprelease.statistics.measurement import Measure


def apart(spans: Iterable[tuple[int, int]]) -> bool:
    """Return whether no code lies in two of the closed `spans`."""
    return all(a[1] < b[0] for a, b in pairwise(sorted(spans)))


def bin_sensitivity(weights: Sequence[Sequence[int]], spans: Sequence[tuple[int, int]]) -> int:
    """Return the L1 sensitivity to one row: it lies in at most one of disjoint bins, else it could lie in all of them."""
    each = [sum(abs(row[j]) for row in weights) for j in range(len(spans))]
    return max(each) if apart(spans) else sum(each)


def each_alone(weights: Sequence[Sequence[int]], count: int) -> bool:
    """Return whether each of `count` measures is a cell; where no weights are listed they are (`Measurement.alone`)."""
    n = range(count)
    return not weights or weights == tuple(tuple(int(i == j) for j in n) for i in n)


def lone_bins(used: Sequence[Primitive], cells: int) -> tuple[int, int] | None:
    """Return how far an added and a replaced row move cells that are a bin of one code each; None for other cells."""
    if (
        len(used) != cells
        or {p.kind for p in used} != {"between"}
        or len({p.code for p in used}) > 1
    ):
        return None
    added = 1 if apart((p.low, p.high) for p in used) else cells
    return added, 2 * added


def every_row(bins: Sequence[Measure]) -> bool:
    """Return whether every code of a column without nulls lies in one of these bins of it."""
    code = bins[0].code
    if not isinstance(code, Fixed) or code.default is None:
        return False
    ends = min(0, code.default), max(code.grid.hull_steps, code.default)
    return hold_every_code(((m.low, m.high) for m in bins), ends)


def hold_every_code(spans: Iterable[tuple[int, int]], span: tuple[int, int]) -> bool:
    """Return whether every whole number in `span` lies in exactly one of the closed `spans`.

    >>> hold_every_code([(0, 4), (5, 9)], (0, 9)), hold_every_code([(0, 4), (6, 9)], (0, 9))
    (True, False)
    """
    rising = sorted(spans)
    if not rising or any(low > high for low, high in rising):
        return False
    meet = all(b[0] == a[1] + 1 for a, b in pairwise(rising))
    return meet and rising[0][0] <= span[0] and span[1] <= rising[-1][1]
