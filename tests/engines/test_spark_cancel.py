"""Ctrl-C while Spark works: a real signal, and the job is gone."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dprelease.engines import spark
from dprelease.engines.source import as_source
from dprelease.engines.spark import SparkEngine
from tests.engines.spark_session import needs_spark, session
from tests.engines.test_spark import SUMS, sums

GIVES_UP = 60.0


def as_pyspark_does(_number: int, _frame: Any) -> None:
    """What a session that starts in the main thread sets as the handler of Ctrl-C."""
    try:
        session().sparkContext.cancelAllJobs()
    finally:
        raise KeyboardInterrupt


HANDLERS = {"python": signal.default_int_handler, "pyspark": as_pyspark_does}


def jobs() -> list[int]:
    return list(session().sparkContext.statusTracker().getActiveJobsIds())


@contextmanager
def pressed_while_a_job_runs(handler: Any) -> Iterator[None]:
    """Press Ctrl-C once Spark has a job; end all jobs where that does not."""
    over = threading.Event()

    def press() -> None:
        start = time.monotonic()
        while not jobs() and not over.wait(0.02):
            pass
        time.sleep(0.1)
        if not over.is_set():
            os.kill(os.getpid(), signal.SIGINT)
        while not over.wait(0.1):
            if time.monotonic() - start > GIVES_UP:
                session().sparkContext.cancelAllJobs()

    session()
    # a shell's background job starts with Ctrl-C ignored; here it means what it usually means
    before = signal.signal(signal.SIGINT, handler)
    presser = threading.Thread(target=press, daemon=True)
    presser.start()
    try:
        yield
    finally:
        over.set()
        presser.join()
        signal.signal(signal.SIGINT, before)


def endless() -> Any:
    return as_source(
        session().range(10**12).selectExpr("'a' AS site", "CAST(id % 7 AS DOUBLE) AS x")
    )


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what would stand in the terminal: py4j logs tracebacks of its own, of no name's logger."""
    return [r.message for r in caplog.records if r.levelno >= logging.ERROR]


@needs_spark
@pytest.mark.parametrize("handler", HANDLERS)
def test_ctrl_c_stops_the_jobs_and_leaves_the_session_usable(
    handler: str, caplog: pytest.LogCaptureFixture
) -> None:
    source = endless()
    start = time.monotonic()
    with pressed_while_a_job_runs(HANDLERS[handler]), pytest.raises(KeyboardInterrupt):
        SparkEngine().compute(source, SUMS, b"salt")
    assert time.monotonic() - start < GIVES_UP
    assert not jobs()
    assert not complaints(caplog)
    assert not [t.name for t in session().catalog.listTables() if t.name.startswith("dprelease")]
    frame = session().createDataFrame([("a", 1.0)], "site STRING, x DOUBLE")
    assert sums(frame)[0] == [1, 1]


@needs_spark
def test_collected_in_the_main_thread_py4j_complains(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The broken twin: the handler finds the main thread's connection waiting for an answer."""
    monkeypatch.setattr(spark, "collected", lambda _session, collect: collect())
    source = endless()
    try:
        with pressed_while_a_job_runs(HANDLERS["pyspark"]), pytest.raises(KeyboardInterrupt):
            SparkEngine().compute(source, SUMS, b"salt")
        assert complaints(caplog)
    finally:
        session().sparkContext.cancelAllJobs()
