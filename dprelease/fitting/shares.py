"""Share every parent's value among its children: the nearest integers that add up, all parents at once.

    minimise S w (R v - t)^2   over v in the children's sets with S v = the parent's value

for targets t in 1/R step, R = 2^16, and whole weights w. With a multiplier m per parent every child
takes the v that minimises w (R v - t)^2 - 2 m R v; the sum of these rises with m, which is found by
bisection over the integers. Without gaps the breakpoints are integers, so the children at the
last one settle the rest exactly: the optimum. Across gaps what is left is settled by
`mending`, and the multiplier bounds how far that is from the optimum.

All arithmetic is on 64-bit integers: children move at most `FAR` steps from their targets here, and
a parent that asks for more is settled by `mending` too.

Units    targets in 1/R step, values in steps.
Sources  `docs/theory/publications-that-add-up.md#parents-first`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dprelease.fitting.estimate import ONE, by_parent
from dprelease.fitting.mending import Child, mended
from dprelease.fitting.sets import Runs
from dprelease.fitting.structure import IntArray

FINE = 2**16
"""Units of a target per step (R)."""
FAR = 2**34
_TOP = 2**60
_FIRST = 2**24


@dataclass(frozen=True)
class Shares:
    """Values per child, multipliers per parent, and which parents were not settled exactly."""

    values: list[int]
    multipliers: list[int]
    mended: int


@dataclass
class Children:
    """Children sorted by parent, as distances from `base`, the targets' whole parts."""

    targets: list[int]
    sets: list[Runs]
    weights: IntArray
    starts: IntArray
    sizes: IntArray = field(init=False)
    unit: IntArray = field(init=False)
    offsets: IntArray = field(init=False)
    base: IntArray = field(init=False)
    rest: IntArray = field(init=False)
    low: IntArray = field(init=False)
    high: IntArray = field(init=False)
    gapped: list[tuple[IntArray, IntArray, IntArray]] = field(init=False)

    def __post_init__(self) -> None:
        self.sizes = np.diff(self.starts, append=len(self.targets))
        self.unit = self.weights * FINE
        self.offsets = np.zeros(len(self.targets), dtype=np.int64)
        inside = [
            min(max(t // FINE, s[0][0]), s[-1][1])
            for t, s in zip(self.targets, self.sets, strict=True)
        ]
        self.base = np.array(inside, dtype=np.int64)
        far = [
            min(max(t - b * FINE, -FAR * FINE), FAR * FINE)
            for t, b in zip(self.targets, inside, strict=True)
        ]
        self.rest = np.array(far, dtype=np.int64)
        ends = np.array([(s[0][0], s[-1][1]) for s in self.sets], dtype=np.int64)
        self.low = np.maximum(ends[:, 0] - self.base, -FAR)
        self.high = np.minimum(ends[:, 1] - self.base, FAR)
        places: dict[Runs, list[int]] = {}
        for place, runs in enumerate(self.sets):
            if len(runs) > 1:
                places.setdefault(runs, []).append(place)
        self.gapped = [
            (np.array(some), np.array(runs, dtype=np.int64)[:, 0], np.array(runs)[:, 1])
            for runs, some in places.items()
        ]

    def taken(self, multipliers: IntArray) -> IntArray:
        """Return what each child takes at its parent's multiplier, as distances from `base`."""
        pull = self.rest * self.weights + np.repeat(multipliers, self.sizes) + self.offsets
        unit = self.unit
        nearest = (pull + (unit >> 1)) // unit
        out = np.minimum(np.maximum(nearest, self.low), self.high)
        for some, lows, highs in self.gapped:
            value = out[some] + self.base[some]
            run = np.searchsorted(lows, value, side="right") - 1
            left, right = highs[run], lows[np.minimum(run + 1, lows.size - 1)]
            both = np.clip(left + right - 2 * self.base[some], -2 * FAR, 2 * FAR)
            upper = both * unit[some] <= 2 * pull[some]
            near = np.where(upper, right, left) - self.base[some]
            out[some] = np.where(value > left, near, out[some])
        return np.asarray(out)

    def sums(self, values: IntArray) -> IntArray:
        return np.asarray(np.add.reduceat(values, self.starts))


def in_fine(values: Sequence[int]) -> list[int]:
    """Return estimates, in 1 / `ONE` step, in 1 / `FINE` step: halves up."""
    ratio = ONE // FINE
    return [(value + ratio // 2) // ratio for value in values]


def shared(
    targets: Sequence[int],
    weights: Sequence[int],
    sets: Sequence[Runs],
    parent: IntArray,
    totals: Sequence[int],
    offsets: IntArray | None = None,
) -> Shares:
    """Return the nearest values of all children, adding up to their parents' `totals`.

    Args:
        targets: per child, in 1 / `FINE` step.
        weights: per child, whole, 1 to 2^10.
        sets: per child what it can take; their sums hold the parents' totals.
        parent: the place of each child's parent.
        offsets: per child, what is added to its parent's multiplier.
    """
    order, children, wanted = laid_out(targets, weights, sets, parent, totals)
    if offsets is not None:
        children.offsets = offsets[order]
    below = multipliers_of(children, wanted, np.zeros_like(wanted))
    taken, above = children.taken(below), children.taken(below + 1)
    missing = wanted - children.sums(taken)
    multipliers = np.where(missing > 0, below + 1, below)
    _settle_ties(children, taken, above, missing)
    left = children.sums(taken) != wanted
    values = (taken + children.base).tolist()
    ends = np.append(children.starts, len(values)).tolist()
    for place in np.flatnonzero(left).tolist():
        first, last = ends[place], ends[place + 1]
        some = [
            Child(
                children.sets[k],
                children.targets[k],
                int(children.weights[k]),
                values[k],
                int(multipliers[place] + children.offsets[k]),
            )
            for k in range(first, last)
        ]
        values[first:last] = mended(some, totals[place])
    out = [0] * len(values)
    for k, value in zip(order.tolist(), values, strict=True):
        out[k] = value
    return Shares(out, multipliers.tolist(), int(np.count_nonzero(left)))


def laid_out(
    targets: Sequence[int],
    weights: Sequence[int],
    sets: Sequence[Runs],
    parent: IntArray,
    totals: Sequence[int],
) -> tuple[IntArray, Children, IntArray]:
    """Return the order by parents, the children in it, and what their distances must add up to."""
    order, starts = by_parent(parent)
    children = Children(
        [int(targets[k]) for k in order],
        [sets[k] for k in order],
        np.asarray(weights, dtype=np.int64)[order],
        starts,
    )
    rest = [total - whole for total, whole in zip(totals, _whole_sums(children), strict=True)]
    wanted = np.array([min(max(x, -_TOP), _TOP) for x in rest], dtype=np.int64)
    return order, children, wanted


def _whole_sums(children: Children) -> list[int]:
    """Return the sum of `base` per parent, in integers of any size."""
    high, low = children.base >> 30, children.base & (2**30 - 1)
    pairs = zip(children.sums(high).tolist(), children.sums(low).tolist(), strict=True)
    return [(a << 30) + b for a, b in pairs]


def multipliers_of(children: Children, wanted: IntArray, start: IntArray) -> IntArray:
    """Return the greatest multiplier per parent at which its children take at most what is wanted.

    It is looked for around `start`, within `_TOP` of 0.
    """
    low, high = start - _FIRST, start + _FIRST
    stride = _FIRST
    while True:
        too_high = (children.sums(children.taken(low)) > wanted) & (low > -_TOP)
        too_low = (children.sums(children.taken(high)) <= wanted) & (high < _TOP)
        if not (too_high | too_low).any():
            break
        stride = min(32 * stride, _TOP)
        low = np.where(too_high, np.maximum(low - stride, -_TOP), low)
        high = np.where(too_low, np.minimum(high + stride, _TOP), high)
    while (high - low > 1).any():
        middle = (low + high) >> 1
        more = children.sums(children.taken(middle)) > wanted
        high = np.where(more, middle, high)
        low = np.where(more, low, middle)
    return low


def _settle_ties(children: Children, taken: IntArray, above: IntArray, missing: IntArray) -> None:
    """Let the first children that are indifferent between two neighbours take the upper one."""
    sizes = children.sizes
    tied = above - taken == 1
    ranks = np.cumsum(tied)
    before = np.insert(ranks, 0, 0)[children.starts]
    rank = ranks - np.repeat(before, sizes)
    taken[tied & (rank <= np.repeat(np.maximum(missing, 0), sizes))] += 1
