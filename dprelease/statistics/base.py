"""What a statistic is, and the list of them.

One statistic is one file plus one line in `dprelease.core.registry`. It says how it is written, what its
values are called and measured in, its induced output domain, how it is measured (`measurements`, best
first), its post-processing, and what its values must fit. Sensitivity under the declared adjacency and
unit follows from the measurement (`dprelease.statistics.sensitivity`); nothing else in dprelease knows a statistic by
name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from dprelease.core import registry
from dprelease.query.resolved import Statistic
from dprelease.schema.column import Column
from dprelease.schema.domain import Domain
from dprelease.statistics.measurement import Context, Measurement

if TYPE_CHECKING:
    from dprelease.results.consistency import StatisticValues

Floats = npt.NDArray[np.float64]
SumQuantile = Callable[[int, float], int]
"""(cells, level) -> what the noise of so many cells together does not exceed at that level."""
Rule = Callable[[Sequence["StatisticValues"]], Mapping[str, Floats]]
"""Released statistics -> new values by statistic name; a fixed function of released values."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A block's noisy cells, read back for intervals; all arrays `(groups, cells)`.

    Attributes:
        low, high: bounds that hold for all cells together at `level` (Bonferroni).
        raw: the cells as drawn, before they were raised to 0.
        scale: of the discrete Laplace noise on every cell; None for other laws.
        copies: every cell is the sum of this many cells with noise of their own.
        gaussian: the noise is rounded normal, and `scale` its standard deviation.
        balanced: the quantile of the noise of so many cells together, where that of all adds up to zero.
        mix: the statistic's own cells are these sums of the drawn ones, which `raw` holds; empty where they are they.
    """

    low: Floats
    high: Floats
    raw: Floats
    scale: float | None
    level: float
    copies: int = 1
    gaussian: bool = False
    balanced: SumQuantile | None = None
    mix: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class SeenCells:
    """What a statistic sees of a block of several: as cells of `seen` the sums `mix` of the drawn ones at `places`."""

    seen: Measurement
    places: tuple[int, ...]
    mix: tuple[tuple[Fraction, ...], ...]

    def of_drawn(self, form: Form, count: int) -> Form:
        """Return a form of these cells as one of all `count` drawn cells."""
        out = np.full((2, count), Fraction(0))
        ends = [form.top, form.bottom or [Fraction(0)] * len(self.mix)]
        out[:, list(self.places)] = np.array(ends) @ np.array(self.mix)
        return Form(tuple(out[0]), None if form.bottom is None else tuple(out[1]))


@dataclass(frozen=True, slots=True)
class Form:
    """One published column as a linear form of its block's cells, or a ratio of two.

    Attributes:
        top, bottom: a weight per cell, in the cells' own unit; no bottom: the form is linear.
    """

    top: tuple[Fraction, ...]
    bottom: tuple[Fraction, ...] | None = None


class StatisticKind(ABC):
    """One statistic: what it is called, measured by and published as.

    What most statistics say of themselves is said here; a statistic's file says what is different.

    Attributes:
        name: as it is registered; syntax: how it is written, by default of one column of numbers.
        heading: its title in a report, `{}` for all that it is of, `{0}` and `{1}` for one of it each.
        measure: the unit of its values, where that is not the column's.
        whole: its values are whole numbers; additive: a sum over rows, as exact as the law's grid.
        adds_up: its values of disjoint groups of rows add up to that of all of them.
        within: the statistic that counts its rows: it lies between its ends times that.
        sums: of a quotient, the statistics that publish its top and its bottom where no row is left out.
        parts: its columns are parts of one whole, shown together.
        linear: it is a sum of cells that are read together: of no rows it is 0.
        constant: it may be asked of a column that can hold one value only.
        by_spread: its error depends on how far the rows lie apart.
        moment: which moment of one column it is, 1 or 2, whatever block its cells are in; 0 for none;
            root: it is the square root of that moment.
        of_pair: of two columns, 1 for their covariance, 2 for their correlation; 0 for neither.
        degree: the highest moment of its columns that it is a function of, 0 for their number; None for other statistics.
        counting: its heading names what it is the number of, so its values need no unit.
        of_rows: without an argument, it is the number of rows.
        rules: how released values are made to fit each other where this one is among them.
    """

    name: str
    heading: str = ""
    measure: str | None = None
    whole: bool = False
    additive: bool = False
    adds_up: bool = False
    within: str | None = None
    sums: tuple[str, str] = ("", "")
    parts: bool = False
    linear: bool = False
    constant: bool = False
    by_spread: bool = True
    moment: int = 0
    root: bool = False
    of_pair: int = 0
    degree: int | None = None
    counting: bool = False
    of_rows: bool = False
    rules: tuple[Rule, ...] = ()

    @abstractmethod
    def domain(self, context: Context) -> Domain:
        """Return the induced output domain, from public constants only."""

    @abstractmethod
    def measurements(self, context: Context) -> tuple[Measurement, ...]:
        """Return the admissible measurements, preferred first."""

    def columns(self, context: Context) -> tuple[str, ...]:
        """Return the published column names: by default one, the statistic's own."""
        return (context.spec.name,)

    def finish(self, measurement: Measurement, cells: Floats) -> Floats:
        """Return values, shape `(groups, columns)`, from noisy `cells`, `(groups, cells)`.

        By default the cells themselves: they are the statistic.
        """
        del measurement
        return cells

    def interval(self, measurement: Measurement, reading: Reading) -> tuple[Floats, Floats]:
        """Return a confidence interval per group and column, at the reading's level or above.

        By default the bounds of the cells.
        """
        del measurement
        return reading.low, reading.high

    def form(self, measurement: Measurement) -> tuple[Form, ...] | None:
        """Return each column's form, if the exact statistic is linear in its exact cells or a ratio.

        By default the cells themselves where they are the statistic, else none.
        """
        if type(self).finish is not StatisticKind.finish:
            return None
        count = len(measurement.cells)
        return tuple(Form(tuple(Fraction(i == j) for j in range(count))) for i in range(count))

    def estimate(self, measurement: Measurement, reading: Reading) -> Floats | None:
        """Return a median-unbiased estimate, shape `(groups, columns)`, NaN where no signal is left; None: not known."""
        del measurement, reading
        return None

    def quotient(self, context: Context) -> tuple[Measurement, Measurement] | None:
        """Return the sums over rows whose quotient it is, top and bottom; None: it is none of sums.

        Its value is the value of code 0, plus the measurement's step size times (what the top takes off per row,
        plus the quotient).
        """
        del context
        return None

    def adds_over(self, *, several: bool) -> bool:
        """Return whether values of several groups add up; `several`: a person's rows may lie in several of them."""
        del several
        return self.adds_up or self.additive

    def title(self, arguments: tuple[str, ...]) -> str:
        """Return a title for a report from the arguments as written; "" for none."""
        if "{}" in self.heading:
            return self.heading.format(" and ".join(arguments)) if arguments else ""
        try:
            return self.heading.format(*arguments)
        except IndexError:
            return ""

    def unit(self, statistic: Statistic) -> str:
        """Return the unit of the published value, for labels."""
        if self.measure is not None:
            return self.measure
        column = statistic.column
        return "" if column is None else column.measure or ""

    def cap(self, low: Fraction, high: Fraction, column: Column | None) -> int | None:
        """Return the number of rows that a declared domain [low, high] stands for, if any."""
        del low, high, column
        return None

    def notes(self, planned: Planned, measurement: Measurement) -> tuple[str, ...]:
        """Return the report's sentences on which rows are taken, and which form is published."""
        del measurement
        column = planned.statistic.column
        if column is None:
            return ()
        return (f"rows are clamped to {column.domain or '[0, 1]'} before use",)

    def stated_for(self, planned: Planned) -> str:
        """Return which rows the stated error is for, beyond their spread: words beside the figure."""
        del planned
        return ""

    def plan_note(self, statistic: Statistic) -> str | None:
        """Return what the whole plan must say because this statistic is asked for."""
        del statistic
        return None

    def without_point_masses(self) -> str:
        """Return the nearest forms that have a proof without point masses, where this one has none."""
        return "remove `spikes: forbid`, or release each bin as a count with `spikes: forbid`"

    def instead_in_tables(self, statistic: Statistic) -> str:
        """Return what tables which add up hold in place of a statistic; "" where it is drawn by itself there."""
        del statistic
        return ""

    def correlations(self, statistic: Statistic) -> tuple[float, ...]:
        """Return the correlations of its columns at which its error is averaged."""
        del statistic
        return (0.0, 0.6)


class Planned(Protocol):
    """A statistic as it is planned: what was asked, and the domain that follows from it."""

    @property
    def statistic(self) -> Statistic: ...

    @property
    def induced(self) -> Domain: ...


@runtime_checkable
class Ranged(Protocol):
    """A statistic of several cells that knows its range over a box of them."""

    def over_box(
        self, measurement: Measurement, low: Floats, high: Floats
    ) -> tuple[Floats, Floats]:
        """Return the least and the largest value, `(boxes, columns)`, for cells `(boxes, cells)`."""


def kind_named(name: str) -> StatisticKind:
    """Return the registered statistic called `name`."""
    return cast("StatisticKind", registry.load("aggregates", name))
