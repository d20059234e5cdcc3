"""Spark Connect: the same statement through a server on the loopback, in processes of their own."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.spark_session import needs_spark

ROOT = Path(__file__).parents[2]
STARTS_WITHIN = 90.0

SERVER = """
import sys
from pyspark import SparkConf, SparkContext
conf = SparkConf().setMaster("local[1]").setAppName("dprelease connect test")
settings = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": sys.argv[1],
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
for name, value in settings.items():
    conf.set(name, value)
context = SparkContext(conf=conf)
print("ready", flush=True)
sys.stdin.read()
context.stop()
"""

CLIENT = """
import random, sys, tempfile
from pathlib import Path
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.source import as_source
from dprelease.engines.spark import SparkEngine
from dprelease.testing.engines import answer
from tests.contracts import test_engines_spark as contract

address = f"sc://127.0.0.1:{sys.argv[1]}"
rng = random.Random("connect parquet 0")
rows, query = contract.stacked(rng), contract.stacked_query(rng)
with tempfile.TemporaryDirectory() as folder:
    plain, source = contract.both_of("parquet", rows, Path(folder))
    engine = SparkEngine(remote=lambda: address)
    engine.preflight(source, query)
    found = answer(engine, source, query)
    assert found == answer(DuckDBEngine(threads=1), plain, query)
    assert any(map(any, found))
from pyspark.sql import SparkSession
frame = SparkSession.builder.remote(address).getOrCreate().createDataFrame([("a", 1)], "site STRING, x INT")
assert as_source(frame).kind == "spark_frame"
assert "_sc" not in dir(frame.sparkSession)
assert not frame.sparkSession.catalog.listTables()
print("same")
"""


@pytest.fixture
def port() -> Iterator[str]:
    if importlib.util.find_spec("grpc") is None:
        pytest.skip("Spark Connect needs grpcio (pip install 'dprelease[spark]')")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = str(free.getsockname()[1])
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, number],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT,
    )  # fmt: skip
    ready: list[str] = []
    assert server.stdout is not None
    waiting = threading.Thread(target=lambda: ready.append(server.stdout.readline()), daemon=True)
    waiting.start()
    waiting.join(STARTS_WITHIN)
    try:
        if ready != ["ready\n"]:
            pytest.skip(f"no Spark Connect server within {STARTS_WITHIN:.0f} s")
        yield number
    finally:
        server.kill()
        server.communicate()


@needs_spark
def test_the_integers_are_those_of_duckdb(port: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CLIENT, port],
        capture_output=True, text=True, cwd=ROOT, timeout=240, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == "same", done.stderr[-2000:]
