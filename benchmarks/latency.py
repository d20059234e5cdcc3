"""How long until the first answer? Whole processes, from their start to their end, imports included.

    release of a frame  pandas reads a made-up payroll (`payroll.py`), `import dprelease; df.dp.release(…)`: count,
              means and variance by region. Beside it pandas reading the same file, with the exact answers by
              DuckDB from the frame. How long each takes once the frame is read is shown apart
    release of a path   the same by `dp.release(path, …)`, which reads only what it needs and imports pandas
              for `df.dp` alone. Beside it DuckDB over the file, alone (the stricter limit) and with pandas imported
    --help    the installed script. Beside it a process that imports what draws its page (typer, rich)
    plan      1,000 sums by 1,000 groups. Beside it a process that only imports the library
    run       the demo's week: plan, charge, scan, draw, validate, publish. Beside it a process that only
              imports Great Expectations

Each job and its baseline run in turns, so that other work meets both; the median of the turns is
shown. Processor seconds count all threads. What is asked is judged by the wall; where the load average
before the first turn is above 1, by processor seconds, as the wall then says more of the other work.
The page says which. Bytecode is written before the first turn, as `pip install` would. Verifying
100,000 groups is measured by `wide.py`.

    python benchmarks/latency.py                  # 10,000,000 rows, 5 turns; writes results/latency.md
    python benchmarks/latency.py --rows 100000 --turns 1 --to -
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent
RESULTS = FOLDER / "results"

EXACT = "SELECT region, count(*), avg(age), avg(salary), var_pop(salary) FROM {} GROUP BY region"
FROM_FILE = EXACT.format("read_parquet('{path}')")
DUCKDB = f"import sys, duckdb; duckdb.connect().execute(\"{FROM_FILE}\".replace('{{path}}', sys.argv[1])).fetchall()"
FRAME = "import sys, time, pandas; df = pandas.read_parquet(sys.argv[1]); begun = time.monotonic()"
FROM_FRAME = f'{FRAME}; import duckdb; duckdb.connect().execute("{EXACT.format("df")}").fetchall()'
RELEASE = """
import sys, warnings
sys.path.insert(0, sys.argv[2])
import dprelease as dp, payroll
warnings.simplefilter("ignore", dp.UnledgeredWarning)
{}.release({}payroll.SCHEMA, epsilon=1, by=["region"],
           statistics=["count", "mean(age)", "mean(salary)", "variance(salary)"])
"""
OF_PATH = RELEASE.format("dp", "sys.argv[1], ")
OF_FRAME = f"{FRAME}\n{RELEASE.format('df.dp', '')}"
PLAN = """
import dprelease as dp
columns = {f"x{i}": {"kind": "number", "range": [0, 100 + i % 100], "step": 0.1} for i in range(1000)}
columns["g"] = {"kind": "category", "values": [f"g{i}" for i in range(1000)]}
plan = dp.plan(dp.Schema.from_dict({
    "dprelease": "schema/1", "name": "wide", "unit": "row", "adjacency": "add_remove", "columns": columns,
    "rows": {"max": 1000000, "expected": 1000},
    "release": {"epsilon": 1000, "by": ["g"], "statistics": [f"sum(x{i})" for i in range(1000)]},
}))
assert (len(plan.keys), len(plan.statistics)) == (1000, 1000)
"""
WRITE = """
import pathlib, sys
sys.path.insert(0, sys.argv[2])
import payroll
payroll.write(pathlib.Path(sys.argv[1]), int(sys.argv[3]))
"""
LIBRARY = "import dprelease.facade, dprelease.planning.make"
PAGE = "import typer, typer.rich_utils"
VALIDATOR = "import warnings; warnings.simplefilter('ignore'); import great_expectations"
SCRIPT = "import sys; sys.argv[0] = 'dprelease'; from dprelease.cli import main; main()"
AT_END = f"""
import atexit
@atexit.register
def say_peak():
    import pathlib, sys, time
    sys.path.append({str(FOLDER)!r})
    from peak import peak_bytes
    later = time.monotonic() - globals().get("begun", float("nan"))
    pathlib.Path("end.txt").write_text(f"{{peak_bytes()}} {{later}}")
"""


@dataclass(frozen=True, slots=True)
class Took:
    """What one process took: seconds, and bytes of its largest resident size.

    Attributes:
        later: wall seconds after its frame was read; NaN: it read none.
    """

    wall: float
    processor: float
    peak: int
    later: float = math.nan


def took(code: str, arguments: Sequence[str], folder: Path) -> Took:
    """Run Python code in a process of its own, to its end.

    Raises:
        RuntimeError: it failed.
    """
    begun = time.monotonic()
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(
            [sys.executable, "-c", AT_END + code, *arguments],
            cwd=folder,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        _, status, used = os.wait4(child.pid, 0)
        wall = time.monotonic() - begun
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            said.seek(0)
            raise RuntimeError(said.read().decode(errors="replace")[-2_000:])
    peak, later = (folder / "end.txt").read_text().split()
    return Took(wall, used.ru_utime + used.ru_stime, int(peak), float(later))


def project(folder: Path) -> Path:
    """Copy what the demo's week needs, and make its ledger."""
    for name in ("schemas", "pipelines"):
        shutil.copytree(ROOT / name, folder / name)
    data = Path("examples") / "data" / "flights_nyc_2013.parquet"
    (folder / data).parent.mkdir(parents=True)
    (folder / ".dprelease").mkdir()
    shutil.copy(ROOT / data, folder / data)
    took(SCRIPT, ["ledger", "init", "pipelines/flights_weekly.yaml"], folder)
    return folder


