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

from dprelease.aggregates.base import Aggregate, Asked, Floats, Reading
from dprelease.aggregates.cells import (
    bernstein_variance,
    bernstein_variance_box,
    centred_squares_of,
    centred_variance,
    centred_variance_box,
)
from dprelease.aggregates.measurement import Context, Measurement
from dprelease.aggregates.pair_pivot import variance_interval as margin_interval
from dprelease.aggregates.scalar import (
    bernstein2,
    centred_squares,
    public_scatter,
    public_squares,
)
from dprelease.aggregates.variance_pivot import mixed_interval, variance_interval
from dprelease.query.arguments import Statistic, Syntax
from dprelease.schema.domain import Domain

if TYPE_CHECKING:
    from dprelease.results.consistency import StatisticValues


def moments(released: Sequence[StatisticValues]) -> dict[str, Floats]:
    """Move variances and standard deviations to what the released mean allows."""
    out: dict[str, Floats] = {}
    spreads: dict[tuple[str, ...], list[StatisticValues]] = {}
    for one in released:
        if one.function in ("variance", "std") and one.plain:
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
            if one.function == "std":
                ends = np.sqrt(floor), np.sqrt(ceiling)
            out[one.statistic.name] = _inside(one, *ends)
    return out


def _inside(one: StatisticValues, low: Floats, high: Floats) -> Floats:
    """Return the values moved into [low, high], rounded to the step towards the inside."""
    values, step = one.values[:, 0], float(one.statistic.step)
    down = np.floor(high / step) * step
    up = np.minimum(np.ceil(low / step) * step, np.maximum(down, 0.0))
    moved = np.where(values > high, down, np.where(values < low, up, values))
    return moved[:, None]


def _hull(mean: StatisticValues) -> tuple[Fraction, Fraction] | None:
    """Return the column's hull [l, u], as the mean's measurement knows it."""
    measurement = mean.measurement
    if mean.statistic.view is not None:
        axis = measurement.axes[mean.statistic.view]
        return axis.offset, axis.offset + axis.width
    if measurement.axes or measurement.family not in (
        "two_sums",
        "centred_sums",
        "centred_squares",
        "bernstein2",
        "truncated_mean",
        "scalar",
    ):
        return None
    rows = measurement.public_rows if measurement.family == "scalar" else 1
    return measurement.offset, measurement.offset + measurement.scale * measurement.step_size * (
        rows or 1
    )


class Variance(Aggregate):
    """`variance`, or `std` when `root` is true."""

    moment = 2
    rules = (moments,)

    def __init__(self, name: str, sql: str, heading: str, *, root: bool) -> None:
        self.name = name
        self.syntax = Syntax(1, 1, f"{name}(age)", sql=(sql,), winsorised=f"winsorised_{name}")
        self.heading = heading
        self.root = root

    def unit(self, statistic: Statistic) -> str:
        unit = super().unit(statistic)
        return f"{unit}²" if unit and not self.root else unit

    def notes(self, asked: Asked, measurement: Measurement) -> tuple[str, ...]:
        return (*super().notes(asked, measurement), "population form (divided by n)")

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
        if measurement.family == "bernstein2":
            return self._value(measurement, bernstein_variance(cells))
        if measurement.family == "centred_squares":
            sums = centred_squares_of(cells, _rows(measurement))
            return self._value(measurement, centred_variance(sums))
        return np.sqrt(np.maximum(cells, 0.0)) if self.root else cells

    def interval(self, measurement: Measurement, reading: Reading) -> tuple[Floats, Floats]:
        low, high = reading.low, reading.high
        if measurement.family == "centred_squares":
            assert reading.scale is not None
            a, b = mixed_interval(reading.raw, reading.scale, reading.level, _rows(measurement))
            return self._value(measurement, a), self._value(measurement, b)
        if measurement.family == "bernstein2":
            if reading.copies == 1 and reading.scale is not None:
                a, b = variance_interval(
                    reading.raw, reading.scale, reading.level, gaussian=reading.gaussian
                )
            elif reading.scale is not None and not reading.gaussian:
                # margins of a tensor: every cell has several noises
                a, b = margin_interval(reading.raw, reading.scale, reading.level, reading.copies)
            else:
                a, b = bernstein_variance_box(low, high)
            return self._value(measurement, a), self._value(measurement, b)
        if self.root:
            return np.sqrt(np.maximum(low, 0.0)), np.sqrt(np.maximum(high, 0.0))
        return low, high

    def over_box(
        self, measurement: Measurement, low: Floats, high: Floats
    ) -> tuple[Floats, Floats]:
        """Return its range over a box of Bernstein cells, or of sums about the middle."""
        if measurement.family == "centred_squares":
            rows = _rows(measurement)
            a, b = centred_variance_box(
                centred_squares_of(low, rows), centred_squares_of(high, rows)
            )
        else:
            a, b = bernstein_variance_box(low, high)
        return self._value(measurement, a), self._value(measurement, b)

    def _value(self, measurement: Measurement, variance: Floats) -> Floats:
        width = float(measurement.scale * measurement.step_size)
        return (width * np.sqrt(variance) if self.root else width**2 * variance)[:, None]


def _rows(measurement: Measurement) -> float | None:
    """Return the public number of rows in steps of the sum about the middle, K^2 each."""
    n = measurement.public_rows
    return None if n is None else float(n * measurement.scale**2)


aggregate = Variance("variance", "VAR_POP", "Variance of {}", root=False)
std = Variance("std", "STDDEV_POP", "Standard deviation of {}", root=True)
