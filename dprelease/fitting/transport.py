"""Whole tables with given whole margins, nearest to an estimate: transportation problems in own integer arithmetic.

A problem has `rows[i]` and `columns[j]` to keep; among all tables of whole numbers >= 0 with these sums the one
with the least sum of (FINE x - t)^2 is returned, with node numbers that prove it:

    up(x - 1) <= u_i + v_j <= up(x),   up(x) = 2 FINE x + FINE - 2 t,   on the left only where x > 0.

First u and v are moved in turn until the sums are nearly right; what is left is sent along shortest paths one unit at a
time. Of equal paths the one whose nodes come first is taken, so that the same integers are found on every machine.

Units    t in 1 / `FINE` step; node numbers in the same.
Sources  `docs/theory/publications-that-add-up.md#any-set-of-tables`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dprelease.fitting.shares import FINE

Objects = npt.NDArray[Any]

_ROUNDS = 64
_FAR, _NEAR = 2**400, 2**60
"""More than any distance; the second one where all numbers are far below it, and so a machine's."""


class Whole(NamedTuple):
    """The table, `(rows, columns)`, and its node numbers."""

    values: Objects
    rows: Objects
    columns: Objects


def nearest_whole(aims: Objects, rows: Objects, columns: Objects) -> Whole:
    """Return the nearest whole table with these sums of rows and columns.

    Args:
        aims: `(rows, columns)`, Python integers as all else.
    """
    steps = 2 * _ROUNDS + sum(aims.shape)
    costs = FINE * (max(*rows, *columns) + 3) + np.abs(aims).max()
    if 8 * steps * costs < _NEAR:  # the same integers, many times faster
        aims, rows, columns = (each.astype(np.int64) for each in (aims, rows, columns))
    v = np.zeros_like(columns)
    u = _filled(aims, v, rows)
    best = None
    for _ in range(_ROUNDS):
        v = _filled(aims.T, u, columns)
        u = _filled(aims, v, rows)
        off = np.abs(columns - _least(aims, u, v).sum(axis=0)).sum()
        if best is not None and off >= best:
            break
        best = off
        if off <= columns.size:
            break
    return _routed(aims, u, v, rows, columns)


def _least(aims: Objects, u: Objects, v: Objects) -> Objects:
    """Return the least cells that node numbers allow."""
    found = -((FINE - 2 * aims - u[:, None] - v[None, :]) // (2 * FINE))
    return np.asarray(np.maximum(found, 0))


def _filled(aims: Objects, v: Objects, rows: Objects) -> Objects:
    """Return the greatest number of each row at which its least cells do not pass its sum."""
    reach = 2 * FINE * (rows + 1) + FINE
    low = (-2 * aims - v[None, :]).min(axis=1) - FINE
    high = low + reach + 2 * FINE
    while (low < high).any():
        middle = (low + high + 1) // 2
        fits = _least(aims, middle, v).sum(axis=1) <= rows
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    return np.asarray(low)


def _routed(aims: Objects, u: Objects, v: Objects, rows: Objects, columns: Objects) -> Whole:
    """Send what is left along shortest paths from nodes with too much to nodes with too little."""
    values, height = _least(aims, u, v), rows.size
    excess = np.concatenate([rows - values.sum(axis=1), values.sum(axis=0) - columns])
    none = _FAR if values.dtype == object else _NEAR
    while (excess > 0).any():
        up = 2 * FINE * values + FINE - 2 * aims - u[:, None] - v[None, :]
        down = np.where(values > 0, 2 * FINE - up, none)
        far, before, end = _nearest(up, down, excess, none)
        shortest = np.minimum(far, far[end])
        u, v = u - shortest[:height], v + shortest[height:]
        excess[end] += 1
        at = end
        while before[at] >= 0:
            last = int(before[at])
            if at >= height:
                values[last, at - height] += 1
            else:
                values[at, last - height] -= 1
            at = last
        excess[at] -= 1
    return Whole(values, u, v)


def _nearest(
    up: Objects, down: Objects, excess: Objects, none: int
) -> tuple[Objects, list[int], int]:
    """Return distances from the nodes with too much, where each is come from, and the nearest with too little."""
    height, size = up.shape[0], excess.size
    far = np.where(excess > 0, np.zeros_like(excess), none)
    before, open_ = [-1] * size, np.ones(size, dtype=bool)
    while True:
        at = int(np.where(open_, far, 2 * none).argmin())
        if excess[at] < 0:
            return far, before, at
        open_[at] = False
        start, costs = (height, up[at]) if at < height else (0, down[:, at - height])
        reached = far[at] + costs
        part = slice(start, start + costs.size)
        nearer = open_[part] & (reached < far[part])
        far[part] = np.where(nearer, reached, far[part])
        for place in np.flatnonzero(nearer):
            before[start + int(place)] = at
