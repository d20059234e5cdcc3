"""JSON that has two meanings, or none, or no end, is refused by its one reader."""

from __future__ import annotations

import json

import pytest

from dprelease.core import strict_json
from dprelease.core.strict_json import canonical_json, json_text, read_json


@pytest.mark.parametrize(
    "text",
    [
        "NaN", "Infinity", "-Infinity", '{"a": NaN}', "[1e999]", "-1e999", "1." + "0" * 500, "9" * 5000, '{"a": 1, "a": 1}',
        '{"a": {"b": 1, "c": 2, "b": 3}}', "[" * 100_000, "", "{", "[1,]", b"\xff", b'"\xff"', "'a'", "01", "// a\n1",
    ],
)  # fmt: skip
def test_what_no_two_readers_agree_on_is_refused(text):
    with pytest.raises(ValueError):
        read_json(text)


@pytest.mark.parametrize("text", ['{"a":[1,-2.5,"x",null,true]}', "1e308", "[]", '"\u20ac"'])
def test_what_has_one_meaning_is_read_from_text_and_bytes(text):
    assert read_json(text) == read_json(text.encode()) == json.loads(text)
    assert read_json(canonical_json(read_json(text))) == json.loads(text)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, '{"b":["€",1.5],"a":null}'),
        ({"sort_keys": True}, '{"a":null,"b":["€",1.5]}'),
        ({"indent": 1}, '{\n "b": [\n  "€",\n  1.5\n ],\n "a": null\n}'),
        ({"indent": 1, "sort_keys": True}, '{\n "a": null,\n "b": [\n  "€",\n  1.5\n ]\n}'),
    ],
)
def test_what_is_written_has_one_meaning(settings, text):
    assert json_text({"b": ["€", 1.5], "a": None}, **settings) == text
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            json_text([value], **settings)


def test_values_are_counted_before_they_are_parsed(monkeypatch):
    monkeypatch.setattr(strict_json, "MOST_VALUES", 10)
    assert read_json(json.dumps(list(range(10)))) == list(range(10))
    with pytest.raises(ValueError, match="more than 10 values"):
        read_json(json.dumps(list(range(11))))


def test_bytes_are_counted_before_they_are_decoded(monkeypatch):
    monkeypatch.setattr(strict_json, "MOST_BYTES", 2**20)
    assert read_json('"' + "a" * (2**20 - 2) + '"')
    with pytest.raises(ValueError, match="larger than 1 MiB"):
        read_json(b"\xff" * (2**20 + 1))


@pytest.mark.parametrize(
    "short",
    [
        '["range(0, 9, 1)", "range(0, 1, 0.1)"]',
        '["r\\u0061nge(0, 9, 1)", {"a": ["range(0,9,1)"]}]',
        json.dumps({"edges": "range(0, 9, 1)", "name": "a" * 128}),
        json.dumps({"edges": "[0, 1, 2]", "name": "a" * 640}),
    ],
)
def test_what_short_lists_stand_for_is_counted_before_they_are_read(monkeypatch, short):
    """A few bytes stand for a hundred thousand labels, each with its name: 20,000 such lines would fill the memory."""
    monkeypatch.setattr(strict_json, "MOST_VALUES", 15)
    with pytest.raises(ValueError, match="stands for more than 15 values"):
        read_json(short)
    assert read_json('["range(0, 9, 1)", "range(2, 1, 1)", "range of ages"]')
    assert read_json(json.dumps({"edges": "range(0, 9, 1)", "name": "a" * 63}))
