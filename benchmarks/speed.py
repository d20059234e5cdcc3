"""How long does one job take, beside plain SQL and other libraries, and how much memory?

The job: by region of a made-up payroll (`payroll.py`), count, mean age, mean salary and variance of
the salary, total epsilon 1, one row added or removed, from one Parquet file.

    duckdb        the exact answers, by one SELECT: what the reading alone costs
    with pandas   the same, in a process that has imported pandas, as `df.dp` needs: for its memory
    dprelease     `dp.release`: plan, check, scan, draw, intervals, built-in validation
    by hand       per person at most 3 rows and 1 region: that bounding as SQL by hand, exact answers,
                  spilling above 1,600 MB, so that no process reaches 2 GiB
    per person    the same bounding by `dp.release`, k = 3, under the same limit
    hand, teams   the same by hand per team of ten rows, of which most regions and rows are cut
    per team      that by `dp.release`
    opendp        OpenDP (Polars): count, two means and the sum of squares that a variance needs
    diffprivlib   its tools, group by group, over a pandas frame
    smartnoise    SmartNoise SQL over the same frame: COUNT, AVG, AVG, VAR

Every run is a new process; reading the file is counted. The first call is shown apart: it also
imports what the library loads late, and makes the noise laws. Wall and processor are of a second
call in the same process; a first call of more than `PATIENCE` seconds is not repeated and counts
itself. `peak` is the program's largest resident size, imports included (`peak.py`). The best of the repeats is
shown, because other work on the machine only ever adds time; they end once a job has taken
`PATIENCE` seconds. A job that passes the limit is not tried with more rows.

    python benchmarks/speed.py --rows 1000000 10000000 --peers .bench/bin/python --smartnoise .bench-sn/bin/python

writes results/speed.md and results/speed.svg. The peers live in environments of their own
(`make bench` makes them): diffprivlib ships a top-level `tests`, SmartNoise pins old libraries. A
peer without an environment is left out, one that fails is shown as failed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import math
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

sys.path.insert(0, str(Path(__file__).parent))

RESULTS = Path(__file__).parent / "results"
STATISTICS = ["count", "mean(age)", "mean(salary)", "variance(salary)"]
EXACT = """
    SELECT region, count(*), avg(age), avg(salary), var_pop(salary)
    FROM {rows} GROUP BY region
"""
BOUNDED = """
    (SELECT region, age, salary FROM (
        SELECT *, dense_rank() OVER (PARTITION BY {unit} ORDER BY md5('{salt}|' || {unit} || region), region) AS g
        FROM (
            SELECT *, row_number() OVER (PARTITION BY {unit}, region
                ORDER BY md5('{salt}|' || {unit} || '|' || region || '|' || age || '|' || salary)) AS n
            FROM (SELECT {unit}, region, age, salary FROM read_parquet('{path}') WHERE {unit} IS NOT NULL)
        ) WHERE n <= 3
    ) WHERE g <= 1)
"""
SALT = "5a" * 32
"""As long as the library's own: a shorter one is hashed in half the time, and hides less."""
LIMIT = os.environ.get("DPRELEASE_MEMORY_LIMIT", "")
PATIENCE = 30.0
MEMORY = "1600MB"
BOUNDED_JOBS = ("by hand", "per person", "hand, teams", "per team")


def duckdb(path: str) -> None:
    """Compute the exact answers."""
    import duckdb as engine

    engine.connect().execute(EXACT.format(rows=f"read_parquet('{path}')")).fetchall()


def with_pandas(path: str) -> None:
    """Compute the exact answers as a frame."""
    import duckdb as engine

    engine.connect().execute(EXACT.format(rows=f"read_parquet('{path}')")).df()


def by_hand(path: str, unit: str = "person") -> None:
    """Compute exact answers of bounded rows, under the same settings as the library."""
    import tempfile

    import duckdb as engine

    with tempfile.TemporaryDirectory() as spill:
        connection = engine.connect(config={"temp_directory": spill})
        connection.execute("SET preserve_insertion_order = false")
        # left on, `n <= 3` becomes an aggregate that cannot spill: several times slower
        connection.execute("SET disabled_optimizers = 'top_n_window_elimination'")
        if LIMIT:
            connection.execute(f"SET memory_limit = '{LIMIT}'")
        connection.execute(
            EXACT.format(rows=BOUNDED.format(path=path, salt=SALT, unit=unit))
        ).fetchall()


