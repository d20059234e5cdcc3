"""Which tables to measure and with how much of the budget, from the expected errors after fitting.

Expected errors are closed forms of public facts: nothing is drawn. Shares are looked for on a grid
of 1/1024: from several subsets of tables, shares move between two tables at a time as long as

    S over published tables of weight * (variance after fitting / variance measured alone)

falls, where "alone" is an equal part of the budget for every published table. Under zCDP that is a
convex problem, under pure differential privacy it need not be: what is found is the best of several
starts, and never worse than measuring every table alone.

Units    steps squared; shares of the budget.
Sources  `docs/theory/publications-that-add-up.md#choosing-levels`; lower bound: Xiao, He, Zhang &
         Kifer, ResidualPlanner, arXiv:2305.08175.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from typing import Literal, Protocol

import numpy as np

from dprelease.core.errors import PlanError
from dprelease.fitting.cross import CrossEstimator
from dprelease.fitting.structure import Structure, within
from dprelease.fitting.tree import TreeShape
from dprelease.intervals.noise import Gaussian, Laplace

PARTS = 1024
"""Shares are multiples of 1 / PARTS."""
_STEPS = (256, 64, 16, 4, 1)
_SUBSETS, _MANY = 16, 200
"""Starts; two alone where one evaluation takes long: all tables, and the finest."""
_MISSED = 500.0  # per squared miss of a goal: smooth, so that shares can still move in pairs
_GAIN = 1e-7

Kind = Literal["pure", "zcdp"]
Variances = Mapping[str, float | None]
"""Per table: of its own noise; None where it is not measured, 0 where it is public."""


class Fitted(Protocol):
    """From variances of measurements to mean variances of cells after fitting."""

    @property
    def size(self) -> int:
        """How much there is to compute: kinds of cells, or residual spaces."""

    def __call__(self, own: Variances) -> dict[str, float]:
        """Return the mean variance of a cell of every table."""


@dataclass(frozen=True)
class Choice:
    """Shares of the budget per table, 0 where one is not measured, and mean variances of a cell.

    Attributes:
        own: of a table's own measurement; None where it is not measured.
        after: after fitting.
        alone: measured alone, with an equal part of the budget for every table.
        bound: under zCDP on even crosses, the least that any Gaussian measurement of the same budget
            could make of the weighted sum of `after / alone`; else None.
        reached: that sum.
    """

    shares: dict[str, Fraction]
    own: dict[str, float | None]
    after: dict[str, float]
    alone: dict[str, float]
    reached: float
    bound: float | None


def own_variance(kind: Kind, budget: Fraction, share: Fraction, sensitivity: int) -> float:
    """Return the variance of one measured cell; 0 for a table that no unit can move.

    Args:
        budget: epsilon, or rho.
        sensitivity: the L1 sensitivity in steps (pure), or the squared L2 sensitivity (zCDP).
    """
    if not sensitivity:
        return 0.0
    if kind == "pure":
        return float(Laplace(budget * share / sensitivity).variance())
    return float(Gaussian(max(Fraction(1), sensitivity / (2 * budget * share))).variance())


def fitted_variances(structure: Structure) -> Fitted:
    """Return the function from variances of measurements to those after fitting.

    On uneven crosses it is an upper bound: that of the even cross which they are filled up to.
    """
    if structure.sides:
        return _CrossLevels(structure)
    return _TreeLevels(structure)


def expected(
    structure: Structure,
    sensitivities: Mapping[str, int],
    shares: Mapping[str, Fraction],
    *,
    budget: Fraction,
    kind: Kind,
) -> dict[str, float]:
    """Return the mean variances after fitting at these shares; a table without one is not measured."""
    search = _Search(structure, sensitivities, budget, kind, {}, {})
    return search.fitted(search.own(shares))


def choose(
    structure: Structure,
    sensitivities: Mapping[str, int],
    *,
    budget: Fraction,
    kind: Kind,
    fixed: Mapping[str, Fraction] | None = None,
    weights: Mapping[str, float] | None = None,
    goals: Mapping[str, float] | None = None,
) -> Choice:
    """Return the shares with the least weighted sum of fitted errors, goals as far as they can be met.

    Args:
        sensitivities: per table, in steps (pure) or steps squared (zCDP); 0 is measured free.
        fixed: shares that are given; the rest is shared among the other tables.
        weights: of the tables in the sum, 1 where nothing is said.
        goals: the largest mean variance that a table may have after fitting.

    Raises:
        PlanError: the fixed shares leave nothing for the finest table (DPR285).
    """
    search = _Search(structure, sensitivities, budget, kind, dict(fixed or {}), dict(weights or {}))
    search.goals = dict(goals or {})
    finest = structure.finest.name
    free, left = search.free, search.left
    if left < 0 or (finest in free and left == 0) or (not free and left != 0 and search.paid):
        raise PlanError(
            "the shares of the tables do not add up to 1",
            why=f"they leave {left} for {len(free)} tables",
            fix="let the given shares be below 1, or name all of them",
            code="DPR285",
        )
    starts = _SUBSETS if search.fitted.size < _MANY else 2
    shares = search.shares(_searched(free, finest, search.worth, starts))
    own = search.own(shares)
    after = search.fitted(own)
    made = {name: Fraction(shares.get(name, 0)) for name in search.names}
    bound = None
    if kind == "zcdp" and len(set(sensitivities.values())) == 1 and not fixed:
        unit = sensitivities[finest] / (2 * float(budget))
        bound = _bound(structure, unit, search.alone, search.weights)
    return Choice(made, own, after, search.alone, search.judged(after), bound)


class _Search:
    """The search for shares: what is given, and what shares of the budget make of every table's error."""

    def __init__(
        self,
        structure: Structure,
        sensitivities: Mapping[str, int],
        budget: Fraction,
        kind: Kind,
        fixed: dict[str, Fraction],
        weights: dict[str, float],
    ) -> None:
        self.sensitivities, self.budget, self.kind = sensitivities, budget, kind
        self.fixed, self.weights = fixed, weights
        self.names = [table.name for table in structure.tables]
        self.paid = [name for name in self.names if sensitivities[name]]
        self.free = [name for name in self.paid if name not in fixed]
        self.left = 1 - sum(fixed.values(), Fraction(0))
        self.fitted = fitted_variances(structure)
        self.goals: dict[str, float] = {}
        self._part = cache(lambda n: self.left * n / PARTS)
        self._variance = cache(partial(own_variance, kind, budget))
        part = Fraction(1, max(1, len(self.paid)))
        self.alone = {
            name: own_variance(kind, budget, part, sensitivities[name]) for name in self.names
        }

    def shares(self, parts: Mapping[str, int]) -> dict[str, Fraction]:
        return {**self.fixed, **{name: self._part(n) for name, n in parts.items()}}

    def own(self, shares: Mapping[str, Fraction]) -> dict[str, float | None]:
        """Return the variances of the measurements; None where there is none."""
        return {
            name: self._variance(share, sensitivity) if share > 0 or not sensitivity else None
            for name in self.names
            for share, sensitivity in [(shares.get(name, Fraction(0)), self.sensitivities[name])]
        }

    def judged(self, after: Mapping[str, float]) -> float:
        return sum(
            self.weights.get(name, 1.0) * after[name] / alone
            for name, alone in self.alone.items()
            if alone
        )

    def worth(self, parts: Mapping[str, int]) -> float:
        after = self.fitted(self.own(self.shares(parts)))
        missed = [max(0.0, after[name] / goal - 1) for name, goal in self.goals.items()]
        return self.judged(after) + _MISSED * sum(m * m for m in missed)


