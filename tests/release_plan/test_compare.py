"""Two plans side by side: equal plans have no difference, every kind of difference is told."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

import dprelease as dp
from dprelease.release_plan.compare import compare, differences
from dprelease.release_plan.explain import renderable
from tests.release_plan.test_curve import SCHEMA

BASE = dp.plan(SCHEMA)


def changed(**release):
    return dp.plan({**SCHEMA, "release": {**SCHEMA["release"], **release}})


def with_age(**more):
    age = {**SCHEMA["columns"]["age"], **more}
    return dp.plan({**SCHEMA, "columns": {"age": age}})


def told(after):
    return {(c.statistic, c.what) for c in compare(BASE, after)}


def test_equal_plans_have_no_difference():
    assert compare(BASE, dp.plan(SCHEMA)) == ()


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (changed(epsilon=2), {("", "epsilon"), ("count", "epsilon"), ("count", "expected error")}),
        (changed(statistics=["count"]), {("mean_age", "removed")}),
        (changed(statistics=["count", "mean(age)", "sum(age)"]), {("sum_age", "added")}),
        (
            changed(
                statistics=[{"statistic": "count", "domain": {"range": [0, 500]}}, "mean(age)"]
            ),
            {("count", "domain")},
        ),
        (changed(where="age > 5"), {("", "where")}),
        (
            changed(
                statistics=["count", {"statistic": "mean(age)", "mechanism": "reflected_laplace"}]
            ),
            {("mean_age", "mechanism")},
        ),
        (changed(rules={"suppress": {"below": 5}}), {("", "rules")}),
        (with_age(step=2), {("", "cells of age")}),
        (with_age(nulls={"default": 0}), {("", "cells of age")}),
    ],
    ids=["epsilon", "removed", "added", "domain", "where", "mechanism", "rules", "step", "nulls"],
)
def test_a_difference_is_told(after, expected):
    assert expected <= told(after)


def test_groups_that_come_and_go_are_named():
    def by(*values):
        region = {"kind": "category", "values": list(values)}
        columns = {**SCHEMA["columns"], "region": region}
        release = {"epsilon": 1, "by": ["region"], "statistics": ["count"]}
        return dp.plan({**SCHEMA, "columns": columns, "release": release})

    found = {c.what: (c.before, c.after) for c in compare(by("a", "b"), by("b", "c"))}
    assert found["groups added"] == ("–", "c")
    assert found["groups removed"] == ("a", "–")


def test_of_several_tables_each_is_compared_and_named():
    """Statistics were matched by name alone, so the last table's stood for all of them."""

    def tables(epsilon, *more):
        region = {"kind": "category", "values": ["a", "b"]}
        listed = [{"name": "all", "by": []}, {"name": "regions", "by": ["region"]}, *more]
        listed = [{**table, "statistics": ["count"]} for table in listed]
        columns = {"region": region, "half": region}
        release = {"epsilon": epsilon, "tables": listed}
        return dp.plan({**SCHEMA, "columns": columns, "release": release})

    found = {(c.statistic, c.what) for c in compare(tables(1), tables(2))}
    assert {("all: count", "expected error"), ("regions: count", "expected error")} <= found
    more = compare(tables(1, {"name": "halves", "by": ["half", "region"]}), tables(1))
    assert ("halves: count", "removed") in {(c.statistic, c.what) for c in more}
    console = Console(file=io.StringIO(), width=200)
    console.print(renderable(tables(1), 200, every=True))
    for name in ("all", "regions"):
        assert f"{name}: count by each admissible mechanism" in console.file.getvalue()


def test_half_the_error_is_called_so():
    [error] = [
        c
        for c in compare(BASE, changed(epsilon=2))
        if (c.statistic, c.what) == ("count", "expected error")
    ]
    assert error.remark.startswith("×0.4") or error.remark.startswith("×0.5")
    assert error.to_json()["what"] == "expected error"


def test_names_are_text_not_markup():
    out = io.StringIO()
    shown = differences(compare(BASE, changed(epsilon=2)), "[bold]a", "b")
    Console(file=out, width=160).print(shown)
    assert "[bold]a" in out.getvalue()
