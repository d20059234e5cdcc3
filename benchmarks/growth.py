"""What grows with the wrong thing? Each cost beside its target and a baseline of the same run.

Every job is a process of its own; the least of some runs is shown, because other work on the machine only ever adds
time. Seconds are the processor's, of all threads. Imports are done before, but for whole processes.

    bins       a histogram of 10,000 bins, by `range(…)` and by a file of uneven edges: release (plan, scan,
               ledger, draw), publish (files, index; Great Expectations waits in a process of its own), read
               (which verifies), verify; bytes of release.json per bin. Beside it DuckDB's GROUP BY of the column
    weak       the plan of covariances of 30 columns that all say nothing; beside it the same at 1,000 times the budget
    gaps       the plan of a mean with 1,000 forbidden intervals in its domain; beside it the same without any
    ledger     one `charge` of the last of 1,600 entries; beside it the first
    index      the index of a pipeline of 16 periods made again; beside it that of 4
    commands   `schema check` and `ledger show`, whole processes; beside them a process that imports numpy, pydantic,
               typer and yaml, which both need
    path       the first release of a Parquet file of 1,000,000 rows (whole process, by DuckDB: what `latency.py` does);
               beside it DuckDB alone, and with the packages imported that a release imports (pandas by pyarrow, at
               the first value that it takes from Python)
    second     a second release in the process, 100,000 to 10,000,000 rows; beside it a second query. Peaks too, and
               the engine alone: exact sums of clamped rows, without plan, noise, intervals and checks

    python benchmarks/growth.py                      # writes results/growth.md
    python benchmarks/growth.py --only bins --runs 1 --to -
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
from itertools import pairwise
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent
sys.path[:0] = [str(FOLDER), str(ROOT)]
PAGE = FOLDER / "results" / "growth.md"
BINS, GAPS, ENTRIES, COLUMNS, PERIODS = 10_000, 1_000, 1_600, 30, 16
SIZES = (100_000, 1_000_000, 10_000_000)
ALONE = "import numpy, pydantic, typer, yaml"
PACKAGES = "import pandas, pyarrow.parquet, pydantic, yaml, duckdb, sqlglot.dialects.duckdb"
SCRIPT = "import sys; sys.argv[0] = 'dprelease'; from dprelease.cli import main; main()"
EXACT = "SELECT region, count(*), avg(age), avg(salary), var_pop(salary) FROM read_parquet('{}') GROUP BY region"
STATISTICS = ["count", "mean(age)", "mean(salary)", "variance(salary)"]
Figures = dict[str, float]


def timed(job: Callable[[], object], times: int = 1) -> float:
    """Return the least processor seconds of a call."""
    found = []
    for _ in range(times):
        begun = time.process_time()
        job()
        found.append(time.process_time() - begun)
    return min(found)


def table(columns: dict[str, Any], release: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a schema."""
    head = {"dprelease": "schema/1", "name": "growth", "unit": "row", "adjacency": "add_remove"}
    return {**head, "rows": {"max": 1_000_000}, "columns": columns, "release": release, **more}


def bins(uneven: bool = False) -> Figures:
    """Release, publish, read and verify a long histogram."""
    import duckdb
    import numpy as np
    import pyarrow as pa
    import yaml

    import dprelease as dp
    import dprelease.engines.bounded_sql
    import dprelease.pipeline.stages

    random = np.random.default_rng(1)
    steps = random.integers(1, 9, BINS) if uneven else np.ones(BINS, dtype=int)
    edges = [0, *np.cumsum(steps).tolist()]
    asked: Any = f"histogram(x, range(0, {BINS}, 1))"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        if uneven:
            (place / "edges.csv").write_text("edge\n" + "\n".join(map(str, edges)))
            asked = {"statistic": "histogram(x)", "edges_from": "edges.csv"}
        columns = {"x": {"kind": "integer", "range": [0, edges[-1]]}}
        path = place / "schema.yaml"
        path.write_text(yaml.safe_dump(table(columns, {"epsilon": 1, "statistics": [asked]})))
        schema = dp.Schema.load(path)
        dp.create_ledger(place / "ledger.db", schema, dataset="d", epsilon=9)
        rows = pa.table({"x": random.integers(0, edges[-1], 1_000_000)})
        _release(rows, schema, place, "warm", statistics=["count"])
        made: list[Any] = []
        release = timed(lambda: made.append(_release(rows, schema, place, "once")))
        publish = timed(lambda: made[0].publish(place / "public"))
        out = place / "public" / "growth" / "once"
        read, verify = timed(lambda: dp.read(out), 2), timed(lambda: dp.verify(out), 2)
        size = (out / "release.json").stat().st_size
        query = "SELECT x, count(*) FROM rows GROUP BY x"
        exact = timed(lambda: duckdb.from_arrow(rows).query("rows", query).fetchall(), 3)
    return {"release": release, "publish": publish, "read": read, "verify": verify,
            "bytes": size / BINS, "exact": exact}  # fmt: skip


