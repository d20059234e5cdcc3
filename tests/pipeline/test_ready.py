"""Rows that have not arrived: refused before the charge by a run, waited for by the scheduler."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from dprelease.budget.ledger import Ledger
from dprelease.core.errors import ConfigError, SourceError
from dprelease.pipeline.config import PipelineConfig, load_pipeline
from dprelease.pipeline.ready import is_ready
from dprelease.pipeline.run import init_ledger, run
from dprelease.pipeline.schedule import Clock, job, tick
from tests.pipeline.tiny import project

NOW = datetime(2026, 1, 20, tzinfo=UTC)
WEEK = "2026-W01"


def config(folder: Path, ready: str, source: str | None = None) -> PipelineConfig:
    path = project(folder)
    text = path.read_text().replace("delay: 1d,", f"delay: 1d, ready: {ready},")
    path.write_text(text.replace("../data/visits.parquet", source or "../data/visits.parquet"))
    return load_pipeline(path)


def loads(folder: Path, *periods: str) -> None:
    with duckdb.connect(str(folder / "loads.duckdb")) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS loads (week VARCHAR)")
        for period in periods:
            connection.execute("INSERT INTO loads VALUES (?)", [period])


def test_a_file_says_that_rows_have_arrived(tmp_path):
    made = config(tmp_path, '{file: "../landed/{period}.ok"}')
    init_ledger(made)
    with pytest.raises(SourceError) as caught:
        run(made, period=WEEK, now=NOW)
    assert (caught.value.code, caught.value.spent) == ("DPR523", "nothing")
    assert Ledger.open(made.budget.ledger).entries() == []
    (tmp_path / "landed").mkdir()
    (tmp_path / "landed" / f"{WEEK}.ok").touch()
    assert run(made, period=WEEK, now=NOW).receipt.fresh
    (tmp_path / "landed" / f"{WEEK}.ok").unlink()
    assert not run(made, period=WEEK, now=NOW).receipt.fresh  # what is drawn is published again


def test_early_is_about_time_and_not_about_rows_that_have_not_arrived(tmp_path):
    """`--early` releases a period that is not over, and says so; one that is over waits for its rows."""
    made = config(tmp_path, '{file: "../landed/{period}.ok"}')
    init_ledger(made)
    with pytest.raises(SourceError) as caught:
        run(made, period=WEEK, early=True, now=NOW)
    assert (caught.value.code, caught.value.spent) == ("DPR523", "nothing")
    assert Ledger.open(made.budget.ledger).entries() == []
    within = datetime(2026, 1, 8, tzinfo=UTC)
    assert run(made, period="2026-W02", early=True, now=within).receipt.fresh
    (entry,) = Ledger.open(made.budget.ledger).entries()
    assert entry.entry.early is not None


def test_the_scheduler_waits_and_spends_nothing(tmp_path):
    made = config(tmp_path, '{file: "../landed/{period}.ok"}')
    init_ledger(made)
    told = []
    assert tick(job([made], clock=Clock(NOW), report=told.append)) == 0
    assert {e["event"] for e in told} == {"waiting"}
    assert Ledger.open(made.budget.ledger).entries() == []
    (tmp_path / "landed").mkdir()
    (tmp_path / "landed" / "2026-W02.ok").touch()  # a later one arrived first
    assert tick(job([made], clock=Clock(NOW), report=told.append)) == 0
    assert [e.entry.key.period for e in Ledger.open(made.budget.ledger).entries()] == ["2026-W02"]


def test_a_partition_or_a_table_of_loads_says_it(tmp_path):
    made = config(tmp_path, '{partition: "week={period}"}', "../data/visits/*/*.parquet")
    assert not is_ready(made, WEEK)
    (tmp_path / "data" / "visits" / f"week={WEEK}").mkdir(parents=True)
    assert is_ready(made, WEEK)
    table = config(tmp_path, "{table: {database: ../loads.duckdb, table: loads, column: week}}")
    with pytest.raises(SourceError, match="table of loads"):
        is_ready(table, WEEK)
    loads(tmp_path, WEEK)
    assert is_ready(table, WEEK)
    assert not is_ready(table, "2026-W02")
    with duckdb.connect(str(tmp_path / "loads.duckdb")) as connection:
        connection.execute('ALTER TABLE loads RENAME TO "a.b"')
    quoted = """{table: {database: ../loads.duckdb, table: '"a.b"', column: week}}"""
    assert is_ready(config(tmp_path, quoted), WEEK)
    assert is_ready(load_pipeline(project(tmp_path)), WEEK)


@pytest.mark.parametrize(
    "pattern",
    ["hive/week=*/a.parquet", "hive/*/*.parquet", "hive/**/part-?.parquet", "hive/week=*/x/[ab].parquet",
     "hive"],
)  # fmt: skip
def test_partitions_are_looked_for_above_the_first_wildcard(tmp_path, pattern):
    """A part behind a wildcard is not a folder of the source: the marker could never come true."""
    made = config(tmp_path, '{partition: "week={period}"}', "../data/*.parquet")
    source = replace(made.source, path=str(tmp_path / pattern))
    made = replace(made, source=source)
    assert not is_ready(made, WEEK)
    (tmp_path / "hive" / f"week={WEEK}").mkdir(parents=True)
    assert is_ready(made, WEEK)


def test_a_partition_that_can_never_be_there_is_refused(tmp_path):
    ready = '{partition: "week={period}"}'
    with pytest.raises(ConfigError, match="has no partitions") as caught:
        config(tmp_path, ready)
    assert caught.value.code == "DPR147"
    for other in ("duckdb: {database: ../x.duckdb, table: v}", "parquet: s3://b/x/*.parquet"):
        path = project(tmp_path)
        text = path.read_text().replace("delay: 1d,", f"delay: 1d, ready: {ready},")
        path.write_text(text.replace("parquet: ../data/visits.parquet", other))
        with pytest.raises(ConfigError, match="has no partitions"):
            load_pipeline(path)
    assert config(tmp_path, ready, "../data/*/*.parquet").period is not None


def test_an_instant_at_midnight_names_its_day(tmp_path):
    table = config(tmp_path, "{table: {database: ../loads.duckdb, table: loads, column: loaded}}")
    with duckdb.connect(str(tmp_path / "loads.duckdb")) as connection:
        connection.execute("CREATE TABLE loads (loaded TIMESTAMP)")
        connection.execute(
            "INSERT INTO loads VALUES ('2026-01-05'), ('2026-01-06 07:00:00'), (NULL)"
        )
    assert is_ready(table, "2026-01-05")
    assert not is_ready(table, "2026-01-06")


@pytest.mark.parametrize(
    "ready",
    ["{}", "{file: ../landed/all.ok}", '{partition: "../{period}"}', '{file: "a{period}", partition: "b{period}"}',
     "{table: {table: loads, column: week}}"],
)  # fmt: skip
def test_faulty_blocks_are_refused(tmp_path, ready):
    with pytest.raises(ConfigError) as caught:
        config(tmp_path, ready)
    assert caught.value.code == "DPR147"
