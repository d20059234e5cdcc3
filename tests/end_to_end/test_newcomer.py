"""The path of somebody new: an empty folder, the printed commands, and the mistakes everybody makes."""

from __future__ import annotations

import json
import shlex
import shutil

import pytest
from typer.testing import CliRunner

from dprelease.cli import app
from tests.end_to_end.projects import plans_once, tree

PIPELINE = "pipelines/clinic_weekly.yaml"
WEEK = "public/clinic_weekly/2026-W46"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    plans_once(monkeypatch)
    return tmp_path


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A starter with its ledger, from which nothing was released."""
    folder = tmp_path_factory.mktemp("begun")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        call("init")
        call("ledger", "init", PIPELINE)
    return folder


@pytest.fixture
def ready(begun, here):
    """The working folder, with a copy of that starter in it."""
    shutil.copytree(begun, here, dirs_exist_ok=True)
    return here


def call(*arguments, exit_code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == exit_code, result.output
    return result.output


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_printed_commands_from_an_empty_folder_to_a_verified_release(here):
    said = call("init")
    lines = [line for line in said.splitlines() if line.startswith("  dprelease ")]
    *commands, schedule = [shlex.split(line, comments=True)[1:] for line in lines]
    assert [c[0] for c in commands] == ["schema", "plan", "ledger", "run", "verify"]
    assert schedule == ["schedule", PIPELINE, "--once"]
    checked, *outputs = [call(*c) for c in commands]  # what `init` prints works as printed

    assert "schemas/clinic.yaml: valid" in checked
    assert "no row was read" in outputs[0]
    assert "clinic has epsilon 10, 0 spent" in outputs[1]
    stages = [line.split()[0] for line in outputs[2].splitlines() if line[:1].islower()]
    assert [s for s in stages if s in ("plan", "preflight", "charge", "draw", "publish")] == [
        "plan", "preflight", "charge", "draw", "publish",
    ]  # fmt: skip
    assert "of 10 spent on clinic" in outputs[2]
    assert (here / WEEK / "report.html").is_file()
    assert any(line.startswith("verified under the rules of") for line in outputs[3].splitlines())
    assert "FAIL" not in outputs[3]

    again = call("run", PIPELINE, "--period", "2026-W46", "--json")
    assert json.loads(CliRunner().invoke(app, ["kinds", "--json"]).stdout)
    assert "cost nothing (already released)" in again
    assert call("ledger", "show", PIPELINE).count("│ 2026-W46 │") == 1
    call("report", WEEK, "--to", "again.html")
    assert (here / "again.html").read_bytes() == (here / WEEK / "report.html").read_bytes()


def test_init_overwrites_nothing(here):
    call("init")
    before = tree(here)
    said = call("init", exit_code=2)
    assert "exists already" in said
    assert "DPR160" in said
    assert tree(here) == before


@pytest.mark.parametrize("place", ["a_file", "a_file/below", "/proc/none", "half", "state"])
def test_init_where_nothing_can_be_written_says_so_and_leaves_nothing(here, place):
    (here / "a_file").write_text("mine", encoding="utf-8")
    (here / "half").mkdir()
    (here / "half" / "data").write_text("a file where a folder has to be", encoding="utf-8")
    (here / "state").mkdir()
    (here / "state" / ".dprelease").write_text(
        "a file where the ledger has to be", encoding="utf-8"
    )
    before = sorted(here.rglob("*"))
    said = call("init", place, exit_code=2)
    assert "DPR161" in said and "DPR900" not in said
    assert place in said.replace("\n", "")
    assert sorted(here.rglob("*")) == before  # no empty folder either


def test_init_in_a_named_folder_says_where_to_go(here):
    assert "cd my-release" in call("init", "my-release")


@pytest.mark.parametrize("arguments", [["run", PIPELINE, "--period", "2026-W46"]])
def test_without_a_ledger_the_fix_is_the_very_command(here, arguments):
    call("init")
    said = call(*arguments, exit_code=1)
    assert "there is no ledger" in said
    assert f"`dprelease ledger init {PIPELINE}`" in said
    assert "nothing was spent" in said
    assert not (here / ".dprelease" / "ledger.db").exists()


MISTAKES = {
    "a misspelt column": (
        "schemas/clinic.yaml", "- mean(age)", "- mean(agee)", 2, ["agee", "`age`", "clinic.yaml:"],
    ),
    "a misspelt statistic": (
        "schemas/clinic.yaml", "- mean(age)", "- meen(age)", 2, ["meen", "clinic.yaml:"],
    ),
    "an unknown key": (
        "pipelines/clinic_weekly.yaml", "publish:", "publihs:", 2, ["publihs", "`publish`", "yaml:"],
    ),
    "a missing file": (
        "pipelines/clinic_weekly.yaml", "visits.csv", "visit.csv", 1, ["visit.csv", "check the path"],
    ),
    "a missing schema": (
        "pipelines/clinic_weekly.yaml", "clinic.yaml", "clinics.yaml", 2, ["clinics.yaml"],
    ),
    "a range without an end": (
        "schemas/clinic.yaml", "range: [0, 110]", "range: [0, .inf]", None, ["age"],
    ),
    "a period column the schema lacks": (
        "schemas/clinic.yaml", "visited_at: {", "visited_on: {", 2, ["visited_at", "`visited_on`"],
    ),
    "a column the table lacks": (
        "schemas/clinic.yaml", "bmi", "bmj", 1, ["bmj", "visits.csv"],
    ),
    "a budget lowered in the file alone": (
        "pipelines/clinic_weekly.yaml", "epsilon: 10", "epsilon: 0.5", 1,
        ["another budget", "it is 10", f"`dprelease ledger add {PIPELINE} --epsilon E`"],
    ),
    "an unquoted NO": (
        "schemas/clinic.yaml", '"north"', "NO", 2, ["clinic.yaml:", "quote"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_explained_and_cost_nothing(ready, mistake):
    file, old, new, exit_code, parts = MISTAKES[mistake]
    edit(ready / file, old, new)
    result = CliRunner().invoke(app, ["run", PIPELINE, "--period", "2026-W46", "-q"])
    assert result.exit_code in ((1, 2) if exit_code is None else (exit_code,)), result.output
    for part in ("error: ", "code   DPR", "nothing was spent", *parts):
        assert part in result.output
    assert "Traceback" not in result.output
    edit(ready / file, new, old)
    assert "2026-W46" not in call("ledger", "show", PIPELINE)


@pytest.mark.parametrize(
    ("period", "part"),
    [
        (None, "which week?"),
        ("2026-11", "is not a week"),
        ("2026-W54", "is not a week"),
        ("../../etc", "not a valid name"),
        ("latest", "is not a week"),
    ],
)
def test_a_missing_or_wrong_period_says_how_to_write_one(ready, period, part):
    arguments = ["run", PIPELINE, *(["--period", period] if period else [])]
    said = call(*arguments, exit_code=2)
    assert part in said
    if period is None:
        assert "DPR183" in said
        fix = "--period 2026-W47`; the source holds periods from 2026-W44 to 2026-W47"
        assert fix in " ".join(said.split())
    elif "valid name" not in part:
        assert "2013-W05" in said
    assert not (ready / "public").exists()


def test_a_missing_pipeline_file(here):
    assert "does not exist" in call("run", "pipelines/none.yaml", "--period", "x", exit_code=2)


@pytest.mark.parametrize(
    ("old", "new", "fix"),
    [
        ("range: [0, 110]", "range: [110, 0]", "write the smaller end first"),
        ("age >= 18", "age => 18", "write `>=`, not `=>`"),
        ("count(persons)", "count(person)", 'write "count(persons)"'),
        ("bmi:        {", "bmi:{", "write a space after every colon"),
        ("  age:     ", "\tage:     ", "indent with spaces"),
        ("user: patient_id", "user: patient", "did you mean `patient_id`?"),
    ],
)
def test_a_slip_in_the_schema_is_named_with_its_line_and_mended_by_its_fix(here, old, new, fix):
    call("init")
    schema = here / "schemas" / "clinic.yaml"
    text = schema.read_text()
    edit(schema, old, new)
    said = call("schema", "check", "schemas/clinic.yaml", exit_code=2)
    assert fix in said
    assert "schemas/clinic.yaml:" in said
    schema.write_text(text)
    assert "valid" in call("schema", "check", "schemas/clinic.yaml")
