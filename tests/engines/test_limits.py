"""Limits: how they are written, who wins, that they hold, and that breaking one says nothing."""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dprelease.core.errors import ArgumentError, ConfigError, InternalError
from dprelease.engines import scan
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.limits import Limits, bytes_of, memory_of, seconds_of, threads_of
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import Source, as_source
from dprelease.pipeline import preflight
from dprelease.pipeline.run import load_pipeline
from dprelease.query.bounded import BoundedQuery, Fixed, GroupKeys, Primitive
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain
from tests.end_to_end.projects import clinic

X, WHO = Column("x", Kind.number), Column("who", Kind.identifier)
GRID = Domain(0, 10).on_grid(1)  # type: ignore[arg-type]
ONE = BoundedQuery(
    columns=(X, WHO),
    groups=GroupKeys((), ((),)),
    codes=(Fixed("x", GRID, 1),),  # type: ignore[arg-type]
    primitives=(Primitive("rows"), Primitive("power", 0, 1)),
    user="who",
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1B", 1),
        ("500MB", 500 * 10**6),
        ("2GiB", 2 << 30),
        ("1.5 GB", 1500000000),
        ("1TiB", 1 << 40),
    ],
)
def test_a_size_is_read_in_bytes_and_duckdb_takes_it(text: str, size: int) -> None:
    assert bytes_of(text) == size
    with duckdb.connect() as connection:  # what is handed on is what DuckDB understands
        connection.execute("SET max_temp_directory_size = $v", {"v": f"{size}B"})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2",
        "2G",
        "0B",
        "-1GB",
        "1e9B",
        "80%",
        "２GB",
        "1GB; SET x = 1",
        "9" * 12 + "TiB",
        "nanB",
        "0.1B",
    ],
)
def test_what_is_not_a_size(text: str) -> None:
    with pytest.raises(ArgumentError):
        bytes_of(text)


def test_other_limits() -> None:
    assert (seconds_of("90s"), seconds_of("2h"), threads_of("3")) == (90, 7200, 3)
    for read, text in [
        (seconds_of, "0s"), (seconds_of, "1d"), (seconds_of, "1.5h"), (threads_of, "0"),
        (threads_of, "1025"), (threads_of, "-1"), (threads_of, "all"), (memory_of, "63MiB"),
    ]:  # fmt: skip
        with pytest.raises(ArgumentError):
            read(text)


def test_the_environment_wins(tmp_path: Path) -> None:
    mine = Limits(memory_limit=1 << 30, threads=4)
    said = {
        "DPRELEASE_THREADS": "2",
        "DPRELEASE_TEMP_DIRECTORY": str(tmp_path),
        "DPRELEASE_TIMEOUT": "",
    }
    assert mine.under(said) == Limits(memory_limit=1 << 30, threads=2, temp_directory=tmp_path)
    assert mine.under({}) == mine


@pytest.mark.parametrize(
    ("variable", "text", "code"),
    [
        ("MEMORY_LIMIT", "lots", "DPR159"),
        ("THREADS", "0", "DPR159"),
        ("MAX_TEMP", "10", "DPR159"),
        ("TIMEOUT", "soon", "DPR159"),
        ("TEMP_DIRECTORY", "/dev/null", "DPR116"),
    ],
)
def test_a_faulty_variable_is_named_before_anything_is_spent(
    variable: str, text: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"DPRELEASE_{variable}", text)
    with pytest.raises(ConfigError) as caught:
        preflight.engine_named("duckdb")
    assert caught.value.code == code
    assert f"DPRELEASE_{variable}" in (caught.value.where or "")


def test_an_engine_without_that_limit_says_so() -> None:
    with pytest.raises(ConfigError) as caught:
        preflight.engine_named("reference", Limits(threads=2))
    assert caught.value.code == "DPR110"
    assert preflight.engine_named("reference") is not None


BLOCKS = [
    ("duckdb", "duckdb", Limits()),
    ("{kind: duckdb}", "duckdb", Limits()),
    ("{}", "duckdb", Limits()),
    (
        "{memory_limit: 2GiB, threads: 2, max_temp: 10GiB, timeout: 2h, temp_directory: ../spill}",
        "duckdb",
        Limits(2 << 30, 2, None, 10 << 30, 7200),
    ),
]


@pytest.mark.parametrize(("block", "kind", "expected"), BLOCKS)
def test_a_pipeline_says_them(tmp_path: Path, block: str, kind: str, expected: Limits) -> None:
    pipeline = clinic(tmp_path)
    pipeline.write_text(pipeline.read_text() + f"engine: {block}\n")
    config = load_pipeline(pipeline)
    assert config.engine == kind
    folder = tmp_path / "spill" if "spill" in block else None
    assert config.limits == Limits(
        expected.memory_limit, expected.threads, folder, expected.max_temp, expected.timeout
    )


