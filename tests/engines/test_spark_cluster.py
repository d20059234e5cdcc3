"""Spark with executors in JVMs of their own: skew, and an executor that is killed in the middle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.source import as_source
from tests.engines.spark_cluster import EXECUTORS, SALT, query
from tests.engines.spark_session import needs_spark
from tests.sizes import FULL

ROOT = Path(__file__).resolve().parents[2]
HEAVY = int(os.environ.get("DPRELEASE_HEAVY", "10_000_000"))
"""Rows of one unit, beside which 100,000 others have a few each."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cluster")
    (place / "rows").mkdir()
    for part in range(4):
        duckdb.execute(
            f"""COPY (SELECT CASE WHEN i % 7 < 5 THEN 'heavy' ELSE 'u' || (i * 7919 % 100000) END AS who,
                'r' || (i * 40503 % 6) AS region, (i * 7919 % 140 - 10)::INT AS x
              FROM range({part}, {HEAVY} * 7 // 5, 4) AS t(i))
            TO '{place}/rows/{part}.parquet' (ROW_GROUP_SIZE 20000)"""
        )
    return place


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
