"""Spark where one unit has nearly all rows, and with executors in JVMs of their own, one of them killed in the middle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.source import as_source
from dprelease.engines.spark import SparkEngine
from dprelease.query.expression import parse_condition
from tests.engines.spark_cluster import EXECUTORS, SALT, query
from tests.engines.spark_session import needs_spark, session
from tests.sizes import FULL, whole

ROOT = Path(__file__).resolve().parents[2]
HEAVY = int(os.environ.get("DPRELEASE_HEAVY", "10_000_000"))
"""Rows of one unit, beside which 100,000 others have a few each."""


def written(place: Path, heavy: int) -> Path:
    """Write four files of `heavy` rows of one unit, and two fifths as many of the others."""
    (place / "rows").mkdir()
    for part in range(4):
        duckdb.execute(
            f"""COPY (SELECT CASE WHEN i % 7 < 5 THEN 'heavy' ELSE 'u' || (i * 7919 % 100000) END AS who,
                'r' || (i * 5 % 6) AS region, (i * 7919 % 140 - 10)::INT AS x
              FROM range({part}, {heavy} * 7 // 5, 4) AS t(i))
            TO '{place}/rows/{part}.parquet' (ROW_GROUP_SIZE 20000)"""
        )
    return place


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("cluster"), HEAVY)


@needs_spark
@pytest.mark.parametrize(
    "caps",
    [{}, {"max_rows": 1500, "max_rows_total": None}],
    ids=["cut before the shuffle", "cut after it"],
)
def test_one_unit_of_many_rows_is_bounded(caps: dict[str, Any], tmp_path: Path) -> None:
    source = as_source(written(tmp_path, whole(60_000, 200_000)) / "rows" / "*.parquet")
    session()
    asked = replace(query(), **caps)
    spark, plain = (
        engine.compute(source, asked, SALT).reveal_to_mechanism().sums
        for engine in (SparkEngine(), DuckDBEngine())
    )
    assert spark.tolist() == plain.tolist()
    # every bound cuts it
    heavy = replace(
        asked,
        where=parse_condition("who = 'heavy'", {c.name: c for c in asked.columns}, origin="test"),
    )
    only = DuckDBEngine().compute(source, heavy, SALT).reveal_to_mechanism().sums
    assert sum(only[:, 0]) == (asked.max_rows_total or asked.max_rows * asked.max_groups)


def computed(folder: Path, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.engines.spark_cluster", str(folder), *words],
        cwd=ROOT, capture_output=True, text=True, timeout=3600, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@needs_spark
@pytest.mark.skipif(not FULL, reason="three JVMs for minutes: in `make evidence`")
@pytest.mark.parametrize("words", [(), ("--kill",)], ids=["skew", "killed"])
def test_a_cluster_answers_as_duckdb_does(
    folder: Path, words: tuple[str, ...], evidence: Callable[..., None]
) -> None:
    expected = (
        DuckDBEngine()
        .compute(as_source(folder / "rows" / "*.parquet"), query(), SALT)
        .reveal_to_mechanism()
        .sums.tolist()
    )
    found = computed(folder, *words)
    assert found["sums"] == expected
    assert found["killed"] == len(words)
    assert found["executors"] >= EXECUTORS + len(words)  # a killed one is replaced
    evidence(
        f"Spark, {EXECUTORS} executors{', one killed' if words else ''}",
        f"one unit of {HEAVY:,} rows among 100,000",
        f"DuckDB's integers, {found['seconds']:.0f} s",
    )
