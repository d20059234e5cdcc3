"""Means and shares of tables that add up: quotients of two fitted numbers. Post-processing of the draw.

    value      of the two fitted values, in the statistic's domain and on its step
    interval   of the two estimates behind them, widened to hold the value (`fitting.quotient`)
    status     `empty_signal` where no row is published, `uninformative` where the interval is the whole domain

Units: fits count steps; values are in the statistic's unit.
Source: `docs/theory/publications-that-add-up.md#quotients-of-fitted-cells`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.fitting.quotient import CriticalValues, ends_of_quotient, middle_of_quotient
from dprelease.fitting.structure import IntArray
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.release_plan.tables import PlannedRatio
from dprelease.results.consistency import outward, to_domain
from dprelease.statistics.base import Floats


@dataclass(frozen=True, slots=True)
class Sums:
    """One fit in the quotient's table: published values in steps, estimates in `ONE`ths of one, and their slack."""

    values: Sequence[int]
    estimates: Sequence[int]
    slack: Fraction


def ratio_parts(
    ratio: PlannedRatio,
    statistic: PlannedStatistic,
    step_size: Fraction,
    classes: IntArray,
    top: Sums,
    bottom: Sums,
) -> dict[str, npt.NDArray[Any]]:
    """Return value, lower, upper, estimate, unbiased and status, `(cells,)` each.

    Args:
        step_size: a step of the top; classes: of every cell, as in the plan's critical values.
    """
    critical = CriticalValues(ratio.low, ratio.high, ratio.critical, ratio.bend)
    domain, step = statistic.domain, statistic.step
    start, unit = float(ratio.offset), float(step_size)
    low_end, high_end = domain.hull

    def scaled(steps: Floats) -> Floats:
        return np.asarray(np.clip(start + unit * steps, low_end, high_end))

    empty = np.array([count <= 0 for count in bottom.values])
    middle = (ratio.low + ratio.high) / 2
    share = [
        float(Fraction(int(s), int(c))) if c > 0 else middle
        for s, c in zip(top.values, bottom.values, strict=True)
    ]
    value = to_domain(scaled(np.array(share)), domain, step)
    lows, highs = ends_of_quotient(
        critical, classes, top.estimates, bottom.estimates, (top.slack, bottom.slack),
        ((low_end - start) / unit, (high_end - start) / unit),
    )  # fmt: skip
    lower = outward(np.where(empty, low_end, scaled(lows)), step, np.floor)
    upper = outward(np.where(empty, high_end, scaled(highs)), step, np.ceil)
    lower, upper = np.minimum(lower, value), np.maximum(upper, value)
    status = np.full(value.shape, "ok", dtype=object)
    status[(value <= low_end) | (value >= high_end)] = "at_bound"
    status[(lower <= low_end) & (upper >= high_end)] = "uninformative"
    status[empty] = "empty_signal"
    estimate = scaled(middle_of_quotient(critical, top.estimates, bottom.estimates))
    return {
        "value": value,
        "lower": lower,
        "certain_lower": np.full(len(value), np.nan),
        "certain_upper": np.full(len(value), np.nan),
        "upper": upper,
        "estimate": np.where(empty, np.nan, estimate),
        "unbiased": np.full(value.shape, np.nan),
        "reach": np.full(value.shape, np.nan),
        "status": status,
    }
