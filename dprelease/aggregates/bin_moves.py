"""Which bins hold every row, so that no replaced row changes how many they hold together.

Units: codes, steps above the column's lower end. Source:
`docs/theory/sensitivities-and-contribution-bounding.md#when-the-number-of-rows-is-public`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

__all__ = ["hold_every_code"]


def hold_every_code(spans: Iterable[tuple[int, int]], reach: tuple[int, int]) -> bool:
    """Return whether every whole number in `reach` lies in exactly one of the closed `spans`.

    >>> hold_every_code([(0, 4), (5, 9)], (0, 9)), hold_every_code([(0, 4), (6, 9)], (0, 9))
    (True, False)
    """
    rising = sorted(spans)
    if not rising or any(low > high for low, high in rising):
        return False
    meet = all(b[0] == a[1] + 1 for a, b in pairwise(rising))
    return meet and rising[0][0] <= reach[0] and reach[1] <= rising[-1][1]
