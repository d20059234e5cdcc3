"""Suppression in a drawn table: post-processing of noisy numbers, the same everywhere.

A cell is suppressed where the number that decides, before it is moved into its domain or rounded, is below the
threshold; in tables that add up, where its estimate or its fitted number is. What suppressed cells show:

    the number that decides    [least answer, w]: an answer above w falls below the threshold with 2.5 % at most;
                               where an estimate is not below it, up to the upper end that the estimate has
    all else of the cell       its whole domain
    where noise ends           no certain interval: its middle would be the noisy number

so that of every cell, suppressed or not, at least 95 % of the intervals cover. A published number that decides is
covered with 95 % among the draws that publish it, too: where its interval reaches down to the threshold, it reaches
to the least answer, for a small cell is only there when its noise is large. Where published cells alone are
shown, intervals of all else are made at level 1 - 5 % R / m for R published ones of m (Benjamini & Yekutieli 2005),
so that at most 5 % of these are expected to miss. Proofs: `docs/theory/rules.md`.

Shapes: `(groups,)`, parts `(groups, columns)` per statistic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dprelease.core.numeric import counted
from dprelease.release_plan.statistic import CERTAIN_NAMES, PlannedStatistic, numbers
from dprelease.results.consistency import outward
from dprelease.schema.release_spec import Rules
from dprelease.statistics.base import Floats

SUPPRESSED = "suppressed"
"""The status of what is published without a value."""

IMPOSSIBLE = "impossible"
"""The status of a group that can hold no row: it was not measured, and its 0 is no estimate."""
WITHOUT_VALUE = (SUPPRESSED, IMPOSSIBLE)
WEAK = ("uninformative", "empty_signal")
"""Statuses of values that say nothing."""

_MISS = 0.05


class Decision(NamedTuple):
    """Which cells are suppressed, and the highest end that the deciding number then has, in its unit.

    The interval of a published one goes down to the least answer if it reaches to `clear` or below.
    """

    by: PlannedStatistic
    suppressed: npt.NDArray[np.bool_]
    most: Floats
    clear: Floats | float

    @classmethod
    def decide(
        cls,
        by: PlannedStatistic,
        number: Floats,
        reach: Floats | float,
        flat: Floats | float,
        below: int,
    ) -> Decision:
        """Decide by noisy numbers, each within `reach` of its answer at 95 %, and in each direction at 97.5 %.

        Args:
            flat: over how much the chance of their noise does not fall, at most: 0 where it falls everywhere; for an
                estimate one published step, and by how much its fitted number is lower; -inf for a public number,
                which no noise lifted.
        """
        most = np.broadcast_to(below + np.asarray(reach), number.shape)
        return cls(by, number < below, most, below + flat)


def level(rules: Rules | None, published: int, cells: int) -> float:
    """Return the level of the intervals of `published` published cells of so many: higher where they alone are shown."""
    share = published / cells if rules is not None and rules.sparse and published else 1.0
    return 1 - _MISS * share


def without_companions(
    statistics: Sequence[PlannedStatistic], parts: Mapping[str, list[Any]], rules: Rules
) -> None:
    """Take the estimates of rounded numbers out of `parts`: they would say the number as it was."""
    rounded = set() if rules.round is None else {s.name for s in numbers(statistics)}
    for name in ("estimate", "unbiased"):
        for i, statistic in enumerate(statistics):
            if statistic.name in rounded and statistic.step == rules.round:
                parts[name][i] = np.full(np.shape(parts[name][i]), np.nan)


def without_values(
    statistics: Sequence[PlannedStatistic], parts: dict[str, list[Any]], decision: Decision
) -> None:
    """Take the values of suppressed cells out of `parts`, and leave the intervals that these cells have."""
    gone = decision.suppressed
    for i, statistic in enumerate(statistics):
        ends = np.array([statistic.domain.hull])  # need not be multiples of its step
        low = outward(ends[:, 0], statistic.step, np.floor)
        high = outward(ends[:, 1], statistic.step, np.ceil)
        lower, upper, status = (np.array(parts[p][i]) for p in ("lower", "upper", "status"))
        shown = ~np.isnan(lower[gone])
        lower[gone] = np.where(shown, low, np.nan)
        upper[gone] = np.where(shown, high, np.nan)
        if statistic is decision.by:
            most = outward(np.minimum(decision.most, high), statistic.step, np.ceil)
            upper[gone, 0] = np.maximum(np.array(parts["upper"][i])[gone, 0], most[gone])
            least = np.full(gone.shape, low[0])
            if CERTAIN_NAMES[0] in parts:
                least = np.fmax(least, np.array(parts[CERTAIN_NAMES[0]][i], dtype=float)[:, 0])
            near = ~gone & (lower[:, 0] <= decision.clear)
            lower[near, 0] = np.minimum(lower[near, 0], least[near])
            status[near & (lower[:, 0] <= low[0]) & (upper[:, 0] >= high[0])] = "uninformative"
        status[gone] = SUPPRESSED
        parts["lower"][i], parts["upper"][i], parts["status"][i] = lower, upper, status
        for name in ("value", *CERTAIN_NAMES, "estimate", "unbiased", "consistent"):
            if name in parts:
                values = np.array(parts[name][i], dtype=float)
                values[gone] = np.nan
                parts[name][i] = values


def without_impossible(table: pa.Table, keys: int, empty: Sequence[bool]) -> pa.Table:
    """Return a tidy table without numbers and mechanism where a group can hold no row."""
    gone = pa.array(np.repeat(empty, table.num_rows // len(empty)))
    for place, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        said = IMPOSSIBLE if name == "status" else None
        if place >= keys and name not in ("statistic", "block", "epsilon"):
            cells = pc.if_else(gone, pa.scalar(said, column.type), column)
            table = table.set_column(place, name, cells)
    return table


def unsaid(tables: Iterable[pa.Table]) -> str:
    """Return how many values of published tables say nothing, "1 of 6 values say nothing", if any does."""
    weak = [status in WEAK for table in tables for status in table.column("status").to_pylist()]
    return f"{sum(weak):,} of {counted(len(weak), 'value')} say nothing" if any(weak) else ""
