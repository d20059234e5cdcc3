"""A schema in a notebook: everything declared is there, and hostile text stays text."""

from __future__ import annotations

import dprelease as dp

SCHEMA = {
    "dprelease": "schema/1",
    "name": "visits",
    "unit": "row",
    "adjacency": "add_remove",
    "rows": {"max": 1000, "expected": 100},
    "columns": {
        "region": {
            "kind": "category",
            "values": ["<b>", *"abcdefgh"],
            "other": {"as": "elsewhere"},
            "nulls": {"as": "unknown"},
        },
        "age": {"kind": "integer", "measure": "years", "range": [0, 100], "nulls": {"default": 25}},
        "decade": {
            "kind": "integer",
            "from": "floor(age / 10) * 10",
            "range": [0, 100],
            "step": 10,
        },
    },
    "release": {"epsilon": 1, "by": ["region"], "statistics": ["count", "mean(age)"]},
}


def test_everything_declared_is_shown_and_escaped():
    shown = dp.Schema.from_dict(SCHEMA)._repr_html_()
    for words in (
        "Schema visits", "one row, added or removed", "at most 1,000, about 100 per group",
        "epsilon 1: count, mean(age) by region", "years", "as 25", "as unknown",
        "others as elsewhere", "(9 in all)", "made as floor(age / 10) * 10", "&lt;b&gt;",
    ):  # fmt: skip
        assert words in shown
    assert "<b>" not in shown


def test_a_schema_without_a_release_is_shown_too():
    bare = {k: v for k, v in SCHEMA.items() if k != "release"}
    assert "releases" not in dp.Schema.from_dict(bare)._repr_html_()
