"""Linear programmes behind `best_forms.py`: the least error of any private mechanism.

`best` is over all tables of a few rows. `seen` is the same for mechanisms that see one number of the table.
`of_many_rows` is the limit of many rows: there a statistic moves by fixed steps (its influence per row), what is
added to it may be averaged over tables and be the same for all, and the least noise is a programme over one law f,

    f(z) <= e^epsilon f(z + move) for every move,    least expected |z|.

On the points of a ball it is a bound from below. Source: `docs/theory/kernels-and-boundaries.md#a-bound-for-many-rows`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, vstack

__all__ = ["best", "of_many_rows", "seen"]

Floats = np.ndarray[Any, np.dtype[np.float64]]
Pairs = Sequence[tuple[int, int]]
Point = tuple[int, ...]
_POINTS = 3_000
_PRODUCTS = 200_000
_REACH = 12


def best(near: Pairs, cost: Floats, weights: Floats, epsilon: float, *, worst: bool) -> float:
    """Return the least mean, or largest, expected cost over tables.

    Args:
        near: ordered pairs of neighbouring tables; cost: `(tables, outputs)`; weights: `(tables,)`.
    """
    tables, width = cost.shape
    size = tables * width + worst
    pair = np.array(near)
    high = (pair[:, :1] * width + np.arange(width)).ravel()
    low = (pair[:, 1:] * width + np.arange(width)).ravel()
    row = np.arange(high.size)
    values = np.concatenate([np.ones(high.size), np.full(high.size, -math.exp(epsilon))])
    bounds: Any = coo_array(
        (values, (np.concatenate([row, row]), np.concatenate([high, low]))), shape=(high.size, size)
    )
    sums = coo_array(
        (np.ones(tables * width), (np.repeat(np.arange(tables), width), np.arange(tables * width))),
        shape=(tables, size),
    )
    objective = np.zeros(size)
    if worst:
        objective[-1] = 1.0
        each = np.arange(tables)
        place = (
            np.concatenate([np.repeat(each, width), each]),
            np.concatenate([np.arange(tables * width), np.full(tables, size - 1)]),
        )
        errors = coo_array(
            (np.concatenate([cost.ravel(), -np.ones(tables)]), place), shape=(tables, size)
        )
        bounds = vstack([bounds, errors])
    else:
        objective[: tables * width] = (cost * weights[:, None]).ravel()
    return _solved(objective, bounds, sums, np.ones(tables))


def seen(near: Pairs, what: Sequence[Any], cost: Floats, weights: Floats, epsilon: float) -> float:
    """Return the least mean cost of mechanisms that see nothing of a table but `what`, one entry per table."""
    places = {value: i for i, value in enumerate(sorted(set(what)))}
    at = np.array([places[value] for value in what])
    pairs = sorted({(int(at[i]), int(at[j])) for i, j in near if at[i] != at[j]})
    mean = np.zeros((len(places), cost.shape[1]))
    np.add.at(mean, at, cost * weights[:, None])
    return best(pairs, mean, np.ones(len(places)), epsilon, worst=False)


def of_many_rows(moves: Iterable[Sequence[Fraction]], epsilon: float, *, alike: bool) -> float:
    """Return the least expected L1 error where one unit moves the values by one of `moves`.

    Args:
        moves: with every move its negative, in the statistic's unit.
        alike: the values are counts of cells that may change places.
    """
    steps, unit = _whole(moves)
    if not steps:
        return 0.0
    one = _canon_of(alike)
    far = max(sum(map(abs, m)) for m in steps)
    ball = _reached(
        steps, math.ceil(_REACH * far / min(epsilon, 1.0)), one, _PRODUCTS // len(steps)
    )
    at = {z: i for i, z in enumerate(ball)}
    pairs = {
        (i, at[other])
        for z, i in at.items()
        for move in steps
        if (other := one(tuple(a + b for a, b in zip(z, move, strict=True)))) in at
    }
    high, low = np.array(sorted(p for p in pairs if p[0] != p[1])).T
    row = np.arange(high.size)
    values = np.concatenate([np.ones(high.size), np.full(high.size, -math.exp(epsilon))])
    bounds = coo_array(
        (values, (np.concatenate([row, row]), np.concatenate([high, low]))),
        shape=(high.size, len(ball)),
    )
    many = np.array([_size(z, alike=alike) for z in ball], dtype=np.float64)
    cost = many * [sum(map(abs, z)) for z in ball]
    return float(unit) * _solved(cost, bounds, coo_array(many[None, :]), np.ones(1))


def _whole(moves: Iterable[Sequence[Fraction]]) -> tuple[list[Point], Fraction]:
    """Return the moves in whole units, and the unit."""
    given = [tuple(map(Fraction, m)) for m in moves if any(m)]
    if not given:
        return [], Fraction(1)
    scale = math.lcm(*(v.denominator for m in given for v in m))
    whole = [[int(v * scale) for v in m] for m in given]
    common = math.gcd(*(v for m in whole for v in m))
    return sorted({tuple(v // common for v in m) for m in whole}), Fraction(common, scale)


def _canon_of(alike: bool) -> Callable[[Point], Point]:
    """Return what names a point together with those that symmetry makes equal."""

    def one(z: Point) -> Point:
        mirrored = tuple(-v for v in z)
        return min(tuple(sorted(z)), tuple(sorted(mirrored))) if alike else min(z, mirrored)

    return one


def _size(z: Point, *, alike: bool) -> int:
    """Return how many points have the name `z`."""
    orders = math.factorial(len(z)) if alike else 1
    if alike:
        for _, same in itertools.groupby(sorted(z)):
            orders //= math.factorial(len(list(same)))
    mirrored = tuple(-v for v in z)
    itself = sorted(mirrored) == sorted(z) if alike else mirrored == z
    return orders if itself else 2 * orders


def _reached(
    steps: list[Point], window: int, one: Callable[[Point], Point], most: int
) -> list[Point]:
    """Return the names of all points that moves lead to, in rising order of |z|, up to a whole |z|."""
    most = min(most, _POINTS)
    start = tuple([0] * len(steps[0]))
    found, edge = {start}, [start]
    far = max(sum(map(abs, m)) for m in steps)
    while edge:
        after = {
            one(tuple(a + b for a, b in zip(z, move, strict=True))) for z in edge for move in steps
        }
        edge = [z for z in after - found if sum(map(abs, z)) <= window + far]
        found.update(edge)
        if len(found) > 8 * most:
            break
    inside = sorted(found, key=lambda z: sum(map(abs, z)))
    size = [sum(map(abs, z)) for z in inside]
    last = min(window, size[most] - 1) if len(inside) > most else window
    return [z for z, s in zip(inside, size, strict=True) if s <= last]


def _solved(objective: Any, bounds: Any, sums: Any, totals: Floats) -> float:
    found = linprog(
        objective, A_ub=bounds.tocsr(), b_ub=np.zeros(bounds.shape[0]), A_eq=sums.tocsr(),
        b_eq=totals, method="highs-ipm",
    )  # fmt: skip
    if found.status != 0:
        raise RuntimeError(found.message)
    return float(found.fun)