def _release(rows: Any, schema: Any, place: Path, period: str, **more: Any) -> Any:
    import dprelease as dp

    return dp.release(rows, schema, ledger=place / "ledger.db", dataset="d", period=period, **more)


def weak() -> Figures:
    """Plan covariances that say nothing, and the same where they do."""
    import dprelease as dp

    names = [f"x{i:02d}" for i in range(COLUMNS)]
    columns = {n: {"kind": "number", "range": [0, 100 + i], "step": 1} for i, n in enumerate(names)}
    asked = [f"covariance({a}, {b})" for a, b in pairwise(names)]

    def plan(epsilon: int) -> None:
        release = {"epsilon": epsilon, "statistics": asked}
        dp.plan(table(columns, release, rows={"max": 100_000, "expected": 200}))

    dp.plan(table(columns, {"epsilon": 1, "statistics": ["count", "covariance(x00, x01)"]}))
    return {"weak": timed(lambda: plan(1)), "clear": timed(lambda: plan(1000))}


def gaps(count: int = GAPS) -> Figures:
    """Plan a mean whose domain has gaps."""
    import dprelease as dp

    columns = {"x": {"kind": "number", "range": [0, 10_000], "step": 0.1}}
    width = 10_000 / max(1, count)
    holes = [
        [round(i * width + 0.3 * width, 4), round(i * width + 0.6 * width, 4)] for i in range(count)
    ]
    asked = {"statistic": "mean(x)", "domain": {"range": [0, 10_000], "forbidden": holes}}
    release = {"epsilon": 1, "statistics": ["count"]}
    dp.plan(table(columns, release))
    declared = table(
        columns, release | {"statistics": [asked]}, rows={"max": 10**6, "expected": 2_000}
    )
    return {f"gaps {count}": timed(lambda: dp.plan(declared))}


def ledger() -> Figures:
    """Charge entry after entry."""
    from dataclasses import replace

    import pyarrow as pa

    import dprelease as dp
    from dprelease.budget.ledger import Ledger
    from dprelease.budget.record import Entry

    kept: list[Entry] = []
    charge = Ledger.charge

    def noted(self: Ledger, entry: Entry, **more: Any) -> Any:
        kept.append(entry)
        return charge(self, entry, **more)

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        columns = {"x": {"kind": "number", "range": [0, 10], "step": 0.1}}
        schema = dp.Schema.from_dict(table(columns, {"epsilon": 0.01, "statistics": ["count"]}))
        dp.create_ledger(place / "ledger.db", schema, dataset="d", epsilon=100)
        Ledger.charge = noted  # type: ignore[method-assign, assignment]
        _release(pa.table({"x": [1.0]}), schema, place, "p")
        book = Ledger.open(place / "ledger.db")
        found = [
            timed(lambda: charge(book, replace(kept[0], key=replace(kept[0].key, period=f"q{i}"))))  # noqa: B023
            for i in range(ENTRIES)
        ]
    return {"first charge": min(found[:40]), "last charge": min(found[-40:])}


def index() -> Figures:
    """Refresh the index of a pipeline with few and with many periods."""
    import pyarrow as pa

    import dprelease as dp
    from dprelease.results.series import write

    took: list[float] = []
    refresh = write.refresh

    def clocked(*given: Any, **more: Any) -> Any:
        made: list[Any] = []
        took.append(timed(lambda: made.append(refresh(*given, **more))))
        return made[0]

    write.refresh = clocked  # type: ignore[assignment]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        columns = {"x": {"kind": "number", "range": [0, 10], "step": 0.1}}
        schema = dp.Schema.from_dict(
            table(columns, {"epsilon": 0.1, "statistics": ["count", "mean(x)"]})
        )
        dp.create_ledger(place / "ledger.db", schema, dataset="d", epsilon=100)
        for i in range(PERIODS):
            _release(pa.table({"x": [1.0]}), schema, place, f"p{i}").publish(place / "public")
    return {"index of 4": min(took[2:5]), "index of many": min(took[-3:])}


