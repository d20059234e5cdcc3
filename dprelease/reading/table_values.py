"""The published values of one of several tables that add up."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property

from dprelease.core.errors import ArgumentError
from dprelease.measurements.base import family_of
from dprelease.reading.estimated import Estimate, FitForms, ratio_domain
from dprelease.reading.forms import Linear, RatioForm
from dprelease.reading.linear_interval import linear_ends
from dprelease.reading.per_row import PerRow
from dprelease.reading.quantity import Measured, Quantity, number
from dprelease.reading.released_values import ReleasedValues
from dprelease.release_plan.tables import PlannedFit, PlannedRatio
from dprelease.results.draw import Draw
from dprelease.results.rules import IMPOSSIBLE
from dprelease.schema.naming import texts_given

_ROOM = 1e-9
"""What of a domain may be rounding."""


@dataclass(frozen=True)
class CutEstimate(Measured):
    """One cell whose domain may leave its exact number out: the nearest value of the domain.

    Sums of such cells are no sums of what is estimated.
    """

    of: Linear
    table: str
    column: str
    group: int
    domain: tuple[float, float]

    @property
    def key(self) -> Hashable:
        return ("cut", self.measurement)

    @property
    def measurement(self) -> Hashable:
        return frozenset(self.of.terms), self.table, self.column, self.group

    def ends(self, level: float) -> tuple[float, float]:
        return linear_ends(self.of, level, self.domain)


class TableValues(ReleasedValues):
    """What one table published: fitted values, with the estimates behind them as forms."""

    def __init__(self, whole: Draw, table: str) -> None:
        super().__init__(whole.parts[table])
        assert whole.plan.tables is not None
        self.whole, self.table = whole, table
        self._pairs, self._cuts = cache(self._pairs_with), cache(self._cut)
        self._forms = cache(lambda fit: FitForms(self.identity, whole, fit))
        # of rows of several levels each number is of its own table's fit
        own = {s.text: s.columns for s in self.noised.plan.statistics}
        fits = {(p.table, p.column): fit for fit in whole.plan.tables.fits for p in fit.tables}
        self._fit_of: Mapping[tuple[str, str], PlannedFit] = {
            (level, column): fits[level, name]
            for level in self._levels(table)
            for s in whole.plan.of_table(level).statistics
            for column, name in zip(own.get(s.text, ()), s.columns, strict=False)
            if (level, name) in fits
        }
        self._ratio_of: Mapping[str, PlannedRatio] = {
            statistic.columns[0]: ratio
            for ratio in whole.plan.tables.ratios
            if ratio.table == table
            for statistic in self.noised.plan.statistics
            if statistic.name == ratio.statistic
        }

    @property
    def own_name(self) -> str | None:
        return self.table

    @cached_property
    def others(self) -> Mapping[str, ReleasedValues]:
        return {n: TableValues(self.whole, n) for n in self.whole.parts if n != self.table}

    def groups_sharing_rows(self, other: ReleasedValues, fixed: Mapping[str, str]) -> Sequence[int]:
        assert isinstance(other, TableValues)
        pairs = self._pairs(other.table)
        return sorted({at for group in self.groups_in(fixed) for at in pairs.get(group, ())})

    def _pairs_with(self, other: str) -> Mapping[int, set[int]]:
        """Return which rows of another table are about units of each row of this one."""
        tables = self.whole.plan.tables
        assert tables is not None
        names = [*dict.fromkeys([*self._levels(self.table), *self._levels(other)])]
        try:  # with the cells that are 0 for public reasons
            both = tables.structure(names)
            of = {name: both.table(name).of.tolist() for name in names}
        except LookupError:  # none refines all others
            of = {name: list(tables.named(name).of) for name in names}
        out: dict[int, set[int]] = {}
        for mine, theirs in zip(self._rows(self.table, of), self._rows(other, of), strict=True):
            out.setdefault(mine, set()).add(theirs)
        return out

    def _levels(self, table: str) -> Sequence[str]:
        """Return the tables whose cells a table's rows are: itself, and coarser ones of one with `detail`."""
        return (table, *dict.fromkeys(name for name, _ in self.whole.parts[table].rows))

    def _rows(self, table: str, of: Mapping[str, list[int]]) -> Sequence[int]:
        """Return the row of a table that holds each finest cell, given each table's cell of it."""
        rows = self.whole.parts[table].rows
        if not rows:
            return of[table]
        places = {row: i for i, row in enumerate(rows)}
        levels = [name for name in self._levels(table) if any(name == level for level, _ in rows)]
        return [
            next(
                places[level, of[level][cell]]
                for level in levels
                if (level, of[level][cell]) in places
            )
            for cell in range(len(of[table]))
        ]

    @property
    def _drawn(self) -> Draw:
        return self.whole

    def quantity(self, column: str, group: int) -> Quantity:
        fitted = (self.table, column) in self._fit_of
        if not fitted and column not in self._ratio_of:
            return super().quantity(column, group)
        statistic, _ = self.columns[column]
        if self.published[self.keys[group], column].status == IMPOSSIBLE and fitted:
            # of no row it is nothing, for certain
            return number(Fraction(0))
        form: Linear | RatioForm | CutEstimate = self._form(column, group)
        if isinstance(form, Linear) and self._cuts(column):
            form = CutEstimate(form, self.table, column, group, statistic.domain.hull)
        each = self._per_row(column, [group]) if isinstance(form, Linear) else None
        return self._quantity(form, column, group, each)

    def _per_row(self, column: str, groups: Sequence[int]) -> PerRow | None:
        """Return it as the plan holds it: of a sum of rows that are counted, and of their count."""
        assert self.whole.plan.tables is not None
        fit = self._fit_of.get((self.table, column))
        if fit is None:
            return None
        counted = {other.counts for other in self.whole.plan.tables.fits}
        counts = fit.counts or (fit.name if fit.name in counted else None)
        low, high = (1, 1) if fit.counts is None else (fit.low, fit.high)
        rows = (self.identity, self.table, counts, frozenset(groups))
        each = PerRow(rows, 1, low * fit.step_size, high * fit.step_size)
        return None if counts is None else each

    def _cut(self, column: str) -> bool:
        """Return whether a fitted column's domain may leave out what is exact."""
        fit, domain = self._fit_of[self.table, column], self.columns[column][0].domain
        block = next((part.block for part in fit.tables if part.block is not None), None)
        if block is None:  # of public totals alone
            return False
        measured = self.whole.plan.block(block).measurement
        low, high = family_of(measured).exact_ends(measured)
        return not (domain.lower <= low and high <= domain.upper)

    def _form(self, column: str, group: int) -> Linear | RatioForm:
        """Return a fitted cell as a form, or a quotient of two, as the plan computes it."""
        ratio = self._ratio_of.get(column)
        if ratio is None:
            return self._estimate(self._fit_of[self._place(group)[0], column], group)
        assert self.whole.plan.tables is not None
        top = self._estimate(self.whole.plan.tables.fit(ratio.top), group)
        bottom = self._estimate(self.whole.plan.tables.fit(ratio.bottom), group)
        known = ratio_domain(RatioForm(top, bottom), positive=False)
        low, high = (end - float(ratio.offset) for end in self.columns[column][0].domain.hull)
        room = _ROOM * (high - low)
        cut = known is None or not low - room <= known[0] <= known[1] <= high + room
        return RatioForm(top.plus(bottom, ratio.offset), bottom, cut)

    def _place(self, group: int) -> tuple[str, int]:
        """Return the table and cell that a row is: of rows of several levels, of any of these."""
        rows = self.whole.parts[self.table].rows
        return rows[group] if rows else (self.table, group)

    def _estimate(self, fit: PlannedFit, group: int) -> Linear:
        table, cell = self._place(group)
        variable = Estimate(self.identity, fit.name, table, cell, self._forms(fit.name))
        return Linear(Fraction(0), {variable: fit.step_size})


def values_of(noised: Draw, table: str | None) -> ReleasedValues:
    """Return the values of a release's table to compute with: the only one, or the one named.

    Raises:
        ArgumentError: there is no such table, there are several and none is named, or none is the finest (DPR669).
    """
    table = named_table(noised, table)
    if table is None:
        return ReleasedValues(noised)
    if noised.plan.query.groups.whole:
        raise ArgumentError(
            "tables of which none is the finest are not computed with",
            where="table",
            why="an expression over them follows no single table's noise",
            fix="compute with `to_pandas`, or publish a table by all of the columns",
            code="DPR669",
        )
    return TableValues(noised, table)


def named_table(noised: Draw, table: str | None) -> str | None:
    """Return the name of a release's table, the only one or the one named; None where a release has no tables.

    Raises:
        ArgumentError: there is no such table, or there are several and none is named (DPR669).
    """
    names = list(noised.parts)
    table = None if table is None else ", ".join(texts_given(table))
    if not names and table in (None, "data"):
        return None
    if table in names or (table is None and len(names) == 1):
        return table or names[0]
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
