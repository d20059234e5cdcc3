"""How far a row moves bins, and which of them hold every row, so that no replaced row changes their sum.

Units: codes, steps above the column's lower end. Source:
`docs/theory/sensitivities-and-contribution-bounding.md#when-the-number-of-rows-is-public`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise


def apart(spans: Iterable[tuple[int, int]]) -> bool:
    """Return whether no code lies in two of the closed `spans`."""
    return all(a[1] < b[0] for a, b in pairwise(sorted(spans)))


def bin_sensitivity(weights: Sequence[Sequence[int]], spans: Sequence[tuple[int, int]]) -> int:
    """Return the L1 sensitivity to one row: it lies in at most one of disjoint bins, else it could lie in all of them."""
    each = [sum(abs(row[j]) for row in weights) for j in range(len(spans))]
    return max(each) if apart(spans) else sum(each)


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
