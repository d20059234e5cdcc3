"""The Spark engine's own business: sources, errors without data, the session left as found."""

from __future__ import annotations

import csv
import logging
import warnings
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dprelease as dp
from dprelease.core.errors import InternalError, SourceError
from dprelease.engines import source as sources
from dprelease.engines import spark_session, spark_tables
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.physical import Physical
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import Source, as_source
from dprelease.engines.spark import SparkEngine
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.planned import plan_pipeline
from dprelease.pipeline.run import open_source
from dprelease.query.bounded import BoundedQuery, Fixed, GroupKeys, Primitive
from dprelease.query.read_view import parse_view
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain
from tests.contracts.cells import answer_of
from tests.engines import own_java
from tests.engines import test_digits as digits
from tests.engines.spark_session import needs_spark, session
from tests.sizes import FULL

ROOT = Path(__file__).parents[2]
SITE = Column("site", Kind.category, values=("a", "b", "1.20", "0.0000001"))
X = Column("x", Kind.number)
SUMS = BoundedQuery(
    (SITE, X),
    GroupKeys((SITE,), tuple((v,) for v in SITE.keys)),
    (Fixed("x", Domain(0, 100).on_grid(Fraction(1)), Fraction(1)),),
    (Primitive("rows"), Primitive("power", 0, 1)),
)
CANARY = own_java.CANARY


def sums(source: object, query: BoundedQuery = SUMS, engine: Any = None) -> list[list[int]]:
    data = source if isinstance(source, Source) else as_source(source)
    engine = engine or SparkEngine()
    engine.preflight(data, query)
    found: list[list[int]] = (
        engine.compute(data, query, b"salt").reveal_to_mechanism().sums.tolist()
    )
    return found


@needs_spark
def test_a_table_of_the_catalogue_and_a_frame() -> None:
    frame = session().createDataFrame(
        [("a", 1.0), ("a", 2.0), ("b", 500.0), (None, 1.0)], "site STRING, x DOUBLE"
    )
    frame.createOrReplaceTempView("visits")
    try:
        want = [[2, 3], [1, 100], [0, 0], [0, 0]]
        assert sums(frame) == sums(sources.spark_table("visits")) == want
    finally:
        session().catalog.dropTempView("visits")


@needs_spark
def test_names_that_differ_in_case_only_and_names_with_signs() -> None:
    frame = session().createDataFrame([("a", 1, 7), ("b", 2, 8)], ["site", "X`y", "x"])
    frame = frame.toDF("site", "X`y. z", "x").select("site", "`X``y. z`", "x")
    both = (
        session().createDataFrame([("a", 1, 7)], "site STRING, X INT, y INT").toDF("site", "X", "x")
    )
    assert sums(frame)[:2] == [[1, 7], [1, 8]]
    assert sums(both)[0] == [1, 7]


@needs_spark
def test_decimals_collations_and_bytes_are_the_texts_they_show() -> None:
    for value, scale, expected in (
        ("1.20", 2, [[1, 1], [0, 0]]),
        ("0.0000001", 7, [[0, 0], [1, 1]]),
    ):
        frame = session().createDataFrame(
            [(Decimal(value), 1)], f"site DECIMAL(12, {scale}), x INT"
        )
        assert sums(frame)[2:] == expected
    pairs = session().createDataFrame([("A", 1), ("a", 2)], "site STRING, x INT")
    collated = pairs.selectExpr("site COLLATE UNICODE_CI AS site", "x")
    assert sums(collated)[0] == [1, 2]
    assert sums(session().sql("SELECT CAST('a' AS BINARY) AS site, 3 AS x"))[0] == [1, 3]


@needs_spark
def test_an_instant_as_a_key_is_spelt_with_its_zone() -> None:
    at = Column("site", Kind.category, values=("2020-01-01 00:00:00+00",))
    query = BoundedQuery(
        (at, X), GroupKeys((at,), (at.keys[0:1] and (at.keys[0],),)), SUMS.codes, SUMS.primitives
    )
    frame = session().sql("SELECT TIMESTAMP '2020-01-01 01:00:00+01:00' AS site, 4 AS x")
    table = pa.table({"site": [datetime(2020, 1, 1, tzinfo=UTC)], "x": [4]})
    assert sums(frame, query) == sums(table, query, DuckDBEngine()) == [[1, 4]]


