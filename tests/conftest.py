"""A line of evidence from every harness that has one to give; generated examples have no deadline; garbage; folders."""

from __future__ import annotations

import atexit
import functools
import gc
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator

import pytest
import typer.testing
from hypothesis import settings

from tests.engines.spark_session import needs_spark
from tests.in_memory import in_memory
from tests.time_limit import pytest_configure, pytest_runtest_protocol

__all__ = ["evidence", "pytest_configure", "pytest_runtest_protocol"]
_PASSED = pytest.StashKey[bool]()

# How long an example takes tells how busy the machine is, not whether the code is right.
settings.register_profile("dprelease", deadline=None)
settings.load_profile("dprelease")

# What an app's commands are is found out once, not in each call of the command line: 30 ms.
typer.testing._get_command = functools.cache(typer.testing._get_command)  # type: ignore[attr-defined]

# No worker has a second core to itself: linear algebra that waits for a second thread takes twice as long. numpy reads this
# when it is imported, which workers do later; a process alone has done so, and has all cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

if in_memory() is not None and "TMPDIR" not in os.environ:  # of tests that passed nothing stays
    os.environ["TMPDIR"] = tempfile.tempdir = str(in_memory())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of Spark first and mypy's last.

    Next to one another those of Spark are one worker's, and start Java once; `make lint` runs beside
    the first tests, and mypy reads again what it has found by then.
    """
    items.sort(
        key=lambda item: (
            needs_spark.mark not in item.iter_markers("skipif"),
            item.name.startswith("test_mypy_"),
        )
    )


def pytest_collection() -> None:
    """Collect no garbage while thousands of tests are made: none of them is any."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave the tests themselves out of every later search for garbage: a second each time."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # libraries in C complain of objects that nobody freed
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Keep whether the test's body passed: a fixture's own end is not told."""
    report = yield
    if report.when == "call":
        item.stash[_PASSED] = report.passed
    return report


@pytest.fixture
def evidence(request: pytest.FixtureRequest) -> Iterator[Callable[..., None]]:
    """Note (harness, size, result); `tests.evidence` makes the table, of tests that passed.

    Seconds are the test's own unless they are given: for what several tests did together.
    """
    started, lines = time.perf_counter(), []

    def note(harness: str, size: str, result: str, *, seconds: float | None = None) -> None:
        lines.append((harness, size, result, seconds))

    yield note
    target = os.environ.get("DPRELEASE_EVIDENCE")
    if target and request.node.stash.get(_PASSED, False):
        own = time.perf_counter() - started
        with open(target, "a", encoding="utf-8") as file:
            for harness, size, result, given in lines:
                seconds = own if given is None else given
                row = {"harness": harness, "size": size, "seconds": seconds, "result": result}
                file.write(json.dumps(row) + "\n")
