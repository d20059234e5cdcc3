"""Why a plan's epsilon is split as it is: what was declared, and the rule for the rest."""

from __future__ import annotations

import dprelease as dp
from dprelease.release_plan.why_split import why_this_split
from tests.several_tables import schema as several

SCHEMA = {
    "dprelease": "schema/1", "name": "t", "unit": "row", "adjacency": "add_remove",
    "rows": {"max": 20, "expected": 10},
    "columns": {"age": {"kind": "integer", "range": [0, 5]}, "x": {"kind": "integer", "range": [0, 3]}},
}  # fmt: skip


def said(*statistics, **release):
    return why_this_split(dp.plan(SCHEMA, epsilon=1, statistics=list(statistics), **release))


def test_each_declared_part_and_the_rule_for_the_rest():
    assert said("count") is None  # nothing is split
    rule = "is shared equally by the statistics"
    assert said("count", "sum(age)") == f"why this split: ε {rule}"
    assert said(
        {"statistic": "count", "share": 0.25}, "sum(age)", {"statistic": "sum(x)", "weight": 2}
    ) == (
        f"why this split: count has its share of 0.25; the rest of ε {rule}; sum_x counts 2 times"
    )
    goal = said({"statistic": "count", "max_error": 8}, "sum(age)")
    assert goal == f"why this split: count what its max_error needs; the rest of ε {rule}"


def test_several_tables_say_how_each_part_is_split_further():
    plan = dp.plan(several())
    split = "ε is shared equally by the statistics, each part by its tables so that the fitted errors are least"
    assert why_this_split(plan) == f"why this split: {split}"


def test_the_plan_says_it():
    plan = dp.plan(SCHEMA, epsilon=1, statistics=["count", "sum(age)"])
    assert "why this split: ε is shared equally by the statistics" in " ".join(str(plan).split())
    assert "why this split" in plan._repr_html_()
