"""Views on Spark: DuckDB's integers, a repeated public key refused, and what has no one spelling."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.core.errors import InternalError, SourceError
from dprelease.engines import spark_view
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.source import as_source, tables_source
from dprelease.engines.spark import SparkEngine
from dprelease.query.view import UNPROVEN
from tests.engines.spark_session import needs_spark, session
from tests.engines.test_duckdb_view import PUBLIC, VIEWS, query, sources, sums, view, visits
from tests.engines.test_grouped_view import agree
from tests.sizes import some

pytestmark = needs_spark

BY_POSTCODE = "SELECT v.pid, p.region, v.age, p.weight AS score FROM visits v JOIN postcodes p ON p.code = v.postcode"


@pytest.fixture(autouse=True)
def _session() -> None:
    session()


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_the_integers_are_those_of_duckdb(kind: str, tmp_path: Path) -> None:
    nonzero = 0
    views = some(VIEWS if kind != "csv" else [VIEWS[4], VIEWS[2]], 3)
    for seed, sql in enumerate(views):
        rng = random.Random(f"spark view {seed}")
        source = sources(visits(rng, 40), tmp_path, kind)
        task = query(
            view(sql), user=rng.choice([None, "pid"]), max_rows=2, max_groups=rng.choice([1, 3])
        )
        SparkEngine().preflight(source, task)
        found = sums(SparkEngine(), source, task)
        assert (found == sums(DuckDBEngine(), source, task)).all(), (kind, seed)
        nonzero += bool(found.any())
    assert nonzero >= len(views) / 2


def test_views_that_group_have_the_references_integers(tmp_path: Path) -> None:
    agree(SparkEngine(), lambda source, _: source, tmp_path, "parquet")


def tables(codes: pa.Array, **public: Any) -> Any:
    """Return the tables of a view as Spark DataFrames."""
    made = {"visits": [(str(i), code, 10 + i) for i, code in enumerate(codes)]}
    frames = {
        "visits": session().createDataFrame(
            made["visits"], public.pop("visits", "pid STRING, postcode STRING, age INT")
        )
    }
    for name, (rows, schema) in public.items():
        frames[name] = session().createDataFrame(rows, schema)
    return tables_source({name: as_source(frame) for name, frame in frames.items()})


POSTCODES = "code STRING, region STRING, weight DOUBLE"


def test_frames_bring_their_session() -> None:
    source = tables(["1", "2", "x"], postcodes=([("1", "n", 2.0), ("2", "s", 5.0)], POSTCODES))
    assert spark_view.session_frame(source).sparkSession is session()
    before = {t.name for t in session().catalog.listTables()}
    assert sums(SparkEngine(), source, query(view(BY_POSTCODE)))[:2, 0].tolist() == [1, 1]
    assert {t.name for t in session().catalog.listTables()} == before


def test_a_public_key_that_occurs_twice_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = [("1", "n", 2.0), ("1", "s", 5.0), (None, "n", 1.0), (None, "n", 1.0)]
    source, task = tables(["1"], postcodes=(twice, POSTCODES)), query(view(BY_POSTCODE))
    with pytest.raises(SourceError) as refused:
        SparkEngine().preflight(source, task)
    assert refused.value.code == "DPR510"
    with pytest.raises(InternalError):  # a table that changed after the charge
        SparkEngine().compute(source, task, b"salt")
    # the guard's broken twin counts the row twice
    monkeypatch.setattr(spark_view.SparkRows, "check_keys", lambda *_: None)
    assert sums(SparkEngine(), source, task)[:, 0].sum() == 2


def test_a_key_is_compared_by_the_text_that_duckdb_would_write(tmp_path: Path) -> None:
    public = ([("0.0000001", "n", 2.0), ("1.5000000", "s", 5.0)], POSTCODES)
    made = {"visits": "pid STRING, postcode DECIMAL(12, 7), age INT", "postcodes": public}
    codes = [Decimal("0.0000001"), Decimal("1.5")]
    found = sums(SparkEngine(), tables(codes, **made), query(view(BY_POSTCODE)))
    rows = pa.table(
        {"pid": ["0", "1"], "postcode": pa.array(codes, pa.decimal128(12, 7)), "age": [10, 11]}
    )
    pq.write_table(rows, tmp_path / "v.parquet")
    places = pa.table(
        {"code": ["0.0000001", "1.5000000"], "region": ["n", "s"], "weight": [2.0, 5.0]}
    )
    same = tables_source(
        {"visits": as_source(tmp_path / "v.parquet"), "postcodes": as_source(places)}
    )
    assert found.tolist() == sums(DuckDBEngine(), same, query(view(BY_POSTCODE))).tolist()
    assert found[:2, 0].tolist() == [1, 1]
    # calculated with as well, it has no one form
    both = BY_POSTCODE + " WHERE v.postcode > 1"
    with pytest.raises(SourceError) as refused:
        SparkEngine().preflight(tables(codes, **made), query(view(both)))
    assert refused.value.code == "DPR516"
    assert "v.postcode" in str(refused.value)


def test_an_unproven_view_is_left_to_duckdb() -> None:
    wide = "SELECT pid, min(region) AS region, max(age) AS age, max(age) AS score FROM visits GROUP BY pid"
    found = view(wide, UNPROVEN)
    source = tables_source({"visits": as_source(session().range(1))})
    with pytest.raises(SourceError) as refused:
        SparkEngine().preflight(source, query(found))
    assert refused.value.code == "DPR516"
    assert "proven" in refused.value.what


def test_missing_and_repeated_columns_are_named() -> None:
    assert set(PUBLIC) == {"postcodes", "areas"}
    source = tables(["1"], postcodes=([("1", "n")], "code STRING, region STRING"))
    with pytest.raises(SourceError) as refused:
        SparkEngine().preflight(source, query(view(BY_POSTCODE)))
    assert refused.value.code == "DPR503"
    twice = session().createDataFrame([("1", "n", 2.0)], POSTCODES).toDF("code", "region", "region")
    named: Any = source.payload
    repeated = tables_source({**named, "postcodes": as_source(twice)})
    with pytest.raises(SourceError) as refused:
        SparkEngine().preflight(repeated, query(view(BY_POSTCODE.replace("p.weight", "v.age"))))
    assert refused.value.code == "DPR505"
