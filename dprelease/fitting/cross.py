"""Weighted least squares on cross-tabulations and on sets of their margins: closed form over the levels of every axis.

With E_r the averaging of a full cross to the levels r, the residual spaces (the differences of
neighbouring levels, per axis) are common to all tables of an even cross. A source is a table's cells, or
its residuals alone: prod (f I - J) of an axis, f cells of its level in each of the level above, times
`factor` in all. A table that is summed over k finest cells knows each space that it holds with precision
factor^2 k / variance. So the least-squares estimate weighs sources within every space, and of a table U it is

    x_U = S over spaces s <= U of spread(P_s S_T w_T(s) (noisy T, summed to s)) / (cells of U in one of s)

with exact rational w. Uneven hierarchies are filled up with cells that do not exist: the form stays
unbiased, is least squares up to the filling, and cells that do not exist bring no noise. Structural
zeros inside a cross are measured, if they are, and otherwise not used; cells that hold nothing else
are 0.

Units    values in 2^-32 steps, variances in steps squared.
Sources  `docs/theory/publications-that-add-up.md#least-squares`, `#any-set-of-tables`; residual spaces: Xiao, He, Zhang &
         Kifer, ResidualPlanner, arXiv:2305.08175.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dprelease.core.errors import PlanError
from dprelease.fitting.estimate import (
    BITS,
    ONE,
    Behind,
    Estimates,
    Objects,
    Wanted,
    alike,
    by_parent,
    check_measured,
    whole_numbers,
)
from dprelease.fitting.structure import Dimension, IntArray, Level, Structure, factor, within
from dprelease.intervals.law import SumLaw, law_of
from dprelease.intervals.noise import Noise, Term


class KnownTable(NamedTuple):
    """What is known of a table: noisy integers of a block, or public totals, where there is no noise."""

    name: str
    level: Level
    noise: Noise | None
    block: str
    factor: int = 1
    residual: bool = False


class Spaces:
    """Sums, and what cells say beyond those of the levels above, between all levels of some axes."""

    def __init__(self, axes: Iterable[Dimension]) -> None:
        self.axes = [EvenAxis(axis) for axis in axes]

    def merged(self, level: Level) -> int:
        """Return how many finest cells of the even cross a cell at `level` holds."""
        return math.prod(a.even[-1] // a.even[k] for a, k in zip(self.axes, level, strict=True))

    def fans(self, level: Level) -> list[int]:
        """Return, per axis that the level has, how many of its cells are in one of the level above."""
        return [a.fan(k) for a, k in zip(self.axes, level, strict=True) if k]

    def shape(self, level: Level) -> tuple[int, ...]:
        return tuple(a.axis.sizes[k] for a, k in zip(self.axes, level, strict=True) if k)

    def summed(self, values: Objects, fine: Level, coarse: Level) -> Objects:
        used = ((a, k, r) for a, k, r in zip(self.axes, fine, coarse, strict=True) if k)
        for i, (a, k, r) in enumerate(used):
            if k != r:
                order, starts = a.groups(k, r)
                values = np.add.reduceat(np.take(values, order, axis=i), starts, axis=i)
        return np.asarray(values, dtype=object).reshape(self.shape(coarse))

    def spread(self, values: Objects, coarse: Level, fine: Level) -> Objects:
        used = [(a, r, k) for a, r, k in zip(self.axes, coarse, fine, strict=True) if k]
        values = np.asarray(values, dtype=object).reshape([a.axis.sizes[r] for a, r, _ in used])
        for i, (a, r, k) in enumerate(used):
            if k != r:
                values = np.take(values, a.up(k, r), axis=i)
        return values

    def residuals(self, values: Objects, level: Level) -> Objects:
        """Return the product over all axes of f I - J, applied to the cells of a level."""
        for at, k in enumerate(level):
            if k:
                above = (*level[:at], k - 1, *level[at + 1 :])
                averages = self.spread(self.summed(values, level, above), above, level)
                values = self.axes[at].fan(k) * values - averages
        return values


class CrossEstimator(Spaces):
    """Estimates of tables of a cross, or of a set of its margins. Satisfies `Estimator`."""

    def __init__(
        self,
        structure: Structure,
        noises: Mapping[str, Noise | None],
        public: Collection[str],
        sources: Sequence[KnownTable] = (),
    ) -> None:
        if not sources:
            check_measured(structure, noises, public)
        if not structure.axes:
            raise PlanError(
                "tables that do not refine each other need their axes",
                fix="describe them as a cross",
                code="DPR280",
            )
        super().__init__(structure.axes)
        self.structure = structure
        made = {
            t.name: KnownTable(t.name, t.level, noises.get(t.name), t.name)
            for t in structure.tables
        }
        self.sources = list(sources) or [
            *(made[name]._replace(noise=None) for name in made if name in public),
            *(one for name, one in made.items() if name not in public and one.noise is not None),
        ]
        self._worth = [self._precision(s) for s in self.sources]
        self._weights, self._spaces = cache(self._weighed), cache(self._spaced)

    def _precision(self, source: KnownTable) -> Fraction:
        """Return the precision of a source in the spaces that it holds; 0 where all is known."""
        if source.noise is None:
            return Fraction(0)
        return source.factor**2 * self.merged(source.level) / source.noise.variance()

    def _weighed(self, space: Level) -> dict[int, Fraction]:
        """Return what the sums of every source that holds a residual space weigh there."""
        holding = [
            (i, s, self._worth[i])
            for i, s in enumerate(self.sources)
            if (s.level == space if s.residual else within(space, s.level))
        ]
        sure = [i for i, s, _ in holding if s.noise is None]
        if sure:
            return dict.fromkeys(sure, Fraction(1, len(sure)))
        total = sum((worth for _, _, worth in holding), Fraction(0))
        return {i: worth / total / s.factor for i, s, worth in holding}

    def _spaced(self, level: Level) -> list[tuple[Level, int]]:
        """Return the residual spaces of a table that hold something, and how many of its cells are in one of theirs."""
        of = self.merged(level)
        return [(s, self.merged(s) // of) for s in up_to(level) if 1 not in self.fans(s)]

    def estimates(
        self, noisy: Mapping[str, Sequence[int]], totals: Mapping[str, Sequence[int]]
    ) -> Estimates:
        tables = self.structure.tables
        found = self.estimated(noisy, totals, [table.level for table in tables])
        values = {
            t.name: np.where(self.structure.empty(t), 0, found[t.level]).tolist() for t in tables
        }
        return Estimates(values, Fraction(1, ONE))

    def estimated(
        self,
        noisy: Mapping[str, Sequence[int]],
        totals: Mapping[str, Sequence[int]],
        levels: Iterable[Level],
    ) -> dict[Level, Objects]:
        """Return the estimates of all cells of some levels, structural zeros or not."""
        values = [
            whole_numbers((totals if s.noise is None else noisy)[s.name]).reshape(
                self.shape(s.level)
            )
            for s in self.sources
        ]

        @cache
        def known(space: Level) -> tuple[Objects, int]:
            weights = self._weights(space)
            bottom = math.lcm(*(w.denominator for w in weights.values()))
            top: Any = sum(
                self.summed(values[i], self.sources[i].level, space) * int(w * bottom)
                for i, w in weights.items()
            )
            return self.residuals(top, space), bottom * math.prod(self.fans(space))

        return {level: self._estimated(level, known) for level in levels}

    def _estimated(self, level: Level, known: Any) -> Objects:
        parts = [(space, *known(space), below) for space, below in self._spaces(level)]
        common = math.lcm(*(bottom * below for _, _, bottom, below in parts))
        top: Any = sum(
            self.spread(values, space, level) * (common // (bottom * below))
            for space, values, bottom, below in parts
        )
        return np.asarray((2 * (top << BITS) + common) // (2 * common), dtype=object).reshape(-1)

    def behind(self, wanted: Wanted) -> Behind:
        """Sum weights where `estimates` spreads, and spread them where it sums."""
        out = [whole_numbers([0] * math.prod(self.shape(s.level))) for s in self.sources]
        parts = [
            (table, space, below * math.prod(self.fans(space)))
            for name in wanted
            for table in [self.structure.table(name)]
            for space, below in self._spaces(table.level)
        ]
        above = math.lcm(*(w.denominator for of in wanted.values() for w in of.values()))
        below = math.lcm(
            *(
                (w / each).denominator
                for _, space, each in parts
                for w in self._weights(space).values()
            )
        )
        for table, space, each in parts:
            weights = whole_numbers([0] * table.cells)
            for cell, weight in wanted[table.name].items():
                weights[cell] = int(weight * above)
            weights = np.where(self.structure.empty(table), 0, weights)
            sums = self.summed(weights.reshape(self.shape(table.level)), table.level, space)
            values = self.residuals(sums, space)
            for i, w in self._weights(space).items():
                took = self.spread(values, space, self.sources[i].level).reshape(-1)
                out[i] = out[i] + took * int(w / each * below)
        names = [s.name for s in self.sources]
        return Behind(dict(zip(names, out, strict=True)), above * below)

    # Classes, variances and terms.

    def classes(self, table: str) -> IntArray:
        one = self.structure.table(table)
        at = np.zeros(1, dtype=np.int64)
        for a, k in zip(self.axes, one.level, strict=True):
            kinds = a.kinds(k)
            at = (at[:, None] * (int(kinds.max()) + 1) + kinds).reshape(-1)
        return alike(np.where(self.structure.empty(one), -1, at))

    def variance(self, table: str) -> npt.NDArray[np.float64]:
        classes = self.classes(table)
        _, first = np.unique(classes, return_index=True)
        per_class = [
            sum(float(t.noise.variance()) * t.draws * float(t.weight) ** 2 for t in terms)
            for terms in (self.terms(table, int(cell)) for cell in first)
        ]
        return np.array(per_class, dtype=np.float64)[classes]

    def _shares(self, i: int, level: Level) -> dict[Level, Fraction]:
        """Return what a cell of a table takes of one of a source's, by the levels to which they agree on every axis."""
        common = tuple(map(min, level, self.sources[i].level))
        parts = [
            (space, weights[i] / below)
            for space, below in self._spaces(level)
            if i in (weights := self._weights(space))
        ]
        return {
            agree: sum((w * self._part(space, agree) for space, w in parts), Fraction(0))
            for agree in up_to(common)
        }

    def _part(self, space: Level, agree: Level) -> Fraction:
        """Return the entry of P_s for two cells that agree up to some levels."""
        out = Fraction(1)
        for a, s, g in zip(self.axes, space, agree, strict=True):
            if s and g < s - 1:
                return Fraction(0)
            if s:
                out *= Fraction((a.fan(s) if g >= s else 0) - 1, a.fan(s))
        return out

    def terms(self, table: str, cell: int) -> tuple[Term, ...]:
        one = self.structure.table(table)
        if self.structure.empty(one)[cell]:
            return ()
        at = iter(np.unravel_index(cell, self.shape(one.level)))
        place = [int(next(at)) if k else 0 for k in one.level]
        found: Counter[tuple[str, Fraction]] = Counter()
        noises: dict[str, Noise] = {}
        holding = {i for space, _ in self._spaces(one.level) for i in self._weights(space)}
        for i in sorted(holding):
            if (s := self.sources[i]).noise is None:
                continue
            noises[s.block] = s.noise
            counts = [
                a.agreements(k, at, t)
                for a, k, at, t in zip(self.axes, one.level, place, s.level, strict=True)
            ]
            for agree, weight in self._shares(i, one.level).items():
                count = math.prod(c[k] for c, k in zip(counts, agree, strict=True))
                if count and weight:
                    found[s.block, weight] += count
        return tuple(
            Term(noises[block], count, weight) for (block, weight), count in sorted(found.items())
        )

    def law(self, table: str, cell: int) -> SumLaw:
        return law_of(self.terms(table, cell))


