"""Changes are seen once each, by an injected clock; no test waits."""

from __future__ import annotations

from pathlib import Path

from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.starter import create_starter
from dprelease.pipeline.watch import changes, files_of, stamp

A, B = Path("a"), Path("b")


def told(history, files=(A,)):
    """Watch a scripted history of stamps; return at which of its steps a change was told."""
    now = 0

    def pause():
        nonlocal now
        now += 1
        return now < len(history)

    return [now for _ in changes(lambda: files, pause, lambda p: history[now].get(p))]


def test_each_change_is_told_once():
    assert told([{A: 1}, {A: 1}, {A: 2}, {A: 2}, {A: 3}]) == [2, 4]


def test_a_file_that_is_replaced_is_told_when_it_is_back():
    assert told([{A: 1}, {}, {}, {A: 2}]) == [3]
    assert told([{}, {}, {A: 1}]) == [2]


def test_any_of_the_files_counts():
    assert told([{A: 1, B: 1}, {A: 1, B: 2}], files=(A, B)) == [1]
    assert told([{A: 1, B: 1}, {A: 1, B: 2}], files=(A,)) == []


def test_a_pipeline_s_files_are_its_own_its_schema_s_and_their_lists(tmp_path):
    create_starter(tmp_path)
    schema = tmp_path / "schemas" / "clinic.yaml"
    (tmp_path / "schemas" / "regions.csv").write_text("region\nnorth\nsouth\n")
    text = schema.read_text().replace(
        'values: ["north", "south", "east", "west"]', "values_from: regions.csv"
    )
    schema.write_text(text)
    found = files_of(load_pipeline(tmp_path / "pipelines" / "clinic_weekly.yaml"))
    assert {p.name for p in found} == {"clinic_weekly.yaml", "clinic.yaml", "regions.csv"}
    before = stamp(schema)
    schema.write_text(text + "# more\n")
    assert stamp(schema) != before
    assert stamp(tmp_path / "none") is None
