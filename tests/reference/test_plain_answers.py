"""Releases at an epsilon of several hundred beside plain pandas: every statistic, feature and source.

`plain_answers` shares no code with the library. What may differ is the noise that is left: a value
agrees if it lies within four widths of its own 95 % interval of the answer (the chance that a law
misses that is below 1e-10), a value by rank if it is at most two ranks from the one asked for.
That this says something is tested as well: nearly all intervals are narrower than a hundredth of
the domain, and a reference that reads raw cells disagrees at once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from functools import cache
from itertools import islice, product
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dprelease as dp
from dprelease.engines.source import duckdb_table, postgres_table
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.planned import plan_pipeline
from dprelease.pipeline.run import init_ledger
from tests.engines.postgres_server import binaries, server
from tests.engines.spark_session import needs_spark, session
from tests.reference import plain_answers as plain
from tests.reference.released_cases import Case, answers, case, members
from tests.rules_alone import rules_alone
from tests.sizes import NIGHTLY, sized, some

MAKES = ("pandas", "polars", "arrow", "parquet", "csv", "relation", "duckdb")
BY_RANK = ("median", "quantile", "min", "max")
pytestmark = pytest.mark.filterwarnings("ignore::dprelease.UnledgeredWarning")


def arrow(frame: pd.DataFrame) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


def source(make: str, frame: pd.DataFrame, folder: Path) -> Any:
    """Return the raw rows in the given make."""
    table = arrow(frame)
    match make:
        case "pandas":
            return frame
        case "polars":
            return pl.from_arrow(table)
        case "arrow":
            return table
        case "relation":
            return duckdb.connect().from_arrow(table)
        case "csv":
            frame.to_csv(folder / "rows.csv", index=False)
            return folder / "rows.csv"
        case "duckdb":
            (folder / "rows.duckdb").unlink(missing_ok=True)
            with duckdb.connect(str(folder / "rows.duckdb")) as connection:
                connection.register("found", table)
                connection.execute("CREATE TABLE survey AS SELECT * FROM found")
            return duckdb_table(folder / "rows.duckdb", "survey")
        case _:
            pq.write_table(table, folder / "rows.parquet")
            return (
                session().read.parquet(str(folder / "rows.parquet"))
                if make == "spark"
                else folder / "rows.parquet"
            )


class Tally:
    """What was compared, and what did not agree."""

    def __init__(self) -> None:
        self.compared = self.exact = self.narrow = self.within = self.by_rank = 0
        self.statistics: Counter[str] = Counter()
        self.wrong: list[str] = []

    def add(self, made: Case, tidy: pd.DataFrame, widths: dict[str, float]) -> None:
        """Compare one release's tidy table with the reference."""
        groups = members(made)
        wanted = answers(made, groups)
        keys = (
            zip(*(tidy[name].astype(str) for name in made.by), strict=True)
            if made.by
            else [()] * len(tidy)
        )
        places = {
            (key, name): i
            for i, (key, name) in enumerate(zip(keys, tidy["statistic"].astype(str), strict=True))
        }
        assert len(places) == len(tidy)
        found = 0
        for (key, place), numbers in wanted.items():
            columns = [n for n in dict.fromkeys(tidy["statistic"].astype(str)) if _is_of(n, place)]
            found += len(columns)
            for column, number in zip(columns, numbers or [None] * len(columns), strict=True):
                cells = tidy.iloc[places[key, column]]
                if number is not None:
                    rows = groups[key]
                    self._compare(made, rows, place, cells, float(number), widths[column])
        assert found == len(tidy), "the release has other groups than the reference"

    def _compare(
        self, made: Case, rows: Any, place: int, cells: Any, number: float, hull: float
    ) -> None:
        name = made.asked[place][0]
        value = float(cells["value"])
        self.compared += 1
        self.statistics[name] += 1
        self.exact += abs(value - number) <= 1e-9 * max(1.0, abs(number))
        if name in BY_RANK:
            self.by_rank += 1
            good = _ranks_apart(made, rows, place, value) <= 2
        else:
            width = float(cells["upper"]) - float(cells["lower"])
            self.narrow += width <= hull / 100
            self.within += abs(value - number) <= width + 1e-9 * max(1.0, abs(number))
            good = abs(value - number) <= 4 * width + 1e-9 * max(1.0, abs(number))
        if not good:
            text = made.schema["release"]["statistics"][place]["statistic"]
            self.wrong.append(
                f"{text} of {len(rows)} rows: released {value}, reference {number}, {json.dumps(made.schema)}"
            )


def _is_of(column: str, place: int) -> bool:
    name = f"s{place}"
    return column == name or (column.startswith(name) and not column[len(name)].isdigit())


def _ranks_apart(made: Case, rows: Any, place: int, value: float) -> float:
    """Return how many ranks the value's rows are from the asked one: p n of n rows, 0 or n at the ends."""
    name, arguments = made.asked[place]
    values = plain.known(rows, arguments[0])[:, 0]
    share = {"min": 0.0, "max": 1.0, "median": 0.5}.get(name)
    rank = len(values) * (float(arguments[1]) if share is None else share)
    return max(0.0, float((values < value).sum()) - rank, rank - float((values <= value).sum()))