@needs_spark
@pytest.mark.parametrize(
    "line",
    [
        b"",
        b'a,"open',
        b'"a,1',
        b"a,\xff\xfe",
        b"," * 30_000,
        b'a,"' + b"x" * (1 << 21) + b'"',
        b"a,\x00",
    ],
    ids=["empty", "open quote", "open key", "not UTF-8", "30,000 cells", "2 MiB", "NUL"],
)
def test_no_line_of_a_csv_file_decides_about_others(tmp_path: Path, line: bytes) -> None:
    """Spark's own reader drops the empty line, lets the quote run on, and stops at 30,000 cells."""
    place = tmp_path / "t.csv"
    place.write_bytes(b"site,x\na,1\n" + line + b"\na,2\nb,3\n")
    found = sums(place)
    assert found == sums(place, engine=DuckDBEngine())
    assert found[1] == [1, 3]


@needs_spark
def test_files_with_quoted_line_ends_and_partitions(tmp_path: Path) -> None:
    lines = [
        ["note", "site", "x"],
        ["two\nlines, a", "a", "5"],
        ['say "hi"', "b", " 7 "],
        ["", "", "1"],
        ["short"],
    ]
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file, delimiter=";").writerows(lines)
    cells = as_source({"csv": {"path": str(tmp_path / "t.csv"), "decimal": ","}})
    assert sums(cells) == sums(cells, engine=DuckDBEngine())
    assert sums(cells)[:2] == [[1, 5], [1, 7]]
    for site in ("a", "b", "__HIVE_DEFAULT_PARTITION__"):
        folder = tmp_path / "data" / f"site={site}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"x": [1.0, 2.0]}), folder / "part.parquet")
    pattern = str(tmp_path / "data/*/*.parquet")
    assert sums(pattern) == sums(pattern, engine=DuckDBEngine()) == [[2, 3], [2, 3], [0, 0], [0, 0]]


