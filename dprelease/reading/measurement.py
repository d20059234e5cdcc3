"""The noisy integers of one block of a release, read back as sources and measured values."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from dprelease.core.errors import ArgumentError
from dprelease.measurements.base import family_of, seen_by
from dprelease.measurements.law import AddedNoise
from dprelease.reading.forms import Linear, NoisyInteger, RatioForm, Variable
from dprelease.reading.per_row import PerRow, added_per_row
from dprelease.reading.quantity import Measured
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.results.draw import Draw
from dprelease.statistics.base import Form, Ranged, kind_named

Floats = npt.NDArray[np.float64]


class ReleasedMeasurement:
    """One block of one release."""

    def __init__(self, release: str, noised: Draw, block: str) -> None:
        planned = noised.plan.block(block)
        self.release, self.name, self._query = release, block, noised.plan.query
        self._draw, self.has_interval = planned.law, planned.has_interval
        self._measurement = planned.measurement
        rows = noised.cells[block]
        self._raw = np.array(rows, dtype=object).reshape(len(rows), -1 if rows else 0)
        self._ends = lru_cache(maxsize=256)(self._ends_of)
        self._boxes = lru_cache(maxsize=64)(self._draw_box)

    @property
    def one_cell(self) -> bool:
        """Whether a group has one draw, of the same law as in all others: intervals rise with it."""
        return len(self._measurement.cells) == 1

    def form(
        self, statistic: PlannedStatistic, column: int, group: int
    ) -> Linear | RatioForm | None:
        """Return one published value's form over the exact cells; None if it has none.

        A sum of cells that the domain cuts afterwards has none: what is published is no sum of them.
        """
        forms = self._forms(statistic.function, statistic.view)
        if forms is None:
            return None
        form, cut = forms[column], self._cut(statistic)
        if form.bottom is not None:
            ends = self._linear(form.top, group), self._linear(form.bottom, group)
            return RatioForm(*ends, cut=cut)
        return None if cut else self._linear(form.top, group)

    def per_row(
        self, statistic: PlannedStatistic, column: int, groups: Sequence[int]
    ) -> PerRow | None:
        """Return what one row of these groups adds to a value that is a sum of cells; None where rows do not."""
        forms = self._forms(statistic.function, statistic.view)
        if forms is None or forms[column].bottom is not None:
            return None
        rows = (self.release, frozenset(groups))
        return added_per_row(self._query, self._measurement, forms[column].top, rows)

    def _cut(self, statistic: PlannedStatistic) -> bool:
        """Return whether the domain may leave out what is drawn, so that published values are moved into it."""
        if statistic.view is not None and kind_named(statistic.function).of_rows:
            return False
        drawn = (
            self._draw.ends
        )  # None: noise is added where the answer is, and the domain cuts afterwards
        part = family_of(self._measurement).part(self._measurement, statistic.view)
        seen = self._measurement if part is None else part.seen
        low, high = drawn or family_of(seen).exact_ends(seen)
        return not (statistic.domain.lower <= low and high <= statistic.domain.upper)

    def _forms(self, function: str, view: int | None) -> Sequence[Form] | None:
        statistic_kind, measurement = kind_named(function), self._measurement
        part = family_of(measurement).part(measurement, view)
        if self._added is None or (part is None and view is not None):
            return None
        forms = statistic_kind.form(measurement if part is None else part.seen)
        if part is None or forms is None:
            return forms
        return [part.of_drawn(form, len(measurement.cells)) for form in forms]

    @cached_property
    def _added(self) -> AddedNoise | None:
        return getattr(self._draw, "added", None)

    def _linear(self, weights: tuple[Fraction, ...], group: int) -> Linear:
        added = self._added
        assert added is not None
        constant = Fraction(0)
        terms: dict[Variable, Fraction] = {}
        for cell, weight in enumerate(weights):
            raw = int(self._raw[group, cell])
            constant += weight * added.offset
            if added.noise is None:
                constant += weight * added.step_size * raw
            elif weight:
                source = NoisyInteger(
                    self.release, self.name, group, cell, raw, added.noise, added.rounding
                )
                terms[source] = weight * added.step_size
        return Linear(constant, terms)

    def ends(
        self, statistic: PlannedStatistic, column: int, group: int, level: float
    ) -> tuple[float, float]:
        """Return the interval of one published value at `level`; the domain where nothing is left."""
        low, high = self._ends(statistic.function, statistic.view, level)
        hull = statistic.domain.hull
        if self._empty[group] and not kind_named(statistic.function).of_rows:
            return hull
        ends = float(low[group, column]), float(high[group, column])
        return max(ends[0], hull[0]), min(ends[1], hull[1])

    @cached_property
    def _empty(self) -> npt.NDArray[np.bool_]:
        return self._draw.empty(self._raw)

    def _ends_of(self, function: str, view: int | None, level: float) -> tuple[Floats, Floats]:
        reading = self._draw.reading(self._raw, level)
        measurement, _, seen = seen_by(
            view, self._measurement, self._draw.cells(self._raw), reading
        )
        return kind_named(function).interval(measurement, seen)

    def _draw_box(self, level: float) -> tuple[Floats, Floats]:
        return self._draw.box(self._raw, level)

    def cell_box(self, group: int, level: float) -> tuple[Floats, Floats]:
        """Return bounds of a group's cells, all together."""
        low, high = self._boxes(level)
        return low[group], high[group]

    def adds(self, statistic: PlannedStatistic) -> bool:
        """Whether a statistic's values are its cells, whose noise adds up to zero: the law of their sums is known."""
        counted = family_of(self._measurement).counts and statistic.view is None
        return counted and self._draw.balanced is not None and not self._cut(statistic)

    def ends_of_sum(
        self, statistic: PlannedStatistic, columns: Collection[int], group: int, level: float
    ) -> tuple[float, float]:
        """Return the interval of the sum of some of these values, around the possible one nearest to it."""
        assert self._draw.balanced is not None
        q = self._draw.balanced.quantile_of_sum(len(columns), level)
        low, high = statistic.domain.hull
        middle = min(max(float(sum(int(self._raw[group, c]) for c in columns)), low), high)
        return max(middle - q, low), min(middle + q, high)

    def ranged(self, statistic: PlannedStatistic) -> bool:
        """Whether a statistic knows its range over a box of these cells."""
        statistic_kind = kind_named(statistic.function)
        joint = len(self._measurement.cells) > 1 and statistic.view is None
        return joint and isinstance(statistic_kind, Ranged)

    def over_box(
        self, statistic: PlannedStatistic, column: int, low: Floats, high: Floats
    ) -> tuple[Floats, Floats]:
        statistic_kind = kind_named(statistic.function)
        assert isinstance(statistic_kind, Ranged)
        a, b = statistic_kind.over_box(self._measurement, low, high)
        return a[:, column], b[:, column]


