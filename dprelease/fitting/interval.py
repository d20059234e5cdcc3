"""The interval of a cell: that of its least-squares estimate, inside the hull of its domain.

An estimate outside the hull is moved to its nearer end first. That brings it nearer to every value in the hull,
so coverage only grows; and an interval is never a single point because the noise went far beyond an end, which
would look like certainty.

An exact value that is a whole step lies in the interval if and only if it lies in the interval cut
to whole steps, so the ends round inwards; a value that was itself rounded to the step adds what it
moved by. Integers only: the half width comes from the plan.

Units    ends in steps; values in 1 / `ONE` step.
Sources  `docs/theory/publications-that-add-up.md#intervals`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from dprelease.fitting.estimate import ONE, Estimator
from dprelease.intervals.few import EXACT, exact_quantile
from dprelease.intervals.law import COARSE, FINE, quantile_of


def half_widths(
    estimator: Estimator, table: str, level: float = 0.95, *, many: int = 64
) -> list[Fraction]:
    """Return the half width per class of a table's cells, in the order of `classes`.

    Where there are `many` classes the series is a fourth as long: at most 3 % of a standard
    deviation wider.
    """
    _, first = np.unique(estimator.classes(table), return_index=True)
    points = FINE if first.size < many else COARSE
    out = []
    for cell in first.tolist():
        law, terms = estimator.law(table, cell), estimator.terms(table, cell)
        exact = None if law.bulk.variance else exact_quantile(terms, level, most=EXACT)
        out.append(quantile_of(law, level, points=points) if exact is None else exact)
    return out


def ends(
    values: Sequence[int],
    halves: Sequence[Fraction],
    hull: tuple[int, int],
    *,
    slack: Fraction = Fraction(0),
    whole: bool = True,
) -> tuple[list[int], list[int]]:
    """Return the lower and the upper end of every cell, in steps.

    Args:
        values: estimates, in 1 / `ONE` step.
        halves: the half width of each cell, in steps.
        hull: the least and the greatest exact value.
        slack: how far, in steps, an estimate or an exact value may have been rounded.
        whole: whether exact values are whole steps: ends then round inwards, else outwards.
    """
    low, high = hull
    lows, highs = [], []
    widened = {half: math.ceil((half + slack) * ONE) for half in set(halves)}
    for estimate, half in zip(values, halves, strict=True):
        apart, value = widened[half], min(max(estimate, low * ONE), high * ONE)
        if whole:
            first, last = -((apart - value) // ONE), (value + apart) // ONE
            if first > last:  # no whole step lies inside: the nearest one
                first = last = (2 * value + ONE) // (2 * ONE)
        else:
            first, last = (value - apart) // ONE, -((-value - apart) // ONE)
        lows.append(min(max(first, low), high))
        highs.append(max(min(last, high), low))
    return lows, highs


def holding(
    values: Sequence[int],
    lows: Sequence[int],
    highs: Sequence[int],
    runs: Sequence[tuple[int, int]],
) -> tuple[list[int], list[int]]:
    """Return intervals that hold their published values, but for values at the edge of a gap: a status says it.

    What is whole, or not negative, may lie beyond what was measured; a wider interval covers too.

    Args:
        runs: the allowed values.
    """
    edges = {k for (_, left), (right, _) in pairwise(runs) for k in (left, right)}
    kept = [
        (low, high) if value in edges else (min(low, value), max(high, value))
        for value, low, high in zip(values, lows, highs, strict=True)
    ]
    return [low for low, _ in kept], [high for _, high in kept]
