"""What one unit can do to a table whose every cell is the sum of some of the engine's groups.

All rows that a unit keeps may lie in groups of one cell: E = min(G m, T) of them, for G groups, m rows in
each and T in all. So the table has the bounds of a query that keeps E rows per unit, in any of its cells.
Only sums over rows can be summed again, and rows counted value by value. Persons can if a unit is in one group, or if the engine counts
each in one of a cell's groups only: then a cell's sum is the number of its different persons.

Of a set of tables without a finest one, every source is a product over its axes of one matrix each: sums of its keys, or f
times these less the sum of all cells beside them. So is what a row adds, a column of it, and the product of what two rows add, whose columns are equal in some axes and
differ in the others. Here these are found axis by axis, from the cell of every key; the plan says it in closed form.

Sources: `docs/theory/sensitivities-and-contribution-bounding.md#sums-of-groups`,
`docs/theory/publications-that-add-up.md#any-set-of-tables`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import prod
from operator import le

import numpy as np

from dprelease.query.bounded import BoundedQuery, Cross, Primitive
from dprelease.statistics.exact import Merge
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import Bounds, merged

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
    if not whole or others or not (kinds <= _SUMS or kinds == {"tally"}):
        return None
    if len(set(of)) == len(of):
        return bounds, groups
    if "persons" in kinds and bounds.groups > 1:
        return None
    if any(p.near is not None for p in used):  # near the rank of a group, not of the sum
        return None
    return merged(bounds, cells), cells


def set_sensitivity(
    query: BoundedQuery, measurement: Measurement, used: Sequence[Primitive]
) -> tuple[int, int, int, int]:
    """Return L1 and squared L2 of an added and of a replaced row, as (added, replaced, added^2, replaced^2).

    Raises:
        ValueError: rows are not counted in the crosses of its tables.
    """
    design = measurement.margins
    codes = [query.codes[p.code] for p in used if p.kind == "tally" and p.code is not None]
    if design is None or len(codes) != len(used) or len(design.counted) != len(used):
        raise ValueError("its tables are not counted")
    if any(p.near is not None for p in used) or not query.groups.whole:
        raise ValueError("its tables are not counted whole")
    if any(list(axis[-1]) != list(range(len(axis[-1]))) for axis in design.axes):
        raise ValueError("the keys of an axis of its tables are not its finest cells")
    columns: dict[int, str] = {}
    for level, code in zip(design.counted, codes, strict=True):
        places = [i for i, k in enumerate(level) if k]
        sizes = [len(design.axes[i][-1]) for i in places]
        if not isinstance(code, Cross) or list(code.sizes) != sizes:
            raise ValueError("its tables have other cells than what is counted")
        if any(
            columns.setdefault(a, name) != name
            for a, name in zip(places, code.crossed, strict=True)
        ):
            raise ValueError("one axis of its tables is two columns")
    if len(set(columns.values())) != len(columns):
        raise ValueError("two axes of its tables are one column")
    added = square = replaced = 0
    for source in design.sources:
        counted = any(all(map(le, source.level, level)) for level in design.counted)
        if not counted or source.scale < 1 or min(source.level, default=0) < 0:
            raise ValueError("a table that it measures is no sum of what is counted")
        each = [
            _moves(design.axes[i][:k], residual=source.residual)
            for i, k in enumerate(source.level)
            if k
        ]
        added += source.scale * prod(l1 for l1, _, _ in each)
        own = source.scale**2 * prod(l2 for _, l2, _ in each)
        met = min(prod(two) for two in product(*[(least, l2) for _, l2, least in each]))
        square += own
        replaced += 2 * (own - source.scale**2 * met)
    return added, 2 * added, square, replaced


@lru_cache(maxsize=1024)
def _moves(maps: tuple[tuple[int, ...], ...], *, residual: bool) -> tuple[int, int, int]:
    """Return the most that a key moves in L1 and squared L2, and the least product of what two keys do.

    Args:
        maps: of every key the cell of each level of an axis, down to the one that is measured.
    """
    fine = np.array(maps[-1])
    above = np.array(maps[-2]) if len(maps) > 1 else np.zeros_like(fine)
    _, first = np.unique(fine, return_index=True)
    if (above[first][np.searchsorted(fine[first], fine)] != above).any():
        raise ValueError("a level of an axis of its tables divides a cell of the one below it")
    if not residual:
        return 1, 1, int(first.size == 1)
    beside = np.unique(above[first], return_counts=True)[1].tolist()
    fan = max(beside)
    # of n cells the key's own moves by fan - 1 and each other by -1; two of them meet in n - 2 fan, those of two groups in 0
    own = [(fan - 1) ** 2 + n - 1 for n in beside]
    met = [*own, *(n - 2 * fan for n in beside if n > 1), *(0 for _ in beside[1:])]
    return 2 * (fan - 1), max(own), min(met)
