"""Many draws of one plan: the rows are counted once, and the noise of every draw is a release's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dprelease as dp
from dprelease.engines.engine import DEFAULT
from dprelease.engines.source import TableLike, as_source
from dprelease.pipeline.flow import Flow
from dprelease.pipeline.preflight import engine_named
from dprelease.pipeline.stages import unledgered
from dprelease.results.draw import decode
from dprelease.results.fitted import noised_of
from dprelease.wall import execute

__all__ = ["counted", "redrawn"]


def counted(data: TableLike, schema: dp.Schema | dict[str, Any]) -> Callable[[], dp.Release]:
    """Plan and count the rows; return what draws, each time anew."""
    flow = Flow(dp.plan(schema), None, engine_named(DEFAULT))
    exact = flow.engine.compute(as_source(data), flow.plan.query, bytes(32))

    def draw() -> dp.Release:
        cells = decode(flow.plan, execute.drawn(flow.plan, exact))
        return dp.Release(noised_of(flow.plan, cells, unledgered(flow.plan)), flow)

    return draw


def redrawn(
    data: TableLike, schema: dp.Schema | dict[str, Any], draws: int
) -> Iterator[dp.Release]:
    """Yield as many releases of the same rows by the same plan."""
    draw = counted(data, schema)
    for _ in range(draws):
        yield draw()
