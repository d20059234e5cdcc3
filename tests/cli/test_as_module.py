"""`python -m dprelease` is the command, for an environment whose scripts are not on the path."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path

import pytest

from dprelease import __version__
from dprelease.cli import main
from dprelease.cli.terminal import drop_unread
from tests.end_to_end.projects import ROOT
from tests.pipeline import tiny
from tests.sizes import some

UNREAD = """\
import os, sys
from tests.rules_alone import leave_out_great_expectations
leave_out_great_expectations()
from dprelease.cli import main
main()
"""


def test_the_package_runs_as_the_command_does() -> None:
    done = [
        subprocess.run(
            [sys.executable, "-m", "dprelease", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        for arguments in (["--version"], ["no-such-command"])
    ]
    assert (done[0].returncode, done[0].stdout.strip()) == (0, f"dprelease {__version__}")
    assert done[1].returncode == 2


@pytest.mark.parametrize("encoding", some(["ascii", "latin-1", "cp1252"], 3))
def test_a_locale_without_greek_letters_ends_no_command(tmp_path: Path, encoding: str) -> None:
    """Printing an epsilon ended the run: after the debit, where the plan is not shown."""
    (tmp_path / "s.yaml").write_text(
        "dprelease: schema/1\nname: t\nunit: row\nadjacency: add_remove\nrows: {max: 1000}\n"
        "columns: {x: {kind: number, range: [0, 10], step: 1}}\n"
        "release: {epsilon: 1, statistics: [count]}\n"
    )
    pipeline = tmp_path / "p.yaml"
    pipeline.write_text(
        "dprelease: pipeline/1\nname: t\nsource: {csv: f.csv}\nschema: s.yaml\n"
        "budget: {ledger: l.db, dataset: t, epsilon: 9}\npublish: {to: public}\n"
    )
    (tmp_path / "f.csv").write_text("x\n1\n")
    done = subprocess.run(
        [sys.executable, "-m", "dprelease", "plan", str(pipeline)],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert b"\\u03b5" in done.stdout


def test_it_starts_without_pandas_as_the_command_does() -> None:
    for arguments, expected in (
        (["-m", "dprelease", "--version"], False),
        (["-c", "import dprelease"], True),
    ):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
        assert ("pandas" in imported) is expected


def test_ctrl_c_before_a_command_began_leaves_no_traceback(monkeypatch, capfd) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("typer.main.get_group", interrupted)
    monkeypatch.setattr("gc.set_threshold", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capfd.readouterr().err == "cancelled\n"


def _unread(*arguments: str) -> tuple[int, str]:
    """Return the exit status of a command whose standard output nobody reads, and its standard error."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-c", UNREAD, *arguments],
        cwd=ROOT,
        stdout=write,
        stderr=write if "--json" in arguments else subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    os.close(write)
    return done.returncode, done.stderr or ""


def test_a_reader_that_goes_away_changes_no_exit_status_and_ends_no_run(tmp_path: Path) -> None:
    """`run | head` ended with 1 and without a word, which says that nothing was spent: after the debit."""
    config = tiny.loaded(tmp_path)
    pipeline = config.origin.rpartition(":")[0]
    assert _unread("run", pipeline, "--period", "2025-W50") == (0, "")
    folder = config.publish.to / "weekly" / "2025-W50"
    assert (folder / "release.json").is_file()
    assert _unread("verify", str(folder)) == (0, "")
    (folder / "data.csv").write_text("")
    assert _unread("verify", str(folder)) == (1, "")
    # progress and errors go to a pipe that is gone, too
    assert _unread("run", pipeline, "--period", "2025-W5", "--json") == (2, "")


def test_a_terminal_that_is_gone_takes_what_is_written_and_a_full_disk_does_not() -> None:
    def opened(descriptor: int) -> TextIOWrapper:
        stream = os.fdopen(descriptor, "w")
        drop_unread(stream)
        return stream

    control, terminal = os.openpty()
    with opened(terminal) as screen:
        os.close(control)
        print("the receipt", file=screen, flush=True)
    if Path("/dev/full").exists():
        full = opened(os.open("/dev/full", os.O_WRONLY))
        with pytest.raises(OSError, match="No space"):
            print("the receipt", file=full, flush=True)
        with suppress(OSError):
            full.close()
    drop_unread(None)  # closed from the start
