"""Ranks with intervals: which place a group has, among all of them.

All true values lie in their own intervals together with probability >= level (Bonferroni over the
groups). A group whose interval lies wholly above another's ranks before it. So every group's rank lies
between 1 + (groups surely above it) and all groups but those surely below, for all groups at once:
the ranking as a whole may be read. Where all lie in theirs for certain, so do the ranks.

Source: a simultaneous region, projected; see `docs/theory/intervals.md#derived-values`.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from dprelease.intervals.law import least_risk
from dprelease.reading.forms import Linear
from dprelease.reading.interval import Method, certain_ends, intervals
from dprelease.reading.measurement import MeasuredValue
from dprelease.reading.quantity import Quantity, combined
from dprelease.results.draw import LEVEL
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


def topmost(found: Sequence[Quantity], count: int, *, certain: bool = False) -> Mapping[int, float]:
    """Return the places of the `count` greatest values, the greatest first, and how sure each belongs there.

    A group belongs there if fewer than `count` others have a true value that is as large. Equal values at the end are
    all there. The confidence is 1 less an upper bound of the chance that a group which does not belong is so far ahead
    (`docs/theory/intervals.md#derived-values`); rounded down. `certain`: those alone that belong for certain.
    """
    values = {i: q.value for i, q in enumerate(found) if q.value is not None}
    order = sorted(values, key=lambda i: -values[i])
    chosen = [i for i in order if values[i] >= values[order[:count][-1]]]
    if certain:
        most = [row[2] for row in ranked(found, 1.0, certain=True)]
        return {i: 1.0 for i in chosen if most[i] <= count}
    others = _rivals(found, count)
    out = {}
    for i in chosen:
        chances = sorted(
            (_led_by_noise(found[i], found[j]) for j in others if j != i), reverse=True
        )
        chance = count * chances[count - 1] if len(chances) >= count else 0.0
        out[i] = max(0.0, math.floor((1 - chance) * 10_000) / 10_000)
    return out


def _rivals(found: Sequence[Quantity], count: int) -> list[int]:
    """Return the groups that are not surely led by more than `count` others: of one law, those with the largest draws."""
    laws: dict[object, list[tuple[float, float, int]]] = {}
    for i, (quantity, (_, high, _)) in enumerate(zip(found, intervals(found, LEVEL), strict=True)):
        law: object = i
        drawn = quantity.value
        match quantity.form:
            case _ if drawn is None:
                drawn = 0.0
            case Linear(terms=terms, slack=slack) as form if len(terms) == 1:
                ((cell, weight),), drawn = terms.items(), float(form.observed)
                law = (getattr(cell, "noise", i), getattr(cell, "rounding", 0), weight, slack)
            case MeasuredValue(of=block, statistic=statistic, columns=columns) if block.one_cell:
                law = (block, statistic.name, columns)
        laws.setdefault(law, []).append((-drawn, -high, i))
    return [i for same in laws.values() for *_, i in sorted(same)[: count + 1]]


def _led_by_noise(one: Quantity, other: Quantity) -> float:
    """Return an upper bound of the chance of this lead or a larger one if the true value is not the larger one."""
    lead = combined("-", one, other)
    chance = least_risk(lambda level: intervals([lead], level)[0][0] <= 0)
    return chance / 2 if isinstance(lead.form, Linear) and chance < 1 else chance
