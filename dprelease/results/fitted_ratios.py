"""What tables that add up publish beside fitted numbers: quotients of two, and values of draws of their own. Post-processing.

    value      of the two fitted values, in the statistic's domain and on its step
    interval   of the two estimates behind them, widened to hold the value (`fitting.quotient`)
    status     `empty_signal` where no row is published, `uninformative` where the interval is the whole domain

What is drawn by itself is read as in a release of its table alone, beside the fitted number of rows.

Units: fits count steps; values are in the statistic's unit.
Source: `docs/theory/publications-that-add-up.md#quotients-of-fitted-cells`.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from dprelease.fitting.quotient import (
    CriticalValues,
    classes_of,
    ends_of_quotient,
    middle_of_quotient,
)
from dprelease.release_plan.block import Cells
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import CERTAIN_NAMES
from dprelease.release_plan.tables import PlannedRatio
from dprelease.results.consistency import published_interval, to_domain
from dprelease.results.draw import LEVEL, DrawnBlock, read
from dprelease.results.one_fit import Column, Columns, OneFit
from dprelease.statistics.base import Floats, kind_named


def ratio_parts(
    ratio: PlannedRatio, top: OneFit, bottom: OneFit, fits: Mapping[str, Any]
) -> Column:
    """Return the column of a quotient of two fits."""
    table, statistic = ratio.table, top.statistics[ratio.table, ratio.statistic]
    critical = CriticalValues(ratio.low, ratio.high, ratio.critical, ratio.bend)
    classes = classes_of(top.estimator, bottom.estimator, table)
    sums, rows = (fits[name]["values"][table] for name in (ratio.top, ratio.bottom))
    above, below = top.estimates.values[table], bottom.estimates.values[table]
    slacks = top.estimates.slack, bottom.estimates.slack
    start, unit = float(ratio.offset), float(top.fit.step_size / bottom.fit.step_size)
    low_end, high_end = statistic.domain.hull

    def scaled(steps: Floats) -> Floats:
        return np.asarray(np.clip(start + unit * steps, low_end, high_end))

    empty = np.array([count <= 0 for count in rows])
    middle = (ratio.low + ratio.high) / 2
    share = [
        float(Fraction(int(s), int(c))) if c > 0 else middle
        for s, c in zip(sums, rows, strict=True)
    ]
    value = to_domain(scaled(np.array(share)), statistic.domain, statistic.step)
    hull = (low_end - start) / unit, (high_end - start) / unit
    lows, highs = map(scaled, ends_of_quotient(critical, classes, above, below, slacks, hull))
    ends = np.where(empty, low_end, lows), np.where(empty, high_end, highs)
    lower, upper, status = published_interval(statistic, value, ends, empty)
    estimate = scaled(middle_of_quotient(critical, above, below))
    return {
        "value": value,
        "lower": lower,
        "upper": upper,
        "estimate": np.where(empty, np.nan, estimate),
        "status": status,
        **dict.fromkeys((*CERTAIN_NAMES, "unbiased", "reach"), np.full(value.shape, np.nan)),
    }


def own_parts(
    plan: ReleasePlan, table: str, cells: Cells, fitted: Columns
) -> dict[tuple[str, str], Column]:
    """Return a table's columns that are not among the `fitted`."""
    mine = [s for s in plan.statistics if s.table == table]
    own = [s for s in mine if (table, s.columns[0]) not in fitted]
    blocks = {s.block: plan.block(s.block) for s in own}
    drawn = {name: DrawnBlock(block, cells[name], LEVEL) for name, block in blocks.items()}
    counts = None
    for s in mine:
        if s.text == s.function and kind_named(s.function).of_rows:
            count = fitted[table, s.columns[0]]
            ends = tuple(count[part][:, None] for part in ("value", "lower", "upper"))
            counts = plan.block(s.block).measurement.max_rows, ends
    out: dict[tuple[str, str], Column] = {}
    for s in own:
        parts = read(s, drawn, counts)
        none = dict.fromkeys(("reach", *CERTAIN_NAMES), np.full(len(parts["value"]), np.nan))
        for i, column in enumerate(s.columns):
            out[table, column] = {name: part[:, i] for name, part in parts.items()} | none
    return out
