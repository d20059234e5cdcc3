"""Stated errors on ordinary data: they are those of the draws, and a reader can place them."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import dprelease as dp
from dprelease.audit.answers import answer_of
from dprelease.audit.repeated import releases
from dprelease.core.errors import ConfigError
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.measurements.spread import spreads
from dprelease.planning.layout import layout
from dprelease.query.merge import merge_release
from dprelease.query.spec import resolve
from dprelease.release_plan.plan import ReleasePlan
from tests.planning.requests import asked, planned

SIZE = 2_000
DRAWS = 1_500
NUMBER = re.compile(r"±([\d,.]+)")
RHO = 0.66


@cache
def ordinary() -> dict[str, npt.NDArray[np.int64]]:
    """Return incomes and ages of 2,000 people: sds 5 and 10 % of the ranges, correlation .66."""
    random = np.random.default_rng(11)
    z = random.multivariate_normal([0, 0], [[1, RHO], [RHO, 1]], SIZE)
    income = np.clip(31_000 * np.exp(0.32 * z[:, 0]), 0, 100_000)
    age = np.clip(43 + 11 * z[:, 1], 0, 110)
    return {"income": np.rint(income).astype(np.int64), "age": np.rint(age).astype(np.int64)}


def schema(guessed: bool, public: bool, statistic: Any) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "income": {"kind": "integer", "range": [0, 200_000], "measure": "euro"},
        "age": {"kind": "integer", "range": [0, 110], "measure": "years"},
    }
    for name, column in columns.items():
        column["nulls"] = {"default": 40}
        if guessed:
            column["expected"] = {"sd": float(f"{ordinary()[name].std():.2g}")}
    if guessed and "correlation" in statistic:
        statistic = {"statistic": statistic, "expected": 0.7}
    return {
        "dprelease": "schema/1",
        "name": "people",
        "unit": "row",
        "adjacency": "substitution" if public else "add_remove",
        "rows": {"exact": SIZE} if public else {"max": 10_000, "expected": SIZE},
        "columns": columns,
        "release": {"epsilon": 1, "statistics": [statistic]},
    }


@cache
def drawn_error(statistic: str, public: bool) -> float:
    """Return the mean |error| of the draws; guesses do not change what is drawn."""
    plan = dp.plan(schema(False, public, statistic))
    answer = answer_of(plan, pa.table(ordinary()), DuckDBEngine())
    values = releases(plan, answer, DRAWS).table["value"].to_numpy()
    return float(np.abs(values - truth(statistic)).mean())


def truth(statistic: str) -> float:
    income, age = ordinary()["income"], ordinary()["age"]
    return {
        "std(income)": float(income.std()),
        "std(age)": float(age.std()),
        "variance(income)": float(income.var()),
        "covariance(age, income)": float(np.cov(income, age, bias=True)[0, 1]),
        "correlation(age, income)": float(np.corrcoef(income, age)[0, 1]),
    }[statistic]


CASES = [
    ("std(income)", False),
    ("std(age)", True),
    ("variance(income)", False),
    ("covariance(age, income)", False),
    ("correlation(age, income)", False),
    ("correlation(age, income)", True),
]


@pytest.mark.parametrize(("statistic", "public"), CASES)
def test_with_public_guesses_the_stated_error_is_the_drawn_one(
    statistic: str, public: bool
) -> None:
    (planned_one,) = dp.plan(schema(True, public, statistic)).statistics
    assert planned_one.planned_error is not None
    assert 0.5 < drawn_error(statistic, public) / planned_one.planned_error < 2
    assert len(NUMBER.findall(planned_one.error_text)) == 1


@pytest.mark.parametrize(("statistic", "public"), CASES)
def test_without_guesses_the_drawn_error_lies_between_the_stated_ones(
    statistic: str, public: bool
) -> None:
    (planned_one,) = dp.plan(schema(False, public, statistic)).statistics
    figures = [float(f.replace(",", "")) for f in NUMBER.findall(planned_one.error_text)]
    drawn = drawn_error(statistic, public)
    assert 0.7 * min(figures) < drawn < 1.4 * max(figures)
    assert planned_one.planned_error == pytest.approx(max(figures), rel=0.01)
    # What goals are compared with is not too small.
    assert planned_one.planned_error > drawn / 1.4


@pytest.mark.parametrize(
    ("statistic", "public"), [c for c in CASES if c[0].startswith(("std", "corr"))]
)
def test_the_control_values_that_fill_the_range_would_state_far_too_little(
    statistic: str, public: bool
) -> None:
    (planned_one,) = dp.plan(schema(False, public, statistic)).statistics
    fills, narrow = (float(f.replace(",", "")) for f in NUMBER.findall(planned_one.error_text))
    drawn = drawn_error(statistic, public)
    # about the middle, where ages lie, a variance of replaced rows has less noise than on average
    near_the_middle = (statistic, public) == ("std(age)", True)
    assert drawn > (1.15 if near_the_middle else 1.8) * fills
    assert drawn < 1.4 * narrow
    assert "if values fill" in planned_one.error_text
    assert "5 %" in planned_one.error_text


def one(plan: ReleasePlan) -> float:
    (statistic,) = plan.statistics
    assert statistic.planned_error is not None
    return statistic.planned_error


def test_a_goal_is_met_at_the_conservative_figure_unless_a_guess_is_declared() -> None:
    goal = [{"statistic": "std(x)", "max_error": "0.05"}]
    rows = {"max": 10_000, "expected": 500}
    x = {"kind": "number", "range": [0, 10], "step": 0.5}
    without = planned(goal, rows=rows, x=x, epsilon=None)
    guessed = planned(goal, rows=rows, x={**x, "expected": {"sd": 2}}, epsilon=None)
    assert one(without) <= 0.05
    assert one(guessed) <= 0.05
    assert guessed.epsilon < without.epsilon / 2


def test_guesses_price_and_change_nothing_that_is_drawn() -> None:
    plain = dp.plan(schema(False, False, "std(income)"))
    guessed = dp.plan(schema(True, False, "std(income)"))
    assert plain.blocks == guessed.blocks
    assert plain.statistics[0].planned_error != guessed.statistics[0].planned_error
    assert ReleasePlan.from_json(guessed.to_json()) == guessed


def test_a_mean_has_one_figure() -> None:
    (mean,) = planned(["mean(x)"], rows={"max": 10_000, "expected": 500}).statistics
    assert len(NUMBER.findall(mean.error_text)) == 1
    assert " if " not in mean.error_text


def test_each_column_has_its_own_spread() -> None:
    y = {"kind": "number", "range": [0, 4], "step": 1, "expected": {"sd": 1}}
    ((member,),) = (b.members for b in layout(asked(["correlation(x, y)"], columns={"y": y})))
    assert spreads(member, 2) == ((pytest.approx(12**-0.5), 0.25), (0.05, 0.25))


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"kind": "integer", "range": [0, 10], "expected": {"sd": 0}}, "standard deviation"),
        ({"kind": "integer", "range": [0, 10], "expected": {"sd": 6}}, "standard deviation"),
        ({"kind": "integer", "range": [0, 10], "expected": {"sd": "inf"}}, "standard deviation"),
        ({"kind": "integer", "expected": {"sd": 6}}, "range"),
        ({"kind": "boolean", "expected": {"sd": 1}}, "does not fit"),
        ({"kind": "integer", "range": [0, 10], "expected": {"mean": 4}}, "mean"),
        ({"kind": "integer", "range": [0, 10], "expected": 4}, "expected"),
    ],
)
def test_a_guess_that_cannot_be_is_refused(column: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        planned(["count"], columns={"y": column})
    assert words in str(refused.value)


@pytest.mark.parametrize("guess", [2, "often", True, -1.5])
def test_a_correlation_lies_within_one(guess: object) -> None:
    y = {"kind": "number", "range": [0, 4], "step": 1}
    with pytest.raises(ConfigError) as refused:
        planned([{"statistic": "correlation(x, y)", "expected": guess}], columns={"y": y})
    assert refused.value.code == "DPR135"


def test_only_a_correlation_has_a_guess_of_its_own() -> None:
    with pytest.raises(ConfigError) as refused:
        planned([{"statistic": "mean(x)", "expected": 3}])
    assert refused.value.code == "DPR135"
    assert "sd" in str(refused.value)


def test_a_guess_is_read_as_exact_number_and_said_in_the_schema_s_table() -> None:
    declared = dp.Schema.from_dict(schema(True, False, "std(income)"))
    assert declared.columns["income"].expected_sd == Fraction(11_000)
    assert "sd about 11000" in declared._repr_html_()
    (note,) = (
        n
        for s in dp.plan(schema(True, False, "correlation(age, income)")).statistics
        for n in s.notes
        if "public guess" in n
    )
    assert "0.7" in note
    for known, words in ((True, "as guessed, for a correlation of 0.7 as guessed, at n="),
                         (False, "of its range, for a correlation of 0, at n=")):  # fmt: skip
        plan = dp.plan(schema(known, False, "correlation(age, income)"))
        assert words in plan.statistics[0].error_text
    assert merge_release(declared)
    assert resolve(declared, merge_release(declared))
