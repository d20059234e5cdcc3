"""Several choices, one inside the other: the middle target first, then those on either side of what was chosen, exact.

Candidates stand in a row: each of `points` points has `copies` of them, in order. With c rows at a point and `below`
under it the copy l holds the stretch of ranks from below + c l / copies to below + c (l + 1) / copies, and parts the
rows at the stretch's middle R. Stretches tile 0 .. n, however many rows share a value.

Nodes. For targets a_1 < .. < a_m among `whole` one is the root; those under it, and those above it, are chosen in the
same way between what was chosen around them (`choice_tree.halves`). A node with copies lo <= hi around it and a share f of the way
from the target of lo to that of hi aims at t = R(lo) + f (R(hi) - R(lo)), R being 0 and n at the ends. A copy
lo <= y <= hi, its stretch [A, B] cut to [R(lo), R(hi)], scores, at u whole steps of the node to a row,

    s(y) = floor(u * max(0, A - t, t - B)),

and is drawn with chance proportional to w[s(y)], w the weights of `ScoreLaw`. As the cut stretches tile
R(lo) .. R(hi), one copy scores 0. The cut itself changes no score: t lies between R(lo) and R(hi), and only A of lo
and B of hi lie outside. Chosen copies are in order by construction.

Exact draw. There are too many copies to weigh each. They are parted in *segments*, of neighbours: their scores are at least those of
the first copy's A and the last copy's B (A and B never fall), so a segment is drawn by its number of copies times the weight of that
score, then one of its copies, and that one is kept with the chance by which its own weight is smaller. What is kept
follows the law, whatever the segments. They part large values where scores rise by a fraction of what weights tell apart, so that
few draws are repeated.

Privacy. If, whatever was chosen above, one unit lets the scores of the nodes k of a level rise by at most P_k and fall
by at most Q_k, with the sum of all P_k + Q_k over all levels at most `spread`, the chance of every outcome changes by at
most r^-spread: each factor w[s] / (sum of w) falls and rises by no more than r^(P_k + Q_k), as weights never rise and fall
by at most r a step. That is the certificate of a single choice. The spread: `docs/theory/quantiles.md#one-inside-the-other`.

Cost. Scores beyond `last` weigh alike, so of a node only values within `last` of its aim are told apart: a draw takes
the logarithm of the different values, and their number near the aim, however many copies there are.

Units    R, A, B: 1 / (2 copies) of a row; u: steps to a row. Fewer than 2**48 rows, 2**62 / (2 copies).
Sources  Kaplan, Schnapp & Stemmer, "Differentially private approximate quantiles" (ICML 2022): choices one inside the
         other, a loss per level; stretches, so that equal rows need no noise, and whole numbers: here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from dprelease.core.choice_tree import END, Node
from dprelease.core.entropy import RandomBits, drawn_by_rejection, uniform_below
from dprelease.mechanisms.forms.scores import ScoreLaw

Ints = npt.NDArray[np.int64]
_FAR = 2**40
"""Of an aim, in units of R: beyond all weights that are told apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Copies:
    """The candidates of one group.

    Attributes:
        places: of the points that have rows, rising; below, upto: rows under and at or under each;
        points: how many there are; total: rows; copies: of each point.
    """

    places: Ints
    below: Ints
    upto: Ints
    points: int
    total: int
    copies: int

    def rank(self, copy: int) -> int:
        """Return R of a copy."""
        point, level = divmod(copy, self.copies)
        i = int(np.searchsorted(self.places, point))
        if i < self.places.size and int(self.places[i]) == point:
            below, upto = int(self.below[i]), int(self.upto[i])
            return 2 * self.copies * below + (upto - below) * (2 * level + 1)
        return 2 * self.copies * (int(self.upto[i - 1]) if i else 0)

    def draw(
        self, law: ScoreLaw, nodes: Sequence[Node], steps: Sequence[int], bits: RandomBits
    ) -> list[int]:
        """Return the copy chosen for every target, in order.

        Args:
            steps: u of each node, at most 2**15.

        Raises:
            InternalError: the source is stuck (DPR904).
        """
        found = [0] * len(nodes)
        ranks = [0] * len(nodes)
        for node, unit in zip(nodes, steps, strict=True):
            lo, base = (0, 0) if node.low == END else (found[node.low], ranks[node.low])
            hi, top = (
                (self.points * self.copies - 1, 2 * self.copies * self.total)
                if node.high == END
                else (found[node.high], ranks[node.high])
            )
            choice = _Choice(self, node.part, (lo, hi), (base, top), unit)
            found[node.target] = choice.draw(law, bits)
            ranks[node.target] = self.rank(found[node.target])
        return found

    def stretches(self, copies: Ints) -> tuple[Ints, Ints]:
        """Return A and B of copies, in the shape given."""
        point, level = np.divmod(copies, self.copies)
        upto = np.concatenate([[0], self.upto])
        i = np.searchsorted(self.places, point, side="left")
        below = upto[i]
        rows = upto[np.searchsorted(self.places, point, side="right")] - below
        low = 2 * (self.copies * below + rows * level)
        return low, low + 2 * rows

    def near(self, ends: tuple[int, int], aim: int, window: int) -> tuple[int, int]:
        """Return the values between two copies whose ranks come within `window` of the aim."""
        each = 2 * self.copies
        start = int(np.searchsorted(self.places, ends[0] // self.copies))
        end = int(np.searchsorted(self.places, ends[1] // self.copies, side="right"))
        # rows, rounded outwards
        least, most = (aim - window) // each, -(-(aim + window) // each)
        start = max(start, int(np.searchsorted(self.upto, least)))
        return start, max(start, min(end, int(np.searchsorted(self.below, most, side="right"))))


class _Choice:
    """One choice between two copies."""

    def __init__(
        self,
        copies: Copies,
        part: Fraction,
        ends: tuple[int, int],
        ranks: tuple[int, int],
        unit: int,
    ) -> None:
        self._copies, self._ends, self._unit = copies, ends, unit
        base, top = ranks
        self._aim = (base * (part.denominator - part.numerator) + top * part.numerator) // (
            part.denominator
        )
        # u times the aim, rounded both ways, less u times the whole part of the aim
        whole = unit * part.numerator * (top - base)
        past = unit * (base - self._aim)
        self._under = whole // part.denominator + past
        self._over = -(-whole // part.denominator) + past
        self._cut = base - self._aim, top - self._aim

    def scores(self, first: Ints, last: Ints) -> Ints:
        """Return the least score that the copies from `first` to `last` may have: of one copy its own."""
        near = max(self._cut[0], -_FAR), min(self._cut[1], _FAR)
        low, high = (
            np.clip(v - self._aim, *near)
            for v in (self._copies.stretches(first)[0], self._copies.stretches(last)[1])
        )
        each = 2 * self._copies.copies
        over = (self._unit * low - self._over) // each
        under = (self._under - self._unit * high) // each
        return np.asarray(np.maximum(np.maximum(over, under), 0))

    def segments(self, last: int, wide: int) -> tuple[Ints, Ints]:
        """Return the first copy of every segment, and of that after the last.

        Args:
            wide: by how many steps the scores of one may differ, about.
        """
        many, (lo, hi) = self._copies.copies, self._ends
        start, end = self._copies.near(self._ends, self._aim, (last // self._unit + 2) * 2 * many)
        places = self._copies.places[start:end]
        edges = [np.array([lo, hi + 1]), places * many, (places + 1) * many]
        heaps = self._copies.upto[start:end] - self._copies.below[start:end]
        apart = np.arange(-(last // wide) - 1, last // wide + 2) * (wide / self._unit)
        for i in np.flatnonzero(heaps * self._unit > wide):
            rows = (self._aim - 2 * many * int(self._copies.below[start + i])) / (2 * many) + apart
            inside = np.clip(rows * (many / heaps[i]), 0, many).astype(np.int64)
            edges += [places[i] * many + inside, places[i] * many + np.minimum(inside + 1, many)]
        found = np.unique(np.clip(np.concatenate(edges), lo, hi + 1))
        return found[:-1], found[1:]

    def draw(self, law: ScoreLaw, bits: RandomBits) -> int:
        """Return the chosen copy."""
        wide = max(1, int(0.7 / law.rate)) if law.rate else law.last + 1  # weights fall by half
        first, after = self.segments(law.last, wide)
        weights = law.weights(self.scores(first, after - 1))
        running = list(accumulate(((after - first).astype(object) * weights).tolist()))

        def attempt(_: Ints) -> tuple[npt.NDArray[np.bool_], Ints]:
            goal = int(uniform_below(running[-1], 1, bits)[0])
            run = bisect_right(running, goal)
            place, rest = divmod(goal - (running[run - 1] if run else 0), int(weights[run]))
            copy = np.array([int(first[run]) + place])
            good = np.array([rest < int(law.weights(self.scores(copy, copy))[0])])
            return good, copy[good]

        return int(drawn_by_rejection(1, attempt, bits=bits)[0])
