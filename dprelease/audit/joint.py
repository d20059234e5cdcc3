"""The exact loss of a joint choice between two tables, and whether its draws follow its law.

The largest ratio of two such laws is at one sequence of candidates. What a sequence weighs so far depends on
where it stands in either table: so that sequence is found target by target among all such pairs of misses, by
logarithms, and its ratio is then made of whole numbers.

Units    ratios of chances; places of candidates: 2 i + 1 for the i-th value, 2 i for those without rows before it.
Sources  `docs/theory/quantiles.md#several-quantiles-together`, `docs/theory/certificates.md#audits`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.audit.sampler import fit
from dprelease.core.entropy import RandomBits, SystemBits
from dprelease.measurements.joint_ranks import JointLaw
from dprelease.mechanisms.forms.joint_scores import JointExponential
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.statistics.joint_ranks import Positions

Ints = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
_POINTS = 12
_ROWS = 3


class _Line:
    """The candidates of one table, in order, and what a sequence of them weighs."""

    def __init__(self, law: JointLaw, rows: Positions) -> None:
        self.law = law.law
        self.targets = [*rows.aims, rows.b * rows.total]
        ends = rows.ranks()
        self.low = np.repeat(ends, 2)[:-1]  # of every place its ranks
        self.high = np.append(np.repeat(ends[1:], 2), ends[-1])
        self.high[0::2] = self.low[0::2]
        self.total = JointExponential(law.law, law.heaps(_occurring(rows))).total

    def after(self, misses: Ints, j: int) -> Ints:
        """Return the misses after target j, of each of `misses` at every place, `(misses, places)`."""
        target = self.targets[j]
        return np.asarray(np.clip(misses[:, None], self.low - target, self.high - target))

    def product(self, places: Sequence[int]) -> int:
        """Return the weight of one sequence."""
        misses = [0]
        for j, place in enumerate(places):
            target, last = self.targets[j], misses[-1]
            misses.append(
                min(max(last, int(self.low[place]) - target), int(self.high[place]) - target)
            )
        gaps = np.abs(np.diff([*misses, 0]))
        return math.prod(int(w) for w in self.law.weights(gaps))


def joint_worst(law: JointLaw, here: Positions, there: Positions) -> Fraction:
    """Return the largest ratio of the chances of one outcome under two groups' rows, either way."""
    codes = np.union1d(here.codes, there.codes)
    one, other = (_Line(law, rows.over(codes)) for rows in (here, there))
    places = law.allowed.places(codes + law.allowed.lower)
    runs = np.diff(np.concatenate([[-1], places, [len(law.allowed)]])) - 1
    some = np.ones(2 * codes.size + 1, dtype=bool)
    some[0::2] = runs > 0
    first = _largest(one, other, some) * Fraction(other.total, one.total)
    second = _largest(other, one, some) * Fraction(one.total, other.total)
    return max(first, second)


def _largest(over: _Line, under: _Line, some: npt.NDArray[np.bool_]) -> Fraction:
    """Return the largest quotient of the weights of one sequence.

    Args:
        some: places that have candidates.
    """
    every = np.flatnonzero(some)
    place, best = np.zeros(1, np.int64), np.zeros(1)
    miss, other = np.zeros(1, np.int64), np.zeros(1, np.int64)
    came: list[tuple[Ints, Ints]] = []
    for j in range(len(over.targets) - 1):
        new = [line.after(m, j)[:, every] for line, m in ((over, miss), (under, other))]
        gained = _logs(over.law, np.abs(new[0] - miss[:, None]))
        gained = best[:, None] + gained - _logs(over.law, np.abs(new[1] - other[:, None]))
        start, to = np.nonzero(every[None, :] >= place[:, None])
        keys = every[to], new[0][start, to], new[1][start, to]
        order = np.lexsort((gained[start, to], *keys))
        last = np.ones(order.size, dtype=bool)  # of equal keys the best
        last[:-1] = np.any([k[order][1:] != k[order][:-1] for k in keys], axis=0)
        ends = order[last]
        place, miss, other = (k[ends] for k in keys)
        best = gained[start[ends], to[ends]]
        came.append((start[ends], place))
    best = best + _logs(over.law, np.abs(miss)) - _logs(over.law, np.abs(other))
    at = int(best.argmax())
    path: list[int] = []
    for starts, places in reversed(came):
        path.insert(0, int(places[at]))
        at = int(starts[at])
    return Fraction(over.product(path), under.product(path))


def _logs(law: ScoreLaw, apart: Ints) -> FloatArray:
    different, inverse = np.unique(apart, return_inverse=True)
    logs = np.array([math.log(int(w)) for w in law.weights(different)])
    return np.asarray(logs[inverse].reshape(apart.shape))


def _occurring(rows: Positions) -> Positions:
    """Return the same rows, over the values that have some."""
    return rows.over(rows.codes[rows.upto > rows.below])


def joint_fit(law: JointLaw, count: int, bits: RandomBits | None = None) -> float:
    """Return the p-value of the last target's place over `count` draws of a made-up group."""
    points, m = len(law.allowed), law.many
    places = np.unique(np.linspace(0, points - 1, min(points, _POINTS)).astype(np.int64))
    codes = law.allowed.points_at(places) - law.allowed.lower
    upto = _ROWS * np.arange(1, places.size + 1)
    targets = tuple(range(1, m + 1))
    rows = Positions(codes, upto - _ROWS, upto, int(upto[-1]), targets, m + 1)
    choice = JointExponential(law.law, law.heaps(rows))
    source = bits or SystemBits()
    drawn = np.array([choice.draw(source)[-1][0] for _ in range(count)])
    total = choice.total
    chance = np.array([float(Fraction(int(w), total)) for w in choice.by_last()])
    some = np.flatnonzero(chance)
    return fit(np.searchsorted(some, drawn), np.arange(some.size), chance[some])
