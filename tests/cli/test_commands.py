"""Every command: help with an example, exit status, one JSON object, nothing heavy at start-up."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from fractions import Fraction
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease import errors
from dprelease.cli import app, terminal
from dprelease.cli.terminal import guarded
from tests.end_to_end.projects import ROOT, clinic, command
from tests.pipeline import tiny
from tests.rules_alone import rules_alone

COMMANDS = [
    ["init"], ["check"], ["plan"], ["run"], ["keys"], ["verify"], ["report"], ["kinds"], ["audit"],
    ["expectations"], ["inspect"], ["schedule"], ["index"], ["withdraw"], ["supersede"],
    ["schema", "check"], ["schema", "json-schema"], ["schema", "import"], ["schema", "draft"],
    ["derive"], ["diff"], ["approve"],
    ["note"], ["ledger", "init"], ["ledger", "show"], ["ledger", "verify"], ["ledger", "add"],
    ["ledger", "reconcile"], ["ledger", "move"],
]  # fmt: skip


def invoke(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


@cache
def help_of(*name):
    result = invoke(*name, "--help")
    assert result.exit_code == 0
    return result.output


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clinic")
    pipeline = clinic(folder)
    with rules_alone():
        result = invoke("run", pipeline, "--period", "2026-W46", "--json")
    assert result.exit_code == 0, result.output
    return folder, pipeline, json.loads(result.stdout)


@pytest.mark.parametrize("name", COMMANDS, ids=" ".join)
def test_help_shows_an_example_that_names_the_command(name):
    text = " ".join(help_of(*name).split())
    assert f"Example: dprelease {' '.join(name)}" in text


def test_every_command_is_in_the_list_above():
    from typer.main import get_command

    found = []
    for name, one in get_command(app).commands.items():
        below = getattr(one, "commands", None)
        found += [[name, sub] for sub in below] if below else [[name]]
    assert {tuple(c) for c in COMMANDS} == {tuple(c) for c in found}


def test_the_report_of_a_withdrawn_release_says_so(project, tmp_path):
    _, _, said = project
    place = tmp_path / "clinic_weekly" / "2026-W46"
    shutil.copytree(said["folder"], place)
    corrected = invoke("report", place, "--to", tmp_path / "one.html")
    assert corrected.exit_code == 0
    assert "does not stand" not in corrected.output + (tmp_path / "one.html").read_text()
    assert invoke("withdraw", place, "--reason", "test rows").exit_code == 0
    gone = invoke("report", place, "--to", tmp_path / "two.html")
    assert "does not stand" in gone.output
    assert "test rows" in (tmp_path / "two.html").read_text()
    assert invoke("verify", place).exit_code == 1  # and the folder itself still has its bytes
    assert "ok    values" in invoke("verify", place).output


def test_who_is_protected_has_the_publishers_word_wherever_a_run_says_it(project):
    """The starter names its units patients; the id's column is called patient_id. Nor is a withdrawn release run in silence."""
    folder, pipeline, ran = project
    again = ["run", pipeline, "--period", "2026-W46"]
    said = [invoke("check", pipeline), invoke("verify", ran["folder"]), invoke(*again)]
    said += [invoke("schema", "check", folder / "schemas" / "clinic.yaml")]
    receipt = str(dp.read(ran["folder"]).receipt)
    for text in [*(s.output for s in said), receipt]:
        assert "one patient (at most 2 rows" in " ".join(text.split())
        assert not re.search(r"\b(one|per|each|any) patient_id\b", text)
    assert "withdrawn" not in said[2].output
    assert invoke("withdraw", ran["folder"], "--reason", "test rows").exit_code == 0
    assert re.search(r"status +withdrawn on .*: test rows", invoke(*again).output)
    (Path(ran["folder"]).parent / "status.json").unlink()


def test_run_prints_one_json_object(project):
    _, _, said = project
    assert said["charged"] == said["epsilon"]
    assert said["fresh"] is True
    assert said["period"] == "2026-W46"
    assert set(said["ledger"]) == {"ledger_id", "seq", "head_hash"}


