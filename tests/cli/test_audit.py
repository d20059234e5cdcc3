"""`dprelease audit`: the evidence, its JSON, a broken claim, and that no row is read."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest
from typer.testing import CliRunner

from dprelease.audit import plan as audit_plan_module
from dprelease.cli import app
from dprelease.engines.reference import ReferenceEngine
from dprelease.pipeline import run as pipeline_run
from tests.end_to_end.projects import clinic
from tests.planning.requests import planned


@pytest.fixture
def project(tmp_path):
    return clinic(tmp_path)


def test_the_evidence_as_json_and_no_row_is_read(project, monkeypatch):
    (project.parent.parent / "data" / "visits.csv").unlink()  # there is nothing to read
    ledger = (project.parent.parent / ".dprelease" / "ledger.db").read_bytes()
    said = CliRunner().invoke(app, ["audit", str(project), "--draws", "400", "--json"])
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert found["ok"]
    assert found["seconds"] > 0
    layers = {f["layer"] for f in found["findings"]}
    assert layers == {"A exact laws", "A exact pairs", "B draws", "C black box"}
    assert all(f["size"] and f["claimed"] and f["found"] for f in found["findings"])
    assert (project.parent.parent / ".dprelease" / "ledger.db").read_bytes() == ledger


def test_a_plan_that_lies_is_broken(project, monkeypatch):
    """The same command over a plan that claims half of what it costs."""
    honest = pipeline_run.plan_pipeline

    def lying(config, period=None):
        plan = honest(config, period)
        return replace(plan, epsilon=plan.epsilon / 2)

    monkeypatch.setattr(pipeline_run, "plan_pipeline", lying)
    said = CliRunner().invoke(app, ["audit", str(project), "--draws", "200"])
    assert said.exit_code == 1, said.output
    assert "FAIL  A exact pairs" in said.stdout
    assert "a claim is BROKEN" in said.stdout


def test_too_few_draws_are_bad_usage(project):
    assert CliRunner().invoke(app, ["audit", str(project), "--draws", "5"]).exit_code == 2


@pytest.mark.parametrize(
    "plan",
    [
        planned(["median(x)"], by=["g"]),
        planned([{"statistic": "mean(x)", "spikes": "forbid", "domain": {"step": 0.5}}], rows={"max": 60}),
        planned(
            [{"statistic": "count", "mechanism": "rectified_gaussian"}], delta=Fraction(1, 10**6)
        ),
    ],
    ids=["choice", "mean", "delta"],
)
def test_other_kinds_of_draws(plan):
    evidence = audit_plan_module.audit_plan(plan, ReferenceEngine(), draws=300, pairs=2)
    assert evidence.ok, evidence.to_json()
    assert {f.layer for f in evidence.findings} >= {"A exact pairs", "B draws", "C black box"}
