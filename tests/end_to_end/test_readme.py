"""What README and the examples say is what happens."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shutil
import stat
import subprocess

import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.cli import app
from tests.end_to_end.projects import ROOT, flights, plans_once

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
PAGES = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")


def test_the_readme_is_short_and_sends_each_reader_on():
    assert len(README.encode()) <= 6_000
    [python] = [text for language, text in BLOCKS if language == "python"]
    assert len([line for line in python.splitlines() if line.strip()]) <= 10
    for page in ("how-to/write-a-schema", "how-to/schedule", "privacy-promise", "how-to/read"):
        assert f"](docs/{page}.md)" in README


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    plans_once(monkeypatch)
    return tmp_path


def test_the_readme_opens_with_what_dprelease_is_a_picture_and_the_two_commands():
    top = README[: README.index("\n## ")]
    assert top.startswith(
        "# dprelease\n\nA Python library that publishes statistics of a private table"
    )
    [picture] = re.findall(r"!\[[^]]+\]\((docs/[^)]+)\)", top)
    assert (ROOT / picture).stat().st_size < 200_000
    assert top.index(picture) < top.index("make demo") < 500
    assert BLOCKS[0][0] == "sh"
    assert [line.split("#")[0].strip() for line in BLOCKS[0][1].splitlines()] == [
        "make demo",
        "make test",
    ]


def test_python_blocks_run_in_order_and_print_what_they_show(here):
    for folder in ("schemas", "examples/data"):
        (here / folder).mkdir(parents=True)
    shutil.copy(ROOT / "schemas" / "fair.yaml", here / "schemas")
    shutil.copy(ROOT / "examples" / "data" / "fair_1978.csv", here / "examples" / "data")
    names = {}
    ran = 0
    for at, (language, text) in enumerate(BLOCKS):
        if language == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(text, "README.md", "exec"), names)
            assert BLOCKS[at + 1] == ("text", printed.getvalue())
            ran += 1
    assert ran == 1


def test_the_yaml_block_is_a_schema_that_can_be_planned(here):
    (schema,) = [text for language, text in BLOCKS if language == "yaml"]
    (here / "clinic.yaml").write_text(schema, encoding="utf-8")
    assert [s.name for s in dp.plan("clinic.yaml").statistics][:2] == ["count", "mean_age"]


def test_the_pipeline_block_runs_as_written(here, monkeypatch):
    lines = [line.split("#")[0].split() for line in BLOCKS[-1][1].splitlines()]
    for words in lines:
        if words[0] == "cd":
            monkeypatch.chdir(here / words[1])
            continue
        assert words[0] == "dprelease"
        result = CliRunner().invoke(app, words[1:])
        assert result.exit_code == 0, result.output
    assert "\nverified under the rules of release/2" in result.output


@pytest.mark.parametrize("page", PAGES)
def test_links_and_named_places_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if "://" not in target:
            assert (ROOT / target).exists(), target
    for place in re.findall(r"`(tests/[\w/.]+)`", text):
        assert (ROOT / place).exists(), place


def test_every_shipped_schema_and_pipeline_plans():
    runner = CliRunner()
    schemas, pipelines = sorted(ROOT.glob("schemas/*.yaml")), sorted(ROOT.glob("pipelines/*.yaml"))
    assert schemas
    assert pipelines
    for path in schemas:
        assert runner.invoke(app, ["schema", "check", str(path)]).exit_code == 0, path
    for path in pipelines:
        assert runner.invoke(app, ["plan", str(path)]).exit_code == 0, path


def test_the_survey_example(here, capsys):
    main = runpy.run_path(str(ROOT / "examples" / "fair.py"))["main"]
    main(here / "out")
    said = capsys.readouterr().out
    assert "spent epsilon 1 · 1 of 2 spent on fair" in said
    assert "FAIL" not in said
    assert (here / "out" / "public" / "fair" / "final" / "report.html").is_file()


def test_the_flights_example(here, capsys):
    pipeline = flights(here) / "pipelines" / "flights_weekly.yaml"
    CliRunner().invoke(app, ["ledger", "init", str(pipeline)])
    runpy.run_path(str(ROOT / "examples" / "flights.py"))["main"](str(pipeline), "2013-W05")
    said = capsys.readouterr().out
    assert "spent epsilon 2" in said
    assert "cost nothing" in said
    assert len(re.findall(r"^ +[0-9A-Z]{2} ", said, re.MULTILINE)) == 16


class TestMake:
    def dry(self, target):
        done = subprocess.run(
            ["make", "-n", target, "VENV=/nonexistent/venv"],
            capture_output=True, text=True, check=True, cwd=ROOT,
            # The suite itself may run below `make test`, whose flags would reach this make.
            env={k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))},
        )  # fmt: skip
        return done.stdout

    def test_demo_installs_runs_verifies_and_shows_the_ledger(self):
        said = self.dry("demo")
        at = [said.index(part) for part in (
            "-m venv", "pip install", "ledger init", "run pipelines/flights_weekly.yaml --period 2013-W05",
            "verify public/flights_weekly/2013-W05", "ledger show", "report.html",
        )]  # fmt: skip
        assert at == sorted(at)

    def test_the_year_is_scheduled_verified_and_shown(self):
        said = self.dry("demo-year")
        at = [said.index(part) for part in (
            "-m venv", "pip install", "ledger init pipelines/flights_year.yaml",
            "schedule pipelines/flights_year.yaml --once --at 2014-01-01T12:00:00Z",
            "verify public/flights_year/2013-W27", "index.html",
        )]  # fmt: skip
        assert at == sorted(at)

    def test_test_runs_every_check_beside_pytest_and_fails_with_either(self):
        said, checks = self.dry("test"), self.dry("lint")
        at = [said.index(part) for part in ("[test", " lint >", "-m pytest", "wait $checks")]
        assert at == sorted(at)
        assert "exit $((tested | linted))" in said.rstrip().splitlines()[-1]
        for part in ("ruff check", "ruff format --check", "bin/mypy", "lint-imports"):
            assert part in checks

    def test_ci_is_make_test(self):
        script = ROOT / ".ci" / "run"
        text = script.read_text()
        assert text.startswith("#!/usr/bin/env bash\n")
        assert "set -euo pipefail" in text
        assert "make test" in text
        assert script.stat().st_mode & stat.S_IXUSR


def test_the_licence_is_the_one_declared():
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
