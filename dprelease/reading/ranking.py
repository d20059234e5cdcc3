"""Ranks with intervals: which place a group has, among all of them.

All true values lie in their own intervals together with probability >= level (Bonferroni over the
groups). A group whose interval lies wholly above another's ranks before it. So every group's rank lies
between 1 + (groups surely above it) and all groups but those surely below, for all groups at once:
the ranking as a whole may be read. Where all lie in theirs for certain, so do the ranks.

Source: a simultaneous region, projected; see `docs/theory/intervals.md#derived-values`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from dprelease.reading.interval import Method, certain_ends, intervals
from dprelease.reading.quantity import Quantity
from dprelease.results.rules import SUPPRESSED


def ranked(
    found: Sequence[Quantity], level: float, *, certain: bool = False
) -> list[tuple[float | None, float, float, str, Method]]:
    """Return (rank, least, most, status, method) per group; 1 is the largest value."""
    count = len(found)
    share = 1 - (1 - level) / count
    known = certain_ends(found) if certain else intervals(found, share)
    ends = [(low, high) for low, high, _ in known]
    lows, highs = sorted(low for low, _ in ends), sorted(high for _, high in ends)
    values = sorted(q.value for q in found if q.value is not None)
    method: Method = "certain" if certain else "conservative"
    out: list[tuple[float | None, float, float, str, Method]] = []
    for quantity, (low, high) in zip(found, ends, strict=True):
        least = 1 + count - bisect_right(lows, high)
        most = count - bisect_left(highs, low)
        place = (
            None
            if quantity.value is None
            else 1 + len(values) - bisect_right(values, quantity.value)
        )
        rank = None if place is None else float(min(max(place, least), most))
        open_ = least == 1 and most == count and count > 1
        status = "uninformative" if rank is None or open_ else "ok"
        status = SUPPRESSED if quantity.suppressed else status
        out.append((rank, float(least), float(most), status, method))
    return out
