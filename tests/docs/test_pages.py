"""Every code block of the documentation is run, in order, page by page; the site builds strictly.

Blocks are `sh` (dprelease commands and `cd`), `python` (one namespace per page), `yaml` with a title
(written to that file), `r` (a process each, where R is installed). A `text` block shows output and is not run.
"""

from __future__ import annotations

import contextlib
import glob
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dprelease.cli import app
from tests.end_to_end import projects
from tests.end_to_end.projects import ROOT, plans_once
from tests.examples.plugin import SOURCE as PLUGIN
from tests.examples.plugin import use as use_plugin
from tests.rules_alone import built_in_rules_only
from tests.sizes import FULL

one_other_budget = projects.one_other_budget
pytestmark = pytest.mark.usefixtures("one_other_budget")
DOCS = ROOT / "docs"
PAGES = sorted(str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md"))
BLOCK = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
REPOSITORY = {"tutorials/flights.md", "tutorials/graph.md", "tutorials/tables.md"}
"""Pages that are read inside a clone of the repository."""

FEWER = {"audit": ("--draws", "1000" if FULL else "200")}
"""Command -> what is added to it: an audit of a page draws less than a reader's."""
VALIDATED = {"index.md", "how-to/schedule.md"}
"""Pages that are run with Great Expectations beside the built-in rules, as all are in `make evidence`."""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    plans_once(monkeypatch)
    return tmp_path


def blocks(page):
    return BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))


def run_shell(text, monkeypatch):
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        if words[0] == "cd":
            monkeypatch.chdir(Path.cwd() / words[1])
            continue
        assert words[0] == "dprelease", line
        words = [name for word in words for name in (sorted(glob.glob(word)) or [word])]
        result = CliRunner().invoke(app, [*words[1:], *FEWER.get(words[1], ())])
        assert result.exit_code == 0, f"{line}\n{result.output}"


RSCRIPT = shutil.which("Rscript")


def run_r(text):
    """Run lines of R and return what they print; nothing where R is not installed."""
    if RSCRIPT is None:
        return ""
    done = subprocess.run(
        [RSCRIPT, "--vanilla", "-"],
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(RSCRIPT is None, reason="needs R")
def test_r_reads_the_numbers_that_pandas_reads(here, monkeypatch):
    import pandas as pd

    from dprelease.reading.publication import read

    found = blocks("how-to/read.md")
    run_shell(next(text for language, _, text in found if language == "sh"), monkeypatch)
    folder = Path("public/clinic_weekly/latest")
    read(folder).derive("obesity / count").write("shares.csv")
    text = next(text for language, _, text in found if language == "r")
    printed = run_r(text + "write.csv(wide, 'again.csv', row.names = FALSE); str(shares$upper)\n")
    assert "num " in printed  # Inf is a number
    wide = pd.read_csv("public/clinic_weekly/2026-W46/wide.csv")
    kept = ~wide["mean_bmi_status"].isin(["uninformative", "empty_signal"])
    again = pd.read_csv("again.csv")
    assert list(again.columns) == list(wide.columns)
    pd.testing.assert_frame_equal(again, wide[kept].reset_index(drop=True), rtol=1e-14)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_runs(page, here, monkeypatch):
    found = blocks(page)
    if page == "extend.md":
        use_plugin(monkeypatch)
    if not FULL and page not in VALIDATED:
        built_in_rules_only(monkeypatch)
    if page in REPOSITORY:
        for folder in ("schemas", "pipelines", "examples/data"):
            shutil.copytree(ROOT / folder, here / folder)
        (here / "pyproject.toml").touch()
    names = {"__name__": "page"}
    for language, title, text in found:
        match language:
            case "sh":
                run_shell(text, monkeypatch)
            case "python":
                with contextlib.redirect_stdout(io.StringIO()):
                    exec(compile(text, page, "exec"), names)
            case "yaml":
                assert title, f"{page}: a YAML block without a file name is not run"
                Path(title).parent.mkdir(parents=True, exist_ok=True)
                Path(title).write_text(text, encoding="utf-8")
            case "r":
                run_r(text)
            case _:
                assert language == "text", f"{page}: unknown block {language!r}"


def test_the_code_of_extend_is_the_plugin_s_own():
    python = "\n".join(text for language, _, text in blocks("extend.md") if language == "python")
    package = PLUGIN / "src" / "dprelease_example"
    for name in ("level.py", "jsonl.py"):
        code = (package / name).read_text(encoding="utf-8").split("import annotations\n", 1)[1]
        assert code.strip() in python, f"{name} has changed since extend.md quoted it"


def test_the_pages_that_teach_hold_blocks():
    for page in ("index.md", "tutorials/survey.md", "tutorials/flights.md", "how-to/verify.md"):
        assert {b[0] for b in blocks(page)} >= {"sh"}


def test_a_broken_command_would_be_found(here, monkeypatch):
    with pytest.raises(AssertionError, match="no-such"):
        run_shell("dprelease verify no-such-folder", monkeypatch)


def test_the_site_builds_strictly(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path / "site")],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=300,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    site = tmp_path / "site"
    assert "DPR401" in (site / "reference" / "errors.html").read_text(encoding="utf-8")
    index = (site / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"(?:src|href)=\"https?://[^\"]+\.(?:js|css|woff2?)", index)
