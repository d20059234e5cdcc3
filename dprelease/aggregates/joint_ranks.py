"""Several quantiles of one column, drawn together; scored by the numbers of rows between neighbouring ones.

Each point of the column's grid has `LEVELS` candidates, in order; of c rows at a point the l-th candidate has
the share (2 l + 1) / (2 LEVELS) below it. So a heap of rows can hold several quantiles and still have the right
number of rows between them: the level is dropped when the value is published. With R(y) the rows below a
candidate y, shares of rows included, and targets q_1 <= .. <= q_m of the rows, y_1 <= .. <= y_m score

    sum over j = 1 .. m + 1 of |R(y_j) - R(y_{j-1}) - (q_j - q_{j-1}) n|,

R(y_0) = 0, R(y_{m+1}) = n, q_0 = 0, q_{m+1} = 1. One row adds a mass of 1, split over the gaps that it lies in,
and (q_j - q_{j-1}) to the target of each, so with D the least q_j - q_{j-1} all errors rise by at most
2 (1 - D) together, and fall by at most as much: spread 4 (1 - D). A replaced row changes two masses: 4.

Units: ranks in rows / (b PARTS), b the common denominator of the targets. Both spreads add up over
rows and groups as L1 sensitivities do (`mechanisms.forms.joint_scores` needs sums of errors only).
Sources: `docs/theory/quantiles.md#several-quantiles-together`; Gillenwater, Joseph & Kulesza
(arXiv:2102.08244) for the score; they split equal rows by a little noise on the data instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dprelease.aggregates.measurement import Measurement
from dprelease.query.answer import Objects

__all__ = ["LEVELS", "PARTS", "Positions", "joint_ranks", "joint_spreads", "positions"]

LEVELS = 4
"""Candidates of each point: of a heap of c rows every rank is met within c / 8."""
PARTS = 2 * LEVELS
"""Of a row: a candidate's share of a row is a whole number of them."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Positions:
    """The rows of one group, value by value.

    Attributes:
        codes: of the different values, rising; below, upto: rows under and at or under each;
        total: rows with a value; targets: a_1 .. a_m over the denominator b.
    """

    codes: Ints
    below: Ints
    upto: Ints
    total: int
    targets: tuple[int, ...]
    b: int

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Positions) and (
            (self.total, self.targets, self.b) == (other.total, other.targets, other.b)
            and np.array_equal(self.codes, other.codes)
            and np.array_equal(self.upto, other.upto)
        )

    def at(self, codes: Ints) -> Positions:
        """Return the same rows over more codes, those of which no row has the value included."""
        before = np.concatenate([[0], self.upto])
        below = before[np.searchsorted(self.codes, codes, side="left")]
        upto = before[np.searchsorted(self.codes, codes, side="right")]
        return replace(self, codes=codes, below=below, upto=upto)

    @property
    def aims(self) -> tuple[tuple[int, ...], int]:
        """The targets' ranks, and that of all rows."""
        each = PARTS
        return tuple(each * a * self.total for a in self.targets), self.b * each * self.total

    def blocks(self, places: Ints, points: int) -> tuple[Ints, Ints, Ints]:
        """Return (number, rank, first point's place) of the blocks of candidates of equal rank.

        Args:
            places: of the codes among all `points`.
        """
        scale = self.b * PARTS
        levels = np.arange(LEVELS, dtype=np.int64)
        width = LEVELS + 1  # a run of points without rows, then one point's levels
        counts = np.ones(places.size * width + 1, dtype=np.int64)
        ranks = np.empty_like(counts)
        first = np.empty_like(counts)
        edges = np.concatenate([[-1], places, [points]])
        counts[::width] = (np.diff(edges) - 1) * LEVELS
        ranks[::width] = scale * np.concatenate([[0], self.upto])
        first[::width] = edges[:-1] + 1
        held = self.upto - self.below
        for level in levels:
            ranks[1 + level :: width] = scale * self.below + self.b * held * (2 * level + 1)
            first[1 + level :: width] = places
        kept = counts > 0
        return counts[kept], ranks[kept], first[kept]


def positions(tally: Ints, groups: int, weights: Sequence[Sequence[int]]) -> Objects:
    """Return the `Positions` of each group, `(groups, 1)`, from a tally's codes."""
    out = np.empty((groups, 1), dtype=object)
    ends = np.searchsorted(tally[:, 0], np.arange(groups + 1))
    targets, b = tuple(w[0] for w in weights), weights[0][1]
    for group in range(groups):
        part = tally[ends[group] : ends[group + 1]]
        total = int(part[0, 4]) if len(part) else 0
        out[group, 0] = Positions(part[:, 1], part[:, 2], part[:, 3], total, targets, b)
    return out


def joint_spreads(weights: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Return the spread of one added row and of one replaced row; ValueError for other targets."""
    fits = bool(weights) and all(len(w) == 3 for w in weights)
    b = weights[0][1] if fits else 0
    ends = [0, *(w[0] for w in weights), b] if fits else []
    fits = fits and all(w[1] == b and w[2] == 0 for w in weights)
    if not fits or b < 1 or any(later < sooner for sooner, later in pairwise(ends)):
        raise ValueError("targets do not rise from 0 to b")
    least = min(later - sooner for sooner, later in pairwise(ends))
    return 4 * PARTS * (b - least), 4 * PARTS * b


def joint_ranks(alone: Sequence[Measurement]) -> Measurement:
    """Return the measurement that chooses the values of `alone` together.

    Args:
        alone: measurements of single quantiles of one column on one grid, none of them a least or
            greatest value, their targets rising.
    """
    b = math.lcm(*(e.weights[0][1] for e in alone))
    weights = tuple((e.weights[0][0] * (b // e.weights[0][1]), b, 0) for e in alone)
    l1_added_row, l1_replaced_row = joint_spreads(weights)
    first = alone[0]
    shares = ",".join(str(Fraction(a, b)) for a, _, _ in weights)
    return replace(
        first,
        family="joint_ranks",
        key=("joint_ranks", first.key[1], shares),
        cells=tuple(e.cells[0] for e in alone),
        weights=weights,
        l1_added_row=l1_added_row,
        l1_replaced_row=l1_replaced_row,
        form="joint_ranks",
    )