class EvenAxis:
    """An axis, and the hierarchy that it is filled up to: there all groups of one level hold equally many cells."""

    def __init__(self, axis: Dimension) -> None:
        self.axis = axis
        self.up = cache(self._up)
        self.groups = cache(self._groups)
        self.agreements = cache(self._agreements)
        self.kinds = cache(self._kinds)
        self.even = [1]
        for k in range(1, len(axis.sizes)):
            fans = np.bincount(self.up(k, k - 1))
            self.even.append(self.even[-1] * int(fans.max()))

    def fan(self, level: int) -> int:
        return self.even[level] // self.even[level - 1]

    def _up(self, fine: int, coarse: int) -> IntArray:
        """Return the map from the cells of one level to those of a coarser one."""
        return factor(self.axis.map(coarse), self.axis.map(fine))

    def _groups(self, fine: int, coarse: int) -> tuple[IntArray, IntArray]:
        """Return an order of the cells of a level by those of a coarser one, and where each of these starts."""
        return by_parent(self.up(fine, coarse))

    def _agreements(self, level: int, cell: int, other: int) -> list[int]:
        """Return how many cells of the level `other` agree with `cell` exactly up to each level.

        Entry a counts those in its group of level a and not in its group of level a + 1, for a up
        to the coarser of both levels.
        """
        common = min(level, other)
        inside = [
            int(np.count_nonzero(self.up(other, a) == self.up(level, a)[cell]))
            for a in range(common + 1)
        ]
        return [n - m for n, m in zip(inside, [*inside[1:], 0], strict=True)]

    def _kinds(self, level: int) -> IntArray:
        """Return the kind of every cell: those of one kind have groups of the same sizes."""
        deepest = len(self.axis.sizes)
        rows = [
            np.bincount(self.up(below, a), minlength=self.axis.sizes[a])[self.up(level, a)]
            for a in range(level + 1)
            for below in range(a, deepest)
        ]
        return alike(np.stack(rows, axis=1), axis=0)


def up_to(level: Level) -> Iterator[Level]:
    """Return a level and all that are coarser."""
    return itertools.product(*[range(k + 1) for k in level])
