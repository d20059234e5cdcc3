"""Whole runs that are killed or interrupted at random: `main(FOLDER, ROUNDS)`, in a fork of `forked_runs`.

Everything is imported there and no thread is started; every run is a fork that goes through the command
line. More rounds are made, up to four times as many, until a third of those asked for was stopped.
Prints one JSON object: rounds by signal, how the runs ended, in which states they were left.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

from dprelease.cli import main as command_line
from tests.faults.weekly_project import PERIOD, finished, make_project, outcome

ESCAPED = 99


def in_fork(work) -> int:
    """Start `work` in a fork that ends with its exit status; Ctrl-C reaches it as in a terminal."""
    child = os.fork()
    if child:
        return child
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        work()
    except SystemExit as ended:
        os._exit(ended.code if isinstance(ended.code, int) else 0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(ESCAPED)
    os._exit(0)


def start(folder: Path) -> int:
    """Start a run and return once it is about to enter the command line: a signal finds that, not this file."""
    began, begins = os.pipe()

    def work() -> None:
        said = os.open(folder / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(said, 1)
        os.dup2(said, 2)
        sys.argv = ["dprelease", "run", str(folder / "weekly.yaml"), "--period", PERIOD]
        os.write(begins, b".")
        command_line()

    child = in_fork(work)
    os.close(begins)
    os.read(began, 1)
    os.close(began)
    return child


def ended(child: int) -> str:
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return f"exit {os.WEXITSTATUS(status)}"


def main(place: Path, rounds: int) -> None:
    make_project(place / "project")
    shutil.copytree(place / "project", place / "whole")
    began = time.monotonic()
    assert ended(start(place / "whole")) == "exit 0"
    needed = time.monotonic() - began
    chance = random.Random(2016)  # which instant: not noise
    how: Counter[str] = Counter()
    left: Counter[str] = Counter()
    n = stopped = 0
    while n < rounds or (3 * stopped < rounds and n < 4 * rounds):  # few instants may all be late
        number = signal.SIGKILL if n % 2 else signal.SIGINT
        folder = place / str(n)
        shutil.copytree(place / "project", folder)
        child = start(folder)
        time.sleep(chance.random() * needed)
        os.kill(child, number)
        end = ended(child)
        how[f"{number.name}: {end}"] += 1
        if end == "exit 0":
            needed *= 0.8  # it was over: the first run took longer, or the machine is quicker now
        else:
            stopped += 1
        said = (folder / "said").read_text(encoding="utf-8")
        if number == signal.SIGINT:
            assert end in ("exit 0", "exit 130"), (end, said[-2000:])
        assert "Traceback" not in said, said[-3000:]
        before = outcome(folder)
        if number == signal.SIGINT:
            told, over = "cancelled" in said, "\npublish " in said
            # before the command began and after its last line, the command line's library says nothing
            silent = not told and (before[0] == "nothing" or over)
            assert told == (end == "exit 130") or silent, said[-2000:]
        left[before[0]] += 1
        assert ended(in_fork(lambda f=folder, b=before: finished(f, b))) == "exit 0", before[0]
        outcome(folder)
        shutil.rmtree(folder)
        n += 1
    print(json.dumps({"ends": how, "left": left}))
