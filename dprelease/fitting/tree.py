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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.fitting.estimate import (
    BITS,
    ONE,
    Behind,
    Estimates,
    Objects,
    Wanted,
    by_parent,
    check_measured,
    whole_numbers,
)
from dprelease.fitting.structure import IntArray, Structure
from dprelease.intervals.law import SumLaw
from dprelease.intervals.noise import Noise, Term

_WEIGHT = 48
"""Binary digits of g and h."""

Up = tuple[float, float, float]
"""Of a class of nodes: the variance of z, g, and the sum of the children's variances."""

Down = tuple[Any, float]
"""Of a place: the weight of a node's own z in its estimate, and the variance of what comes from outside its subtree."""

_Part = tuple[Any, Fraction, int]
"""A combination of draws, its weight, and how many independent copies of it are added."""


class TreeShape:
    """Nested tables by classes and places.

    A class has the nodes of one level with isomorphic subtrees, a place those of a class under parents of one place.

    Attributes:
        children: per level and class how many children of each class a node has.
        places: per level (place of the parent, class) of every place; place: per level the place of every cell.
    """

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.tables = [structure.tables[j] for j in structure.chain]
        self.parents = [structure.parent(j) for j in range(1, len(self.tables))]
        self.children: list[list[tuple[tuple[int, int], ...]]] = []
        self.kind: list[IntArray] = []
        for level in range(len(self.tables) - 1, -1, -1):
            self._classify(level)
        self.places = [[(-1, kind) for kind in range(len(self.children[0]))]]
        self.place = [self.kind[0]]
        for up, own in zip(self.parents, self.kind[1:], strict=True):
            pairs = np.stack([self.place[-1][up], own], axis=1)
            found, at = np.unique(pairs, axis=0, return_inverse=True)
            self.places.append([(parent, kind) for parent, kind in found.tolist()])
            self.place.append(np.asarray(at, dtype=np.int64).reshape(-1))

    def _classify(self, level: int) -> None:
        """Put the classes of a level before those below; of leaves the children say whether it is a structural zero."""
        if not self.kind:
            signs: list[tuple[tuple[int, int], ...]] = [
                ((-1, 1),) if zero else () for zero in self.structure.zeros.tolist()
            ]
        else:
            below: list[Counter[int]] = [Counter() for _ in range(self.tables[level].cells)]
            for up, kind in zip(self.parents[level].tolist(), self.kind[0].tolist(), strict=True):
                below[up][kind] += 1
            signs = [tuple(sorted(count.items())) for count in below]
        known = {sign: k for k, sign in enumerate(sorted(set(signs)))}
        self.children.insert(0, list(known))
        self.kind.insert(0, np.array([known[sign] for sign in signs], dtype=np.int64))

    def up(self, own: Sequence[float | None]) -> list[list[Up]]:
        """Return what each class is at these variances of a level's measurements: None without one, 0 where it is public."""
        made: list[list[Up]] = [
            [(0.0 if zero else own[-1] or 0.0, 0.0, 0.0) for zero in self.children[-1]]
        ]
        for noise, classes in zip(own[-2::-1], self.children[-2::-1], strict=True):
            found = []
            for children in classes:
                below = sum(n * made[0][k][0] for k, n in children)
                gain = 1.0
                if noise is not None and (below or not noise):
                    gain = noise / (noise + below) if noise else 0.0
                found.append((gain * below, gain, below))
            made.insert(0, found)
        return made

    def down(
        self,
        own: Sequence[float | None],
        up: Sequence[Sequence[Up]],
        weight: Callable[[float], Any] = float,
    ) -> list[list[Down]]:
        """Return what each place is; `weight` makes g and h of floats."""
        made: list[list[Down]] = [[(1, 0.0) for _ in self.places[0]]]
        for level, places in enumerate(self.places[1:], 1):
            found: list[Down] = []
            for parent, kind in places:
                above, rest = made[-1][parent]
                _, gain, below = up[level - 1][self.places[level - 1][parent][1]]
                mine = up[level][kind][0]
                h, g = weight(mine / below if below else 0.0), weight(gain)
                drawn = float(above * (1 - g)) ** 2 * (own[level - 1] or 0.0)
                siblings = float(above * g - 1) ** 2 * (below - mine)
                rest = float(h) ** 2 * (drawn + siblings + rest)
                found.append((1 + h * (above * g - 1), rest))
            made.append(found)
        return made


