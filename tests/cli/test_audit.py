"""`dprelease audit`: the evidence, its JSON, a broken claim, and that no row is read."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from functools import partial

import pytest
from typer.testing import CliRunner

from dprelease.audit import plan as audit_plan_module
from dprelease.cli import app
from dprelease.cli import audit as cli_audit
from dprelease.core import registry
from dprelease.core.errors import InternalError
from dprelease.core.secret import Secret
from dprelease.engines.reference import ReferenceEngine
from dprelease.pipeline import planned as pipeline_plan
from tests.end_to_end.projects import clinic
from tests.pipeline.tiny import loaded
from tests.planning.requests import planned


@pytest.fixture
def few_pairs(monkeypatch):
    few = partial(audit_plan_module.audit_plan, pairs=2)
    monkeypatch.setattr(audit_plan_module, "audit_plan", few)


@pytest.fixture
def project(tmp_path):
    config = loaded(tmp_path)
    return tmp_path / "pipelines" / f"{config.name}.yaml"


@pytest.mark.parametrize(
    ("engine", "source"),
    [("spark", None), ("postgres", '{postgres: {dsn: "${env:NOWHERE}", table: visits}}')],
)
@pytest.mark.usefixtures("few_pairs")
def test_the_evidence_as_json_no_row_is_read_and_no_server_asked(
    project, monkeypatch, engine, source
):
    """Rows made up in memory are nothing that these engines read, so a whole plan is not called broken."""
    (project.parent.parent / "data" / "visits.parquet").unlink()  # there is nothing to read
    text = project.read_text() + f"engine: {engine}\n"
    project.write_text(text if source is None else re.sub("source: .*", f"source: {source}", text))
    monkeypatch.setattr(registry.load("engines", engine), "__init__", None)  # none is made
    ledger = (project.parent.parent / ".dprelease" / "ledger.db").read_bytes()
    said = CliRunner().invoke(app, ["audit", str(project), "--draws", "200", "--json"])
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert found["ok"]
    assert found["engine"] == f"duckdb ({engine} reads no rows in memory)"
    assert found["seconds"] > 0
    layers = {f["layer"] for f in found["findings"]}
    assert layers == {"A exact laws", "A exact pairs", "B draws", "C black box"}
    assert all(f["size"] and f["claimed"] and f["found"] for f in found["findings"])
    assert (project.parent.parent / ".dprelease" / "ledger.db").read_bytes() == ledger


@pytest.mark.usefixtures("few_pairs")
def test_a_plan_that_lies_is_broken(project, monkeypatch):
    """The same command over a plan that claims half of what it costs."""
    honest = pipeline_plan.plan_pipeline

    def lying(config, period=None):
        plan = honest(config, period)
        return replace(plan, epsilon=plan.epsilon / 2)

    monkeypatch.setattr(pipeline_plan, "plan_pipeline", lying)
    said = CliRunner().invoke(app, ["audit", str(project), "--draws", "100"])
    assert said.exit_code == 1, said.output
    assert "FAIL  worst: " in said.stdout
    assert "a claim is BROKEN; 2 of " in said.stdout


@pytest.mark.usefixtures("few_pairs")
def test_what_is_printed(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    said = CliRunner().invoke(app, ["audit", str(clinic(tmp_path)), "--draws", "200"])
    assert said.exit_code == 0, said.output
    lines = said.stdout.splitlines()
    assert lines[0].startswith("differentially private with epsilon=1 for one patient (at most ")
    heads = [line for line in lines if line.startswith(tuple(cli_audit.SECTIONS))]
    assert [h[:4] for h in heads] == ["A ex", "A ex", "B dr", "C bl"]
    assert "each: 200 draws per table" in said.stdout
    assert any(line.startswith("nothing breaks its claim; ") for line in lines)
    assert max(map(len, lines)) <= 120


def test_an_engine_that_fails_or_differs_is_a_finding(monkeypatch):
    """Engines are total: made-up rows that stop one break what is claimed of it."""
    plan = planned(["count"], rows={"max": 20})

    class Failing(ReferenceEngine):
        def compute(self, *arguments):
            raise InternalError("no", why="no", code="DPR900")

    class Other(ReferenceEngine):
        def compute(self, *arguments):
            answer = super().compute(*arguments).reveal_to_mechanism()
            return Secret(replace(answer, sums=answer.sums + 1))

    for engine, word in (
        (Failing(), "fails on made-up rows (DPR900)"),
        (Other(), "OTHER integers"),
    ):
        evidence = audit_plan_module.audit_plan(plan, engine, draws=200, engine_name="tried")
        (broken,) = [f for f in evidence.findings if f.ok is False]
        assert broken.subject == "engine: tried"
        assert word in broken.found


def test_too_few_draws_are_bad_usage(project):
    assert CliRunner().invoke(app, ["audit", str(project), "--draws", "5"]).exit_code == 2


@pytest.mark.parametrize(
    ("statistic", "more"),
    [
        ("median(x)", {"by": ["g"]}),
        (
            {"statistic": "mean(x)", "spikes": "forbid", "domain": {"step": 0.5}},
            {"rows": {"max": 60}},
        ),
        ({"statistic": "count", "mechanism": "rectified_gaussian"}, {"delta": Fraction(1, 10**6)}),
    ],
    ids=["choice", "mean", "delta"],
)
def test_other_kinds_of_draws(statistic, more):
    plan = planned([statistic], **more)
    evidence = audit_plan_module.audit_plan(plan, ReferenceEngine(), draws=100, pairs=2)
    assert evidence.ok, evidence.to_json()
    assert {f.layer for f in evidence.findings} >= {"A exact pairs", "B draws", "C black box"}