def released(made: Case, data: Any) -> tuple[pd.DataFrame, dict[str, float]]:
    release = dp.release(data, dp.Schema.from_dict(made.schema))
    return release.table.to_pandas(), _widths(release.plan)


def _widths(plan: Any) -> dict[str, float]:
    return {c: float(s.domain.width) for s in plan.statistics for c in s.columns}


def says_something(tally: Tally) -> None:
    """The comparison has teeth: values are narrow, and as near as their intervals say."""
    apart = tally.compared - tally.by_rank
    assert tally.narrow >= 0.8 * apart, f"{tally.narrow} of {apart} are narrow"
    assert tally.within >= 0.95 * apart
    assert tally.exact >= 0.4 * tally.compared


def test_every_statistic_and_feature_from_every_in_memory_and_file_source(
    tmp_path: Path, evidence: Callable[..., None]
) -> None:
    tally, count = Tally(), sized(14, 630)
    for seed in range(count):
        made = case(seed)
        data = source(MAKES[seed % len(MAKES)], made.frame, tmp_path)
        tally.add(made, *released(made, data))
    assert not tally.wrong, f"{len(tally.wrong)} of {tally.compared}: " + "\n".join(tally.wrong[:5])
    says_something(tally)
    if NIGHTLY:
        assert tally.compared >= 5_000
        assert len(tally.statistics) == 16
    evidence(
        "plain pandas beside releases",
        f"{count} releases, {tally.compared:,} values, {len(tally.statistics)} statistics, {len(MAKES)} sources",
        f"0 disagreements; {tally.exact:,} equal to 9 digits, the others within their noise",
    )


def test_the_same_request_gives_the_same_answer_from_every_source(tmp_path: Path) -> None:
    tally = Tally()
    for seed in range(sized(1, 20)):
        made = case(f"same {seed}", unit="row")
        for make in MAKES:
            tally.add(made, *released(made, source(make, made.frame, tmp_path)))
    assert not tally.wrong, tally.wrong[:5]


@needs_spark
def test_spark_too(tmp_path: Path) -> None:
    tally = Tally()
    for seed in range(sized(2, 12)):
        made = case(f"spark {seed}")
        tally.add(made, *released(made, source("spark", made.frame, tmp_path)))
    assert not tally.wrong, tally.wrong[:5]


@pytest.mark.skipif(binaries() is None, reason="no PostgreSQL server is installed")
def test_postgres_too() -> None:
    tally = Tally()
    with server() as dsn:
        for seed in range(sized(2, 20)):
            made = case(f"postgres {seed}")
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute("DROP TABLE IF EXISTS survey")
                connection.execute(
                    "CREATE TABLE survey (who text, region text, smoker boolean, age double precision,"
                    " bmi double precision, day date, at timestamptz)"
                )
                with connection.cursor().copy("COPY survey FROM STDIN") as copy:
                    for row in made.frame.itertuples(index=False):
                        copy.write_row(row)
            tally.add(made, *released(made, postgres_table(lambda: dsn, "survey")))
    assert not tally.wrong, tally.wrong[:5]


def _project(
    folder: Path, made: Case, source: dict[str, Any], period: dict[str, Any] | None
) -> Path:
    """Write a pipeline of the case; JSON is YAML."""
    (folder / ".dprelease").mkdir(exist_ok=True)
    schema = {k: v for k, v in made.schema.items() if k != "release"}
    pipeline = {
        "dprelease": "pipeline/1",
        "name": "survey",
        "source": source,
        "schema": "schema.yaml",
        "release": made.schema["release"],
        "budget": {"ledger": ".dprelease/ledger.db", "dataset": "survey", "epsilon": 100_000},
        "publish": {"to": "public", "formats": ["parquet"]},
        **({"period": period} if period else {}),
    }
    (folder / "schema.yaml").write_text(json.dumps(schema))
    (folder / "survey.yaml").write_text(json.dumps(pipeline))
    return folder / "survey.yaml"


def _run(path: Path, period: str) -> tuple[pd.DataFrame, dict[str, float]]:
    config = load_pipeline(path)
    init_ledger(config)
    with rules_alone():
        dp.run(config, period=period)
    folder = path.parent / "public" / "survey" / period
    return pd.read_parquet(folder / "data.parquet"), _widths(plan_pipeline(config))


