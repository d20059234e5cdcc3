"""One Java of its own for what is seen only as it starts: its limits, and the stream its log goes to."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path

from tests.engines.spark_session import JAVA_OPTIONS

ROOT = Path(__file__).parents[2]
CANARY = "canary-4711"

_SCRIPT = f"""
import sys, tempfile
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
from dprelease.engines.limits import Limits
from dprelease.engines.source import as_source
from dprelease.engines.spark import SparkEngine
from dprelease.core.errors import InternalError
from dprelease.pipeline import preflight
from tests.engines.spark_session import session
from tests.engines.test_spark import SUMS
folder = Path(tempfile.mkdtemp())
pq.write_table(pa.table({{"site": ["a"], "x": [7]}}), folder / "t.parquet")
limits = Limits(memory_limit=600 << 20, threads=1, temp_directory=folder)
engine = preflight.engine_named("spark", limits, {{"master": "local[4]"}})
rows = as_source(folder / "t.parquet")
engine.preflight(rows, SUMS)
from pyspark.sql import SparkSession
context = SparkSession.getActiveSession().sparkContext
heap = context._jvm.java.lang.Runtime.getRuntime().maxMemory() >> 20
print(context.master, context.defaultParallelism, heap <= 600, any(folder.glob("blockmgr-*")))
preflight.engine_named("spark", limits).preflight(rows, SUMS)
rows = session().createDataFrame([("a", "{CANARY}")], "site STRING, t STRING")
frame = rows.selectExpr("site", "CAST(t AS DOUBLE) AS x")
try:
    SparkEngine().compute(as_source(frame), SUMS, b"salt")
except InternalError:
    print("refused", file=sys.stderr, flush=True)
try:
    frame.collect()
except Exception:
    print("end", file=sys.stderr, flush=True)
"""


@functools.cache
def ended() -> subprocess.CompletedProcess[str]:
    """Start Java under limits, then let a cell fail with the engine's guard, and without it.

    On standard output is what the session runs with; on standard error the log, with "refused"
    after the guarded part.
    """
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _SCRIPT],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        env={**os.environ, "JDK_JAVA_OPTIONS": JAVA_OPTIONS},
    )
