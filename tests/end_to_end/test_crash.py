"""Between the charge and the public folder: what a crash costs, and what a failed check does."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.budget.ledger import Key, Ledger
from dprelease.cli import app
from dprelease.core.errors import ConfigError, DpreleaseError, LedgerError, WithheldError
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.pipeline import flow, preflight, stages
from dprelease.release_plan.identity import former_hash
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.validate.verdict import RuleResult, Verdict
from dprelease.wall import execute
from tests.end_to_end.projects import clinic, plans_once, tree
from tests.rules_alone import built_in_rules_only

PERIOD = "2026-W46"
KEY = Key("clinic", "clinic_weekly", PERIOD)
BROKEN = Verdict.from_rules((RuleResult("domain", "mean_age", 4, 1),), "built-in")


class PowerCut(BaseException):
    """Not an Exception: nothing may catch it."""


def cut(*_arguments, **_named):
    raise PowerCut


@pytest.fixture
def project(tmp_path, monkeypatch):
    plans_once(monkeypatch)
    pipeline = clinic(tmp_path)
    return tmp_path, pipeline, Ledger.open(tmp_path / ".dprelease" / "ledger.db")


@pytest.mark.parametrize(
    ("where", "name", "state"),
    [
        (DuckDBEngine, "compute", "charged"),
        (execute, "drawn", "charged"),
        (stages, "validated", "drawn"),
        (flow, "bundle", "drawn"),
        (flow, "publish_files", "ready"),
    ],
)
def test_a_crash_costs_once_and_the_next_run_finishes_for_free(
    project, monkeypatch, where, name, state
):
    _, pipeline, ledger = project
    with monkeypatch.context() as broken:
        broken.setattr(where, name, cut)
        with pytest.raises(PowerCut):
            dp.run(pipeline, period=PERIOD)
    assert ledger.state(KEY) == state
    paid = ledger.budget("clinic").spent
    assert paid > 0
    payload = ledger.payload(KEY)
    result = dp.run(pipeline, period=PERIOD)
    assert not result.receipt.fresh
    assert ledger.budget("clinic").spent == paid
    assert payload in (None, ledger.payload(KEY))  # what was drawn is not drawn again
    assert ledger.state(KEY) == "published"
    assert dp.verify(result.folder, ledger=ledger.path).ok


def as_before(patch):
    """Let plans have the hash that versions up to 0.2.0 took: of the last digits of their figures as well."""
    patch.setattr(ReleasePlan, "hash", property(lambda plan: former_hash(plan.to_json())))


@pytest.mark.parametrize(
    ("where", "name"),
    [(DuckDBEngine, "compute"), (flow, "bundle"), (flow, "publish_files")],
)
def test_a_run_that_crashed_under_the_former_hash_goes_on_under_it(
    project, monkeypatch, where, name
):
    _, pipeline, ledger = project
    with monkeypatch.context() as broken:
        as_before(broken)
        broken.setattr(where, name, cut)
        with pytest.raises(PowerCut):
            dp.run(pipeline, period=PERIOD)
    debited, paid = ledger.plan_hash(KEY), ledger.budget("clinic").spent
    result = dp.run(pipeline, period=PERIOD)
    assert result.plan.hash != debited == ledger.plan_hash(KEY)
    assert ledger.budget("clinic").spent == paid
    said = json.loads((result.folder / "release.json").read_text(encoding="utf-8"))
    assert said["plan_hash"] == debited
    assert dp.verify(result.folder, ledger=ledger.path).ok
    assert dp.run(pipeline, period="2026-W47").receipt.fresh


@pytest.mark.parametrize(("name", "goes_on"), [("publish_files", True), ("bundle", False)])
def test_where_figures_have_other_last_digits_the_committed_plan_tells(
    project, monkeypatch, name, goes_on
):
    """Another numpy since the debit: the former hash cannot be taken again, of files it can be read."""
    _, pipeline, ledger = project
    with monkeypatch.context() as broken:
        as_before(broken)
        broken.setattr(flow, name, cut)
        with pytest.raises(PowerCut):
            dp.run(pipeline, period=PERIOD)
    paid = ledger.budget("clinic").spent
    monkeypatch.setattr(stages, "former_hash", lambda _plan: "0" * 64)
    if goes_on:
        assert dp.verify(dp.run(pipeline, period=PERIOD).folder, ledger=ledger.path).ok
    else:
        with pytest.raises(LedgerError) as caught:
            dp.run(pipeline, period=PERIOD)
        assert caught.value.code == "DPR410"
    assert ledger.budget("clinic").spent == paid


@pytest.mark.parametrize("name", ["bundle", "publish_files"])
def test_another_plan_is_refused_under_the_former_hash_too(project, monkeypatch, name):
    folder, pipeline, _ = project
    with monkeypatch.context() as broken:
        as_before(broken)
        broken.setattr(flow, name, cut)
        with pytest.raises(PowerCut):
            dp.run(pipeline, period=PERIOD)
    schema = folder / "schemas" / "clinic.yaml"
    text = schema.read_text(encoding="utf-8")
    assert "mean(age)" in text
    schema.write_text(text.replace("mean(age)", "sum(age)"), encoding="utf-8")
    with pytest.raises(LedgerError) as caught:
        dp.run(pipeline, period=PERIOD)
    assert caught.value.code == "DPR410"


def test_a_crash_before_the_charge_costs_nothing(project, monkeypatch):
    _, pipeline, ledger = project
    with monkeypatch.context() as broken:
        broken.setattr(DuckDBEngine, "preflight", cut)
        with pytest.raises(PowerCut):
            dp.run(pipeline, period=PERIOD)
    assert not ledger.has(KEY)
    assert ledger.budget("clinic").spent == 0


@pytest.mark.parametrize(("code", "why"), [(errno.EROFS, "Read-only"), (errno.ENOSPC, "No space")])
def test_a_public_folder_that_cannot_be_written_is_refused_before_the_charge(
    project, monkeypatch, code, why
):
    folder, pipeline, ledger = project
    make = tempfile.NamedTemporaryFile

    def refused(*_, **named):
        if Path(named["dir"]) == folder.resolve():  # the nearest folder that exists
            raise OSError(code, os.strerror(code))
        return make(**named)

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", refused)
    with pytest.raises(ConfigError, match=why) as caught:
        dp.run(pipeline, period=PERIOD)
    assert (caught.value.code, caught.value.spent) == ("DPR151", "nothing")
    assert not ledger.has(KEY)
    monkeypatch.undo()
    before = tree(folder)
    preflight.must_be_writable(folder / "public" / "clinic_weekly")
    assert tree(folder) == before  # nothing is left or made


@pytest.mark.parametrize(
    ("name", "make", "code"),
    [
        (PERIOD, Path.mkdir, "DPR811"),
        ("status.json", lambda path: path.write_text("garbage"), "DPR830"),
        ("status.json", os.mkfifo, "DPR830"),
        ("status.json", lambda path: path.symlink_to("nowhere"), "DPR830"),
    ],
)
def test_what_keeps_a_release_from_its_folder_is_refused_before_the_charge(
    project, monkeypatch, name, make, code
):
    folder, pipeline, ledger = project
    built_in_rules_only(monkeypatch)
    place = folder / "public" / "clinic_weekly"
    place.mkdir(parents=True)
    make(place / name)
    with pytest.raises(DpreleaseError) as caught:
        dp.run(pipeline, period=PERIOD)
    assert (caught.value.code, caught.value.spent) == (code, "nothing")
    assert caught.value.where == str((place / name).resolve().parent / name)
    assert not ledger.has(KEY)
    (place / name).rename(folder / "away")
    assert dp.run(pipeline, period=PERIOD).receipt.fresh


def test_a_folder_that_another_run_has_published_meanwhile_is_in_nobodys_way(project, monkeypatch):
    _, pipeline, _ = project
    built_in_rules_only(monkeypatch)
    first, require = [], preflight.require_validator

    def overtaken():
        monkeypatch.setattr(preflight, "require_validator", require)
        first.append(dp.run(pipeline, period=PERIOD))

    monkeypatch.setattr(preflight, "require_validator", overtaken)
    second = dp.run(pipeline, period=PERIOD)
    assert (first[0].receipt.fresh, second.receipt.fresh) == (True, False)
    shutil.rmtree(second.folder)  # nor is one that is lost
    assert dp.run(pipeline, period=PERIOD).folder == second.folder


def test_a_failed_check_withholds_for_good_and_is_never_redrawn(project, monkeypatch):
    folder, pipeline, ledger = project
    with monkeypatch.context() as broken:
        broken.setattr(stages, "validated", lambda *_a, **_k: BROKEN)
        said = CliRunner().invoke(app, ["run", str(pipeline), "--period", PERIOD])
    assert said.exit_code == 3
    for part in ("withheld", "domain of mean_age", "DPR701", "the budget is spent"):
        assert part in said.output
    assert ledger.state(KEY) == "failed"
    paid, payload = ledger.budget("clinic").spent, ledger.payload(KEY)
    # later runs pass validation, and still nothing is drawn or published
    with pytest.raises(WithheldError) as caught:
        dp.run(pipeline, period=PERIOD)
    assert caught.value.exit_status == 3
    assert (ledger.budget("clinic").spent, ledger.payload(KEY)) == (paid, payload)
    assert not any(name.startswith("public") for name in tree(folder))
    shown = CliRunner().invoke(app, ["ledger", "show", str(pipeline)]).output
    assert "failed (DPR701)" in shown


def test_the_python_door_withholds_too(tmp_path, monkeypatch):
    import pandas as pd

    clinic(tmp_path)
    frame = pd.read_csv(tmp_path / "data" / "visits.csv", dtype=str)
    schema = tmp_path / "schemas" / "clinic.yaml"
    place = {"ledger": tmp_path / ".dprelease" / "ledger.db", "dataset": "clinic", "period": "p"}
    monkeypatch.setattr(stages, "validated", lambda *_a, **_k: BROKEN)
    with pytest.raises(WithheldError, match="domain of mean_age"):
        frame.dp.release(schema)  # without a ledger nothing invalid is handed out either
    with pytest.raises(WithheldError):
        frame.dp.release(schema, **place)
    monkeypatch.undo()
    with pytest.raises(WithheldError) as caught:
        frame.dp.release(schema, **place)  # valid by now, and still nobody sees the values
    assert caught.value.code == "DPR710"