@pytest.mark.parametrize(
    ("column", "zone"),
    some(product(("day", "at"), ("UTC", "America/New_York", "Pacific/Auckland")), 2),
)
def test_periods_of_dates_and_of_instants(column: str, zone: str, tmp_path: Path) -> None:
    tally = Tally()
    for seed, (every, period, form) in enumerate(
        [
            ("month", "2024-02", "%Y-%m"),
            ("week", "2024-W06", "%G-W%V"),
            ("day", "2024-03-10", "%Y-%m-%d"),
        ][: sized(1, 3)]
    ):
        made = case(f"period {column} {zone} {seed}", unit="row")
        folder = tmp_path / every
        folder.mkdir()
        source("parquet", made.frame, folder)
        rule = {"column": column, "every": every, "timezone": zone}
        tidy, widths = _run(_project(folder, made, {"parquet": "rows.parquet"}, rule), period)

        def inside(cell: Any, form: str = form, period: str = period) -> bool:
            if cell is None:
                return False
            local = cell.astimezone(ZoneInfo(zone)) if isinstance(cell, datetime) else cell
            return bool(local.strftime(form) == period)

        kept = made.frame[made.frame[column].map(inside)]
        assert 0 < len(kept) < len(made.frame)
        tally.add(_with(made, frame=kept), tidy, widths)
    assert not tally.wrong, tally.wrong[:5]


def test_views_that_join_a_public_table(tmp_path: Path) -> None:
    tally = Tally()
    for seed in range(sized(2, 12)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        made = case(f"view {seed}", unit="row")
        rng = np.random.default_rng(seed)
        codes = rng.choice(["n1", "n2", "s1", "e1", "w1", "gone"], len(made.frame))
        places = {"n1": "north", "n2": "north", "s1": "south", "e1": "east", "w1": "West"}
        private = made.frame.drop(columns="region").assign(code=codes)
        pq.write_table(arrow(private), folder / "rows.parquet")
        pd.DataFrame({"code": list(places), "region": list(places.values())}).to_csv(
            folder / "places.csv", index=False
        )
        columns = ", ".join(f"v.{name}" for name in private.columns if name != "code")
        view = f"SELECT {columns}, p.region FROM visits v LEFT JOIN places p ON p.code = v.code"
        tables = {
            "tables": {"visits": {"parquet": "rows.parquet"}},
            "public_tables": {"places": {"csv": "places.csv"}},
        }
        tidy, widths = _run(_project(folder, made, {"view": view, **tables}, None), "once")
        joined = private.assign(region=[places.get(code) for code in codes])
        tally.add(_with(made, frame=joined), tidy, widths)
    assert not tally.wrong, tally.wrong[:5]


def _with(made: Case, *, frame: pd.DataFrame) -> Case:
    return Case(made.schema, frame, made.where, made.asked, made.columns, made.by, made.derived)


@cache
def of_controls() -> tuple[list[Case], list[tuple[pd.DataFrame, dict[str, float]]]]:
    """Return four requests by a category with an `other`, and what is released for each."""
    drawn = (case(f"control {seed}", unit="row") for seed in range(200))
    fit = (
        c for c in drawn if "region" in c.by and isinstance(c.columns["region"].get("other"), dict)
    )
    cases = list(islice(fit, 4))
    return cases, [released(made, made.frame) for made in cases]


@pytest.mark.parametrize("broken", ["raw conditions", "nulls ignored", "other dropped"])
def test_a_reference_that_reads_otherwise_disagrees(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: each rule of cleaning is seen in these requests."""
    whole = plain.clean

    def partly(cell: Any, declared: Any) -> Any:
        if broken == "raw conditions" and not plain.is_missing(cell) and "range" in declared:
            return float(cell)
        if broken == "nulls ignored" and plain.is_missing(cell):
            return None
        if (
            broken == "other dropped"
            and declared["kind"] == "category"
            and cell not in declared["values"]
        ):
            return None
        return whole(cell, declared)

    cases, tables = of_controls()
    monkeypatch.setattr(plain, "clean", partly)
    tally = Tally()
    for made, (tidy, widths) in zip(cases, tables, strict=True):
        tally.add(made, tidy, widths)
    assert tally.wrong


def test_the_reference_itself_on_a_table_that_one_can_count_by_hand() -> None:
    declared = {
        "x": {
            "kind": "number",
            "range": [0, 100],
            "step": 1,
            "forbidden": [[65, 70]],
            "nulls": {"default": 10},
        },
        "k": {
            "kind": "category",
            "values": ["a"],
            "other": {"as": "rest"},
            "nulls": {"as": "none"},
        },
    }
    frame = pd.DataFrame(
        {"x": [66.0, 68, 130, -1, None, 3.4], "k": ["a", "b", None, "a", "a", "z"]}
    ).astype(object)
    rows = plain.cleaned_rows(frame.where(frame.notna(), None), declared, {})
    assert [row["x"] for row in rows] == [65, 70, 100, 0, 10, 3]
    assert [row["k"] for row in rows] == ["a", "rest", "none", "a", "a", "rest"]
    groups = plain.grouped(rows, ["k"], declared)
    assert {key[0]: len(members) for key, members in groups.items()} == {
        "a": 3,
        "rest": 2,
        "none": 1,
    }
    assert plain.statistic("histogram", ["x", [0, 65, 100]], rows) == [3, 3]
    assert plain.statistic("median", ["x"], rows) == [10]
    assert plain.statistic("proportion", [lambda r: r["x"] >= 65], rows) == [0.5]
