"""One family of several tables as it is fitted: its estimator, what measures it, and its intervals.

Units: half widths in steps of the family's numbers; variances in steps squared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from dprelease.allocation.share import Priced
from dprelease.fitting.combination import half_widths
from dprelease.fitting.estimate import Estimator
from dprelease.fitting.least_squares import estimator
from dprelease.fitting.noise import Gaussian, Noise
from dprelease.fitting.structure import Structure
from dprelease.planning.tables.families import Family
from dprelease.planning.tables.valid import public_totals
from dprelease.query.spec import Query
from dprelease.release_plan.fits import noise_of
from dprelease.release_plan.tables import FitTable, PlannedFit, PlannedTables

__all__ = ["Fitting", "alone_variance", "fits_of_family", "fitting_of"]


@dataclass(frozen=True, slots=True)
class Fitting:
    """One family with what measures it; `halves`: half an interval's width, per class of cells, in steps."""

    family: Family
    structure: Structure
    estimator: Estimator
    priced: Mapping[str, Priced]
    halves: Mapping[str, tuple[Fraction, ...]]
    totals: Mapping[str, tuple[int, ...]]

    @property
    def noises(self) -> dict[str, Noise]:
        return {name: noise_of(p.best.draw) for name, p in self.priced.items()}

    def drawn_for(self, table: str) -> tuple[str, str]:
        """Return the block and the mechanism that a table's numbers are drawn with."""
        priced = self.priced.get(table, self.priced[self.family.finest])
        return priced.block.name, priced.best.draw.mechanism

    def variances(self, table: str) -> tuple[float, float]:
        """Return the mean variance of a table's cells: fitted, and were every table measured alone."""
        return float(self.estimator.variance(table).mean()), alone_variance(self, table)


class Recorded(Protocol):
    def halves(
        self, table: str, statistic: str, found: tuple[Fraction, ...]
    ) -> tuple[Fraction, ...]:
        """Return what a plan that is made again records, if it is near what is found."""


def fitting_of(
    query: Query,
    tables: PlannedTables,
    family: Family,
    by_name: Mapping[str, Priced],
    recorded: Recorded | None,
) -> Fitting:
    """Return a family with what measures it, of what was priced by the names of blocks.

    Raises:
        PlanError: as `public_totals`, or the finest table is not measured (DPR280).
    """
    structure = tables.structure(list(family.members))
    priced = {
        table: by_name[name]
        for table in family.members
        if (name := family.layout(table, None).name) in by_name
    }
    noises: dict[str, Noise | None] = dict.fromkeys(family.members)
    noises |= {table: noise_of(p.best.draw) for table, p in priced.items()}
    totals = public_totals(query, family, tables)
    made = estimator(structure, noises, list(totals))
    halves = {table: tuple(half_widths(made, table)) for table in family.members}
    if recorded is not None:
        names = {table: m.statistic.spec.name for table, m in family.members.items()}
        halves = {t: recorded.halves(t, names[t], found) for t, found in halves.items()}
    return Fitting(family, structure, made, priced, halves, totals)


def fits_of_family(found: Fitting) -> list[PlannedFit]:
    """Return the family's fits: one per cell of its blocks."""
    family = found.family
    cells = next(iter(family.members.values())).options[0].cells
    columns = {
        t: (m.statistic.spec.name,) if t in family.hidden else m.aggregate.columns(m.context)
        for t, m in family.members.items()
    }
    out = []
    for cell, label in enumerate(cells):
        tables = tuple(
            FitTable(
                table=table,
                statistic=member.statistic.spec.name,
                column=columns[table][cell],
                block=found.priced[table].block.name if table in found.priced else None,
                halves=found.halves[table],
                totals=tuple(found.totals.get(table, ())),
            )
            for table, member in family.members.items()
        )
        name = family.name if len(cells) == 1 else f"{family.name} {label}"
        out.append(PlannedFit(name, cell, family.step_size, tables))
    return out


def alone_variance(found: Fitting, table: str) -> float:
    """Return the variance of a table that gets an equal part of what the family spends."""
    count = sum(name not in found.totals for name in found.family.members)
    finest = found.priced[found.family.finest]
    mine = found.priced.get(table, finest)
    if isinstance(noise_of(finest.best.draw), Gaussian):
        rho = sum((p.share.rho or Fraction(0) for p in found.priced.values()), Fraction(0))
        own = mine.share.rho or rho
        return float(noise_of(mine.best.draw).variance() * own * count / rho)
    total = sum((p.share.epsilon for p in found.priced.values()), Fraction(0))
    ratio = float(mine.share.epsilon * count / total)
    return float(noise_of(mine.best.draw).variance()) * ratio**2
