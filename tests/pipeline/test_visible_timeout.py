"""A time limit can show something about the rows: it runs only where plan, manifest and report say so."""

from __future__ import annotations

import json

import pytest

import dprelease as dp
from dprelease.budget.ledger import Ledger
from dprelease.core.errors import ConfigError, InternalError
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.pipeline import preflight
from dprelease.pipeline.planned import plan_pipeline
from dprelease.pipeline.run import load_pipeline, run
from dprelease.query.shortcuts import VISIBLE_TIMEOUT, shortcut_notes
from tests.end_to_end.projects import plans_once
from tests.faults.weekly_project import PERIOD, finished, make_project, outcome
from tests.rules_alone import built_in_rules_only

LIMIT = "engine: {timeout: 2h}\n"
ALLOW = f"release: {{allow: [{VISIBLE_TIMEOUT}]}}\n"
SAID = f"observed, not proved ({VISIBLE_TIMEOUT})"


@pytest.fixture(autouse=True)
def rules(monkeypatch):
    built_in_rules_only(monkeypatch)
    plans_once(monkeypatch)


def project(folder, more):
    pipeline = make_project(folder)
    text = pipeline.read_text().replace("formats: [csv]", "formats: [csv, html]")
    pipeline.write_text(text + more)
    return pipeline


def spent(folder):
    return Ledger.open(folder / ".dprelease" / "ledger.db").budget("visits").spent


def refused(pipeline):
    with pytest.raises(ConfigError) as caught:
        run(pipeline, period=PERIOD)
    assert caught.value.code == "DPR128"
    assert f"allow: [{VISIBLE_TIMEOUT}]" in (caught.value.fix or "")


def test_without_the_word_nothing_runs_and_nothing_is_spent(tmp_path):
    refused(project(tmp_path, LIMIT))
    assert spent(tmp_path) == 0


def test_a_limit_of_the_environment_counts(tmp_path, monkeypatch):
    pipeline = project(tmp_path, "")
    monkeypatch.setenv("DPRELEASE_TIMEOUT", "2h")
    refused(pipeline)
    assert spent(tmp_path) == 0


def test_with_the_word_plan_manifest_and_report_say_it(tmp_path):
    pipeline = project(tmp_path, LIMIT + ALLOW)
    assert any(SAID in note for note in plan_pipeline(load_pipeline(pipeline), PERIOD).notes)
    done = run(pipeline, period=PERIOD)
    manifest = json.loads((done.folder / "release.json").read_text())
    assert any(SAID in note for note in manifest["plan"]["notes"])
    assert SAID in (done.folder / "report.html").read_text()
    assert dp.verify(done.folder, ledger=tmp_path / ".dprelease" / "ledger.db").ok


def test_a_release_without_a_limit_says_nothing(tmp_path):
    notes = plan_pipeline(load_pipeline(project(tmp_path, "")), PERIOD).notes
    assert not any(VISIBLE_TIMEOUT in note for note in notes)
    assert shortcut_notes(["unproven-view"]) == []


def test_what_is_published_is_published_again_under_any_limit(tmp_path, monkeypatch):
    pipeline = project(tmp_path, "")
    run(pipeline, period=PERIOD)
    monkeypatch.setenv("DPRELEASE_TIMEOUT", "2h")
    assert not run(pipeline, period=PERIOD).receipt.fresh  # no row is read


def test_a_run_over_its_time_is_charged_and_the_next_one_completes_it(tmp_path, monkeypatch):
    pipeline = project(tmp_path, "engine: {timeout: 1s}\n" + ALLOW)
    endless = (
        "WITH t AS (SELECT count(*) FROM range(100000000) a, range(100000000) b) SELECT * FROM t"
    )
    honest = DuckDBEngine._run

    def slow(self, connection, sql, parameters=None):
        if sql.startswith("WITH"):
            return honest(self, connection, endless)
        return honest(self, connection, sql, parameters)

    with monkeypatch.context() as patch:
        patch.setattr(DuckDBEngine, "_run", slow)
        with pytest.raises(InternalError) as caught:
            run(pipeline, period=PERIOD)
    assert "the engine's limits" in (caught.value.fix or "")
    before = outcome(tmp_path)
    assert before[0] == "charged"
    pipeline.write_text(pipeline.read_text().replace("1s", "2h"))  # no part of the plan
    finished(tmp_path, before)


def test_the_python_door_is_held_to_it_too(monkeypatch):
    import pandas as pd

    def schema(**more):
        return dp.Schema.from_dict({
            "dprelease": "schema/1", "name": "t", "unit": "row", "adjacency": "add_remove",
            "rows": {"max": 100, "expected": 3},
            "columns": {"age": {"kind": "integer", "range": [0, 110]}},
            "release": {"epsilon": 1, "statistics": ["count"], **more},
        })  # fmt: skip

    frame = pd.DataFrame({"age": [30, 40, 50]})
    monkeypatch.setenv("DPRELEASE_TIMEOUT", "2h")
    with pytest.raises(ConfigError) as caught:
        dp.release(frame, schema())
    assert caught.value.code == "DPR128"
    with pytest.warns(dp.UnledgeredWarning):
        dp.release(frame, schema(allow=[VISIBLE_TIMEOUT]))


def test_a_build_that_does_not_ask_is_caught(tmp_path, monkeypatch):
    """Broken twin: without the check the same run goes through and nobody is told."""
    monkeypatch.setattr(preflight, "VISIBLE_TIMEOUT", "")  # every note names it
    done = run(project(tmp_path, LIMIT), period=PERIOD)
    assert VISIBLE_TIMEOUT not in (done.folder / "release.json").read_text()
    with pytest.raises(pytest.fail.Exception):
        refused(tmp_path / "weekly.yaml")
