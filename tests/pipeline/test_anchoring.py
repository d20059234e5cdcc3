"""The pipeline's options for a careful ledger: a second place, a key, a cap, paying for a crash."""

from __future__ import annotations

import shutil

import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.budget.head_file import read_head
from dprelease.budget.ledger import Ledger
from dprelease.budget.signature import load_signer
from dprelease.cli import app
from dprelease.core.errors import BudgetError, ConfigError, LedgerError, WithheldError
from dprelease.pipeline import anchoring
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.run import init_ledger
from dprelease.pipeline.starter import create_starter
from dprelease.wall import execute
from tests.end_to_end.projects import plans_once
from tests.rules_alone import built_in_rules_only

KEY = "33" * 32


@pytest.fixture(autouse=True)
def rules(monkeypatch):
    built_in_rules_only(monkeypatch)
    plans_once(monkeypatch)


def project(folder, *lines):
    """Write the starter with further lines in its budget, and without a page."""
    create_starter(folder)
    pipeline = folder / "pipelines" / "clinic_weekly.yaml"
    text = pipeline.read_text().replace(", html]", "]")
    start = text.index("budget:")
    end = text.index("\n", start)
    block = text[start:end].rstrip()
    assert block.endswith("}")
    added = "".join(f", {line}" for line in lines)
    pipeline.write_text(text[:start] + block[:-1] + added + "}" + text[end:])
    return pipeline


def invoke(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def signed(tmp_path, monkeypatch):
    monkeypatch.setenv("HEAD_KEY", KEY)
    pipeline = project(tmp_path, "anchor: ../heads/clinic.json", 'signing_key: "${env:HEAD_KEY}"')
    init_ledger(load_pipeline(pipeline))
    return pipeline, tmp_path / "heads" / "clinic.json", tmp_path / ".dprelease" / "ledger.db"


def test_a_run_moves_the_head_and_needs_it(signed, tmp_path, monkeypatch):
    pipeline, head, ledger = signed
    shutil.copy(ledger, tmp_path / "backup")
    dp.run(pipeline, period="2026-W46")
    assert read_head(head, load_signer(KEY, "").public_key) == Ledger.open(ledger).head()
    public = load_signer(KEY, "").public_key
    (tmp_path / "office.pub").write_text(f"{public}\n")
    (tmp_path / "other.pub").write_text("no key")
    verify = ("ledger", "verify", "--ledger", ledger, "--head", head, "--public-key")
    for key in (public, tmp_path / "office.pub"):
        assert invoke(*verify, key).exit_code == 0
    for key in ("44" * 32, tmp_path / "other.pub", tmp_path / "missing.pub"):
        assert invoke(*verify, key).exit_code == 1
    assert invoke("ledger", "verify", pipeline).exit_code == 0
    alone = invoke("ledger", "verify", pipeline, "--public-key", public)  # it would check nothing
    assert (alone.exit_code, "--head FILE" in alone.output) == (2, True)

    saved = head.read_bytes()
    head.unlink()
    with pytest.raises(LedgerError) as caught:
        dp.run(pipeline, period="2026-W45")
    assert caught.value.code == "DPR419"
    head.write_bytes(saved)
    monkeypatch.setenv("HEAD_KEY", "55" * 32)
    with pytest.raises(LedgerError) as caught:
        dp.run(pipeline, period="2026-W45")
    assert caught.value.code == "DPR420"
    monkeypatch.setenv("HEAD_KEY", KEY)

    # The older copy is put back and the public folder is gone: only the second place knows.
    shutil.copy(tmp_path / "backup", ledger)
    shutil.move(tmp_path / "public", tmp_path / "moved")
    with pytest.raises(LedgerError) as caught:
        dp.run(pipeline, period="2026-W46")
    assert caught.value.code == "DPR419"
    shutil.move(tmp_path / "moved", tmp_path / "public")
    assert invoke("ledger", "reconcile", pipeline).exit_code == 0
    assert read_head(head).seq == Ledger.open(ledger).head().seq
    dp.run(pipeline, period="2026-W45")


def test_a_head_that_cannot_be_written_stops_before_the_draw(signed, monkeypatch):
    pipeline, _, ledger = signed

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(anchoring, "write_head", full)
    with pytest.raises(WithheldError) as caught:
        dp.run(pipeline, period="2026-W46")
    assert caught.value.code == "DPR712"
    (row,) = Ledger.open(ledger).entries()
    assert row.state == "charged"
    monkeypatch.undo()
    monkeypatch.setenv("HEAD_KEY", KEY)
    assert not dp.run(pipeline, period="2026-W46").receipt.fresh


def test_the_cap_of_a_pipeline_file(tmp_path):
    pipeline = project(tmp_path, "per_period: 0.000001")
    init_ledger(load_pipeline(pipeline))
    with pytest.raises(BudgetError) as caught:
        dp.run(pipeline, period="2026-W46")
    assert caught.value.code == "DPR305"
    said = invoke("ledger", "add", pipeline, "--per-period", "2")
    assert said.exit_code == 0, said.output
    with pytest.raises(LedgerError) as refused:  # the file still says another cap
        dp.run(pipeline, period="2026-W46")
    assert refused.value.code == "DPR418"
    pipeline.write_text(pipeline.read_text().replace("per_period: 0.000001", "per_period: 2"))
    dp.run(pipeline, period="2026-W46")


class PowerCut(BaseException):
    pass


@pytest.mark.parametrize(("option", "times"), [("redraw", 1), ("charge_again", 2)])
def test_what_a_crash_before_the_stored_draw_costs(tmp_path, monkeypatch, option, times):
    pipeline = project(tmp_path, f"on_crash: {option}")
    init_ledger(load_pipeline(pipeline))

    def cut(*_, **__):
        raise PowerCut

    with monkeypatch.context() as broken:
        broken.setattr(execute, "drawn", cut)
        with pytest.raises(PowerCut):
            dp.run(pipeline, period="2026-W46")
    ledger = Ledger.open(tmp_path / ".dprelease" / "ledger.db")
    once = ledger.budget("clinic").spent
    result = dp.run(pipeline, period="2026-W46")
    assert ledger.budget("clinic").spent == times * once
    assert result.receipt.fresh is (times == 2)
    dp.run(pipeline, period="2026-W46")
    assert ledger.budget("clinic").spent == times * once
    assert dp.verify(result.folder, ledger=ledger.path).ok


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("per_period: 0", "DPR145"),
        ('signing_key: "${env:K}"', "DPR184"),
        ("anchor: a.json, signing_key: written-out", "DPR142"),
        ('anchor: "${env:K}"', "DPR142"),
        ("anchor: ../../a.json", "DPR116"),
        ("on_crash: hope", None),
    ],
)
def test_faulty_options_are_refused_with_their_line(tmp_path, line, code):
    pipeline = project(tmp_path, line)
    with pytest.raises(ConfigError) as caught:
        load_pipeline(pipeline)
    assert code in (None, caught.value.code)
    assert "clinic_weekly.yaml:" in str(caught.value)