def measured(rows: int, turns: int, folder: Path) -> dict[str, Took]:
    """Return the medians of all jobs, in turns."""
    table = folder / "payroll.parquet"
    took(WRITE, [str(table), str(FOLDER), str(rows)], folder)
    jobs: dict[str, tuple[str, list[str]]] = {
        "DuckDB from a frame": (FROM_FRAME, [str(table)]),
        "release of a frame": (OF_FRAME, [str(table), str(FOLDER)]),
        "DuckDB from the path": (DUCKDB, [str(table)]),
        "the same, pandas imported": (f"import pandas; {DUCKDB}", [str(table)]),
        "release of a path": (OF_PATH, [str(table), str(FOLDER)]),
        "typer and rich alone": (PAGE, []),
        "--help": (SCRIPT, ["--help"]),
        "the library alone": (LIBRARY, []),
        "plan": (PLAN, []),
        "Great Expectations alone": (VALIDATOR, []),
    }
    found: dict[str, list[Took]] = {name: [] for name in (*jobs, "run")}
    for turn in range(turns + 1):  # the first writes bytecode, and is not counted
        for name, (code, arguments) in jobs.items():
            found[name].append(took(code, arguments, folder))
        week = project(folder / f"week{turn}")
        command = ["run", "pipelines/flights_weekly.yaml", "--period", "2013-W05"]
        found["run"].append(took(SCRIPT, command, week))
    return {name: _median(every[1:]) for name, every in found.items()}


def _median(every: list[Took]) -> Took:
    return Took(
        statistics.median(one.wall for one in every),
        statistics.median(one.processor for one in every),
        max(one.peak for one in every),
        statistics.median(one.later for one in every),
    )


BESIDE = {
    "release of a frame": ("DuckDB from a frame", "at most 2.0 × DuckDB + 0.5 s"),
    "release of a path": ("DuckDB from the path", "at most 2.0 × DuckDB + 0.5 s"),
    "--help": ("typer and rich alone", "at most 0.3 s"),
    "plan": ("the library alone", "at most 3 s beyond the imports"),
    "run": ("Great Expectations alone", "at most 3.5 s"),
}
LIMITS = {
    "release of a frame": (2.0, 0.5),
    "release of a path": (2.0, 0.5),
    "--help": (0.0, 0.3),
    "plan": (1.0, 3.0),
    "run": (0.0, 3.5),
}
"""Job -> (times its baseline, seconds more): what it may take."""
PEAKS = {
    "release of a frame": "DuckDB from a frame",
    "release of a path": "the same, pandas imported",
}
"""Job -> what its peak memory is held against: at most 1.5 times."""


def report(found: dict[str, Took], rows: int, turns: int, load: float) -> str:
    """Return the page.

    Args:
        load: the load average before the first turn.
    """
    loaded = load > 1

    def seconds(one: Took) -> float:
        return one.processor if loaded else one.wall

    machine = (
        f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}, "
        f"load average {load:.1f} before and {os.getloadavg()[1]:.1f} meanwhile"
    )
    made = (
        f"Made by `benchmarks/latency.py` in one run: {machine}; {rows:,} rows; median of {turns}. "
    )
    lines = [
        "# Latency",
        "",
        made
        + "Whole processes, imports included. What is asked is judged by "
        + ("processor seconds: the machine was loaded." if loaded else "the wall."),
        "",
        "| job | wall, s | processor, s | peak, MB | asked | kept |",
        "|---|---|---|---|---|---|",
    ]
    for name, one in found.items():
        asked, kept = "", ""
        if name in BESIDE:
            base, asked = found[BESIDE[name][0]], BESIDE[name][1]
            times, more = LIMITS[name]
            kept = "yes" if seconds(one) <= times * seconds(base) + more else "no"
        lines.append(
            f"| {name} | {one.wall:.2f} | {one.processor:.2f} | {one.peak / 2**20:.0f} | {asked} | {kept} |"
        )
    ours, exact = (found[n].later for n in ("release of a frame", "DuckDB from a frame"))
    later = f"Once the frame is read, by the wall: release {ours:.2f} s, DuckDB {exact:.2f} s."
    lines += ["", later, "", _said_of_memory(found)]
    return "\n".join([*lines, ""])


def _said_of_memory(found: dict[str, Took]) -> str:
    said = []
    for name, base in PEAKS.items():
        times = found[name].peak / found[base].peak
        said.append(f"{times:.2f} for the {name} ({'kept' if times <= 1.5 else 'not kept'})")
    asked = "Times the peak memory of DuckDB with pandas imported (asked: at most 1.5)"
    return f"{asked}: {', '.join(said)}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--to", default=str(RESULTS / "latency.md"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bytecode = str(Path(folder) / "bytecode")
        os.environ |= {"PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
        load = os.getloadavg()[0]
        found = measured(given.rows, given.turns, Path(folder))
        page = report(found, given.rows, given.turns, load)
    print(page)
    if given.to != "-":
        Path(given.to).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
