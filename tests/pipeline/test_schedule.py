"""The scheduler: what it runs, what a second look costs, refusals, races, clocks and stops."""

from __future__ import annotations

import json
import shutil
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dprelease.budget.ledger import Key, Ledger
from dprelease.cli import app
from dprelease.core.errors import ConfigError, WithheldError
from dprelease.pipeline import schedule, stages
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.run import init_ledger, run
from dprelease.pipeline.schedule import Clock, job, serve, tick
from tests.end_to_end.projects import plans_once, tree
from tests.pipeline.tiny import loaded, pipeline
from tests.published import read_folder
from tests.rules_alone import built_in_rules_only
from tests.sizes import some, whole

TUESDAY = datetime(2026, 2, 3, 6, 0, tzinfo=UTC)  # 2026-W05 is due


@pytest.fixture(autouse=True)
def rules(monkeypatch):
    built_in_rules_only(monkeypatch)
    plans_once(monkeypatch)


class Told(list):
    def __call__(self, event):
        self.append(dict(event))

    def of(self, *names):
        return [
            (e["event"], e.get("pipeline"), e.get("period")) for e in self if e["event"] in names
        ]


class FakeClock:
    """Time that passes when somebody waits, and jumps where it is told to."""

    def __init__(self, start, end=None, stop=None):
        self.time, self.end, self.stop, self.waits = start, end, stop, []
        self.jumps = []

    def now(self):
        return self.time

    def wait(self, seconds, stop):
        assert 0 < seconds <= 60
        self.waits.append(seconds)
        self.time += timedelta(seconds=seconds)
        for when, by in list(self.jumps):
            if self.time >= when:
                self.jumps.remove((when, by))
                self.time += by
        if self.end is not None and self.time >= self.end:
            stop.set()


def passes(config, moment, told=None, **options):
    told = Told() if told is None else told
    return tick(job([config], clock=Clock(moment), report=told, **options)), told


def spent(config):
    return Ledger.open(config.budget.ledger).budget("visits").spent


def folders(config):
    place = config.publish.to / config.name
    return sorted(p.name for p in place.iterdir() if p.is_dir() and not p.is_symlink())


def test_a_pass_runs_what_is_due_oldest_first_and_a_second_one_nothing(tmp_path):
    config = loaded(tmp_path, catch_up=2)
    status, told = passes(config, TUESDAY)
    assert status == 0
    weeks = ["2026-W04", "2026-W05"]
    assert told.of("released") == [("released", "weekly", w) for w in weeks]
    assert folders(config) == weeks
    before = tree(tmp_path / "public")
    status, told = passes(config, TUESDAY)
    assert (status, [e["event"] for e in told]) == (0, ["idle"])
    assert tree(tmp_path / "public") == before
    assert spent(config) == 2


def test_a_folder_in_the_way_of_one_period_keeps_no_other(tmp_path):
    config = loaded(tmp_path, catch_up=2)
    (config.publish.to / "weekly" / "2026-W04").mkdir(parents=True)
    status, told = passes(config, TUESDAY)
    assert (status, spent(config)) == (1, 1)
    assert told.of("released") == [("released", "weekly", "2026-W05")]
    (config.publish.to / "weekly" / "2026-W04").rename(tmp_path / "away")
    passes(config, TUESDAY)
    assert folders(config) == ["2026-W04", "2026-W05"]


def test_nothing_is_due_before_the_delay_has_passed(tmp_path):
    config = loaded(tmp_path, catch_up=1)
    early = datetime(2026, 2, 2, 6, 0, tzinfo=UTC)  # a Monday: W05 has ended, its delay has not
    _, told = passes(config, early)
    assert told.of("released") == [("released", "weekly", "2026-W04")]


@pytest.mark.parametrize(
    ("catch_up", "option", "runs"), [(0, None, 1), (2, None, 2), (2, 1, 1), (1, 2, 2)]
)
def test_at_most_catch_up_missed_periods_and_older_ones_stay_missed(
    tmp_path, catch_up, option, runs
):
    config = loaded(tmp_path, catch_up=catch_up)
    for _ in range(2):
        passes(config, TUESDAY, catch_up=option)
    assert len(folders(config)) == runs == spent(config)
    assert folders(config)[-1] == "2026-W05"


def test_times_in_the_files_are_the_scheduled_instant(tmp_path):
    config = loaded(tmp_path, catch_up=1)
    passes(config, TUESDAY + timedelta(days=3, seconds=7))  # the run was late
    folder = config.publish.to / "weekly" / "2026-W05"
    assert {p.stat().st_mtime for p in folder.iterdir()} == {TUESDAY.timestamp()}
    assert json.loads((folder / "release.json").read_text())["scheduled"] == "2026-02-03T06:00:00Z"
    assert "2026-02-03T06:00:00Z" in (folder.parent / "feed.xml").read_text()
    assert "2026-02-06" not in (folder.parent / "feed.xml").read_text()


