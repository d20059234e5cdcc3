"""A condition that is said to be known on every row is known on every row, and makes its share a count."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from dprelease.core.errors import InternalError
from dprelease.engines.clean_rows import cleaned
from dprelease.planning.make import make_plan
from dprelease.query.expression import evaluate, parse_condition
from dprelease.query.load import Schema
from dprelease.query.merge import merge_release
from dprelease.query.never_null import never_null
from dprelease.query.spec import resolve
from dprelease.release_plan.plan import ReleasePlan
from dprelease.wall import execute

CELLS: dict[str, list[Any]] = {
    "a": [None, math.nan, -math.inf, math.inf, -1e308, 0.0, 3.0, 1e308],
    "open": [None, math.nan, -math.inf, math.inf, -1e308, 0.0, 1e308],
    "hole": [None, math.nan, 0.0, 3.0],
    "b": [None, True, False],
    "c": [None, "x", "elsewhere"],
    "d": [None, "x", "elsewhere"],
}
COLUMNS: dict[str, dict[str, Any]] = {
    "a": {"kind": "number", "range": [-5, 5], "step": 1, "nulls": {"default": 0}},
    "open": {"kind": "number", "nulls": {"default": 0}},
    "hole": {"kind": "number", "range": [0, 5], "step": 1},
    "b": {"kind": "boolean", "nulls": {"default": False}},
    "c": {"kind": "category", "values": ["x"], "other": {"as": "rest"}, "nulls": {"as": "none"}},
    "d": {"kind": "category", "values": ["x"], "nulls": {"as": "none"}},
    "day": {"kind": "date"},
}
KNOWN = (
    "a > 2",
    "open > 2",
    "b",
    "c = 'x'",
    "a in (1, 2)",
    "not (a between 0 and 3) and b",
    "hole is null",
    "hole is not null or a = 1",
    "coalesce(hole > 2, false)",
    "coalesce(hole, a, hole) > 2",
    "if(hole > 2, a, 0) = 3",
    "case when hole = 1 then b when d = 'x' then true else false end",
    "a * a - 3 * a + 2 > 0",
    "a / 2 > 1",
    "a % 2 = 1",
    "-abs(a) < 0",
    "coalesce(hole, 3) + a > 2",
)
MAYBE = (
    "hole > 2",
    "d = 'x'",
    "day > '2020-01-01'",
    "open * open > 2",
    "open + a > 2",
    "1 / a > 1",
    "a % a = 0",
    "a / (1 - 1) > 1",
    "hole > 2 or b",
    "if(b, a, hole) > 2",
    "coalesce(hole, hole) > 1",
)


def schema_of(columns: dict[str, dict[str, Any]] = COLUMNS, **more: Any) -> Schema:
    return Schema.from_dict(
        {
            "dprelease": "schema/1",
            "name": "known",
            "unit": "row",
            "adjacency": "substitution",
            "rows": {"exact": 40},
            "columns": columns,
            **more,
        }
    )


@pytest.mark.parametrize("text", KNOWN)
def test_what_is_said_to_be_known_is_known_on_every_row(text: str) -> None:
    columns = schema_of().columns
    condition = parse_condition(text, columns, origin="test")
    assert never_null(condition, columns.values())
    names = sorted(condition.columns)
    for cells in itertools.product(*(CELLS[name] for name in names)):
        row = {n: cleaned(columns[n], _typed(v)) for n, v in zip(names, cells, strict=True)}
        assert evaluate(condition, row) in (True, False), (text, cells)


@pytest.mark.parametrize("text", MAYBE)
def test_what_may_be_null_is_not_said_to_be_known(text: str) -> None:
    columns = schema_of().columns
    assert not never_null(parse_condition(text, columns, origin="test"), columns.values())


@pytest.mark.parametrize("text", ["hole > 2", "d = 'x'", "open * open > 2", "1 / a > 1"])
def test_control_these_conditions_are_null_on_some_row(text: str) -> None:
    columns = schema_of().columns
    condition = parse_condition(text, columns, origin="test")
    names = sorted(condition.columns)
    rows = itertools.product(*(CELLS[name] for name in names))
    found = [
        evaluate(
            condition, {n: cleaned(columns[n], _typed(v)) for n, v in zip(names, r, strict=True)}
        )
        for r in rows
    ]
    assert None in found


def _typed(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def planned(text: str, columns: dict[str, dict[str, Any]] = COLUMNS, **more: Any) -> ReleasePlan:
    release = {"epsilon": 1, "statistics": [text]}
    schema = schema_of(columns, **({"release": release} | more))
    return make_plan(resolve(schema, merge_release(schema)))


def test_a_share_of_a_public_number_of_rows_is_a_count_that_a_row_moves_by_one() -> None:
    (block,) = planned("proportion(a > 2)").blocks
    assert block.measurement.family == "scalar"
    assert (block.measurement.l1_replaced_row, block.measurement.public_rows) == (1, 40)
    assert block.measurement.step_size == Fraction(1, 40)


@pytest.mark.parametrize(
    "change",
    [
        {"adjacency": "add_remove", "rows": {"max": 40}},
        {"rows": {"max": 40}},
        {"release": {"epsilon": 1, "statistics": ["proportion(a > 2)"], "where": "a > 0"}},
    ],
)
def test_a_private_number_of_rows_is_counted(change: dict[str, Any]) -> None:
    (block,) = planned("proportion(a > 2)", **change).blocks
    replaced = change.get("adjacency") is None
    assert block.measurement.family == ("centred_sums" if replaced else "two_sums")
    assert len(block.measurement.cells) == 2


def test_a_condition_that_may_be_null_keeps_its_two_counts() -> None:
    (block,) = planned("proportion(hole > 2)").blocks
    assert block.measurement.family == "centred_sums"
    assert len(block.measurement.cells) == 2


def test_the_wall_refuses_a_share_whose_condition_may_be_null() -> None:
    """A plan whose columns have lost their default is no longer one of a public size."""
    plan = planned("proportion(a > 2)")
    execute.check(plan)
    execute.check(ReleasePlan.from_json(plan.to_json()))  # as who verifies reads it
    holed = schema_of(COLUMNS | {"a": {"kind": "number", "range": [-5, 5], "step": 1}}).columns
    task = replace(plan.query, columns=tuple(holed.values()))
    with pytest.raises(InternalError, match="measure what the plan says"):
        execute.check(replace(plan, query=task))
