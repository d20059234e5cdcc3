"""Several quantiles of one column, drawn together; scored by how their misses of the target ranks change.

With n rows the value v holds the ranks below(v) .. upto(v), and targets are shares q_1 <= .. <= q_m of the rows. Values
y_1 <= .. <= y_m have the misses e_0 = 0 and e_j, the point nearest to e_{j-1} of the ranks of y_j less q_j n, and score

    sum over j = 1 .. m + 1 of |e_j - e_{j-1}|,   e_{m+1} = 0,

the least that the rows between neighbouring values can differ from those between neighbouring targets, wherever within its
value's ranks each is taken to be. So several targets may lie within the ranks of one value, at no cost. One row moves the end
of a value's ranks by p = 0 or 1, and a miss that ends there by p - q_j; along the values p never falls. So with D the least
q_j - q_{j-1} (q_0 = 0, q_{m+1} = 1) all gaps change by at most 2 (1 - D) together, either way: spread 4 (1 - D). A
replaced row moves two ends: 4.

Units: ranks in rows / b, b the common denominator of the targets. Both spreads add up over
rows and groups as L1 sensitivities do (`mechanisms.forms.joint_scores` needs sums of changes only).
Sources: `docs/theory/quantiles.md#several-quantiles-together`; Gillenwater, Joseph & Kulesza
(arXiv:2102.08244) for scores of gaps; they split equal rows by a little noise on the data instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dprelease.query.answer import Objects
from dprelease.statistics.exact import CellForm
from dprelease.statistics.measurement import Measurement

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

    def over(self, codes: Ints) -> Positions:
        """Return the same rows over more codes, those of which no row has the value included."""
        before = np.concatenate([[0], self.upto])
        below = before[np.searchsorted(self.codes, codes, side="left")]
        upto = before[np.searchsorted(self.codes, codes, side="right")]
        return replace(self, codes=codes, below=below, upto=upto)

    @property
    def aims(self) -> tuple[int, ...]:
        """The targets' ranks, in rows / b."""
        return tuple(a * self.total for a in self.targets)

    def ranks(self) -> Ints:
        """Return the rank of the beginning, and those up to which the values reach, in rows / b."""
        return self.b * np.concatenate([[0], self.upto])


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


exact = CellForm(lambda measurement, tally: positions(tally[0], tally[1], measurement.weights))
"""What a choice of several values, or of limits, sees: rows per value themselves."""


def joint_spreads(weights: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Return the spread of one added row and of one replaced row; ValueError for other targets."""
    fits = bool(weights) and all(len(w) == 3 for w in weights)
    b = weights[0][1] if fits else 0
    ends = [0, *(w[0] for w in weights), b] if fits else []
    fits = fits and all(w[1] == b and w[2] == 0 for w in weights)
    if not fits or b < 1 or any(later < sooner for sooner, later in pairwise(ends)):
        raise ValueError("targets do not rise from 0 to b")
    least = min(later - sooner for sooner, later in pairwise(ends))
    return 4 * (b - least), 4 * b


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
