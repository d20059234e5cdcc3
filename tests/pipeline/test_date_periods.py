"""A row's period: by the calendar where the column holds dates, by the zone's midnights where instants."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.core.errors import InternalError, SourceError
from dprelease.engines import duckdb as duckdb_engine
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.physical import Physical, check_times
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import Source, as_source, duckdb_table, file_source
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.due import due_at, next_due
from dprelease.pipeline.planned import plan_pipeline
from dprelease.query.intervals import Intervals
from tests.pipeline.tiny import project
from tests.sizes import some

ZONES = ["America/New_York", "Pacific/Auckland"]
DAYS = [date(2024, 10, 30) + timedelta(days=i // 3) for i in range(180)]
CHANGES = ["2024-11-03", "2024-03-10", "2024-04-07", "2024-09-29"]
MAKES = [
    "arrow",
    "pandas",
    "pandas datetimes",
    "polars",
    "parquet",
    "csv",
    "hive",
    "duckdb",
    "text",
]


def _pipeline(folder: Path, kind: str, zone: str, every: str) -> Path:
    path = project(folder)
    schema = folder / "schemas" / "visits.yaml"
    schema.write_text(schema.read_text().replace("kind: timestamp", f"kind: {kind}"))
    text = path.read_text().replace("every: week", f"every: {every}")
    path.write_text(text.replace("timezone: Europe/Dublin}", f"timezone: {zone}}}", 1))
    return path


@cache
def _plan(kind: str, zone: str, every: str, period: str) -> Any:
    """Return the plan of such a pipeline; tests share it, and none changes it."""
    with TemporaryDirectory() as folder:
        return plan_pipeline(load_pipeline(_pipeline(Path(folder), kind, zone, every)), period)


def _source(make: str, cells: list[Any], folder: Path) -> Source:
    rows = {"at": cells, "region": ["north"] * len(cells), "age": [30] * len(cells)}
    table = pa.table(rows)
    match make:
        case "arrow":
            return as_source(table)
        case "pandas":
            return as_source(pd.DataFrame(rows))
        case "pandas datetimes":
            return as_source(pd.DataFrame({**rows, "at": pd.to_datetime(pd.Series(cells))}))
        case "polars":
            return as_source(pl.from_arrow(table))
        case "parquet":
            pq.write_table(table, folder / "t.parquet")
            return as_source(str(folder / "t.parquet"))
        case "hive":
            pq.write_to_dataset(table, folder / "t", partition_cols=["at"])
            return file_source("parquet", folder / "t" / "**" / "*.parquet")
        case "csv":
            pd.DataFrame(rows).to_csv(folder / "t.csv", index=False)
            return as_source(folder / "t.csv")
        case "text":
            return as_source(pa.table({**rows, "at": [str(cell) for cell in cells]}))
        case _:
            with duckdb.connect(str(folder / "t.duckdb")) as connection:
                connection.register("found", table)
                connection.execute("CREATE TABLE t AS SELECT * FROM found")
            return duckdb_table(folder / "t.duckdb", "t")


def _counted(plan: Any, source: Source) -> set[int]:
    """Return how many rows the two engines find; the plan sums rows first."""
    place = next(i for i, p in enumerate(plan.query.primitives) if p.kind == "rows")
    answers = [e().compute(source, plan.query, b"") for e in (DuckDBEngine, ReferenceEngine)]
    return {int(a.reveal_to_mechanism().sums[:, place].sum()) for a in answers}


@pytest.mark.parametrize(("zone", "make"), some(product(ZONES, MAKES), 2))
def test_a_date_is_in_its_own_month_wherever_the_pipeline_is(
    make: str, zone: str, tmp_path: Path
) -> None:
    source = _source(make, DAYS, tmp_path)
    for every, period in (("month", "2024-11"), ("day", "2024-11-03"), ("week", "2024-W44")):
        plan = _plan("date", zone, every, period)
        start, end = plan.window
        inside = sum(start.date() <= day < end.date() for day in DAYS)
        names = {"month": "%Y-%m", "day": "%Y-%m-%d", "week": "%G-W%V"}
        assert inside == sum(day.strftime(names[every]) == period for day in DAYS) > 0
        assert _counted(plan, source) == {inside}


@pytest.mark.parametrize("make", ["arrow", "polars", "parquet", "duckdb"])
def test_a_stored_date_that_is_declared_an_instant_is_refused_before_the_charge(
    make: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Midnight in UTC is the evening before in New York, and so of another month."""
    source = _source(make, [date(2024, 11, 1)] * 9, tmp_path)
    for zone in ZONES:
        plan = _plan("timestamp", zone, "month", "2024-11")
        with pytest.raises(SourceError, match="declared timestamp but stored as a date") as refused:
            DuckDBEngine().preflight(source, plan.query)
        assert refused.value.code == "DPR504"
        assert refused.value.fix == "declare `at: {kind: date}`"
        with pytest.raises(InternalError):  # the source changed after the preflight
            DuckDBEngine().compute(source, plan.query, b"")
        with monkeypatch.context() as broken:  # what it spares: the check's broken twin
            broken.setattr(duckdb_engine, "check_times", lambda *_: None)
            assert _counted(plan, source) == {9 if zone == "Pacific/Auckland" else 0}
    plan = _plan("timestamp", "UTC", "month", "2024-11")
    DuckDBEngine().preflight(source, plan.query)
    assert _counted(plan, source) == {9}


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("make", ["text", "csv"])
def test_a_text_that_is_a_date_alone_is_what_its_kind_says(
    make: str, zone: str, tmp_path: Path
) -> None:
    """Of a timestamp midnight in UTC, like the frame that pandas wrote so; of a date the calendar's day."""
    cells = DAYS[:80]  # to the 25th of November
    frame = pd.DataFrame({"at": pd.to_datetime(pd.Series(cells)), "region": "north", "age": 30})
    written = frame.to_csv(index=False).splitlines()[1]
    assert written.startswith("2024-10-30,")  # pandas leaves the time out
    source = _source(make, cells, tmp_path)
    instants = _plan("timestamp", zone, "month", "2024-11")
    start, end = (at.astimezone(UTC).replace(tzinfo=None) for at in instants.window)
    inside = sum(start <= at < end for at in frame["at"])
    assert _counted(instants, source) == _counted(instants, as_source(frame)) == {inside}
    days = _plan("date", zone, "month", "2024-11")
    of_november = sum(day.month == 11 for day in cells)
    assert _counted(days, source) == _counted(days, as_source(frame)) == {of_november}
    assert (inside == of_november) == (zone == "Pacific/Auckland")  # control: the kind decides


