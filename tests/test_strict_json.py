"""JSON that has two meanings, or none, or no end, is refused by its one reader."""

from __future__ import annotations

import json

import pytest

from dprelease import strict_json
from dprelease.strict_json import canonical_json, read_json


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