@pytest.mark.parametrize(
    ("block", "code"),
    [
        ("{memory_limit: 2}", "DPR112"),
        ("{memory_limit: 1MiB}", "DPR112"),
        ("{memory_limit: [2GiB]}", "DPR112"),
        ("{threads: 0}", "DPR112"),
        ("{threads: true}", "DPR112"),
        ("{threads: 2.5}", "DPR112"),
        ("{timeout: 12:30:00}", "DPR112"),
        ("{temp_directory: ../../x}", "DPR116"),
        ("{temp_directory: /tmp}", "DPR116"),
        ("{kind: oracle}", "DPR112"),
        ("{memory: 2GiB}", "DPR110"),
        ("[duckdb]", "DPR112"),
        ("2", "DPR112"),
    ],
)
def test_faulty_blocks_point_at_their_line(tmp_path: Path, block: str, code: str) -> None:
    pipeline = clinic(tmp_path)
    pipeline.write_text(pipeline.read_text() + f"engine: {block}\n")
    with pytest.raises(ConfigError) as caught:
        load_pipeline(pipeline)
    assert caught.value.code == code, str(caught.value)
    line = len(pipeline.read_text().splitlines())
    assert (caught.value.where or "").split(",")[0] == f"{pipeline}:{line}"
    assert "word" not in (caught.value.fix or "")


# -- that they hold ----------------------------------------------------------------------------

ROWS = 1_000_000


@cache
def big() -> Source:
    """Return a table that 64 MiB do not hold; made when a test asks, not while tests are collected."""
    number = pa.array(np.arange(ROWS)).cast(pa.string())
    names = pc.binary_join_element_wise("unit number", number, " ")
    return as_source(pa.table({"x": np.arange(ROWS) % 11, "who": names}))


def totals(engine: Any, source: Source | None = None) -> list[list[int]]:
    answer = engine.compute(source or big(), ONE, b"s").reveal_to_mechanism()
    found: list[list[int]] = answer.sums.tolist()
    return found


def test_the_settings_reach_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, str] = {}
    run = DuckDBEngine._run

    def watching(self: Any, connection: Any, sql: str, parameters: Any = None) -> Any:
        if sql.startswith("WITH"):
            names = ("memory_limit", "threads", "max_temp_directory_size", "temp_directory")
            for name in names:
                seen[name] = str(
                    connection.execute(f"SELECT current_setting('{name}')").fetchall()[0][0]
                )
        return run(self, connection, sql, parameters)

    monkeypatch.setattr(DuckDBEngine, "_run", watching)
    limits = Limits(256 << 20, 1, tmp_path, 1 << 30, 60)
    few = as_source(pa.table({"x": [1, 2], "who": ["a", "b"]}))
    assert totals(preflight.engine_named("duckdb", limits), few) == totals(ReferenceEngine(), few)
    assert seen.pop("temp_directory").startswith(str(tmp_path / "dprelease-"))
    assert seen == {
        "memory_limit": "256.0 MiB",
        "threads": "1",
        "max_temp_directory_size": "1.0 GiB",
    }
    assert os.listdir(tmp_path) == []


def broken(engine: DuckDBEngine, folder: Path) -> None:
    with pytest.raises(InternalError) as caught:
        totals(engine)
    assert caught.value.code == "DPR900"
    assert caught.value.__context__ is None
    assert "unit number" not in str(caught.value)
    assert os.listdir(folder) == []  # what was spilled is gone


def test_no_room_to_spill_is_one_fixed_message(tmp_path: Path) -> None:
    few = {"memory_limit": 64 << 20, "threads": 1, "temp_directory": tmp_path}
    broken(DuckDBEngine(**few, max_temp=1 << 16), tmp_path)  # type: ignore[arg-type]
    # control: with room, the same memory is enough
    assert totals(DuckDBEngine(**few)) == totals(DuckDBEngine())  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == []


def test_a_time_limit_stops_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endless = (
        "WITH t AS (SELECT count(*) FROM range(100000000) a, range(100000000) b) SELECT * FROM t"
    )
    run = DuckDBEngine._run

    def slow(self: Any, connection: Any, sql: str, parameters: Any = None) -> Any:
        return (
            run(self, connection, endless)
            if sql.startswith("WITH")
            else run(self, connection, sql, parameters)
        )

    few = as_source(pa.table({"x": [1, 2], "who": ["a", "b"]}))
    patient = DuckDBEngine(threads=1, temp_directory=tmp_path, timeout=600)
    assert totals(patient, few) == totals(ReferenceEngine(), few)  # in time: nothing is stopped
    engine = DuckDBEngine(threads=1, temp_directory=tmp_path, timeout=1)
    monkeypatch.setattr(DuckDBEngine, "_run", slow)
    broken(engine, tmp_path)


def test_an_alarm_between_two_statements_rings_again() -> None:
    """An interrupt finds nothing to stop while Python prepares the next statement."""

    def late() -> None:
        with duckdb.connect() as connection, scan.stopped_after(1, connection.interrupt):
            time.sleep(1.2)
            connection.execute(
                "SELECT count(*) FROM range(100000000) a, range(100000000) b"
            ).fetchall()

    with pytest.raises(duckdb.InterruptException):
        late()


def test_row_groups_are_read_in_turn(tmp_path: Path) -> None:
    """A file far larger than the limit is summed within it: many small groups, or one large."""
    wide = pa.table({"x": np.arange(200_000) % 11, "who": [f"{i:0400d}" for i in range(200_000)]})
    plain = BoundedQuery(**{f: getattr(ONE, f) for f in ONE.__slots__ if f != "user"}, user=None)
    for size in (1000, 200_000):
        pq.write_table(wide, tmp_path / "t.parquet", row_group_size=size, compression="none")
        engine = DuckDBEngine(memory_limit=64 << 20, threads=1, temp_directory=tmp_path)
        found = engine.compute(as_source(tmp_path / "t.parquet"), plain, b"s").reveal_to_mechanism()
        assert found.sums[0, 0] == 200_000