def second(rows: int, ours: bool) -> Figures:
    """Release a second time in one process, or ask DuckDB for the exact answers."""
    import duckdb
    import payroll
    from peak import peak_bytes

    path = str(payroll.cached(rows))

    def exact() -> object:
        return duckdb.connect().execute(EXACT.format(path)).fetchall()

    def release() -> object:
        import dprelease as dp

        return dp.release(path, payroll.SCHEMA, epsilon=1, by=["region"], statistics=STATISTICS)

    def bounded() -> object:
        engine.preflight(source, planned.query)
        return engine.compute(source, planned.query, b"")

    job = release if ours else exact
    first = timed(job)
    begun = time.monotonic()
    again = timed(job, 5)
    wall = (time.monotonic() - begun) / 5
    name = f"{rows} {'ours' if ours else 'duckdb'}"
    alone = {}
    if ours:
        import dprelease as dp
        from dprelease.engines.duckdb import DuckDBEngine
        from dprelease.engines.source import as_source

        planned = dp.plan(payroll.SCHEMA, epsilon=1, by=["region"], statistics=STATISTICS)
        engine, source = DuckDBEngine(), as_source(path)
        alone = {f"engine {rows}": timed(bounded, 5)}
    return alone | {
        f"first {name}": first,
        f"second {name}": again,
        f"wall {name}": wall,
        f"peak {name}": peak_bytes() / 2**20,
    }


def whole(code: str, *arguments: str, folder: Path | None = None) -> float:
    """Return the processor seconds of a whole process."""
    command = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as child:
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{code[:60]} failed")
    return used.ru_utime + used.ru_stime


def commands() -> Figures:
    """Run the small commands."""
    import latency

    with tempfile.TemporaryDirectory() as folder:
        place = latency.project(Path(folder))
        pipeline = "pipelines/flights_weekly.yaml"
        return {
            "schema check": whole(SCRIPT, "schema", "check", "schemas/flights.yaml", folder=place),
            "ledger show": whole(SCRIPT, "ledger", "show", pipeline, folder=place),
            "their imports": whole(ALONE),
        }


def imported() -> Figures:
    """Import what a first release imports of others."""
    from peak import peak_bytes

    exec(PACKAGES)
    return {"packages, MB": peak_bytes() / 2**20}


def path() -> Figures:
    """Release a path in a new process."""
    import latency
    import payroll

    file = str(payroll.cached(1_000_000))
    return {
        "first release": whole(latency.OF_PATH, file, str(FOLDER)),
        "first query": whole(latency.DUCKDB, file),
        "first query, imports": whole(f"{PACKAGES}; {latency.DUCKDB}", file),
        "packages": whole(PACKAGES),
    }


