"""A joint choice: several candidates in order, by how many rows lie between them, exact.

Candidates stand in a row, in *blocks* of equal rank: block b has N_b candidates of rank R_b, and ranks do
not fall. For targets 0 = T_0 <= T_1 <= .. <= T_m <= T_{m+1} = R of the ranks, an outcome is a sequence
y_1 <= .. <= y_m of candidates, and with w the weights of `ScoreLaw`

    P(y_1 .. y_m) ~ w[g_1] .. w[g_{m+1}],   g_j = |(R(y_j) - R(y_{j-1})) - (T_j - T_{j-1})|,

where R(y_0) = 0 and R(y_{m+1}) = R. The score of an outcome is the sum of its gaps' errors g_j.

Exact draw. Let j targets be placed, the last of them in block b, s of them in that block. Among themselves
those s have gaps without rows, and C(N_b + s - 1, s) ways to stand in order. So with A_0 for nothing placed

    E_i(b) = sum over b' < b of A_i(b') w[|R_b - R_b' - t_{i+1}|],     E_0(b) = w[|R_b - t_1|],
    A_j(b) = sum over s of C(N_b + s - 1, s) w[t_{j-s+2}] .. w[t_j] E_{j-s}(b),   t_j = T_j - T_{j-1},

all whole numbers of any size; the chance of a last block b is A_m(b) w[|R - R_b - t_{m+1}|] over their sum,
and from there the draw goes back block by block. The work grows with the square of the blocks, not with the
candidates.

Privacy. Let one unit change g_j(y) by c_j(y), and let P bound the sum of the positive c_j, Q that of the
negative ones, for every y. Weights never rise, and fall by a factor of at most r a step: the product of an
outcome's weights falls to no less than r^P of itself and rises to no more than r^-Q; so does the sum over all
outcomes. Hence p(y) / p'(y) <= r^-(P + Q) for every y and all data, and `spread` >= P + Q is certified by the
rational of a single choice. What P + Q is for ranks: `docs/theory/quantiles.md#several-quantiles-together`.

Units    ranks, targets, spread: the same integer steps; epsilon in nats.
Sources  Gillenwater, Joseph & Kulesza, "Differentially private quantiles" (arXiv:2102.08244): the score and
         that outcomes can be drawn target by target; whole-number weights, blocks and flat tails: here.
Limits   `work` tells the products of a draw.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.entropy import RandomBits, uniform_below
from dprelease.mechanisms.forms.scores import ScoreLaw

__all__ = ["Blocks", "JointExponential", "work"]

Ints = npt.NDArray[np.int64]
Wholes = npt.NDArray[np.object_]
_TABLE = 2**17
"""Weights that are looked up in one table, where there are no more."""


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Candidates in order.

    Attributes:
        counts: candidates of each block, at least 1, `(blocks,)`; ranks: of each, never falling.
        targets: T_1 .. T_m, never falling, as Python integers; whole: R, the rank of all rows.
    """

    counts: Ints
    ranks: Ints
    targets: tuple[int, ...]
    whole: int

    @property
    def steps(self) -> tuple[int, ...]:
        """t_1 .. t_{m+1}, the ranks that the gaps should have."""
        ends = (0, *self.targets, self.whole)
        return tuple(b - a for a, b in pairwise(ends))


def work(blocks: int, targets: int) -> int:
    """Return the products of two weights that one draw takes, about."""
    return targets * (blocks * blocks // 2 + targets * blocks)


class JointExponential:
    """The law of one group: its sums, made once, and draws from it."""

    def __init__(self, law: ScoreLaw, blocks: Blocks) -> None:
        self._law, self._blocks = law, blocks
        self._many = len(blocks.targets)
        end = min(law.last, blocks.whole)  # no gap is further off than all rows
        self._table = law.weights(np.arange(end + 1)) if end < _TABLE else None
        self._alone = [int(v) for v in self._weights(np.array(blocks.steps, dtype=np.int64))]
        self._entries: list[Wholes] = []  # E_i
        self._placed: list[list[Wholes]] = []  # of A_j, its parts by s = 1 .. j
        self._sums: list[Wholes] = []  # A_j
        for j in range(1, self._many + 1):
            self._entries.append(self._entry(j - 1))
            parts = self._parts(j)
            self._placed.append(parts)
            self._sums.append(sum(parts[1:], parts[0]))
        past = np.abs(blocks.whole - blocks.ranks - blocks.steps[-1])
        self._last: Wholes = self._sums[-1] * self._weights(past)

    @property
    def last(self) -> Wholes:
        """The weight of the outcomes whose last candidate is in each block, `(blocks,)`."""
        return self._last

    def _entry(self, i: int) -> Wholes:
        ranks, step = self._blocks.ranks, self._blocks.steps[i]
        if i == 0:
            return self._weights(np.abs(ranks - step))
        before = self._sums[i - 1]
        out = np.zeros(ranks.size, dtype=object)
        for b in range(1, ranks.size):
            out[b] = int(before[:b] @ self._weights_to(b, step))
        return out

    def _weights_to(self, b: int, step: int) -> Wholes:
        ranks = self._blocks.ranks
        return self._weights(np.abs(ranks[b] - ranks[:b] - step))

    def _weights(self, apart: Ints) -> Wholes:
        if self._table is None:
            return self._law.weights(apart)
        out: Wholes = self._table[np.minimum(apart, self._table.size - 1)]
        return out

    def _parts(self, j: int) -> list[Wholes]:
        counts = self._blocks.counts.astype(object)
        ways, inside = counts, 1
        out = []
        for s in range(1, j + 1):
            out.append(ways * inside * self._entries[j - s])
            ways = ways * (counts + s) // (s + 1)  # C(N + s, s + 1)
            inside *= self._alone[j - s]  # the gap between target j - s and the next one
        return out

    def draw(self, bits: RandomBits) -> list[tuple[int, int]]:
        """Return (block, place in it) of every target's candidate, in order.

        Raises:
            InternalError: the source is stuck (DPR901).
        """
        found: list[tuple[int, int]] = []
        j, weights = self._many, self._last
        while j:
            b = _chosen(weights.tolist(), bits)
            parts = [int(part[b]) for part in self._placed[j - 1]]
            s = _chosen(parts, bits) + 1
            places = _in_order(int(self._blocks.counts[b]), s, bits)
            found = [(b, place) for place in places] + found
            j -= s
            if j:
                weights = self._sums[j - 1][:b] * self._weights_to(b, self._blocks.steps[j])
        return found


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
