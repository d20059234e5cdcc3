"""What another budget would buy: the same request planned again at half, twice and four times epsilon.

Everything is planned anew, the choice of mechanisms included, exactly as if that epsilon had been
asked for; so the figures are what a plan would print, not an extrapolation. No row is read and
nothing is spent. A budget at which there is no plan (a goal that cannot be paid for, more than a release
may spend) is left out. A report is written after the charge, so nothing here raises: a plan that fails
in any other way is left out, too.

Units    errors as a plan prints them: E|error| in the statistic's unit, its root mean square under
         squared loss; six digits.
Limits   a statistic without an expected error (a quantile's depends on the data) is left out, and
         so is a release whose epsilon follows from its `max_error` goals: it has no other budget. A release
         of several tables has none of it: no page shows it, and planning it three times more is dear.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from dprelease.errors import PlanError, VerificationError
from dprelease.planning.make import make_plan
from dprelease.query.merge import MAX_EPSILON
from dprelease.release_plan.curve import expected, trace
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import PlannedStatistic

__all__ = ["FACTORS", "what_if"]

FACTORS = (Fraction(1, 2), Fraction(2), Fraction(4))


def what_if(plan: ReleasePlan) -> list[dict[str, Any]]:
    """Return `{"epsilon": "p/q", "errors": {name: error}}` per other budget, the smallest first.

    Empty where the plan does not know its request (one read back from a manifest), or is of several tables.
    """
    asked = plan.asked
    if asked is None or not asked.epsilon or plan.tables is not None:
        return []

    def make(epsilon: Fraction) -> ReleasePlan:
        if epsilon == asked.epsilon:
            return plan
        try:
            return make_plan(replace(asked, spec=replace(asked.spec, epsilon=epsilon)), brief=True)
        except VerificationError:  # a verifier's time is over: no plan is left out for that
            raise
        except Exception:  # noqa: BLE001 - see the module's docstring
            raise PlanError("there is no plan at this epsilon") from None

    curve = trace(asked.epsilon, make, (f for f in FACTORS if asked.epsilon * f <= MAX_EPSILON))
    others = [p for p in curve.points if p.epsilon != asked.epsilon and p.plan]
    return [{"epsilon": str(p.epsilon), "errors": _errors(p.statistics, plan.loss)} for p in others]


def _errors(statistics: tuple[PlannedStatistic, ...], loss: str) -> dict[str, float]:
    errors = {
        s.name if s.table is None else f"{s.table}.{s.name}": expected(s, loss) for s in statistics
    }
    return {name: error for name, error in errors.items() if error is not None}
