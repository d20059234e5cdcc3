"""What another budget would buy: the same request planned again at half, twice and four times epsilon.

Everything is planned anew, the choice of mechanisms included, exactly as if that epsilon had been
asked for; so the figures are what a plan would print, not an extrapolation. No row is read and
nothing is spent. A budget at which there is no plan (a goal that cannot be paid for) is left out.

Units    errors as a plan prints them: E|error| in the statistic's unit, its root mean square under
         squared loss; six digits.
Limits   a statistic without an expected error (a quantile's depends on the data) is left out, and
         so is a release whose epsilon follows from its `max_error` goals: it has no other budget.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dprelease.errors import ArgumentError, PlanError
from dprelease.planning.make import make_plan
from dprelease.planning.model import PlannedStatistic, ReleasePlan

__all__ = ["FACTORS", "expected", "what_if"]

FACTORS = (Fraction(1, 2), Fraction(2), Fraction(4))


def what_if(plan: ReleasePlan) -> list[dict[str, Any]]:
    """Return `{"epsilon": "p/q", "errors": {name: error}}` per other budget, the smallest first.

    Empty where the plan does not know its request (one read back from a manifest).
    """
    asked = plan.asked
    if asked is None or not asked.epsilon:
        return []
    out = []
    for factor in FACTORS:
        epsilon = asked.epsilon * factor
        with contextlib.suppress(PlanError, ArgumentError):
            other = make_plan(replace(asked, spec=replace(asked.spec, epsilon=epsilon)))
            errors = {s.name: expected(s, plan.loss) for s in other.statistics}
            known = {name: error for name, error in errors.items() if error is not None}
            out.append({"epsilon": str(epsilon), "errors": known})
    return out


def expected(statistic: PlannedStatistic, loss: str) -> float | None:
    """Return the error that the plan prints; None where there is none, or no noise."""
    error = statistic.chosen[0].expected_error if statistic.chosen else None
    if not error or not math.isfinite(error):
        return None
    return float(f"{error if loss == 'absolute' else math.sqrt(error):.6g}")
