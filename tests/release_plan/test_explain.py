"""What a plan says of a law that a request may prefer: once, and only where it is true."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from dprelease.release_plan.explain import html, text
from tests.planning.requests import planned

SHORT = {"kind": "number", "range": [0, 99], "step": 1}
FLIPS = "permute_and_flip"
MEDIAN: Any = {"statistic": "median(x)"}


def said(statistics: list[Any], **request: Any) -> list[str]:
    request = {"x": SHORT, "columns": {"y": SHORT}, **request}
    lines = text(planned(statistics, **request), width=10_000).splitlines()
    return [line for line in lines if f"mechanism: {FLIPS}" in line]


def test_the_advice_is_one_line_for_all_that_it_is_true_of() -> None:
    (line,) = said(["median(x)", "min(y)", "count"])
    assert line.startswith("median_x, min_y: `mechanism: permute_and_flip` errs less in rank")
    assert "up to four times the rho" in line


@pytest.mark.parametrize(
    "request_",
    [
        {"statistics": [{**MEDIAN, "mechanism": "exponential"}]},
        {"statistics": [{**MEDIAN, "mechanism": FLIPS}]},
        {"statistics": [{**MEDIAN, "interval": True}]},
        {"statistics": [f"quantile(x, {p})" for p in (0.25, 0.5, 0.75)]},  # chosen together
        {"statistics": ["median(x)"], "x": {**SHORT, "range": [0, 512]}},  # one too many
        {"statistics": ["count"]},
    ],
)
def test_advice_is_not_given_where_it_cannot_be_followed(request_: dict[str, Any]) -> None:
    assert said(**request_) == []
    assert said(**{**request_, "statistics": ["median(x)"], "x": SHORT}) != []  # control


def test_under_a_rho_it_would_cost_more() -> None:
    """Many medians share a rho: at an equal one the exponential mechanism has twice the epsilon."""
    columns = {f"x{i}": {**SHORT, "range": [0, 9]} for i in range(24)}
    medians = [{"statistic": f"quantile(x{i}, 0.5)", "as": f"m{i}"} for i in range(24)]
    plan = planned(medians, delta=Fraction(1, 10**6), columns=columns)
    assert plan.composition is not None
    assert plan.composition.method == "zcdp/1"
    assert FLIPS not in text(plan) + html(plan)
