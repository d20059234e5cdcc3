"""Make the plan of a request, of one table or of several that add up, and what another budget would buy.

The passes run in this order, each a function of public metadata only:

    layout      statistics -> blocks, measurements, domains
    allocation  a share of the budget per block; every admissible law priced, the best kept
    write       the plan that says what was chosen, and the engine's task

What another budget would buy is found by making the plan again at half, twice and four times epsilon, the choice
of mechanisms included. So its figures are what a plan would print, not an extrapolation; errors are in the
statistic's unit, root mean squares under squared loss, to six digits.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from dprelease.allocation.spend import spend
from dprelease.errors import PlanError, VerificationError
from dprelease.planning.layout import laid_out
from dprelease.planning.maker import Maker
from dprelease.planning.write import write_plan
from dprelease.query.merge import MAX_EPSILON
from dprelease.query.spec import Query
from dprelease.release_plan.curve import expected, trace
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import PlannedStatistic

__all__ = ["FACTORS", "make_plan", "what_if"]

FACTORS = (Fraction(1, 2), Fraction(2), Fraction(4))
"""Other budgets, each a multiple of the epsilon that is asked for."""


def make_plan(query: Query, *, brief: bool = False) -> ReleasePlan:
    """Return the plan for `query`.

    Args:
        brief: of one table, without the rivals of what is chosen and what would make a statistic say
            something: two thirds of the work, and no part of a law, an error or a charge.

    Raises:
        PlanError: no proved, useful plan exists (DPR2xx).
    """
    if query.tables is not None:
        from dprelease.planning.tables.make import plan_tables  # twenty modules for tables alone

        return plan_tables(query)
    blocks = laid_out(query)
    pricer = Maker(query, brief=brief)
    return write_plan(
        query, spend(blocks, query.epsilon, query.spec.delta, query.loss, pricer), pricer
    )


# --- at other budgets -------------------------------------------------------------------------


def what_if(plan: ReleasePlan) -> list[dict[str, Any]]:
    """Return `{"epsilon": "p/q", "errors": {name: error}}` per other budget, the smallest first.

    No row is read and nothing is spent. A report is written after the charge, so nothing here raises but for a
    verifier whose time is over: a budget without a plan (a goal that cannot be paid for, more than a release may
    spend) is left out, and so is one whose plan fails in any other way. Left out, too, is a statistic without an
    expected error (a quantile's depends on the data).

    Empty where the plan does not know its request (one read back from a manifest), where epsilon follows from
    `max_error` goals, as it then has no other budget, and for several tables: no page shows it, and to plan
    them three times more is dear.
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
        except Exception:  # noqa: BLE001 - see above
            raise PlanError("there is no plan at this epsilon") from None

    curve = trace(asked.epsilon, make, (f for f in FACTORS if asked.epsilon * f <= MAX_EPSILON))
    others = [p for p in curve.points if p.epsilon != asked.epsilon and p.plan]
    return [{"epsilon": str(p.epsilon), "errors": _errors(p.statistics, plan.loss)} for p in others]


def _errors(statistics: tuple[PlannedStatistic, ...], loss: str) -> dict[str, float]:
    errors = {
        s.name if s.table is None else f"{s.table}.{s.name}": expected(s, loss) for s in statistics
    }
    return {name: error for name, error in errors.items() if error is not None}
