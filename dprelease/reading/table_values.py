"""The published values of one of several tables that add up."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from dprelease.errors import ArgumentError
from dprelease.noised import WEAK, Noised
from dprelease.reading.estimated import Estimate, FitForms
from dprelease.reading.forms import Linear
from dprelease.reading.quantity import Quantity
from dprelease.reading.released_values import ReleasedValues
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.release_plan.tables import PlannedFit

__all__ = ["TableValues", "values_of"]


class TableValues(ReleasedValues):
    """What one table published: fitted values, with the estimates behind them as forms."""

    def __init__(self, whole: Noised, table: str) -> None:
        super().__init__(whole.parts[table])
        assert whole.plan.tables is not None
        self.whole, self.table = whole, table
        self._forms: dict[str, FitForms] = {}
        self._fit_of: Mapping[str, PlannedFit] = {
            part.column: fit
            for fit in whole.plan.tables.fits
            for part in fit.tables
            if part.table == table
        }

    @property
    def _drawn(self) -> Noised:
        return self.whole

    def has_interval(self, statistic: PlannedStatistic) -> bool:
        return any(column in self._fit_of for column in statistic.columns)

    def quantity(self, column: str, group: int) -> Quantity:
        statistic, _ = self.columns[column]
        value, status = self.published[column, group]
        fit = self._fit_of[column]
        if fit.name not in self._forms:
            self._forms[fit.name] = FitForms(self.identity, self.whole, fit.name)
        atom = Estimate(self.identity, fit.name, self.table, group, self._forms[fit.name])
        form = Linear(Fraction(0), {atom: fit.pitch})
        return Quantity(form, value, statistic.domain.hull, status in WEAK)


def values_of(noised: Noised, table: str | None) -> ReleasedValues:
    """Return the values of a release's table: the only one, or the one named.

    Raises:
        ArgumentError: there is no such table, or there are several and none is named (DPR669).
    """
    names = list(noised.parts)
    if not names and table in (None, "data"):
        return ReleasedValues(noised)
    if names and table is None and len(names) == 1:
        table = names[0]
    if table in names:
        return TableValues(noised, table)
    if table is None:
        raise ArgumentError(
            f"the release has {len(names)} tables",
            where="table",
            why="no one of them is the release",
            fix=f"name one of: {', '.join(names)}; `tables` holds all",
            code="DPR669",
        )
    raise ArgumentError(
        f"the release has no table `{table}`",
        where="table",
        fix=f"it has: {', '.join(names) or 'data'}",
        code="DPR669",
    )