JOBS: dict[str, tuple[Callable[[], Figures], ...]] = {
    "bins": (bins, lambda: {f"uneven {k}": v for k, v in bins(uneven=True).items()}),
    "weak": (weak,),
    "gaps": (gaps, lambda: gaps(0)),
    "ledger": (ledger,),
    "index": (index,),
    "commands": (commands,),
    "path": (path, imported),
    "second": tuple(lambda n=n, o=o: second(n, o) for n in SIZES for o in (True, False)),  # type: ignore[misc]
}
ROWS: tuple[tuple[str, str, str, float, str], ...] = (
    *(
        (f"{BINS:,} bins{said}: {what}, s", f"{name}{what}", f"{name}exact", 1.0, "s")
        for said, name in (("", ""), (", uneven, of a file", "uneven "))
        for what in ("release", "publish", "read", "verify")
    ),
    (f"{BINS:,} bins: release.json, bytes a bin", "bytes", "", 50, ""),
    (f"{BINS:,} bins, uneven, of a file: release.json, bytes a bin", "uneven bytes", "", 50, ""),
    (f"plan of weak covariances, {COLUMNS} columns, s", "weak", "clear", 2.0, "s"),
    (f"plan with {GAPS:,} forbidden intervals, s", f"gaps {GAPS}", "gaps 0", 1.0, "s"),
    (f"charge after {ENTRIES:,} entries", "last charge", "first charge", 1.5, "times"),
    (f"index of {PERIODS} periods beside one of 4", "index of many", "index of 4", 2.0, "times"),
    ("`schema check`, s", "schema check", "their imports", 0.4, "s"),
    ("`ledger show`, s", "ledger show", "their imports", 0.4, "s"),
    ("first release of a path, 1,000,000 rows", "first release", "first query", 5.0, "times"),
    ("the same beside DuckDB with the packages imported", "first release", "first query, imports", 5.0, "times"),
    ("the packages alone", "packages", "first query", 0, "times"),
    *(
        (f"second release, {n:,} rows", f"second {n} ours", f"second {n} duckdb", 2.5 if n < 10**7 else 1.5, "times")
        for n in SIZES
    ),
    *((f"the engine alone, {n:,} rows", f"engine {n}", f"second {n} duckdb", 0, "times") for n in SIZES),
    (f"second release, {SIZES[-1]:,} rows, by the wall", f"wall {SIZES[-1]} ours", f"wall {SIZES[-1]} duckdb", 1.5, "times"),
    (f"peak of {SIZES[-1]:,} rows, MB", f"peak {SIZES[-1]} ours", f"peak {SIZES[-1]} duckdb", 1.5, "times"),
    ("the packages alone, MB", "packages, MB", f"peak {SIZES[-1]} duckdb", 0, "times"),
)  # fmt: skip
"""(what, its figure, the baseline's, the target or 0 for none, in what)."""


IN_THE_WAY = (
    "What stands in the way of the bars that are missed. `schema check` plans the default release, with the planner's"
    " imports. A first release imports packages: pyarrow imports pandas at the first value that it takes from Python or"
    " gives to it. A second release plans anew, draws, makes intervals and checks them; its engine plans the statement"
    " before the charge, then clamps each value and sums whole numbers exactly. Packages are half of the peak"
    " of 10,000,000 rows."
)


def page(found: Figures, runs: int, load: float) -> str:
    """Return the table."""
    lines = [
        "# What grows with the wrong thing",
        "",
        (
            f"Made by `benchmarks/growth.py` in one run: {platform.machine()}, {os.cpu_count()} processors, Python "
            f"{platform.python_version()}; load average {load:.1f} before and {os.getloadavg()[1]:.1f} meanwhile; the least "
            f"of {runs}. Processor seconds, or MB; what each job does is in the script's first lines."
        ),
        "",
        "| what | measured | baseline | target | kept |",
        "|---|---|---|---|---|",
    ]
    for what, name, base, most, unit in ROWS:
        if name not in found:
            continue
        value, beside = found[name], found.get(base)
        times = unit == "times" and beside is not None
        kept = value <= most * (beside or 0) if times else value <= most
        said = f"{value:.3g}" + (f" ({value / beside:.2f} times)" if times and beside else "")
        target = f"at most {most:g} times" if times else f"at most {most:g}"
        shown = "" if beside is None else f"{beside:.3g}"
        judged = f"{target} | {'yes' if kept else 'no'}" if most else " | "
        lines.append(f"| {what} | {said} | {shown} | {judged} |")
    return "\n".join([*lines, "", IN_THE_WAY, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(JOBS), default=list(JOBS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--to", default=str(PAGE))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        warnings.simplefilter("ignore")
        print(json.dumps(JOBS[given.one[0]][int(given.one[1])]()))
        return
    load, found = os.getloadavg()[0], {}
    with tempfile.TemporaryDirectory() as bytecode:
        os.environ |= {"PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
        for name in given.only:
            for i in range(len(JOBS[name])):
                for run in range(
                    given.runs + 1
                ):  # the first writes bytecode, and counts where it is the least
                    command = [sys.executable, __file__, "--one", name, str(i)]
                    done = subprocess.run(command, capture_output=True, text=True, check=True)
                    for key, value in json.loads(done.stdout.splitlines()[-1]).items():
                        found[key] = min(found.get(key, value), value)
                    if run == 0:
                        print(name, i, file=sys.stderr, flush=True)
    made = page(found, given.runs + 1, load)
    print(made)
    if given.to != "-":
        Path(given.to).write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
