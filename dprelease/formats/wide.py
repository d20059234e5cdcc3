"""The wide table: one row per group, keys first, then one column per published statistic.

Column order is the plan's, group order is the declared one, whatever the tidy table's order; so
the table's shape is public. Statistics whose step and domain are whole numbers are int64.

Limits  Whole numbers are read from float64, exact below 2**53; wider domains stay float64.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dprelease.formats.tidy_rows import group_places, places_of
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
    groups = group_places(table, plan)
    published = [name for s in plan.statistics for name in s.columns]
    which = places_of(table.column(keys), published)
    values = table.column(keys + 1).to_numpy(zero_copy_only=False)
    columns: list[pa.Array] = [
        pa.array([key[i] for key in plan.keys], pa.utf8()) for i in range(keys)
    ]
    whole = [is_whole(s) for s in plan.statistics for _ in s.columns]
    for place, is_count in enumerate(whole):
        mine = (which == place) & (groups >= 0)
        out = np.full(len(plan.keys), np.nan)
        out[groups[mine]] = values[mine]
        array = pa.array(out, pa.float64(), from_pandas=True)
        columns.append(array.cast(pa.int64()) if is_count else array)
    return pa.table(columns, names=[*plan.by, *published])
