"""A Spark cluster of several executors, each a JVM of its own, in a process of its own.

    python -m tests.engines.spark_cluster FOLDER [--kill]

FOLDER holds one Parquet table of units, as `test_spark_cluster` writes it. Printed is one line of JSON: the sums, which
executors took part, and with `--kill` whether one was killed while it worked.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

from dprelease.engines.source import as_source
from dprelease.engines.spark import SparkEngine
from dprelease.query.bounded import BoundedQuery, Fixed, GroupKeys, Primitive
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain

__all__ = ["SALT", "query"]

SALT = b"cluster"
EXECUTORS = 2
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.files.maxPartitionBytes": "1m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def query() -> BoundedQuery:
    """Return sums by region under every cap of a user unit."""
    region = Column("region", Kind.category, values=tuple(f"r{i}" for i in range(5)))
    columns = (region, Column("who", Kind.identifier), Column("x", Kind.integer))
    code = Fixed("x", Domain(0, 60).on_grid(Fraction(1)), Fraction(1))
    return BoundedQuery(
        columns, GroupKeys((region,), tuple((v,) for v in region.values)), (code,),
        (Primitive("rows"), Primitive("persons"), Primitive("power", 0, 1), Primitive("power", 0, 2)),
        user="who", max_groups=3, max_rows=40, max_rows_total=100,
    )  # fmt: skip


def executors() -> dict[int, str]:
    """Return the processes of executors below this one: id -> command line."""
    parents, commands = {}, {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(place.name)] = int(
                (place / "stat").read_text().rsplit(")", 1)[1].split()[1]
            )
            commands[int(place.name)] = (place / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
    below = {os.getpid()}
    while grown := {p for p, parent in parents.items() if parent in below} - below:
        below |= grown
    return {p: commands[p] for p in below if "CoarseGrainedExecutorBackend" in commands[p]}


def main(folder: str, *, kill: bool) -> None:
    """Compute, and print what came of it."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local-cluster[{EXECUTORS},1,512]").appName("cluster")
    builder = builder.config("spark.sql.warehouse.dir", f"{folder}/warehouse")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        session: Any = builder.getOrCreate()
    tracker = session.sparkContext.statusTracker()
    seen: set[int] = set()
    killed: list[int] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            now = executors()
            seen.update(now)
            stages = [tracker.getStageInfo(s) for s in tracker.getActiveStageIds()]
            busy = any(s is not None and s.numActiveTasks > 0 for s in stages)
            # a later stage: what the lost executor has shuffled is lost, too
            if kill and not killed and busy and len(now) == EXECUTORS and max_stage() >= 1:
                killed.append(min(now))
                os.kill(killed[0], signal.SIGKILL)

    def max_stage() -> int:
        return max(tracker.getActiveStageIds(), default=-1)

    watcher = threading.Thread(target=watch)
    watcher.start()
    begun = time.monotonic()
    try:
        frame = session.read.parquet(f"{folder}/rows")
        found = SparkEngine().compute(as_source(frame), query(), SALT).reveal_to_mechanism()
    finally:
        over.set()
        watcher.join()
    took = time.monotonic() - begun
    said = {
        "sums": found.sums.tolist(),
        "executors": len(seen),
        "killed": len(killed),
        "seconds": took,
    }
    print(json.dumps(said), flush=True)
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1], kill="--kill" in sys.argv[2:])
