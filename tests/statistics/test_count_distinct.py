"""Distinct values: which columns have a public list, and what is counted."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from dprelease.core.errors import PlanError
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.source import as_source
from dprelease.query.bounded import Label
from dprelease.release_plan.plan import ReleasePlan
from tests.planning.requests import declared, planned

COLUMNS: dict[str, Any] = {
    "kind": {"kind": "category", "values": ["red", "green", "blue"], "other": {"as": "else"}},
    "flag": {"kind": "boolean"},
    "stars": {"kind": "integer", "range": [1, 5]},
    "wide": {"kind": "integer", "range": [0, 100_000]},
    "when": {"kind": "date"},
}


@pytest.mark.parametrize(("column", "upper"), [("kind", 3), ("flag", 2), ("stars", 5)])
def test_the_domain_is_the_number_of_possible_values(column: str, upper: int) -> None:
    plan = planned([f"count_distinct({column})"], columns=COLUMNS)
    (statistic,) = plan.statistics
    assert statistic.domain.hull == (0, upper)
    assert statistic.step == 1
    assert statistic.measure == "values"
    assert f"among {upper} possible values" in statistic.notes[0]


@pytest.mark.parametrize(
    ("column", "nulls", "rows", "ends"),
    [
        ("stars", {"default": 3}, 2, (1, 2)),
        ("stars", {"default": 3}, 9, (1, 5)),
        ("stars", None, 9, (0, 5)),  # every row may be a null
        ("kind", None, 9, (0, 3)),  # every row may hold another value
    ],
)
def test_of_a_public_number_of_rows_with_values_there_is_at_least_one(
    column: str, nulls: dict[str, Any] | None, rows: int, ends: tuple[int, int]
) -> None:
    columns = {**COLUMNS, column: COLUMNS[column] | ({"nulls": nulls} if nulls else {})}
    public: dict[str, Any] = {"rows": {"exact": rows}, "adjacency": "substitution", "unit": "row"}
    plan = planned([f"count_distinct({column})"], columns=columns, **public)
    assert plan.statistics[0].domain.hull == ends
    assert f"among {3 if column == 'kind' else 5} possible values" in plan.statistics[0].notes[0]
    (block,) = plan.blocks
    assert (block.measurement.lower, block.measurement.upper) == ends


@pytest.mark.parametrize("column", ["x", "wide", "when", "who"])
def test_a_column_without_a_short_public_list_is_refused(column: str) -> None:
    with pytest.raises(PlanError) as caught:
        planned([f"count_distinct({column})"], columns=COLUMNS)
    assert caught.value.code == "DPR216"
    assert caught.value.fix


def test_other_values_and_nulls_are_none_of_the_values() -> None:
    plan = planned(
        ["count_distinct(kind)", "count_distinct(flag)", "count_distinct(stars)"],
        columns=COLUMNS,
        epsilon=3,
    )
    frame = pd.DataFrame(
        {
            "kind": ["red", "pink", None, "blue", "red", "else"],
            "flag": [True, None, True, True, None, True],
            "stars": [1, 9, 5, None, 2, -4],
        }
    )
    answer = DuckDBEngine().compute(as_source(frame), plan.query, b"s").reveal_to_mechanism()
    assert answer.sums[0].tolist() == [
        2,
        1,
        3,
    ]  # out of range counts as the nearest: 9 is 5, -4 is 1


def test_the_task_says_which_values_are_counted() -> None:
    plan = planned(["count_distinct(kind)"], columns=COLUMNS)
    again = ReleasePlan.from_json(plan.to_json()).query
    assert again.codes == plan.query.codes == (Label("kind", ("red", "green", "blue")),)
    assert declared(["count"], columns=COLUMNS).columns["kind"].other == "else"
