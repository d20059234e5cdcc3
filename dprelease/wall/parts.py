"""What the wall takes for a plan: blocks as their JSON is read, and parts that fit each other.

Parts that do not fit could be charged and not be drawn, or publish what no law is for.

Source: `docs/theory/the-wall-and-the-ledger.md#the-wall`; of found keys, `docs/theory/found-keys.md`.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dprelease.core.codec import decode, encode
from dprelease.query.bounded import BoundedQuery
from dprelease.release_plan.block import Block
from dprelease.release_plan.plan import ReleasePlan
from dprelease.statistics.exact import form_of
from dprelease.statistics.measurement import Measurement
from dprelease.wall.recompute import unproved


def believed(plan: ReleasePlan) -> ReleasePlan:
    """Return the plan with every block read again from its JSON.

    An object proves its loss by a method of its own class, whatever its numbers are, and could be another one at the
    draw; what is read is of the class that its tag is registered for.

    Raises:
        InternalError: a part is of another class (DPR902).
    """
    kind = tuple[Block, ...]
    blocks = decode(kind, encode(plan.blocks, kind))
    own = type(plan.epsilon) is type(plan.delta) is Fraction
    own = own and type(plan.query) is BoundedQuery and type(plan.blocks) is tuple
    for mine, block in zip(plan.blocks, blocks, strict=True):
        own = own and type(mine) is Block and type(mine.measurement) is Measurement
        own = own and type(mine.law) is type(block.law)
    if not own:
        raise unproved("a law or another part is not of the class that is registered for it")
    return replace(plan, blocks=blocks)


def misfit(plan: ReleasePlan) -> str:
    """Return which parts of a plan do not fit each other; empty where all do."""
    found, names = plan.query.groups.found, set[object]()
    if found and len(plan.blocks) != 1:
        return "found keys are published by one block"
    if not found and plan.query.groups.keys != plan.keys:
        return "its groups are not those that the engine is asked for"
    for block in plan.blocks:
        measurement, cells = block.measurement, len(block.cells)
        made = measurement.primitives if measurement.alone else measurement.weights
        if form_of(measurement).additive and max(1, len(made)) != cells:
            return f"block {block.name} has other cells than its weights make"
        if measurement.step_size <= 0:
            return f"the step of block {block.name} is no positive number"
        if block.name in names:
            return f"two blocks are called {block.name}"
        # a key is published because its own noisy number is large enough, whatever else is drawn
        if block.law.of_keys != found or (found and cells != 1):
            return "a law does not say which keys are published, or says it of declared ones"
        names.add(block.name)
    for statistic in plan.statistics:
        if statistic.block not in names:
            return f"{statistic.name} is of a block that the plan does not have"
        if statistic.step <= 0:
            return f"the step of {statistic.name} is no positive number"
        for column in statistic.columns:
            if (statistic.table, column) in names:
                return f"two published columns are called {column}"
            names.add((statistic.table, column))
    return ""