def _searched(
    free: Sequence[str],
    finest: str,
    worth: Callable[[Mapping[str, int]], float],
    starts: int,
) -> dict[str, int]:
    """Return the best parts found, from several subsets of tables that are measured at first."""
    if not free:
        return {}
    others = [name for name in free if name != finest]
    always = [finest] if finest in free else [others.pop()]
    subsets = [
        some for n in range(len(others), -1, -1) for some in itertools.combinations(others, n)
    ]
    tried = [*subsets[: starts - 1], subsets[-1]]
    once = cache(lambda *parts: worth(dict(zip(free, parts, strict=True))))  # starts end alike
    first = [_equal([*some, *always], free) for some in tried]
    found = [_exchanged(parts, always[0], lambda p: once(*p.values())) for parts in first]
    return min(found, key=lambda one: (round(one[0], 12), sorted(one[1].items())))[1]


def _equal(some: Sequence[str], free: Sequence[str]) -> dict[str, int]:
    each, more = divmod(PARTS, len(some))
    return {name: (each + (some.index(name) < more) if name in some else 0) for name in free}


def _exchanged(
    parts: dict[str, int], finest: str, worth: Callable[[Mapping[str, int]], float]
) -> tuple[float, dict[str, int]]:
    """Move parts between two tables as long as the sum falls; the finest keeps at least one."""
    best = worth(parts)
    for step in _STEPS:
        improved = True
        while improved:
            improved = False
            for giver, taker in itertools.permutations(parts, 2):
                rest = parts[giver] - step
                if rest < (giver == finest):
                    continue
                tried = {**parts, giver: rest, taker: parts[taker] + step}
                value = worth(tried)
                if value < best * (1 - _GAIN):
                    best, parts, improved = value, tried, True
    return best, parts