def dprelease(path: str, **unit: Any) -> None:
    """Release, without a ledger: nothing is published."""
    import payroll

    import dprelease as dp

    schema = {**payroll.SCHEMA, **unit}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.UnledgeredWarning)
        dp.release(path, schema, epsilon=1, by=["region"], statistics=STATISTICS)


def per_unit(path: str, unit: str = "person") -> None:
    """Release with each person, or team, bounded."""
    dprelease(path, unit={"user": unit, "max_groups": 1, "max_rows_per_group": 3})


def opendp(path: str) -> None:
    """Release counts, sums and squares by OpenDP's Polars interface."""
    import opendp.prelude as dp
    import payroll
    import polars as pl

    dp.enable_features("contrib")
    data = pl.scan_parquet(path).with_columns(
        age=pl.col("age").cast(pl.Int64),
        salary=pl.col("salary").cast(pl.Int64),
        square=(pl.col("salary").cast(pl.Int64) // 1000).pow(2),  # else: overflow refused
    ).select("region", "age", "salary", "square")  # fmt: skip
    keys = pl.LazyFrame({"region": list(payroll.REGIONS)})
    context = dp.Context.compositor(
        data=data,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=[], max_length=1_000_000_000)],
    )
    ends = {"age": 120, "salary": 500_000, "square": 500**2}
    sums = [pl.col(c).fill_null(0).dp.sum((0, top)) for c, top in ends.items()]
    query = context.query().group_by("region").agg(dp.len(), *sums).with_keys(keys)
    query.release().collect()


def diffprivlib(path: str) -> None:
    """Release group by group, as its examples do."""
    import pandas as pd
    from diffprivlib import tools

    frame = pd.read_parquet(path, columns=["region", "age", "salary"])
    part = 1 / 4
    for _, group in frame.groupby("region"):
        salary = group["salary"].to_numpy()
        tools.count_nonzero(group["age"].to_numpy() >= 0, epsilon=part)
        tools.mean(group["age"].to_numpy(), epsilon=part, bounds=(0, 120))
        tools.mean(salary, epsilon=part, bounds=(0, 500_000))
        tools.var(salary, epsilon=part, bounds=(0, 500_000))


def smartnoise(path: str) -> None:
    """Release by SmartNoise SQL over a pandas frame."""
    import pandas as pd
    from snsql import Privacy, from_df

    frame = pd.read_parquet(path, columns=["region", "age", "salary"])
    frame["salary"] = frame["salary"] / 1000  # the variance of whole euros is refused
    table = {
        "row_privacy": True,
        "region": {"type": "string"},
        "age": {"type": "int", "lower": 0, "upper": 120},
        "salary": {"type": "float", "lower": 0.0, "upper": 500.0},
    }
    metadata = {"": {"payroll": {"rows": table}}}
    reader = from_df(frame, metadata=metadata, privacy=Privacy(epsilon=0.25, delta=1e-9))
    reader.execute(
        "SELECT region, COUNT(*) AS n, AVG(age) AS a, AVG(salary) AS s, VAR(salary) AS v "
        "FROM payroll.rows GROUP BY region"
    )


JOBS: dict[str, Callable[[str], None]] = {
    "duckdb": duckdb,
    "with pandas": with_pandas,
    "dprelease": dprelease,
    "by hand": by_hand,
    "per person": per_unit,
    "hand, teams": partial(by_hand, unit="team"),
    "per team": partial(per_unit, unit="team"),
    "opendp": opendp,
    "diffprivlib": diffprivlib,
    "smartnoise": smartnoise,
}
IMPORTS = {
    "duckdb": "duckdb",
    "with pandas": "pandas",
    "by hand": "duckdb",
    "hand, teams": "duckdb",
    "dprelease": "dprelease.pipeline.stages",
    "per person": "dprelease.pipeline.stages",
    "per team": "dprelease.pipeline.stages",
    "opendp": "opendp.prelude",
    "diffprivlib": "diffprivlib.tools",
    "smartnoise": "snsql",
}


DISTRIBUTIONS = {
    "duckdb": "duckdb",
    "dprelease": "dprelease",
    "opendp": "opendp",
    "diffprivlib": "diffprivlib",
    "smartnoise": "smartnoise-sql",
}
Figures = dict[str, Any] | str
"""What was measured, or why nothing was."""


