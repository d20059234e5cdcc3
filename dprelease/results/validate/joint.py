"""Constraints between statistics of one block, with the slack that rounding can introduce.

Before rounding, the Bernstein cells of one column with hull [l, u], w = u - l, give a mean m* in
[l, u] and a variance v* with (`docs/theory/domains-and-grids.md#joint-constraints`)

    0 <= v* <= f(m*),    f(m) = (u - m)(m - l).

Each is then moved to the nearest allowed multiple of its step, s_m or s_v. Where the domain is the
whole induced interval, that moves a value by at most half a step inside and by less than a whole
step at an end that is not a multiple of the step; so |m - m*| <= s_m and |v - v*| <= s_v always.
f is a parabola: f(m + d) = f(m) + (u + l - 2 m) d - d^2 <= f(m) + |u + l - 2 m| s_m. Hence the
published pair satisfies

    v <= f(m) + |u + l - 2 m| s_m + s_v,

and, with r the published root of v* and s_r its step, |r - sqrt(v*)| <= s_r, so

    max(0, r - s_r)^2 <= v + s_v,    (r + s_r)^2 >= v - s_v,
    max(0, r - s_r)^2 <= f(m) + |u + l - 2 m| s_m.

These are theorems, so a failure is a bug; the slack is not a tuned tolerance. A statistic whose
declared domain is narrower than the induced one, or has gaps, was moved further than a step: it
takes part in no joint rule.

Units: each statistic in its own; all arithmetic in `Fraction`s of multiples of the steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.measurements.base import family_of
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.schema.domain import Domain
from dprelease.statistics.base import kind_named

Role = tuple[int, bool]
"""Which moment of a column a statistic is, and whether its root."""

MEAN, VARIANCE, ROOT = (1, False), (2, False), (2, True)

Number = Callable[[Fraction], Any]
Sides = list[tuple[Any, Any, Any]]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class JointRule(ABC):
    """A constraint between the `members`, released from one block."""

    members: tuple[PlannedStatistic, ...]

    @property
    def name(self) -> str:
        return "_".join(["joint", *dict.fromkeys(s.function for s in self.members)])

    @property
    def names(self) -> str:
        return ", ".join(s.name for s in self.members)

    @abstractmethod
    def sides(self, values: Sequence[Any], number: Number) -> Sides:
        """Return of each inequality the smaller side, the larger one, and the magnitudes that both are made of.

        Args:
            values: the members', each a number or an array of them; number: `float` or `Fraction`, as they are.
        """

    def holds(self, values: Sequence[Any]) -> Flags:
        """Return, per group, whether published values, as `Fraction`s, satisfy the rule up to rounding."""
        sides = self.sides(values, Fraction)
        return np.asarray(np.logical_and.reduce([a <= b for a, b, _ in sides]), dtype=bool)

    def surely_holds(self, values: npt.NDArray[np.float64]) -> Flags:
        """Return, per group, whether `holds` is certain from doubles alone; False only means: ask it.

        Both sides of every inequality are sums and products of fewer than 2^10 doubles, so their
        rounding errors, those of reading multiples as doubles included, stay below 2^-40 of the sum of
        the magnitudes. What passes with that to spare passes exactly.
        """
        with np.errstate(all="ignore"):
            sides = self.sides([*values], float)
            return np.asarray(
                np.logical_and.reduce([b - a >= size * 2.0**-40 for a, b, size in sides])
            )


@dataclass(frozen=True, slots=True)
class MomentRule(JointRule):
    """One between two of mean, variance and its root: these are the `roles`; `low`, `high`: the column's hull."""

    roles: tuple[Role, Role]
    low: Fraction
    high: Fraction

    def sides(self, values: Sequence[Any], number: Number) -> Sides:
        a, b = values
        s, t = (number(member.step) for member in self.members)
        low, high = number(self.low), number(self.high)
        if self.roles == (VARIANCE, ROOT):
            size = (np.abs(b) + t) ** 2 + np.abs(a) + s
            return [
                (np.maximum(0, b - t) ** 2, a + s, size),
                (a - s, (b + t) ** 2, size),
            ]
        ceiling = (high - a) * (a - low) + np.abs(high + low - 2 * a) * s
        largest = abs(high) + abs(low) + 2 * np.abs(a)
        size = largest * (largest + s)
        if self.roles == (MEAN, VARIANCE):
            return [(0, b, 0), (b, ceiling + t, size + np.abs(b) + t)]
        return [(np.maximum(0, b - t) ** 2, ceiling, size + (np.abs(b) + t) ** 2)]


def moment_rules(plan: ReleasePlan) -> tuple[JointRule, ...]:
    """Return every rule between moments of a column that is a theorem for this plan."""
    found: list[JointRule] = []
    hulls_of_blocks = ((b, family_of(b.measurement).hulls(b.measurement)) for b in plan.blocks)
    for block, view, low, high in ((b, *hull) for b, hulls in hulls_of_blocks for hull in hulls):
        width = high - low
        whole = {
            MEAN: Domain(low, high),
            VARIANCE: Domain(0, width**2 / 4),
            ROOT: Domain(0, width / 2),
        }
        here = [s for s in plan.statistics if s.block == block.name and s.view == view]
        by_role = {
            role: [s for s in here if _role(s) == role and s.domain == domain]
            for role, domain in whole.items()
        }
        for one, two in combinations(whole, 2):
            found += [
                MomentRule((a, b), (one, two), low, high)
                for a in by_role[one]
                for b in by_role[two]
            ]
    return tuple(found)


def _role(statistic: PlannedStatistic) -> Role:
    statistic_kind = kind_named(statistic.function)
    return statistic_kind.moment, statistic_kind.root
