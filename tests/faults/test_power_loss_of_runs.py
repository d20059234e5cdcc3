"""Power cuts in whole runs: `dprelease run` and `dprelease schedule --once` over a CSV file, traced.

What the command has printed is a promise: after `charge` the debit is durable, after the first line of
`validate` the draw is, after `publish` the folder is. After every cut, the next run completes for
nothing and publishes what was drawn.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from dprelease.core.errors import DpreleaseError
from tests.faults.disk import Disk, Event
from tests.faults.sizes import RUN_STATES, memory_folder
from tests.faults.tracing import can_trace, power_cuts, traced
from tests.faults.weekly_project import KEY, PERIOD, book, finished, make_project, outcome

pytestmark = pytest.mark.skipif(not can_trace(), reason="strace is missing or may not trace here")

MAIN = """
import json, os, sys
from dprelease.cli import main
from tests.faults.forked_runs import prepare
prepare()
for said, words in json.loads(sys.argv[1]):
    child = os.fork()
    if not child:
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT, 0o600), 1)
        sys.argv = ["dprelease", *words]
        main()
    assert os.waitpid(child, 0)[1] == 0, words
"""
COMMANDS = {
    "run": ["run", "weekly.yaml", "--period", PERIOD],
    "schedule --once": ["schedule", "weekly.yaml", "--once", "--at", "2016-11-22T12:00:00Z"],
}
SAID = re.compile(rb"^(charge|validate|publish) |INFO +(released) ", re.MULTILINE)


class Recorded:
    """One traced run: the disk before it, its calls, and what it left in the end."""

    def __init__(self, folder: Path) -> None:
        self.root, self.said, self.start = folder / "root", folder / "said", folder / "start"
        self.pipeline = make_project(self.root)
        shutil.copytree(self.root, self.start)

    def ended(self, calls: list[Event]) -> None:
        """Keep of the calls those that are its own, and what it left."""
        own = (str(self.root), str(self.said))
        self.events = [c for c in calls if any(p.startswith(own) for p in c.paths)]
        ledger = book(self.root)
        self.payload, self.files = ledger.payload(KEY), ledger.files(KEY)

    def disk(self) -> Disk:
        """Return the disk before the run."""
        disk = Disk(self.start)
        disk.root = str(self.root)
        return disk

    def promise(self, event: Event) -> set[str]:
        if event.call != "write" or event.paths[0] != str(self.said):
            return set()
        words = {a or b for a, b in SAID.findall(event.data)}
        return {word.decode() for word in words}


@pytest.fixture(scope="module")
def recordings():
    """Both commands, each a fork of one traced process that has imported everything."""
    folder = memory_folder()
    (folder / "tmp").mkdir()  # beside the roots: the engine's own, and gone after a cut
    runs, words = {}, []
    for number, (command, (name, _, *rest)) in enumerate(COMMANDS.items()):
        (folder / str(number)).mkdir()
        runs[command] = run = Recorded(folder / str(number))
        words.append((str(run.said), [name, str(run.pipeline), *rest]))
    line = [sys.executable, "-B", "-c", MAIN, json.dumps(words)]
    calls = traced(line, folder / "trace", TMPDIR=str(folder / "tmp"))
    for run in runs.values():
        run.ended(calls)
    yield runs
    shutil.rmtree(folder)


@pytest.fixture(params=COMMANDS)
def recorded(request, recordings):
    return request.param, recordings[request.param]


TABLE = "data.csv"


def recovered(folder: Path, promised: frozenset[str], run: Recorded) -> str:
    """Assert what a cut may never take back, then run again; return the state it was in."""
    state, payload, files = before = outcome(folder)
    assert state != "nothing" or not promised
    assert payload in (None, run.payload)
    assert payload is not None or not promised & {"validate", "publish", "released"}
    assert state == "published" or not promised & {"publish", "released"}
    assert files in (None, run.files)
    made = finished(folder, before)
    # files are functions of the draw and, where none was committed yet, of the day they are published on
    assert payload is None or made[TABLE] == run.files[TABLE]
    assert files is None or made == run.files
    return state


def digest(folder: Path) -> str:
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        whole.update(f"{path.relative_to(folder)}\0".encode())
        if path.is_symlink():
            whole.update(str(path.readlink()).encode())
        elif path.is_file():
            whole.update(path.read_bytes())
    return whole.hexdigest()


def test_no_power_cut_takes_back_what_a_run_has_said(recorded, place, evidence):
    command, run = recorded
    folder, reached, tried = place / "state", set(), set()
    total = sum(1 for _ in power_cuts(run.disk(), run.events, folder, run.promise))
    step = (total // RUN_STATES) | 1  # odd: every way in which a cut leaves the disk occurs
    for number, promised, cut in power_cuts(run.disk(), run.events, folder, run.promise):
        if number % step:
            continue
        cut()
        same = (digest(folder), promised)
        if same not in tried:  # many cuts leave the same bytes
            tried.add(same)
            reached.add(recovered(folder, promised, run))
        shutil.rmtree(folder)
    assert reached >= {"nothing", "charged", "drawn", "ready", "published"}
    size = f"{len(tried)} different disks from {total // step} of {total} cuts, {len(run.events)} calls"
    evidence(f"power loss, `dprelease {command}`", size, "0 violations")


def test_the_replay_is_faithful(recorded, place):
    """Control: with everything kept, the end of the replay is the project as it is."""
    _, run = recorded
    disk = run.disk()
    for event in run.events:
        disk.play(event)
    disk.after_power_cut(place / "all", None, keep=True)
    assert digest(place / "all") == digest(run.root)


@pytest.mark.parametrize(
    ("part", "promises"),
    [("/.dprelease/", {"charge", "released"}), ("/public", {"publish", "released"})],
)
def test_without_syncs_promises_break(recorded, place, part, promises):
    """Broken twins: fsyncs of the ledger, or of the public folder, do nothing."""
    _, run = recorded
    folder, broken = place / "state", False
    found = power_cuts(run.disk(), run.events, folder, run.promise, forgets=lambda p: part in p)
    for _, promised, cut in found:
        if not promised & promises:
            continue
        cut()
        try:
            recovered(folder, promised, run)
        except (AssertionError, DpreleaseError):
            broken = True
            break
        shutil.rmtree(folder)
    assert broken
