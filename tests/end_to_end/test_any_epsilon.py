"""No request ends in a Python exception: any epsilon up to the limit, every statistic, published too."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pandas as pd
import pytest

import dprelease as dp
from dprelease.core.errors import BudgetError, ConfigError, InternalError, PlanError
from dprelease.planning import make as other_budgets
from dprelease.query.merge import MAX_EPSILON
from dprelease.wall import execute
from tests.sizes import FULL, some

STATISTICS: tuple[Any, ...] = (
    "count", "count(persons)", "count_distinct(i)", "sum(x)", "mean(x)", "variance(x)", "std(x)",
    "min(x)", "max(x)", "median(x)", "quantile(x, 0.25)", "proportion(x >= 3)", "covariance(x, y)",
    "correlation(x, y)", "eigenvalues(x, y)", "histogram(x, [0, 5, 10])", "cdf(x, [0, 5, 10])",
    "winsorised_mean(x, 0.05)", "winsorised_sum(x, 0.05)", "winsorised_std(x, 0.05)",
    "weighted_mean(x, i)",
)  # fmt: skip
SOME = ("count", "sum(x)", "mean(x)", "variance(x)", "correlation(x, y)", "median(x)")
PERSON = {"user": "who", "max_groups": 2, "max_rows_per_group": 3}
UNITS: tuple[tuple[Any, str, bool], ...] = (
    ("row", "add_remove", False),
    ("row", "substitution", False),
    ("row", "substitution", True),
    (PERSON, "add_remove", False),
    (PERSON, "substitution", False),
)
FAMILIES = (
    "staircase", "bounded_laplace", "discrete_laplace", "rectified_laplace", "reflected_laplace",
    "bounded_gaussian", "rectified_gaussian", "optimal_grid", "exponential",
)  # fmt: skip
GAPS = {"domain": {"range": [1, 6], "forbidden": [[2, 4]]}}
OPTIONS: tuple[dict[str, Any], ...] = (
    {}, {"spikes": "forbid"}, GAPS, {"spikes": "forbid", **GAPS}, *({"mechanism": f} for f in FAMILIES),
)  # fmt: skip
MORE: tuple[dict[str, Any], ...] = ({}, {"loss": "squared"}, {"delta": 0.000001})
EPSILONS = (
    1e-9, 2e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1, 5, 19, 50, 90, 186, 200, 300, 600, 708,
    720, 745, 746, 800, 999, 1000,
)  # fmt: skip
FEW = (1e-9, 1e-5, 300, 746, 1000)


def schema(
    statistics: list[Any], epsilon: float, unit: Any, adjacency: str, public: bool, **more: Any
) -> dict[str, Any]:
    x = {"kind": "number", "range": [0, 10], "step": 0.5}
    columns = {"x": x, "y": x, "i": {"kind": "integer", "range": [0, 9]}}
    if public:
        columns = {n: {**c, "nulls": {"default": 5}} for n, c in columns.items()}
    return {
        "dprelease": "schema/1",
        "name": "any",
        "unit": unit,
        "adjacency": adjacency,
        "rows": {"exact": 6} if public else {"max": 1000, "expected": 300},
        "columns": {
            "who": {"kind": "identifier"},
            **columns,
            "g": {"kind": "category", "values": ["a", "b", "c"]},
        },
        "release": {
            "epsilon": epsilon,
            "by": [] if public else ["g"],
            "statistics": statistics,
            **more,
        },
    }


def asked(statistic: Any, options: dict[str, Any]) -> dict[str, Any]:
    return {**({"statistic": statistic} if isinstance(statistic, str) else statistic), **options}


def planned(seen: Counter[str], declared: dict[str, Any]) -> None:
    """Plan and check; a refusal says so in the project's own words, and is none of the wall's."""
    try:
        plan = dp.plan(declared)
    except (PlanError, ConfigError, BudgetError) as refused:
        seen[str(refused.code)] += 1
        return
    execute.check(plan)
    seen["planned"] += 1


def test_every_statistic_at_every_epsilon(evidence):
    seen: Counter[str] = Counter()
    asks = itertools.product(
        EPSILONS if FULL else FEW, STATISTICS if FULL else SOME, UNITS
    )  # every fourth meets each statistic at each epsilon, and each of the five units in turn
    for epsilon, statistic, unit in some(asks, 4):
        planned(seen, schema([statistic], epsilon, *unit))
    if FULL:
        for epsilon, statistic, unit, options, more in itertools.product(
            FEW, STATISTICS, UNITS, OPTIONS, MORE
        ):
            planned(seen, schema([asked(statistic, options)], epsilon, *unit, **more))
    assert seen["planned"] >= sum(seen.values()) / 4
    evidence(
        "any epsilon",
        f"{sum(seen.values())} requests, epsilon 1e-9 to {MAX_EPSILON}",
        f"{seen['planned']} planned and passed by the wall, the others refused by code; no exception",
    )


TABLES = [
    {"name": "all", "by": [], "statistics": ["count", "sum(x)"]},
    {"name": "by_g", "by": ["g"], "statistics": ["count", "sum(x)"]},
]


def test_several_tables_at_every_epsilon(evidence):
    """Of a tiny epsilon beside a delta no rho is left: dividing by it ended in an exception."""
    seen: Counter[str] = Counter()
    for epsilon, unit in itertools.product(EPSILONS if FULL else (1e-6, 1000), UNITS[::3]):
        for more in ({}, {"delta": 0.000001}):
            declared = schema([], epsilon, *unit)
            release = {"epsilon": epsilon, "tables": TABLES, **more}
            planned(seen, {**declared, "release": release})
    assert seen["planned"] >= sum(seen.values()) / 2
    evidence(
        "any epsilon, several tables",
        f"{sum(seen.values())} requests, with and without delta",
        f"{seen['planned']} planned and passed by the wall, the others refused by code; no exception",
    )


@pytest.mark.parametrize(
    ("epsilon", "statistics"),
    [
        (1e-8, ["count", "sum(x)", "mean(x)"]),
        (
            186.5,
            ["count"],
        ),  # the report plans other budgets: at four times this a law lost its last weight
        (300, ["count"]),
        (
            1000,
            [
                "count",
                "sum(x)",
                "mean(x)",
                {"statistic": "count", "as": "smooth", "spikes": "forbid"},
            ],
        ),
    ],
)
def test_what_is_released_is_published(epsilon, statistics, tmp_path):
    declared = schema(statistics, epsilon, *UNITS[0])
    ledger = dp.create_ledger(tmp_path / "ledger.db", declared, epsilon=epsilon)
    rows = pd.DataFrame(
        {"who": list("abcdef"), "x": [1.0, 2, 3, 4, 5, 6], "y": 1.0, "i": 1, "g": list("aabbcc")}
    )
    release = dp.release(rows, declared, ledger=ledger, period="once")
    folder = release.publish(tmp_path / "public")
    assert (folder / "report.html").exists()


def test_a_plan_that_fails_after_the_charge_is_left_out(monkeypatch):
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    plan = dp.plan(schema(["count"], 1, *UNITS[0]))
    assert len(other_budgets.what_if(plan)) == len(other_budgets.FACTORS)
    monkeypatch.setattr(other_budgets, "spend", broken)
    assert other_budgets.what_if(plan) == []


def test_no_other_budget_is_more_than_a_release_may_spend():
    plan = dp.plan(schema(["count"], MAX_EPSILON / 2, *UNITS[0]))
    assert [p["epsilon"] for p in other_budgets.what_if(plan)] == [
        str(MAX_EPSILON // 4),
        str(MAX_EPSILON),
    ]


def test_the_wall_s_own_errors_are_no_refusals():
    assert not issubclass(InternalError, PlanError | ConfigError | BudgetError)
