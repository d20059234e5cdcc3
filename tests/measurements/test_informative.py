"""A statistic that is expected to say nothing is named before it is paid, with what would help."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dprelease as dp
from dprelease.audit.answers import answer_of
from dprelease.audit.repeated import releases
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.measurements import scalar
from dprelease.measurements.informative import two_digits
from dprelease.planning import prices
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import PlannedStatistic, Uninformative
from tests.planning.requests import USER, planned
from tests.sizes import some

AGE = {"kind": "integer", "range": [0, 110], "measure": "years"}


def plan_of(statistics: list[Any], size: int, epsilon: object = 1, **more: Any) -> ReleasePlan:
    rows = {"max": max(500, size), "expected": size}
    return planned(statistics, rows=more.pop("rows", rows), x=AGE, epsilon=epsilon, **more)


def mark(plan: ReleasePlan, name: str) -> Uninformative | None:
    return next(s for s in plan.statistics if s.name == name).uninformative


def mute_share(plan: ReleasePlan, name: str, size: int) -> float:
    """Return the part of draws of a group of `size` rows whose status is uninformative."""
    ages = np.clip(np.random.default_rng(3).normal(50, 20, size), 0, 110).astype(np.int64)
    rows = pa.table({"who": [str(i) for i in range(size)], "x": ages, "g": ["a"] * size})
    table = releases(plan, answer_of(plan, rows, DuckDBEngine()), 600).table
    status = table.filter(pc.equal(table["statistic"], name))["status"].to_pylist()
    return sum(s in ("uninformative", "empty_signal") for s in status) / len(status)


@pytest.mark.parametrize(
    ("statistic", "name"),
    [
        ("mean(x)", "mean_x"),
        ("std(x)", "std_x"),
        ({"statistic": "mean(x)", "spikes": "forbid"}, "mean_x"),
        ({"statistic": "count", "domain": {"range": [0, 20]}}, "count"),
    ],
)
def test_what_is_marked_mostly_says_nothing_and_what_is_not_mostly_does(
    statistic: Any, name: str
) -> None:
    size, epsilon = (4, "0.1") if name == "count" else (4, 1)
    few = plan_of([statistic], size, epsilon)
    marked = mark(few, name)
    assert marked is not None
    assert (marked.groups, marked.of, marked.size) == (1, 1, 4)
    assert mute_share(few, name, 4) > 0.5
    # What it names as a way out is one.
    assert marked.epsilon is not None
    assert mark(plan_of([statistic], 4, marked.epsilon * Fraction(5, 4)), name) is None
    assert mute_share(plan_of([statistic], 4, marked.epsilon * 2), name, 4) < 0.5
    assert mark(plan_of([statistic], 4, marked.epsilon / 2), name) is not None


def test_coarser_groups_are_a_way_out_at_the_same_epsilon() -> None:
    marked = mark(plan_of(["mean(x)"], 4), "mean_x")
    assert marked is not None
    assert marked.rows is not None
    assert mark(plan_of(["mean(x)"], marked.rows * 5 // 4), "mean_x") is None
    assert mark(plan_of(["mean(x)"], marked.rows // 2), "mean_x") is not None


def test_rivals_are_priced_once_to_advise_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every family at every budget tried took 2 s for a sum of ages that says nothing."""
    whole: list[Fraction] = []

    honest = scalar.grid_laws

    def counted(request: Any) -> Any:
        whole.append(request.epsilon)
        return honest(request)

    scalar.priced_laws.cache_clear()
    monkeypatch.setattr(scalar, "grid_laws", counted)
    rows = {"max": 1000}
    found = mark(plan_of(["sum(x)"], 0, "0.003", rows=rows), "sum_x")
    assert found is not None
    assert found.epsilon is not None
    assert len(set(whole)) == 2
    assert mark(plan_of(["sum(x)"], 0, found.epsilon * Fraction(5, 4), rows=rows), "sum_x") is None
    assert mark(plan_of(["sum(x)"], 0, found.epsilon / 2, rows=rows), "sum_x") is not None


