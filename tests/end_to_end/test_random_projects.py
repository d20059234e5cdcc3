"""Projects nobody chose go through every command: none ends in an internal error, and no two disagree.

What `check` accepts can be planned and run, and what it refuses cannot be planned; a run again costs nothing;
what was published verifies, and every command that reads a folder reads it. A refusal by code is an answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.cli import app
from dprelease.core.errors import DpreleaseError, InternalError
from tests.end_to_end.random_projects import write
from tests.rules_alone import rules_alone
from tests.sizes import sized, whole

PROJECTS = sized(whole(4, 60), 400)


class Shell:
    """The commands in this folder; an end that no command may have fails."""

    def __init__(self) -> None:
        self.refused: list[str] = []

    def __call__(self, *words: object) -> int:
        result = CliRunner().invoke(app, [str(w) for w in words], env={"COLUMNS": "120"})
        said = f"{' '.join(map(str, words))}\n{result.output}"
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise AssertionError(said) from result.exception
        assert "DPR900" not in said, said
        assert result.exit_code in {0, 1, 2}, said  # 3: spent, and nothing published
        if result.exit_code:
            self.refused.append(said)
        return result.exit_code


def test_a_project_nobody_chose_goes_through_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    form, periods, job, rows = write(tmp_path, seed)
    monkeypatch.chdir(tmp_path)
    run = Shell()
    accepted = run("check", "job.yaml") == 0
    assert (run("plan", "job.yaml") == 0) is accepted, run.refused
    if not accepted:
        return
    with rules_alone() if seed % 4 else contextlib.nullcontext():
        folders = list(released(run, tmp_path, periods))
        commands(run, form, folders, job)
        frame(form, job, rows)


@contextlib.contextmanager
def refusable() -> Iterator[None]:
    """A refusal by code is an answer; an internal error is none."""
    try:
        yield
    except InternalError:
        raise
    except DpreleaseError:
        pass


def released(run: Shell, root: Path, periods: list[str | None]) -> Iterator[Path]:
    assert run("plan", "job.yaml", "--all", "--html", "plan.html") == 0
    assert run("ledger", "init", "job.yaml") == 0
    for period in periods:
        named = ["--period", period] if period else []
        assert run("run", "job.yaml", *named) == 0, run.refused[-1]
        folder = root / "public" / "guests" / (period or "once")
        before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        assert before
        assert run("run", "job.yaml", *named) == 0, run.refused[-1]
        assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before
        yield folder
    assert run("verify", "public", "--ledger", "ledger.db") == 0, run.refused[-1]


def commands(run: Shell, form: str, folders: list[Path], job: dict) -> None:
    first = folders[0]
    for words in (
        ["ledger", "show", "job.yaml"],
        ["note", first, "--to", "note.html"],
        ["report", first, "--to", "again.html"],
        ["index", first.parent],
    ):
        assert run(*words) == 0, run.refused[-1]
    found = dp.read(first)
    repr(found), found._repr_html_()
    for name in {t.get("name") for t in job["release"].get("tables", [{}])} - {None}:
        assert len(found.to_pandas(name))
    if form == "by":
        names = [s["as"] for s in job["release"]["statistics"]]
        for asked in [*names, f"{names[0]} - 1", f"rank({names[0]})", f"share({names[0]})"]:
            run("derive", first, asked)
        run("derive", first, names[0], "--by", "")
        with refusable():
            found.plot()
    if form == "tables":
        run("derive", first, "count / count", "--table", "lands")
        run("derive", first, "count", "--table", "parts", "--by", "part", "--to", "derived.html")
    if len(folders) > 1:
        run("diff", *folders, "--to", "changes.html")
    assert run("withdraw", first, "--reason", "a <test>") == 0, run.refused[-1]
    run("verify", "public")


def frame(form: str, job: dict, rows: pd.DataFrame) -> None:
    """The same release by the accessor: an answer or a refusal, and never an internal error."""
    if form != "by":
        return
    asked = {k: v for k, v in job["release"].items() if k != "composition"}
    with refusable(), pytest.warns(dp.UnledgeredWarning):
        assert len(rows.dp.release("schema.yaml", **asked).to_pandas())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("seed", range(PROJECTS))
