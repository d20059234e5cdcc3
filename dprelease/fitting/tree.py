"""Weighted least squares on nested tables: up the tree, then down, exact weights per class of nodes.

Up: a node's estimate from its own subtree is z = (1 - g) y + g (sum of the children's z), with
g = s^2 / (s^2 + T), T the sum of the children's variances. Down: x = z + h (x of the parent - sum
of all children's z), h = variance / T. With these g and h this is weighted least squares; with any
g and h it is unbiased, and they are rounded to 48 binary digits, so its coefficients are known
exactly. Nodes with isomorphic subtrees are one class.

Units    values in 2^-32 steps, variances in steps squared.
Sources  `docs/theory/publications-that-add-up.md#least-squares`; Hay, Rastogi, Miklau & Suciu,
         arXiv:0904.0942 (even trees).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

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
from dprelease.fitting.structure import IntArray, Structure
from dprelease.intervals.law import SumLaw
from dprelease.intervals.noise import Noise, Term

_WEIGHT = 48
"""Binary digits of g and h."""

_Weights = dict[tuple[int, Fraction], int]
"""(level, weight of one draw) -> how many draws."""


@dataclass(frozen=True)
class _Class:
    """Nodes of one level with isomorphic subtrees: what they are made of, and their weights."""

    level: int
    children: tuple[tuple[int, int], ...]
    gain: int
    variance: float
    below: float
    """The sum of the children's variances."""


@dataclass(frozen=True)
class _Place:
    """Nodes of one class under parents of one place."""

    parent: int
    kind: int
    own: Fraction
    """Weight of the node's own z in its estimate."""
    variance: float
    rest: float
    """Variance of what comes from outside its subtree."""


