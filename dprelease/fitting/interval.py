"""The interval of a cell: that of its least-squares estimate, inside the hull of its domain.

An estimate outside the hull is moved to its nearer end first. That brings it nearer to every value in the hull,
so coverage only grows; and an interval is never a single point because the noise went far beyond an end, which
would look like certainty.

An exact value that is a whole step lies in the interval if and only if it lies in the interval cut
to whole steps, so the ends round inwards; a value that was itself rounded to the step adds what it
moved by. Integers only: the half width comes from the plan.

Units    ends in steps; values in 1 / `ONE` step.
Sources  `docs/theory/publications-that-add-up.md#intervals`, `docs/theory/certain-intervals.md#sums-and-quotients`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.fitting.estimate import ONE, Estimator
from dprelease.fitting.structure import Structure
from dprelease.intervals.few import EXACT, exact_quantile
from dprelease.intervals.law import COARSE, FINE, quantile_of

Ends = tuple[npt.NDArray[Any], npt.NDArray[Any]]


def half_widths(
    estimator: Estimator,
    table: str,
    level: float = 0.95,
    *,
    many: int = 64,
    known: dict[Any, Fraction] | None = None,
) -> list[Fraction]:
    """Return the half width per class of a table's cells, in the order of `classes`.

    Where there are `many` classes the series is a fourth as long: at most 3 % of a standard
    deviation wider. `known`: half widths by terms, which are looked up and added.
    """
    _, first = np.unique(estimator.classes(table), return_index=True)
    points = FINE if first.size < many else COARSE
    out = []
    for cell in first.tolist():
        terms = estimator.terms(table, cell)
        if known is not None and (terms, points) in known:
            out.append(known[terms, points])
            continue
        law = estimator.law(table, cell)
        exact = None if law.bulk.variance else exact_quantile(terms, level, most=EXACT)
        out.append(quantile_of(law, level, points=points) if exact is None else exact)
        if known is not None:
            known[terms, points] = out[-1]
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
    wider = [
        (low, high) if value in edges else (min(low, value), max(high, value))
        for value, low, high in zip(values, lows, highs, strict=True)
    ]
    return [low for low, _ in wider], [high for _, high in wider]


def certain_ends(
    structure: Structure,
    blocks: Mapping[str, Any],
    noisy: Mapping[str, Sequence[int]],
    table: str,
    hull: tuple[int, int],
) -> Ends:
    """Return where every exact cell lies for certain, in whole steps; NaN where no noise ends.

    A sum of cells lies between the sums of their ends: all that a table and finer ones say of a cell is true.

    Args:
        blocks: of every table that was measured; noisy: its integers.
    """
    cells = structure.table(table).cells
    ending = {n: b.law for n, b in blocks.items() if b.law.bound}
    if not ending:
        return np.full(cells, np.nan), np.full(cells, np.nan)
    low, high = (np.full(cells, end, dtype=object) for end in hull)
    for name, law in ending.items():
        if (inside := structure.inside(name, table)) is None:
            continue
        found = law.certain(np.array(noisy[name], dtype=object))
        empty = structure.empty(structure.table(name))
        sums = np.zeros((2, cells), dtype=object)
        for total, end in zip(sums, found, strict=True):
            np.add.at(total, inside, np.where(empty, 0, end))
        low = np.maximum(low, np.clip(sums[0], *hull))
        high = np.minimum(high, np.clip(sums[1], *hull))
    return low, high
