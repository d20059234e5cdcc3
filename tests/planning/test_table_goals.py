"""`max_error` in releases of several tables: of the fitted number, met exactly as stated, or refused."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

import dprelease as dp
from dprelease.core.errors import DpreleaseError, PlanError
from dprelease.core.strict_json import canonical_json
from dprelease.planning.again import plan_again
from dprelease.query.request import request_from_json
from dprelease.query.written import request_to_json
from dprelease.release_plan.plan import ReleasePlan
from tests.several_tables import TREE, schema
from tests.sizes import some

DELTA = {"delta": "1/1000000"}
MARGINS = [
    {"name": "nation", "by": []},
    {"name": "regions", "by": ["region"]},
    {"name": "sexes", "by": ["sex"]},
    {"name": "districts", "by": ["district", "sex"]},
]


def made(
    goals: Mapping[str, float], text: str = "count", tables: Any = None, **release: Any
) -> Any:
    """Return a schema with `goals` per table, or per table and text after a blank."""
    out = []
    for table in tables or TREE:
        statistics = []
        for name in text.split():
            goal = (
                goals.get(table["name"])
                if name == "count"
                else goals.get(f"{table['name']} {name}")
            )
            statistics.append({"statistic": name} | ({} if goal is None else {"max_error": goal}))
        out.append({**table, "statistics": statistics})
    return schema(out, release=release)


def errors(plan: ReleasePlan) -> dict[str, float]:
    return {f"{s.table} {s.text}": s.planned_error or 0.0 for s in plan.statistics}


@pytest.mark.parametrize("delta", [{}, DELTA], ids=["pure", "delta"])
@pytest.mark.parametrize("tables", [TREE, MARGINS], ids=["tree", "cross"])
@pytest.mark.parametrize("share", some([0.95, 0.8], 2))
def test_a_goal_moves_budget_to_what_makes_the_table_better(
    delta: dict[str, str], tables: Any, share: float
) -> None:
    free = errors(dp.plan(made({}, tables=tables, **delta)))
    for name in ("nation", "regions"):  # the finest table has most of the budget already
        goal = round(share * free[f"{name} count"], 3)
        found = errors(dp.plan(made({name: goal}, tables=tables, **delta)))
        assert found[f"{name} count"] <= goal
        worse = [n for n in found if found[n] > free[n]]
        assert worse, "what one table gains another pays"


def test_a_delta_makes_no_plan_worse() -> None:
    without, with_delta = (errors(dp.plan(made({}, **delta))) for delta in ({}, DELTA))
    assert all(with_delta[name] <= without[name] * (1 + 1e-9) for name in without)


def test_the_epsilon_that_is_named_suffices_and_less_does_not() -> None:
    asked = made({"nation": 0.9, "regions": 1.5})
    with pytest.raises(PlanError) as refused:
        dp.plan(asked)
    assert refused.value.code == "DPR240"
    needed = float(re.search(r"epsilon of about ([\d.]+)", refused.value.what)[1])  # type: ignore[index]
    assert needed > 1
    plan = dp.plan(asked, epsilon=1.1 * needed)
    assert errors(plan)["nation count"] <= 0.9
    assert errors(plan)["regions count"] <= 1.5
    with pytest.raises(PlanError):
        dp.plan(asked, epsilon=0.8 * needed)


def test_a_statistic_with_a_goal_gets_the_least_part_that_meets_it() -> None:
    both = "count sum(income)"
    plan = dp.plan(made({"nation": 3}, both))
    found = errors(plan)
    assert 2.9 < found["nation count"] <= 3
    free = errors(dp.plan(made({}, both)))
    assert found["nation sum(income)"] < free["nation sum(income)"]  # what is left is its own
    goals = {"nation": 3, "regions sum(income)": 400}
    met = errors(dp.plan(made(goals, both)))
    assert met["nation count"] <= 3
    assert met["regions sum(income)"] <= 400
    with pytest.raises(PlanError) as refused:
        dp.plan(made({**goals, "regions sum(income)": 100}, both))
    assert refused.value.code == "DPR240"


@pytest.mark.parametrize(
    "both", some(["mean(income) count", "sum(income) mean(income)", "mean(income)"], 3)
)
def test_a_goal_of_a_mean_is_met_or_its_epsilon_named(both: str) -> None:
    """Its error is that at the expected number of rows; the sums behind it get what it takes."""
    expected = {"max": 5000, "expected": 300}

    def asked(goal: float | None, **release: Any) -> Any:
        goals = {} if goal is None else {"regions mean(income)": goal}
        return made(goals, both, **release) | {"rows": expected}

    free = errors(dp.plan(asked(None)))
    text = "regions mean(income)"
    goal = round(0.8 * free[text], 6)
    plan = dp.plan(asked(goal))
    assert errors(plan)[text] <= goal
    assert any(errors(plan)[name] > free[name] for name in free)  # what it gains others pay
    with pytest.raises(PlanError) as refused:
        dp.plan(asked(0.1 * free[text]))
    assert refused.value.code == "DPR240"
    assert "mean(income)" in str(refused.value)
    needed = float(re.search(r"epsilon of about ([\d.]+)", refused.value.what)[1])  # type: ignore[index]
    enough = dp.plan(asked(0.1 * free[text]), epsilon=1.1 * needed)
    assert errors(enough)[text] <= 0.1 * free[text]
    with pytest.raises(PlanError, match="guess of the number of rows") as unknown:
        dp.plan(made({text: goal}, both))
    assert unknown.value.code == "DPR292"


def test_a_plan_that_misses_its_goal_is_not_made_again() -> None:
    plan = dp.plan(made({"nation": 2}))
    assert plan.request is not None
    stated = json.loads(canonical_json(plan.to_json()))
    request = json.loads(canonical_json(request_to_json(plan.request)))
    assert plan_again(request_from_json(request), stated).to_json() == stated
    for table in request["release"]["tables"]:
        for statistic in table["statistics"]:
            if statistic.get("max_error") is not None:
                statistic["max_error"] = "19/10"
    with pytest.raises(DpreleaseError) as refused:
        plan_again(request_from_json(request), stated)
    assert refused.value.code == "DPR240"
