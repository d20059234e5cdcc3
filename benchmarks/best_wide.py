"""The planner's choice beside the known forms on columns of more values than three, for `best_forms.py`.

The tables of `best_forms.py` hold three values, so that all of them can be listed; there it is often best to count
the rows of each value and to compute everything from the counts. That gets worse with every value more. Here the same
statistic is planned for columns of up to 129 values: three tables each (even, in the middle, to one side) of 1,000
rows over the whole range; of four rows per value within its middle half where a value is chosen by its rank or values
are counted, as many rows or a full range would make those exact whatever the law.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from best_known import known_of_many_rows, least
from best_worlds import State, World, errors, planned, rank_errors

__all__ = ["BY_VALUE", "VALUES", "Wide", "anywhere", "first_kept", "shaped", "wide"]

VALUES = (5, 9, 17, 33, 65, 129)
BY_VALUE = ("median", "quantile", "min", "max", "count_distinct")
_PLACES = 9


@dataclass(frozen=True)
class Wide:
    """What was found on columns of so many values: the best known form, and the planner's error over its."""

    values: int
    form: str
    ratio: float


def shaped(values: int, rows: int, *, inner: bool) -> list[State]:
    """Return three tables of `rows` rows over `values` values; `inner`, over the middle half of them."""
    at = (np.arange(values) + 0.5) / values
    held = np.abs(at - 0.5) < 0.25 if inner else np.ones(values, dtype=bool)
    out = []
    for middle, spread in ((0.5, 10.0), (0.5, 0.15), (0.35, 0.1)):
        weight = np.exp(-0.5 * ((at - middle) / spread) ** 2) * held
        upto = np.round(np.cumsum(weight) / weight.sum() * rows).astype(int)
        out.append(tuple(int(k) for k in np.diff(upto, prepend=0)))
    return out


def anywhere(values: int, rows: int) -> list[State]:
    """Return tables of `rows` rows that lie about every tenth of the range: the plan's price supposes no place."""
    at = (np.arange(values) + 0.5) / values
    out = []
    for k in range(1, _PLACES + 1):
        weight = np.exp(-0.5 * ((at - k / (_PLACES + 1)) / 0.1) ** 2)
        upto = np.round(np.cumsum(weight) / weight.sum() * rows).astype(int)
        out.append(tuple(int(k) for k in np.diff(upto, prepend=0)))
    return out


def wide(
    world: World, text: str, epsilon: float, draws: int, *, placed: bool = False
) -> list[Wide]:
    """Return the planner's error over that of the best known form, on columns of every number of values.

    With `placed` the tables are those of `anywhere`.
    """
    inner = text.startswith(BY_VALUE)
    out = []
    for values in VALUES:
        rows = 4 * values if inner else 1_000
        plan = planned(world, text, epsilon, rows=rows, values=values)
        tables = anywhere(values, rows) if placed else shaped(values, rows, inner=inner)
        known = known_of_many_rows(world, text, tables, epsilon)
        if plan.blocks[0].family == "ranks":
            flipped = rank_errors(text, plan, tables)["permute_and_flip"]
            known["permute-and-flip"] = float(flipped.mean())
        name, error = least(known)
        mine = float(errors(world, text, plan, tables, draws).mean())
        out.append(Wide(values, name, mine / error if error else math.inf))
    return out


def first_kept(ratios: Sequence[float], kept: float) -> int:
    """Return from which place of `VALUES` on every ratio is within `kept`; their number if never."""
    beyond = [i for i, r in enumerate(ratios) if round(r, 2) > kept]
    return beyond[-1] + 1 if beyond else 0
