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
from itertools import product
from typing import Any

import numpy as np

from dprelease.measurements.base import family_of
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.results.validate.joint import JointRule, Number, Sides
from dprelease.schema.domain import Domain
from dprelease.statistics.base import kind_named

Role = tuple[int, int, bool]
"""What of a pair a statistic is, which moment of one column, and whether its root."""

COVARIANCE, CORRELATION, VARIANCE = (1, 0, False), (2, 0, False), (0, 2, False)


class PairRule(JointRule):
    """One of a covariance, both variances and, if it is released, the correlation."""

    __slots__ = ()

    def sides(self, values: Sequence[Any], number: Number) -> Sides:
        steps = [number(member.step) for member in self.members]
        c, v, w = (np.abs(part) for part in values[:3])
        high = (values[1] + steps[1]) * (values[2] + steps[2])
        least = np.maximum(0, c - steps[0]) ** 2
        size = (c + steps[0]) ** 2 + (v + steps[1]) * (w + steps[2])
        if len(values) == 3:
            return [(least, high, size)]
        r, step = np.abs(values[3]), steps[3]
        size = size * (1 + r + step) ** 2
        low = np.maximum(0, values[1] - steps[1]) * np.maximum(0, values[2] - steps[2])
        opposite = (values[0] < 0) != (values[3] < 0)  # by more than a step is too much
        return [
            (
                np.where(opposite, np.minimum(c - steps[0], r - step), 0),
                0,
                np.where(opposite, c + steps[0] + r + step, 0),
            ),
            (least, np.minimum(1, r + step) ** 2 * high, size),
            (np.maximum(0, r - step) ** 2 * low, (c + steps[0]) ** 2, size),
        ]


def pair_rules(plan: ReleasePlan) -> tuple[JointRule, ...]:
    """Return every such rule that is a theorem for this plan."""
    found: list[JointRule] = []
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
