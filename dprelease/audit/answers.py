"""Exact cells of made-up rows: the engine's answer, opened.

This is the one place beside the wall that opens a `Secret`. It may, because its rows come from
`audit.neighbours`, which makes them from public numbers; nothing on the release path imports it.

Shapes: per block `(groups, cells)`, Python integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from dprelease.engines.source import as_source
from dprelease.query.answer import Answer, Objects
from dprelease.release_plan.plan import ReleasePlan
from dprelease.statistics.exact import exact_cells

SALT = b"made-up rows need no secret salt"


def answer_of(plan: ReleasePlan, rows: pa.Table, engine: Any) -> Answer:
    """Return what the engine computes for the plan's query over made-up rows."""
    answer: Answer = engine.compute(as_source(rows), plan.query, SALT).reveal_to_mechanism()
    return answer


def aligned(first: Answer, second: Answer) -> tuple[Answer, Answer]:
    """Return two answers over the same groups: of found keys over all that either has, with 0 where one has none."""
    if first.keys is None:
        return first, second
    counts = [dict(zip(a.keys.to_pylist(), a.sums[:, 0], strict=True)) for a in (first, second)]
    every = sorted({*counts[0], *counts[1]})
    one, other = (np.array([[h.get(key, 0)] for key in every], dtype=object) for h in counts)
    return Answer(one.reshape(-1, 1), keys=every), Answer(other.reshape(-1, 1), keys=every)


def cells_of(plan: ReleasePlan, answer: Answer) -> tuple[Objects, ...]:
    """Return the exact cells of every block, as the wall makes them."""
    return tuple(
        exact_cells(b.measurement, b.measurement.primitives, answer, len(answer.sums))
        for b in plan.blocks
    )
