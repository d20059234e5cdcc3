"""Rows of a caller's DuckDB relation: its connection is the caller's, and other threads may use it meanwhile.

DuckDB refuses at once a call that finds the connection at work, before anything of it has run. Such a call
is made again until it is let in. Scans of ours take turns, as the open result of one would block the others.

Limits  A thread that holds the connection for longer than `PATIENCE` seconds, or leaves a result open, ends the
        scan; `preflight` meets it before the charge, if it is there by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, TypeVar

from dprelease.core.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

    from dprelease.engines.source import Source

T = TypeVar("T")

PATIENCE = 60.0
SHARED = (
    "no other thread may hold the connection of the DuckDB relation meanwhile: give a relation of a connection"
    " of its own, such as `connection.cursor().table(NAME)`"
)
_BUSY = "Resource In Use"
_TURN = RLock()
_PAUSE = 0.001
_BATCH = 65_536


@contextmanager
def taking_turns(source: Source) -> Iterator[None]:
    """Let one scan of a relation run at a time in this process; other sources wait for nothing."""
    if not source.holds("duckdb_relation"):
        yield
        return
    with _TURN:
        yield


def patiently(call: Callable[[], T]) -> T:
    """Return what `call` gives once the relation's connection lets it in.

    Raises:
        SourceError: another thread held the connection all the time (DPR514).
    """
    import duckdb

    end = monotonic() + PATIENCE
    while True:
        try:
            return call()
        except (OSError, duckdb.Error) as refused:
            if _BUSY not in str(refused):
                raise
        if monotonic() > end:
            raise SourceError(
                "the connection of the DuckDB relation is in use by another thread, or has an open result",
                fix=SHARED,
                code="DPR514",
            )
        sleep(_PAUSE)


def batches_of(relation: Any) -> pa.RecordBatchReader:
    """Return the rows of a relation as batches, each asked for until the connection lets it in."""
    import pyarrow as pa

    reader = patiently(lambda: relation.to_arrow_reader(_BATCH))

    def batches() -> Iterator[pa.RecordBatch]:
        while (batch := patiently(lambda: next(reader, None))) is not None:
            yield batch

    return pa.RecordBatchReader.from_batches(reader.schema, batches())
