"""A process beside finds what this one finds, and its end, its silence or its noise change no verdict."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dprelease.validate import gx, gx_beside, gx_judge
from dprelease.validate.rules import has_tidy_columns
from tests.faults.weekly_project import make_project
from tests.sizes import some
from tests.validate.test_gx import BROKEN, GOOD

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def processes():
    started = []
    yield started
    for process in started:
        process.end()


@pytest.fixture
def beside(processes):
    """A process that runs: the one of the other tests, unless it has ended."""
    if not processes or processes[-1]._process.poll() is not None:
        processes.append(gx_beside._Process())
    return processes[-1]


@pytest.fixture
def begun(monkeypatch):
    """Start a process whose program is another one; `_begun` holds it."""
    started = []

    def start(program):
        monkeypatch.setattr(gx_beside, "_SERVE", program)
        started.append(gx_beside._Process())
        monkeypatch.setattr(gx_beside, "_begun", started[-1:])
        return started[-1]

    yield start
    for process in started:
        process.end()


def asked(release):
    groups = gx.group_labels(release.plan.keys)
    return gx._table(release, groups), gx._expected(release.plan, groups)


RELEASES = {"good": GOOD} | {
    name: release
    for name, (release, _) in some(BROKEN.items(), 4)
    if has_tidy_columns(release.table, release.plan)
}


@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES.keys())
def test_the_process_beside_finds_what_this_one_finds(beside, release):
    assert beside.is_ready()
    there, here = beside.judged(*asked(release)), gx_judge.judged(*asked(release))
    assert there == here
    assert any(failed for _, failed in here) == (release is not GOOD)


@pytest.mark.parametrize(
    "program",
    [
        "raise SystemExit",
        "print('hello, all of you')",
        "import os; os.write(1, bytes(7) + b'\\2no')",
    ],
    ids=["ends", "prints", "answers otherwise"],
)
def test_one_that_does_not_answer_is_not_ready(begun, program):
    begun(program)
    assert not gx_beside.is_ready()
    assert gx_beside.judged(*asked(GOOD)) is None
    gx.require_great_expectations()  # imports it here
    assert gx.gx_validate(GOOD).ok


def test_a_forked_copy_asks_nothing_and_ends_nothing(beside, monkeypatch):
    assert beside.is_ready()
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: beside._owner + 1)
        assert not beside.is_ready()
        assert beside.judged(*asked(GOOD)) is None
        beside.end()
    assert beside.judged(*asked(GOOD)) == gx_judge.judged(*asked(GOOD))


def test_one_that_ends_leaves_the_verdict_to_this_process(beside, monkeypatch):
    monkeypatch.setattr(gx_beside, "_begun", [beside])
    assert gx_beside.is_ready()
    beside._process.kill()
    beside._process.wait()
    assert gx_beside.judged(*asked(GOOD)) is None
    assert not gx_beside.is_ready()
    assert gx.gx_validate(GOOD).ok
    assert not gx.gx_validate(BROKEN["NaN"][0]).ok


RUN = """
import sys
sys.argv = ["dprelease", "run", "weekly.yaml", "--period", "2016-W46"]
from dprelease.cli import main
try:
    main()
finally:
    print("imported here" if "great_expectations" in sys.modules else "imported beside")
"""


def ran(folder: Path, *first: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*first, ROOT]))},
        check=False,
        capture_output=True,
        text=True,
    )


def test_a_broken_installation_is_found_before_the_charge_and_a_whole_one_validates_beside(
    tmp_path,
):
    package = tmp_path / "first" / "great_expectations"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('a dependency is missing')\n")
    make_project(tmp_path / "project")
    done = ran(tmp_path / "project", package.parent)
    assert done.returncode == 2, done.stdout
    assert "DPR173" in done.stderr + done.stdout
    assert "nothing was spent" in done.stderr + done.stdout
    done = ran(tmp_path / "project")
    assert done.returncode == 0, done.stderr
    assert "(great_expectations)" in done.stdout
    assert done.stdout.rstrip().endswith("imported beside")
