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

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

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


@dataclass(frozen=True, slots=True)
class JointRule:
    """A constraint between `first` and `second`, released from one block.

    roles: which two of mean, variance and its root; `low`, `high`: the column's hull.
    """

    roles: tuple[Role, Role]
    first: PlannedStatistic
    second: PlannedStatistic
    low: Fraction
    high: Fraction

    @property
    def kind(self) -> str:
        return f"{self.first.function}_{self.second.function}"

    @property
    def name(self) -> str:
        return f"joint_{self.kind}"

    @property
    def names(self) -> str:
        return f"{self.first.name}, {self.second.name}"


def joint_rules(plan: ReleasePlan) -> tuple[JointRule, ...]:
    """Return every joint rule that is a theorem for this plan."""
    found: list[JointRule] = []
    held = ((b, family_of(b.measurement).hulls(b.measurement)) for b in plan.blocks)
    for block, view, low, high in ((b, *hull) for b, hulls in held for hull in hulls):
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
                JointRule((one, two), a, b, low, high) for a in by_role[one] for b in by_role[two]
            ]
    return tuple(found)


def _role(statistic: PlannedStatistic) -> Role:
    statistic_kind = kind_named(statistic.function)
    return statistic_kind.moment, statistic_kind.root


def holds(rule: JointRule, first: Fraction, second: Fraction) -> bool:
    """Return whether the published values of one group satisfy `rule` up to rounding."""
    s_first, s_second = rule.first.step, rule.second.step
    if rule.roles == (VARIANCE, ROOT):
        root, s_root = second, s_second
        return (
            max(Fraction(0), root - s_root) ** 2 <= first + s_first
            and (root + s_root) ** 2 >= first - s_first
        )
    low, high, m = rule.low, rule.high, first
    ceiling = (high - m) * (m - low) + abs(high + low - 2 * m) * s_first
    if rule.roles == (MEAN, VARIANCE):
        return 0 <= second <= ceiling + s_second
    return max(Fraction(0), second - s_second) ** 2 <= ceiling


def surely_holds(
    rule: JointRule, first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Return, per group, whether `holds` is certain from doubles alone; False only means: ask it.

    Both sides of every inequality are sums and products of fewer than 2^10 doubles, so their
    rounding errors, those of reading multiples as doubles included, stay below 2^-40 of the sum of
    the magnitudes. What passes with that to spare passes exactly.
    """
    s_first, s_second = float(rule.first.step), float(rule.second.step)
    low, high = float(rule.low), float(rule.high)
    with np.errstate(all="ignore"):
        if rule.roles == (VARIANCE, ROOT):
            least = np.maximum(0.0, second - s_second) ** 2
            most = (second + s_second) ** 2
            size = (np.abs(second) + s_second) ** 2 + np.abs(first) + s_first
            spare = np.minimum(first + s_first - least, most - (first - s_first))
        else:
            slack = np.abs(high + low - 2 * first) * s_first
            ceiling = (high - first) * (first - low) + slack
            largest = abs(high) + abs(low) + 2 * np.abs(first)
            size = largest * (largest + s_first)
            if rule.roles == (MEAN, VARIANCE):
                size += np.abs(second) + s_second
                spare = np.where(second >= 0, ceiling + s_second - second, -np.inf)
            else:
                size += (np.abs(second) + s_second) ** 2
                spare = ceiling - np.maximum(0.0, second - s_second) ** 2
        return np.asarray(spare > size * 2.0**-40)
