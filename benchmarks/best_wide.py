"""The planner's choice beside the known forms on columns of more values than three, for `best_forms.py`.

The tables of `best_forms.py` hold three values, so that all of them can be listed; there it is often best to count
the rows of each value and to compute everything from the counts. That gets worse with every value more. Here the same
statistic is planned for columns of up to 129 values: three tables each (even, in the middle, to one side) of 1,000
rows over the whole range; of four rows per value within its middle half where a value is chosen by its rank or values
are counted, as many rows or a full range would make those exact whatever the law.
"""

from __future__ import annotations

import math

import numpy as np
from best_known import known_of_many_rows, least
from best_worlds import State, World, errors, planned, rank_errors

__all__ = ["BY_VALUE", "VALUES", "first_kept", "shaped"]

VALUES = (5, 9, 17, 33, 65, 129)
BY_VALUE = ("median", "quantile", "min", "max", "count_distinct")


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


def ratio(world: World, text: str, epsilon: float, values: int, draws: int) -> tuple[str, float]:
    """Return the best known form on columns of so many values, and the planner's error over its error."""
    inner = text.startswith(BY_VALUE)
    rows = 4 * values if inner else 1_000
    plan = planned(world, text, epsilon, rows=rows, values=values)
    tables = shaped(values, rows, inner=inner)
    known = known_of_many_rows(world, text, tables, epsilon)
    if plan.blocks[0].family == "ranks":
        known["permute-and-flip"] = float(
            rank_errors(text, plan, tables)["permute_and_flip"].mean()
        )
    name, error = least(known)
    mine = float(errors(world, text, plan, tables, draws).mean())
    return name, mine / error if error else math.inf


def first_kept(
    world: World, text: str, epsilon: float, draws: int, kept: float
) -> tuple[int, list[tuple[int, str, float]]]:
    """Return from how many values on the choice is within `kept` of every known form, 0 if never; and what was found."""
    found = [(v, *ratio(world, text, epsilon, v, draws)) for v in VALUES]
    beyond = [i for i, (_, _, r) in enumerate(found) if round(r, 2) > kept]
    last = beyond[-1] + 1 if beyond else 0
    return (VALUES[last] if last < len(VALUES) else 0), found
