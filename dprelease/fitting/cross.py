"""Weighted least squares on cross-tabulations: closed form over the levels of every axis.

With E_r the averaging of a full cross to the levels r, the residual spaces (the differences of
neighbouring levels, per axis) are common to all tables of an even cross, and a table T that is
summed over k_T finest cells knows each space that it holds with precision k_T / variance. So the
least-squares estimate weighs tables within every space, and as a linear form it is, for a table U,

    x_U = S over T, r of D[U, T, r] * (noisy T, summed to the levels r),   r <= U, T,

with exact rational D. Uneven hierarchies are filled up with cells that do not exist: the form stays
unbiased, is least squares up to the filling, and cells that do not exist bring no noise. Structural
zeros inside a cross are measured, if they are, and otherwise not used; cells that hold nothing else
are 0.

Units    values in 2^-32 steps, variances in steps squared.
Sources  `docs/theory/publications-that-add-up.md#least-squares`; residual spaces: Xiao, He, Zhang &
         Kifer, ResidualPlanner, arXiv:2305.08175.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property

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
    check_measured,
    whole_numbers,
)
from dprelease.fitting.structure import Dimension, IntArray, Structure, Table, factor
from dprelease.intervals.law import SumLaw, law_of
from dprelease.intervals.noise import Noise, Term

_Levels = tuple[int, ...]


class CrossEstimator:
    """Estimates of tables of a cross. Satisfies `Estimator`."""

    def __init__(
        self, structure: Structure, noises: Mapping[str, Noise | None], public: Collection[str]
    ) -> None:
        check_measured(structure, noises, public)
        if not structure.axes:
            raise PlanError(
                "tables that do not refine each other need their axes",
                fix="describe them as a cross",
                code="DPR280",
            )
        self.structure = structure
        self.axes = [_EvenAxis(axis) for axis in structure.axes]
        self.public = [table for table in structure.tables if table.name in public]
        self.noises = {
            table.name: noise
            for table in structure.tables
            if table.name not in public and (noise := noises.get(table.name)) is not None
        }
        self.known = [*self.public, *(t for t in structure.tables if t.name in self.noises)]
        self._form_of: dict[str, dict[str, dict[_Levels, Fraction]]] = {}

    def merged(self, level: _Levels) -> int:
        """Return how many finest cells of the even cross a cell at `level` holds."""
        return math.prod(a.even[-1] // a.even[k] for a, k in zip(self.axes, level, strict=True))

    def _precision(self, table: Table) -> Fraction:
        return self.merged(table.level) / self.noises[table.name].variance()

    def _weight(self, table: Table, space: _Levels) -> Fraction:
        """Return the weight of a table in one residual space; 0 if it does not hold it."""
        if not _within(space, table.level):
            return Fraction(0)
        sure = [one for one in self.public if _within(space, one.level)]
        if sure:
            return Fraction(1, len(sure)) if table in sure else Fraction(0)
        held = [one for one in self.known if _within(space, one.level)]
        return self._precision(table) / sum(self._precision(one) for one in held)

    @cached_property
    def _averages(self) -> dict[str, dict[_Levels, Fraction]]:
        """Per known table: the coefficient of its averages to every level."""
        out = {}
        for table in self.known:
            of: dict[_Levels, Fraction] = {}
            for r in _up_to(table.level):
                steps = itertools.product(
                    *[range(min(2, t - k + 1)) for t, k in zip(table.level, r, strict=True)]
                )
                of[r] = sum(
                    (
                        (-1) ** sum(step)
                        * self._weight(table, tuple(a + b for a, b in zip(r, step, strict=True)))
                        for step in steps
                    ),
                    Fraction(0),
                )
            out[table.name] = of
        return out

    def _forms(self, table: Table) -> dict[str, dict[_Levels, Fraction]]:
        """Return D: per known table, the coefficient of its sums to every level."""
        if table.name not in self._form_of:
            self._form_of[table.name] = self._made_forms(table)
        return self._form_of[table.name]

    def _made_forms(self, table: Table) -> dict[str, dict[_Levels, Fraction]]:
        out = {}
        for known, of in self._averages.items():
            found: dict[_Levels, Fraction] = {}
            for r, weight in of.items():
                common = tuple(map(min, r, table.level))
                share = Fraction(self.merged(table.level), self.merged(common))
                found[common] = found.get(common, Fraction(0)) + weight * share
            out[known] = {r: weight for r, weight in found.items() if weight}
        return out

    def estimates(
        self, noisy: Mapping[str, Sequence[int]], totals: Mapping[str, Sequence[int]]
    ) -> Estimates:
        given = {
            table.name: whole_numbers(
                totals[table.name] if table in self.public else noisy[table.name]
            ).reshape(self._shape(table.level))
            for table in self.known
        }
        values = {}
        for table in self.structure.tables:
            top: Objects = whole_numbers([0] * table.cells).reshape(self._shape(table.level))
            forms = self._forms(table)
            bottom = math.lcm(*(w.denominator for of in forms.values() for w in of.values()))
            for known in self.known:
                for r, weight in forms[known.name].items():
                    whole = int(weight * bottom)
                    sums = self._summed(given[known.name], known.level, r)
                    top = top + whole * self._spread(sums, r, table.level)
            rounded = (2 * (top << BITS) + bottom) // (2 * bottom)
            flat = np.where(self.structure.empty(table), 0, rounded.reshape(-1))
            values[table.name] = flat.tolist()
        return Estimates(values, Fraction(1, ONE))

    def behind(self, wanted: Wanted) -> Behind:
        """Sum weights where `estimates` spreads, and spread them where it sums."""
        out = {
            known.name: whole_numbers([0] * known.cells).reshape(self._shape(known.level))
            for known in self.known
        }
        tables = [self.structure.table(name) for name in wanted]
        forms = [w for table in tables for of in self._forms(table).values() for w in of.values()]
        below = math.lcm(*(w.denominator for w in forms))
        bottom = math.lcm(*(w.denominator for of in wanted.values() for w in of.values()))
        for table in tables:
            weights = whole_numbers([0] * table.cells)
            for cell, weight in wanted[table.name].items():
                weights[cell] = int(weight * bottom)
            weights = np.where(self.structure.empty(table), 0, weights)
            weights = weights.reshape(self._shape(table.level))
            for known, coefficients in self._forms(table).items():
                level = self.structure.table(known).level
                for r, weight in coefficients.items():
                    sums = self._summed(weights, table.level, r)
                    out[known] = out[known] + self._spread(sums, r, level) * int(weight * below)
        return Behind({known: found.reshape(-1) for known, found in out.items()}, bottom * below)

    def _shape(self, level: _Levels) -> tuple[int, ...]:
        return tuple(a.axis.sizes[k] for a, k in zip(self.axes, level, strict=True))

    def _summed(self, values: Objects, fine: _Levels, coarse: _Levels) -> Objects:
        for i, (a, k, r) in enumerate(zip(self.axes, fine, coarse, strict=True)):
            if k != r:
                up = a.up(k, r)
                order = np.argsort(up, kind="stable")
                starts = np.flatnonzero(np.diff(up[order], prepend=-1))
                values = np.add.reduceat(np.take(values, order, axis=i), starts, axis=i)
        return values

    def _spread(self, values: Objects, coarse: _Levels, fine: _Levels) -> Objects:
        for i, (a, r, k) in enumerate(zip(self.axes, coarse, fine, strict=True)):
            if k != r:
                values = np.take(values, a.up(k, r), axis=i)
        return values

    # Classes, variances and terms.

    def classes(self, table: str) -> IntArray:
        one = self.structure.table(table)
        at = np.zeros((1,) * len(self.axes), dtype=np.int64)
        for i, (a, k) in enumerate(zip(self.axes, one.level, strict=True)):
            kinds = a.kinds(k)
            shape = [1] * len(self.axes)
            shape[i] = kinds.size
            at = at * (int(kinds.max()) + 1) + kinds.reshape(shape)
        flat = np.where(self.structure.empty(one), -1, at.reshape(-1))
        _, found = np.unique(flat, return_inverse=True)
        return np.asarray(found, dtype=np.int64).reshape(-1)

    def variance(self, table: str) -> npt.NDArray[np.float64]:
        classes = self.classes(table)
        _, first = np.unique(classes, return_index=True)
        per_class = [
            sum(float(t.noise.variance()) * t.draws * float(t.weight) ** 2 for t in terms)
            for terms in (self.terms(table, int(cell)) for cell in first)
        ]
        return np.array(per_class, dtype=np.float64)[classes]

    def terms(self, table: str, cell: int) -> tuple[Term, ...]:
        one = self.structure.table(table)
        if self.structure.empty(one)[cell]:
            return ()
        place = np.unravel_index(cell, self._shape(one.level))
        forms = self._forms(one)
        found: Counter[tuple[str, Fraction]] = Counter()
        for known in self.known:
            if known in self.public:
                continue
            per_axis = [
                a.agreements(k, int(at), t)
                for a, k, at, t in zip(self.axes, one.level, place, known.level, strict=True)
            ]
            for agreement in itertools.product(*[range(len(counts)) for counts in per_axis]):
                count = math.prod(c[k] for c, k in zip(per_axis, agreement, strict=True))
                weight = sum(
                    (w for r, w in forms[known.name].items() if _within(r, agreement)), Fraction(0)
                )
                if count and weight:
                    found[known.name, weight] += count
        return tuple(
            Term(self.noises[name], count, weight)
            for (name, weight), count in sorted(found.items())
        )

    def law(self, table: str, cell: int) -> SumLaw:
        return law_of(self.terms(table, cell))


class _EvenAxis:
    """An axis, and the hierarchy that it is filled up to: there all groups of one level hold equally many cells."""

    def __init__(self, axis: Dimension) -> None:
        self.axis = axis
        self.even = [1]
        for k in range(1, len(axis.sizes)):
            fans = np.bincount(self.up(k, k - 1))
            self.even.append(self.even[-1] * int(fans.max()))

    def up(self, fine: int, coarse: int) -> IntArray:
        """Return the map from the cells of one level to those of a coarser one."""
        return factor(self.axis.map(coarse), self.axis.map(fine))

    def agreements(self, level: int, cell: int, other: int) -> list[int]:
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

    def kinds(self, level: int) -> IntArray:
        """Return the kind of every cell: those of one kind have groups of the same sizes."""
        deepest = len(self.axis.sizes)
        rows = [
            np.bincount(self.up(below, a), minlength=self.axis.sizes[a])[self.up(level, a)]
            for a in range(level + 1)
            for below in range(a, deepest)
        ]
        _, found = np.unique(np.stack(rows, axis=1), axis=0, return_inverse=True)
        return np.asarray(found, dtype=np.int64).reshape(-1)


def _within(low: _Levels, high: _Levels) -> bool:
    return all(a <= b for a, b in zip(low, high, strict=True))


def _up_to(level: _Levels) -> Iterator[_Levels]:
    return itertools.product(*[range(k + 1) for k in level])
