"""`dprelease schedule`: exit status, what is printed, and two real processes that are stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from dprelease.budget.ledger import Ledger
from dprelease.cli import app
from tests.end_to_end.projects import ROOT
from tests.pipeline.tiny import loaded, project
from tests.published import read_folder
from tests.rules_alone import rules_alone

AT = ("--once", "--at", "2026-02-03T06:00:00Z")


@pytest.fixture(autouse=True)
def built_in_rules_only():
    with rules_alone():
        yield


def schedule(*arguments):
    done = CliRunner().invoke(app, ["schedule", *map(str, arguments)])
    return done.exit_code, done.output


def test_once_releases_then_has_nothing_to_do(tmp_path):
    loaded(tmp_path, catch_up=1)
    path = tmp_path / "pipelines" / "weekly.yaml"
    status, text = schedule(path, *AT)
    assert status == 0
    assert "INFO    released    weekly 2026-W05: epsilon 1, now 1 of 100 spent on visits" in text
    assert schedule(path, *AT) == (0, "2026-02-03T06:00:00Z INFO    idle        nothing is due\n")


def test_a_refusal_is_1_and_names_the_way_out(tmp_path):
    loaded(tmp_path, budget=1, catch_up=2)
    status, text = schedule(tmp_path / "pipelines" / "weekly.yaml", *AT)
    assert status == 1
    assert (
        "ERROR   refused     weekly 2026-W05: the budget of dataset visits does not cover" in text
    )
    assert "\n  code   DPR301\n" in text
    add = f"`dprelease ledger add {tmp_path / 'pipelines' / 'weekly.yaml'} --epsilon"
    assert f"on the record: {add} 1` for this release, {add} 12` for 12 such\n" in text


def test_a_ledger_that_is_missing_is_made_by_the_command_that_the_scheduler_names(tmp_path):
    loaded(tmp_path)
    path = tmp_path / "pipelines" / "weekly.yaml"
    for file in (tmp_path / ".dprelease").iterdir():
        file.unlink()
    status, text = schedule(path, *AT)
    assert status == 1
    assert f"fix    `dprelease ledger init {path}`, once" in text
    assert CliRunner().invoke(app, ["ledger", "init", str(path)]).exit_code == 0
    assert schedule(path, *AT)[0] == 0


def test_json_lines_and_health(tmp_path):
    loaded(tmp_path, catch_up=1)
    health = tmp_path / "health.json"
    path = tmp_path / "pipelines" / "weekly.yaml"
    status, text = schedule(path, *AT, "--log-format", "json", "--health", health, "--catch-up", 2)
    events = [json.loads(line) for line in text.splitlines()]
    assert (status, [e["period"] for e in events]) == (0, ["2026-W04", "2026-W05"])
    assert json.loads(health.read_text())["state"] == "ok"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--at", "2026-02-03T06:00:00Z"),  # without --once
        ("--once", "--at", "2026-02-03T06:00:00"),  # no offset
        ("--once", "--at", "tomorrow"),
        ("--once", "--at", "2999-01-01T00:00:00Z"),  # its rows do not exist yet
    ],
)
def test_an_unusable_instant_is_usage(tmp_path, arguments):
    status, text = schedule(project(tmp_path), *arguments)
    assert status == 2
    assert "DPR690" in text


def test_a_faulty_file_is_2_and_nothing_runs(tmp_path):
    config = loaded(tmp_path, catch_up=1)
    good, bad = tmp_path / "pipelines" / "weekly.yaml", tmp_path / "pipelines" / "bad.yaml"
    bad.write_text(good.read_text().replace("schedule:", "shedule:"))
    assert schedule(good, bad, *AT)[0] == 2
    bad.write_text("\n".join(good.read_text().splitlines()[:-1]) + "\n")
    status, text = schedule(good, bad, *AT)
    assert (status, "DPR170" in text) == (2, True)
    assert Ledger.open(config.budget.ledger).entries() == []


def test_the_handlers_are_put_back(tmp_path):
    before = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)]
    loaded(tmp_path, catch_up=1)
    schedule(tmp_path / "pipelines" / "weekly.yaml", *AT)
    assert [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)] == before


def test_two_processes_share_one_period_and_stop_on_a_signal(tmp_path):
    """In the foreground, by the real clock: one charge, same bytes, exit 0 on SIGTERM and SIGINT."""
    config = loaded(tmp_path, catch_up=1)
    code = (
        "import sys; from dprelease.cli import main\n"
        "from tests.rules_alone import leave_out_great_expectations; leave_out_great_expectations()\n"
        "sys.argv[0] = 'dprelease'; main()"
    )
    line = [sys.executable, "-c", code, "schedule", "pipelines/weekly.yaml", "--log-format", "json"]
    workers = [
        subprocess.Popen(
            line, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    events = [[] for _ in workers]
    try:
        for worker, seen, number in zip(
            workers, events, (signal.SIGTERM, signal.SIGINT), strict=True
        ):
            for text in worker.stdout:
                seen.append(json.loads(text))
                if seen[-1]["event"] == "next":
                    worker.send_signal(number)
            assert worker.wait(120) == 0
    finally:
        for worker in workers:
            worker.kill()
            worker.stdout.close()
    for seen in events:
        assert seen[0]["event"] in ("released", "republished", "idle")  # a late one finds it done
        assert seen[-1]["event"] == "stopped"
    [entry] = Ledger.open(config.budget.ledger).entries()
    assert [e["event"] for seen in events for e in seen].count("released") == 1
    folder = config.publish.to / "weekly" / entry.entry.key.period
    assert read_folder(folder) == Ledger.open(config.budget.ledger).files(entry.entry.key)
