"""Make the plan of a request: of one table, or of several that add up."""

from __future__ import annotations

from dprelease.allocation.spend import spend
from dprelease.planning.maker import Maker
from dprelease.planning.write import laid_out, write_plan
from dprelease.query.spec import Query
from dprelease.release_plan.plan import ReleasePlan

__all__ = ["make_plan"]


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