@needs_spark
def test_signs_of_numbers_folders_and_missing_columns_are_those_of_duckdb(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("site;x\na;12,5\nb;1.034\na;7,25e0\n1.20;2.5\n")
    with pytest.raises(SourceError) as refused:
        SparkEngine().preflight(as_source(tmp_path / "t.csv"), SUMS)
    assert refused.value.code == "DPR526"
    signs = as_source({"csv": {"path": str(tmp_path / "t.csv"), "decimal": ","}})
    assert sums(signs) == sums(signs, engine=DuckDBEngine()) == [[2, 20], [1, 100], [1, 0], [0, 0]]
    (tmp_path / "k.csv").write_text("k;x\na;12,5\nb;7,0\na;x\n")
    labels = as_source({"csv": {"path": str(tmp_path / "k.csv"), "decimal": ","}})
    found = [
        answer_of(e, labels, Kind.category, ("12.5", "7")) for e in (SparkEngine(), DuckDBEngine())
    ]
    assert found == [(1, 1, 1)] * 2
    (tmp_path / "v.csv").write_text("code;site\n1;a\n2;b\n")
    (tmp_path / "p.csv").write_text("code;x\n1;12,5\n2;7,25\n")
    named = {
        n: as_source({"csv": {"path": str(tmp_path / f"{n}.csv"), "decimal": ","}}) for n in "vp"
    }
    view = parse_view("SELECT v.site AS site, p.x AS x FROM v v LEFT JOIN p p ON p.code = v.code",
                      private=("v",), public=("p",), allow=())  # fmt: skip
    joined = sources.tables_source(named)
    asked = replace(SUMS, view=view)
    assert (
        sums(joined, asked)
        == sums(joined, asked, engine=DuckDBEngine())
        == [[1, 13], [1, 7], [0, 0], [0, 0]]
    )

    above = tmp_path / "x=50" / "data"
    for site in "ab":
        (above / f"site={site}").mkdir(parents=True)
        pq.write_table(pa.table({"x": [1.0, 2.0]}), above / f"site={site}" / "0.parquet")
    parts = f"{above}/*/*.parquet"
    assert sums(parts) == sums(parts, engine=DuckDBEngine()) == [[2, 3], [2, 3], [0, 0], [0, 0]]
    pq.write_table(pa.table({"y": [1.0]}), above / "site=a" / "1.parquet")
    with pytest.raises(SourceError, match="1 of 3 files have no column 'x'") as refused:
        SparkEngine().preflight(as_source(parts), SUMS)
    assert refused.value.code == "DPR503"
    allowed = replace(SUMS, missing=True)
    assert (
        sums(parts, allowed)
        == sums(parts, allowed, engine=DuckDBEngine())
        == [[3, 3], [2, 3], [0, 0], [0, 0]]
    )
    pq.write_table(pa.table({"x": [1.0], "site": ["b"]}), above / "site=a" / "1.parquet")
    with pytest.raises(SourceError, match="as the name of a folder too"):
        SparkEngine().preflight(as_source(parts), SUMS)


@needs_spark
def test_what_does_not_fit_is_refused_by_names_and_types(tmp_path: Path) -> None:
    make = session().createDataFrame
    faults = [
        (sources.spark_table("no_such_table"), "DPR502"),
        (as_source(make([(1.0,)], "x DOUBLE")), "DPR503"),
        (as_source(make([("a", [1])], "site STRING, x ARRAY<INT>")), "DPR504"),
        (
            as_source(make([("a", 1, 2)], "site STRING, x INT, y INT").toDF("site", "x", "x")),
            "DPR505",
        ),
        (as_source(pa.table({"site": ["a"], "x": [1]})), "DPR516"),
    ]
    pq.write_table(pa.table({"site": ["a"], "x": [1]}), tmp_path / "_hidden.parquet")
    faults.append((as_source(tmp_path / "_hidden.parquet"), "DPR517"))
    for source, code in faults:
        with pytest.raises(SourceError) as refused:
            SparkEngine().preflight(source, SUMS)
        assert refused.value.code == code
    with pytest.raises(SourceError) as refused:
        DuckDBEngine().preflight(sources.spark_table("t"), SUMS)
    assert refused.value.code == "DPR516"


@needs_spark
def test_a_failure_while_rows_are_read_says_nothing_of_them(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    session()
    conf = session().conf
    before = conf.get("spark.sql.ansi.enabled")
    conf.set("spark.sql.ansi.enabled", "true")
    try:  # the frame's own cast raises, and quotes the cell
        rows = session().createDataFrame([("a", CANARY)], "site STRING, t STRING")
        frame = rows.selectExpr("site", "CAST(t AS DOUBLE) AS x")
    finally:
        conf.set("spark.sql.ansi.enabled", before)
    SparkEngine().preflight(as_source(frame), SUMS)  # reads no row
    capfd.readouterr()
    with caplog.at_level(logging.DEBUG), pytest.raises(InternalError) as failed:
        SparkEngine().compute(as_source(frame), SUMS, b"salt")
    said = capfd.readouterr()
    assert CANARY not in said.out + said.err + caplog.text + str(failed.value)
    assert failed.value.__cause__ is None
    assert failed.value.__context__ is None
    # the control: without the guard the cell is quoted
    with spark_session.quiet(), pytest.raises(Exception, match=CANARY):
        frame.collect()


@needs_spark
def test_the_log_of_the_java_process_holds_no_value_of_a_row() -> None:
    # a process of its own: the log goes to the stream that was open when Java started
    done = own_java.ended()
    assert done.returncode == 0, done.stderr[-2000:]
    guarded, mark, control = done.stderr.partition("refused")
    assert mark
    assert CANARY not in guarded + done.stdout
    assert CANARY in control  # without the guard, a failed task is logged with its cell


@needs_spark
def test_the_session_is_left_as_it_was_found() -> None:
    conf = session().conf
    names = ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")
    conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        root = session()._jvm.org.apache.logging.log4j.LogManager.getRootLogger()
        before, level = {n: conf.get(n) for n in names}, root.getLevel().toString()
        views = {t.name for t in session().catalog.listTables()}
        frame = session().createDataFrame([("a", 1.0)], "site STRING, x DOUBLE")
        sums(frame)
        assert {n: conf.get(n) for n in names} == before
        assert {t.name for t in session().catalog.listTables()} == views
        assert root.getLevel().toString() == level
    finally:
        conf.set("spark.sql.session.timeZone", "UTC")


@needs_spark
def test_a_spark_frame_is_released_by_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    compute = SparkEngine.compute
    monkeypatch.setattr(SparkEngine, "compute", lambda *a: used.append(1) or compute(*a))
    schema = dp.Schema.from_dict(
        {
            "dprelease": "schema/1",
            "name": "t",
            "unit": "row",
            "adjacency": "add_remove",
            "rows": {"max": 10000},
            "columns": {"x": {"kind": "integer", "range": [0, 10]}},
            "release": {"epsilon": 1, "statistics": ["count", "mean(x)"]},
        }
    )
    frame = session().createDataFrame([(i % 11,) for i in range(2000)], "x INT")
    released = dp.release(frame, schema).to_pandas()
    assert used
    assert 1900 < released["count"].iloc[0] < 2100
    dp.release(pd.DataFrame({"x": [1]}), schema)
    assert len(used) == 1


@needs_spark
def test_a_pipeline_on_spark_has_the_integers_of_duckdb(tmp_path: Path) -> None:
    text = (ROOT / "pipelines/flights_weekly.yaml").read_text()
    text = text.replace("engine: duckdb", "engine: {kind: spark, master: 'local[1]'}")
    for folder in ("schemas", "examples/data", "pipelines", ".dprelease"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    for file in ("schemas/flights.yaml", "examples/data/flights_nyc_2013.parquet"):
        (tmp_path / file).write_bytes((ROOT / file).read_bytes())
    for extra in (ROOT / "schemas").glob("*"):
        if extra.is_file():
            (tmp_path / "schemas" / extra.name).write_bytes(extra.read_bytes())
    (tmp_path / "pipelines/p.yaml").write_text(text)
    config = load_pipeline(tmp_path / "pipelines/p.yaml")
    assert config.engine == "spark"
    plan, data = plan_pipeline(config, "2013-W05"), open_source(config.source)
    session()
    engine = SparkEngine(**config.engine_options())
    engine.preflight(data, plan.query)
    found, want = (
        e.compute(data, plan.query, bytes(32)).reveal_to_mechanism()
        for e in (engine, DuckDBEngine())
    )
    assert found.sums.tolist() == want.sums.tolist()
    assert found.sums.sum() > 5000
    assert {k: t.tolist() for k, t in found.tallies.items()} == {
        k: t.tolist() for k, t in want.tallies.items()
    }
    if plan.query.user is None:
        return
    assert plan.query.max_rows >= 1


def test_types_of_spark() -> None:
    assert spark_tables.of_spark("decimal(18,3)") is Physical.exact
    assert spark_tables.of_spark("string collate UNICODE_CI") is Physical.text
    assert spark_tables.of_spark("timestamp") is Physical.instant
    assert spark_tables.of_spark("timestamp_ntz") is Physical.timestamp
    assert spark_tables.of_spark("array<int>") is Physical.other


def test_without_pyspark_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(SourceError) as refused:
        SparkEngine().preflight(sources.spark_table("t"), SUMS)
    assert refused.value.code == "DPR507"
    assert "dprelease[spark]" in str(refused.value.fix)


@needs_spark
def test_a_session_that_does_not_start_shows_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import SparkSession

    def fail(*_: object) -> None:
        raise RuntimeError("sc://host/;token=" + CANARY)

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", fail)
    with pytest.raises(SourceError) as refused:
        SparkEngine(master="local[1]").preflight(sources.spark_table("t"), SUMS)
    assert refused.value.code == "DPR515"
    assert CANARY not in str(refused.value)
    assert refused.value.__context__ is None


def test_importing_the_engine_imports_no_spark() -> None:
    import subprocess
    import sys

    code = "import sys, dprelease.engines.spark; print('pyspark' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "False"
    assert not [w for w in warnings.filters if w[1] is not None and "pandas" in str(w[1])]


@needs_spark
@pytest.mark.parametrize(
    ("top", "more"),
    [
        (top, {"user": "u", "max_rows": 3, "max_groups": 2} if by_user else {})
        for top in (5 * 10**7, 2**53)
        for by_user in (False, True)
        if FULL or by_user == (top == 2**53)
    ],
)
def test_sums_wider_than_a_decimal_are_those_of_the_reference(
    top: int, more: dict[str, Any]
) -> None:
    asked = digits.query(top, **more)
    wanted = digits.summed(ReferenceEngine(), top, asked)
    frame = session().createDataFrame(
        digits.rows(top).to_pylist(), "x BIGINT, z BIGINT, k STRING, u STRING"
    )
    found = SparkEngine().compute(as_source(frame), asked, b"salt").reveal_to_mechanism().sums
    assert np.array_equal(found, wanted)
