"""A test without an end does not hold a run for ever."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = """
import time

def test_without_an_end():
    time.sleep({seconds})

def test_after_it():
    pass
"""


def ran(folder: Path, seconds: int) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(TESTS.format(seconds=seconds), encoding="utf-8")
    words = ("-q", "-n", "1", "-p", "tests.time_limit", "-p", "no:cacheprovider")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words, "--rootdir", str(folder), str(folder)],
        capture_output=True, text=True, timeout=300, check=False, cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "DPRELEASE_LONGEST_TEST": "2"},
    )  # fmt: skip


def test_a_test_without_an_end_fails_and_the_others_run(tmp_path: Path) -> None:
    done = ran(tmp_path, seconds=600)
    assert done.returncode == 1
    assert "1 failed, 1 passed" in done.stdout
    assert "crashed while running" in done.stdout
    assert "in test_without_an_end" in done.stderr  # where it stood


def test_one_that_ends_in_time_passes(tmp_path: Path) -> None:
    done = ran(tmp_path, seconds=0)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
