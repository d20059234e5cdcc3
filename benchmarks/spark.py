"""The Spark engine beside DuckDB's and beside Spark SQL by hand: the same integers, seconds and memory.

    python benchmarks/spark.py                 # 10^8 rows and less; writes results/spark.md
    python benchmarks/spark.py --part 0.001 --to -

Three tasks, each a count and two sums by region over a Parquet file that DuckDB makes of a range and that is
deleted afterwards:

    row unit     10^8 rows: a row added or removed
    user unit    10^7 rows, the ten of a person in one region, where 2 of them count
    heavy unit   10^7 rows of one person in 20 regions, of which 2 with 2 rows each count, beside 2 * 10^6 of 200,000
                 others as above

and four jobs, each in a process of its own:

    duckdb            `engine: duckdb`, two threads, 2 GiB
    duckdb by hand    the same by one SELECT in DuckDB under the same limits; a user unit by two windows
    spark             `engine: {kind: spark, threads: 2, memory_limit: 2GiB}`
    spark by hand     what one would write by hand, in a Spark started with the same limits

Both engines must return the same integers, and so must the two by hand, or there is no page. A row unit's four do.
Seconds are of the first call after the engine was loaded or Spark was started, which is told apart (`start`): a
release asks once. Processor seconds are of the Python and the Java process during that call; memory is
the high-water mark of both (`VmHWM`), which for Java holds the heap that it was given and what lies outside it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dprelease.engines.source import as_source
from dprelease.query.bounded import BoundedQuery, Fixed, GroupKeys, Primitive
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain

RESULT = Path(__file__).parent / "results" / "spark.md"
REGIONS = tuple(f"r{i}" for i in range(20))
THREADS, HEAP = 2, 2 << 30
"""What each job may use; Spark's heap is what it is started with, DuckDB's limit what it holds."""
SALT = "5a" * 32
"""As long as the library's own: a shorter one is hashed in half the time, and hides less."""
MOST = 2
"""Regions of a person, and rows of a person and region."""
TASKS = {"row unit": 10**8, "user unit": 10**7, "heavy unit": 12 * 10**6}
JOBS = ("duckdb", "duckdb by hand", "spark", "spark by hand")

_ROWS = """COPY (SELECT {who} AS who, 'r' || (i * 40503 % 20) AS region, (i * 7919 % 140 - 10)::INT AS x
  FROM range({rows}) AS t(i)) TO '{path}' (ROW_GROUP_SIZE 500000)"""
_WHO = {
    "row unit": "i",
    "user unit": "(i * 2654435761 % ({rows} // 10))",
    # every sixth row is of one of the others, of whom there are a tenth as many as they have rows
    "heavy unit": "CASE WHEN i % 6 < 5 THEN 0 ELSE 1 + (i // 6) * 2654435761 % greatest({rows} // 60, 1) END",
}
_CLAMPED = "CAST(least(greatest(x, 0), 60) AS BIGINT)"
_SUMS = "SELECT region, count(*), sum(v), sum(v * v) FROM {rows} GROUP BY region"
_BOUNDED = f"""(SELECT * FROM (
    SELECT *, dense_rank() OVER (PARTITION BY who ORDER BY md5('{SALT}|' || who || '|' || region), region) AS g FROM (
      SELECT * FROM (
        SELECT *, row_number() OVER (PARTITION BY who, region
          ORDER BY md5('{SALT}|' || who || '|' || region || '|' || v)) AS n
        FROM (SELECT CAST(who AS VARCHAR(20)) AS who, region, {_CLAMPED} AS v FROM visits) a) b
      WHERE n <= {MOST}) c) d
  WHERE g <= {MOST}) e"""


def query(task: str) -> BoundedQuery:
    """Return the task as an engine gets it."""
    region = Column("region", Kind.category, values=REGIONS)
    columns = (region, Column("who", Kind.identifier), Column("x", Kind.integer))
    code = Fixed("x", Domain(0, 60).on_grid(Fraction(1)), Fraction(1))
    unit = None if task == "row unit" else "who"
    return BoundedQuery(
        columns, GroupKeys((region,), tuple((r,) for r in REGIONS)), (code,),
        (Primitive("rows"), Primitive("power", 0, 1), Primitive("power", 0, 2)),
        user=unit, max_groups=MOST, max_rows=MOST,
    )  # fmt: skip