def run_here(job: str, path: str) -> None:
    """Run one job in this process and print its figures as JSON."""
    from importlib import metadata

    from peak import peak_bytes

    with contextlib.suppress(OSError):  # where memory ends, it ends for this process
        Path("/proc/self/oom_score_adj").write_text("1000")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(IMPORTS[job])
        found: dict[str, Any] = {}
        for _ in range(2):
            start, cpu = time.perf_counter(), time.process_time()
            with contextlib.redirect_stdout(sys.stderr):
                JOBS[job](path)
            found["wall"], found["cpu"] = time.perf_counter() - start, time.process_time() - cpu
            found.setdefault("first", found["wall"])
            if found["wall"] > PATIENCE:
                break
    found["peak"] = peak_bytes() / 2**20
    if job in DISTRIBUTIONS:
        found["version"] = metadata.version(DISTRIBUTIONS[job])
    print(json.dumps(found))


def measured(python: str, job: str, path: Path, repeats: int, limit: float) -> Figures:
    """Return the best figures of some runs, each in a new process, or why there are none."""
    found: list[dict[str, Any]] = []
    command = [python, "-W", "ignore", __file__, "--one", job, "--path", str(path)]
    environment = os.environ | ({"DPRELEASE_MEMORY_LIMIT": MEMORY} if job in BOUNDED_JOBS else {})
    start = time.monotonic()
    while len(found) < repeats and (not found or time.monotonic() - start < PATIENCE):
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=limit, check=False, env=environment
            )
        except subprocess.TimeoutExpired:
            return f"more than {limit:.0f} s"
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:] or [
                "ended by the system, out of memory perhaps"
            ]
            return f"failed: {last[0][:90]}"
        found.append(json.loads(done.stdout.splitlines()[-1]))
    best: dict[str, Any] = {
        name: min(f[name] for f in found) for name in ("first", "wall", "cpu", "peak")
    }
    return best | {"runs": len(found), "version": found[0].get("version")}


ASKED: dict[int, tuple[tuple[str, str, str, str, float, float], ...]] = {
    10_000_000: (
        ("wall", "dprelease", "duckdb", "at most 2.0 times and 0.25 s", 2.0, 0.25),
        ("wall", "opendp", "dprelease", "at least 5 times", -5.0, 0.0),
        ("peak", "dprelease", "duckdb", "at most 1.5 times", 1.5, 0.0),
        ("peak", "dprelease", "with pandas", "at most 1.5 times, pandas in both", 1.5, 0.0),
    ),
    100_000_000: (
        ("wall", "dprelease", "duckdb", "at most 1.5 times", 1.5, 0.0),
        ("wall", "per person", "by hand", "at most 1.2 times", 1.2, 0.0),
        ("wall", "per team", "hand, teams", "at most 1.2 times", 1.2, 0.0),
    ),
}
"""Per size: (figure, job, beside which job, the wish, factor, seconds); a negative factor is a least one."""


def wishes(found: dict[int, dict[str, Figures]]) -> list[str]:
    """Return the Markdown lines of what was asked for and what was measured."""
    lines = []
    for rows, asked in ASKED.items():
        for figure, job, beside, wish, factor, extra in asked:
            one, other = (found.get(rows, {}).get(j) for j in (job, beside))
            if not isinstance(one, dict) or not isinstance(other, dict):
                continue
            kept = (
                one[figure] <= factor * other[figure] + extra
                if factor > 0
                else one[figure] >= -factor * other[figure]
            )
            lines.append(
                f"| {rows:,} | {figure} of `{job}` beside `{beside}` | {wish} "
                f"| {one[figure] / other[figure]:.2f} times | {'yes' if kept else 'no'} |"
            )
    head = [
        "## Asked and measured",
        "",
        "| rows | what | asked | measured | kept |",
        "|---|---|---|---|---|",
    ]
    if not lines:
        return []
    pandas = [
        f"With {rows:,} rows `with pandas` itself takes {figures['with pandas']['peak'] / figures['duckdb']['peak']:.2f} "
        "times the memory of `duckdb`: `import dprelease` registers `df.dp`, and so imports pandas."
        for rows, figures in found.items()
        if rows in ASKED
        and all(isinstance(figures.get(job), dict) for job in ("duckdb", "with pandas"))
    ]
    return [*head, *lines, "", *pandas[:1], ""]


