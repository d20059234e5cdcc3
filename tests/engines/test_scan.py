"""Ctrl-C and progress of a scan: with a real signal, and a connection that counts."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.core.errors import SourceError
from dprelease.engines import duckdb as engine
from dprelease.engines import scan
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.source import as_source
from dprelease.pipeline.planned import plan_release
from dprelease.query.load import as_schema

SCHEMA = {
    "dprelease": "schema/1",
    "name": "long",
    "unit": {"user": "person", "max_groups": 1, "max_rows_per_group": 2},
    "adjacency": "add_remove",
    "rows": {"max": 100_000_000, "expected": 1000},
    "columns": {"person": {"kind": "identifier"}, "age": {"kind": "integer", "range": [0, 120]}},
}


@pytest.fixture(autouse=True)
def _interruptible():
    """A shell's background job starts with Ctrl-C ignored; here it means what it usually means."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def job(rows: int):
    plan = plan_release(as_schema(SCHEMA), {"epsilon": 1, "statistics": ["mean(age)"]})
    table = pa.table({"person": np.arange(rows), "age": np.arange(rows) % 100})
    return as_source(table), plan.query


def interrupt_when(ready: threading.Event) -> threading.Thread:
    def press() -> None:
        ready.wait()
        time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press, daemon=True)
    thread.start()
    return thread


class Announcing(DuckDBEngine):
    """Says when the one statement starts."""

    def __init__(self, temp_directory=None) -> None:
        super().__init__(threads=1, temp_directory=temp_directory)
        self.started, self.runs = threading.Event(), 0

    def _run(self, connection, sql, parameters=None):
        if sql.startswith("WITH"):
            self.runs += 1
            self.started.set()
        return super()._run(connection, sql, parameters)


def test_ctrl_c_during_a_scan_is_a_cancel_and_not_a_failure(tmp_path):
    source, query = job(6_000_000)
    engine = Announcing(tmp_path)
    before, running = signal.getsignal(signal.SIGINT), set(threading.enumerate())
    presser = interrupt_when(engine.started)
    with pytest.raises(KeyboardInterrupt):
        engine.compute(source, query, b"salt")
    presser.join()
    assert engine.runs == 1
    assert signal.getsignal(signal.SIGINT) is before
    assert not list(tmp_path.iterdir())  # the folder for spilled rows is gone, and its thread
    assert not [t for t in threading.enumerate() if t not in running and not t.daemon]


@pytest.mark.parametrize("pressed", [True, False])
def test_ctrl_c_while_a_statement_is_planned_is_no_fault_of_a_version(pressed):
    class Planning(DuckDBEngine):
        def _run(self, connection, sql, parameters=None):
            if sql.startswith("EXPLAIN"):
                with contextlib.suppress(KeyboardInterrupt):
                    if pressed:
                        os.kill(os.getpid(), signal.SIGINT)
                raise RuntimeError("Query interrupted")  # as DuckDB does
            return super()._run(connection, sql, parameters)

    with pytest.raises(KeyboardInterrupt if pressed else SourceError):
        Planning().preflight(*job(10))


def test_without_the_memory_of_the_signal_it_would_look_like_a_failure(monkeypatch):
    source, query = job(6_000_000)
    engine = Announcing()

    class Forgetful(threading.Event):
        def set(self) -> None:
            """Forget."""

    monkeypatch.setattr(scan, "Event", Forgetful)
    presser = interrupt_when(engine.started)
    engine.compute(source, query, b"salt")
    presser.join()
    assert engine.runs == 2  # a frame is summed once more where the engine failed


def test_elsewhere_than_in_the_main_thread_nothing_is_installed():
    seen = []

    def work() -> None:
        with scan.cancellable() as pressed:
            seen.append((signal.getsignal(signal.SIGINT), pressed.is_set()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(signal.getsignal(signal.SIGINT), False)]


def test_the_meter_hears_shares_and_the_time_left(monkeypatch):
    monkeypatch.setattr(scan, "_PAUSE", 0.001)
    heard = []
    enough = threading.Event()

    class Connection:
        def query_progress(self) -> float:
            return -1.0 if not heard else 50.0

    def meter(share, left):
        heard.append((share, left))
        if len(heard) > 1:
            enough.set()

    with scan.metered(Connection(), meter):
        enough.wait(10)
    assert heard[0] == (0.0, None)
    assert heard[1][0] == 0.5
    assert heard[1][1] > 0


def test_a_metered_scan_gives_the_same_integers():
    source, query = job(1000)
    quiet, watched = DuckDBEngine(), DuckDBEngine()
    watched.meter = lambda _share, _left: None
    one, two = (e.compute(source, query, b"salt").reveal_to_mechanism() for e in (quiet, watched))
    assert np.array_equal(one.sums, two.sums)


@pytest.fixture
def long_file(tmp_path):
    rows = 1_500_000
    columns = {
        "person": np.arange(rows) // 9,
        "age": np.arange(rows) % 100,
        "region": pa.array(np.arange(rows) % 2 == 0).cast(pa.string()),
    }
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


def shares_of_a_long_scan(path) -> list[float]:
    """Return what the meter hears while a file is released by a key and per person."""
    region = {"kind": "category", "values": ["true", "false"]}
    schema = {**SCHEMA, "columns": {**SCHEMA["columns"], "region": region}}
    plan = plan_release(
        as_schema(schema), {"epsilon": 1, "by": ["region"], "statistics": ["mean(age)"]}
    )
    measured, heard = DuckDBEngine(threads=1), []
    measured.meter = lambda share, _left: heard.append(share)
    measured.compute(as_source(path), plan.query, b"salt")
    return heard


def test_a_scan_joined_with_public_tables_is_measured(long_file, monkeypatch):
    monkeypatch.setattr(scan, "_PAUSE", 0.005)
    heard = shares_of_a_long_scan(long_file)
    assert max(heard) > 0.2
    # the broken twin joins an Arrow table, of whose scan DuckDB knows no progress
    monkeypatch.setattr(
        engine, "_copy", lambda connection, name, table: connection.register(name, table)
    )
    # it may hear of another step of the statement, once; the scan itself never moves
    assert len(set(shares_of_a_long_scan(long_file))) <= 2 < len(set(heard))
