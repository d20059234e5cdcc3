"""Mean, sum, variance and standard deviation of rows clamped to two limits that are drawn first (winsorised).

Written `{statistic: "mean(income)", winsorize: 0.01}`, or `winsorised_mean(income, 0.01)`. Part of epsilon draws
two quantiles of the column, here 0.01 and 0.99; the rest measures the statistic of the rows clamped to them, with
noise for that narrower range. Worth it where the declared range is much wider than the rows.

It is another statistic than the mean: about that share of the rows at each end is moved to a limit, which moves the
result by an amount that nobody measures. So it has its own name, its limits are published beside it, and its
interval is for the statistic of the rows clamped to these limits, whatever they are. Domain: as of the
statistic of the declared range, which holds every possible pair of limits.

Units: limits in the column's unit. Shapes: cells `(groups, 2 + degree + 1)`: codes of both limits, then the
cells of `statistics.clipped`.
Source: `docs/theory/winsorised-statistics.md`.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from dprelease.core.errors import ArgumentError, ConfigError
from dprelease.core.numeric import exact, plain, shown
from dprelease.intervals.few import quantiles
from dprelease.intervals.quotient import WIDE
from dprelease.query.answer import TABLE_LIMIT
from dprelease.query.arguments import NumberColumn, Syntax, Written, unquoted
from dprelease.query.resolved import Statistic
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain
from dprelease.statistics.base import Floats, Planned, Reading, StatisticKind
from dprelease.statistics.clipped import DEGREES
from dprelease.statistics.mean import statistic as mean
from dprelease.statistics.measurement import Context, Family, Measure, Measurement
from dprelease.statistics.ranks import allowed_values, candidates
from dprelease.statistics.sum import statistic as total
from dprelease.statistics.variance import statistic as variance
from dprelease.statistics.variance import std

_LARGEST_DENOMINATOR = 1000
_FINEST = 2.0**16
"""Parts of a row beyond which the lattice of the noise is not told from none: it widens no interval by more."""


def read_tail(text: str, origin: str) -> Fraction:
    """Return the share of the rows that is clamped at each end; else ConfigError DPR133."""
    try:
        share = exact(text, "winsorize")
    except ArgumentError:
        share = Fraction(-1)
    most = _LARGEST_DENOMINATOR
    if isinstance(share, Fraction) and 0 < 2 * share < 1 and share.denominator <= most:
        return share
    raise ConfigError(
        "the share that is winsorised at each end lies between 0 and 1/2, with at most three decimals",
        where=origin,
        fix=f"for {text} write e.g. 0.01",
        code="DPR133",
    )


class ColumnAndTail(NumberColumn):
    """One column of numbers, and the share of its rows that is clamped at each end."""

    sql: Written = "number"

    def read(self, texts: tuple[str, ...], origin: str) -> tuple[str, ...]:
        read_tail(texts[1], origin)
        return tuple(map(unquoted, texts))

    def named(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        return arguments[:1]

    def fits(self, column: Column) -> bool:
        return super().fits(column) and column.kind is not Kind.boolean


def degree_of(measurement: Measurement) -> int:
    """Return 1 for two sums, 2 for the three cells that hold a variance too."""
    return len(measurement.cells) - 3


def unit_measurement(degree: int) -> Measurement:
    """Return how an ordinary statistic reads cells over the range [0, 1]."""
    family: Family = "two_sums" if degree == 1 else "bernstein2"
    cells = tuple(map(str, range(degree + 1)))
    return Measurement(
        family=family, key=(), cells=cells, weights=(), l1_added_row=1, l1_replaced_row=2
    )


def measurement(context: Context, degree: int) -> Measurement:
    """Return the cells of two limits and of the rows clamped to them."""
    share = read_tail(context.spec.arguments[1], context.spec.origin)
    a, b = share.as_integer_ratio()
    code = candidates(context, most=TABLE_LIMIT // max(1, context.groups) - 1)
    names = ("lower limit", "upper limit", *(f"cell {i} between them" for i in range(degree + 1)))
    return Measurement(
        family="winsorised",
        key=("winsorised", context.subject, str(share), str(degree)),
        cells=tuple(f"{name} of {context.subject}" for name in names),
        measures=(Measure("tally", code),),
        weights=((a, b, 0), (b - a, b, 0)),
        l1_added_row=1,
        l1_replaced_row=2,
        scale=code.grid.hull_steps,
        offset=code.grid.lower * code.step,
        step_size=code.step,
        form="winsorised",
    )


class _OfLimits(StatisticKind):
    """What is computed from two drawn limits and the cells between them."""

    degrees: tuple[int, ...] = DEGREES

    def measurements(self, context: Context) -> tuple[Measurement, ...]:
        return tuple(measurement(context, degree) for degree in self.degrees)


class Limit(_OfLimits):
    """One of the two limits, as it was drawn: it is known exactly, and how far it is from a quantile is not."""

    syntax = None  # published beside a statistic, never asked for alone

    def __init__(self, name: str, heading: str, side: int) -> None:
        self.name = name
        self.heading = heading
        self.side = side

    def domain(self, context: Context) -> Domain:
        return allowed_values(context)

    def finish(self, measurement: Measurement, cells: Floats) -> Floats:
        return _values(measurement, cells)[self.side][:, None]

    def interval(self, measurement: Measurement, reading: Reading) -> tuple[Floats, Floats]:
        value = self.finish(measurement, reading.raw)
        return value, value


class Winsorised(_OfLimits):
    """A statistic of rows clamped to drawn limits; `inner` is the same one of the declared range.

    Attributes:
        squared: it is in the column's unit squared.
    """

    def __init__(self, inner: StatisticKind, heading: str, degrees: tuple[int, ...]) -> None:
        self.name = f"winsorised_{inner.name}"
        self.heading = heading
        self.inner = inner
        self.degrees = degrees
        self.squared = inner is variance
        self.syntax = Syntax(
            2,
            2,
            f"{self.name}(income, 0.05)",
            ColumnAndTail(),
            companions=(("from", lower.name), ("to", upper.name)),
        )

    def domain(self, context: Context) -> Domain:
        return self.inner.domain(context)

    def unit(self, statistic: Statistic) -> str:
        return self.inner.unit(statistic)

    def cap(self, low: Fraction, high: Fraction, column: Column | None) -> int | None:
        return self.inner.cap(low, high, column)

    def without_point_masses(self) -> str:
        return "remove `spikes: forbid`, or ask for mean(...) with `spikes: forbid`"

    def notes(self, planned: Planned, measurement: Measurement) -> tuple[str, ...]:
        column = planned.statistic.column
        assert column is not None
        share = Fraction(measurement.weights[0][0], measurement.weights[0][1])
        plainly = self.inner.heading.format(column.name)
        quantiles_of = f"{shown(share)} and {shown(1 - share)}"
        clamped = "moved to a limit, which moves it by an amount that is not measured"
        notes = [
            f"rows are clamped to two drawn limits near the quantiles {quantiles_of}, published beside it",
            f"not the {plainly[:1].lower()}{plainly[1:]}: about {shown(100 * share)} % of the rows at each end are {clamped}",
            "its interval is for the rows clamped to these very limits",
        ]
        if measurement.step_size != column_step(planned):
            notes.append(
                f"rows are rounded to multiples of {plain(measurement.step_size)} before use"
            )
        return (*notes, *self.inner.notes(planned, measurement)[1:])

    def stated_for(self, planned: Planned) -> str:
        column = planned.statistic.column
        assert column is not None
        assert column.domain is not None
        low, high = Fraction(column.domain.lower), Fraction(column.domain.upper)
        start = min(max(low, Fraction(0)), high)
        away = "on" if start - low <= high - start else "down"
        return f"for rows from {shown(start)} {away} that get rarer"

    def finish(self, measurement: Measurement, cells: Floats) -> Floats:
        low, high = _values(measurement, cells)
        unit = unit_measurement(degree_of(measurement))
        return self._scaled(self.inner.finish(unit, _rows(cells)), low, high)

    def interval(self, measurement: Measurement, reading: Reading) -> tuple[Floats, Floats]:
        low, high = _values(measurement, reading.raw)
        unit, out = unit_measurement(degree_of(measurement)), np.zeros((2, low.size, 1))
        for rows, part in by_width(reading):
            ends = self.inner.interval(unit, part)
            out[0, rows], out[1, rows] = (self._scaled(e, low[rows], high[rows]) for e in ends)
        return out[0], out[1]

    def estimate(self, measurement: Measurement, reading: Reading) -> Floats:
        """Return the median-unbiased estimate of the statistic between the limits; NaN where none is known."""
        low, high = _values(measurement, reading.raw)
        out = np.full((low.size, 1), np.nan)
        for rows, part in by_width(reading):
            unit = self.inner.estimate(unit_measurement(degree_of(measurement)), part)
            if unit is not None:
                out[rows] = self._scaled(unit, low[rows], high[rows])
        return out

    def _scaled(self, unit: Floats, low: Floats, high: Floats) -> Floats:
        """Return the statistic over [low, high] from that over [0, 1]; `(groups, 1)`."""
        width = (high - low)[:, None]
        if self.squared:
            return np.asarray(width * width * unit)
        return np.asarray(width * unit + (low[:, None] if self.inner is mean else 0.0))


class WinsorisedSum(Winsorised):
    """A sum: linear in the cells, each of which stands for a value between the limits."""

    linear = True

    def finish(self, measurement: Measurement, cells: Floats) -> Floats:
        parts = _values_of_cells(measurement, cells) * _rows(cells)
        return np.asarray(parts.sum(axis=1, keepdims=True))

    def interval(self, measurement: Measurement, reading: Reading) -> tuple[Floats, Floats]:
        """Return the sum and the quantile of its noise: one weight per cell, independent Laplace noise.

        A discrete Laplace draw is within one step of a continuous one of its scale (`intervals.few`).
        """
        assert reading.scale is not None
        weights = np.abs(_values_of_cells(measurement, reading.raw))
        step = 1 / _unit(reading.raw)[:, None]
        half = reading.scale * quantiles(weights, reading.level)
        half = (half + (weights * step).sum(axis=1))[:, None]
        middle = self.finish(measurement, reading.raw)
        return middle - half, middle + half

    def estimate(self, measurement: Measurement, reading: Reading) -> Floats:
        return self.finish(measurement, reading.raw)  # the noise of a sum is symmetric


def column_step(planned: Planned) -> Fraction:
    """Return the step of the column that is asked of."""
    column = planned.statistic.column
    return Fraction(1) if column is None or column.step is None else column.step


def _values(measurement: Measurement, cells: Floats) -> tuple[Floats, Floats]:
    """Return both limits in the column's unit, `(groups,)` each."""
    num, den = measurement.step_size.as_integer_ratio()
    first = float(measurement.offset / measurement.step_size)
    low, high = ((cells[:, i] + first) * num / den for i in range(2))
    return low, high


