"""The wide table: one row per group, keys first, then the published columns, each with its interval.

    <keys>  <name>  <name>_lower  <name>_upper  <name>_status  <next name>  …

Column order is the plan's, group order is the declared one, whatever the tidy table's order; so
the table's shape is public. Statistics whose step and domain are whole numbers are int64, their
interval ends too. An uninformative value never stands alone: where its status is left out, it is
null.

Limits  Whole numbers are read from float64, exact below 2**53; wider domains stay float64.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dprelease.release_plan.statistic import WIDE_PARTS, PlannedStatistic
from dprelease.results.draw import Draw, tidy_columns
from dprelease.results.formats.tidy_rows import group_places, places_of
from dprelease.results.rules import WEAK


def is_whole(statistic: PlannedStatistic) -> bool:
    """Return whether every published value is an integer that a double holds exactly."""
    low, high = statistic.domain.hull
    return statistic.step.denominator == 1 and max(abs(low), abs(high)) < 2.0**53


def wide_rows(noised: Draw) -> npt.NDArray[np.int64]:
    """Return the tidy table's row of every group and published column, -1 where it has none."""
    plan = noised.plan
    published = [name for s in plan.statistics for name in s.columns]
    groups = group_places(noised.table, plan)
    which = places_of(noised.table.column(len(plan.by)), published)
    at = np.full((len(plan.keys), len(published)), -1, dtype=np.int64)
    mine = np.flatnonzero((which >= 0) & (groups >= 0))
    at[groups[mine], which[mine]] = mine
    return at


def wide_table(noised: Draw, *, intervals: bool = True, status: bool = True) -> pa.Table:
    """Return the release as `(groups, keys + published columns)`.

    Args:
        intervals: with `<name>_lower` and `<name>_upper`, null for a choice by rank, and where noise ends
            `<name>_certain_lower` and `<name>_certain_upper`.
        status: with `<name>_status`; without it, uninformative values are null.

    A value missing from the tidy table is null; validation has refused such a table before.
    """
    plan, table = noised.plan, noised.table
    keys, parts = len(plan.by), tidy_columns(plan)
    at = wide_rows(noised)
    columns: list[pa.Array] = [
        pa.array([key[i] for key in plan.keys], pa.utf8()) for i in range(keys)
    ]
    names = [*plan.by]
    published = [(name, s) for s in plan.statistics for name in s.columns]
    for place, (name, statistic) in enumerate(published):
        rows = pa.array(at[:, place], mask=at[:, place] < 0)

        def taken(part: str, rows: pa.Array = rows) -> pa.Array:
            column = table.column(keys + parts.get_field_index(part))
            return pa.chunked_array([column.combine_chunks()]).take(rows).combine_chunks()

        kind = pa.int64() if is_whole(statistic) else pa.float64()
        said = taken("status")
        value = taken("value").cast(kind)
        if not status:
            weak = pc.is_in(said, value_set=pa.array(WEAK))
            value = pc.if_else(weak, pa.scalar(None, kind), value)
        columns.append(value)
        names.append(name)
        if intervals:
            certain = plan.block(statistic.block).certain(statistic.function)
            ends = WIDE_PARTS[certain][:-1]
            columns += [taken(end).cast(kind) for end in ends]
            names += [f"{name}_{end}" for end in ends]
        if status:
            columns.append(said)
            names.append(f"{name}_status")
    return pa.table(columns, names=names)
