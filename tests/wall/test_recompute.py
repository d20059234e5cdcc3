"""Edges at the wall: every way to claim less than a graph moves is refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from dprelease.core.errors import ConfigError, InternalError
from dprelease.planning.make import make_plan
from dprelease.query.load import Schema
from dprelease.query.spec import resolve
from dprelease.release_plan.plan import ReleasePlan
from dprelease.schema.table import TableSchema
from dprelease.wall import execute

Json = dict[str, Any]
PIN = "bounded_gaussian"


def graph_schema(
    statistics: list[object],
    *,
    nodes: object = 8,
    k: int = 2,
    adjacency: str = "add_remove",
    **release: object,
) -> TableSchema:
    return Schema.from_dict(
        {
            "dprelease": "schema/1",
            "name": "graph",
            "unit": {"edge": {"source": "a", "target": "b", "k": k, "nodes": nodes}},
            "adjacency": adjacency,
            "columns": {
                "a": {"kind": "node"},
                "b": {"kind": "node"},
                "w": {"kind": "number", "range": [0, 1], "step": 0.1},
            },
            "release": {"epsilon": 2, "statistics": statistics, **release},
        }
    )


def plan_of(statistics: list[object], **options: Any) -> ReleasePlan:
    schema = graph_schema(statistics, **options)
    assert schema.release is not None
    return make_plan(resolve(schema, schema.release))


ALONE: list[object] = ["algebraic_connectivity", "degree(3)", "laplacian_eigenvalues"]
TOGETHER: list[object] = [
    {"statistic": "algebraic_connectivity", "mechanism": PIN},
    {"statistic": "degree(3)", "mechanism": PIN},
    {"statistic": "degree(4)", "mechanism": PIN},
]


@pytest.fixture(scope="module", params=["add_remove", "substitution"])
def plans(request: pytest.FixtureRequest) -> dict[str, Json]:
    made = {"alone": ALONE, "together": TOGETHER}
    return {
        name: json.loads(json.dumps(plan_of(s, adjacency=request.param).to_json()))
        for name, s in made.items()
    }


def test_honest_plans_pass_and_blocks_are_as_asked(plans: dict[str, Json]) -> None:
    for plan in plans.values():
        assert execute.check(ReleasePlan.from_json(plan)) == 2
    assert [b["family"] for b in plans["alone"]["blocks"]] == ["scalar", "scalar", "laplacian"]
    assert [b["family"] for b in plans["together"]["blocks"]] == ["graph_box"]
    assert [s["view"] for s in plans["together"]["statistics"]] == [0, 1, 2]


def in_unit(**wrong: object) -> Callable[[Json], object]:
    return lambda plan: plan["unit"]["edge"].update(wrong)


def in_measurement(place: int, **wrong: object) -> Callable[[Json], object]:
    return lambda plan: plan["blocks"][place]["measurement"].update(wrong)


def in_query(**wrong: object) -> Callable[[Json], object]:
    return lambda plan: plan["query"].update(wrong)


def first_primitive(**wrong: object) -> Callable[[Json], object]:
    return lambda plan: plan["query"]["primitives"][0].update(wrong)


TAMPERED: list[tuple[str, str, Callable[[Json], object]]] = [
    ("alone", "a unit of more edges than was priced", in_unit(k=3)),
    ("together", "a unit of more edges than was priced", in_unit(k=3)),
    ("alone", "a row of the table as the unit", lambda plan: plan.update(unit="row")),
    ("alone", "more nodes than the matrix has", in_unit(nodes=9)),
    ("alone", "ends that are not the unit's", in_unit(source="w")),
    ("alone", "a finer grid than was priced", in_measurement(0, weights=[["8", "1000000"]])),
    ("alone", "a degree as an eigenvalue", in_measurement(1, form="connectivity", weights=[["8", "1000"]])),
    ("alone", "a whole spectrum as one number", in_measurement(0, form="laplacian")),
    ("alone", "a degree of no node", in_measurement(1, weights=[["8", "8"]])),
    ("alone", "a sum over edges", in_measurement(1, form="linear", weights=[["1"]])),
    ("alone", "an eigenvalue with an unproved error", in_measurement(0, form="sparse_connectivity")),
    ("alone", "rows beside the edges", lambda plan: plan["query"]["primitives"].append(
        {**plan["query"]["primitives"][0], "kind": "rows"})),
    ("alone", "rows for edges", first_primitive(kind="rows")),
    ("alone", "both ends in one column", first_primitive(other=0)),
    ("alone", "a person's edges", in_query(user="a")),
    ("alone", "fewer known nodes", lambda plan: plan["query"]["codes"][0].update(numbers=7)),
    ("together", "one more degree than the law has", in_measurement(
        0, weights=[["8", "1000"], ["8", "3"], ["8", "4"], ["8", "5"]])),
    ("together", "a finer grid than was priced", in_measurement(
        0, weights=[["8", "9999"], ["8", "3"], ["8", "4"]])),
    ("together", "a law over less", lambda plan: plan["blocks"][0]["law"]["law"].update(moved=[3, 2, 2])),
    ("together", "an l2 ball", lambda plan: plan["blocks"][0]["law"]["law"].update(radius="1/1000")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "what", "change"), TAMPERED, ids=[f"{n}: {w}" for n, w, _ in TAMPERED]
)
def test_a_tampered_plan_is_refused(
    plans: dict[str, Json], name: str, what: str, change: Callable[[Json], object]
) -> None:
    del what
    plan = copy.deepcopy(plans[name])
    change(plan)
    with pytest.raises((InternalError, ConfigError)):
        execute.check(ReleasePlan.from_json(plan))


def test_a_claim_of_the_measurement_changes_nothing(plans: dict[str, Json]) -> None:
    for name, plan in plans.items():
        twin = copy.deepcopy(plan)
        for block in twin["blocks"]:
            block["measurement"].update(
                l1_added_row="1", l1_replaced_row="1", linf_per_component=["1"] * 3
            )
            block["measurement"]["sensitivity"] = {}
        assert execute.check(ReleasePlan.from_json(twin)) == 2, name


def test_a_sparse_eigenvalue_passes_only_if_the_plan_says_so() -> None:
    plan = plan_of(
        [{"statistic": "algebraic_connectivity", "domain": {"range": [0, 100]}}],
        nodes=6000,
        allow=["sparse-eigenvalue"],
    )
    assert any("sparse-eigenvalue" in note for note in plan.notes)
    assert any("observed" in note for note in plan.statistics[0].notes)
    honest = json.loads(json.dumps(plan.to_json()))
    assert execute.check(ReleasePlan.from_json(honest)) == 2
    honest["notes"] = []
    with pytest.raises(InternalError) as caught:
        execute.check(ReleasePlan.from_json(honest))
    assert caught.value.code == "DPR902"


def test_a_box_forms_whatever_the_order_spikes_and_domains_and_not_without_a_degree() -> None:
    pinned = {"mechanism": PIN, "spikes": "forbid"}
    degree = {"statistic": "degree(1)", "domain": {"range": [1, 4]}, **pinned}
    second = {"statistic": "algebraic_connectivity", "domain": {"range": [0, 5]}, **pinned}
    plan = plan_of([degree, second])
    (block,) = plan.blocks
    assert block.cells == ("lambda_2", "degree of 1")
    assert [(s.function, s.view) for s in plan.statistics] == [
        ("degree", 1),
        ("algebraic_connectivity", 0),
    ]
    assert execute.check(plan) == 2
    assert [b.family for b in plan_of([second, "degree(1)"]).blocks] == ["scalar", "scalar"]
    assert [b.family for b in plan_of([degree]).blocks] == ["scalar"]


def test_a_delta_leaves_graphs_to_pure_laws() -> None:
    for asked in (ALONE, TOGETHER):
        plan = plan_of(asked, delta="0.000001")
        assert execute.check(ReleasePlan.from_json(json.loads(json.dumps(plan.to_json())))) <= 2
