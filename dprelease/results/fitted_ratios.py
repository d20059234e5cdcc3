"""What tables that add up publish beside fitted numbers: quotients of two, and values of draws of their own. Post-processing.

    value      of the two fitted values, in the statistic's domain and on its step
    interval   of the two estimates behind them, widened to hold the value (`fitting.quotient`)
    status     `empty_signal` where no row is published, `uninformative` where the interval is the whole domain

What is drawn by itself is read as in a release of its table alone, beside the fitted number of rows.

Units: fits count steps; values are in the statistic's unit.
Source: `docs/theory/publications-that-add-up.md#quotients-of-fitted-cells`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.fitting.quotient import CriticalValues, ends_of_quotient, middle_of_quotient
from dprelease.fitting.structure import IntArray
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import CERTAIN_NAMES, PlannedStatistic
from dprelease.release_plan.tables import PlannedRatio
from dprelease.results.consistency import outward, to_domain
from dprelease.results.draw import LEVEL, Cells, DrawnBlock, read
from dprelease.statistics.base import Floats, kind_named


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
        "upper": upper,
        "estimate": np.where(empty, np.nan, estimate),
        "status": status,
        **dict.fromkeys((*CERTAIN_NAMES, "unbiased", "reach"), np.full(value.shape, np.nan)),
    }


def own_parts(
    plan: ReleasePlan, table: str, cells: Cells, fitted: Mapping[tuple[str, str], Any]
) -> dict[tuple[str, str], dict[str, npt.NDArray[Any]]]:
    """Return the same of a table's columns that are not among the `fitted`, by table and name."""
    mine = [s for s in plan.statistics if s.table == table]
    own = [s for s in mine if (table, s.columns[0]) not in fitted]
    blocks = {s.block: plan.block(s.block) for s in own}
    drawn = {name: DrawnBlock(block, cells[name], LEVEL) for name, block in blocks.items()}
    counts = None
    for s in mine:
        if s.text == s.function and kind_named(s.function).of_rows:
            count = fitted[table, s.columns[0]]
            ends = tuple(each[:, None] for each in (count.value, count.lower, count.upper))
            counts = plan.block(s.block).measurement.max_rows, ends
    out = {}
    for s in own:
        parts = read(s, drawn, counts)
        none = dict.fromkeys(("reach", *CERTAIN_NAMES), np.full(len(parts["value"]), np.nan))
        for i, column in enumerate(s.columns):
            out[table, column] = {name: part[:, i] for name, part in parts.items()} | none
    return out
