"""Keys that are made of a column: parts of dates and whole numbers; their public values, and where rows go."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dprelease as dp
from dprelease.core.errors import ConfigError
from dprelease.core.periods import period_id
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import as_source
from dprelease.pipeline.planned import plan_release
from dprelease.query.request import request_from_json
from dprelease.query.written import request_for_all_periods, request_to_json
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.formats.public_words import planned_words
from dprelease.testing.engines import answer
from tests.engines.postgres_server import binaries, server
from tests.engines.spark_session import needs_spark, session

RANGE = ["2023-12-30", "2024-03-31"]
COLUMNS: dict[str, dict[str, Any]] = {
    "at": {"kind": "timestamp", "range": RANGE},
    "day": {"kind": "date"},
    "n": {"kind": "integer", "range": [-100, 100]},
    "band": {"kind": "integer", "from": "n / 10", "range": [-1, 2]},
    "place": {"kind": "category", "values": ["a", "b"], "other": {"as": "other"}},
}


def plan(by: Any, during: str | None = None, **changes: Any) -> ReleasePlan:
    declared = {
        "dprelease": "schema/1",
        "name": "visits",
        "unit": "row",
        "adjacency": "add_remove",
        "rows": {"max": 1000},
        "columns": {**COLUMNS, **changes.pop("columns", {})},
        **changes,
    }
    asked = (
        {"tables": by} if by and isinstance(by[0], dict) else {"by": by, "statistics": ["count"]}
    )
    return dp.plan(declared, epsilon=1, during=during, **asked)


def rows() -> pd.DataFrame:
    """Return rows at and around every border, and those that are of no group."""
    borders = [
        datetime(2024, m, d) for m, d in ((1, 1), (1, 8), (2, 1), (2, 29), (3, 1), (3, 4), (3, 31))
    ]
    borders += [
        datetime(2023, 12, 30),
        datetime(2024, 4, 1),
        datetime(2020, 12, 31, 23),
        datetime(2021, 1, 3),
    ]
    step = timedelta(microseconds=1)
    moments: list[Any] = [
        b + s for b in borders for s in (-step, 0 * step, step, timedelta(hours=1))
    ]
    rng = random.Random(4)
    moments += [
        datetime(2023, 12, 1) + timedelta(minutes=rng.randrange(200_000)) for _ in range(200)
    ]
    moments += [None, datetime(1700, 1, 1), datetime(2200, 1, 1)]
    numbers = itertools.cycle(
        [-101, -20, -16, -15, -14, -6, -5, -4, 0, 4, 5, 14, 15, 24, 25, 26, 99, None]
    )
    places = itertools.cycle(["a", "b", "c", None, "a"])
    return pd.DataFrame(
        {
            "at": pd.Series(moments, dtype="datetime64[us]"),
            "day": [None if m is None else m.date() for m in moments],
            "n": pd.array([next(numbers) for _ in moments], dtype="Int64"),
            "place": [next(places) for _ in moments],
        }
    )


ASKED = [
    ["month(at)"], ["week(at)"], ["quarter(at)"], ["year(at)"], ["day(at)", "place"], ["hour(at)"], ["weekday(at)"],
    ["month(day)"], ["week(day)"], ["quarter(day)", "band"], ["weekday(day)"], ["day(day)"], ["band"],
]  # fmt: skip


def said(by: str, row: dict[str, Any]) -> str | None:
    """Return a row's key, the slow way."""
    if by == "place":
        place = row["place"]
        return None if pd.isna(place) else place if place in ("a", "b") else "other"
    if by == "band":
        value = None if pd.isna(row["n"]) else int((max(-100, min(100, row["n"])) / 10 + 0.5) // 1)
        return None if value is None or not -1 <= value <= 2 else str(value)
    part, name = by.rstrip(")").split("(")
    at = row[name]
    if at is None or pd.isna(at):
        return None
    moment = at.to_pydatetime() if name == "at" else datetime(at.year, at.month, at.day)
    if part == "hour":
        return f"{moment.hour:02d}"
    if part == "weekday":
        return ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"][moment.weekday()]
    label = period_id(moment.replace(tzinfo=UTC), part, "UTC")  # type: ignore[arg-type]
    if name == "at":
        inside = datetime(2023, 12, 30) <= moment < datetime(2024, 4, 1)
        return label if inside else None
    return label[-2:] if part == "day" else label[5:]


def counted(by: list[str]) -> Counter[tuple[str, ...]]:
    found = Counter(tuple(said(name, row) for name in by) for row in rows().to_dict("records"))
    return Counter({key: n for key, n in found.items() if None not in key})  # type: ignore[misc]


@pytest.mark.parametrize("by", ASKED, ids="/".join)
def test_rows_go_where_the_slow_way_puts_them(by: list[str]) -> None:
    found = plan(by)
    assert found.by == tuple(by)
    slow = counted(by)
    want = [slow.get(key, 0) for key in found.keys]
    assert sum(want) == sum(slow.values()) > 0
    query = found.query
    for engine in (ReferenceEngine(), DuckDBEngine()):
        sums = engine.compute(as_source(rows()), query, b"").reveal_to_mechanism().sums
        assert sums[:, 0].tolist() == want


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    pytest.importorskip("psycopg")
    if binaries() is None:
        pytest.skip("no PostgreSQL server is installed")
    with server() as running:
        yield running


def test_postgresql_puts_them_there_too(dsn: str) -> None:
    import psycopg

    from dprelease.engines.postgres_engine import PostgresEngine
    from tests.engines.postgres_tables import load, table

    frame = rows().astype(object)
    cells = {name: [None if pd.isna(v) else v for v in frame[name]] for name in frame}
    with psycopg.connect(dsn) as connection:
        load(connection, cells, "visits")
    for by in ASKED:
        query = plan(by).query
        want = answer(ReferenceEngine(), as_source(rows()), query)
        assert answer(PostgresEngine(), table(dsn, "visits"), query) == want, by


@needs_spark
def test_spark_puts_them_there_too() -> None:
    from dprelease.engines.spark import SparkEngine

    frame = rows().astype(object).where(rows().notna(), None)
    cells = [(a and a.to_pydatetime(), d, n, p) for a, d, n, p in frame.itertuples(index=False)]
    table = session().createDataFrame(cells, "at TIMESTAMP_NTZ, day DATE, n INT, place STRING")
    for by in (ASKED[1], ASKED[8], ASKED[9]):
        query = plan(by).query
        want = answer(ReferenceEngine(), as_source(rows()), query)
        assert answer(SparkEngine(), as_source(table), query) == want, by


# -- public values -----------------------------------------------------------------------------


def keys(by: list[str], during: str | None = None, **changes: Any) -> list[str]:
    return ["/".join(key) for key in plan(by, during, **changes).keys]


def test_values_come_from_the_period_the_range_or_the_part() -> None:
    time = {"time": {"column": "at", "timezone": "Europe/Dublin"}}
    assert keys(["month(at)"], "2026-Q1", **time) == ["2026-01", "2026-02", "2026-03"]
    assert keys(["week(at)"], "2020-12", **time) == [f"2020-W{i}" for i in range(49, 54)]
    assert keys(["year(at)"], "2020-W53", **time) == ["2020", "2021"]
    assert keys(["quarter(at)"], "2026-11", **time) == ["2026-Q4"]
    assert keys(["month(at)"]) == ["2023-12", "2024-01", "2024-02", "2024-03"]
    assert keys(["month(day)"], "2026-Q1", **time) == [f"{i:02d}" for i in range(1, 13)]
    assert keys(["weekday(at)"], "2026-Q1", **time)[0] == "Mon"
    assert keys(["hour(at)"]) == [f"{i:02d}" for i in range(24)]
    assert keys(["band"]) == ["-1", "0", "1", "2"]


def test_values_are_those_of_the_declared_zone() -> None:
    """At half past eleven in the evening of UTC it is March in Dublin's summer, not in its winter."""
    time = {"column": "at", "timezone": "Europe/Dublin", "immutable": True}
    frame = (
        rows()
        .head(4)
        .assign(
            at=pd.to_datetime(
                ["2026-05-31 23:30", "2026-05-31 22:59", "2026-06-30 23:00", "2026-04-30 23:00"]
            )
        )
    )
    want = Counter(
        period_id(at.tz_localize("UTC").to_pydatetime(), "month", "Europe/Dublin")
        for at in frame["at"]
    )
    for found in (
        plan(["month(at)"], "2026-Q2", time=time),
        plan(
            ["month(at)"],
            time=time,
            columns={"at": {**COLUMNS["at"], "range": ["2026-04-01", "2026-06-30"]}},
        ),
    ):
        assert [key for (key,) in found.keys] == ["2026-04", "2026-05", "2026-06"]
        sums = DuckDBEngine().compute(as_source(frame), found.query, b"").reveal_to_mechanism().sums
        assert sums[:, 0].tolist() == [want.get(key, 0) for (key,) in found.keys]


def test_a_part_without_public_values_is_refused() -> None:
    with pytest.raises(ConfigError, match="no public values") as caught:
        plan(["year(day)"])
    assert caught.value.code == "DPR136"
    wide = {"day": {"kind": "date", "range": ["1900-01-01", "2020-01-01"]}}
    with pytest.raises(ConfigError, match="too many"):
        plan(["week(day)"], columns=wide)
    for name in ("hour(day)", "minute(at)", "month(n)", "n"):
        with pytest.raises(ConfigError):
            plan([name])


def test_a_part_that_is_misspelled_is_named() -> None:
    for written, meant in (("months(day)", "month(day)"), ("WEEK(at)", "week(at)"), ("da", "day")):
        with pytest.raises(ConfigError) as caught:
            plan([written])
        assert caught.value.fix == f"did you mean `{meant}`?"


def test_a_key_that_is_meant_is_written_with_the_quotes_that_it_needs() -> None:
    odd = {"Day of visit": {"kind": "date", "range": ["2026-01-01", "2026-12-31"]}}
    for written in ("months(Day of visit)", "month('Day of visit')"):
        with pytest.raises(ConfigError) as caught:
            plan([written], columns=odd)
        assert caught.value.fix == 'did you mean `month("Day of visit")`?'
    assert plan(['month("Day of visit")'], columns=odd).keys[0] == ("2026-01",)


@pytest.mark.parametrize(
    "ends", [["2024-02-30", "2025-01-01"], ["2025-01-01", "2024-01-01"], [1, 2]]
)
def test_a_faulty_range_of_days_is_refused(ends: list[Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        plan(["month(day)"], columns={"day": {"kind": "date", "range": ends}})
    assert caught.value.code in ("DPR112", "DPR114")
    with pytest.raises(ConfigError):
        plan(["place"], columns={"n": {"kind": "integer", "range": RANGE}})


# -- the doors ---------------------------------------------------------------------------------


def test_the_request_says_it_and_gives_the_same_plan() -> None:
    time = {"time": {"column": "at", "timezone": "UTC"}}
    tables = [
        {"name": "both", "by": ["month(at)", "place"], "statistics": ["count"]},
        {"name": "months", "by": ["month(at)"], "statistics": ["count"]},
    ]
    for by in (["place", "month(at)"], ["band"], tables):
        first, second = (plan(by, f"2026-Q{i}", **time) for i in (1, 2))
        assert first.request is not None
        assert second.request is not None
        said = request_to_json(first.request)
        assert set(said["schema"]["columns"]) == set(COLUMNS)
        again = request_from_json(said).groups
        assert again.keys == first.request.groups.keys
        assert [c.made for c in again.columns] == [c.made for c in first.request.groups.columns]
        one, other = map(request_for_all_periods, (first.request, second.request))
        assert one == other


def test_sql_and_files_say_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sql = 'SELECT place, MONTH(at), COUNT(*) FROM visits GROUP BY place, month("at")'
    declared = plan(["place"]).request
    assert declared is not None
    assert (
        plan_release(declared.schema, {"epsilon": 1, "sql": sql}).hash
        == plan(["place", "month(at)"]).hash
    )
    listed = tmp_path / "keys.csv"
    listed.write_text("month(at),place\n2024-01,a\n2024-03,b\n")
    asked = {
        "by": ["month(at)", "place"],
        "statistics": ["count"],
        "epsilon": 1,
        "keys_from": "keys.csv",
    }
    found = plan_release(declared.schema, asked)
    assert found.keys == (("2024-01", "a"), ("2024-03", "b"))
    assert found.request is not None
    assert request_from_json(request_to_json(found.request)).groups.keys == found.keys
    listed.write_text("month(at),place\n2025-01,a\n")
    with pytest.raises(ConfigError) as caught:
        plan_release(declared.schema, asked)
    assert caught.value.code == "DPR117"


def test_a_published_folder_verifies(tmp_path: Path) -> None:
    frame = rows().assign(who=range(len(rows())))
    schema = {
        "dprelease": "schema/1", "name": "visits", "unit": {"user": "who", "max_groups": 2, "max_rows_per_group": 1},
        "adjacency": "add_remove", "rows": {"max": 1000}, "time": {"column": "at", "timezone": "Europe/Dublin"},
        "columns": {"who": {"kind": "identifier"}, **COLUMNS, "at": {"kind": "timestamp", "title": "Seen"}},
        "release": {"epsilon": 1, "by": ["place", "month(at)"], "statistics": ["count", "mean(n)", {"statistic": "sum(band)", "as": "s"}]},
    }  # fmt: skip
    ledger = dp.create_ledger(tmp_path / "ledger.db", schema, epsilon=10)
    release = dp.release(frame, schema=schema, during="2024-Q1", ledger=ledger, dataset="visits")
    folder = release.publish(tmp_path / "public")
    assert dp.verify(folder)
    report = next(Path(folder).rglob("report.html")).read_text()
    assert "Month of seen" in report
    assert dp.read(folder).to_pandas()["month(at)"].unique().tolist() == [
        "2024-01",
        "2024-02",
        "2024-03",
    ]


def test_plan_and_page_say_that_hours_and_weekdays_are_in_utc() -> None:
    schema = {
        "dprelease": "schema/1", "name": "visits", "unit": "row", "adjacency": "add_remove", "rows": {"max": 1000},
        "time": {"column": "at", "timezone": "Europe/Dublin"}, "columns": {"at": {"kind": "timestamp", "title": "Seen"}},
        "release": {"epsilon": 1, "by": ["hour(at)"], "statistics": ["count"]},
    }  # fmt: skip
    assert "`hour(at)` is in UTC, not in Europe/Dublin" in str(dp.plan(schema))
    assert "Hour of seen (UTC)" in planned_words(dp.plan(schema)).column("hour(at)")
    months = dp.plan(schema, by=["month(at)"])
    assert "in UTC" not in str(months)  # of the schema's zone where a range or a period gives them
    assert planned_words(months).column("month(at)") == "Month of seen"
    release = {"epsilon": 1, "by": ["weekday(at)"], "statistics": ["count"]}
    dates = {"columns": {"at": {"kind": "date"}}, "time": {"column": "at"}, "release": release}
    days = dp.plan({**schema, **dates})
    assert "UTC" not in str(days) + planned_words(days).column("weekday(at)")
