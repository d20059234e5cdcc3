"""Constraints between covariance, correlation and the variances released from one tensor.

Before rounding, the cells of two columns give variances v*, w*, a covariance c* and a correlation r*
with (`statistics.pair_cells`)

    c*^2 <= v* w*,    c* = r* sqrt(v* w*),    |r*| <= 1,

and 0 = c* = r* where a variance is 0. Each is then moved by at most one of its own steps s
(`joint`). Hence the published values satisfy

    max(0, |c| - s_c)^2 <= min(1, |r| + s_r)^2 (v + s_v)(w + s_w),
    (max(0, |r| - s_r))^2 max(0, v - s_v) max(0, w - s_w) <= (|c| + s_c)^2,

and c and r do not have opposite signs by more than a step; without r, the first with 1 in its place.
These are theorems, so a failure is a bug; the slack is not a tuned tolerance. As in `joint`, a
statistic whose declared domain is not the whole induced one takes no part.

Units: each statistic in its own; all arithmetic in `Fraction`s of multiples of the steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
import numpy.typing as npt

from dprelease.measurements.base import family_of
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.schema.domain import Domain
from dprelease.statistics.base import kind_named

Role = tuple[int, int, bool]
"""What of a pair a statistic is, which moment of one column, and whether its root."""

COVARIANCE, CORRELATION, VARIANCE = (1, 0, False), (2, 0, False), (0, 2, False)


@dataclass(frozen=True, slots=True)
class PairRule:
    """`members`: covariance, both variances and, if it is released, the correlation."""

    members: tuple[PlannedStatistic, ...]

    @property
    def name(self) -> str:
        return "joint_covariance_variance" + ("_correlation" if len(self.members) > 3 else "")

    @property
    def names(self) -> str:
        return ", ".join(s.name for s in self.members)


def pair_rules(plan: ReleasePlan) -> tuple[PairRule, ...]:
    """Return every such rule that is a theorem for this plan."""
    found: list[PairRule] = []
    for block in plan.blocks:
        widths = [
            high - low for _, low, high in family_of(block.measurement).hulls(block.measurement)
        ]
        if len(widths) != 2:
            continue
        a, b = widths
        here = [s for s in plan.statistics if s.block == block.name]
        correlations = _whole(here, CORRELATION, None, Domain(-1, 1))
        for members in product(
            _whole(here, COVARIANCE, None, Domain(-a * b / 4, a * b / 4)),
            _whole(here, VARIANCE, 0, Domain(0, a * a / 4)),
            _whole(here, VARIANCE, 1, Domain(0, b * b / 4)),
        ):
            found += [PairRule((*members, r)) for r in correlations] or [PairRule(members)]
    return tuple(found)


def _whole(
    here: Sequence[PlannedStatistic], role: Role, view: int | None, domain: Domain
) -> list[PlannedStatistic]:
    """Return the statistics that were moved by rounding alone."""
    return [s for s in here if (_role(s), s.view, s.domain) == (role, view, domain)]


def _role(statistic: PlannedStatistic) -> Role:
    statistic_kind = kind_named(statistic.function)
    return statistic_kind.of_pair, statistic_kind.moment, statistic_kind.root


def pair_holds(rule: PairRule, values: Sequence[Fraction]) -> bool:
    """Return whether the published values of one group, in the members' order, satisfy `rule`."""
    zero = Fraction(0)
    steps = [s.step for s in rule.members]
    c, v, w = values[:3]
    high = (v + steps[1]) * (w + steps[2])
    least = max(zero, abs(c) - steps[0]) ** 2
    if len(values) == 3:
        return least <= high
    r, s_r = values[3], steps[3]
    low = max(zero, v - steps[1]) * max(zero, w - steps[2])
    opposite = (c > steps[0] and r < -s_r) or (c < -steps[0] and r > s_r)
    return (
        not opposite
        and least <= min(Fraction(1), abs(r) + s_r) ** 2 * high
        and max(zero, abs(r) - s_r) ** 2 * low <= (abs(c) + steps[0]) ** 2
    )


def pair_surely_holds(rule: PairRule, values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return, per group, whether `pair_holds` is certain from doubles alone (`joint.surely_holds`).

    `values`: shape `(members, groups)`.
    """
    steps = [float(s.step) for s in rule.members]
    c, v, w = values[:3]
    with np.errstate(all="ignore"):
        high = (v + steps[1]) * (w + steps[2])
        least = np.maximum(0.0, np.abs(c) - steps[0]) ** 2
        size = (np.abs(c) + steps[0]) ** 2 + (np.abs(v) + steps[1]) * (np.abs(w) + steps[2])
        if len(values) == 3:
            return np.asarray(high - least > size * 2.0**-40)
        r, s_r = values[3], steps[3]
        size *= (1 + np.abs(r) + s_r) ** 2
        low = np.maximum(0.0, v - steps[1]) * np.maximum(0.0, w - steps[2])
        spare = np.minimum(
            np.minimum(1.0, np.abs(r) + s_r) ** 2 * high - least,
            (np.abs(c) + steps[0]) ** 2 - np.maximum(0.0, np.abs(r) - s_r) ** 2 * low,
        )
        # Signs are certain where one of the two is clearly within its step of zero, or they agree.
        same = (c * r > 0) | (np.abs(c) < 0.999 * steps[0]) | (np.abs(r) < 0.999 * s_r)
        return np.asarray((spare > size * 2.0**-40) & same)
