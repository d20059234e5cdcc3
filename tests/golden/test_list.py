"""Whoever changes a golden record touches the list of differences: README.md names each file's digest."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.golden.records import PARTS, counted, digest, read

LIST = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("part", PARTS)
def test_the_list_of_differences_is_of_these_records(part: str) -> None:
    records = read(part)["records"]
    line = f"| {part}.json | {len(records):,} | `{digest(records)}` |"
    assert line in LIST, (
        f"{part}.json changed: say what and why in tests/golden/README.md, and put this there: {line}"
    )


def test_one_changed_record_is_another_digest() -> None:
    records = read("plans")["records"]
    before = digest(records)
    records["count row epsilon=2"]["value"] += 1
    assert digest(records) != before


def test_changed_records_are_counted_by_field() -> None:
    old = {"records": {"a": {"x": 1, "y": 2}, "b": {"x": 1}, "c": {"x": 1}}}
    new = {"records": {"a": {"x": 2, "y": 3}, "b": {"x": 2}, "d": {"x": 1}}}
    said = "3 records; of 3 before, 2 changed (x 2, y 1), 1 are gone; 1 are new"
    assert counted(old, new) == said


@pytest.mark.parametrize("title", ["Plans", "Laws"])
def test_each_line_of_the_list_names_a_commit_the_fields_and_a_reason(title: str) -> None:
    rows = LIST.split(f"## {title} that changed")[1].split("\n## ")[0]
    lines = [line for line in rows.splitlines() if line.startswith("| ")]
    for line in lines[1:]:
        commit, changed, fields, reason = (cell.strip() for cell in line.strip("|").split("|"))
        assert re.fullmatch(r"[0-9a-f]{7}|with this list", commit)
        assert reason
        assert bool(fields) is not changed.startswith("none")
