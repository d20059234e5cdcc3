"""A forged plan is refused with a code or accepted, whichever of its places is changed: nothing else is raised.

Every number is made one that counts nothing, every name another one, every list a shorter one, every value none at all.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

import dprelease as dp
from dprelease.core.errors import DpreleaseError
from dprelease.release_plan.plan import ReleasePlan
from dprelease.wall import execute
from tests.sizes import whole
from tests.wall.test_recompute import plan_of as graph_of

Json = Any
_SCHEMA: dict[str, Json] = {
    "dprelease": "schema/1",
    "name": "forged",
    "unit": "row",
    "adjacency": "substitution",
    "rows": {"max": 100, "expected": 20},
    "columns": {
        "a": {"kind": "category", "values": ["p", "q"]},
        "b": {"kind": "category", "values": ["r", "s"]},
        "c": {"kind": "category", "values": ["t", "u"]},
        "x": {"kind": "integer", "range": [0, 4]},
        "y": {"kind": "integer", "range": [0, 4]},
    },
}
_DETAIL = {"statistic": "count", "max_relative_error": 0.2}
RELEASES: dict[str, Json] = {
    "one table": {"by": ["a"], "statistics": ["count", "sum(x)", "covariance(x, y)", "median(y)"]},
    "tables that add up": {
        "tables": [
            {"name": "all", "by": [], "statistics": ["count", "median(x)"]},
            {"name": "one", "by": ["a"], "statistics": ["count"]},
            {"name": "both", "by": ["a", "b"], "statistics": ["count"], "detail": _DETAIL},
        ]
    },
    "every two of three": {"tables": [{"all_pairs": ["a", "b", "c"], "statistics": ["count"]}]},
}
HELD = ("blocks", "query", "tables", "keys", "unit", "composition")
"""Parts of a plan that its price follows from."""


def places(value: Json, at: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Json]]:
    """Yield every place with its value: of a list the first and the last item."""
    if at:
        yield at, value
    if isinstance(value, dict):
        for key, each in value.items():
            yield from places(each, (*at, key))
    elif isinstance(value, list):
        for i in sorted({0, len(value) - 1} & {*range(len(value))}):
            yield from places(value[i], (*at, i))


def others(value: Json) -> list[Json]:
    """Return what a forger writes in place of a value."""
    if isinstance(value, dict):
        return [{}, None]
    if isinstance(value, list):
        return [[], value[1:], [*value, *value[-1:]], None]
    if isinstance(value, str):
        number = value.lstrip("-").replace("/", "", 1).isdigit()
        return ["-1", "0", "999"] if number else ["elsewhere", None]
    return [None, 0, -1, 999, 2**63]


@cache
def plan_of(name: str) -> Json:
    plan = dp.plan({**_SCHEMA, "release": {"epsilon": 1, **RELEASES[name]}})
    return json.loads(json.dumps(plan.to_json()))


@pytest.mark.parametrize("name", RELEASES)
def test_every_forged_place_is_refused_with_a_code_or_costs_what_it_says(name: str) -> None:
    plan = plan_of(name)
    execute.check(ReleasePlan.from_json(plan))
    held = {key: value for key, value in plan.items() if key in HELD}
    changes = [(at, other) for at, value in places(held) for other in others(value)]
    refused = []
    for (*path, last), other in random.Random(name).sample(changes, whole(60, len(changes))):
        forged = copy.deepcopy(plan)
        holder = forged
        for key in path:
            holder = holder[key]
        holder[last] = other
        try:
            made = ReleasePlan.from_json(forged)
            assert execute.check(made) <= made.epsilon
        except DpreleaseError as error:
            refused.append(error)
    assert all(error.code and error.fix for error in refused)
    assert {"DPR180", "DPR902"} <= {error.code for error in refused}


@pytest.mark.parametrize("other", [{"primitives": [999]}, {"table": "elsewhere"}])
def test_a_block_of_another_plan_s_places_is_told_what_does_not_fit(other: Json) -> None:
    forged = copy.deepcopy(plan_of("tables that add up"))
    part = forged["blocks"][0] if "table" in other else forged["blocks"][0]["measurement"]
    part.update(other)
    with pytest.raises(DpreleaseError, match="do not fit each other") as caught:
        execute.check(ReleasePlan.from_json(forged))
    assert caught.value.code == "DPR902"


@pytest.mark.parametrize(
    ("claim", "code"),
    [
        ({"spread": 10**6}, "DPR683"),
        ({"spread": 2**63}, "DPR683"),
        ({"epsilon": str(10**40)}, "DPR901"),
    ],
)
def test_a_choice_by_rank_that_claims_a_loss_beyond_all_is_refused_at_once(
    claim: Json, code: str
) -> None:
    """The wall did not come to an end over the 2^63th power of a ratio, nor over e^(10^40)."""
    forged = copy.deepcopy(plan_of("one table"))
    next(b for b in forged["blocks"] if b["family"] == "ranks")["law"]["law"].update(claim)
    with pytest.raises(DpreleaseError) as caught:
        execute.check(ReleasePlan.from_json(forged))
    assert caught.value.code == code


def test_a_distance_of_ends_beyond_all_rows_is_refused() -> None:
    asked = {"epsilon": 1, "statistics": [{"statistic": "median(x)", "interval": True}]}
    forged = json.loads(json.dumps(dp.plan({**_SCHEMA, "release": asked}).to_json()))
    execute.check(ReleasePlan.from_json(forged))
    forged["blocks"][0]["law"]["inside"] = 2**63
    with pytest.raises(DpreleaseError) as caught:
        execute.check(ReleasePlan.from_json(forged))
    assert caught.value.code == "DPR901"


def test_a_graph_of_more_nodes_than_any_has_is_refused_before_they_are_listed() -> None:
    """Reading a forged plan of 2^63 labels took all the memory that there was."""
    forged = graph_of(["degree(3)"]).to_json()
    forged["query"]["codes"] = [{"column": "a", "numbers": 10**6 + 1}]
    with pytest.raises(DpreleaseError) as caught:
        ReleasePlan.from_json(json.loads(json.dumps(forged)))
    assert caught.value.code == "DPR180"


def test_a_code_of_no_shape_is_refused_where_it_is_read() -> None:
    forged = copy.deepcopy(plan_of("one table"))
    forged["query"]["codes"][0] = {}
    with pytest.raises(DpreleaseError) as caught:
        ReleasePlan.from_json(forged)
    assert caught.value.code == "DPR180"
