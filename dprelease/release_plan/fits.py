"""What a plan of several tables says of its fits: the noise of what is measured, and the values that are allowed.

Read before the charge, to refuse tables that no values can fill, and behind the wall, to fit what was drawn.

Units: steps of the statistic. Source: `docs/theory/publications-that-add-up.md#feasible-values`.
"""

from __future__ import annotations

from collections.abc import Sequence

from dprelease.core.errors import PlanError
from dprelease.fitting.feasible import Feasible, check_pair, feasible
from dprelease.intervals.noise import Gaussian, Laplace, Noise
from dprelease.measurements.law import Law
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.release_plan.tables import PlannedTables

Runs = tuple[tuple[int, int], ...]


def runs_of(statistic: PlannedStatistic) -> Runs:
    """Return the allowed values of a statistic in its steps."""
    return tuple(statistic.domain.on_grid(statistic.step).runs)


def check_valid(tables: PlannedTables, statistics: Sequence[PlannedStatistic], origin: str) -> None:
    """Refuse tables that no values can fill; PlanError as `fitting.feasible`, or of a pair (DPR281 to DPR284)."""
    known = {(s.table or "", s.name): s for s in statistics}
    found: dict[str, Feasible] = {}
    try:
        for fit in tables.fits:
            structure = tables.structure([t.table for t in fit.tables])
            if not structure.chain:  # whole tables exist within any margins (`fitting.margin_sets`)
                continue
            domains = {t.table: runs_of(known[t.table, t.statistic]) for t in fit.tables}
            found[fit.name] = feasible(structure, domains, fit.coarse_totals)
        for fit in tables.fits:
            if fit.counts is not None:
                structure = tables.structure([t.table for t in fit.tables])
                check_pair(structure, found[fit.counts], found[fit.name], fit.low, fit.high)
    except PlanError as refused:
        if refused.where is not None:
            raise
        raise PlanError(
            f"{fit.name}: {refused.what}",
            where=origin,
            why=refused.why,
            fix=refused.fix,
            code=refused.code,
        ) from None


def noise_of(law: Law) -> Noise:
    """Return the noise that a draw adds to every cell, as fitting knows it."""
    added = law.added
    assert added is not None
    assert isinstance(added.noise, Laplace | Gaussian)
    return added.noise