def table(rows: int, figures: dict[str, Figures]) -> list[str]:
    """Return the Markdown lines of one size."""
    base = figures.get("duckdb")
    lines = [
        f"## {rows:,} rows",
        "",
        "| job | wall, s | beside `duckdb` | processor, s | first call, s | peak memory, MB | runs |",
        "|---|---|---|---|---|---|---|",
    ]
    for job, f in figures.items():
        if isinstance(f, str):
            lines.append(f"| `{job}` | {f} | | | | | |")
        else:
            ratio = f"{f['wall'] / base['wall']:.2f}x" if isinstance(base, dict) else ""
            lines.append(
                f"| `{job}` | {f['wall']:.2f} | {ratio} | {f['cpu']:.2f} | {f['first']:.2f} "
                f"| {f['peak']:,.0f} | {f['runs']} |"
            )
    return [*lines, ""]


def picture(found: dict[int, dict[str, Figures]]) -> str:
    """Return the walls of all sizes as one SVG, logarithmic, bars from a tenth of a second."""
    bars = [
        (n, j, f["wall"]) for n, fs in found.items() for j, f in fs.items() if isinstance(f, dict)
    ]
    top = max(math.log10(max(w, 0.1)) for *_, w in bars) + 1.05
    lines, y = [], 8
    for i, (rows, job, wall) in enumerate(bars):
        if i == 0 or bars[i - 1][0] != rows:
            lines.append(f'<text x="4" y="{y + 14}" font-weight="bold">{rows:,} rows</text>')
            y += 22
        width = 420 * (math.log10(max(wall, 0.1)) + 1) / top
        own = "#1f6f8b" if IMPORTS[job].startswith("dprelease") else "#9aa5ab"
        lines += [
            f'<text x="108" y="{y + 13}" text-anchor="end">{escape(job)}</text>',
            f'<rect x="114" y="{y + 2}" width="{max(width, 1):.1f}" height="14" fill="{own}"/>',
            f'<text x="{120 + max(width, 1):.1f}" y="{y + 13}">{wall:.2f} s</text>',
        ]
        y += 20
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="620" height="{y + 8}" role="img" '
        'font-family="sans-serif" font-size="12"><title>Seconds per job, logarithmic</title>'
    )
    return "\n".join([head, *lines, "</svg>", ""])


def main() -> None:
    """Measure, and write the table and the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000, 100_000_000])
    parser.add_argument("--peers", help="a Python with opendp[polars] and diffprivlib")
    parser.add_argument("--smartnoise", help="a Python with smartnoise-sql")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=300, help="seconds for one run")
    parser.add_argument("--to", type=Path, default=RESULTS)
    parser.add_argument("--only", nargs="+", choices=list(JOBS), default=list(JOBS))
    parser.add_argument("--one", choices=list(JOBS), help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        run_here(chosen.one, chosen.path)
        return
    pythons = {"opendp": chosen.peers, "diffprivlib": chosen.peers, "smartnoise": chosen.smartnoise}
    jobs = {
        j: pythons.get(j, sys.executable) for j in chosen.only if pythons.get(j, sys.executable)
    }
    import payroll
    from peak import control_line

    memory = control_line()
    found: dict[int, dict[str, Figures]] = {}
    slow: dict[str, str] = {}
    for rows in sorted(chosen.rows):
        path, found[rows] = payroll.cached(rows), {}
        for job, python in jobs.items():
            figures = slow.get(job) or measured(python, job, path, chosen.repeats, chosen.limit)
            if job not in slow and isinstance(figures, str) and figures.startswith("more than"):
                slow[job] = f"more than {chosen.limit:.0f} s with {rows:,} rows: not tried"
            found[rows][job] = figures
            print(f"{rows:>12,}  {job:12}", figures, file=sys.stderr, flush=True)
    versions = {
        job: f["version"] for figures in found.values() for job, f in figures.items()
        if isinstance(f, dict) and f["version"]
    }  # fmt: skip
    lines = [
        "# Speed",
        "",
        (
            f"Made by `benchmarks/speed.py` in one run: {platform.machine()}, {os.cpu_count()} processors, "
            f"Python {platform.python_version()}; load average {os.getloadavg()[1]:.1f} meanwhile. "
            f"Best of the runs; what each job does is in the script's first lines. {memory} Versions: "
            + ", ".join(f"{job} {version}" for job, version in versions.items())
            + "."
        ),
        "",
        *wishes(found),
        *(line for rows, figures in found.items() for line in table(rows, figures)),
    ]
    chosen.to.mkdir(parents=True, exist_ok=True)
    (chosen.to / "speed.md").write_text("\n".join(lines), encoding="utf-8")
    (chosen.to / "speed.svg").write_text(picture(found), encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