class TreeEstimator(TreeShape):
    """Estimates of nested tables. Satisfies `Estimator`."""

    def __init__(
        self, structure: Structure, noises: Mapping[str, Noise | None], public: Collection[str]
    ) -> None:
        check_measured(structure, noises, public)
        super().__init__(structure)
        self.public = [table.name in public for table in self.tables]
        self.noises = [None if t.name in public else noises.get(t.name) for t in self.tables]
        each = zip(self.noises, self.public, strict=True)
        self._own = [
            0.0 if known else None if noise is None else float(noise.variance())
            for noise, known in each
        ]
        self._up = self.up(self._own)
        self._inside = lru_cache(maxsize=None)(self._drawn_inside)
        self._outside = lru_cache(maxsize=None)(self._drawn_outside)

    @cached_property
    def _down(self) -> list[list[Down]]:
        return self.down(self._own, self._up, _rounded)

    def _weights(self, level: int, kind: int, up: int) -> tuple[Fraction, Fraction]:
        """Return h of a child class under a parent class, and the g of that."""
        _, gain, below = self._up[level - 1][up]
        return _rounded(self._up[level][kind][0] / below if below else 0.0), _rounded(gain)

    # What an estimator answers.

    def _level(self, table: str) -> int:
        return [one.name for one in self.tables].index(table)

    def classes(self, table: str) -> IntArray:
        return self.place[self._level(table)]

    def variance(self, table: str) -> npt.NDArray[np.float64]:
        level = self._level(table)
        each = zip(self.places[level], self._down[level], strict=True)
        made = [float(w) ** 2 * self._up[level][kind][0] + rest for (_, kind), (w, rest) in each]
        return np.array(made)[self.place[level]]

    def terms(self, table: str, cell: int) -> tuple[Term, ...]:
        out = []
        for (level, weight), count in sorted(self._behind(_exact, table, cell).items()):
            noise = self.noises[level]
            if weight and noise is not None:
                out.append(Term(noise, count, weight))
        return tuple(out)

    def law(self, table: str, cell: int) -> SumLaw:
        made: SumLaw = self._behind(_law, table, cell)
        return made

    # Combinations of draws: exact ones by (level, weight), or their laws.

    def _behind(self, added: Any, table: str, cell: int) -> Any:
        level = self._level(table)
        at = int(self.place[level][cell])
        own = self._inside(added, level, self.places[level][at][1])
        weight = self._down[level][at][0]
        return added([(own, weight, 1), (self._outside(added, level, at), 1, 1)])

    def _draw(self, added: Any, level: int, weight: Fraction) -> list[_Part]:
        """Return a node's own draw, where there is one."""
        noise = self.noises[level]
        if noise is None:
            return []
        one = {(level, Fraction(1)): 1} if added is _exact else SumLaw({(noise, 1.0): 1})
        return [(one, weight, 1)]

    def _drawn_inside(self, added: Any, level: int, kind: int) -> Any:
        """Return z of a class."""
        variance, gain, _ = self._up[level][kind]
        if variance == 0:
            return added([])
        g = _rounded(gain)
        parts = [(self._inside(added, level + 1, k), g, n) for k, n in self.children[level][kind]]
        return added([*parts, *self._draw(added, level, 1 - g)])

    def _drawn_outside(self, added: Any, level: int, place: int) -> Any:
        """Return what a place's estimate holds from outside its subtree."""
        if level == 0:
            return added([])
        parent, kind = self.places[level][place]
        up = self.places[level - 1][parent][1]
        h, g = self._weights(level, kind, up)
        own = self._down[level - 1][parent][0]
        weight = h * (own * g - 1)
        return added(
            [
                (self._outside(added, level - 1, parent), h, 1),
                *self._draw(added, level - 1, h * own * (1 - g)),
                *(
                    (self._inside(added, level, k), weight, n - (k == kind))
                    for k, n in self.children[level - 1][up]
                ),
            ]
        )

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
            missing = (out[-1] - sums[level - 1])[self.parents[level - 1]]
            out.append(up[level] + _shifted(self._shares[level - 1] * missing))
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

    @cached_property
    def _gains(self) -> list[Objects]:
        """g of every cell of a level, in 2^-48."""
        return [
            whole_numbers([int(_rounded(gain) * (1 << _WEIGHT)) for _, gain, _ in classes])[kind]
            for classes, kind in zip(self._up, self.kind, strict=True)
        ]

    @cached_property
    def _shares(self) -> list[Objects]:
        """h of every cell of a level below the first, in 2^-48."""
        out = []
        for level, (places, place) in enumerate(zip(self.places[1:], self.place[1:], strict=True)):
            each = [self._weights(level + 1, k, self.places[level][p][1])[0] for p, k in places]
            out.append(whole_numbers([int(share * (1 << _WEIGHT)) for share in each])[place])
        return out


def _rounded(weight: float) -> Fraction:
    return Fraction(round(weight * 2.0**_WEIGHT), 1 << _WEIGHT)


def _exact(parts: Iterable[_Part]) -> Counter[tuple[int, Fraction]]:
    """Return how many draws of a level have which weight."""
    found: Counter[tuple[int, Fraction]] = Counter()
    for terms, weight, count in parts:
        if weight and count:
            for (level, own), draws in terms.items():
                found[level, own * weight] += draws * count
    return found


def _law(parts: Iterable[_Part]) -> SumLaw:
    return SumLaw.weighted_sum((law, float(weight), count) for law, weight, count in parts)


def _shifted(values: Objects) -> Objects:
    """Divide by 2^48, rounding half up."""
    return np.asarray((values + (1 << (_WEIGHT - 1))) >> _WEIGHT)


def _sums(values: Objects, parent: IntArray) -> Objects:
    """Return the sum of the children of every parent."""
    order, starts = by_parent(parent)
    return np.asarray(np.add.reduceat(values[order], starts))
