"""`dprelease plan`: the page, the comparison, the wish, and watching without waiting."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from dprelease.cli import app, plan
from dprelease.pipeline.starter import create_starter

SHORT = """\
dprelease: pipeline/1
name: clinic_weekly
source: {csv: ../data/visits.csv}
schema: ../schemas/clinic.yaml
release: {by: [], statistics: [count]}
budget: {ledger: ../.dprelease/ledger.db, dataset: clinic, epsilon: 12}
publish: {to: ../public}
"""


@pytest.fixture
def pipeline(tmp_path):
    create_starter(tmp_path)
    file = tmp_path / "pipelines" / "short.yaml"
    file.write_text(SHORT)
    return file


def invoke(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_the_page_is_written_and_the_wish_answered(pipeline, tmp_path):
    page = tmp_path / "plan.html"
    result = invoke("plan", pipeline, "--html", page, "--max-error", "count=2")
    assert result.exit_code == 0, result.output
    assert "count within ±2 rows" in result.output
    assert "<h1>Visits to clinics</h1>" in page.read_text(encoding="utf-8")
    assert not (tmp_path / ".dprelease" / "ledger.db").exists()  # nothing was opened, nothing spent


def test_json_has_needs_and_changes_when_asked_for(pipeline):
    asked = ["plan", pipeline, "--max-error", "count=2", "--against", pipeline, "--json"]
    said = json.loads(invoke(*asked).stdout)
    assert said["changes"] == []
    assert float(eval(said["needed"][0]["epsilon_alone"])) > 0
    assert {"needed", "changes"}.isdisjoint(json.loads(invoke("plan", pipeline, "--json").stdout))


def test_another_pipeline_is_compared(pipeline):
    other = pipeline.with_name("other.yaml")
    other.write_text(SHORT.replace("{by: []", "{epsilon: 2, by: []"))
    result = invoke("plan", pipeline, "--against", other)
    assert "×0.50" in result.output
    assert "no difference" in invoke("plan", pipeline, "--against", pipeline).output


def test_watch_and_json_exclude_each_other(pipeline):
    result = invoke("plan", pipeline, "--watch", "--json")
    assert result.exit_code == 2
    assert "DPR614" in result.output


def test_watching_shows_a_fault_and_goes_on_when_it_is_mended(pipeline, capsys, monkeypatch):
    """The clock is ours: each tick edits the file, the last one ends the watch."""
    monkeypatch.setenv("COLUMNS", "200")
    edits = iter([SHORT.replace("count]", "cuont]"), SHORT + "# mended\n"])
    seen = []

    def once():
        seen.append(pipeline.read_text())
        return plan.load_and_show(pipeline, None, None, None, [], as_json=False)

    def pause():
        text = next(edits, None)
        if text is not None:
            pipeline.write_text(text)
        return text is not None

    plan.watched(pipeline, once, pause)
    said = capsys.readouterr()
    assert len(seen) == 3
    assert "did you mean `count`" in said.err
    assert said.out.count("expected error") == 2
    assert "watching 2 files" in said.err
