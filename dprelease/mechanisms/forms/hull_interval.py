"""Which answers make a drawn value likely enough: intervals of laws whose P_q(Y <= y) falls in q.

Both ends are found by bisection over the hull, for all groups at once: one evaluation of the law's
distribution function per halving, whatever the size of the domain. A value that even an end of the hull
draws, or passes, with less than both tails together is read as the first one that it does not: else 0 would be
published as certain under wide noise. More answers cover as well. An empty set becomes the nearer end of the hull.

Units    answers and draws in grid steps. Shapes: `(groups,)`.
Sources  `docs/theory/intervals.md#inversion`.
Limits   hulls within +-2**60 steps, so that the sum of two points fits 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dprelease.mechanisms.arguments import FloatArray, IntArray, check_level
from dprelease.schema.domain import GridSet

MIDDLE = 1e-9
"""A level so low that an interval at it holds only the answers whose median the draw may be."""


def likely_answers(
    allowed: GridSet,
    y: IntArray,
    level: float,
    below: Callable[[IntArray, IntArray], FloatArray],
    *,
    room: float = 1e-6,
    off: float = 0.0,
) -> tuple[IntArray, IntArray]:
    """Return the ends of {q in hull: P_q(Y >= y) and P_q(Y <= y) at least (1 - level) / 2}, or of more near an end.

    Args:
        y: drawn values inside the hull.
        below: P_q(Y <= y) for arrays q and y, within `off` of a function that falls in q.
        room: part of the tail chance by which the interval is widened, for the float view's error.
        off: 2 off more of the tail chance: then no answer is left out that belongs to the set.

    Raises:
        ArgumentError: a level outside (0, 1) (DPR625).
    """
    check_level(level)
    alpha = (1 - level) / 2 * (1 - room) - 2 * off
    turn = allowed.lower + allowed.upper
    if level > 0.5:  # the median of a draw is not moved
        first, last = np.array([allowed.lower]), np.array([allowed.upper])
        least = first_answer(allowed, first, lambda x: below(first, x) >= 2 * alpha)
        most = turn - first_answer(
            allowed, last, lambda x: 1 - below(last, turn - x - 1) >= 2 * alpha
        )
        y = np.minimum(np.maximum(y, least), most)
    lows = first_answer(allowed, y, lambda q: 1 - below(q, y - 1) >= alpha)
    highs = turn - first_answer(allowed, y, lambda q: below(turn - q, y) >= alpha)
    return np.minimum(lows, highs), np.maximum(lows, highs)


def first_answer(
    allowed: GridSet, y: IntArray, holds: Callable[[IntArray], npt.NDArray[np.bool_]]
) -> IntArray:
    """Return the smallest hull point where `holds` (monotone in q), else the upper end, per `y`."""
    low = np.full(y.shape, allowed.lower, dtype=np.int64)
    high = np.full(y.shape, allowed.upper, dtype=np.int64)
    for _ in range(allowed.hull_steps.bit_length()):
        middle = (low + high) // 2
        good = holds(middle)
        high = np.where(good, middle, high)
        low = np.where(good, low, np.minimum(middle + 1, high))
    return high
