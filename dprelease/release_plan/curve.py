"""A plan at many epsilons: the expected error of every statistic along the way.

Reads no row and spends nothing: each point is a whole plan, made as a release would make it, so a
mechanism that becomes worth its while at some epsilon shows up there.

Units: epsilon in nats; errors in the statistic's unit, E|error|, or its root mean square under
squared loss, at the public guess of the group's size (`REFERENCE_SIZE` rows where there is none).
Sources: `docs/theory/composition.md#allocation`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from dprelease.core.errors import ArgumentError, PlanError
from dprelease.core.numeric import figure
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import PlannedStatistic

FACTORS = tuple(Fraction(f) for f in ("1/4", "1/2", "3/4", "1", "3/2", "2", "4"))
"""Which multiples of the plan's own epsilon are looked at."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One epsilon and its plan, or why there is none.

    Attributes:
        refused: the planner's refusal, else empty; then there is no plan, and no statistic.
    """

    epsilon: Fraction
    plan: ReleasePlan | None = None
    refused: str = ""

    @property
    def statistics(self) -> tuple[PlannedStatistic, ...]:
        return self.plan.statistics if self.plan else ()

    @property
    def errors(self) -> tuple[float | None, ...]:
        """Per statistic, in its unit; None where no number is known beforehand."""
        return tuple(error_of(self.plan, s) for s in self.plan.statistics) if self.plan else ()

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(error_words(self.plan, s) for s in self.plan.statistics) if self.plan else ()

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return tuple(s.mechanism for s in self.statistics)


@dataclass(frozen=True, slots=True)
class Curve:
    """The points in order of epsilon; `own` is the index of the plan's own, `note` what differs."""

    points: tuple[CurvePoint, ...]
    own: int
    note: str = ""


def trace(
    own: Fraction, make: Callable[[Fraction], ReleasePlan], factors: Iterable[Fraction] = FACTORS
) -> Curve:
    """Return the curve through `make(epsilon)` at multiples of `own`.

    Args:
        own: the plan's epsilon; it is one of the points, whatever the factors are.
        make: plans at an epsilon; a PlanError or ArgumentError becomes a point that says so.
    """
    at = sorted({own, *(own * f for f in factors)})
    points = []
    for epsilon in at:
        try:
            points.append(CurvePoint(epsilon, make(epsilon)))
        except (PlanError, ArgumentError) as refusal:
            points.append(CurvePoint(epsilon, refused=refusal.what))
    return Curve(tuple(points), at.index(own))


def error_of(plan: ReleasePlan, statistic: PlannedStatistic) -> float | None:
    """Return the statistic's expected error in its unit, or None."""
    return unit_error(statistic.planned_error, plan.loss)


def unit_error(error: float | None, loss: str) -> float | None:
    """Return an expected error in the statistic's unit: under squared loss it is a square."""
    if error is None or not math.isfinite(error):
        return None
    return error if loss == "absolute" else math.sqrt(error)


def error_words(plan: ReleasePlan, statistic: PlannedStatistic) -> str:
    """Return the error that is planned with, without unit, group size and the rows' spread."""
    error = statistic.chosen[0].expected_error if statistic.chosen else None
    found = unit_error(error, plan.loss)
    if found is None:  # a choice by rank: its words are all there is
        return statistic.error_text
    public = plan.block(statistic.block).public  # an error of 0 may be one below all doubles
    return "exact (public)" if public else f"±{figure(found)}"


def expected(statistic: PlannedStatistic, loss: str) -> float | None:
    """Return the error that the plan prints; None where there is none, or no noise."""
    error = unit_error(statistic.chosen[0].expected_error if statistic.chosen else None, loss)
    return float(f"{error:.6g}") if error else None
