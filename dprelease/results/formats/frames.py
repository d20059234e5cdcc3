"""One table of a release as a data frame: a row per group, or labels of some keys in its columns.

What says nothing in a whole number is a missing one (NA), so that the others stay whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dprelease.core.errors import ArgumentError
from dprelease.results.draw import Draw
from dprelease.results.formats.cross_tabs import labels_above
from dprelease.results.formats.wide import wide_table
from dprelease.schema.naming import texts_given

if TYPE_CHECKING:
    import pandas as pd


def frame_of(
    drawn: Draw,
    pivot: str | Sequence[str] | None,
    *,
    intervals: bool,
    status: bool,
) -> pd.DataFrame:
    """Return the wide table of `drawn`; labels stay in their declared order.

    Args:
        pivot: keys whose labels go into the columns. Without it one of several tables ends with the keys of those
            that it adds up to.
        intervals, status: as `wide_table`.

    Raises:
        ArgumentError: what is pivoted is none of its keys (DPR681).
    """
    wide = wide_table(drawn, intervals=intervals, status=status)
    frame: pd.DataFrame = wide.to_pandas()
    gaps = [c for c in wide.column_names if str(wide[c].type) == "int64" and wide[c].null_count]
    frame = frame.astype(dict.fromkeys(gaps, "Int64"))
    if pivot is None:
        above = {} if drawn.all_tables is None else labels_above(drawn.all_tables, drawn.plan)
        return frame.assign(**above)
    by, columns = drawn.plan.by, list(texts_given(pivot))
    unknown = next((name for name in columns if name not in by), None)
    if unknown is not None:
        raise ArgumentError(
            f"`{unknown}` is no key of the table",
            where="to_pandas(pivot=…)",
            fix=f"name one of: {', '.join(by)}" if by else "leave `pivot` out: it has one group",
            code="DPR681",
        )
    rest = [name for name in by if name not in columns]
    for name in by:
        labels = frame[name].astype("category").cat
        frame[name] = labels.reorder_categories(list(frame[name].unique()), ordered=True)
    indexed: pd.DataFrame = frame.set_index([*rest, *columns]) if by else frame
    made: Any = indexed.unstack(columns) if columns else indexed  # noqa: PD010
    turned: pd.DataFrame = made if rest or not columns else made.to_frame().T
    return turned
