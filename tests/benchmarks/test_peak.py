"""Peak memory is the measured program's own, whatever started it."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.benchmarks.test_scripts import FOLDER, load

peak = load("peak")


def test_a_child_of_a_large_parent_shows_its_own_memory_and_the_old_figure_does_not():
    found = peak.control()
    assert found["parent"] >= 600
    assert found["nothing"] < 100
    assert 300 <= found["held"] < 500
    assert found["inherited"] >= 600  # what `ru_maxrss` of the same idle child says


@pytest.mark.parametrize(
    ("broken", "measures"),
    [
        ("the parent's", {"parent": 612.0, "nothing": 612.0, "held": 612.0}),
        ("nobody's", {"parent": 612.0, "nothing": 12.0, "held": 12.0}),
        ("a parent that was small", {"parent": 12.0, "nothing": 12.0, "held": 312.0}),
    ],
)
def test_the_control_can_fail(monkeypatch, broken, measures):
    class Done:
        stdout = json.dumps({**measures, "inherited": 612.0})

    monkeypatch.setattr(peak.subprocess, "run", lambda *_, **__: Done)
    with pytest.raises(SystemExit, match="cannot be measured"):
        peak.control()


def test_no_benchmark_asks_for_the_inherited_figure():
    for path in FOLDER.glob("*.py"):
        if path.name != "peak.py":
            assert not re.search(r"maxrss|import resource|RUSAGE", path.read_text()), path


def test_a_job_of_the_speed_table_prints_its_own_peak_below_a_large_parent(tmp_path):
    """The issue's case: the parent has just made the data, and two jobs looked alike."""
    load("payroll").write(tmp_path / "p.parquet", 20_000)
    parent = (
        "import json, subprocess, sys\n"
        f"held = bytearray({600 << 20}); held[::4096] = b'1' * len(held[::4096])\n"
        f"done = subprocess.run([sys.executable, {str(FOLDER / 'speed.py')!r}, '--one', 'duckdb', '--path',"
        f" {str(tmp_path / 'p.parquet')!r}], capture_output=True, text=True, check=True)\n"
        "print(done.stdout.splitlines()[-1])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", parent], capture_output=True, text=True, check=True
    )
    assert 20 < json.loads(done.stdout)["peak"] < 300
