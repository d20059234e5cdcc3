"""Plans as a whole: deterministic, public, the same after JSON, and robust at the extremes."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.core.errors import ConfigError, PlanError
from dprelease.core.secret import Secret
from dprelease.measurements.truncated_mean import MeanLaw
from dprelease.planning.make import make_plan
from dprelease.query.answer import Answer
from dprelease.release_plan.identity import plan_hash
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.draw import assemble
from dprelease.wall import execute
from tests.planning.requests import USER, asked, planned, public

REQUESTS: dict[str, dict[str, Any]] = {
    "everything": {
        "statistics": ["count", "sum(x)", "mean(x)", "variance(x)", "histogram(x, [0, 5, 10])"],
        "by": ["g"],
        "unit": USER,
    },
    "no point masses": {
        "statistics": [{"statistic": "mean(x)", "spikes": "forbid"}],
        "epsilon": "0.3",
    },
    "gaps": {
        "statistics": [{"statistic": "count", "domain": {"range": [0, 99], "forbidden": [[0, 5]]}}]
    },
}


@pytest.mark.parametrize("name", REQUESTS)
def test_the_same_request_gives_the_same_plan(name: str) -> None:
    one, two = (planned(**REQUESTS[name]) for _ in range(2))
    assert one == two
    assert one.hash == two.hash
    assert one.to_json() == two.to_json()


@pytest.mark.parametrize("name", REQUESTS)
def test_json_round_trip(name: str) -> None:
    plan = planned(**REQUESTS[name])
    value = json.loads(json.dumps(plan.to_json(), allow_nan=False))
    again = ReleasePlan.from_json(value)
    assert again == plan
    assert again.hash == plan.hash == plan_hash(value)
    assert execute.check(again) == execute.check(plan)


def test_a_filter_survives_as_text_and_the_hash_is_of_the_text() -> None:
    plan = planned(["proportion(x > 4)"], where="x < 9")
    value = json.loads(json.dumps(plan.to_json()))
    assert plan_hash(value) == plan.hash
    assert ReleasePlan.from_json(value).where == plan.where
    execute.check(ReleasePlan.from_json(value))


def test_another_request_gives_another_hash() -> None:
    hashes = {
        planned(["count"]).hash,
        planned(["count"], epsilon=2).hash,
        planned(["count"], where="x > 1").hash,
        planned(["count"], where="x > 2").hash,
        planned(["count"], adjacency="substitution").hash,
        planned(["count"], unit={**USER, "max_groups": 1, "max_rows_per_group": 1}).hash,
        planned(
            ["count"], unit={**USER, "max_groups": 1, "max_rows_per_group": 1, "max_rows": 1}
        ).hash,
    }
    assert len(hashes) == 7


@pytest.mark.parametrize(
    "wanted",
    [
        {
            "statistics": ["count", "mean(x)", "sum(x)"],
            "epsilon": "0.000001",
            "rows": {"max": 10**12},
        },
        {
            "statistics": ["count", {"statistic": "count", "as": "n", "spikes": "forbid"}],
            "rows": {"max": 10**12},
        },
        {
            "statistics": ["mean(x)", "variance(x)", "sum(x)"],
            "x": {"kind": "number", "range": [0, 1000], "step": 0.001},
        },
        {"statistics": [{"statistic": "mean(x)", "domain": {"range": [3, 4]}}]},
        {
            "statistics": [
                {"statistic": "count", "domain": {"range": [0, 5], "forbidden": [[0, 5]]}}
            ]
        },
        {
            "statistics": ["count", "mean(x)"],
            "by": ["g"],
            "groups": ["a/b", '"q"', "=1+1", "é – x"],
        },
        {
            "statistics": ["sum(x)"],
            "x": {"kind": "number", "range": [-7919, 3], "step": 1},
            "unit": USER,
            "by": ["g"],
        },
        {
            "statistics": ["count", "sum(x)"],
            "unit": {"user": "who", "max_groups": 50, "max_rows_per_group": 9, "max_rows": 20},
            "by": ["g"],
        },
    ],
    ids=[
        "tiny epsilon",
        "huge cap",
        "10^6 steps",
        "narrow domain",
        "islands",
        "odd keys",
        "prime range",
        "G > K",
    ],
)
def test_extremes_plan_and_draw_valid_values(wanted: dict[str, Any]) -> None:
    plan = planned(**wanted)
    for size in (0, 1, 10**13):
        primitives = np.full((len(plan.keys), len(plan.query.primitives)), size, dtype=object)
        cells = execute.draw(plan, Secret(Answer(primitives)))
        table = assemble(plan.by, plan.keys, plan.statistics, plan.blocks, cells)
        for statistic in plan.statistics:
            here = np.isin(np.array(table["statistic"].to_pylist()), statistic.columns)
            assert statistic.domain.contains(table["value"].to_numpy()[here]).all()


@pytest.mark.parametrize("n", [1, 2, 3, 900])
def test_public_sizes_from_one_row_on(n: int) -> None:
    spread = ["variance(x)", "std(x)"] if n > 1 else []  # of one row it is 0, and refused
    plan = public(["count", "sum(x)", "mean(x)", *spread], n=n)
    assert execute.check(plan) <= 1
    assert all(b.measurement.public_rows == n for b in plan.blocks)


@pytest.mark.parametrize(
    "more", [{"by": ["g"]}, {"where": "x > 1"}, {"unit": {**USER, "max_groups": 1}}, {"x": None}]
)
def test_anything_upstream_makes_a_size_private(more: dict[str, Any]) -> None:
    """Semantics 1.2: groups, a filter, a user unit, or dropped nulls (the column's default here)."""
    x = {"kind": "number", "range": [0, 10], "step": 0.5, "nulls": {"default": 5}}
    wanted = {"x": x, "adjacency": "substitution", "rows": {"exact": 900}} | more
    plan = planned(["mean(x)", "sum(x)", "variance(x)"], **wanted)
    assert all(b.measurement.public_rows is None for b in plan.blocks)


def test_a_period_makes_a_size_private() -> None:
    from datetime import UTC, datetime

    from dprelease.query.merge import merge_release
    from dprelease.query.spec import resolve
    from tests.planning.requests import PUBLIC_X, declared

    schema = declared(
        ["mean(x)"],
        adjacency="substitution",
        rows={"exact": 900},
        x=PUBLIC_X,
        columns={"at": {"kind": "timestamp"}},
    )
    week = ("at", datetime(2026, 1, 5, tzinfo=UTC), datetime(2026, 1, 12, tzinfo=UTC))
    plan = make_plan(resolve(schema, merge_release(schema), window=week))
    assert plan.blocks[0].measurement.public_rows is None
    assert ReleasePlan.from_json(plan.to_json()).hash == plan.hash


def test_a_spike_free_mean_of_users_that_move_between_groups() -> None:
    """spikes: forbid with G = 2 under substitution: four moves are paid for, and the size."""
    wanted = [{"statistic": "mean(x)", "spikes": "forbid"}]
    plan = planned(wanted, unit={**USER, "max_groups": 2}, adjacency="substitution", by=["g"])
    law = plan.blocks[0].law
    assert isinstance(law, MeanLaw)
    assert law.chain_length == 4
    assert 4 * law.epsilon <= plan.epsilon
    assert Fraction(plan.blocks[0].certificate["epsilon_upper"]) <= plan.epsilon


def test_errors_that_depend_on_a_private_size_say_so() -> None:
    plan = make_plan(asked(["mean(x)"]))
    assert plan.statistics[0].planned_error is None
    assert "at n=" in plan.statistics[0].error_text
    guessed = make_plan(asked(["mean(x)"], rows={"max": 10_000, "expected": 50}))
    assert guessed.statistics[0].planned_error is not None


def test_judged_by_the_worst_answer() -> None:
    """`judge: worst` never plans a larger worst error, says so, and lists the same families."""
    for statistic, x in (
        ({"statistic": "count", "domain": {"range": [0, 40], "forbidden": [[7, 25]]}}, None),
        ("sum(x)", {"kind": "number", "range": [0, 10], "step": 1}),
    ):
        rows = {"max": 40} if x is None else {"max": 8}
        average = planned([statistic], epsilon=2, x=x, rows=rows)
        worst = planned([statistic], epsilon=2, x=x, rows=rows, judge="worst")
        errors = [p.statistics[0].chosen[0] for p in (average, worst)]
        assert all(e.worst_error is not None and e.expected_error is not None for e in errors)
        assert errors[1].worst_error <= errors[0].worst_error * (1 + 1e-9)  # type: ignore[operator]
        assert errors[0].expected_error <= errors[1].expected_error * (1 + 1e-9)  # type: ignore[operator]
        assert any("worst answer" in note for note in worst.notes)
        assert not any("worst answer" in note for note in average.notes)
        execute.check(worst)


def test_only_the_two_judges_exist() -> None:
    with pytest.raises(ConfigError):
        planned(["count"], judge="median")


@pytest.mark.parametrize("part", ["lower", "upper", "status"])
def test_no_two_columns_of_the_wide_table_have_one_name(part: str) -> None:
    taken = f"total_{part}"
    both: list[Any] = [{"statistic": "sum(x)", "as": "total"}, {"statistic": "count", "as": taken}]
    with pytest.raises(PlanError) as refused:
        planned(both, rows={"max": 100})
    assert refused.value.code == "DPR207"
    assert taken in refused.value.what
    planned([both[1], {"statistic": "sum(x)", "as": "totals"}], rows={"max": 100})  # the control
