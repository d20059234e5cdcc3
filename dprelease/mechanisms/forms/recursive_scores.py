"""Several choices, one inside the other: the middle target first, then those on either side of what was chosen, exact.

Candidates stand in a row: each of `points` points has `copies` of them, in order. With c rows at a point and `below`
under it the copy l holds the stretch of ranks from below + c l / copies to below + c (l + 1) / copies, and parts the
rows at the stretch's middle R. Stretches tile 0 .. n, however many rows share a value.

Nodes. For targets a_1 < .. < a_m among `whole` one is the root; those under it, and those above it, are chosen in the
same way between what was chosen around them (`choice_tree.halves`). A node with copies lo <= hi around it and a share f of the way
from the target of lo to that of hi aims at t = R(lo) + f (R(hi) - R(lo)), R being 0 and n at the ends. A copy
lo <= y <= hi, its stretch [A, B] cut to [R(lo), R(hi)], scores, in whole steps u of the node,

    s(y) = floor(u * max(0, A - t, t - B)),

and is drawn with chance proportional to w[s(y)], w the weights of `ScoreLaw`. As the cut stretches tile
R(lo) .. R(hi), one copy scores 0. The cut itself changes no score: t lies between R(lo) and R(hi), and only A of lo
and B of hi lie outside. Chosen copies are in order by construction.

Privacy. If, whatever was chosen above, one unit lets the scores of the nodes k of a level rise by at most P_k and fall
by at most Q_k, with the sum of all P_k + Q_k over all levels at most `spread`, the chance of every outcome changes by at
most r^-spread: each factor w[s] / (sum of w) falls and rises by no more than r^(P_k + Q_k), as weights never rise and fall
by at most r a step. That is the certificate of a single choice. The spread: `docs/theory/quantiles.md#one-inside-the-other`.

Cost. Scores beyond `last` weigh alike, so of a node only values within `last` of its aim are told apart: a draw takes
the logarithm of the different values, and their number near the aim.

Units    R, A, B: 1 / (2 copies) of a row; u: steps to one of these. Fewer than 2**48 rows.
Sources  Kaplan, Schnapp & Stemmer, "Differentially private approximate quantiles" (ICML 2022): choices one inside the
         other, a loss per level; stretches, so that equal rows need no noise, and whole numbers: here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.choice_tree import END, Node
from dprelease.entropy import RandomBits
from dprelease.mechanisms.forms.scores import ScoreLaw

__all__ = ["Copies"]

Ints = npt.NDArray[np.int64]


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
            steps: u of each node; times 2 `copies` at most 2**15.

        Raises:
            InternalError: the source is stuck (DPR901).
        """
        each = 2 * self.copies
        found = [0] * len(nodes)
        ranks = [0] * len(nodes)
        for node, unit in zip(nodes, steps, strict=True):
            lo, base = (0, 0) if node.low == END else (found[node.low], ranks[node.low])
            hi, top = (
                (self.points * self.copies - 1, each * self.total)
                if node.high == END
                else (found[node.high], ranks[node.high])
            )
            first, counts, scores = self._runs(node.part, (lo, hi), (base, top), unit, law.last)
            run, place = law.draw_runs(counts, scores, bits)
            chosen = int(first[run]) + place
            found[node.target], ranks[node.target] = chosen, self.rank(chosen)
        return found

    def _runs(
        self, part: Fraction, ends: tuple[int, int], ranks: tuple[int, int], unit: int, last: int
    ) -> tuple[Ints, Ints, Ints]:
        """Return (first copy, number, score) of the runs of copies between two that score alike."""
        (lo, hi), (base, top), many = ends, ranks, self.copies
        whole = unit * part.numerator * (top - base)
        under, over = whole // part.denominator, -(-whole // part.denominator)
        start, end = self._near(ends, base + under // unit, last // unit + 2)
        below, upto, places = self.below[start:end], self.upto[start:end], self.places[start:end]
        size, levels = places.size, np.arange(many, dtype=np.int64)
        first, low, high = np.full((3, size * (many + 1) + 1), top, dtype=np.int64)
        first[0] = lo
        if size:  # before each value a run without rows, then its copies
            starts, lows, highs = (v[:-1].reshape(size, many + 1) for v in (first, low, high))
            lows[:, 0] = highs[:, 0] = 2 * many * below
            lows[:, 1:] = 2 * many * below[:, None] + 2 * levels * (upto - below)[:, None]
            highs[:, 1:] = lows[:, 1:] + 2 * (upto - below)[:, None]
            starts[1:, 0] = (places[:-1] + 1) * many
            starts[:, 1:] = places[:, None] * many + levels
            first[-1] = (places[-1] + 1) * many
            low[-1] = high[-1] = 2 * many * upto[-1]
        after = np.append(first[1:], hi + 1)
        first = np.clip(first, lo, hi + 1)
        counts = np.clip(after, lo, hi + 1) - first
        some = counts > 0
        first, counts = first[some], counts[some]
        low, high = (v[some] - base for v in (low, high))
        scores = np.maximum(np.maximum(unit * low - over, under - unit * high), 0)
        return first, counts, scores

    def _near(self, ends: tuple[int, int], aim: int, window: int) -> tuple[int, int]:
        """Return the values between two copies whose ranks come within `window` of the aim."""
        each = 2 * self.copies
        start = int(np.searchsorted(self.places, ends[0] // self.copies))
        end = int(np.searchsorted(self.places, ends[1] // self.copies, side="right"))
        # rows, rounded outwards
        least, most = (aim - window) // each, -(-(aim + window) // each)
        start = max(start, int(np.searchsorted(self.upto, least)))
        return start, max(start, min(end, int(np.searchsorted(self.below, most, side="right"))))
