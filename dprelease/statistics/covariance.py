"""Population covariance (1/n) and correlation of two clamped columns, over complete cases.

A row counts where both columns are known. Private n: soft 2x2 cells for a covariance alone, the
nine-cell tensor for a correlation, and for both together (`pairs`). Public n: the cross product
n S(ab) - S(a) S(b) itself, sensitivity Ra Rb (n - 1)/n^2; the correlation still comes from the
tensor, because a direct one moves by 2, its whole range
(`docs/theory/sensitivities-and-contribution-bounding.md#scalars`).

Domain of the covariance: +-Ra Rb / 4, with public n +-Ra Rb floor(n^2/4)/n^2 (attained by half of
the rows at each of two corners). Of the correlation: [-1, 1], 0 where a released variance is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dprelease.core.numeric import plain
from dprelease.query.arguments import NumberColumns, Syntax
from dprelease.query.resolved import Statistic
from dprelease.schema.domain import Domain
from dprelease.statistics.base import Floats, Planned, Reading, StatisticKind
from dprelease.statistics.measurement import Context, Measurement
from dprelease.statistics.pair_cells import pair_correlation, pair_covariance
from dprelease.statistics.pair_pivot import correlation_interval, covariance_interval
from dprelease.statistics.pairs import column_notes, cross, soft_table, tensor
from dprelease.statistics.variance import moments

if TYPE_CHECKING:
    from dprelease.results.consistency import StatisticValues


def _unit(measurement: Measurement) -> float:
    """Return Ra Rb, the covariance's unit for codes as shares of their ranges."""
    a, b = measurement.axes
    return float(a.width * b.width)


def within_variances(released: Sequence[StatisticValues]) -> dict[str, Floats]:
    """Move covariances to what two released variances of the same rows allow."""
    out: dict[str, Floats] = {}
    spreads = {
        (r.arguments[0], r.rows): r
        for r in released
        if r.function == "variance" and r.plain and r.data.get("complete")
    }
    for one in (r for r in released if r.function == "covariance" and r.data.get("complete")):
        a, b = (spreads.get((name, one.rows)) for name in one.arguments)
        if a is None or b is None or one.statistic.domain.forbidden:
            continue
        bound = np.sqrt(a.values * b.values)
        step = float(one.statistic.step)
        bound = np.floor(bound / step) * step
        out[one.statistic.name] = np.clip(one.values, -bound, bound)
    return out


class Covariance(StatisticKind):
    name = "covariance"
    of_pair = 1
    degree = 2
    syntax = Syntax(2, 2, "covariance(age, bmi)", NumberColumns(), ("COVAR_POP",))
    heading = "Covariance of {}"
    rules = (moments, within_variances)  # variances first: they bound covariances

    def unit(self, statistic: Statistic) -> str:
        units = [c.measure for c in statistic.columns]
        if not all(units):
            return ""
        return f"{units[0]}²" if len(set(units)) == 1 else "·".join(map(str, units))

    def notes(self, planned: Planned, measurement: Measurement) -> tuple[str, ...]:
        del measurement
        return (*column_notes(planned.statistic), "population form (divided by n)")

    def without_point_masses(self) -> str:
        return (
            "remove `spikes: forbid`; or make n public "
            "(substitution, rows: {exact: n}, unit: row, nulls: {default: x} on both columns)"
        )

    def domain(self, context: Context) -> Domain:
        a, b = context.axes
        n = context.public_rows
        bound = a.width * b.width
        bound *= Fraction(1, 4) if n is None else Fraction(n * n // 4, n * n)
        return Domain(-bound, bound)

    def measurements(self, context: Context) -> tuple[Measurement, ...]:
        if context.public_rows is not None:
            return cross(context), tensor(context)
        return soft_table(context), tensor(context)

    def finish(self, measurement: Measurement, cells: Floats) -> Floats:
        if len(measurement.cells) == 1:
            return cells
        return _unit(measurement) * pair_covariance(cells)[:, None]

    def interval(self, measurement: Measurement, reading: Reading) -> tuple[Floats, Floats]:
        if len(measurement.cells) == 1:
            return reading.low, reading.high
        assert reading.scale is not None
        low, high = covariance_interval(
            reading.raw, reading.scale, reading.level, own=reading.mix, gaussian=reading.gaussian
        )
        unit = _unit(measurement)
        return unit * low[:, None], unit * high[:, None]


class Correlation(StatisticKind):
    name = "correlation"
    of_pair = 2
    syntax = Syntax(2, 2, "correlation(age, bmi)", NumberColumns(), ("CORR",), guess=True)
    heading = "Correlation of {}"
    measure = ""

    def notes(self, planned: Planned, measurement: Measurement) -> tuple[str, ...]:
        del measurement
        guess = planned.statistic.spec.expected
        stated = (
            "its error is stated for a correlation of 0; `expected` states another guess"
            if guess is None
            else f"its error is stated for a correlation of {plain(guess)}, a public guess"
        )
        return (stated, *column_notes(planned.statistic), "0 where a released variance is 0")

    def stated_for(self, planned: Planned) -> str:
        guess = planned.statistic.spec.expected
        return f"for a correlation of {plain(guess or Fraction(0))}" + (
            " as guessed" if guess else ""
        )

    def without_point_masses(self) -> str:
        return "remove `spikes: forbid`"

    def correlations(self, statistic: Statistic) -> tuple[float, ...]:
        return (float(statistic.spec.expected or 0),)

    def domain(self, context: Context) -> Domain:
        del context  # a pure number
        return Domain(-1, 1)

    def measurements(self, context: Context) -> tuple[Measurement, ...]:
        return (tensor(context),)

    def finish(self, measurement: Measurement, cells: Floats) -> Floats:
        del measurement  # a pure number
        return pair_correlation(cells)[:, None]

    def interval(self, measurement: Measurement, reading: Reading) -> tuple[Floats, Floats]:
        del measurement
        assert reading.scale is not None
        low, high = correlation_interval(reading.raw, reading.scale, reading.level)
        return low[:, None], high[:, None]


statistic = Covariance()
correlation = Correlation()
