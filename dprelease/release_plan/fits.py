"""What a plan of several tables says of its fits: the noise of what is measured, and the values that are allowed.

Read before the charge, to refuse tables that no values can fill, and behind the wall, to fit what was drawn.

Units: steps of the statistic. Source: `docs/theory/publications-that-add-up.md#feasible-values`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dprelease.core.errors import PlanError
from dprelease.fitting.feasible import Feasible, check_pair, feasible
from dprelease.fitting.structure import Structure
from dprelease.intervals.noise import Gaussian, Laplace, Noise
from dprelease.measurements.law import Law
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.release_plan.tables import PlannedFit, PlannedTables

Runs = tuple[tuple[int, int], ...]


def runs_of(statistic: PlannedStatistic) -> Runs:
    """Return the allowed values of a statistic in its steps."""
    return tuple(statistic.domain.on_grid(statistic.step).runs)


def feasible_values(
    fit: PlannedFit,
    statistics: Mapping[tuple[str, str], PlannedStatistic],
    structure: Structure,
) -> tuple[dict[str, Runs], Feasible]:
    """Return the domains of a fit's tables, and what each of their cells can take.

    Raises:
        PlanError: some cell can take nothing, or a margin's domain leaves out sums (DPR281 to DPR283).
    """
    domains = {t.table: runs_of(statistics[t.table, t.statistic]) for t in fit.tables}
    return domains, feasible(structure, domains, fit.coarse_totals)


def check_valid(tables: PlannedTables, statistics: Sequence[PlannedStatistic], origin: str) -> None:
    """Refuse tables that no values can fill; PlanError as `feasible_values`, or of a pair (DPR284)."""
    known = {(s.table or "", s.name): s for s in statistics}
    found: dict[str, Feasible] = {}
    try:
        for fit in tables.fits:
            structure = tables.structure([t.table for t in fit.tables])
            if not structure.chain:  # whole tables exist within any margins (`fitting.margin_sets`)
                continue
            _, found[fit.name] = feasible_values(fit, known, structure)
        for fit in tables.fits:
            if fit.counts is not None:
                structure = tables.structure([t.table for t in fit.tables])
                check_pair(structure, found[fit.counts], found[fit.name], fit.low, fit.high)
    except PlanError as refused:
        if refused.where is not None:
            raise
        raise PlanError(
            refused.what, where=origin, why=refused.why, fix=refused.fix, code=refused.code
        ) from None


def noise_of(draw: Law) -> Noise:
    """Return the noise that a draw adds to every cell, as fitting knows it."""
    added = draw.added
    assert added is not None
    assert isinstance(added.noise, Laplace | Gaussian)
    return added.noise
