"""Types of change of a replaced unit: how far each moves the cells of a measurement, from what the engine sums.

Rows of before and of after are paired. A pair is one row that is on one side alone, or two rows, which may lie in
different cells wherever there are several. Cells that are linear in each code by itself have an L1 distance, and a
squared L2 distance, that is convex in each code of either row, so that over all measurements together it is largest
with every code at an end, or null. Each choice of ends is a type; measurements that are not linear, or use codes that are
not followed, may move by their whole in every type.

Units of t rows make at most t pairs, of any types: t times a type, for each. The unit is on one side alone, or on
both; then persons who are counted in one cell are counted there before and after. So classes are

    alone    for each row:            t times what it adds;  persons: the whole of an added unit
    comes    for each row:            t times what it adds;  persons: 0 in one cell, else the whole
    moves    for each pair of rows:   t times their distance;  persons: the same

Squared L2 distances are t m times that of a pair, if m rows of a unit may lie in one cell; of persons as often as in L1.

Units: integer grid steps, and their squares. Source: `docs/theory/composition.md#types-of-change`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations_with_replacement, product

from dprelease.query.bounded import BoundedQuery, Code, Condition, Fixed, Label, Primitive, codes_of
from dprelease.query.never_null import never_null
from dprelease.schema.column import Column
from dprelease.statistics.exact import form_of
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import Bounds

Distances = tuple[int, int]
"""How far all rows of a unit move the cells: in L1, and in L2, squared."""

Classes = tuple[tuple[Distances, ...], ...]

_FOLLOWED = 2
"""Codes whose ends are tried; with more there would be too many pairs of rows."""

_PERSONS = frozenset({"persons", "persons_in_cells"})


def types_of_change(
    query: BoundedQuery,
    measurement: Measurement,
    primitives: Sequence[int],
    row: Sequence[int],
    bounds: Bounds,
    cells: int,
    *,
    signed: bool,
) -> Classes:
    """Return how far each type of change moves the measurement, over all groups; () where all move the whole.

    Args:
        row: the L1 distance of an added and of a replaced row, and the squares of those in L2 where they are less.
        bounds, cells: of what is drawn; signed: a row may make a cell negative.
    """
    used = [query.primitives[i] for i in primitives]
    caps = {p.max_rows for p in used} - {None, query.max_rows}  # others keep other rows of a unit
    if measurement.public_rows is not None or (query.user is not None and caps):
        return ()
    numbers = [i for i, code in enumerate(query.codes) if not isinstance(code, Label)]
    followed = numbers[:_FOLLOWED]
    rows = corners(query, followed)
    pairs = list(combinations_with_replacement(range(len(rows)), 2))
    most = bounds.groups * bounds.rows
    most = most if bounds.total is None else min(most, bounds.total)
    if used and all(p.kind in _PERSONS for p in used):
        units = min(bounds.groups, most)
        inside = cells == 1 and query.per is None  # a person may have other intervals
        stays = _times((row[0], row[0] ** 2), 0 if inside else min(cells, 2 * units))
        once = _times((row[0], row[0] ** 2), units)
        return (once,) * len(rows), (stays,) * len(rows), (stays,) * len(pairs)
    if form_of(measurement).additive and all(_is_linear(p, followed) for p in used):
        adds = [added_cells(measurement.weights, used, row) for row in rows]
        alone = [_norms(one) for one in adds]
        moves = [_distance(adds[a], adds[b], apart=cells > 1) for a, b in pairs]
    else:
        added, replaced = _of_any_row(measurement, row, signed=signed, apart=cells > 1)
        alone, moves = [added] * len(rows), [replaced] * len(pairs)
    together = min(bounds.rows, most)
    ones, twos = (tuple(_times(m, most, together) for m in each) for each in (alone, moves))
    return ones, ones, twos


def keeps_every_row(columns: Collection[Column], code: Code) -> bool:
    """Return whether no row has a null code, whatever its cells hold."""
    if isinstance(code, Condition):
        return never_null(code.expression, columns)
    return isinstance(code, Fixed) and code.default is not None


def corners(query: BoundedQuery, codes: Sequence[int]) -> list[dict[int, int | None]]:
    """Return the rows of which each of `codes` has its least or its greatest value, or is null."""
    found = [query.codes[i] for i in codes]
    ends = [(*codes_of(c), *(() if keeps_every_row(query.columns, c) else (None,))) for c in found]
    return [dict(zip(codes, row, strict=True)) for row in product(*ends)]


def added_cells(
    weights: Sequence[Sequence[int]], used: Sequence[Primitive], row: Mapping[int, int | None]
) -> list[int]:
    """Return what a row adds to each cell."""
    adds = []
    for p in used:
        one = 1 if p.code is None else row[p.code]
        other = 1 if p.other is None else row[p.other]
        adds.append(0 if one is None or other is None else one**p.power * other**p.other_power)
    return [sum(w * v for w, v in zip(each, adds, strict=True)) for each in weights]


def _is_linear(p: Primitive, followed: Sequence[int]) -> bool:
    """Return whether a primitive is linear in each of its codes, all of them followed."""
    if p.kind == "rows":
        return True
    known = p.code in followed and p.power <= 1 and p.kind in ("power", "product")
    other = p.other in followed and p.other != p.code and p.other_power <= 1
    return known and (p.kind == "power" or other)


def _of_any_row(
    measurement: Measurement, row: Sequence[int], *, signed: bool, apart: bool
) -> tuple[Distances, Distances]:
    """Return how far any row moves the cells that is added, and that is replaced."""
    added, replaced = row[:2]
    square, inside = row[2:] or (added**2, replaced**2)
    if form_of(measurement).ones:
        square, inside = added, replaced
    if not signed:
        inside = min(inside, 2 * square)
    if apart:
        replaced, inside = max(replaced, 2 * added), max(inside, 2 * square)
    return (added, square), (replaced, inside)


def _distance(one: Sequence[int], other: Sequence[int], *, apart: bool) -> Distances:
    """Return how far two rows lie apart, in one cell or, if they may be, in two."""
    near = _norms([a - b for a, b in zip(one, other, strict=True)])
    if not apart:
        return near
    far = tuple(map(sum, zip(_norms(one), _norms(other), strict=True)))
    return max(near[0], far[0]), max(near[1], far[1])


def _norms(change: Sequence[int]) -> Distances:
    return sum(map(abs, change)), sum(v * v for v in change)


def _times(one: Distances, rows: int, together: int = 1) -> Distances:
    """Return how far so many rows move the cells, of which `together` may lie in one."""
    return one[0] * rows, one[1] * rows * together
