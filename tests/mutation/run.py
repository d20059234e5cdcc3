"""Break one guard at a time and look whether a test notices: `python -m tests.mutation [WORD …]`.

The library and its tests are copied aside; in the copy one guard's text is replaced, and the tests
that must notice are run. A guard that can be broken unnoticed is a hole in the tests: its name is
printed, and the exit status is 1. Words choose guards by area, file or name.
"""

from __future__ import annotations

import compileall
import functools
import json
import os
import py_compile
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.guard import Guard
from tests.mutation.guards import AREAS

__all__ = ["ROOT", "Outcome", "broken_text", "chosen", "copy_of_the_tree", "outcome", "passes"]

ROOT = Path(__file__).resolve().parents[2]
_LONGEST = 900
"""Seconds after which tests of a broken build count as failed: it does not end."""

_PARTS = (
    "dprelease", "tests", "schemas", "pipelines", "examples", "docs", "benchmarks",
    "pyproject.toml", "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "Makefile", "mkdocs.yml", "LICENSE",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one broken guard: the test that failed, or None."""

    guard: Guard
    noticed_by: str | None
    seconds: float


def broken_text(text: str, guard: Guard) -> str:
    """Return the file's text with the guard broken.

    How lines are broken says nothing: the formatter's white space and its last commas are skipped.

    Raises:
        LookupError: its text does not stand there exactly once.
    """
    found = list(re.finditer(_however_broken(guard.old), text))
    if len(found) != 1:
        raise LookupError(f"{guard.file}: {len(found)} times: {guard.old}")
    start, end = found[0].span()
    return text[:start] + guard.new + text[end:]


def _however_broken(text: str) -> str:
    lead, tail = re.match(r"\s*", text), re.search(r"\s*$", text)
    assert lead is not None
    assert tail is not None
    words = re.sub(r",(?=\s*[)\]}])", "", text).split()
    signs = [
        rf"{',?' if sign in ')]}' else ''}\s*{re.escape(sign)}" for word in words for sign in word
    ]
    body = "".join(signs).removeprefix(r"\s*")
    return re.escape(lead.group()) + body + re.escape(tail.group())


def chosen(words: Sequence[str]) -> list[tuple[str, Guard]]:
    """Return (area, guard) of all guards, or of those that a word names."""
    every = [(area, guard) for area, guards in AREAS.items() for guard in guards]
    return [
        (area, g)
        for area, g in every
        if not words or any(w == area or w in g.file or w in g.broken for w in words)
    ]


@contextmanager
def copy_of_the_tree(*, compiled: bool = True) -> Iterator[Path]:
    """Give a folder with a copy of everything that tests read.

    Args:
        compiled: for many runs: the library is compiled once, which takes as long as three of them.
    """
    with tempfile.TemporaryDirectory(prefix="dprelease-broken-") as folder:
        for part in _PARTS:
            source, target = ROOT / part, Path(folder) / part
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)
        if compiled:  # a text that is broken later has another hash and is compiled by who reads it
            by_hash = py_compile.PycInvalidationMode.CHECKED_HASH
            compileall.compile_dir(
                f"{folder}/dprelease", quiet=2, invalidation_mode=by_hash, stripdir=folder
            )
        yield Path(folder)


def passes(tree: Path, tests: Sequence[str]) -> str | None:
    """Return None if the tests pass in `tree`, else the first test that fails.

    Raises:
        RuntimeError: none was run. That says nothing of the guard.
    """
    words = ["-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests]
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as said:
        process = _forking()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([str(tree), words, said.name, _LONGEST]) + "\n")
        process.stdin.flush()
        status = int(process.stdout.readline())
        lines = said.read().splitlines()
    if status == 0:
        return None
    if status == -signal.SIGKILL:
        return "no end"
    named = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
    if not named:
        raise RuntimeError(f"no test failed, but pytest ended with status {status}", lines[-9:])
    return named[0].split(" ")[1]


@functools.cache
def _forking() -> subprocess.Popen[str]:
    """Start what has imported the packages that all tests need, and nothing of ours: it forks for every broken build."""
    # No byte code is written: two broken texts of one second and one length would share it.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"}
    for name in ("DPRELEASE_EVIDENCE", "PYTHONPATH"):
        environment.pop(name, None)
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("forking.py"))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip


def outcome(tree: Path, guard: Guard) -> Outcome:
    """Break the guard in `tree`, run its tests, and mend it again."""
    place = tree / "dprelease" / guard.file
    whole = place.read_text(encoding="utf-8")
    started = time.perf_counter()
    place.write_text(broken_text(whole, guard), encoding="utf-8")
    try:
        failed = passes(tree, guard.tests)
    finally:
        place.write_text(whole, encoding="utf-8")
    return Outcome(guard, failed, time.perf_counter() - started)


def main(words: Sequence[str]) -> int:
    survivors = []
    with copy_of_the_tree() as tree:
        for area, guard in chosen(words):
            found = outcome(tree, guard)
            print(
                f"{area}: {guard.broken}: {found.noticed_by or 'NOT NOTICED'} ({found.seconds:.0f} s)",
                flush=True,
            )
            if found.noticed_by is None:
                survivors.append(f"{guard.file}: {guard.broken}")
    print(f"{len(survivors)} unnoticed", *survivors, sep="\n  ")
    return 1 if survivors else 0