def by_hand(task: str) -> str:
    """Return the task as one would write it."""
    if task == "row unit":
        return _SUMS.format(rows=f"(SELECT region, {_CLAMPED} AS v FROM visits) a")
    return _SUMS.format(rows=_BOUNDED)


def made(task: str, rows: int, folder: Path) -> Path:
    """Write the task's rows."""
    import duckdb

    path = folder / f"{task.replace(' ', '_')}.parquet"
    with duckdb.connect(config={"threads": THREADS, "memory_limit": "2GB"}) as connection:
        connection.execute("SET preserve_insertion_order = false")
        who = _WHO[task].format(rows=rows)
        connection.execute(_ROWS.format(who=who, rows=rows, path=path))
    return path


# -- one job, in a process of its own ----------------------------------------------------------------


def ready(job: str, path: Path, task: str) -> Callable[[], list[list[int]]]:
    """Load and start what the job needs; return what computes."""
    if job == "duckdb":
        from dprelease.engines.duckdb import DuckDBEngine

        return engines(DuckDBEngine(threads=THREADS, memory_limit=HEAP), path, task)
    if job == "duckdb by hand":
        return plain_duckdb(path, task)
    session = started(path.parent)
    if job == "spark":
        from dprelease.engines.spark import SparkEngine

        return engines(SparkEngine(), path, task)
    session.read.parquet(f"file://{path}").createOrReplaceTempView("visits")
    return lambda: in_order([tuple(row) for row in session.sql(by_hand(task)).collect()])


def engines(engine: Any, path: Path, task: str) -> Callable[[], list[list[int]]]:
    source = as_source(path)

    def compute() -> list[list[int]]:
        exact = engine.compute(source, query(task), bytes.fromhex(SALT)).reveal_to_mechanism()
        found: list[list[int]] = exact.sums.tolist()
        return found

    return compute


def plain_duckdb(path: Path, task: str) -> Callable[[], list[list[int]]]:
    import duckdb

    connection = duckdb.connect(config={"threads": THREADS, "memory_limit": "2GiB"})
    connection.execute(f"SET temp_directory = '{path.parent}/spill'")
    connection.execute("SET preserve_insertion_order = false")
    # left on, `n <= 2` becomes an aggregate that cannot spill: several times slower
    connection.execute("SET disabled_optimizers = 'top_n_window_elimination'")
    connection.execute(f"CREATE VIEW visits AS FROM read_parquet('{path}')")
    return lambda: in_order(connection.execute(by_hand(task)).fetchall())


def started(folder: Path) -> Any:
    """Return a local Spark under the limits, with one job done: its Java classes are loaded."""
    from pyspark.sql import SparkSession

    from dprelease.engines.spark import local_settings

    builder: Any = SparkSession.builder.appName("benchmark")
    more = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "32",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **settings_asked(),
    }
    for name, value in {**more, **local_settings(THREADS, HEAP, folder)}.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        session = builder.getOrCreate()
    session.range(10).count()
    return session


def settings_asked() -> dict[str, str]:
    """Return further settings of Spark for a trial, from the environment."""
    found: dict[str, str] = json.loads(os.environ.get("BENCHMARK_SPARK_SETTINGS", "{}"))
    return found


def in_order(rows: list[tuple[Any, ...]]) -> list[list[int]]:
    found = {row[0]: [int(cell) for cell in row[1:]] for row in rows}
    return [found.get(region, [0, 0, 0]) for region in REGIONS]


def processes() -> list[int]:
    """Return this process and the Java process below it, if there is one."""
    own = os.getpid()
    children = Path(f"/proc/{own}/task").glob("*/children")
    below = [int(word) for listed in children for word in listed.read_text().split()]
    return [own, *(p for p in below if "java" in Path(f"/proc/{p}/comm").read_text())]