# Nested tables: the two passes, per class of nodes.


class _TreeLevels:
    """Mean variances on nested tables."""

    def __init__(self, structure: Structure) -> None:
        self.shape = TreeShape(structure)
        self.counts = [np.bincount(place).tolist() for place in self.shape.place]
        self.size = sum(map(len, self.counts))

    def __call__(self, own: Variances) -> dict[str, float]:
        """Return mean variances after fitting."""
        variances, out = [own[table.name] for table in self.shape.tables], {}
        up = self.shape.up(variances)
        down = self.shape.down(variances, up)
        for level, table in enumerate(self.shape.tables):
            each = zip(self.counts[level], down[level], self.shape.places[level], strict=True)
            total = sum(n * (w * w * up[level][kind][0] + rest) for n, (w, rest), (_, kind) in each)
            out[table.name] = total / table.cells
        return out


# Crosses: the residual spaces.


class _CrossLevels:
    """Mean variances on an even cross, or on what an uneven one is filled up to."""

    def __init__(self, structure: Structure) -> None:
        shape = CrossEstimator(structure, {structure.finest.name: Gaussian(1)}, ())
        self.tables = {table.name: table.level for table in structure.tables}
        self.merged = {name: shape.merged(level) for name, level in self.tables.items()}
        sizes = [axis.even for axis in shape.axes]
        self.spaces = {
            space: math.prod(
                (a[k] - (a[k - 1] if k else 0)) / a[-1] for a, k in zip(sizes, space, strict=True)
            )
            for space in itertools.product(*[range(len(a)) for a in sizes])
        }
        self.size = len(self.spaces)
        self.above = {
            space: [name for name, level in self.tables.items() if within(space, level)]
            for space in self.spaces
        }
        self.below = {
            name: [(s, size) for s, size in self.spaces.items() if size and within(s, level)]
            for name, level in self.tables.items()
        }

    def __call__(self, own: Variances) -> dict[str, float]:
        """Return mean variances after fitting."""
        worth = {name: self.merged[name] / v for name, v in own.items() if v}
        spread = {}
        for space, names in self.above.items():
            if any(own.get(name) == 0 for name in names):
                spread[space] = 0.0
            else:
                total = sum(worth[name] for name in names if name in worth)
                spread[space] = 1 / total if total else math.inf
        return self.summed(spread)

    def summed(self, spread: Mapping[tuple[int, ...], float]) -> dict[str, float]:
        """Return the variance of a cell of every table, from those of the spaces."""
        return {
            name: self.merged[name] ** 2
            * sum(size * spread[space] for space, size in self.below[name])
            for name in self.tables
        }


def _bound(
    structure: Structure,
    unit: float,
    alone: Mapping[str, float],
    weights: Mapping[str, float],
) -> float | None:
    """Return the least weighted sum: (S sqrt(c d))^2 over the residual spaces, times `unit`.

    A measurement with variance v_s in space s costs d_s / v_s and adds c_s v_s, d_s the share of
    the cells that the space has and c_s what the tables make of it.
    """
    if not structure.axes or not all(axis.even for axis in structure.axes):
        return None
    shape = _CrossLevels(structure)
    root = 0.0
    for space, size in shape.spaces.items():
        cost = shape.summed({other: float(other == space) for other in shape.spaces})
        c = sum(weights.get(name, 1.0) * v / alone[name] for name, v in cost.items() if alone[name])
        root += math.sqrt(c * size)
    return root * root * unit
