"""What another budget would buy: the planner's own figures, at the budgets that have a plan."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from dprelease.allocation.share import ways
from dprelease.pipeline.planned import plan_release
from dprelease.planning import prices
from dprelease.planning.make import FACTORS, make_plan, what_if
from dprelease.query.load import Schema
from dprelease.release_plan.curve import expected
from dprelease.release_plan.plan import ReleasePlan


def planned(release, loss="absolute"):
    return plan_release(
        Schema.from_dict(
            {
                "dprelease": "schema/1",
                "name": "t",
                "unit": "row",
                "adjacency": "add_remove",
                "rows": {"max": 1000, "expected": 300},
                "columns": {"x": {"kind": "number", "range": [0, 10], "step": 1}},
                "release": {"loss": loss, **release},
            }
        )
    )


ALL = {"epsilon": 1, "statistics": ["count", "mean(x)", "median(x)"]}


@pytest.mark.parametrize("loss", ["absolute", "squared"])
def test_every_figure_is_what_a_plan_at_that_epsilon_says(loss):
    found = what_if(planned(ALL, loss))
    assert [Fraction(p["epsilon"]) for p in found] == list(FACTORS)
    for point in found:
        other = planned({**ALL, "epsilon": float(Fraction(point["epsilon"]))}, loss)
        assert point["errors"] == {
            s.name: expected(s, loss) for s in other.statistics if s.name != "median_x"
        }


def test_what_is_left_out_of_a_brief_plan_is_said_and_not_drawn():
    """Laws, charges and errors are those of a whole plan; rivals and advice are not made."""
    asked = planned({"epsilon": "0.01", "statistics": ["count", "mean(x)", "std(x)"]}).request
    assert asked is not None
    whole, brief = make_plan(asked), make_plan(asked, brief=True)
    assert brief.blocks == whole.blocks and brief.query == whole.query
    for one, two in zip(brief.statistics, whole.statistics, strict=True):
        assert one.chosen == two.chosen[:1]
        assert replace(one, chosen=(), uninformative=None) == replace(
            two, chosen=(), uninformative=None
        )
    assert any(len(s.chosen) > 1 for s in whole.statistics)
    assert any(s.uninformative for s in whole.statistics)
    assert not any(s.uninformative for s in brief.statistics)


def test_more_budget_buys_less_error():
    errors = [p["errors"]["count"] for p in what_if(planned(ALL))]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 3 * errors[-1]


def test_a_budget_without_a_plan_is_left_out():
    goal = {"epsilon": 1, "statistics": [{"statistic": "count", "max_error": 1.5}, "mean(x)"]}
    found = what_if(planned(goal))
    assert [Fraction(p["epsilon"]) for p in found] == [Fraction(2), Fraction(4)]


def test_goals_that_set_the_budget_have_no_other_one():
    assert what_if(planned({"statistics": [{"statistic": "count", "max_error": 2}]})) == []


def test_a_plan_read_back_does_not_know_its_request():
    plan = planned(ALL)
    again = ReleasePlan.from_json(plan.to_json())
    assert again.request is None
    assert what_if(again) == []
    assert replace(plan, request=None) == plan  # the plan is the same with and without it
    assert again.hash == plan.hash


def test_several_tables_are_not_planned_again_for_prices_that_no_page_shows():
    tables = [{"name": "all", "by": [], "statistics": ["count"]}]
    assert what_if(planned({"epsilon": 1, "tables": tables})) == []


def test_what_a_goal_needs_is_searched_for_once_for_all_budgets(monkeypatch):
    """It does not depend on the budget: at every one again, 20 goals took three seconds of each verification."""
    asked = {**ALL, "statistics": ["count", {"statistic": "mean(x)", "max_error": "0.5"}]}
    plan, found = planned(asked), []
    monkeypatch.setattr(prices, "ways", lambda *each: found.append(each[:2]) or ways(*each))
    one, *_ = what_if(plan)
    searched = [(id(block), share) for block, share in found]
    assert len(searched) == len(set(searched)) > len(FACTORS)
    other = planned({**asked, "epsilon": "0.5"})
    assert one["errors"] == {s.name: expected(s, "absolute") for s in other.statistics}
