"""A process beside finds what this one finds, runs nobody's script again, and its end or its silence change no verdict."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from dprelease.core.errors import ConfigError
from dprelease.results.validate import gx, gx_process
from tests.faults.weekly_project import KEY, book, make_project
from tests.results.validate.initialisers import asked_here, be_gone, be_silent, leave, nothing
from tests.results.validate.test_gx import BROKEN, GOOD
from tests.sizes import FULL, some

ROOT = Path(__file__).parents[3]


@pytest.fixture
def not_imported(monkeypatch):
    """Let it look as if Great Expectations was not imported here."""
    here = SimpleNamespace(modules={"__main__": sys.modules["__main__"]})
    monkeypatch.setattr(gx_process, "sys", here)


@pytest.fixture
def other(monkeypatch, not_imported):
    """Have a process of the test's own; returns how to begin it with another initialiser."""
    monkeypatch.setattr(gx_process, "_begun", {})

    def use(initialiser):
        monkeypatch.setattr(gx_process, "_import_quietly", initialiser)

    yield use
    gx_process.end()


def pool():
    return gx_process._begun[os.getpid()]


def asked(release):
    return gx.long_table(release), gx.expectations(release.plan)


def imported() -> list[str]:
    """What is imported of what is of no use."""
    names = (*gx_process._UNUSED, "pyspark", "dprelease.cli", "__mp_main__")
    return [name for name in names if getattr(sys.modules.get(name), "__spec__", None)]


RELEASES = {"good": GOOD} | {name: release for name, (release, _) in some(BROKEN.items(), 4)}


@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES.keys())
def test_the_process_beside_finds_what_this_one_finds(not_imported, release):
    assert gx_process.ready()
    frame, suite = asked(release)
    there, here = (
        pool().submit(gx_process.judge, frame, suite).result(),
        gx_process.judge(frame, suite),
    )
    assert there == here
    assert any(failed for _, failed in here) == (release is not GOOD)
    assert pool().submit(imported).result() == []


def beside() -> list[multiprocessing.process.BaseProcess]:
    """The processes that run, once those that were killed are gone.

    The pool's own thread waits for them too: for a moment neither knows how one ended.
    """
    until = time.monotonic() + (0.0 if os.getpid() in gx_process._begun else 10.0)
    while True:
        children = multiprocessing.active_children()
        found = [p for p in children if isinstance(p, gx_process._WorkerProcess) and p.is_alive()]
        if not found or time.monotonic() >= until:
            return found
        time.sleep(0.05)


@pytest.mark.parametrize("fault", [leave, be_silent])
def test_one_that_does_not_import_it_is_not_ready(other, monkeypatch, fault):
    other(fault)
    monkeypatch.setattr(gx_process, "_LONGEST", 2.0)
    assert not gx_process.ready()
    assert not beside()
    # nor is it repeated here, where it would end this process, or never end
    monkeypatch.setattr(gx_process, "try_out", lambda: pytest.fail("imported here"))
    with pytest.raises(ConfigError) as error:
        gx.require_great_expectations()
    assert error.value.code == "DPR173"


def test_one_that_ends_where_it_is_imported_here_too_has_this_process_try(other, monkeypatch):
    other(nothing)
    assert gx_process.ready()
    os.kill(pool().submit(os.getpid).result(), signal.SIGKILL)
    gx_process.sys.modules["great_expectations"] = None
    tried = []
    monkeypatch.setattr(gx_process, "try_out", lambda: tried.append(True))
    gx.require_great_expectations()
    assert tried == [True]
    assert not beside()


def test_one_that_ends_once_it_is_ready_has_a_successor(other, monkeypatch):
    other(nothing)
    assert gx_process.ready()
    os.kill(pool().submit(os.getpid).result(), signal.SIGKILL)
    monkeypatch.setattr(gx_process, "judge", asked_here)
    assert gx.gx_validate(GOOD).ok
    assert beside()


@pytest.mark.parametrize("fault", [leave, be_silent])
def test_one_that_ends_or_falls_silent_leaves_the_verdict_to_this_process(
    other, monkeypatch, fault
):
    other(nothing)
    assert gx_process.ready()
    # what has ended stays so
    monkeypatch.setattr(gx_process, "begin", lambda: os.getpid() in gx_process._begun)
    monkeypatch.setattr(gx_process, "_LONGEST", 2.0)
    pool().submit(fault)
    assert gx.gx_validate(GOOD).ok
    assert not beside()
    gx.require_great_expectations()
    assert not gx.gx_validate(BROKEN["NaN"][0]).ok
    monkeypatch.setattr(gx_process, "judge", be_gone)
    with pytest.raises(ConfigError) as error:
        gx.gx_validate(GOOD)
    assert error.value.code == "DPR173"


