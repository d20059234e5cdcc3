"""Spark Connect: the same statement from a client in a process of its own, through a server on the loopback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.spark_session import connect_port, needs_spark

ROOT = Path(__file__).parents[2]
CLIENT = """
import random, sys, tempfile
from dataclasses import replace
from pathlib import Path
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.source import as_source
from dprelease.engines.spark import SparkEngine
from dprelease.testing.engines import answer
from tests.contracts import test_engines_spark as contract
from tests.sizes import FULL

address = f"sc://127.0.0.1:{sys.argv[1]}"
rng = random.Random("connect parquet 0")
rows, query = contract.stacked(rng), contract.stacked_query(rng)
if not FULL:  # Spark plans a sum at a time
    query = replace(query, primitives=query.primitives[:2])
with tempfile.TemporaryDirectory() as folder:
    plain, source = contract.both_of("parquet", rows, Path(folder))
    engine = SparkEngine(remote=lambda: address)
    engine.preflight(source, query)
    found = answer(engine, source, query)
    assert found == answer(DuckDBEngine(threads=1), plain, query)
    assert any(map(any, found))
from pyspark import SparkContext
from pyspark.sql import SparkSession
frame = SparkSession.builder.remote(address).getOrCreate().createDataFrame([("a", 1)], "site STRING, x INT")
assert as_source(frame).kind == "spark_frame"
assert "_sc" not in dir(frame.sparkSession)
assert not frame.sparkSession.catalog.listTables()
assert SparkContext._gateway is None  # no Java of its own
print("same")
"""


@needs_spark
def test_the_integers_are_those_of_duckdb() -> None:
    """The server is the Java of the other tests; the client is a process of its own, without any Java."""
    pytest.importorskip(
        "grpc", reason="Spark Connect needs grpcio (pip install 'dprelease[spark]')"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CLIENT, str(connect_port())],
        capture_output=True, text=True, cwd=ROOT, timeout=240, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "same", done.stderr[-2000:]
