"""A period that is still open, or that the source does not hold, is refused before the charge."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.budget.ledger import Key, Ledger
from dprelease.cli import app
from dprelease.core.errors import ConfigError, SourceError
from dprelease.core.periods import instant_text, period_id
from dprelease.pipeline import flow, stages
from dprelease.pipeline.closing import closes_at
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.due import due_periods, next_due
from dprelease.pipeline.run import run
from dprelease.pipeline.schedule import Clock, job, tick
from tests.end_to_end.projects import plans_once
from tests.folders import remade, write
from tests.pipeline.tiny import loaded, pipeline
from tests.rules_alone import built_in_rules_only
from tests.sizes import whole

WEEK = "2026-W02"
CLOSES = datetime(2026, 1, 13, tzinfo=UTC)  # Monday the 12th in Dublin, and the delay of a day
OPEN, OVER = CLOSES - timedelta(seconds=1), CLOSES


@pytest.fixture
def config(tmp_path, monkeypatch):
    built_in_rules_only(monkeypatch)
    plans_once(monkeypatch)
    return loaded(tmp_path)


def book(config):
    return Ledger.open(config.budget.ledger)


def spent(config):
    return book(config).budget("visits").spent


def latest(config):
    link = config.publish.to / "weekly" / "latest"
    return link.readlink().name if link.is_symlink() else None


def refused(config, period, now, code="DPR521", **more):
    with pytest.raises(SourceError) as caught:
        run(config, period=period, now=now, **more)
    assert (caught.value.code, caught.value.exit_status, caught.value.spent) == (code, 1, "nothing")
    return caught.value


def test_an_open_period_is_refused_to_the_second_and_then_released(config):
    assert closes_at(config, WEEK) == CLOSES
    error = refused(config, WEEK, OPEN)
    assert "week 2026-W02 is not over" in error.what
    assert f"closes at {instant_text(CLOSES)}, its delay of 1d counted" in error.why
    assert (
        f"`dprelease run {config.origin.rpartition(':')[0]} --period {WEEK} --early`" in error.fix
    )
    assert spent(config) == 0
    assert not config.publish.to.exists()
    assert run(config, period=WEEK, now=OVER).receipt.early is None  # control
    assert latest(config) == WEEK


def test_the_clock_is_the_system_s_and_every_door_asks_it(config):
    """2099 stays open for as long as this test is run."""
    file = config.origin.rpartition(":")[0]
    with pytest.raises(SourceError, match="2099-W01 is not over"):
        dp.run(file, period="2099-W01")
    done = CliRunner().invoke(app, ["run", file, "--period", "2099-W01", "--json"])
    assert done.exit_code == 1
    assert json.loads(done.stdout[done.stdout.index("{") :])["code"] == "DPR521"
    assert spent(config) == 0
    assert (
        CliRunner().invoke(app, ["run", file, "--period", "2099-W01", "--early", "-q"]).exit_code
        == 0
    )
    dp.run(file, period="2099-W02", early=True)
    assert spent(config) == 2
    assert latest(config) is None


def test_an_early_release_says_so_and_never_becomes_the_latest(config):
    told = []
    early = run(config, period=WEEK, now=OPEN, early=True, progress=lambda *pair: told.append(pair))
    said = instant_text(CLOSES)
    assert early.receipt.early == said == early.to_json()["early"]
    assert any(stage == "early" and said in detail for stage, detail in told)
    assert latest(config) is None
    manifest = json.loads((early.folder / "release.json").read_text())
    assert manifest["early"] == said
    assert dp.verify(early.folder, ledger=config.budget.ledger).ok
    assert [e.entry.early for e in book(config).entries()] == [said]

    before = run(config, period="2026-W01", now=OPEN)
    assert latest(config) == "2026-W01"
    assert json.loads((before.folder / "release.json").read_text())["early"] is None
    index = json.loads((early.folder.parent / "index.json").read_text())
    assert [p["early"] for p in index["periods"]] == [None, said]
    page = (early.folder.parent / "index.html").read_text()
    assert "early: closes 2026-01-13" in page
    assert 'Newest that stands</dt><dd class="long"><a href="2026-W01/' in page
    assert "<title>Early: " in (early.folder.parent / "feed.xml").read_text()

    # When it is over it stays what it is: the same bytes, for nothing, and still not the latest.
    again = run(config, period=WEEK, now=OVER + timedelta(days=9))
    assert (again.receipt.fresh, again.receipt.early) == (False, said)
    assert latest(config) == "2026-W01"
    run(config, period="2026-W03", now=OVER + timedelta(days=9))
    assert latest(config) == "2026-W03"


def test_the_report_of_an_early_release_says_so(tmp_path, config):
    path = pipeline(tmp_path, name="pages")
    path.write_text(path.read_text().replace("[parquet, csv]", "[html]"))
    early = run(path, period=WEEK, now=OPEN, early=True)
    over = run(path, period="2026-W01", now=OPEN)
    assert (
        f"the period closes at {instant_text(CLOSES)}" in (early.folder / "report.html").read_text()
    )
    assert "Released early" not in (over.folder / "report.html").read_text()
    assert dp.verify(early.folder).ok


def test_early_means_nothing_for_a_period_that_is_over(config):
    assert run(config, period=WEEK, now=OVER, early=True).receipt.early is None
    assert latest(config) == WEEK


def test_what_is_drawn_is_published_again_and_what_is_not_waits(config, monkeypatch):
    """A crash between the debit and the draw, then between the draw and the files."""

    class CrashError(Exception):
        pass

    def crash(*_, **__):
        raise CrashError

    with monkeypatch.context() as patch:
        patch.setattr(stages, "draw", crash)
        with pytest.raises(CrashError):
            run(config, period=WEEK, now=OPEN, early=True)
    assert book(config).state(Key("visits", "weekly", WEEK)) == "charged"
    refused(config, WEEK, OPEN)
    with monkeypatch.context() as patch:
        patch.setattr(flow, "bundle", crash)
        with pytest.raises(CrashError):
            run(config, period=WEEK, now=OPEN, early=True)
    assert book(config).state(Key("visits", "weekly", WEEK)) == "drawn"
    result = run(config, period=WEEK, now=OPEN)  # nothing is added by saying --early again
    assert result.receipt.early == instant_text(CLOSES)
    assert spent(config) == 1


def test_an_early_release_closes_when_its_debit_says_though_the_delay_changed(config, monkeypatch):
    """The run that paid for it crashed, and the pipeline's delay was edited before the next one."""

    class CrashError(Exception):
        pass

    def crash(*_, **__):
        raise CrashError

    with monkeypatch.context() as patch:
        patch.setattr(stages, "draw", crash)
        with pytest.raises(CrashError):
            run(config, period=WEEK, now=OPEN, early=True)
    later = replace(config, period=replace(config.period, delay=timedelta(hours=30)))
    done = run(later, period=WEEK, now=OPEN, early=True)
    manifest = json.loads((done.folder / "release.json").read_text())
    assert manifest["early"] == instant_text(CLOSES)
    assert manifest["request"]["period"]["delay"] == "1d"
    assert dp.verify(done.folder, ledger=config.budget.ledger).ok


