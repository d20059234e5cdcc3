"""A text is read once: what is handed on is its tree."""

from __future__ import annotations

from collections import Counter

import pytest

import dprelease as dp
from dprelease.query import expression

SCHEMA = {
    "dprelease": "schema/1",
    "name": "visits",
    "unit": "row",
    "adjacency": "add_remove",
    "rows": {"max": 1000},
    "columns": {
        "age": {"kind": "integer", "range": [0, 120]},
        "region": {"kind": "category", "values": ["n", "s"]},
    },
    "release": {
        "epsilon": 1,
        "statistics": ["count", "proportion(age > 65)"],
        "where": "age >= 18",
    },
}


@pytest.fixture
def read(monkeypatch):
    """Count how often each text is parsed."""
    texts: Counter[str] = Counter()
    honest = expression.Parser

    def counting(text, columns, origin):
        texts[text] += 1
        return honest(text, columns, origin)

    monkeypatch.setattr(expression, "Parser", counting)
    return texts


def test_a_filter_is_parsed_when_its_file_is_read_and_never_again(read):
    schema = dp.Schema.from_dict(SCHEMA)
    assert read["age >= 18"] == 1
    plan = dp.plan(schema)
    assert read["age >= 18"] <= 2  # the caller's release is merged from the block as written
    assert plan.where == "age >= 18"
    assert plan.query.where is not None
    assert plan.query.where.source == "age >= 18"


def test_a_filter_of_a_call_is_parsed_once(read):
    plan = dp.plan(dp.Schema.from_dict(SCHEMA), where="age between 3 and 9")
    assert read["age between 3 and 9"] == 1
    assert plan.asked.spec.where is plan.query.where is plan.asked.where
