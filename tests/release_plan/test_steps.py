"""Cells are moved to a column's steps before anything is compared with them: what a request is told of it."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
import pytest

import dprelease as dp
from dprelease.core.errors import ConfigError
from tests.rules_alone import built_in_rules_only

MADE = {"kind": "number", "range": [0, 1], "step": 1, "from": "if(x > 2000, 1, 0)"}


def schema(statistic: str, step: Any = None, made: bool = False, **release: Any) -> dict[str, Any]:
    x = {"kind": "number", "range": [0, 1_000_000]} | ({} if step is None else {"step": step})
    return {
        "dprelease": "schema/1", "name": "t", "unit": "row", "adjacency": "add_remove",
        "rows": {"max": 20_000, "expected": 1000}, "columns": {"x": x} | ({"y": MADE} if made else {}),
        "release": {"epsilon": 900, "statistics": [statistic], **release},
    }  # fmt: skip


MOVED = "its cells are moved to steps of 1000 first, by up to 500"


def told(schema: dict[str, Any]) -> list[str]:
    """What the printed plan says of constants."""
    text = " ".join(str(dp.plan(schema)).split())
    return re.findall(r"`x` is compared (with .*? first, by up to [\d.]+)", text)


CONSTANTS = {
    "proportion(x >= 300)": "300",
    "proportion(300 < x)": "300",
    "proportion(x = 1500)": "1500",
    "proportion(not x between 1000 and 29.5)": "29.5",
    "proportion(x in (0, 1000, 7))": "7",
    "histogram(x, [0, 2500, 1000000])": "2500",
    "cdf(x, [1000, 2250])": "2250",
}


@pytest.mark.parametrize("statistic", CONSTANTS)
def test_a_constant_between_steps_that_nobody_declared_is_refused_and_either_fix_works(
    statistic: str,
) -> None:
    with pytest.raises(ConfigError) as caught:
        dp.plan(schema(statistic))
    assert caught.value.code == "DPR164"
    assert caught.value.what == f"{CONSTANTS[statistic]} lies between two steps of `x`"
    [finer, meant] = re.findall(r"step: ([\d.]+)", caught.value.fix or "")
    assert told(schema(statistic, float(finer))) == []
    [said] = told(schema(statistic, float(meant)))
    assert said == f"with {CONSTANTS[statistic]}, on no step of it: {MOVED}"


def test_filters_and_made_columns_are_read_alike() -> None:
    with pytest.raises(ConfigError, match="lies between two steps"):
        dp.plan(schema("count", where="x < 1001"))
    assert told(schema("count", made=True)) == [f"with 2000: {MOVED}"]
    schema_ = schema("count", made=True)
    schema_["columns"]["y"]["from"] = "if(x > 2001, 1, 0)"
    with pytest.raises(ConfigError, match="lies between two steps"):
        dp.plan(schema_)


def test_a_constant_on_a_step_that_nobody_declared_is_told_in_the_plan() -> None:
    assert told(schema("proportion(x >= 1000)")) == [f"with 1000: {MOVED}"]
    for quiet in ("count", "mean(x)"):
        assert told(schema(quiet)) == []
    assert told(schema("proportion(x >= -5)", 1000)) == []
    whole = schema("proportion(x >= 17.5)")
    whole["columns"]["x"] = {"kind": "integer", "range": [0, 110]}
    assert told(whole) == []  # whole numbers are on their steps already


def test_what_the_fix_leads_to_is_near_the_plain_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    built_in_rules_only(monkeypatch)
    frame = pd.DataFrame({"x": [float(i) for i in range(1000)]})
    share = dp.release(frame, schema("proportion(x >= 300)", 100)).to_pandas(intervals=False)
    assert abs(share.iloc[0, 0] - 0.75) < 0.01  # a half goes up: from 250 on
    share = dp.release(frame, schema("proportion(x >= 300)", 1)).to_pandas(intervals=False)
    assert abs(share.iloc[0, 0] - 0.7) < 0.01


@pytest.mark.parametrize(
    ("condition", "at"),
    [
        ("x * 2 >= 601", "300.5"),
        ("601 <= 2 * x", "300.5"),
        ("x + x > 601", "300.5"),
        ("x - 1 > 300", "301"),
        ("-x < -301", "301"),
        ("1000 - x > 301", "699"),
        ("x >= 601 / 2", "300.5"),
        ("3 * x > 100", "100/3"),
        ("(x - 500) / 2 in (0, 250)", "500"),
        ("x + 1 between 301 and 5001", "300"),
        ("x * 3 > 602 + x", "301"),
    ],
)
def test_what_a_linear_expression_is_compared_with_is_looked_at_too(
    condition: str, at: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(at)} lies between two steps of `x`"):
        dp.plan(schema("count", where=condition))
    [finer] = re.findall(
        r"at most `step: ([\d./]+)`", str(_refusal(schema("count", where=condition)))
    )
    assert told(schema("count", finer, where=condition)) == []


def _refusal(asked: dict[str, Any]) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        dp.plan(asked)
    return caught.value


@pytest.mark.parametrize(
    "condition", ["abs(x) > 301", "x * x > 9", "x / (x + 1) > 0.5", "x % 7 = 1", "floor(x) > 301"]
)
def test_of_other_expressions_the_plan_tells_in_which_steps_cells_are_read(condition: str) -> None:
    text = " ".join(str(dp.plan(schema("count", where=condition))).split())
    assert "`x` is read in an expression: its cells are moved to steps of 1000 first" in text
    assert "is read in" not in str(dp.plan(schema("count", 1000, where=condition)))


def test_a_made_column_tells_it_too_and_a_deep_expression_is_no_fault_of_ours() -> None:
    asked = schema("sum(y)", made=True)
    asked["columns"]["y"]["from"] = "x * 2"
    assert "`x` is read in an expression" in " ".join(str(dp.plan(asked)).split())
    assert _refusal(schema("count", where=f"x{' + 1' * 900} > 1000")).code == "DPR121"