def processor() -> float:
    """Return the processor seconds of `processes` so far."""
    ticks = 0
    for process in processes():
        found = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += sum(map(int, found[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def peak() -> float:
    """Return the most memory that `processes` have held, in MB."""
    total = 0
    for process in processes():
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                total += int(line.split()[1])
    return total / 1024


def run_here(job: str, task: str, path: Path) -> dict[str, Any]:
    """Do one job."""
    begun = time.perf_counter()
    compute = ready(job, path, task)
    start, cpu = time.perf_counter(), processor()
    integers = compute()
    wall = time.perf_counter() - start
    return {
        "start": start - begun,
        "wall": wall,
        "cpu": processor() - cpu,
        "peak": peak(),
        "integers": integers,
    }


# -- the page ----------------------------------------------------------------------------------------


def measured(job: str, task: str, path: Path) -> dict[str, Any]:
    """Return the figures of one job in a new process."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--one", job, "--task", task, "--path", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{job}, {task}: {done.stderr.strip()[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def same(task: str, found: dict[str, dict[str, Any]]) -> str:
    """Return which of the jobs' integers are equal.

    Raises:
        SystemExit: some that have to be are not.
    """
    integers = {job: figures["integers"] for job, figures in found.items()}
    pairs = [("duckdb", "spark"), ("duckdb by hand", "spark by hand")]
    if task == "row unit":
        pairs.append(("duckdb", "duckdb by hand"))
    for one, other in pairs:
        if integers[one] != integers[other] or not any(map(any, integers[one])):
            raise SystemExit(f"{task}: {one} and {other} differ")
    total = sum(row[0] for row in integers["spark"])
    alike = "all four" if task == "row unit" else "both engines', and both by hand"
    return f"{total:,} rows count; the same integers: {alike}"


def lines_of(task: str, rows: int, found: dict[str, dict[str, Any]]) -> list[str]:
    """Return a task's part of the page."""
    base = found["duckdb"]["cpu"]
    lines = [
        f"## {task.capitalize()}: {rows:,} rows",
        "",
        same(task, found) + ".",
        "",
        "| job | start, s | wall, s | processor, s | beside `duckdb` | peak memory, MB |",
        "|---|---|---|---|---|---|",
    ]
    for job, f in found.items():
        lines.append(
            f"| `{job}` | {f['start']:.1f} | {f['wall']:.1f} | {f['cpu']:.1f} "
            f"| {f['cpu'] / max(base, 0.01):.1f}x | {f['peak']:,.0f} |"
        )
    return [*lines, ""]


def page(part: float) -> str:
    """Measure everything."""
    before = os.getloadavg()[0]
    body: list[str] = []
    with tempfile.TemporaryDirectory(prefix="dprelease-spark-") as home:
        for task, size in TASKS.items():
            rows = int(size * part)
            path = made(task, rows, Path(home))
            found = {}
            for job in JOBS:
                found[job] = measured(job, task, path)
                told = {name: cell for name, cell in found[job].items() if name != "integers"}
                print(task, job, told, file=sys.stderr, flush=True)
            path.unlink()
            body += lines_of(task, rows, found)
    head = (
        f"Made by `benchmarks/spark.py` in one run: {platform.machine()}, {os.cpu_count()} processors, "
        f"load average {before:.1f} before and {os.getloadavg()[1]:.1f} meanwhile; one run of each. Each job has "
        f"{THREADS} threads and {HEAP >> 30} GiB: DuckDB's limit, Java's heap. What each job does is in the script's "
        "first lines. `beside` is of processor seconds: the wall says little on a loaded machine."
    )
    return "\n".join(["# Spark beside DuckDB", "", head, "", *body])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", type=float, default=1.0, help="of the rows")
    parser.add_argument("--to", default=str(RESULT))
    parser.add_argument("--one", choices=JOBS, help=argparse.SUPPRESS)
    parser.add_argument("--task", choices=list(TASKS), help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(run_here(given.one, given.task, given.path)))
        return
    text = page(given.part)
    print(text)
    if given.to != "-":
        Path(given.to).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
