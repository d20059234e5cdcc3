"""A plan whose parts do not fit each other is refused before it is charged: each thing alone, of an honest plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from dprelease import facade
from dprelease.core.codec import encode
from dprelease.core.errors import InternalError
from dprelease.query.bounded import BoundedQuery
from dprelease.release_plan.block import Block
from dprelease.release_plan.plan import ReleasePlan
from dprelease.statistics.measurement import Measurement
from dprelease.wall import execute
from tests.planning.requests import planned, public

X = {"kind": "integer", "range": [0, 100]}
BINS = {"statistic": "histogram(x, [0, 1, 2, 3, 4])", "accurate_for": "ranges"}
EDGES = ", ".join(map(str, range(101)))
MANY = {"statistic": f"histogram(x, [{EDGES}])", "as": "many"}


@cache
def honest(name: str) -> ReleasePlan:
    match name:
        case "keys":
            schema = {
                "dprelease": "schema/1",
                "name": "pages",
                "unit": {"user": "who", "max_groups": 1, "max_rows_per_group": 1},
                "adjacency": "add_remove",
                "rows": {"max": 1000},
                "columns": {"who": {"kind": "identifier"}, "page": {"kind": "category"}},
            }
            asked = {"keys": {"column": "page", "epsilon": 1, "delta": 1e-6, "max_keys": 1}}
            table, block = facade.as_schema(schema), facade.overrides(asked)
            return facade.plan_release(table, block, origin="keys")
        case "persons":
            unit = {"user": "who", "max_groups": 1, "max_rows_per_group": 1}
            return planned(["count(persons)"], unit=unit, groups=("a",))
        case "public":
            return public(["count", "mean(x)"])
        case _:
            return planned(["count", "mean(x)", BINS, MANY], by=["g"], x=X)


def blocks(made: ReleasePlan, place: int, **wrong: Any) -> ReleasePlan:
    own = list(made.blocks)
    own[place] = replace(own[place], **wrong)
    return replace(made, blocks=tuple(own))


def measured(made: ReleasePlan, place: int, **wrong: Any) -> ReleasePlan:
    return blocks(made, place, measurement=replace(made.blocks[place].measurement, **wrong))


def place_of(made: ReleasePlan, cells: Callable[[Measurement], bool]) -> int:
    return next(i for i, block in enumerate(made.blocks) if cells(block.measurement))


def several(measurement: Measurement) -> bool:
    return len(measurement.weights) > 1 and measurement.form == "linear"


def named_twice(made: ReleasePlan) -> ReleasePlan:
    return blocks(made, 0, name=made.blocks[1].name)


def of_no_block(made: ReleasePlan) -> ReleasePlan:
    first, *others = made.statistics
    return replace(made, statistics=(replace(first, block="nowhere"), *others))


def published_twice(made: ReleasePlan) -> ReleasePlan:
    return replace(made, statistics=(*made.statistics, made.statistics[0]))


def stepless(made: ReleasePlan) -> ReleasePlan:
    first, *others = made.statistics
    return replace(made, statistics=(replace(first, step=Fraction(0)), *others))


def backwards(made: ReleasePlan) -> ReleasePlan:
    return replace(made, keys=made.keys[::-1])


def without_a_weight(made: ReleasePlan) -> ReleasePlan:
    place = place_of(made, several)
    return measured(made, place, weights=made.blocks[place].measurement.weights[1:])


def without_weights(made: ReleasePlan) -> ReleasePlan:
    return measured(made, place_of(made, several), weights=())


def without_a_sum(made: ReleasePlan) -> ReleasePlan:
    place = place_of(made, lambda m: m.alone)
    return measured(made, place, primitives=made.blocks[place].measurement.primitives[1:])


def ordinary_noise(made: ReleasePlan) -> ReleasePlan:
    """Found keys with the noise of declared ones, which publishes the key of a single person."""
    law = honest("persons").blocks[0].law
    return replace(blocks(made, 0, law=law, delta=Fraction(0)), composition=None)


def a_number_first(made: ReleasePlan) -> ReleasePlan:
    """A public number in front, by which every key would be published."""
    free = next(block for block in honest("public").blocks if block.public)
    return replace(made, blocks=(free, *made.blocks))


def two_numbers(made: ReleasePlan) -> ReleasePlan:
    own = made.blocks[0].measurement
    return measured(made, 0, cells=("persons", "more"), weights=(own.weights or ((1,),)) * 2)


def keys_of_declared_groups(made: ReleasePlan) -> ReleasePlan:
    return blocks(made, 0, law=honest("keys").blocks[0].law)


def test_honest_plans_pass() -> None:
    for name in ("keys", "persons", "public", "several"):
        assert execute.check(honest(name)) <= honest(name).epsilon


@pytest.mark.parametrize(
    ("name", "wrong", "why"),
    [
        ("several", named_twice, "two blocks are called"),
        ("several", published_twice, "two published columns are called"),
        ("several", of_no_block, "a block that the plan does not have"),
        ("several", stepless, "no positive number"),
        ("several", lambda p: measured(p, 0, step_size=Fraction(0)), "no positive number"),
        ("several", backwards, "not those that the engine is asked for"),
        ("several", without_a_weight, "other cells than its weights make"),
        ("several", without_weights, "other cells than its weights make"),
        ("several", without_a_sum, "other cells than its weights make"),
        ("keys", ordinary_noise, "which keys are published"),
        ("keys", a_number_first, "published by one block"),
        ("keys", two_numbers, "which keys are published"),
        ("keys", lambda p: replace(p, blocks=(), statistics=()), "published by one block"),
        ("persons", keys_of_declared_groups, "which keys are published"),
    ],
)
def test_what_does_not_fit_is_refused(
    name: str, wrong: Callable[[ReleasePlan], ReleasePlan], why: str
) -> None:
    with pytest.raises(InternalError, match=why) as caught:
        execute.check(wrong(honest(name)))
    assert caught.value.code == "DPR902"


# --- classes of their own -------------------------------------------------------------------------


class OtherBlock(Block):
    """Could show another law at the draw than at the check."""


class OtherMeasurement(Measurement):
    """Could have other weights."""


class OtherQuery(BoundedQuery):
    """Could say another cap to the engine."""


class Blocks(tuple[Block, ...]):
    """Could hold others the second time."""

    __slots__ = ()


def like(kind: type, honest: Any) -> Any:
    made = object.__new__(kind)
    for field in fields(honest):
        object.__setattr__(made, field.name, getattr(honest, field.name))
    return made


@pytest.mark.parametrize(
    "wrong",
    [
        lambda p: replace(p, blocks=(like(OtherBlock, p.blocks[0]), *p.blocks[1:])),
        lambda p: blocks(p, 0, measurement=like(OtherMeasurement, p.blocks[0].measurement)),
        lambda p: replace(p, query=like(OtherQuery, p.query)),
        lambda p: replace(p, blocks=Blocks(p.blocks)),
    ],
    ids=["block", "measurement", "query", "blocks"],
)
def test_a_part_of_a_class_of_its_own_is_refused(wrong: Callable[[ReleasePlan], Any]) -> None:
    made = wrong(honest("several"))
    kind = tuple[Block, ...]
    assert encode(made.blocks, kind) == encode(honest("several").blocks, kind)
    with pytest.raises(InternalError, match="not of the class") as caught:
        execute.check(made)
    assert caught.value.code == "DPR902"