class TreeEstimator:
    """Estimates of nested tables. Satisfies `Estimator`."""

    def __init__(
        self, structure: Structure, noises: Mapping[str, Noise | None], public: Collection[str]
    ) -> None:
        check_measured(structure, noises, public)
        self.structure = structure
        self.tables = [structure.tables[j] for j in structure.chain]
        self.public = [table.name in public for table in self.tables]
        self.noises = [noises.get(table.name) for table in self.tables]
        self.parents = [structure.parent(j) for j in range(1, len(self.tables))]
        self.kinds: list[list[_Class]] = [[] for _ in self.tables]
        self.kind: list[IntArray] = [np.zeros(0, dtype=np.int64) for _ in self.tables]
        for level in range(len(self.tables) - 1, -1, -1):
            self._classify(level)
        self._expanded = lru_cache(maxsize=None)(self._expand)
        self._around = lru_cache(maxsize=None)(self._outside)
        self._law = lru_cache(maxsize=None)(self._own_law)
        self._beside = lru_cache(maxsize=None)(self._outer_law)

    # Up: classes and their weights.

    def _classify(self, level: int) -> None:
        table = self.tables[level]
        if level == len(self.tables) - 1:
            signs: list[tuple[tuple[int, int], ...]] = [
                ((-1, 1),) if zero else () for zero in self.structure.zeros.tolist()
            ]
        else:
            below: list[Counter[int]] = [Counter() for _ in range(table.cells)]
            for up, kind in zip(
                self.parents[level].tolist(), self.kind[level + 1].tolist(), strict=True
            ):
                below[up][kind] += 1
            signs = [tuple(sorted(count.items())) for count in below]
        known = {sign: k for k, sign in enumerate(sorted(set(signs)))}
        self.kinds[level] = [self._made(level, sign) for sign in known]
        self.kind[level] = np.array([known[sign] for sign in signs], dtype=np.int64)

    def _made(self, level: int, sign: tuple[tuple[int, int], ...]) -> _Class:
        """Return a class: a leaf has no children; ((-1, 1),) is a structural zero."""
        leaf = level == len(self.tables) - 1
        if leaf and sign:
            return _Class(level, (), 0, 0.0, 0.0)
        below = sum(n * self.kinds[level + 1][k].variance for k, n in sign) if sign else 0.0
        noise = self.noises[level]
        if self.public[level] or (leaf and noise is None):
            return _Class(level, sign, 0, 0.0, below)
        if leaf:
            assert noise is not None
            return _Class(level, (), 0, float(noise.variance()), 0.0)
        if noise is None or below == 0:
            return _Class(level, sign, 1 << _WEIGHT, below, below)
        own = float(noise.variance())
        gain = own / (own + below)
        return _Class(level, sign, round(gain * 2.0**_WEIGHT), gain * below, below)

    # Down: places.

    @cached_property
    def places(self) -> tuple[list[list[_Place]], list[IntArray]]:
        """Places per level, and the place of every cell."""
        first = [
            _Place(-1, k, Fraction(1), kind.variance, 0.0) for k, kind in enumerate(self.kinds[0])
        ]
        made, place = [first], [self.kind[0]]
        for level in range(1, len(self.tables)):
            above = place[-1][self.parents[level - 1]]
            pairs = np.stack([above, self.kind[level]], axis=1)
            found, at = np.unique(pairs, axis=0, return_inverse=True)
            made.append([self._place(level, p, k, made[-1][p]) for p, k in found.tolist()])
            place.append(np.asarray(at, dtype=np.int64).reshape(-1))
        return made, place

    def _share(self, level: int, kind: int, up: int) -> Fraction:
        """Return h of a child class under a parent class."""
        child, above = self.kinds[level][kind], self.kinds[level - 1][up]
        if above.below == 0:
            return Fraction(0)
        return Fraction(round(child.variance / above.below * 2.0**_WEIGHT), 1 << _WEIGHT)

    def _place(self, level: int, parent: int, kind: int, above: _Place) -> _Place:
        up, child = self.kinds[level - 1][above.kind], self.kinds[level][kind]
        h, g = self._share(level, kind, above.kind), Fraction(up.gain, 1 << _WEIGHT)
        drawn = float(above.own * (1 - g)) ** 2 * self._drawn(level - 1)
        siblings = float(above.own * g - 1) ** 2 * (up.below - child.variance)
        rest = float(h) ** 2 * (drawn + siblings + above.rest)
        own = 1 + h * (above.own * g - 1)
        return _Place(parent, kind, own, float(own) ** 2 * child.variance + rest, rest)

    def _drawn(self, level: int) -> float:
        """Return the variance of a node's own noise."""
        noise = self.noises[level]
        return 0.0 if noise is None or self.public[level] else float(noise.variance())

    # What an estimator answers.

    def _level(self, table: str) -> int:
        return [one.name for one in self.tables].index(table)

    def classes(self, table: str) -> IntArray:
        return self.places[1][self._level(table)]

    def variance(self, table: str) -> npt.NDArray[np.float64]:
        level = self._level(table)
        made, place = self.places
        return np.array([one.variance for one in made[level]])[place[level]]

    def terms(self, table: str, cell: int) -> tuple[Term, ...]:
        level = self._level(table)
        made, place = self.places
        at = int(place[level][cell])
        one = made[level][at]
        found = Counter(self._around(level, at))
        _add(found, self._expanded(level, one.kind), one.own)
        out = []
        for (j, weight), count in sorted(found.items()):
            noise = self.noises[j]
            if weight and noise is not None:
                out.append(Term(noise, count, weight))
        return tuple(out)

    def _expand(self, level: int, kind: int) -> _Weights:
        """Return z of a class by its draws."""
        one = self.kinds[level][kind]
        found: Counter[tuple[int, Fraction]] = Counter()
        if one.variance == 0:
            return found
        g = Fraction(one.gain, 1 << _WEIGHT)
        if self.noises[level] is not None:
            found[level, 1 - g] += 1
        if g:
            for child, count in one.children:
                _add(found, self._expanded(level + 1, child), g, count)
        return found

    def _outside(self, level: int, place: int) -> _Weights:
        """Return what a place's estimate holds from outside its subtree."""
        found: Counter[tuple[int, Fraction]] = Counter()
        if level == 0:
            return found
        made, _ = self.places
        one = made[level][place]
        above = made[level - 1][one.parent]
        up = self.kinds[level - 1][above.kind]
        h, g = self._share(level, one.kind, above.kind), Fraction(up.gain, 1 << _WEIGHT)
        if not h:
            return found
        if self._drawn(level - 1) and g != 1:
            found[level - 1, h * above.own * (1 - g)] += 1
        for child, count in up.children:
            others = count - (child == one.kind)
            _add(found, self._expanded(level, child), h * (above.own * g - 1), others)
        _add(found, self._around(level - 1, one.parent), h)
        return found

    def law(self, table: str, cell: int) -> SumLaw:
        level = self._level(table)
        places, at = self.places
        one = places[level][int(at[level][cell])]
        own = self._law(level, one.kind)
        return SumLaw.of(
            [(own, float(one.own), 1), (self._beside(level, int(at[level][cell])), 1.0, 1)]
        )

    def _own_law(self, level: int, kind: int) -> SumLaw:
        """Return the law of z of a class."""
        one = self.kinds[level][kind]
        if one.variance == 0:
            return SumLaw({})
        g = one.gain / 2.0**_WEIGHT
        parts = [(self._law(level + 1, k), g, n) for k, n in one.children]
        noise = self.noises[level]
        if noise is not None:
            parts.append((SumLaw({(noise, 1.0): 1}), 1 - g, 1))
        return SumLaw.of(parts)

    def _outer_law(self, level: int, place: int) -> SumLaw:
        """Return the law of what comes from outside a place's subtree."""
        if level == 0:
            return SumLaw({})
        one = self.places[0][level][place]
        above = self.places[0][level - 1][one.parent]
        up = self.kinds[level - 1][above.kind]
        h, g = float(self._share(level, one.kind, above.kind)), up.gain / 2.0**_WEIGHT
        weight = h * (float(above.own) * g - 1)
        parts = [(self._beside(level - 1, one.parent), h, 1)]
        noise = self.noises[level - 1]
        if noise is not None and not self.public[level - 1]:
            parts.append((SumLaw({(noise, 1.0): 1}), h * float(above.own) * (1 - g), 1))
        parts += [(self._law(level, k), weight, n - (k == one.kind)) for k, n in up.children]
        return SumLaw.of(parts)

    def estimates(
        self, noisy: Mapping[str, Sequence[int]], totals: Mapping[str, Sequence[int]]
    ) -> Estimates:
        last = len(self.tables) - 1
        own = [self._read(level, noisy, totals) for level in range(last + 1)]
        up: list[Objects] = [*own]
        sums: list[Objects] = [*own]
        up[last] = np.where(self.structure.zeros, 0, own[last])
        for level in range(last - 1, -1, -1):
            sums[level] = _sums(up[level + 1], self.parents[level])
            if self.public[level]:
                continue
            up[level] = own[level] + _shifted(self._gains[level] * (sums[level] - own[level]))
        out = [up[0]]
        for level in range(1, last + 1):
            out.append(self._down(level, up[level], out[-1] - sums[level - 1]))
        values = {table.name: x.tolist() for table, x in zip(self.tables, out, strict=True)}
        return Estimates(values, Fraction(sum(table.cells for table in self.tables), ONE))

    def behind(self, wanted: Wanted) -> Behind:
        """Follow `estimates` backwards: what goes down there comes up here, and the other way round."""
        last = len(self.tables) - 1
        bits = _WEIGHT * (2 * last + 1)  # every weight is a multiple of 2^-bits, so no shift rounds
        bottom = math.lcm(*(w.denominator for of in wanted.values() for w in of.values()))
        out = [whole_numbers([0] * table.cells) for table in self.tables]
        for table, of in wanted.items():
            at = out[self._level(table)]
            for cell, weight in of.items():
                at[cell] = int(weight * bottom) << bits
        for level in range(last, 0, -1):
            up = self.parents[level - 1]
            missing = _sums(out[level] * self._shares[level - 1], up) >> _WEIGHT
            out[level - 1] = out[level - 1] + missing
            out[level] = out[level] - missing[up]
        for level in range(last):
            below = (out[level] * self._gains[level]) >> _WEIGHT
            out[level] = out[level] - below
            out[level + 1] = out[level + 1] + below[self.parents[level]]
        out[last] = np.where(self.structure.zeros, 0, out[last])
        names = [table.name for table in self.tables]
        return Behind(dict(zip(names, out, strict=True)), bottom << bits)

    def _read(
        self, level: int, noisy: Mapping[str, Sequence[int]], totals: Mapping[str, Sequence[int]]
    ) -> Objects:
        table = self.tables[level]
        if self.public[level]:
            return whole_numbers(totals[table.name]) << BITS
        if self.noises[level] is not None:
            return whole_numbers(noisy[table.name]) << BITS
        return whole_numbers([0] * table.cells)

    def _down(self, level: int, up: Objects, missing: Objects) -> Objects:
        """Share what is missing at the parents among their children."""
        return np.asarray(up + _shifted(self._shares[level - 1] * missing[self.parents[level - 1]]))

    @cached_property
    def _gains(self) -> list[Objects]:
        """g of every cell of a level, in 2^-48."""
        return [
            whole_numbers([one.gain for one in kinds])[kind]
            for kinds, kind in zip(self.kinds, self.kind, strict=True)
        ]

    @cached_property
    def _shares(self) -> list[Objects]:
        """h of every cell of a level below the first, in 2^-48."""
        return [self._level_shares(level) for level in range(1, len(self.tables))]

    def _level_shares(self, level: int) -> Objects:
        pairs = np.stack([self.kind[level - 1][self.parents[level - 1]], self.kind[level]], axis=1)
        found, at = np.unique(pairs, axis=0, return_inverse=True)
        shares = [self._share(level, k, p) * (1 << _WEIGHT) for p, k in found.tolist()]
        return whole_numbers([int(share) for share in shares])[np.asarray(at).reshape(-1)]


def _add(
    to: Counter[tuple[int, Fraction]], terms: _Weights, weight: Fraction, count: int = 1
) -> None:
    """Add `count` independent copies of `terms`, each times `weight`."""
    if weight and count:
        for (level, own), draws in terms.items():
            to[level, own * weight] += draws * count


def _shifted(values: Objects) -> Objects:
    """Divide by 2^48, rounding half up."""
    return np.asarray((values + (1 << (_WEIGHT - 1))) >> _WEIGHT)


def _sums(values: Objects, parent: IntArray) -> Objects:
    """Return the sum of the children of every parent."""
    order = np.argsort(parent, kind="stable")
    starts = np.flatnonzero(np.diff(parent[order], prepend=-1))
    return np.asarray(np.add.reduceat(values[order], starts))