@dataclass(frozen=True)
class MeasuredValue(Measured):
    """A published value without a pivot, or the sum of some bins of one group whose noise adds up to zero."""

    of: ReleasedMeasurement
    statistic: PlannedStatistic
    columns: frozenset[int]
    group: int

    @property
    def key(self) -> Hashable:
        return ("measured", *self._place, self.statistic.name, self.columns)

    @property
    def measurement(self) -> Hashable:
        return self._place

    @property
    def _place(self) -> tuple[str, str, int]:
        return self.of.release, self.of.name, self.group

    def ends(self, level: float) -> tuple[float, float]:
        """Return its interval at `level`.

        Raises:
            ArgumentError: it is a choice by rank, which has no interval in its own unit (DPR662).
        """
        if len(self.columns) > 1:
            return self.of.ends_of_sum(self.statistic, self.columns, self.group, level)
        (column,) = self.columns
        if not self.of.has_interval:
            raise ArgumentError(
                f"`{self.statistic.columns[column]}` has no interval to compute with",
                why="a quantile's error is known in rows, not in its own unit",
                fix="derive it alone, over groups or periods; released with `interval: true`, two of them have a"
                " difference with an interval at the level 0.9",
                code="DPR662",
            )
        return self.of.ends(self.statistic, column, self.group, level)

    def cell_box(self, level: float) -> tuple[Floats, Floats] | None:
        if len(self.columns) > 1 or not self.of.ranged(self.statistic):
            return None
        return self.of.cell_box(self.group, level)

    def over_box(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        (column,) = self.columns
        return self.of.over_box(self.statistic, column, low, high)

    def plus(self, other: Measured) -> MeasuredValue | None:
        """Return the sum of these and other bins of the same histogram; None where its law is not known."""
        if not isinstance(other, MeasuredValue):
            return None
        same = (other.measurement, other.statistic.name) == (self._place, self.statistic.name)
        if not same or self.columns & other.columns or not self.of.adds(self.statistic):
            return None
        return replace(self, columns=self.columns | other.columns)
