"""The intervals of derived quantities, and the chance of what was seen if they were 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from dprelease.core.errors import ArgumentError
from dprelease.intervals.law import least_risk
from dprelease.reading.forms import Linear, RatioForm
from dprelease.reading.linear_interval import linear_chance, ratio_chance, ratios_ends
from dprelease.reading.projection import part_ends, projected
from dprelease.reading.quantity import Quantity, within

Method = Literal["exact", "conservative", "certain", "none"]


def intervals(found: Sequence[Quantity], level: float) -> list[tuple[float, float, Method]]:
    """Return (lower, upper, method) of each quantity at `level`.

    exact: by inversion of the convolved law. conservative: a joint region, projected; of what a suppressed
    cell enters, all values it can have.
    """
    ratios = [(i, q.form, q.domain) for i, q in enumerate(found) if isinstance(q.form, RatioForm)]
    ends = ratios_ends([form for _, form, _ in ratios], level, [domain for *_, domain in ratios])
    known = dict(zip((i for i, *_ in ratios), ends, strict=True))
    return [
        (*q.domain, "conservative")
        if q.suppressed
        else (*known[i], "exact")
        if i in known
        else (*part_ends(q, level), "exact")
        if isinstance(q.form, Linear)
        else (*projected(q, level), "conservative")
        for i, q in enumerate(found)
    ]


def certain_ends(found: Sequence[Quantity]) -> list[tuple[float, float, Method]]:
    """Return where each quantity lies for certain: of what a suppressed cell enters, all values it can have.

    Raises:
        ArgumentError: one is computed from a value whose noise has no end (DPR662).
    """
    method: Method = "certain"
    ends = [q.domain if q.suppressed else q.certain for q in found]
    known = [(*within(e, q.domain), method) for q, e in zip(found, ends, strict=True) if e]
    if len(known) == len(found):
        return known
    raise ArgumentError(
        "the expression has no certain interval",
        where="derive(…, certain=True)",
        why="it is computed from a value whose noise has no end",
        fix="leave `certain` out, or release its counts, sums and histograms with `certain: true`",
        code="DPR662",
    )


def chance_of_zero(quantity: Quantity) -> float:
    """Return a p-value: an upper bound of the chance of so large a value if the true one were 0."""
    form = quantity.form
    if quantity.suppressed:
        return 1.0
    if isinstance(form, Linear):
        return linear_chance(form)
    if isinstance(form, RatioForm) and not form.cut:
        return ratio_chance(form, 0.0)

    def inside(level: float) -> bool:
        low, high = projected(quantity, level)
        return low <= 0 <= high

    return least_risk(inside)
