"""Ctrl-C and kill -9 in whole runs: what is published is whole, the ledger says what happened.

named instants   `dprelease run` in a fork of a process that has imported everything (the control: in one of its
                 own), interrupted before the charge, between charge and draw, in the draw, in validation,
                 while files are written, after the rename
random instants  many forks of one process, half of them interrupted, half killed
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.end_to_end.projects import ROOT
from tests.faults.forked_runs import Forks
from tests.faults.sizes import RUN_CUTS
from tests.faults.weekly_project import PERIOD, finished, make_project, outcome
from tests.sizes import FULL

# name -> (module, function, on which call it is interrupted, before or after, state that is left)
INSTANTS = {
    "before the charge": ("dprelease.pipeline.preflight", "preflight", 1, "before", "nothing"),
    "after the charge": ("dprelease.pipeline.stages", "charge", 1, "after", "charged"),
    "in the draw": ("dprelease.budget.steps", "_drawn", 1, "after", "charged"),
    "in validation": ("dprelease.results.validate.rules", "check", 1, "before", "drawn"),
    "before the files are committed": ("dprelease.pipeline.flow", "bundle", 1, "after", "drawn"),
    "between two files": ("dprelease.results.publish", "_write", 2, "after", "ready"),
    "before the link to the latest": ("dprelease.results.publish", "_point_latest", 1, "before", "ready"),
    "after the publication": ("dprelease.results.series.write", "refresh_after_publication", 1, "before", "published"),
}  # fmt: skip

TAKEN = (
    list(INSTANTS)
    if FULL
    else ["after the charge", "before the files are committed", "between two files"]
)
"""Of each state that is left half done one; all in `make evidence`."""

TRIED: dict[str, float] = {}
"""Instant -> seconds."""

RUN = """
import importlib, os, signal, sys
from dprelease.cli import main
from dprelease.pipeline import run, stages
owner, name, wanted, when = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
honest, calls = getattr(importlib.import_module(owner), name), []

def interrupted(*args, **kwargs):
    calls.append(1)
    now = len(calls) == wanted
    if now and when == "before":
        os.kill(os.getpid(), signal.SIGINT)
    result = honest(*args, **kwargs)
    if now and when == "after":
        os.kill(os.getpid(), signal.SIGINT)
    return result

ours = [m for known, m in sys.modules.items() if known.partition(".")[0] == "dprelease"]
for module in ours:
    if getattr(module, name, None) is honest:
        setattr(module, name, interrupted)
sys.argv = ["dprelease", *sys.argv[5:]]
main()
"""


def terminal() -> None:
    """Take signals as a command in a terminal does: shells start background jobs without Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def forks():
    process = Forks(ROOT)
    yield process
    process.close()


def words_of(pipeline, owner, name, wanted, when):
    return [owner, name, str(wanted), when, "run", str(pipeline), "--period", PERIOD]


def run_of_its_own(pipeline, *instant):
    words = words_of(pipeline, *instant)
    return subprocess.run(
        [sys.executable, "-c", RUN, *words],
        cwd=pipeline.parent, env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        preexec_fn=terminal, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize("instant", TAKEN)
def test_at_a_named_instant(instant, place, forks, evidence):
    began = time.perf_counter()
    owner, name, wanted, when, state = INSTANTS[instant]
    pipeline = make_project(place / "project")
    done = forks.run(RUN, words_of(pipeline, owner, name, wanted, when), pipeline.parent)
    assert done.returncode == 130, done.stderr
    assert done.stderr.splitlines() == [
        "cancelled; the budget may be spent: `dprelease ledger show` tells"
    ]
    before = outcome(place / "project")
    assert before[0] == state
    assert (before[2] is not None) == (instant in list(INSTANTS)[-2:])
    finished(place / "project", before)
    TRIED[instant] = time.perf_counter() - began
    if len(TRIED) == len(INSTANTS):
        size = f"{len(INSTANTS)} instants of `dprelease run`, from before the charge to the publication"
        said = "exit 130, no half publication, completed for nothing"
        evidence("Ctrl-C", size, said, seconds=sum(TRIED.values()))


def test_a_run_that_is_not_interrupted(place, forks):
    """Control: the same process with an instant that never comes; in `make evidence` one of its own."""
    pipeline = make_project(place / "project")
    never = ("dprelease.results.publish", "_write", 1_000, "after")
    if FULL:
        done = run_of_its_own(pipeline, *never)
    else:
        done = forks.run(RUN, words_of(pipeline, *never), pipeline.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert outcome(place / "project")[0] == "published"


def test_at_random_instants(place, forks, evidence):
    code = "import sys; from pathlib import Path; from tests.faults.cut_runs import main\n"
    code += "main(Path(sys.argv[1]), int(sys.argv[2]))"
    (place / "cut").mkdir()
    done = forks.run(code, [str(place / "cut"), str(RUN_CUTS)], place / "cut")
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    rounds = sum(said["left"].values())
    assert rounds >= RUN_CUTS
    stopped = sum(n for how, n in said["ends"].items() if not how.endswith("exit 0"))
    assert stopped >= RUN_CUTS / 3
    left = ", ".join(f"{n} {state}" for state, n in sorted(said["left"].items()))
    size = f"{rounds} runs, half Ctrl-C, half kill -9; {stopped} stopped; left: {left}"
    evidence("whole runs cut at random", size, "0 violations")


def test_a_folder_that_is_written_in_place_is_caught(place, forks):
    """Broken twin: a publication without the rename leaves half a folder."""
    pipeline = make_project(place / "project")
    twin = RUN.replace(
        "for module in",
        "import dprelease.results.publish as publish\n"
        "publish._ASIDE = '2016-W46'\npublish.secrets = type('', (), {'token_hex': lambda n: ''})\n"
        "for module in",
    )
    assert twin != RUN
    instant = ("dprelease.results.publish", "_write", 2, "after")
    forks.run(twin, words_of(pipeline, *instant), pipeline.parent)
    with pytest.raises(AssertionError):
        outcome(place / "project")
    shutil.rmtree(place / "project")