def _unit(cells: Floats) -> Floats:
    """Return what one row adds to the cells, in steps."""
    return np.asarray(np.maximum(cells[:, 1] - cells[:, 0], 1.0) ** (cells.shape[1] - 3))


def _rows(cells: Floats) -> Floats:
    """Return the cells between the limits in rows."""
    return np.asarray(cells[:, 2:] / _unit(cells)[:, None])


def _values_of_cells(measurement: Measurement, cells: Floats) -> Floats:
    """Return the value that each cell stands for in a sum, `(groups, cells)`."""
    low, high = _values(measurement, cells)
    degree = degree_of(measurement)
    shares = (1.0, 0.0) if degree == 1 else (0.0, 0.5, 1.0)
    return np.stack([low + (high - low) * share for share in shares], axis=1)


def by_width(reading: Reading) -> list[tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], Reading]]:
    """Return the groups by the lattice of their cells, each with its cells in steps of at most one row's part.

    In rows every group's noise has one scale, and steps of 1 / w^degree: the lattice that intervals leave
    room for. Of noise that is narrow in these steps the lattice counts; of other noise a coarser one serves, a power
    of two, so that few readings serve all groups (`intervals.few`).
    """
    assert reading.scale is not None
    unit, rows = _unit(reading.raw), _rows(reading.raw)
    coarse = np.minimum(2.0 ** np.floor(np.log2(unit)), _FINEST)
    parts = np.where(reading.scale * unit < 2 * WIDE, unit, coarse)
    out = []
    for part in np.unique(parts):
        here = parts == part
        raw = rows[here] * part
        out.append(
            (here, replace(reading, low=raw, high=raw, raw=raw, scale=reading.scale * float(part)))
        )
    return out


lower = Limit("winsorised_from", "Lower limit of {0}, winsorised", 0)
upper = Limit("winsorised_to", "Upper limit of {0}, winsorised", 1)
winsorised_mean = Winsorised(mean, "Winsorised mean of {0}", DEGREES)
winsorised_sum = WinsorisedSum(total, "Winsorised sum of {0}", DEGREES)
winsorised_variance = Winsorised(variance, "Winsorised variance of {0}", DEGREES[1:])
winsorised_std = Winsorised(std, "Winsorised standard deviation of {0}", DEGREES[1:])
