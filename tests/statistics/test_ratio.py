"""`ratio(a, b)`: what it may be asked of, and the numbers it may be."""

from __future__ import annotations

from typing import Any

import pytest

import dprelease as dp
from dprelease.core.errors import DpreleaseError
from tests.several_tables import schema


def planned(text: str, bottom: dict[str, Any], **option: Any) -> Any:
    made = schema([{"name": "all", "by": [], "statistics": [{"statistic": text, **option}]}])
    top = {"kind": "integer", "range": [-2, 6], "nulls": {"default": 0}, "measure": "death"}
    made["columns"] |= {"deaths": top, "years": {"kind": "integer", "measure": "year", **bottom}}
    return dp.plan(made).statistics[0]


COMPLETE = {"nulls": {"default": 2}}


def test_the_domain_of_a_ratio_is_what_quotients_of_rows_allow() -> None:
    found = planned("ratio(deaths, years)", {"range": [2, 5], **COMPLETE})
    assert found.domain.hull == (-1, 3)
    assert (found.measure, found.columns) == ("death/year", ("ratio_deaths_years",))
    assert "sum(deaths) and sum(years)" in found.notes[-1]


@pytest.mark.parametrize("bottom", [{"range": [0, 5], **COMPLETE}, {"range": [2, 5]}], ids=str)
def test_a_domain_is_declared_where_rows_allow_anything(bottom: dict[str, Any]) -> None:
    with pytest.raises(DpreleaseError, match="can be any number") as caught:
        planned("ratio(deaths, years)", bottom)
    assert caught.value.code == "DPR296"
    found = planned("ratio(deaths, years)", bottom, domain={"range": [0, 1]})
    assert found.domain.hull == (0, 1)


@pytest.mark.parametrize(
    ("text", "bottom", "code", "words"),
    [
        ("ratio(deaths, years)", {"range": [-1, 5], **COMPLETE}, "DPR296", "may be negative"),
        ("ratio(deaths, deaths)", {"range": [1, 5]}, "DPR133", "two different columns"),
        ("ratio(deaths, sex)", {"range": [1, 5]}, "DPR133", "columns of numbers"),
        ("ratio(deaths, yeers)", {"range": [1, 5]}, "DPR122", "years"),
        ("ratio(deaths, years)", {}, "DPR202", "no finite range"),
    ],
)
def test_what_has_no_ratio_is_refused(
    text: str, bottom: dict[str, Any], code: str, words: str
) -> None:
    with pytest.raises(DpreleaseError) as caught:
        planned(text, bottom, domain={"range": [0, 1]})
    assert (caught.value.code, words in str(caught.value)) == (code, True), str(caught.value)


def test_a_ratio_is_measured_by_itself_or_computed_from_fitted_sums() -> None:
    made = schema()
    made["columns"]["years"] = {"kind": "integer", "range": [1, 4], "nulls": {"default": 1}}
    made["columns"]["deaths"] = {"kind": "integer", "range": [0, 6], "nulls": {"default": 0}}
    alone = dp.plan(made, statistics=["ratio(deaths, years)"], by=[])
    (block,) = alone.blocks
    assert block.family in ("ratio_sums", "ratio_ends")
    fitted = dp.plan(
        made, tables=[{"name": "all", "by": [], "statistics": ["ratio(deaths, years)"]}]
    )
    assert fitted.statistics[0].domain == alone.statistics[0].domain
    assert {b.family for b in fitted.blocks} == {"bins"}