def test_where_none_can_be_started_this_process_validates(other, monkeypatch):
    other(nothing)
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)
    assert not gx_process.ready()
    assert gx.gx_validate(GOOD).ok


def test_a_forked_copy_has_none_and_ends_nothing(other, monkeypatch):
    other(nothing)
    assert gx_process.ready()
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: -1)
        gx_process.end()
        forked.setattr(gx_process, "begin", lambda: os.getpid() in gx_process._begun)
        assert not gx_process.ready()
    assert gx_process.ready()


def test_an_import_that_is_not_waited_for_any_more_is_ended_and_one_that_is_done_stays(other):
    other(be_silent)
    with gx_process.begun():
        assert beside()
    assert not beside()
    other(nothing)
    with gx_process.begun():
        assert gx_process.ready()
    assert beside()


def test_its_end_leaves_no_thread_whose_pipe_the_interpreters_end_would_write_to(other):
    def watching() -> list[str]:
        kinds = [type(thread).__name__ for thread in threading.enumerate()]
        return [kind for kind in kinds if kind == "_ExecutorManagerThread"]

    other(nothing)
    assert gx_process.ready() and watching()
    gx_process.end()
    assert not watching()  # it printed "Bad file descriptor" below the error of a refused run


def test_ctrl_c_does_not_reach_it(other):
    other(nothing)
    assert gx_process.ready()
    os.kill(pool().submit(os.getpid).result(), signal.SIGINT)
    assert pool().submit(os.getpid).result() == beside()[0].pid


def python(*words: str | Path, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False, capture_output=True, text=True, timeout=300, **more,
    )  # fmt: skip


SCRIPT = """
import os, sys, threading
from dprelease.results.validate import gx_process
print("runs")
gx_process._import_quietly = os.getpid
spec = __spec__
found = []
def work():
    found.append(gx_process.ready() and gx_process._begun[os.getpid()].submit(os.getpid).result())
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(found != [os.getpid()] and found != [False], __spec__ is spec)
"""


WAYS = ("a script without a guard", "-c", "-m", *(["-"] if FULL else []))
"""What is read from standard input has neither a file nor a spec, as that of `-c`: `make evidence` runs it too."""


@pytest.mark.parametrize("how", WAYS)
def test_no_script_is_run_again_whatever_it_is_run_by(tmp_path, how):
    file = tmp_path / "script_of_a_user.py"
    file.write_text(SCRIPT)
    if how == "-":
        done = python("-", input=SCRIPT)
    elif how == "-c":
        done = python("-c", SCRIPT)
    elif how == "-m":
        done = python("-m", file.stem, cwd=tmp_path)
    else:
        done = python(file)
    assert (done.stdout.splitlines(), done.stderr) == (["runs", "True True"], "")


ORPHAN = """
import multiprocessing, os, signal
from dprelease.results.validate import gx_process
gx_process.ready()
print(multiprocessing.active_children()[0].pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_ends_with_the_process_that_started_it():
    done = python("-c", ORPHAN)
    assert done.returncode == -signal.SIGKILL
    until = time.monotonic() + 60
    while runs(int(done.stdout)):
        assert time.monotonic() < until, "it outlives its parent"
        time.sleep(0.1)


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()


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


def test_a_broken_or_old_installation_is_found_before_the_charge_and_a_whole_one_validates_beside(
    tmp_path,
):
    package = tmp_path / "first" / "great_expectations"
    package.mkdir(parents=True)
    about = tmp_path / "first" / "great_expectations-0.18.22.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: great_expectations\nVersion: 0.18.22\n")
    make_project(tmp_path / "project")
    for text in (
        "raise ImportError('a dependency is missing')\n",
        "__version__ = '0.18.22'\n",
        "raise SystemExit(0)\n",
        *(["import os; os._exit(0)\n", "import os; os.abort()\n"] if FULL else []),
    ):
        (package / "__init__.py").write_text(text)
        done = ran(tmp_path / "project", package.parent)
        told = " ".join((done.stderr + done.stdout).split())
        assert done.returncode == 2, told
        words = ("DPR173", "nothing was spent", "Great Expectations 0.18.22 ", gx_process.NEEDED)
        assert [word for word in words if word not in told] == [], told
        assert not book(tmp_path / "project").has(KEY)
    done = ran(tmp_path / "project")
    assert done.returncode == 0, done.stderr
    assert "(great_expectations)" in done.stdout
    assert done.stdout.rstrip().endswith("imported beside")
