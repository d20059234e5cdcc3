"""A quantile with an interval: three values by rank, the ends aimed so far outside that they rarely miss.

With k rows more at the lowest and at the highest candidate, which nobody has, ranks from -k to n + k exist in every
group. The value aims at a n / b of the n rows, the lower end k rows before it, the upper end k rows after it. A
candidate above the quantile has at least a n / b rows below it, so it is k rows or more from the lower end's aim:
where no choice misses by that much, the lower end is at most the quantile, and the upper end at least. Where fewer
than k rows lie on one side, that end is likely the domain's own.

Each choice has the spread of `statistics.ranks.spreads`, the k rows being the same for all tables; they are drawn
apart, so the spreads of the three add up.

Units: ranks in rows, scores in rows / b; codes in steps above the lowest candidate.
Source: `docs/theory/quantiles.md#an-interval-for-the-value`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dprelease.statistics.joint_ranks import Positions
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.ranks import Stretches, spreads

CHOICES = 3


def interval_spreads(a: int, b: int, offset: int) -> tuple[int, int]:
    """Return the spreads of all three choices together; ValueError for a least or greatest value."""
    if not 0 < a < b or offset:
        raise ValueError("an interval is around a quantile inside the rows")
    row, swap = spreads(a, b, offset)
    return CHOICES * row, CHOICES * swap


def with_interval(alone: Measurement) -> Measurement:
    """Return a quantile's measurement with both ends of an interval beside its value."""
    row, swap = interval_spreads(*alone.weights[0])
    return replace(
        alone,
        family="rank_interval",
        key=("rank_interval", *alone.key[1:]),
        cells=(*alone.cells, "lower end of its interval", "upper end of its interval"),
        l1_added_row=row,
        l1_replaced_row=swap,
        form="rank_interval",
    )


def interval_scores(rows: Positions, last: int, inside: int) -> tuple[Stretches, ...]:
    """Return the scores for the value, the lower and the upper end.

    Args:
        last: the highest candidate; inside: k, at least 1.
    """
    ((a,), b), n = (rows.targets, rows.b), rows.total
    codes = np.union1d(rows.codes, [0, last])
    found = rows.over(codes)
    below = found.below + inside * (codes > 0)
    upto = found.upto + inside + inside * (codes == last)
    edges = np.concatenate([[0], upto])
    out = []
    for aim in (inside, 0, 2 * inside):
        target = a * n + b * aim
        at = np.maximum(b * below - target, target - b * upto)
        out.append(Stretches(codes, at, np.abs(b * edges - target)))
    return tuple(out)
