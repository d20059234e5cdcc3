"""The tables of one period as one: what a series shows of a release of several.

A row's group is named by its table and its own labels, so that lines of all tables stand in one list.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from dprelease.series.lines import COLUMNS

__all__ = ["BY", "stacked"]

BY = ("table", "group")
"""The key columns of the stacked table."""


def stacked(parts: Iterable[tuple[str, int, pa.Table]]) -> pa.Table:
    """Return tidy tables, given by name and number of key columns, as one of two key columns."""
    made = []
    for name, keys, table in parts:
        at = {column: i for i, column in enumerate(table.column_names) if i >= keys}
        labels = [table.column(i).cast(pa.utf8()) for i in range(keys)]
        rows = table.num_rows
        if len(labels) > 1:
            group = pc.binary_join_element_wise(*labels, " · ")
        else:
            group = labels[0] if labels else pa.array([""] * rows, pa.utf8())
        columns = {
            "table": pa.array([name] * rows, pa.utf8()),
            "group": group,
            "statistic": table.column(at["statistic"]),
            **{column: table.column(at[column]).cast(kind) for column, kind in COLUMNS.items()},
        }
        made.append(pa.table(columns))
    return pa.concat_tables(made)
