"""An exact joint choice of several candidates in order: the exponential mechanism over whole sequences of them.

Candidates stand in order: values that have rows (*heaps*), and before, between and behind them *runs* of candidates
without rows. With ranks 0 = R_0 < R_1 < .. < R_V heap i holds the ranks R_i .. R_{i+1}, and run i the rank R_i
alone. For targets T_1 <= .. <= T_m, each a rank from 0 to R_V, an outcome is a sequence y_1 <= .. <= y_m of candidates.
Its *miss* after target j is e_j: e_0 = 0, and e_j is e_{j-1} moved to the nearest of y_j's ranks less T_j. With w the
weights of `ScoreLaw`

    P(y_1 .. y_m) ~ w[g_1] .. w[g_{m+1}],   g_j = |e_j - e_{j-1}|,   e_{m+1} = 0.

So a sequence whose candidates hold all targets has no gap, however many rows share a value.

Exact draw. Where a miss moves, it stops at an end of a heap's ranks or at a run's rank: a *point* R_i - T_j. So after
target j a state is the last candidate and a point, of this target or of one before (`_State`); there are about V m**2
in all. The next candidate must not be before the last one. A state with a miss e below the point R_i - T_{j+1} has its
candidate before that point, so only for other states the places are compared. Sum the states' weights after target j,
each times w[|R_i - T_{j+1} - e|]: L_i over those below the point, B_i over the others whose candidate is before it.
The new weights are

    heap i     at its lower end   L_i, and the states that are at this point already, for w[0]
               at its upper end   B_{i+1}
               between them       every state there stays, for w[0]
    run i      L_i + B_i enter it, and s targets in it have C(N_i + s - 1, s) ways to stand in order.

All are whole numbers of any size, and the draw goes back from the last target. Gaps beyond `last` all weigh w[last], so
their states are added up first and multiplied once.

Privacy. Let one unit change g_j(y) by c_j(y), and let P bound the sum of the positive c_j, Q that of the
negative ones, for every y. Weights never rise, and fall by a factor of at most r a step: the product of an
outcome's weights falls to no less than r^P of itself and rises to no more than r^-Q; so does the sum over all
outcomes. Hence p(y) / p'(y) <= r^-(P + Q) for every y and all data, and `spread` >= P + Q is certified by the
rational of a single choice. What P + Q is for ranks: `docs/theory/quantiles.md#several-quantiles-together`.

Units    ranks, targets, spread: the same integer steps; epsilon in nats.
Sources  Gillenwater, Joseph & Kulesza, "Differentially private quantiles" (arXiv:2102.08244): a score of gaps and
         that outcomes can be drawn target by target; misses that heaps absorb, and whole-number weights: here.
Limits   `work` says how many products a draw takes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.core.entropy import RandomBits, uniform_below
from dprelease.mechanisms.forms.scores import ScoreLaw

Ints = npt.NDArray[np.int64]
Wholes = npt.NDArray[np.object_]
MARGIN = 30.0
"""Nats by which the weights of a joint choice fall, at least, beyond the logarithm of the number of its sequences."""

_TABLE = 2**17
"""Up to so many weights are looked up in a table."""


@dataclass(frozen=True, slots=True)
class SequenceLaw(ScoreLaw):
    """The weights of a joint choice: all sequences beyond `last` together weigh 2**-48 of the best one or less."""

    room: ClassVar[int] = 48


@dataclass(frozen=True, slots=True, eq=False)
class Heaps:
    """Candidates in order.

    Attributes:
        ranks: R_0 = 0 to R_V, rising, `(V + 1,)`; runs: N_0 .. N_V, candidates without rows, 0 or more, the same shape.
        targets: T_1 .. T_m, never falling, from 0 to R_V, as Python integers.
    """

    ranks: Ints
    runs: Ints
    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _State:
    """All sequences up to some target, put together by where they stand after it; `(states,)` each.

    Attributes:
        miss: e, never falling.
        place: of the last candidate: 2 i + 1 for heap i, 2 i for run i, -1 before the first target.
        weight: the sum over these sequences.
    """

    miss: Ints
    place: Ints
    weight: Wholes


_START = _State(np.zeros(1, np.int64), np.full(1, -1), np.ones(1, dtype=object))


def work(values: int, targets: int) -> int:
    """Return about how many products of two weights one draw takes."""
    return values * values * targets * (3 * targets + 8) // 24


class JointExponential:
    """The law of one group: its sums, made once, and draws from it."""

    def __init__(self, law: ScoreLaw, heaps: Heaps) -> None:
        self._law, self._heaps = law, heaps
        end = min(law.last, 2 * int(heaps.ranks[-1]))  # no two misses are further apart
        self._table = law.weights(np.arange(end + 1)) if end < _TABLE else None
        self._best, self._flat = (int(w) for w in law.weights(np.array([0, law.last])))
        steps = [b - a for a, b in pairwise(heaps.targets)]
        self._inside = [int(w) for w in self._weights(np.array(steps, dtype=np.int64))]
        self._entries: list[Wholes] = []  # of every target: as the first one in each run
        self._parts: list[list[Wholes]] = []  # after target j: of runs with the last s = 1 .. j
        self._states = [_START]
        for target in heaps.targets:
            self._states.append(self._after(target))
        final = self._states[-1]
        self._last: Wholes = final.weight * self._weights(np.abs(final.miss))

    @property
    def total(self) -> int:
        """The weight of all outcomes."""
        return int(self._last.sum())

    def by_last(self) -> Wholes:
        """Return the weight of the outcomes whose last candidate is in each run and heap, in order, `(2 V + 1,)`."""
        out = np.zeros(2 * self._heaps.ranks.size - 1, dtype=object)
        np.add.at(out, self._states[-1].place, self._last)
        return out

    def _weights(self, apart: Ints) -> Wholes:
        if self._table is None:
            return self._law.weights(apart)
        out: Wholes = self._table[np.minimum(apart, self._table.size - 1)]
        return out

    def _after(self, target: int) -> _State:
        """Return the states after one more target."""
        points = self._heaps.ranks - target
        before = self._states[-1]
        misses, weights = _merged(before)
        sums = np.concatenate([[0], np.cumsum(weights)]).astype(object)
        under = self._under(points, misses, weights, sums)
        over = self._over(points, misses, weights, sums)
        at = _weights_at(points, misses, weights) * self._best
        runs = self._of_runs(under + over)
        free = ~np.isin(misses, points) & (points[0] < misses) & (misses < points[-1])
        heap = np.searchsorted(points, misses[free])  # the heap before the first point above
        every = np.arange(points.size)
        state = [
            (points[:-1], 2 * every[:-1] + 1, (under + at)[:-1]),
            (points[1:], 2 * every[:-1] + 1, over[1:]),
            (misses[free], 2 * heap - 1, weights[free] * self._best),
            (points, 2 * every, runs),
        ]
        miss, place, weight = (np.concatenate(part) for part in zip(*state, strict=True))
        order = np.argsort(miss, kind="stable")
        order = order[(weight[order] != 0).astype(bool)]
        return _State(miss[order], place[order], weight[order])

    def _under(self, points: Ints, misses: Ints, weights: Wholes, sums: Wholes) -> Wholes:
        """Return L of every point: of all states below it. From `last` below it on all have the weight w[last]."""
        near = np.searchsorted(misses, points, side="left")
        far = np.minimum(np.searchsorted(misses, points - self._law.last, side="right"), near)
        out = self._flat * sums[far]
        for i in np.flatnonzero(near > far):
            part = slice(far[i], near[i])
            out[i] += int(weights[part] @ self._weights(points[i] - misses[part]))
        return np.asarray(out, dtype=object)

    def _over(self, points: Ints, misses: Ints, weights: Wholes, sums: Wholes) -> Wholes:
        """Return B of every point: of the states at it and above whose candidate is before it.

        Such a candidate's ranks end at R_i or below, so its miss after the target before was at most `most`. Every
        state with a smaller miss has such a candidate; where the miss is `most`, the places are compared.
        """
        j, targets = len(self._states) - 1, self._heaps.targets
        step = targets[j] - (targets[j - 1] if j else 0)
        most, before = points + step, self._states[-1]
        start = np.searchsorted(misses, points, side="left")
        end = np.searchsorted(misses, most, side="left")
        near = np.minimum(np.searchsorted(misses, points + self._law.last, side="left"), end)
        out = self._flat * (sums[end] - sums[near])
        for i in np.flatnonzero(near > start):
            part = slice(start[i], near[i])
            out[i] += int(weights[part] @ self._weights(misses[part] - points[i]))
        at = np.minimum(np.searchsorted(most, before.miss), points.size - 1)
        counted = (most[at] == before.miss) & (before.place < 2 * at)
        np.add.at(
            out, at[counted], before.weight[counted] * int(self._weights(np.array([step]))[0])
        )
        return np.asarray(out, dtype=object)

    def _of_runs(self, entry: Wholes) -> Wholes:
        """Return the weight of every run as the place of the last candidate, once one more target is placed."""
        self._entries.append(entry)
        j = len(self._entries)
        counts = self._heaps.runs.astype(object)
        ways, inside = counts, 1
        parts = []
        for s in range(1, j + 1):
            parts.append(ways * inside * self._entries[j - s])
            ways = ways * (counts + s) // (s + 1)  # C(N + s, s + 1)
            inside *= self._inside[j - s - 1] if s < j else 1  # between two targets in one run
        self._parts.append(parts)
        out: Wholes = sum(parts[1:], parts[0])
        return out

    def draw(self, bits: RandomBits) -> list[tuple[int, int]]:
        """Return (place, candidate in it) of every target in order: place 2 i + 1 is heap i, 2 i is run i.

        Raises:
            InternalError: the source is stuck (DPR904).
        """
        found: list[tuple[int, int]] = []
        j, weights = len(self._heaps.targets), self._last
        while j:
            state = self._states[j]
            at = _chosen(weights.tolist(), bits)
            miss, place = int(state.miss[at]), int(state.place[at])
            i, s = place // 2, 1
            if place % 2:
                found = [(place, 0), *found]
                ends = self._heaps.ranks[i : i + 2] - self._heaps.targets[j - 1]
                before, latest = self._states[j - 1], place
            else:
                s = _chosen([int(part[i]) for part in self._parts[j - 1]], bits) + 1
                places = _in_order(int(self._heaps.runs[i]), s, bits)
                found = [(place, p) for p in places] + found
                miss = int(self._heaps.ranks[i]) - self._heaps.targets[j - s]
                ends = np.array([miss, miss])
                before, latest = self._states[j - s], place - 1
            fits = (before.place <= latest) & (np.clip(before.miss, *ends) == miss)
            weights = before.weight * self._weights(np.abs(before.miss - miss)) * fits
            j -= s
        return found


def _merged(state: _State) -> tuple[Ints, Wholes]:
    """Return the different misses, rising, and the weight of each."""
    misses, first = np.unique(state.miss, return_index=True)
    return misses, np.add.reduceat(state.weight, first)


def _weights_at(points: Ints, misses: Ints, weights: Wholes) -> Wholes:
    """Return the weight of the states that stand at each point."""
    place = np.minimum(np.searchsorted(misses, points), misses.size - 1)
    return np.where(misses[place] == points, weights[place], 0).astype(object)


def _chosen(weights: Sequence[int], bits: RandomBits) -> int:
    """Return a place with chance proportional to its weight."""
    running: list[Any] = list(accumulate(weights))
    return bisect_right(running, int(uniform_below(running[-1], 1, bits)[0]))


def _in_order(candidates: int, many: int, bits: RandomBits) -> list[int]:
    """Return `many` places in 0 .. candidates - 1, never falling, all such sequences alike.

    They are the subsets of candidates + many - 1 places, the i-th less i; Floyd's way to draw one.
    """
    top = candidates + many - 1
    chosen: set[int] = set()
    for end in range(top - many, top):
        place = int(uniform_below(end + 1, 1, bits)[0])
        chosen.add(end if place in chosen else place)
    return [place - i for i, place in enumerate(sorted(chosen))]
