"""Whether the parts of a plan fit each other: what could be charged and then not be drawn, or be published by no law.

Source: `docs/theory/the-wall-and-the-ledger.md#the-wall`; of found keys, `docs/theory/found-keys.md`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

from dprelease.query.bounded import BoundedQuery
from dprelease.release_plan.block import Block
from dprelease.release_plan.plan import ReleasePlan
from dprelease.statistics.exact import form_of
from dprelease.statistics.measurement import Measurement
from dprelease.wall.recompute import unproved


def check_classes(plan: ReleasePlan, read: tuple[Block, ...]) -> None:
    """Refuse a plan with an object of another class than its JSON is `read` as: it could change after the check.

    Raises:
        InternalError: there is one (DPR902).
    """
    plain = type(plan.epsilon) is type(plan.delta) is Fraction
    whole = type(plan.query) is BoundedQuery and type(plan.blocks) is tuple
    same = all(
        type(mine) is Block
        and type(mine.measurement) is Measurement
        and type(mine.law) is type(block.law)
        for mine, block in zip(plan.blocks, read, strict=True)
    )
    if not (plain and whole and same):
        raise unproved("a law or another part is not of the class that is registered for it")


def check_parts(plan: ReleasePlan) -> None:
    """Refuse a plan whose parts do not fit each other, before anything is charged for it.

    Raises:
        InternalError: they do not (DPR902).
    """
    for why in _misfits(plan):
        raise unproved(why, "the parts of the plan do not fit each other")


def _misfits(plan: ReleasePlan) -> Iterator[str]:
    blocks = [block.name for block in plan.blocks]
    columns = [(s.table, c) for s in plan.statistics for c in s.columns]
    if max(Counter([*blocks, *columns]).values(), default=1) > 1:
        yield "two blocks, or two published columns, have one name"
    if not {s.block for s in plan.statistics} <= set(blocks):
        yield "a statistic is of a block that the plan does not have"
    steps = [*(s.step for s in plan.statistics), *(b.measurement.step_size for b in plan.blocks)]
    if min(steps, default=1) <= 0:
        yield "a step is no positive number"
    if plan.query.groups.keys != plan.keys:
        yield "its groups are not those that the engine is asked for"
    for block in plan.blocks:
        measurement = block.measurement
        made = measurement.primitives if measurement.alone else measurement.weights
        if form_of(measurement).additive and max(1, len(made)) != len(block.cells):
            yield f"block {block.name} has other cells than its weights make"
    # a key is published because its own noisy number is large enough, whatever else is drawn
    found = plan.query.groups.found
    if found and [len(block.cells) for block in plan.blocks] != [1]:
        yield "found keys have one number each"
    if any(block.law.of_keys != found for block in plan.blocks):
        yield "a law does not say which keys are published, or says it of declared ones"
