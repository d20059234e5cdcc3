"""A process beside finds what this one finds, and its end, its silence or its noise change no verdict."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.run import init_ledger
from dprelease.pipeline.run import run as run_pipeline
from dprelease.pipeline.starter import create_starter
from dprelease.validate import gx, gx_beside, gx_judge
from dprelease.validate.rules import has_tidy_columns
from tests.sizes import some
from tests.validate.test_gx import BROKEN, GOOD

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def beside():
    process = gx_beside._Process()
    yield process
    process.end()


@pytest.fixture
def begun(monkeypatch):
    """Start a process whose program is another one; `_begun` holds it."""
    started = []

    def start(program=gx_beside._SERVE):
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


def test_one_that_ends_leaves_the_verdict_to_this_process(begun):
    process = begun()
    assert gx_beside.is_ready()
    process._process.kill()
    process._process.wait()
    assert gx_beside.judged(*asked(GOOD)) is None
    assert not gx_beside.is_ready()
    assert gx.gx_validate(GOOD).ok
    assert not gx.gx_validate(BROKEN["NaN"][0]).ok


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


RUN = """
import sys
sys.argv = ["dprelease", "run", "pipelines/clinic_weekly.yaml", "--period", "2026-W44"]
from dprelease.cli import main
try:
    main()
finally:
    print("imported here" if "great_expectations" in sys.modules else "imported beside")
"""


def ran(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([environment.pop("first", ""), str(ROOT)]).lstrip(os.pathsep),
    }
    create_starter(folder)
    init_ledger(load_pipeline(folder / "pipelines" / "clinic_weekly.yaml"))
    return subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=folder,
        env=env,
        check=False,
        capture_output=True,
        text=True,
    )


def test_a_run_validates_beside(tmp_path):
    done = ran(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "(great_expectations)" in done.stdout
    assert done.stdout.rstrip().endswith("imported beside")


def test_a_broken_installation_is_found_before_the_charge(tmp_path):
    package = tmp_path / "first" / "great_expectations"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('a dependency is missing')\n")
    done = ran(tmp_path, first=str(tmp_path / "first"))
    assert done.returncode == 2, done.stdout
    assert "DPR173" in done.stderr + done.stdout
    assert "nothing was spent" in done.stderr + done.stdout
    again = run_pipeline(tmp_path / "pipelines" / "clinic_weekly.yaml", period="2026-W44")
    assert again.receipt.fresh  # nothing was lost: with the installation of this process it runs
