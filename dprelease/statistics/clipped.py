"""Exact cells of rows that are clamped to two drawn limits, from rows per value.

With limits at the codes low < high, w = high - low, and t = (clamped code - low) / w in [0, 1], the cells are

    degree 1   w S(t), w S(1 - t)                              one row adds exactly w
    degree 2   w^2 S((1 - t)^2), w^2 S(2 t (1 - t)), w^2 S(t^2)      one row adds exactly w^2

as `statistics.scalar.two_sums` and `bernstein2` over the declared range, so in units of w^degree what one unit
can move does not depend on the limits. Both draws look at one tally: nothing is scanned twice, and all
engines have the same integers.

Spread of both limits' scores. One added row moves the scores of one limit by -(b - a) .. b - a only where it lies beyond
it, and then those of the other by b at most in all; so both together have the spread 3 b - 2 a, and not twice
2 (b - a). One replaced row may move each by 2 b.

Units: codes in steps above the lowest candidate; scores in rows / b for the share a / b.
Source: `docs/theory/winsorised-statistics.md#two-draws`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dprelease.schema.domain import GridSet

if TYPE_CHECKING:
    from dprelease.statistics.joint_ranks import Positions

Ints = npt.NDArray[np.int64]

DEGREES = (1, 2)
_EXACT = 2**62
_EQUAL_STEPS = 1024
_GROWTH = 32


def limit_spreads(weights: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Return the spreads of both limits' scores together, of one added and of one replaced row.

    Raises:
        ValueError: the targets are not a quantile below the middle and the one as far from the other end.
    """
    low, high = weights if len(weights) == len(DEGREES) else ((), ())
    fits = len(low) == len(high) == 3 and low[2] == high[2] == 0
    if not (fits and 0 < 2 * low[0] < low[1] == high[1] and high[0] == low[1] - low[0]):
        raise ValueError("its limits are not a quantile and the one as far from the other end")
    a, b, _ = low
    return 3 * b - 2 * a, 4 * b


@lru_cache(maxsize=64)
def limit_points(grid: GridSet) -> Ints:
    """Return the points that may be limits, rising: all of a small grid, else some thousand, public like the grid.

    A limit must not be exact, and every value beyond the rows makes it harder to find. So of wide grids there are
    `_EQUAL_STEPS` points at equal distances, and points whose distance from 0 grows by a part of `_GROWTH`.
    """
    if len(grid) <= 2 * _EQUAL_STEPS:
        return grid.points()
    steps = {grid.lower + grid.hull_steps * i // _EQUAL_STEPS for i in range(_EQUAL_STEPS + 1)}
    far, most = 0, max(abs(grid.lower), abs(grid.upper))
    while far <= most:
        steps |= {k for k in (-far, far) if grid.lower <= k <= grid.upper}
        far += max(1, far // _GROWTH)
    return np.unique(grid.nearest(np.array(sorted(steps), dtype=np.int64)))


def limit_scores(rows: Positions, codes: Ints) -> tuple[Ints, Ints]:
    """Return the scores of these candidates for either limit: b times the distance in ranks, `(candidates,)`."""
    found = rows.over(codes)
    low, high = (
        np.maximum(np.maximum(rows.b * found.below - t, t - rows.b * found.upto), 0)
        for t in (a * rows.total for a in rows.targets)
    )
    return low, high


def clipped(rows: Positions, low: int, high: int, degree: int) -> list[int]:
    """Return the cells of the rows clamped to [low, high], low < high."""
    width = high - low
    t = np.clip(rows.codes, low, high) - low
    counts = rows.upto - rows.below
    if width**degree * max(1, rows.total) >= _EXACT:
        t, counts = t.astype(object), counts.astype(object)
    parts = (t**i * (width - t) ** (degree - i) * math.comb(degree, i) for i in range(degree + 1))
    cells = [int((part * counts).sum()) for part in parts]
    # Of two, the sum above the lower limit comes first.
    return cells if degree > 1 else cells[::-1]
