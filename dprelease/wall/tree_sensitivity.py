"""The wall's own sensitivity of a tree over bins: from what the engine counts and the tree's widths, nothing else.

Units: rows.
Source: `docs/theory/sensitivities-and-contribution-bounding.md#trees-over-bins`.
"""

from __future__ import annotations

from collections.abc import Sequence

from dprelease.query.bounded import BoundedQuery, Primitive
from dprelease.statistics.bin_sensitivity import apart
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.tree_shape import tree_of


def tree_sensitivity(
    query: BoundedQuery, measurement: Measurement, used: Sequence[Primitive]
) -> tuple[int, int]:
    """Return the L1 sensitivity to an added and to a replaced row: 1 and 2 in every level.

    Raises:
        ValueError: its cells are not a tree over disjoint bins of one code, in words.
    """
    del query  # whatever the codes are, a row has at most one of each
    if len({p.code for p in used}) != 1 or any(p.kind != "between" for p in used):
        raise ValueError("its tree is not made of bins of one code")
    if not apart((p.low, p.high) for p in used):
        raise ValueError("its tree is not made of disjoint bins")
    tree = tree_of(measurement)
    if tree.bins != len(used):
        raise ValueError("its tree has other bins than are counted")
    return len(tree.widths), 2 * len(tree.widths)
