"""A pipeline that finds keys, week by week: scheduled, approved, corrected, indexed, checked by all that checks a release."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.budget.ledger import Ledger
from dprelease.cli import app
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.planned import plan_pipeline
from dprelease.pipeline.run import run as run_pipeline
from dprelease.results.validate.gx import expectations, long_table
from dprelease.results.validate.gx_process import judge
from tests.end_to_end import projects
from tests.end_to_end.test_keys import schema_of
from tests.sizes import whole

one_other_budget, own_rules = projects.one_other_budget, projects.own_rules
pytestmark = pytest.mark.usefixtures("one_other_budget", "own_rules")

MONDAY = datetime(2026, 8, 31, tzinfo=UTC)  # of 2026-W36
WEEKS = {
    "2026-W36": {"owl": 400, "heron": 300},
    "2026-W37": {"owl": 400},
    "2026-W38": {},
    "2026-W39": {"owl": 400, "heron": 300, "a single one": 1},
}
Said = Callable[..., tuple[int, str]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Said:
    """Make a project of four weeks of sightings, in the third of which there is none; return its command line."""
    monkeypatch.chdir(tmp_path)
    rows = [
        (f"{bird}-{i}", MONDAY + timedelta(weeks=week, minutes=i), bird)
        for week, birds in enumerate(WEEKS.values())
        for bird, persons in birds.items()
        for i in range(persons)
    ]
    pd.DataFrame(rows, columns=["who", "at", "page"]).to_parquet("sightings.parquet")
    write_schema(2)
    Path("jobs").mkdir()
    write_pipeline()

    def said(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, list(words))
        return done.exit_code, " ".join(done.output.split())

    assert said("ledger", "init", "jobs/birds.yaml")[0] == 0
    return said


def write_schema(most: int) -> None:
    unit = {"user": "who", "per": "week", "max_groups": 2, "max_rows_per_group": 2}
    schema = schema_of(unit)
    schema["columns"]["at"] = {"kind": "timestamp"}
    schema["time"] = {"column": "at", "timezone": "UTC", "immutable": True}
    asked = {"column": "page", "epsilon": 1, "delta": "0.000001", "max_keys": most}
    Path("birds_schema.yaml").write_text(json.dumps(schema | {"release": {"keys": asked}}))


def write_pipeline(**budget: Any) -> None:
    paid = {"ledger": "../private/l.db", "dataset": "log", "epsilon": 1, "delta": "0.000001"}
    pipeline = {
        "dprelease": "pipeline/1",
        "name": "birds",
        "source": {"parquet": "../sightings.parquet"},
        "schema": "../birds_schema.yaml",
        "period": {"column": "at", "every": "week", "timezone": "UTC", "first": "2026-W36"},
        "schedule": {"cron": "0 3 * * 1", "timezone": "UTC", "catch_up": 9},
        "budget": {**paid, **budget},
        "publish": {"to": "../public", "formats": ["csv", "html", "registry"]},
    }
    Path("jobs/birds.yaml").write_text(json.dumps(pipeline))


def held() -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in Path("public").glob("birds/2026-*/*")}


def birds_of(period: str) -> list[str]:
    return pd.read_csv(f"public/birds/{period}/data.csv")["page"].tolist()


def test_a_schedule_finds_the_keys_of_every_week_once(project: Said) -> None:
    at = ("--once", "--at")
    status, output = project("schedule", "jobs/birds.yaml", *at, "2026-09-07T04:00:00Z")
    assert (status, output.count("released"), "birds 2026-W36" in output) == (0, 1, True)
    first = held()
    status, output = project("schedule", "jobs/birds.yaml", *at, "2026-09-07T05:00:00Z")
    assert (status, "nothing is due" in output) == (0, True)
    status, output = project("schedule", "jobs/birds.yaml", *at, "2026-09-28T04:00:00Z")
    assert (status, output.count("released")) == (0, 3)  # two were missed
    assert {name: held()[name] for name in first} == first
    for period, birds in WEEKS.items():
        assert birds_of(period) == sorted(bird for bird in birds if birds[bird] > 1)
    book = Ledger.open("private/l.db")
    assert (book.verify().ok, len(book.entries("log"))) == (True, 4)
    budget = book.budget("log")
    assert (budget.spent, book.spent_at("log", 10**6)) == (1, (1, budget.delta))
    status, output = project("verify", "public", "--ledger", "private/l.db")
    assert (status, "4 of 4 folders verified" in output) == (0, True)
    page = Path("public/birds/index.html").read_text()
    assert "Nobody declared the keys." in page
    assert "in 2 groups" in page
    index = json.loads(Path("public/birds/index.json").read_text())
    assert [p["period"] for p in index["periods"]] == [*WEEKS]

    status, output = project("withdraw", "public/birds/2026-W39", "--reason", "wrong rows")
    assert (status, Path("public/birds/latest").resolve().name) == (0, "2026-W38")
    status, output = project("verify", "public")
    assert (status, "3 of 4 folders verified" in output) == (1, True)
    assert list(dp.read_series("public/birds")) == ["2026-W36", "2026-W37", "2026-W38"]


def test_one_pass_finds_keys_and_counts_by_them(project: Said) -> None:
    """The list was read when the command began: the first week was refused, and later ones were counted by an old list."""
    schema = json.loads(Path("birds_schema.yaml").read_text())
    schema["columns"]["page"]["values_from"] = {"keys": "public/birds/latest"}
    schema["release"] = {"epsilon": 1, "by": ["page"], "statistics": ["count"]}
    schema["rows"] = {"max": 1000}
    Path("counts_schema.yaml").write_text(json.dumps(schema))
    counts = json.loads(Path("jobs/birds.yaml").read_text()) | {"name": "counts"}
    counts |= {"schema": "../counts_schema.yaml"}
    counts["budget"] |= {"dataset": "counts"}
    Path("jobs/counts.yaml").write_text(json.dumps(counts))
    assert project("ledger", "init", "jobs/counts.yaml")[0] == 0
    for at, week in (("2026-09-07", "2026-W36"), ("2026-09-28", "2026-W39")):
        both = "jobs/birds.yaml", "jobs/counts.yaml", "--once", "--at", f"{at}T04:00:00Z"
        status, output = project("schedule", *both)
        assert status == 0, output
        listed = Ledger.open("private/l.db").entries("counts")[-1].lists
        assert listed["page"][0].startswith(f"birds/{week}@")


def test_a_repeat_of_one_week_costs_nothing_and_says_so_once(project: Said) -> None:
    status, output = project("keys", "jobs/birds.yaml", "--period", "2026-W36")
    assert (status, output.count("project root:")) == (0, 1)
    assert "keys of page that the draw finds; none is declared" in output
    assert "draw found keys, 1 statistic" in output
    before = held()
    status, output = project("keys", "jobs/birds.yaml", "--period", "2026-W36", "--quiet")
    assert (status, "cost nothing" in output, held()) == (0, True, before)
    write_schema(1)
    status, output = project("keys", "jobs/birds.yaml", "--period", "2026-W36")
    assert (status, "release.keys.max_keys: recorded 2, asked 1" in output) == (1, True)


def test_keys_are_found_after_an_approval_of_what_is_asked(project: Said) -> None:
    write_pipeline(approval="required")
    status, output = project("keys", "jobs/birds.yaml", "--period", "2026-W36")
    assert (status, "DPR306" in output) == (1, True)
    status, output = project(
        "schedule", "jobs/birds.yaml", "--once", "--at", "2026-09-14T04:00:00Z"
    )
    assert (status, output.count("DPR306")) == (1, 2)
    assert project("plan", "jobs/birds.yaml", "--out", "plan.json")[0] == 0
    assert project("approve", "plan.json", "--pipeline", "jobs/birds.yaml")[0] == 0
    status, output = project(
        "schedule", "jobs/birds.yaml", "--once", "--at", "2026-09-14T04:00:00Z"
    )
    assert (status, output.count("released")) == (0, 2)
    write_schema(1)
    status, output = project("keys", "jobs/birds.yaml", "--period", "2026-W38")
    assert (status, "release.keys.max_keys: approved 2, asked 1" in output) == (1, True)


def test_no_page_says_that_found_keys_were_declared(project: Said, tmp_path: Path) -> None:
    for period in ("2026-W36", "2026-W38"):
        assert project("keys", "jobs/birds.yaml", "--period", period, "--quiet")[0] == 0
        folder = Path("public/birds") / period
        report = (folder / "report.html").read_text()
        assert "Nobody declared the keys." in report
        assert "Every declared group" not in report
        assert "in 2 groups" in report
        assert "group keys" not in (folder / "registry.yaml").read_text()
    assert project("note", "public/birds/2026-W36", "--to", "note.md")[0] == 0
    assert "2 by page; found by the draw, none declared" in Path("note.md").read_text()
    assert project("plan", "jobs/birds.yaml", "--html", "plan.html")[0] == 0
    assert "for each of the keys that the draw finds by" in Path("plan.html").read_text()
    assert "found keys by page" in repr(plan_pipeline(load_pipeline(tmp_path / "jobs/birds.yaml")))


def test_expectations_of_a_pipeline_hold_for_every_list_that_it_can_find(
    project: Said, tmp_path: Path
) -> None:
    config = load_pipeline(tmp_path / "jobs/birds.yaml")
    for period in ("2026-W36", "2026-W38"):
        drawn = run_pipeline(config, period=period, now=MONDAY + timedelta(weeks=9))
        noised = dp.read(drawn.folder).noised
        for suite in (expectations(plan_pipeline(config)), expectations(noised.plan)):
            assert not sum(failed for _, failed in judge(long_table(noised), suite))


def test_an_audit_looks_at_found_keys(project: Said) -> None:
    status, output = project("audit", "jobs/birds.yaml", "--draws", str(whole(200, 2000)), "--json")
    evidence = json.loads(output[output.index("{") : output.rindex("}") + 1])
    assert (status, evidence["ok"]) == (0, True)
    assert all(finding["ok"] for finding in evidence["findings"])
    law = next(f for f in evidence["findings"] if f["layer"] == "A exact laws")
    assert (law["subject"], law["found"]) == ("persons: found_keys", "delta 1e-06")