def test_the_ledger_tells_whether_a_release_was_early(config):
    """A folder that leaves it out, or adds it, agrees with itself."""
    early, over = (
        run(config, period=WEEK, now=OPEN, early=True),
        run(config, period="2026-W01", now=OPEN),
    )
    for done, said in ((early, None), (over, "2026-01-06T00:00:00Z")):
        manifest = json.loads((done.folder / "release.json").read_text())
        manifest["early"] = manifest["receipt"]["early"] = said
        place = config.publish.to / "forged" / done.folder.name  # a folder is named as its period
        folder = write(place, remade(manifest, ("parquet", "csv")))
        assert dp.verify(folder).ok
        assert "whether the period was over" in str(dp.verify(folder, ledger=config.budget.ledger))


def test_a_reconciled_early_debit_is_still_early(config, tmp_path):
    run(config, period=WEEK, now=OPEN, early=True)
    config.budget.ledger.unlink()
    for end in ("-wal", "-shm"):
        config.budget.ledger.with_name(config.budget.ledger.name + end).unlink(missing_ok=True)
    fresh = tmp_path / "other" / "ledger.db"
    ledger = Ledger.create(
        fresh, dataset="visits", epsilon=100, adjacency="add_remove", unit='"row"'
    )
    assert ledger.reconcile([config.publish.to]) == 1
    assert [e.entry.early for e in ledger.entries()] == [instant_text(CLOSES)]


