"""Quotients of sums over the same rows: never beyond what one row of clamped values allows."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import dprelease as dp

pytestmark = pytest.mark.filterwarnings("ignore::dprelease.core.errors.UnledgeredWarning")
GROUPS = ["a", "b"]
X = {"kind": "number", "range": [2, 10], "step": 0.5}


def released(statistics: list[Any], *, unit: Any = "row", x: Any = X, **more: Any) -> dp.Release:
    """Small groups: the noise outweighs every denominator."""
    rows = {"g": GROUPS * 4, "x": [3.0, 9.5] * 4, "y": [2.0, 1.0] * 4, "who": list("ababcdcd")}
    columns = {
        "g": {"kind": "category", "values": GROUPS},
        "x": x,
        "y": {"kind": "integer", "range": [1, 4], "nulls": {"default": 1}},
        "who": {"kind": "identifier"},
    }
    if unit == "row":
        del columns["who"]
    request = {
        "dprelease": "schema/1",
        "name": "t",
        "unit": unit,
        "adjacency": "add_remove",
        "rows": {"max": 500, "expected": 10},
        "columns": columns,
        "release": {"epsilon": 0.5, "by": ["g"], "statistics": statistics, **more},
    }
    return dp.release(pd.DataFrame(rows), request)


CASES: list[tuple[str, float, float]] = [
    ("sum_x / count", 0, 10),  # a null adds to the count and not to the sum
    ("sum_y / count", 1, 4),
    ("2 * sum_y / count", 2, 8),
    ("(count - low) / count", 0, 1),
    ("sum_x / sum_y", 0, 10),
    ("count / sum_y", 0.25, 1),
    ("(sum_y - count) / count", 0, 3),
    ("1 - low / count", 0, 1),
]
BINS = {"statistic": "histogram(y, [0, 3, 5])", "as": "low"}


@pytest.fixture(scope="module")
def small() -> dp.Release:
    return released(["sum(x)", "count", "sum(y)", BINS])


@pytest.mark.parametrize(("expression", "low", "high"), CASES)
@pytest.mark.parametrize("by", [None, []])
def test_a_quotient_over_the_same_rows_stays_where_one_row_puts_it(
    small, expression, low, high, by
):
    written = expression.replace("low", '"low[0,3)"')
    table = small.derive(written, by=by).table.to_pylist()
    assert table
    for row in table:
        value = row["lower"] if row["value"] is None else row["value"]  # a count of 0
        assert low <= row["lower"] <= value <= row["upper"] <= high


def test_other_rows_bound_nothing(small):
    """The control: the next group's count, and sums in which each row may add nothing."""
    for expression in ("sum_x / count[g='b']", "count / sum_x"):
        assert small.derive(expression).domain[1] == float("inf")
    zero = released(["sum(x)", "count"], x={**X, "range": [0, 10], "nulls": {"default": 0}})
    assert zero.derive("sum_x / count").domain == (0, 10)
    assert zero.derive("count / sum_x").domain[1] == float("inf")


def test_a_unit_adds_what_its_rows_do():
    user = {"user": "who", "max_groups": 1, "max_rows_per_group": 3}
    release = released(["sum(y)", "count", "count(persons)"], unit=user)
    assert release.derive("count / count_persons").domain == (1, 3)
    assert release.derive("sum_y / count_persons").domain == (1, 12)
    assert release.derive("sum_y / count").domain == (1, 4)


def test_tables_that_add_up_bound_it_by_what_their_plan_says():
    tables = [
        {"name": "all", "by": [], "statistics": ["count", "sum(x)"]},
        {"name": "parts", "by": ["g"], "statistics": ["count", "sum(x)"]},
    ]
    request: dict[str, Any] = {
        "dprelease": "schema/1",
        "name": "t",
        "unit": "row",
        "adjacency": "add_remove",
        "rows": {"max": 500, "expected": 10},
        "columns": {
            "g": {"kind": "category", "values": GROUPS},
            "x": {**X, "nulls": {"default": 2}},
        },
        "release": {"epsilon": 0.5, "tables": tables},
    }
    release = dp.release(pd.DataFrame({"g": GROUPS * 4, "x": [3.0, 9.5] * 4}), request)
    for table in ("all", "parts"):
        derived = release.derive("sum_x / count", table=table)
        assert derived.domain == (2, 10)
        for row in derived.table.to_pylist():
            assert 2 <= row["lower"] <= row["upper"] <= 10
