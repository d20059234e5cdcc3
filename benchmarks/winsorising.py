"""How wrong are winsorised statistics where a range is a hundred times too wide, beside the plain ones?

10,000 lognormal amounts around 3,000, in a declared range of 0 to 1,000,000; one row is replaced, epsilon 1. Both are
drawn from the laws of their plans, limits anew each time. The error is that to the plain statistic of the rows: what
the limits move is in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from dprelease.audit.answers import answer_of, cells_of
from dprelease.core.entropy import ReplayBits
from dprelease.engines.reference import ReferenceEngine
from dprelease.planning.make import make_plan
from dprelease.query.load import Schema
from dprelease.query.merge import merge_release
from dprelease.query.spec import resolve
from dprelease.release_plan.plan import ReleasePlan
from dprelease.statistics.base import kind_named
from dprelease.statistics.joint_ranks import positions

__all__ = ["ROWS", "TOP", "amounts", "compared", "drawn"]

Floats = np.ndarray[Any, np.dtype[np.float64]]

ROWS, TOP = 10_000, 1_000_000
STATISTICS = {"sum(x)": np.sum, "variance(x)": np.var, "std(x)": np.std}


def amounts(pick: np.random.Generator) -> Floats:
    return np.asarray(np.clip(np.round(np.exp(pick.normal(8, 0.5, ROWS))), 0, TOP))


def planned(asked: Any) -> ReleasePlan:
    number = {"kind": "integer", "range": [0, TOP], "expected": {"sd": 2_000}}
    declared = {
        "dprelease": "schema/1",
        "name": "winsorising",
        "unit": "row",
        "adjacency": "substitution",
        "rows": {"max": ROWS, "expected": ROWS},
        "columns": {"x": number},
        "release": {"epsilon": 1, "statistics": [asked]},
    }
    schema = Schema.from_dict(declared)
    return make_plan(resolve(schema, merge_release(schema)))


def drawn(text: str, x: Floats, draws: int, *, plain: bool = False) -> Floats:
    """Return drawn values of a statistic of these amounts, `(draws,)`: winsorised by 1 % at either end, or `plain`."""
    plan = planned(text if plain else {"statistic": text, "winsorize": 0.01})
    (block,) = plan.blocks
    draw, measured = block.law, block.measurement
    if plain:
        (exact,) = cells_of(plan, answer_of(plan, pa.table({"x": x}), ReferenceEngine()))
    else:
        codes, held = np.unique(x.astype(np.int64), return_counts=True)
        upto = np.cumsum(held)
        tally = np.stack([0 * codes, codes, upto - held, upto, 0 * codes + x.size], axis=1)
        exact = positions(tally, 1, measured.weights)
    raw = draw.draw(np.repeat(exact, draws, axis=0), ReplayBits("winsorised"))
    values = kind_named(plan.statistics[0].function).finish(measured, draw.cells(raw))
    return np.asarray(values[:, 0])


def compared(x: Floats, draws: int) -> Iterator[tuple[str, str, str, bool]]:
    """Yield what is compared, the goal, what is measured, and whether it is kept."""
    for text, statistic in STATISTICS.items():
        ours, theirs = (
            np.abs(drawn(text, x, draws, plain=p) - statistic(x)) for p in (False, True)
        )
        ratio = float(ours.mean() / theirs.mean())
        off = ratio * math.hypot(*(e.std() / e.mean() / math.sqrt(draws) for e in (ours, theirs)))
        yield (
            f"{text} of the same amounts, {draws:,} draws: error (bias included) over the plain statistic's",
            "below 1, under its own name",
            f"{ratio:.3f} (sampling error {off:.3f})",
            ratio + 3 * off < 1,
        )
