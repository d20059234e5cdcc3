"""A relation whose connection other threads use meanwhile: rows are read to the last one, or nothing is charged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dprelease as dp
from dprelease.core.errors import InternalError, SourceError
from dprelease.engines import relation_rows
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.source import as_source
from tests.engines.test_duckdb import query
from tests.sizes import whole

ROWS = 200_000
SCHEMA = {
    "dprelease": "schema/1",
    "name": "t",
    "unit": "row",
    "adjacency": "add_remove",
    "rows": {"max": 1_000_000, "expected": ROWS},
    "columns": {
        "region": {"kind": "category", "values": ["a"]},
        "x": {"kind": "number", "range": [0, 10], "step": 0.5},
    },
    "release": {"epsilon": 1, "by": ["region"], "statistics": ["count"]},
}


def stored(rows: int = ROWS) -> Any:
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t AS SELECT 'a' region, 1.0 x, 'u' user FROM range({rows})")
    return connection


@contextmanager
def in_use(work: Callable[[], object], threads: int = 4) -> Iterator[None]:
    """Let other threads work meanwhile; what they meet is theirs."""
    done = threading.Event()

    def busy() -> None:
        while not done.is_set():
            with suppress(duckdb.Error):
                work()

    running = [threading.Thread(target=busy) for _ in range(threads)]
    for thread in running:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in running:
            thread.join()


def test_every_row_is_read_while_other_threads_use_the_connection() -> None:
    connection = stored()
    source, engine = as_source(connection.table("t")), DuckDBEngine()
    alone = engine.compute(source, query(), b"").reveal_to_mechanism()
    with in_use(lambda: connection.execute("SELECT 42").fetchall()):
        for _ in range(whole(1, 3)):
            engine.preflight(source, query())
            together = engine.compute(source, query(), b"").reveal_to_mechanism()
            assert (together.sums == alone.sums).all()


def test_eight_threads_release_one_relation_into_one_ledger(tmp_path: Path) -> None:
    connection = stored(1_000)
    relation = connection.table("t")
    ledger = dp.create_ledger(tmp_path / "l.db", SCHEMA, epsilon=100)

    def release(number: int) -> bool:
        return dp.release(relation, SCHEMA, ledger=ledger, period=f"p{number}").receipt.fresh

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(release, range(8)))


def test_a_connection_that_stays_in_use_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = stored()
    source, engine = as_source(connection.table("t")), DuckDBEngine()
    monkeypatch.setattr(relation_rows, "PATIENCE", 0.05)
    held = connection.sql("SELECT * FROM range(10000000)").to_arrow_reader(10)
    with pytest.raises(SourceError, match="DPR514") as caught:
        engine.preflight(source, query())
    assert (caught.value.fix, caught.value.spent) == (relation_rows.SHARED, "nothing")
    with pytest.raises(InternalError) as after:
        engine.compute(source, query(), b"")
    assert relation_rows.SHARED in str(after.value.fix)
    del held
    own = as_source(connection.cursor().table("t"))  # what the fix says
    engine.preflight(own, query())
    engine.compute(own, query(), b"")
