"""`python -m dprelease` is the command, for an environment whose scripts are not on the path."""

from __future__ import annotations

import subprocess
import sys

from dprelease import __version__
from tests.end_to_end.projects import ROOT


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