@pytest.mark.parametrize("statistic", some(["mean(x)", "median(x)", "std(x)"], 2))
def test_ways_to_measure_are_priced_together_once_or_twice_and_the_advice_is_the_same(
    statistic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control prices all of them at every budget tried: a mean has two, a deviation three."""
    whole: list[object] = []
    honest = prices.Prices._candidates

    def counted(self: Any, block: Any, share: Any, size: int, only_as: Any = None) -> Any:
        whole.extend([share] * (only_as is None and len(block.options) > 1))
        return honest(self, block, share, size, only_as)

    monkeypatch.setattr(prices.Prices, "_candidates", counted)
    name, found = statistic.replace("(", "_").rstrip(")"), []
    for searched in (prices._WAYS_SEARCHED, 0):
        monkeypatch.setattr(prices, "_WAYS_SEARCHED", searched)
        for size in some((2, 4), 2):
            marked = mark(plan_of([statistic], size, "0.5"), name)
            assert marked is not None
            found.append((marked, len(whole)))
            whole.clear()
    many = len(found) // 2
    assert [m for m, _ in found[:many]] == [m for m, _ in found[many:]]
    if statistic == "mean(x)":
        assert all(b >= n + 5 for (_, n), (_, b) in zip(found[:many], found[many:], strict=True)), (
            found
        )


def test_only_some_groups_are_counted() -> None:
    rows = {"max": 500, "expected": {"a": 400, "b": 5, "c": 3}}
    plan = plan_of(["mean(x)"], 0, by=["g"], rows=rows)
    marked = mark(plan, "mean_x")
    assert marked is not None
    assert (marked.groups, marked.of, marked.size) == (2, 3, 5)
    assert "in 2 of 3 groups at n=5" in str(marked)


def test_ordinary_plans_are_not_marked() -> None:
    ordinary: list[Any] = [
        "count",
        "sum(x)",
        "mean(x)",
        "std(x)",
        "median(x)",
        "histogram(x, [0, 50, 110])",
    ]
    plan = plan_of(ordinary, 300, unit=USER)
    assert [s.name for s in plan.statistics if s.uninformative] == []
    assert "SAYS" not in str(plan)


def test_a_spread_that_nobody_guessed_is_said() -> None:
    columns = {"y": {"kind": "integer", "range": [0, 1000]}}
    marked = mark(plan_of(["correlation(x, y)"], 600, columns=columns), "correlation_x_y")
    assert marked is not None
    assert marked.narrow
    assert "close together" in str(marked)
    columns["y"]["expected"] = {"sd": 280}
    x = {**AGE, "expected": {"sd": 30}}
    rows = {"max": 5000, "expected": 600}
    wide = planned(["correlation(x, y)"], rows=rows, x=x, columns=columns)
    assert mark(wide, "correlation_x_y") is None


def test_the_warning_is_in_the_text_the_html_and_the_json() -> None:
    plan = plan_of(["mean(x)"], 4)
    words = str(mark(plan, "mean_x"))
    assert f"mean_x is {words}" in " ".join(str(plan).split())
    assert "SAYS" in str(plan)
    assert "mean_x is expected to say nothing at n=4" in plan._repr_html_()
    said = json.loads(json.dumps(plan.to_json()))["statistics"][0]["uninformative"]
    assert said["groups"] == 1
    assert Fraction(said["epsilon"]) > 1
    assert ReleasePlan.from_json(plan.to_json()).statistics == plan.statistics
    assert isinstance(plan.statistics[0], PlannedStatistic)


def test_a_way_out_that_does_not_exist_is_not_named() -> None:
    nothing = Uninformative(1, 1, 5, narrow=False, epsilon=None, rows=None)
    assert str(nothing).endswith("leaves nothing out")
    one = Uninformative(1, 1, 5, narrow=False, epsilon=Fraction(3), rows=None)
    assert str(one).endswith("; epsilon 3 in all would change that")


def test_a_choice_by_rank_says_nothing_where_its_range_of_ranks_is_all_rows() -> None:
    """A median has no interval and so no status: the plan is where one can know it."""
    few = mark(plan_of(["median(x)"], 10, "0.5"), "median_x")
    assert few is not None
    assert few.rows is not None
    assert mark(plan_of(["median(x)"], 2 * few.rows, "0.5"), "median_x") is None
    assert mark(plan_of(["median(x)"], few.rows // 2, "0.5"), "median_x") is not None


def test_with_a_delta_a_plan_says_it_as_well() -> None:
    plan = plan_of(["mean(x)", "count"], 4, delta="0.000001")
    assert mark(plan, "mean_x") is not None


@pytest.mark.parametrize(
    ("value", "shown"), [("1.21", "1.3"), ("12345", "13000"), ("0.0301", "0.031")]
)
def test_two_digits_round_up(value: str, shown: str) -> None:
    assert two_digits(Fraction(value)) == Fraction(shown)


def test_the_facade_s_plan_has_it() -> None:
    schema = {
        "dprelease": "schema/1", "name": "t", "unit": "row", "adjacency": "add_remove",
        "rows": {"max": 100, "expected": 4}, "columns": {"x": AGE},
        "release": {"epsilon": 1, "statistics": ["mean(x)"]},
    }  # fmt: skip
    assert dp.plan(schema).statistics[0].uninformative is not None


@pytest.mark.parametrize(
    ("epsilon", "size"), some([("0.01", 1), ("0.01", 10**8), ("40", 1), ("40", 10**8)], 3)
)
def test_no_size_and_no_budget_breaks_the_look(epsilon: str, size: int) -> None:
    statistics: list[Any] = [
        "count", "sum(x)", "mean(x)", "std(x)", "median(x)", "min(x)", "covariance(x, y)",
        "eigenvalues(x, y)", "histogram(x, [0, 50, 110])", "count_distinct(x)",
    ]  # fmt: skip
    columns = {"y": {"kind": "number", "range": [-5, 20], "step": 0.5}}
    plan = planned(
        statistics, rows={"max": 10**9, "expected": size}, x=AGE, epsilon=epsilon, columns=columns
    )
    marked = {s.name for s in plan.statistics if s.uninformative}
    if size == 1 and epsilon != "40":
        assert {"mean_x", "std_x", "median_x", "covariance_x_y"} <= marked
    if size > 1 and epsilon == "40":
        assert not marked
