"""What a plan says where a value is chosen by rank and nothing that is released counts the known values."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import dprelease as dp
from tests.redrawn import redrawn
from tests.rules_alone import built_in_rules_only

P50 = {"statistic": "quantile(x, 0.5)", "interval": True, "as": "p50"}
SAID = "nothing here counts the known values"


def schema(statistics: list[Any], x: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "dprelease": "schema/1", "name": "t", "unit": "row", "adjacency": "add_remove",
        "rows": {"max": 20_000, "expected": 1000},
        "columns": {"x": {"kind": "integer", "range": [0, 1000], **(x or {})}, "y": {"kind": "integer", "range": [0, 9]}},
        "release": {"epsilon": 4, "statistics": statistics}, **more,
    }  # fmt: skip


def printed(schema: dict[str, Any]) -> str:
    return " ".join(str(dp.plan(schema)).split())


FILLED: dict[str, Any] = {"nulls": {"default": 0}}
SILENT: list[tuple[list[Any], Any, Any]] = [
    (["median(x)", "mean(x)"], None, {}),
    (["median(x)", "variance(x)"], None, {}),
    (["median(x)", "count"], FILLED, {}),
    (["median(x)"], FILLED, {"adjacency": "substitution", "rows": {"exact": 1000}}),
    ([P50], None, {}),
    (["winsorised_mean(x, 0.1)"], None, {}),
]
TOLD = [
    (["median(x)"], None, "median_x"),
    (["median(x)"], FILLED, "median_x"),
    (["median(x)", "count"], None, "median_x"),
    (["median(x)", "mean(y)"], None, "median_x"),
    (["min(x)", "max(x)"], None, "min_x, max_x"),
    (["quantile(x, 0.25)", "quantile(x, 0.75)"], None, "quantile_x_0_25, quantile_x_0_75"),
]


@pytest.mark.parametrize(("statistics", "x", "more"), SILENT)
def test_a_plan_whose_release_shows_it_says_nothing(statistics: Any, x: Any, more: Any) -> None:
    assert SAID not in printed(schema(statistics, x, **more))


@pytest.mark.parametrize(("statistics", "x", "names"), TOLD)
def test_a_plan_says_of_which_values_a_release_does_not_show_it(
    statistics: Any, x: Any, names: str
) -> None:
    assert f"{names}: {SAID}" in printed(schema(statistics, x))


def test_what_it_says_is_so_and_what_it_advises_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    built_in_rules_only(monkeypatch)
    nulls = pd.DataFrame({"x": pd.array([None] * 1000, dtype="Int64")})

    def statuses(draws: int, *beside: str) -> list[str]:
        made = redrawn(nulls, schema(["median(x)", *beside]), draws)
        return [
            next(r["status"] for r in each.table.to_pylist() if r["statistic"] == "median_x")
            for each in made
        ]

    assert statuses(1) == ["no_interval"]
    told = statuses(20, "mean(x)")
    assert told.count("empty_signal") >= 12  # 95 % of draws: fewer than 12 of 20 with p < 1e-6
    assert set(told) <= {"empty_signal", "uninformative", "no_interval"}