def test_a_stored_date_is_not_an_instant_of_an_interval_either() -> None:
    query = replace(_plan("timestamp", "UTC", "month", "2024-11").query, window=None)
    stored = {"at": Physical.date}
    for zone, dates in (("UTC", False), ("America/New_York", True)):
        check_times("t", replace(query, per=Intervals("at", "day", zone, dates)), stored)
    zoned = replace(query, per=Intervals("at", "day", "America/New_York"))
    check_times("t", zoned, {"at": Physical.timestamp})
    with pytest.raises(SourceError, match="declared timestamp but stored as a date"):
        check_times("t", zoned, stored)


@pytest.mark.parametrize(
    ("day", "zone", "make"), some(product(CHANGES, ZONES, ["arrow", "pandas", "csv", "duckdb"]), 5)
)
def test_an_instant_is_in_the_day_of_its_zone_clock_changes_included(
    make: str, zone: str, day: str, tmp_path: Path
) -> None:
    first = datetime.fromisoformat(day).replace(tzinfo=UTC) - timedelta(days=1)
    moments = [first + timedelta(minutes=30 * i) for i in range(48 * 3)]
    inside = sum(m.astimezone(ZoneInfo(zone)).date().isoformat() == day for m in moments)
    plan = _plan("timestamp", zone, "day", day)
    assert _counted(plan, _source(make, moments, tmp_path)) == {inside}
    naive = [m.replace(tzinfo=None) for m in moments]  # read as UTC
    assert _counted(plan, _source("arrow", naive, tmp_path)) == {inside}


def test_a_date_column_is_due_by_the_zone_and_a_day_without_instants_never(tmp_path: Path) -> None:
    path = _pipeline(tmp_path, "date", "Pacific/Apia", "day")
    path.write_text(path.read_text().replace("* * TUE", "* * *"))
    config = load_pipeline(path)
    at = due_at(config, "2011-12-29")
    assert at is not None
    assert at >= datetime(2011, 12, 30, 10, tzinfo=UTC)
    upcoming = next_due(config, at)
    assert upcoming is not None
    assert upcoming.period == "2011-12-31"