def test_an_exhausted_budget_is_a_clear_refusal_and_the_others_go_on(tmp_path):
    first = loaded(tmp_path, budget=1, catch_up=3)
    second = load_pipeline(pipeline(tmp_path, name="other", catch_up=1))
    text = (tmp_path / "pipelines" / "other.yaml").read_text()
    (tmp_path / "pipelines" / "other.yaml").write_text(
        text.replace("dataset: visits", "dataset: more")
    )
    second = load_pipeline(tmp_path / "pipelines" / "other.yaml")
    init_ledger(second)
    told = Told()
    assert tick(job([first, second], clock=Clock(TUESDAY), report=told)) == 1
    assert told.of("released", "refused") == [
        ("released", "weekly", "2026-W03"),
        ("refused", "weekly", "2026-W04"),
        ("refused", "weekly", "2026-W05"),  # another period may have a budget of its own
        ("released", "other", "2026-W05"),
    ]
    refusal, _ = (e for e in told if e["event"] == "refused")
    assert (refusal["code"], refusal["charged"], refusal["level"]) == ("DPR301", "nothing", "error")
    assert "ledger add" in refusal["fix"]
    file, _, line = refusal["where"].rpartition(":")
    assert "epsilon" in Path(file).read_text().splitlines()[int(line) - 1]
    assert spent(first) == 1


def test_a_refused_period_does_not_stop_later_ones(tmp_path):
    config = loaded(tmp_path, catch_up=3)
    book = Ledger.open(config.budget.ledger)
    run(config, period="2026-W03", now=TUESDAY)
    shutil.rmtree(config.publish.to / "weekly" / "2026-W03")
    # the file asks for something else since: W03 keeps its plan, and is refused
    path = tmp_path / "pipelines" / "weekly.yaml"
    path.write_text(path.read_text() + "release: {epsilon: 2}\n")
    book_before = book.budget("visits").spent
    status, told = passes(load_pipeline(path), TUESDAY)
    assert status == 1
    assert told.of("released", "refused") == [
        ("refused", "weekly", "2026-W03"),
        ("released", "weekly", "2026-W04"),
        ("released", "weekly", "2026-W05"),
    ]
    assert book.budget("visits").spent == book_before + 4


@pytest.mark.parametrize("moment", [(9999, 12, 30), (9999, 12, 31)])
def test_at_the_end_of_the_calendar_a_pass_ends_with_words(tmp_path, moment):
    config = loaded(tmp_path, catch_up=2)
    status, told = passes(config, datetime(*moment, 23, 50, tzinfo=UTC))
    assert status in (0, 1, 2)
    assert not told.of("failed")
    assert all(e["code"] == "DPR640" for e in told if e["event"] == "refused")
    assert spent(config) == 0


def test_a_missing_ledger_or_source_refuses_and_spends_nothing(tmp_path):
    config = loaded(tmp_path, catch_up=1)
    (tmp_path / "data" / "visits.parquet").rename(tmp_path / "data" / "away")
    status, told = passes(config, TUESDAY)
    assert (status, told.of("refused")) == (1, [("refused", "weekly", "2026-W05")])
    assert spent(config) == 0
    for path in (tmp_path / ".dprelease").iterdir():
        path.unlink()
    status, told = passes(config, TUESDAY)
    assert (status, told.of("refused")) == (1, [("refused", "weekly", None)])


def test_spent_but_withheld_is_3_and_is_not_tried_again(tmp_path, monkeypatch):
    config = loaded(tmp_path, catch_up=2)

    def fail(plan, source, engine, *, request, receipt):
        if request.key.period == "2026-W04":
            request.ledger.fail(request.key, "DPR701")
            raise WithheldError("withheld by the test", code="DPR701")
        return draw(plan, source, engine, request=request, receipt=receipt)

    draw = stages.draw
    monkeypatch.setattr(stages, "draw", fail)
    status, told = passes(config, TUESDAY)
    assert status == 3
    assert told.of("withheld", "released") == [
        ("withheld", "weekly", "2026-W04"),
        ("released", "weekly", "2026-W05"),  # the next period can be released
    ]
    status, told = passes(config, TUESDAY)
    assert (status, told.of("withheld", "released")) == (0, [])
    assert spent(config) == 2


