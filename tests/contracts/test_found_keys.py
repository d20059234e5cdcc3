"""Spark and PostgreSQL find the keys that DuckDB finds, of the same persons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.postgres_engine import PostgresEngine
from dprelease.engines.source import as_source
from dprelease.engines.spark import SparkEngine
from tests.end_to_end.test_keys import HOSTILE, PERSON, plan_of, schema_of
from tests.engines.postgres_server import binaries, server
from tests.engines.postgres_tables import load
from tests.engines.postgres_tables import table as postgres
from tests.engines.spark_session import needs_spark, session


def table() -> pa.Table:
    rng = np.random.default_rng(7)
    texts = [None, *(t for t in HOSTILE if "\x00" not in t), *(f" /p{i} " for i in range(20))]
    page = [texts[i] for i in rng.integers(0, len(texts), 600)]
    return pa.table({"who": rng.integers(0, 40, 600), "page": pa.array(page, pa.string())})


def found(engine: Any, source: Any, unit: object) -> dict[str, int]:
    plan = plan_of(schema_of(unit, other={"as": "rest"}, nulls={"as": "none"}), 2)
    answer = engine.compute(source, plan.query, b"salt").reveal_to_mechanism()
    return dict(zip(answer.keys.to_pylist(), answer.sums[:, 0].tolist(), strict=True))


@needs_spark
@pytest.mark.parametrize("unit", ["row", PERSON])
def test_spark(unit: object, tmp_path: Any) -> None:
    session()
    pq.write_table(table(), tmp_path / "t.parquet")
    source = as_source(tmp_path / "t.parquet")
    assert found(SparkEngine(), source, unit) == found(DuckDBEngine(), source, unit)


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    with server() as address:
        yield address


@pytest.mark.skipif(binaries() is None, reason="no PostgreSQL server is installed")
@pytest.mark.parametrize("unit", ["row", PERSON])
def test_postgres(unit: object, dsn: str) -> None:
    psycopg = pytest.importorskip("psycopg")
    rows = table()
    with psycopg.connect(dsn) as connection:
        load(connection, rows.to_pydict())
    assert found(PostgresEngine(), postgres(dsn), unit) == found(
        DuckDBEngine(), as_source(rows), unit
    )
