"""A Spark session while one statement is made and run: its settings, its silence, and Ctrl-C.

The session is the caller's: whatever is changed here is put back. Spark's own messages quote cells,
so PySpark's loggers and the log of a local driver are off meanwhile.
"""

from __future__ import annotations

import logging
import uuid
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

_SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.parquet.binaryAsString": "true",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # no cell of a calendar of old stops a scan
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    # what a file claims of its values decides nothing
    "spark.sql.parquet.filterPushdown": "false",
    "spark.sql.parquet.aggregatePushdown": "false",
    "spark.sql.orc.filterPushdown": "false",
    "spark.sql.orc.aggregatePushdown": "false",
}
_LOGGERS = (
    "SQLQueryContextLogger",
    "DataFrameQueryContextLogger",
    "py4j",
    "py4j.clientserver",
    "py4j.java_gateway",
)


def collected(session: Any, collect: Callable[[], Any]) -> Any:
    """Return what Spark collects; Ctrl-C stops its jobs, and waits until they are stopped.

    In a thread of its own, which has a connection to Java of its own: PySpark's handler of Ctrl-C
    talks to Java on the main thread's, and fails where that one waits for an answer.
    """
    from pyspark.util import inheritable_thread_target

    tag = f"dprelease-{uuid.uuid4().hex}"
    context = getattr(session, "_sc", None)  # a Connect session has none
    # interruptTag() of a session that is not a Connect session finds no job (Spark 4.3)
    mark, stop = (
        (session.addTag, session.interruptTag)
        if context is None
        else (context.addJobTag, context.cancelJobsWithTag)
    )

    def marked() -> Any:
        mark(tag)  # of this thread, which ends with the call
        return collect()

    with ThreadPoolExecutor(max_workers=1) as pool:
        rows: Future[Any] = pool.submit(inheritable_thread_target(session)(marked))
        try:
            return rows.result()
        except KeyboardInterrupt:
            while not rows.done():  # again: an interrupt before the first job stops nothing
                stop(tag)
                wait([rows], timeout=0.2)
            raise


@contextmanager
def settings(session: Any) -> Iterator[None]:
    """Set what a statement's meaning depends on, and put back what was there."""
    before = {name: session.conf.get(name, None) for name in _SETTINGS}
    try:
        for name, value in _SETTINGS.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, old)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep PySpark from logging the message of an exception: it quotes cells."""
    # each by name: disabling a logger leaves those below it on, and py4j's at DEBUG show all calls
    known = [
        n for n in logging.root.manager.loggerDict if n.partition(".")[0] in ("py4j", "pyspark")
    ]
    loggers = [logging.getLogger(name) for name in {*_LOGGERS, *known}]
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        with warnings.catch_warnings():
            # PySpark 4.3 warns of pandas 3, which nothing here passes to it
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


@contextmanager
def hushed(session: Any) -> Iterator[None]:
    """Turn off the driver's own log, where a failed task of a local master quotes its cell."""
    context = getattr(session, "_sc", None)  # a Connect session has none: its log is elsewhere
    if context is None:
        yield
        return
    # each logger's level, not setLogLevel(): that also lifts the threshold of PySpark's console,
    # which cannot be put back
    log4j = context._jvm.org.apache.logging.log4j  # noqa: SLF001 - there is no other way to it
    logs = log4j.LogManager.getContext(False)
    loggers = list(logs.getConfiguration().getLoggers().values())
    levels = [logger.getLevel() for logger in loggers]
    for logger in loggers:
        logger.setLevel(log4j.Level.OFF)
    logs.updateLoggers()
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        logs.updateLoggers()