def test_the_scheduler_never_runs_early(config):
    """At every hour of three weeks, whatever is due is over."""
    at = datetime(2026, 1, 5, tzinfo=UTC)
    released = []
    for hour in range(0, 21 * 24, whole(23, 7)):
        clock = Clock(at + timedelta(hours=hour))
        for due in due_periods(config, clock.at, 4):
            assert closes_at(config, due.period) <= due.at <= clock.at
        assert tick(job([config], clock=clock, report=released.append)) == 0
    assert {e["event"] for e in released} == {"released", "idle"}
    assert all(e.entry.early is None for e in book(config).entries())


# -- which periods the source holds ------------------------------------------------------------


def held(tmp_path, span):
    path = pipeline(tmp_path, name="weekly")
    path.write_text(path.read_text().replace("every: week,", f"every: week, {span},"))
    return load_pipeline(path)


def test_a_schedule_releases_what_the_source_holds_and_nothing_else(config, tmp_path):
    assert {e.period for e in due_periods(config, datetime(2031, 1, 1, tzinfo=UTC), 2)} == {
        "2030-W51",
        "2030-W52",
    }
    short = held(tmp_path, "first: 2025-W49, last: 2025-W51")
    far = datetime(2031, 1, 1, tzinfo=UTC)
    assert [d.period for d in due_periods(short, far, 2)] == ["2025-W50", "2025-W51"]
    assert [d.period for d in due_periods(short, far, 9)] == ["2025-W49", "2025-W50", "2025-W51"]
    assert next_due(short, far) is None
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    assert due_periods(short, long_ago, 9) == ()
    assert next_due(short, long_ago).period == "2025-W49"
    assert tick(job([short], clock=Clock(far))) == 0
    assert [e.entry.key.period for e in book(short).entries()] == [
        "2025-W49",
        "2025-W50",
        "2025-W51",
    ]


def test_a_skipped_period_is_never_due_and_never_run(config, tmp_path):
    short = held(tmp_path, "first: 2025-W49, last: 2025-W52, skip: [2025-W50, 2025-W51]")
    far = datetime(2031, 1, 1, tzinfo=UTC)
    assert [d.period for d in due_periods(short, far, 2)] == ["2025-W49", "2025-W52"]
    first_closed = datetime(2025, 12, 10, tzinfo=UTC)
    assert [d.period for d in due_periods(short, first_closed, 9)] == ["2025-W49"]
    assert next_due(short, first_closed).period == "2025-W52"
    assert tick(job([short], clock=Clock(far))) == 0
    assert [e.entry.key.period for e in book(short).entries()] == ["2025-W49", "2025-W52"]
    for early in (False, True):
        where = refused(short, "2025-W50", OVER, "DPR522", early=early).where
        file, _, line = where.rpartition(":")
        assert "2025-W50" in Path(file).read_text().splitlines()[int(line) - 1]


@pytest.mark.parametrize("period", ["2025-W48", "2025-W52", "2026-W01"])
def test_a_run_of_a_period_that_it_does_not_hold_is_refused_early_or_not(config, tmp_path, period):
    short = held(tmp_path, "first: 2025-W49, last: 2025-W51")
    for early in (False, True):
        assert (
            "from 2025-W49 to 2025-W51" in refused(short, period, OVER, "DPR522", early=early).why
        )
    assert spent(short) == 0
    assert run(short, period="2025-W50", now=OVER).receipt.fresh  # control


@pytest.mark.parametrize(
    "span",
    [
        "first: 2025-12",
        "last: 2025-W54",
        "first: 2025-W50, last: 2025-W49",
        "last: 2025-12-01",
        "first: 2025",
        "skip: [2025-W50, 2025-12]",
        "skip: 2025-W50",
    ],
)
def test_faulty_ends_are_refused_when_the_file_is_read(config, tmp_path, span):
    with pytest.raises(ConfigError) as caught:
        held(tmp_path, span)
    assert caught.value.code in ("DPR141", "DPR108", "DPR112")


def test_the_current_week_of_any_day_is_open(config):
    now = datetime.now(UTC)
    refused(config, period_id(now, "week", "Europe/Dublin"), None)