def test_an_unforeseen_failure_is_told_without_its_text(tmp_path, monkeypatch):
    config = loaded(tmp_path, catch_up=1)

    def fail(*_, **__):
        raise RuntimeError("CANARY-7")

    monkeypatch.setattr(schedule, "run", fail)
    status, told = passes(config, TUESDAY)
    assert (status, told.of("failed")) == (3, [("failed", "weekly", "2026-W05")])
    assert "RuntimeError" in json.dumps(told)
    assert "CANARY-7" not in json.dumps(told)


def test_a_lost_folder_is_copied_out_of_the_ledger_for_nothing(tmp_path):
    config = loaded(tmp_path, catch_up=1)
    passes(config, TUESDAY)
    folder = config.publish.to / "weekly" / "2026-W05"
    before = read_folder(folder)
    folder.rename(tmp_path / "moved")
    _, told = passes(config, TUESDAY)
    assert told.of("released", "republished") == [("republished", "weekly", "2026-W05")]
    assert read_folder(folder) == before
    assert spent(config) == 1


def test_a_withdrawn_release_that_is_copied_out_again_is_told_to_be_withdrawn(tmp_path):
    config = loaded(tmp_path, catch_up=1)
    passes(config, TUESDAY)
    folder = config.publish.to / "weekly" / "2026-W05"
    assert (
        CliRunner().invoke(app, ["withdraw", str(folder), "--reason", "it was wrong"]).exit_code
        == 0
    )
    folder.rename(tmp_path / "moved")
    _, told = passes(config, TUESDAY)
    (said,) = (event for event in told if event["event"] == "status")
    assert (said["level"], said["period"]) == ("warning", "2026-W05")
    assert "withdrawn" in said["message"]
    assert "it was wrong" in said["message"]


def test_schedulers_at_once_make_one_charge_and_the_same_bytes(tmp_path):
    weeks, many = whole(2, 3), whole(2, 4)
    config = loaded(tmp_path, catch_up=weeks)
    barrier, told, statuses = threading.Barrier(many), [Told() for _ in range(many)], []

    def one(report):
        barrier.wait()
        statuses.append(tick(job([config], clock=Clock(TUESDAY), report=report)))

    threads = [threading.Thread(target=one, args=(report,)) for report in told]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [0] * many
    assert spent(config) == weeks
    book = Ledger.open(config.budget.ledger)
    assert len(book.entries()) == weeks
    assert sum(len(t.of("released")) for t in told) == weeks  # fresh once each, whoever it was
    for week in folders(config):
        key = Key("visits", "weekly", week)
        assert read_folder(config.publish.to / "weekly" / week) == book.files(key)


@pytest.mark.parametrize(
    ("zone", "month", "day"),
    some(
        [
            ("Europe/Dublin", 3, 28), ("Europe/Dublin", 10, 24),
            ("America/New_York", 3, 7), ("America/New_York", 10, 31),
        ],
        3,
    ),
)  # fmt: skip
def test_a_day_is_spent_once_around_clock_changes(tmp_path, zone, month, day):
    """In the foreground from noon to noon; the cron line stands in the hour that changes."""
    path = tmp_path / "pipelines" / "weekly.yaml"
    loaded(tmp_path)
    text = path.read_text().replace("every: week, delay: 1d", "every: day")
    path.write_text(text.replace("Europe/Dublin", zone).replace("0 6 * * TUE", "30 1 * * *"))
    config = load_pipeline(path)
    start = datetime(2026, month, day, 12, tzinfo=UTC)
    clock = FakeClock(start, end=start + timedelta(days=2, hours=1))
    # The clock is also set back by three hours, right after the change was passed.
    clock.jumps.append((start + timedelta(hours=20), timedelta(hours=-3)))
    told = Told()
    work = job([config], clock=clock, report=told, catch_up=1)
    assert serve(work) == 0
    days = [period for _, _, period in told.of("released")]
    assert days == sorted(set(days))
    assert len(days) == 3 == spent(config)


def test_the_foreground_waits_for_the_next_instant_and_tells_it(tmp_path):
    config = loaded(tmp_path, catch_up=1)
    clock = FakeClock(TUESDAY - timedelta(minutes=5), end=TUESDAY + timedelta(minutes=1))
    told = Told()
    assert serve(job([config], clock=clock, report=told)) == 0
    assert told.of("released") == [
        ("released", "weekly", "2026-W04"),
        ("released", "weekly", "2026-W05"),
    ]
    assert [e["due"] for e in told if e["event"] == "next"] == [
        "2026-02-03T06:00:00Z",
        "2026-02-10T06:00:00Z",
    ]
    assert told[-1]["event"] == "stopped"
    assert len(clock.waits) < 10


