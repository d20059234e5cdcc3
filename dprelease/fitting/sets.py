"""Sets of integers as unions of runs, and their sums.

`Runs` are sorted, disjoint and not adjacent, like `GridSet.runs`; () is the empty set.

Sources  `docs/theory/publications-that-add-up.md#feasible-values`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from dprelease.core.errors import PlanError

Runs = tuple[tuple[int, int], ...]

MOST_RUNS = 4096


def joined(pairs: Iterable[tuple[int, int]]) -> Runs:
    """Return the union of runs in any order."""
    out: list[tuple[int, int]] = []
    for low, high in sorted(pairs):
        if low > high:
            continue
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        else:
            out.append((low, high))
    return tuple(out)


def added(a: Runs, b: Runs) -> Runs:
    """Return {x + y}.

    Raises:
        PlanError: it has more runs than can be handled (DPR282).
    """
    if len(a) * len(b) > MOST_RUNS**2:
        raise _broken()
    out = joined((p + r, q + s) for p, q in a for r, s in b)
    if len(out) > MOST_RUNS:
        raise _broken()
    return out


def times(a: Runs, count: int) -> Runs:
    """Return the sums of `count` members of a set; {0} for none."""
    out: Runs = ((0, 0),)
    power = a
    while count:
        if count & 1:
            out = added(out, power)
        count >>= 1
        if count:
            power = added(power, power)
    return out


def met(a: Runs, b: Runs) -> Runs:
    """Return the intersection."""
    out, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        low, high = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if low <= high:
            out.append((low, high))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return tuple(out)


def holds(runs: Runs, value: int) -> bool:
    place = bisect_right(runs, value, key=lambda run: run[0]) - 1
    return place >= 0 and value <= runs[place][1]


def nearest_in(runs: Runs, value: int, unit: int = 1) -> int:
    """Return the member nearest to value / unit, the lower one of two; `runs` is not empty."""
    place = bisect_right(runs, value, key=lambda run: run[0] * unit) - 1
    around = []
    if place >= 0:
        low, high = runs[place]
        within = min(max(-((unit - 2 * value) // (2 * unit)), low), high)  # half rounds down
        around.append(within)
    if place + 1 < len(runs):
        around.append(runs[place + 1][0])
    return min(around, key=lambda member: (abs(member * unit - value), member))


def _broken() -> PlanError:
    return PlanError(
        "the values that these tables can take fall into too many pieces",
        why=f"more than {MOST_RUNS} runs of integers",
        fix="forbid fewer values",
        code="DPR282",
    )
