"""Population variance (1/n) of a clamped column, and its square root.

Private n: Bernstein-2 cells, or, where units are replaced, sums and squares about the middle; one budget with
the mean of the same column. Public n: the scatter n S(x^2) - S(x)^2, an integer in steps, sensitivity
w^2 (n-1)/n^2 in the variance's unit, or such sums and squares. Domain [0, w^2/4], with public n [0, w^2 floor(n^2/4)/n^2]. The standard deviation
is released as the square root of the released variance: post-processing, and 1.6 to 50 times
better than noising it directly.

Sources: `docs/theory/sensitivities-and-contribution-bounding.md#partitions-of-unity`, `#scalars`,
`#centred-squares`;
`docs/theory/domains-and-grids.md#induced-domains`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dprelease.query.arguments import Syntax
from dprelease.query.resolved import Statistic
from dprelease.schema.domain import Domain
from dprelease.statistics.base import Floats, Planned, Reading, StatisticKind
from dprelease.statistics.measurement import Context, Measurement
from dprelease.statistics.moments import squares_of
from dprelease.statistics.scalar import (
    bernstein2,
    centred_squares,
    public_scatter,
    public_squares,
)

if TYPE_CHECKING:
    from dprelease.results.consistency import StatisticValues


def moments(released: Sequence[StatisticValues]) -> dict[str, Floats]:
    """Move variances and standard deviations to what the released mean allows."""
    out: dict[str, Floats] = {}
    spreads: dict[tuple[str, ...], list[StatisticValues]] = {}
    for one in released:
        if one.function in (statistic.name, std.name) and one.plain:
            spreads.setdefault(one.arguments[:1], []).append(one)
    for mean in (r for r in released if r.function == "mean" and r.arguments in spreads):
        hull = _hull(mean)
        if hull is None or mean.statistic.domain != Domain(*hull):
            continue
        low, high = map(float, hull)
        m = mean.values[:, 0]
        ceiling, floor = (high - m) * (m - low), np.zeros_like(m)
        for a, b in mean.data.get("forbidden", ()):
            floor = np.maximum(floor, (m - float(Fraction(a))) * (float(Fraction(b)) - m))
        floor = np.minimum(floor, ceiling)
        for one in spreads[mean.arguments]:
            if one.rows != mean.rows:
                continue
            ends = (floor, ceiling)
            if one.function == std.name:
                ends = np.sqrt(floor), np.sqrt(ceiling)
            out[one.statistic.name] = _inside(one, *ends)
    return out


def _inside(one: StatisticValues, low: Floats, high: Floats) -> Floats:
    """Return the values moved into [low, high], rounded to the step towards the inside."""
    values, step = one.values[:, 0], float(one.statistic.step)
    down = np.floor(high / step) * step
    up = np.minimum(np.ceil(low / step) * step, np.maximum(down, 0.0))
    inside = np.where(values > high, down, np.where(values < low, up, values))
    return inside[:, None]


def _hull(mean: StatisticValues) -> tuple[Fraction, Fraction] | None:
    """Return the column's hull [l, u], as the mean's measurement knows it."""
    measurement = mean.measurement
    if mean.statistic.view is not None:
        axis = measurement.axes[mean.statistic.view]
        return axis.offset, axis.offset + axis.width
    if measurement.axes:
        return None
    rows = measurement.public_rows or 1  # where they are public, the step is that of their mean
    return measurement.offset, measurement.offset + measurement.scale * measurement.step_size * rows


class Variance(StatisticKind):
    """`variance`, or `std` when `root` is true."""

    moment = degree = 2
    rules = (moments,)

    def __init__(self, name: str, sql: str, heading: str, *, root: bool) -> None:
        self.name = name
        self.syntax = Syntax(1, 1, f"{name}(age)", sql=(sql,), winsorised=f"winsorised_{name}")
        self.heading = heading
        self.root = root

    def unit(self, statistic: Statistic) -> str:
        unit = super().unit(statistic)
        return f"{unit}²" if unit and not self.root else unit

    def notes(self, planned: Planned, measurement: Measurement) -> tuple[str, ...]:
        return (*super().notes(planned, measurement), "population form (divided by n)")

    def without_point_masses(self) -> str:
        return (
            "remove `spikes: forbid`; or ask for mean(...) with `spikes: forbid`; or make n public "
            "(substitution, rows: {exact: n}, unit: row, nulls: {default: x})"
        )

    def domain(self, context: Context) -> Domain:
        width = Fraction(context.hull.width)
        if self.root:
            return Domain(0, width / 2)
        n = context.public_rows
        if n is None:
            return Domain(0, width**2 / 4)
        return Domain(0, width**2 * (n * n // 4) / Fraction(n * n))

    def measurements(self, context: Context) -> tuple[Measurement, ...]:
        if context.public_rows is not None:
            return public_scatter(context), public_squares(context)
        return bernstein2(context), centred_squares(context)

    def finish(self, measurement: Measurement, cells: Floats) -> Floats:
        of = squares_of(measurement.family)
        if of is None:
            return np.sqrt(np.maximum(cells, 0.0)) if self.root else cells
        return self._value(measurement, of.variance(measurement, cells))

    def interval(self, measurement: Measurement, reading: Reading) -> tuple[Floats, Floats]:
        of = squares_of(measurement.family)
        if of is None:
            return self.finish(measurement, reading.low), self.finish(measurement, reading.high)
        low, high = of.variance_interval(measurement, reading)
        return self._value(measurement, low), self._value(measurement, high)

    def over_box(
        self, measurement: Measurement, low: Floats, high: Floats
    ) -> tuple[Floats, Floats]:
        """Return its range over a box of cells."""
        of = squares_of(measurement.family)
        if of is None:
            return self.finish(measurement, low), self.finish(measurement, high)
        least, most = of.variance_box(measurement, low, high)
        return self._value(measurement, least), self._value(measurement, most)

    def _value(self, measurement: Measurement, variance: Floats) -> Floats:
        width = float(measurement.scale * measurement.step_size)
        return (width * np.sqrt(variance) if self.root else width**2 * variance)[:, None]


statistic = Variance("variance", "VAR_POP", "Variance of {}", root=False)
std = Variance("std", "STDDEV_POP", "Standard deviation of {}", root=True)