def test_a_missing_source_is_looked_for_again_before_the_next_period(tmp_path):
    config = loaded(tmp_path, catch_up=1)
    data = tmp_path / "data" / "visits.parquet"
    data.rename(tmp_path / "data" / "away")
    stop = threading.Event()

    class Arrives(FakeClock):
        def wait(self, seconds, stop):
            super().wait(seconds, stop)
            if not data.exists() and self.time >= TUESDAY + timedelta(minutes=5):
                (tmp_path / "data" / "away").rename(data)

    clock = Arrives(TUESDAY, end=TUESDAY + timedelta(minutes=20))
    told = Told()
    serve(job([config], clock=clock, report=told, stop=stop))
    assert told.of("released", "refused") == [
        ("refused", "weekly", "2026-W05"),
        ("released", "weekly", "2026-W05"),
    ]


def test_an_exhausted_budget_is_not_asked_for_every_quarter_of_an_hour(tmp_path):
    config = loaded(tmp_path, budget=1, catch_up=2)
    clock = FakeClock(TUESDAY, end=TUESDAY + timedelta(hours=2))
    told = Told()
    serve(job([config], clock=clock, report=told))
    assert len(told.of("refused")) == 1


@pytest.mark.parametrize("stage", ["preflight", "charge", "draw", "validate"])
def test_a_stop_between_stages_leaves_nothing_half_done(tmp_path, monkeypatch, stage):
    config = loaded(tmp_path, catch_up=2)
    stop, told = threading.Event(), Told()

    def stopping(chosen, *, period, progress, **more):
        def report(name, detail):
            if name == stage:
                stop.set()
            progress(name, detail)

        return run(chosen, period=period, progress=report, **more)

    run = schedule.run
    monkeypatch.setattr(schedule, "run", stopping)
    assert tick(job([config], clock=Clock(TUESDAY), report=told, stop=stop)) == 0
    assert told.of("stopped", "released") == [("stopped", "weekly", "2026-W04")]
    assert not (config.publish.to / "weekly").exists()
    monkeypatch.setattr(schedule, "run", run)
    status, told = passes(config, TUESDAY)
    assert (status, len(told.of("released", "republished"))) == (0, 2)
    assert spent(config) == 2  # the stopped run was finished, not paid again


def test_a_stop_at_publication_lets_it_finish(tmp_path):
    config = loaded(tmp_path, catch_up=2)
    stop = threading.Event()

    def report(event):
        if event["event"] == "released":
            stop.set()

    assert tick(job([config], clock=Clock(TUESDAY), report=report, stop=stop)) == 0
    assert folders(config) == ["2026-W04"]


def test_the_health_file_says_what_a_monitor_needs(tmp_path):
    config = loaded(tmp_path, budget=1, catch_up=1)
    health = tmp_path / "health.json"
    assert passes(config, TUESDAY, health=health)[0] == 0
    said = json.loads(health.read_text())
    assert said == {
        "dprelease": "health/1",
        "state": "ok",
        "updated": "2026-02-03T06:00:00Z",
        "last_success": {"weekly": {"period": "2026-W05", "at": "2026-02-03T06:00:00Z"}},
        "last_error": {},
        "next_due": {"weekly": {"period": "2026-W06", "at": "2026-02-10T06:00:00Z"}},
    }
    assert passes(config, TUESDAY + timedelta(days=7), health=health)[0] == 1
    said = json.loads(health.read_text())
    assert said["state"] == "refused"
    assert said["last_success"]["weekly"]["period"] == "2026-W05"  # of the earlier process
    assert said["last_error"]["weekly"]["code"] == "DPR301"
    assert [p.name for p in tmp_path.glob(".health*")] == []


def test_a_health_file_that_cannot_be_written_stops_nothing(tmp_path):
    config = loaded(tmp_path, catch_up=1)
    status, told = passes(config, TUESDAY, health=tmp_path / "nowhere" / "health.json")
    assert (status, len(told.of("released"))) == (0, 1)
    assert told.of("health")


def test_a_faulty_job_is_refused_before_anything_runs(tmp_path):
    config = loaded(tmp_path)
    with pytest.raises(ConfigError) as refused:
        job([config, config])
    assert refused.value.code == "DPR172"


def test_logs_hold_public_names_only(tmp_path):
    """Every key of every event is one of these: nothing from a row can be among them."""
    config = loaded(tmp_path, budget=1, catch_up=2)
    _, told = passes(config, TUESDAY)
    allowed = {
        "time", "level", "event", "message", "pipeline", "period", "due", "epsilon", "spent",
        "budget", "folder", "code", "charged", "where", "why", "fix",
    }  # fmt: skip
    assert set().union(*told) <= allowed


def test_the_system_clock_is_aware_and_its_wait_ends_with_the_stop():
    stop = threading.Event()
    stop.set()
    Clock().wait(60, stop)
    assert Clock().now().tzinfo is UTC
