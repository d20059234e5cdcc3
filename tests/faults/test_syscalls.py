"""EIO, ENOSPC, EINTR and short writes at the i-th system call of a release, for all i."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.sizes import SYSCALL_STEP

SOURCE = Path(__file__).with_name("fault_shim.c")
ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None or not sys.platform.startswith("linux"),
    reason="the shim needs Linux and a C compiler",
)


def test_any_failing_call_leaves_every_promise_standing(place, tmp_path, evidence):
    shim = tmp_path / "shim.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-w", "-o", shim, SOURCE, "-ldl"], check=True)
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.shimmed", shim, place, str(SYSCALL_STEP)],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout)
    assert said["calls"] > 60
    outcomes = said["outcomes"]
    # Control: the shim bites, and some faults are survived (writes that are retried, the log's
    # clean-up). Refusals before anything is written do not occur: SQLite writes at the commit.
    assert {"exit 3", "released"} <= set(outcomes)
    evidence(
        "system call faults",
        f"{said['faults']} faults (EIO, ENOSPC, EINTR, short write) at {said['calls']} calls",
        ", ".join(f"{n} {how}" for how, n in sorted(outcomes.items())) + ", 0 violations",
    )
