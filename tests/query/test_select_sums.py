"""SUM of a product, and one SUM divided by another, in the SQL door."""

from __future__ import annotations

from typing import Any

import pytest

from dprelease.core.errors import DpreleaseError
from dprelease.query.load import Schema
from dprelease.query.select import parse_select

SCHEMA = Schema.from_dict(
    {
        "dprelease": "schema/1",
        "name": "t",
        "unit": "row",
        "adjacency": "add_remove",
        "rows": {"max": 100},
        "columns": {
            "x": {"kind": "number", "range": [0, 10], "step": 1},
            "a": {"kind": "number", "range": [0, 10], "step": 1, "nulls": {"default": 0}},
            "w": {"kind": "integer", "range": [0, 5]},
            "odd name": {"kind": "integer", "range": [0, 5]},
        },
    }
)


def read(items: str) -> Any:
    return parse_select(f"SELECT {items} FROM t", SCHEMA).block["statistics"]


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ("SUM(x)", "sum(x)"),
        ("SUM(x * w)", "weighted_sum(x, w)"),
        ('SUM(t.x * "odd name")', 'weighted_sum(x, "odd name")'),
        ("SUM(x) / SUM(w)", "ratio(x, w)"),
        ("SUM(a * w) / SUM(w)", "weighted_mean(a, w)"),
        ("SUM(w * a) / SUM(t.w)", "weighted_mean(a, w)"),
        ("WEIGHTED_AVG(x, w)", "weighted_mean(x, w)"),
        ("WEIGHTED_PROPORTION(x > 3, w)", "weighted_proportion(x > 3, w)"),
        ("RATIO(x, w)", "ratio(x, w)"),
    ],
)
def test_a_sum_is_the_statistic_that_it_asks_for(item: str, text: str) -> None:
    assert read(item) == [text]
    assert read(f"COUNT(*), {item} AS named") == ["count", {"statistic": text, "as": "named"}]


@pytest.mark.parametrize(
    ("item", "code", "words"),
    [
        ("SUM(x * w) / SUM(w)", "DPR256", "whose `x` is null"),
        ("SUM(x * w) / SUM(w)", "DPR256", "WEIGHTED_AVG(x, w)"),
        ("SUM(x * w) / SUM(a)", "DPR256", "sum of neither column"),
        ("SUM(x) / SUM(a * w)", "DPR256", "sum of one column"),
        ("SUM(x) / COUNT(*)", "DPR256", "one SUM by another"),
        ("AVG(x) / SUM(w)", "DPR256", "one SUM by another"),
        ("SUM(x) / 2", "DPR256", "one SUM by another"),
        ("SUM(x + w)", "DPR254", 'from: "x + w"'),
        ("SUM(x * w * a)", "DPR254", 'from: "x * w * a"'),
        ("SUM(DISTINCT x)", "DPR254", "COUNT only"),
        ("SUM(x) * SUM(w)", "DPR253", "cannot stand here"),
    ],
)
def test_what_it_cannot_say_is_refused(item: str, code: str, words: str) -> None:
    with pytest.raises(DpreleaseError) as caught:
        read(item)
    assert (caught.value.code, words in str(caught.value)) == (code, True), str(caught.value)
