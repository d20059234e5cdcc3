"""Why a plan's epsilon is split as it is, in one line; nothing where there is nothing to split.

Source: `docs/theory/composition.md#allocation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dprelease.core.numeric import shown

if TYPE_CHECKING:
    from dprelease.release_plan.plan import ReleasePlan


def why_this_split(plan: ReleasePlan) -> str | None:
    """Return which statistics were given a part, and by which rule the rest was split; None for one block."""
    if plan.request is None or len(plan.blocks) < 2:
        return None
    specs = [s.spec for s in plan.request.statistics]
    fixed = [f"{s.name} has its share of {shown(s.share)}" for s in specs if s.share is not None]
    goals = [f"{s.name} what its max_error needs" for s in specs if s.max_error is not None]
    free = [s for s in specs if s.share is None and s.max_error is None]
    weights = [f"{s.name} counts {shown(s.weight)} times" for s in free if s.weight not in (0, 1)]
    rest = []
    if free:
        whole = "the rest of ε" if fixed or goals else "ε"
        fit = ", each part by its tables so that the fitted errors are least"
        rule = f"{whole} is shared equally by the statistics{'' if plan.tables is None else fit}"
        rest = [rule, *weights]
    return f"why this split: {'; '.join([*fixed, *goals, *rest])}"
