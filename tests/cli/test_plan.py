"""`dprelease plan`: the page, the comparison, the wish, and watching without waiting."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from typer.testing import CliRunner

from dprelease.cli import app, plan
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.planned import plan_pipeline
from dprelease.pipeline.starter import create_starter
from tests.end_to_end.projects import plans_once

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
def pipeline(tmp_path, monkeypatch):
    plans_once(monkeypatch)
    create_starter(tmp_path)
    file = tmp_path / "pipelines" / "short.yaml"
    file.write_text(SHORT)
    return file


def invoke(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_a_page_that_cannot_be_written_is_refused_by_name_and_its_folder_is_made(
    pipeline, tmp_path
):
    made = tmp_path / "new" / "plan.html"
    assert invoke("plan", pipeline, "--html", made).exit_code == 0
    assert made.exists()
    for wish in ("--html", "--out"):
        refused = invoke("plan", pipeline, wish, made / "below" / "a.file")
        assert (refused.exit_code, "DPR668" in refused.output) == (2, True), refused.output


def test_the_page_is_written_and_the_wish_answered(pipeline, tmp_path):
    page = tmp_path / "plan.html"
    result = invoke("plan", pipeline, "--html", page, "--max-error", "count=2")
    assert result.exit_code == 0, result.output
    assert "count within ±2 rows" in result.output
    assert "<h1>Visits to clinics</h1>" in page.read_text(encoding="utf-8")
    assert not (tmp_path / ".dprelease" / "ledger.db").exists()  # nothing was opened, nothing spent
    other = tmp_path / "other.html"  # a page, whichever option names it
    assert invoke("plan", pipeline, "--out", other).exit_code == 0
    assert other.read_bytes() == page.read_bytes()


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


def test_a_narrow_plan_has_two_lines_per_statistic_and_all_names_every_mechanism(pipeline):
    wide = CliRunner().invoke(app, ["plan", str(pipeline)], env={"COLUMNS": "160"}).output
    narrow = CliRunner().invoke(app, ["plan", str(pipeline)], env={"COLUMNS": "80"}).output
    made = plan_pipeline(load_pipeline(pipeline))
    assert "┃" in wide
    assert "┃" not in narrow
    assert max(map(len, narrow.splitlines())) <= 80
    for statistic in made.statistics:
        at = next(i for i, x in enumerate(narrow.splitlines()) if x.startswith(statistic.name))
        assert statistic.mechanism in narrow.splitlines()[at + 1]
        assert statistic.error_text in narrow.splitlines()[at]
    every = CliRunner().invoke(app, ["plan", str(pipeline), "--all"]).output
    for statistic in made.statistics:
        listed = every.partition(f"{statistic.name} by each admissible")[2].splitlines()
        listed = listed[1 : len(statistic.chosen) + 1]
        for option, line in zip(statistic.chosen, listed, strict=True):
            assert line.split()[0] == option.mechanism
    assert "by each admissible" not in wide


def test_a_plan_proposes_to_count_undeclared_values_and_says_what_the_budget_pays_for(tmp_path):
    create_starter(tmp_path)
    file = tmp_path / "pipelines" / "short.yaml"
    file.write_text(SHORT.replace("by: []", "by: [region]"))
    said = " ".join(invoke("plan", file).output.split())
    assert "undeclared values of `region` are dropped; with `other: {as: other}`" in said
    assert "the whole budget, epsilon 12, pays for 12 such releases" in said
    schema = tmp_path / "schemas" / "clinic.yaml"
    schema.write_text(re.sub(r"(region: .*?)}", r"\1, other: {as: elsewhere}}", schema.read_text()))
    assert "undeclared" not in invoke("plan", file).output


def test_what_a_budget_pays_for_counts_its_delta_and_is_no_fraction(tmp_path):
    """Only epsilon was counted, and 2.05 was printed as 41/20."""
    create_starter(tmp_path)
    file = tmp_path / "pipelines" / "short.yaml"
    text = SHORT.replace("by: [],", "by: [], epsilon: 0.3, delta: 1e-6,")
    file.write_text(text.replace("epsilon: 12", "epsilon: 2.05, delta: 3e-6"))
    said = " ".join(invoke("plan", file).output.split())
    assert "the whole budget, epsilon 2.05, delta 3e-06, pays for 3 such releases" in said
    invoke("plan", file, "--html", tmp_path / "plan.html")
    page = (tmp_path / "plan.html").read_text(encoding="utf-8")
    assert "ε = 2.05, delta 3e-06, enough for 3 such releases" in " ".join(page.split())


def test_a_plan_by_the_part_of_a_date_is_shown(tmp_path):
    """It is no column of the schema: a sentence on undeclared values looked for one and failed."""
    create_starter(tmp_path)
    file = tmp_path / "pipelines" / "short.yaml"
    schema = tmp_path / "schemas" / "clinic.yaml"
    day = "day: {kind: date, range: [2026-01-01, 2026-03-31]}"
    schema.write_text(schema.read_text().replace("columns:", f"columns:\n  {day}"))
    file.write_text(SHORT.replace("by: []", "by: ['month(day)', region]"))
    said = " ".join(invoke("plan", file).output.split())
    assert "12 public groups by month(day), region" in said
    assert "undeclared values of `region` are dropped" in said


def test_all_says_the_error_of_a_choice_by_rank(pipeline):
    more = pipeline.with_name("ranks.yaml")
    said = yaml.safe_load(pipeline.read_text())
    said["release"] = {**said.get("release", {}), "statistics": ["count", "median(age)"]}
    more.write_text(yaml.safe_dump(said))
    shown = CliRunner().invoke(app, ["plan", str(more), "--all"], env={"COLUMNS": "300"}).output
    made = plan_pipeline(load_pipeline(more))
    ranked = next(s for s in made.statistics if s.function == "median")
    lines = shown.splitlines()
    at = next(i for i, x in enumerate(lines) if x.startswith(f"{ranked.name} by each admissible"))
    assert ranked.error_text in lines[at + 1]
    assert len(ranked.chosen) > 1
    for line, option in zip(lines[at + 1 :], ranked.chosen, strict=False):
        assert option.mechanism in line
        assert "in rank" in line
    assert "in rank" not in str(made.to_json()["statistics"][-1]["options"])
