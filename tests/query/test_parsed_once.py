"""A text is read once: what is handed on is its tree."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pandas as pd
import pytest

import dprelease as dp
from dprelease.query import statistic
from dprelease.query.expression import parse_expression
from dprelease.query.tokens import TokenReader
from dprelease.schema.column import Column

FROM, WHERE, CONDITION = "age + 1", "age >= 18 and older > 19", "age > 65"
SCHEMA = {
    "dprelease": "schema/1",
    "name": "visits",
    "unit": "row",
    "adjacency": "add_remove",
    "rows": {"max": 1000},
    "columns": {
        "age": {"kind": "integer", "range": [0, 120]},
        "older": {"kind": "integer", "from": FROM, "range": [0, 121]},
        "region": {"kind": "category", "values": ["n", "s"]},
    },
    "release": {
        "epsilon": 1,
        "statistics": ["count", "mean(older)", f"proportion({CONDITION})"],
        "where": WHERE,
    },
}


@pytest.fixture
def read(monkeypatch):
    """Count how often the tokens of each text are read."""
    texts: Counter[str] = Counter()
    honest = TokenReader.__init__

    def counting(self, text, *rest):
        texts[text] += 1
        honest(self, text, *rest)

    monkeypatch.setattr(TokenReader, "__init__", counting)
    return texts


def test_each_text_is_parsed_when_its_file_is_read_and_never_again(read):
    schema = dp.Schema.from_dict(SCHEMA)
    once = {FROM: 1, WHERE: 1, CONDITION: 1}
    assert read == once
    plan = dp.plan(schema)
    assert read == once
    assert plan.where == "(age >= 18) and (older > 19)"
    assert plan.query.where is not None
    assert plan.query.where.source == WHERE
    dp.plan(schema, epsilon=2, by=["region"])
    assert read == once


def test_a_block_that_leaves_its_epsilon_to_the_caller_is_parsed_once(read):
    block = {key: value for key, value in SCHEMA["release"].items() if key != "epsilon"}
    dp.plan({**SCHEMA, "release": block}, epsilon=1)
    assert read == {FROM: 1, WHERE: 1, CONDITION: 1}


def test_a_statistic_of_the_schema_is_parsed_with_it_and_not_for_a_plan(monkeypatch):
    texts: Counter[str] = Counter()
    honest = statistic.parse_statistic

    def counting(item, **places):
        texts[str(item)] += 1
        return honest(item, **places)

    monkeypatch.setattr(statistic, "parse_statistic", counting)
    once = dict.fromkeys(SCHEMA["release"]["statistics"], 1)
    schema = dp.Schema.from_dict(SCHEMA)
    assert texts == once
    dp.plan(schema)
    dp.plan(schema, epsilon=2, by=["region"], where="age > 3")
    assert texts == once
    dp.plan(schema, statistics=["count"])  # the control: other ones are parsed
    assert texts == once | {"count": 2}


def test_a_filter_of_a_call_is_parsed_once(read):
    plan = dp.plan(dp.Schema.from_dict(SCHEMA), where="age between 3 and 9")
    assert read["age between 3 and 9"] == 1
    assert plan.request.spec.where is plan.query.where is plan.request.where


def test_a_publication_parses_nothing_but_the_filter_that_it_says_once(read, tmp_path):
    schema = dp.Schema.from_dict(SCHEMA)
    where = "age >= 17.25 and older > 19"  # of no other test: its words are kept
    ledger = dp.create_ledger(tmp_path / "ledger.db", schema, epsilon=2, dataset="visits")
    frame = pd.DataFrame({"age": range(100), "region": ["n", "s"] * 50})
    release = frame.dp.release(schema, where=where, ledger=ledger, dataset="visits", period="w1")
    assert read == {FROM: 1, WHERE: 1, CONDITION: 1, where: 1}
    folder = release.publish(tmp_path / "public")
    assert {"report.html", "registry.yaml"} <= {path.name for path in folder.iterdir()}
    said = release.plan.where
    assert read == {FROM: 1, WHERE: 1, CONDITION: 1, where: 1, said: 1}


def test_the_counter_sees_a_second_parse(read):
    schema = dp.Schema.from_dict(SCHEMA)
    parse_expression(FROM, schema.columns, origin="test")
    assert read[FROM] == 2
    blind = {name: replace(column, made=None) for name, column in schema.columns.items()}
    dp.plan(replace(schema, columns=blind, conditions=(), release=None))
    assert read[FROM] > 2
    assert read[WHERE] == read[CONDITION] == 2


def test_a_tree_decides_nothing_that_is_compared():
    schema = dp.Schema.from_dict(SCHEMA)
    older: Column = schema.columns["older"]
    assert older.made is not None
    assert replace(older, made=None) == older
    assert hash(replace(older, made=None)) == hash(older)
