"""The wide table: one row per group, keys first, then one column per published statistic.

Column order is the plan's, group order is the declared one, whatever the tidy table's order; so
the table's shape is public. Statistics whose step and domain are whole numbers are int64.

Limits  Whole numbers are read from float64, exact below 2**53; wider domains stay float64.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dprelease.noised import Noised
from dprelease.planning.model import PlannedStatistic

__all__ = ["is_whole", "wide_table"]


def is_whole(statistic: PlannedStatistic) -> bool:
    """Return whether every published value is an integer that a double holds exactly."""
    low, high = statistic.domain.hull
    return statistic.step.denominator == 1 and max(abs(low), abs(high)) < 2.0**53


def wide_table(noised: Noised) -> pa.Table:
    """Return the release as `(groups, keys + published columns)`.

    A value missing from the tidy table is null; validation has refused such a table before.
    """
    plan, table = noised.plan, noised.table
    keys = len(plan.by)
    position = {key: i for i, key in enumerate(plan.keys)}
    labels = [table.column(i).to_pylist() for i in range(keys)]
    groups = np.array(
        [position.get(key, -1) for key in zip(*labels, strict=True)]
        if keys
        else np.zeros(table.num_rows),
        dtype=np.int64,
    )
    names = np.array(table.column(keys).to_pylist(), dtype=object)
    values = table.column(keys + 1).to_numpy(zero_copy_only=False)
    columns: list[pa.Array] = [
        pa.array([key[i] for key in plan.keys], pa.utf8()) for i in range(keys)
    ]
    for statistic in plan.statistics:
        for name in statistic.columns:
            mine = (names == name) & (groups >= 0)
            out = np.full(len(plan.keys), np.nan)
            out[groups[mine]] = values[mine]
            array = pa.array(out, pa.float64(), from_pandas=True)
            columns.append(array.cast(pa.int64()) if is_whole(statistic) else array)
    published = [name for s in plan.statistics for name in s.columns]
    return pa.table(columns, names=[*plan.by, *published])
