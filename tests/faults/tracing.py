"""A traced process, and every power cut that its sequence of calls allows."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from tests.end_to_end.projects import ROOT
from tests.faults.disk import CALLS, Disk, Event, read_trace
from tests.faults.sizes import POWER_VARIANTS

__all__ = ["Cut", "can_trace", "power_cuts", "traced"]

Cut = tuple[int, frozenset[str], Callable[[], None]]
"""Its number, what had been promised by then, and what writes the disk it leaves behind."""


@cache
def can_trace() -> bool:
    if shutil.which("strace") is None:
        return False
    trial = ["strace", "-f", "--seccomp-bpf", "-o", "/dev/null", "true"]
    return subprocess.run(trial, capture_output=True).returncode == 0


def traced(
    words: Sequence[object], log: Path, *, said: Path | None = None, **environment: str
) -> list[Event]:
    """Run a command under strace and return its calls; `said` receives its standard output."""
    with open(said or os.devnull, "wb") as out:
        subprocess.run(
            ["strace", "-f", "--seccomp-bpf", "-y", "-xx", "-s", "16777216", "-e", f"trace={CALLS}",
             "-e", "signal=none", "-o", log, *words],
            check=True, cwd=ROOT, timeout=300, stdout=out,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
        )  # fmt: skip
    return list(read_trace(log))


def power_cuts(
    disk: Disk,
    events: Iterable[Event],
    target: Path,
    promise: Callable[[Event], Iterable[str]],
    *,
    forgets: Callable[[str], bool] = lambda _: False,
) -> Iterator[Cut]:
    """Yield power cuts after every event that touches the disk, several ways each.

    Args:
        disk: as it is before the first event.
        target: where a cut's disk is written.
        promise: what an event promises from then on.
        forgets: for broken twins: paths whose fsync does nothing.
    """
    seen: set[str] = set()
    number = 0
    for event in events:
        if event.call == "fsync" and forgets(event.paths[0]):
            continue
        touched = disk.play(event)
        new = set(promise(event)) - seen
        seen |= new
        if not touched and not new:
            continue
        for variant in range(POWER_VARIANTS):
            number += 1
            chance = random.Random(f"{number}") if variant >= 2 else None

            def cut(chance: random.Random | None = chance, keep: bool = variant == 1) -> None:
                disk.after_power_cut(target, chance, keep=keep)

            yield number, frozenset(seen), cut
