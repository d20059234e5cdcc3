"""Trees over the bins of a column: counts of runs of bins beside the counts of the bins themselves.

A sum of many bins, such as a cumulative count, carries the noise of every one of them. From noisy counts of
runs of bins as well, least squares makes it of few parts. A tree is a list of widths, coarse first, each a
multiple of the next, the last one 1: level l holds the counts of bins [i w, (i + 1) w), the last run being
shorter where w does not divide their number. The whole is not a level; its sum may be public.

Every row lies in at most one bin, so in at most one run of every level: a tree of L levels moves L times as
far as its bins in L1, and sqrt(L) times as far in L2
(`docs/theory/sensitivities-and-contribution-bounding.md#trees-over-bins`).

Shapes   weights and variances of prefixes: the first bin, the first two, ..., all.
Units    variances in those of the noise on one count.
Sources  Hay, Rastogi, Miklau & Suciu, arXiv:0904.0942; Qardaji, Yang & Li, PVLDB 6 (2013) 1954-1965 (few
         levels of many children); `docs/theory/publications-that-add-up.md#trees-over-bins`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dprelease.core.numeric import ranking
from dprelease.statistics.base import Floats
from dprelease.statistics.exact import CellForm
from dprelease.statistics.measurement import Measurement

Objects = npt.NDArray[np.object_]

_FANS = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 24, 28, 32, 40)
_FEW = (4, 6, 8, 10, 12, 14, 16)
_MANY = 300
"""With more bins only the fewer fan-outs are looked at."""
_LEVELS = 4


@dataclass(frozen=True, slots=True)
class Tree:
    """The widths of the levels over `bins` bins; `known`: the sum of all bins is public."""

    bins: int
    widths: tuple[int, ...]
    known: bool = False

    def __post_init__(self) -> None:
        # A plan is a stranger's: whatever it says, a tree is made of whole runs, or not at all.
        steps = zip(self.widths, self.widths[1:], strict=False)
        if not self.widths or self.widths[-1] != 1 or self.bins < 1:
            raise ValueError("a tree ends in its bins")
        if any(b < 1 or a <= b or a % b for a, b in steps) or self.widths[0] > self.bins:
            raise ValueError("a level of a tree is not made of whole runs of the next")

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many runs each level has."""
        return tuple(-(-self.bins // width) for width in self.widths)

    @property
    def cells(self) -> int:
        return sum(self.sizes)

    def parts(self) -> Iterator[tuple[int, int, int]]:
        """Yield (level, first bin, bin after the last) of every cell, coarse first."""
        for level, width in enumerate(self.widths):
            for first in range(0, self.bins, width):
                yield level, first, min(first + width, self.bins)

    def variances(self) -> tuple[Floats, Floats, float]:
        """Return of every prefix's estimate its variance and its covariance with that of all bins; that one's own.

        Up the tree: within a run whose children have estimates z_i of variance t_i and sum T, a prefix of
        whole children and a part of one has the covariance c with the sum; the run's own count, of
        variance 1, takes c^2 / (T + 1) off its variance.
        """
        leaf = np.arange(self.bins)
        own = np.ones(self.bins)  # variance
        covered = np.ones(self.bins)  # weight on its run's estimate
        width = 1
        z: Floats = np.ones(self.bins)
        for wider in (*reversed(self.widths[:-1]), self.bins):
            up = np.arange(z.size) * width // wider
            total = np.bincount(up, z).astype(np.float64)
            before = np.cumsum(z) - z
            before = before - np.concatenate([[0.0], np.cumsum(total)])[up]
            at = leaf // width
            above = up[at]
            with_sum = before[at] + covered * z[at]
            root = wider == self.bins
            noise = (0.0 if self.known else np.inf) if root else 1.0
            own = before[at] + own - with_sum**2 / (total[above] + noise)
            covered = with_sum / total[above]
            z = total if root else total / (total + 1)
            width = wider
        if self.known:
            return np.maximum(own, 0.0), np.zeros(self.bins), 0.0
        return own, covered * z[0], float(z[0])

    def shares(self) -> Floats:
        """Return the variance of every prefix less its share of the whole, where rows lie evenly over the bins."""
        own, with_sum, whole = self.variances()
        t = np.arange(1, self.bins + 1) / self.bins
        return np.maximum(own - 2 * t * with_sum + t * t * whole, 0.0)

    def weights(self) -> Floats:
        """Return what every prefix's estimate takes of every cell, `(bins, cells)`.

        Where the sum is public, the estimate takes the rest of it.
        """
        sizes, widths = (1, *self.sizes), (self.bins, *self.widths)
        ups = [
            np.arange(n) * b // a for n, a, b in zip(sizes[1:], widths, widths[1:], strict=False)
        ]
        gains, shares = self._steps(ups)
        last = len(self.widths)
        out: list[Floats] = [np.zeros((self.bins, n)) for n in sizes]
        out[last] = np.tri(self.bins)
        for level in range(last, 0, -1):
            up = ups[level - 1]
            missing = _by_run(out[level] * shares[level - 1], up)
            out[level - 1] = out[level - 1] + missing
            out[level] = out[level] - missing[:, up]
        for level in range(last):
            below = out[level] * gains[level]
            out[level] = out[level] - below
            out[level + 1] = out[level + 1] + below[:, ups[level]]
        return np.concatenate(out[1:], axis=1)

    def _steps(self, ups: list[npt.NDArray[np.int64]]) -> tuple[list[Floats], list[Floats]]:
        """Return, per level with the whole first, what a run takes of its children; and their shares of what is missing."""
        z: Floats = np.ones(self.bins)
        gains: list[Floats] = []
        shares: list[Floats] = []
        for level in range(len(ups) - 1, -1, -1):
            total = np.bincount(ups[level], z)
            shares.insert(0, z / total[ups[level]])
            whole = 0.0 if self.known else 1.0
            gains.insert(0, 1 / (1 + total) if level else np.array([whole]))
            z = total / (1 + total)
        return gains, shares


def _by_run(values: Floats, up: npt.NDArray[np.int64]) -> Floats:
    """Return the sums of neighbouring columns that belong together."""
    first = np.flatnonzero(np.diff(up, prepend=-1))
    return np.asarray(np.add.reduceat(values, first, axis=1))


def tree_of(measurement: Measurement) -> Tree:
    """Return the tree that a measurement's cells are; ValueError where they are none."""
    widths, (bins, _) = measurement.weights
    tree = Tree(bins, tuple(widths), measurement.public_rows is not None)
    if tree.cells != len(measurement.cells):
        raise ValueError("its cells are not those of its tree")
    return tree


def published(measurement: Measurement) -> int:
    """Return how many prefixes are published."""
    return measurement.weights[1][1]


def level_sums(bins: Objects, widths: tuple[int, ...]) -> Objects:
    """Return the counts of all runs, coarse first, `(groups, cells)`, from those of bins, `(groups, bins)`."""
    starts = (np.arange(0, bins.shape[1], width) for width in widths)
    return np.concatenate([np.add.reduceat(bins, at, axis=1) for at in starts], axis=1)


exact = CellForm(lambda measurement, bins: level_sums(bins, measurement.weights[0]), ones=True)
"""Counts of runs of bins, coarse first, then of the bins."""


@lru_cache(maxsize=64)
def best_tree(bins: int, *, known: bool, gaussian: bool, shares: bool) -> Tree:
    """Return the tree with the least variance of prefixes, on average over them, at one loss.

    Args:
        shares: of prefixes as shares of the whole.
        gaussian: noise by the L2 sensitivity, whose square grows with the levels; else by the L1 sensitivity, so that the
            variance of a cell grows with their square.
    """
    trees = [Tree(bins, widths, known) for widths in _chains(bins)]

    def price(tree: Tree) -> float:
        levels = len(tree.widths)
        found = tree.shares() if shares else tree.variances()[0]
        return ranking(float(np.mean(found)) * (levels if gaussian else levels**2))

    return min(trees, key=price)


def _chains(bins: int, below: tuple[int, ...] = (1,)) -> Iterator[tuple[int, ...]]:
    yield below
    if len(below) < _LEVELS:
        for fan in _FEW if bins > _MANY else _FANS:
            if below[0] * fan < bins:  # two runs or more
                yield from _chains(bins, (below[0] * fan, *below))
