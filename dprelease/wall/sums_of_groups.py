"""What one unit can do to a table whose every cell is the sum of some of the engine's groups.

All rows that a unit keeps may lie in groups of one cell: E = min(G m, T) of them, for G groups, m rows in
each and T in all. So the table has the bounds of a query that keeps E rows per unit, in any of its cells.
Only sums over rows can be summed again. Persons can if a unit is in one group, or if the engine counts
each in one of a cell's groups only: then a cell's sum is the number of its different persons.

Source: `docs/theory/sensitivities-and-contribution-bounding.md#sums-of-groups`.
"""

from __future__ import annotations

from collections.abc import Sequence

from dprelease.query.bounded import Primitive
from dprelease.statistics.sensitivity import Bounds, merged

Merge = tuple[tuple[int, ...], int]
"""The cell of each of the engine's groups, and how many cells there are."""

PERSONS = ("persons", "persons_in_cells")
"""Primitives to which a unit adds 1 per group, or per cell, however many rows it has there."""

_SUMS = frozenset({"rows", *PERSONS, "power", "between", "product"})


def bounds_of_sums(
    used: Sequence[Primitive], bounds: Bounds, groups: int, merge: Merge
) -> tuple[Bounds, int] | None:
    """Return the bounds of sums of groups, and how many there are; None where there is no proof.

    Where no two groups share a cell, nothing is summed.
    """
    of, cells = merge
    kinds = {p.kind for p in used}
    whole = len(of) == groups and all(type(cell) is int and 0 <= cell < cells for cell in of)
    others = any(p.kind == "persons_in_cells" and p.cells != of for p in used)
    if not whole or others or not kinds <= _SUMS:
        return None
    if len(set(of)) == len(of):
        return bounds, groups
    if "persons" in kinds and bounds.groups > 1:
        return None
    return merged(bounds, cells), cells