@pytest.mark.parametrize("name", ["plan", "verify", "show", "check", "ledger verify", "kinds"])
def test_json_is_one_strict_object(project, name):
    folder, pipeline, ran = project
    arguments = {
        "plan": ["plan", pipeline],
        "verify": ["verify", ran["folder"], "--ledger", folder / ".dprelease" / "ledger.db"],
        "show": ["ledger", "show", pipeline],
        "check": ["schema", "check", folder / "schemas" / "clinic.yaml"],
        "ledger verify": ["ledger", "verify", pipeline],
        "kinds": ["kinds"],
    }[name]
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    assert isinstance(json.loads(result.stdout, parse_constant=pytest.fail), dict)


def test_errors_are_one_json_object_too(tmp_path):
    result = invoke("plan", tmp_path / "none.yaml", "--json")
    assert result.exit_code == 2
    said = json.loads(result.stdout)
    assert said["spent"] == "nothing"
    assert said["code"].startswith("DPR1")


def test_verify_exits_1_on_a_changed_folder(project, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(project[2]["folder"], copy)
    assert invoke("verify", copy).exit_code == 0
    (copy / "wide.csv").write_text("region\n")
    result = invoke("verify", copy)
    assert result.exit_code == 1
    assert "FAIL" in result.output
    assert "NOT verified" in result.output.splitlines()
    assert invoke("verify", tmp_path).exit_code == 1


def test_verify_looks_at_every_folder_below_the_one_that_is_named(project, tmp_path):
    folder, public = Path(project[2]["folder"]), tmp_path / "public"
    shutil.copytree(folder.parent, public / "a", symlinks=True)
    shutil.copytree(folder, public / "b" / folder.name)
    for place, count in ((public / "a", 1), (public, 2)):
        result = invoke("verify", place)
        assert result.exit_code == 0, result.output
        assert f"{count} of {count} folder" in result.output

    (public / "b" / folder.name / "wide.csv").write_text("region\n")
    shutil.copytree(folder, public / "a" / "2026-W47")
    (public / "a" / "2026-W47" / "release.json").unlink()  # a period that is none is not passed by
    result = invoke("verify", public)
    assert (result.exit_code, "1 of 3 folders verified" in result.output) == (1, True)
    assert "FAIL  files" in result.output
    said = json.loads(invoke("verify", public, "--json").stdout)
    assert sorted((Path(one["folder"]).name, one["ok"]) for one in said) == [
        ("2026-W46", False), ("2026-W46", True), ("2026-W47", False),
    ]  # fmt: skip


def test_check_answers_for_every_file_with_its_line_and_opens_no_table_and_no_ledger(tmp_path):
    pipeline = clinic(tmp_path)
    schema = next((tmp_path / "schemas").glob("*.yaml"))
    for data in (*(tmp_path / "data").glob("*"), *(tmp_path / ".dprelease").glob("*.db*")):
        data.unlink()  # nothing of it is needed
    result = invoke("check", schema, pipeline)
    assert result.exit_code == 0, result.output
    assert [line.partition(": valid ")[2].split(",")[0] for line in result.output.splitlines()] == [
        "schema", "pipeline",
    ]  # fmt: skip
    assert not list((tmp_path / ".dprelease").glob("*.db"))
    text = schema.read_text()
    bad = next(i for i, line in enumerate(text.splitlines(), 1) if "kind:" in line)
    schema.write_text(text.replace("kind:", "kid:", 1))
    other = tmp_path / "schemas" / "other.yaml"
    other.write_text(text)
    said = invoke("check", schema, pipeline, other).stdout.splitlines()
    assert [line.partition(": ")[2].split()[0] for line in said] == ["faulty", "faulty", "valid"]
    result = invoke("check", schema, pipeline, other, tmp_path / "none.yaml", "--json")
    said = json.loads(result.stdout)
    assert (result.exit_code, [one["ok"] for one in said]) == (1, [False, False, True, False])
    assert [str(one["where"]).rpartition("/")[2] for one in said[:2]] == [
        f"{schema.name}:{bad}"
    ] * 2


def test_a_draft_with_open_lines_is_not_called_valid_without_a_word(tmp_path):
    """Its columns are not read, so a checked draft asks for less than its author may think."""
    draft, answered = tmp_path / "draft.yaml", tmp_path / "answered.yaml"
    text = "dprelease: schema/1\nname: t\nunit: row  # ANSWER who?\nadjacency: add_remove\nrows: {max: 9}\ncolumns:\n"
    text += "  x: {kind: integer, range: [0, 9]}\nrelease: {epsilon: 1, statistics: [count]}\n"
    answered.write_text(text)
    draft.write_text(
        text.replace("\nrelease:", "\n  # ANSWER y: {kind: ...}\n# ANSWER z\nrelease:")
    )
    for words in (("check",), ("schema", "check")):
        said = invoke(*words, draft)
        assert (said.exit_code, "2 lines still to answer" in said.output) == (0, True), said.output
        assert "to answer" not in invoke(*words, answered).output
    said = json.loads(invoke("check", draft, answered, "--json").stdout)
    assert [bool(one["open"]) for one in said] == [True, False]


def test_ledger_add_raises_the_budget_on_the_record(tmp_path):
    pipeline = clinic(tmp_path)
    result = invoke("ledger", "add", pipeline, "--epsilon", "2")
    assert result.exit_code == 0
    assert "clinic has epsilon 12 now, 12 left" in result.output
    assert invoke("ledger", "init", pipeline).exit_code == 0  # still a no-op
    assert invoke("ledger", "verify", pipeline).exit_code == 0
    assert invoke("ledger", "add", pipeline, "--epsilon", "-2").exit_code == 2
    assert invoke("ledger", "add", pipeline).exit_code == 2


@pytest.mark.parametrize("composition", ["basic", "zcdp"])
def test_what_is_spent_is_shown_with_its_delta(tmp_path, composition):
    """Without it a JSON of a sum of rho did not say at which delta it is worth that much."""
    schema = {
        "dprelease": "schema/1", "name": "t", "unit": "row", "adjacency": "add_remove", "rows": {"max": 100},
        "columns": {"x": {"kind": "integer", "range": [0, 9]}},
        "release": {"epsilon": 1, "delta": "1e-8", "statistics": ["count"]},
    }  # fmt: skip
    ledger = dp.create_ledger(
        tmp_path / "l.db", schema, epsilon=9, delta="1e-6", composition=composition
    )
    dp.release(pd.DataFrame({"x": [1, 2]}), schema, ledger=ledger, period="p")
    shown = json.loads(invoke("ledger", "show", "--ledger", ledger, "--json").output)
    found = shown["datasets"]["t"]
    assert (found["composition"], Fraction(found["delta"])) == (composition, Fraction("1e-6"))
    spent = Fraction(found["spent_delta"])
    assert Fraction(shown["entries"][0]["delta"]) <= spent <= Fraction("1e-6")
    said = invoke("ledger", "show", "--ledger", ledger).output
    asked = f"; delta: spent {float(spent):.3g} of 1e-06"
    assert (asked if composition == "basic" else "at delta=1e-06") in said


def test_a_ledger_is_shown_whatever_is_faulty_beside_it_and_whole_in_a_narrow_terminal(tmp_path):
    """With a declared time the schema was read for two words, and a fault in it hid what is spent."""
    path, schema = (
        tiny.project(tmp_path, name="of_a_long_name"),
        tmp_path / "schemas" / "visits.yaml",
    )
    good = schema.read_text() + "time: {column: at, timezone: Europe/Dublin, immutable: true}\n"
    schema.write_text(good)
    missing = invoke("ledger", "show", path)
    assert (missing.exit_code, f"`dprelease ledger init {path}`, once" in missing.output) == (
        1,
        True,
    )
    assert invoke("ledger", "init", path).exit_code == 0
    assert invoke("run", path, "--period", "2026-W02", "-q").exit_code == 0
    schema.write_text(good.replace("kind: integer", "kind: intiger"))
    for words in (
        ("plan", path, "--out", tmp_path / "plan.json"),
        ("run", path, "--period", "2026-W02"),
    ):
        assert invoke(*words).exit_code == 2  # the control: they need the schema
    narrow = CliRunner().invoke(app, ["ledger", "show", str(path)], env={"COLUMNS": "60"})
    assert (narrow.exit_code, "one row: at most ε = 1" in narrow.output) == (0, True), narrow.output
    lines = narrow.output.splitlines()
    assert max(len(line) for line in lines if line[0] in "┏┃┡│└") <= 60  # a pipe breaks no text
    cells = [re.split(" *│ *", line)[1:-1] for line in lines if line[0] == "│"]
    _, pipeline, *_, plan = ("".join(column) for column in zip(*cells, strict=True))
    assert (pipeline, len(plan)) == ("of_a_long_name", 12)  # nothing is cut off


def test_a_ledger_without_a_pipeline(tmp_path):
    clinic(tmp_path)
    ledger = tmp_path / "own" / "ledger.db"
    made = ["ledger", "init", "--ledger", ledger, "--schema", tmp_path / "schemas" / "clinic.yaml"]
    result = invoke(*made, "--epsilon", "3")
    assert result.exit_code == 0, result.output
    assert "clinic has epsilon 3, 0 spent" in result.output
    assert "spent 0 of 3" in invoke("ledger", "show", "--ledger", ledger).output
    assert invoke(*made).exit_code == 2  # no epsilon
    assert invoke("ledger", "init").exit_code == 2


def test_ledger_verify_finds_an_edited_byte(project, tmp_path):
    import sqlite3

    copy = tmp_path / "ledger.db"
    with sqlite3.connect(project[0] / ".dprelease" / "ledger.db") as live:
        live.execute("VACUUM INTO ?", (str(copy),))
    live.close()
    data = bytearray(copy.read_bytes())
    at = data.rindex(b"2026-W46")
    data[at : at + 8] = b"2026-W47"
    copy.write_bytes(data)
    assert invoke("ledger", "verify", "--ledger", copy).exit_code == 1


def test_usage_errors_exit_2():
    assert invoke("run").exit_code == 2
    assert invoke("nonsense").exit_code == 2


@pytest.mark.parametrize(("spends", "status"), [(True, 3), (False, 1)])
def test_an_unforeseen_failure_shows_its_type_and_place_never_its_text(capsys, spends, status):
    import typer

    def fails() -> None:
        from dprelease.core.numeric import positive

        positive(Explosive(), "epsilon")

    class Explosive:
        def __str__(self):
            raise RuntimeError("CANARY-4711")

        __repr__ = __float__ = __iter__ = __str__

    with pytest.raises(typer.Exit) as caught:
        guarded(fails, spends=spends)()
    said = capsys.readouterr()
    assert caught.value.exit_code == status
    assert "CANARY" not in said.out + said.err
    assert "dprelease.core.numeric" in said.err
    assert ("may be spent" if spends else "nothing was spent") in said.err


@pytest.mark.parametrize(
    "kind", sorted(set(errors.__all__) - {"DpreleaseError", "NotReadWarning", "UnledgeredWarning"})
)
def test_exit_status_is_the_error_class_s(kind, capsys):
    import typer

    error = getattr(errors, kind)("what", where="where", why="why", fix="fix")

    def fails() -> None:
        raise error

    with pytest.raises(typer.Exit) as caught:
        guarded(fails)()
    assert caught.value.exit_code == error.exit_status
    said = capsys.readouterr().err
    for label in ("where", "why", "fix", "code", "spent"):
        assert f"  {label:<6} " in said
    assert {"nothing": "nothing was spent", "charged": "is spent", "unknown": "may be spent"}[
        error.spent
    ] in said


def test_start_up_imports_nothing_heavy():
    heavy = [
        "duckdb",
        "great_expectations",
        "numpy",
        "pandas",
        "pyarrow",
        "pydantic",
        "scipy",
        "sqlglot",
        "yaml",
    ]
    code = (
        "import sys; sys.argv = ['dprelease', '--help']\n"
        "import dprelease.cli\n"
        f"print([m for m in {heavy!r} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"


def test_the_installed_command_answers(tmp_path):
    done = command("--version", folder=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("dprelease ")
    assert command("plan", "none.yaml", folder=tmp_path).returncode == 2


def test_examples_in_help_parse():
    """The example's options exist: each is parsed with `--help` appended."""
    for name in COMMANDS:
        text = " ".join(help_of(*name).replace("│", " ").split())
        example = re.split("[╭┌]", text.split("Example: dprelease ")[1])[
            0
        ]  # before the options' box
        words = shlex.split(example)[: len(name) + 1]
        assert words[: len(name)] == name
        options = [w for w in shlex.split(example) if w.startswith("--")]
        assert all(option in text for option in options)


def test_json_refuses_nan():
    with pytest.raises(ValueError, match="Out of range"):
        terminal.print_json({"x": float("nan")})
