"""Which group and which published column each row of a tidy table belongs to.

Vectorised, and total: a row of an undeclared group or column has place -1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dprelease.release_plan.plan import ReleasePlan

Places = npt.NDArray[np.int64]


def places_of(values: pa.Array | pa.ChunkedArray, labels: Sequence[str] | pa.Array) -> Places:
    """Return the position of each value in `labels`, -1 where it is not there; `(rows,)`."""
    known = labels if isinstance(labels, pa.Array) else pa.array(labels, pa.utf8())
    found = pc.fill_null(pc.index_in(values, value_set=known), -1)
    return np.asarray(found, dtype=np.int64)


def group_places(table: pa.Table, plan: ReleasePlan) -> Places:
    """Return each row's group, its position in `plan.keys`, or -1; `(rows,)`."""
    rows, groups = table.num_rows, len(plan.keys)
    if not plan.by or not groups:
        return np.full(rows, 0 if groups else -1, dtype=np.int64)
    columns = [pa.array([key[i] for key in plan.keys], pa.utf8()) for i in range(len(plan.by))]
    # As `assemble` makes it: one look instead of a sort.
    if rows and rows % groups == 0:
        usual = np.repeat(np.arange(groups, dtype=np.int64), rows // groups)
        at = pa.array(usual)
        if all(
            table.column(i).equals(pa.chunked_array([c.take(at)])) for i, c in enumerate(columns)
        ):
            return usual
    known = {key: group for group, key in enumerate(plan.keys)}
    labels = zip(*(table.column(i).to_pylist() for i in range(len(plan.by))), strict=True)
    return np.array([known.get(key, -1) for key in labels], dtype=np.int64)
