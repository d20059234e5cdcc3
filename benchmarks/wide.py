"""Does the cost grow no faster than what is released? Groups, statistics and grid points.

    groups       10^3, 10^4, 10^5 public groups, each with count, two means and a variance: a whole
                 run of a pipeline (plan, charge, scan, draw, Great Expectations, all files,
                 publication), stage by stage, then `verify` of the folder
    statistics   100, 300, 1,000 statistics (half sums, half means) over 500 columns: one whole run
    grid         an output grid of 10^4, 10^5, 10^6 points: calibration with its certificate, and
                 10,000 draws, for every mechanism that takes the grid; then the same with a gap. Bounded
                 Gaussian noise refuses gaps much wider than itself (DPR627); bounded Laplace noise
                 is drawn there by inversion

Every measurement is a process of its own. Times are processor seconds of the process (all its
threads), so that other work on the machine does not count; imports are counted apart. The tables
are made up.

    python benchmarks/wide.py            # prints all three, writes results/wide.md
    python benchmarks/wide.py --only groups
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent))

from peak import control_line, peak_bytes

RESULTS = Path(__file__).parent / "results"
GROUPS = (1_000, 10_000, 100_000)
STATISTICS = (100, 300, 1_000)
POINTS = (10_000, 100_000, 1_000_000)
GAPS = {0.0: "one interval", 0.001: "a gap of a thousandth", 0.2: "a gap of a fifth"}
ROWS = 1_000_000
COLUMNS = 500
STAGES = (
    "imports",
    "plan",
    "charge",
    "scan",
    "draw",
    "companions",
    "validate",
    "encode",
    "publish",
    "verify",
)


class Clock:
    """Processor seconds by stage; a stage inside another one counts as its own only."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self._open: list[str] = []
        self._since = time.process_time()

    def _pass(self) -> None:
        now = time.process_time()
        self.spent[self._open[-1] if self._open else "rest"] += now - self._since
        self._since = now

    def around(self, stage: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return `call` with its time added to `stage`."""

        def timed(*args: Any, **named: Any) -> Any:
            self._pass()
            self._open.append(stage)
            try:
                return call(*args, **named)
            finally:
                self._pass()
                self._open.pop()

        return timed

    def watch(self, stage: str, owner: object, *names: str) -> None:
        """Time the functions `names` of a module or class from now on."""
        for name in names:
            setattr(owner, name, self.around(stage, getattr(owner, name)))


def run_watched(pipeline: Path) -> dict[str, float]:
    """Run a pipeline once and verify what it published; return seconds by stage."""
    gc.set_threshold(50_000, 20, 100)  # as the command does
    clock = Clock()
    run, flow, preflight, stages, writing, execute, engine, verification = clock.around(
        "imports", _modules
    )()
    config = run.load_pipeline(pipeline)
    run.init_ledger(config)
    clock.watch("plan", run, "load_pipeline", "plan_pipeline")
    clock.watch("charge", run, "_charge", "_open_ledger")
    clock.watch("scan", preflight, "preflight")
    clock.watch("scan", engine.DuckDBEngine, "compute")
    clock.watch("draw", execute, "draw")
    clock.watch("companions", stages, "assemble")
    clock.watch("imports", preflight, "require_validator")
    clock.watch("validate", stages, "validated")
    clock.watch("encode", writing, "bundle")
    clock.watch("encode", stages, "spent_at", "commit")
    clock.watch("publish", flow, "publish_files")
    whole = time.process_time()
    result = clock.around("publish", run.run)(pipeline)
    whole = time.process_time() - whole
    if not clock.around("verify", verification.verify)(result.folder).ok:
        raise SystemExit("what was published does not verify")
    files = sum(result.files.values())
    return {**clock.spent, "run": whole, "bytes": files, "peak": peak_bytes() / 2**20}


def _modules() -> tuple[Any, ...]:
    import great_expectations  # noqa: F401 - what it costs to import is not a stage's

    from dprelease.engines import duckdb
    from dprelease.pipeline import files as writing
    from dprelease.pipeline import flow, preflight, run, stages
    from dprelease.results.validate import gx  # noqa: F401 - nor this
    from dprelease.verification import verify as verification
    from dprelease.wall import execute

    return run, flow, preflight, stages, writing, execute, duckdb, verification


def groups_pipeline(folder: Path, groups: int) -> Path:
    """Write a table, its schema and a pipeline with `groups` public keys; return the pipeline."""
    areas, kinds = groups // 10, 10
    random = np.random.Generator(np.random.Philox(20_260_101))
    pq.write_table(
        pa.table(
            {
                "area": np.char.add("a", random.integers(0, areas, ROWS).astype(str)).tolist(),
                "kind": np.char.add("k", random.integers(0, kinds, ROWS).astype(str)).tolist(),
                "age": random.integers(0, 121, ROWS),
                "salary": random.integers(0, 500_001, ROWS),
            }
        ),
        folder / "rows.parquet",
    )
    columns = {
        "area": {"kind": "category", "values": [f"a{i}" for i in range(areas)]},
        "kind": {"kind": "category", "values": [f"k{i}" for i in range(kinds)]},
        "age": {"kind": "integer", "measure": "years", "range": [0, 120]},
        "salary": {"kind": "integer", "measure": "EUR", "range": [0, 500_000]},
    }
    wanted = ["count", "mean(age)", "mean(salary)", "variance(salary)"]
    return _pipeline(folder, columns, ["area", "kind"], wanted)


def statistics_pipeline(folder: Path, statistics: int) -> Path:
    """Write a table of 500 columns and a pipeline of `statistics` sums and means of them."""
    random = np.random.Generator(np.random.Philox(20_260_102))
    names = [f"c{i:03}" for i in range(COLUMNS)]
    table = {name: random.integers(0, 101, ROWS // 100, dtype=np.int16) for name in names}
    pq.write_table(pa.table(table), folder / "rows.parquet")
    columns = {name: {"kind": "integer", "measure": "points", "range": [0, 100]} for name in names}
    half = statistics // 2
    wanted = [f"sum({n})" for n in names[:half]] + [f"mean({n})" for n in names[-half:]]
    return _pipeline(folder, columns, [], wanted)


def _pipeline(folder: Path, columns: dict[str, Any], by: list[str], wanted: list[str]) -> Path:
    schema = {
        "dprelease": "schema/1",
        "name": "wide",
        "unit": "row",
        "adjacency": "add_remove",
        "rows": {"max": 10_000_000, "expected": 1_000},
        "columns": columns,
        "release": {"epsilon": 1, "by": by, "statistics": wanted},
    }
    pipeline = {
        "dprelease": "pipeline/1",
        "name": "wide",
        "source": {"parquet": "rows.parquet"},
        "schema": "schema.yaml",
        "engine": "duckdb",
        "budget": {"ledger": "ledger.db", "dataset": "wide", "epsilon": 1},
        "publish": {"to": "public", "formats": ["parquet", "csv", "html"]},
    }
    (folder / "schema.yaml").write_text(json.dumps(schema), encoding="utf-8")  # JSON is YAML
    path = folder / "wide.yaml"
    path.write_text(json.dumps(pipeline), encoding="utf-8")
    return path


MAKERS = {"groups": groups_pipeline, "statistics": statistics_pipeline}


def one_grid(points: int, gap: float) -> list[dict[str, Any]]:
    """Return each mechanism's seconds to calibrate and certify, and of 10,000 draws, on one grid.

    Args:
        gap: its width as a share of the grid; 0 for none.
    """
    from dprelease.core import registry
    from dprelease.core.entropy import SystemBits
    from dprelease.core.errors import ArgumentError
    from dprelease.mechanisms.law import GridRequest, family_laws
    from dprelease.schema.domain import GridSet

    top = points - 1
    wide = int(top * gap)
    runs = [(0, top * 2 // 5), (top * 2 // 5 + wide, top)] if gap else [(0, top)]
    allowed = GridSet.from_runs(runs)
    answers = np.linspace(0, top, 10_000).astype(np.int64)
    found = []
    for point_masses in (True, False):
        request = GridRequest(allowed, points // 1_000, Fraction(1), point_masses=point_masses)
        for family in registry.names("mechanisms"):
            start = time.process_time()
            try:
                laws = list(family_laws(request, family))
            except ArgumentError as refusal:
                made = time.process_time() - start
                found.append(
                    {
                        "law": family,
                        "point masses": point_masses,
                        "refused": refusal.code,
                        "made": made,
                    }
                )
                continue
            for law in laws:
                law.expected_error()
                law.certify()
            made = time.process_time() - start
            for law in laws:
                start = time.process_time()
                law.draw_raw(answers, SystemBits())
                drawn = time.process_time() - start
                found.append(
                    {"law": law.family, "point masses": point_masses, "made": made, "drawn": drawn}
                )
    return found


def apart(*arguments: str) -> Any:
    """Return what this script prints, as JSON, when it is run in a process of its own."""
    command = [sys.executable, "-W", "ignore", __file__, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def measured(kind: str, size: int) -> dict[str, float]:
    """Return seconds by stage of one whole run of a size."""
    with tempfile.TemporaryDirectory(prefix="dprelease-wide-") as name:
        path = MAKERS[kind](Path(name), size)
        return dict(apart("--one", str(path)))


def stage_table(kind: str, unit: str, sizes: Iterable[int]) -> list[str]:
    """Return the Markdown lines of whole runs, one column per size."""
    found = {size: measured(kind, size) for size in sizes}
    heads = " | ".join(f"{size:,}" for size in found)
    lines = [f"| {kind} | {heads} |", "|---|" + "---|" * len(found)]
    lines += [
        f"| {stage}, s | " + " | ".join(f"{f.get(stage, 0):.2f}" for f in found.values()) + " |"
        for stage in STAGES
    ]
    beyond = {n: f["run"] - f["scan"] for n, f in found.items()}
    lines.append(
        "| **run without the scan, s** | " + " | ".join(f"{b:.2f}" for b in beyond.values()) + " |"
    )
    lines.append(
        f"| per {unit}, ms | " + " | ".join(f"{1000 * b / n:.3f}" for n, b in beyond.items()) + " |"
    )
    lines.append(
        "| files, MB | " + " | ".join(f"{f['bytes'] / 2**20:.1f}" for f in found.values()) + " |"
    )
    lines.append(
        "| peak memory, MB | " + " | ".join(f"{f['peak']:,.0f}" for f in found.values()) + " |"
    )
    return lines


def grid_table(sizes: Iterable[int]) -> list[str]:
    """Return the Markdown lines of the grid laws."""
    lines = [
        "| grid | points | mechanism | calibrate and certify, s | 10,000 draws, s |",
        "|---|---|---|---|---|",
    ]
    for gap, words in GAPS.items():
        for size in sizes:
            for row in apart("--grid", str(size), "--gap", str(gap)):
                shape = words + ("" if row["point masses"] else ", no point masses")
                drawn = f"refused: {row['refused']}" if "refused" in row else f"{row['drawn']:.2f}"
                lines.append(
                    f"| {shape} | {size:,} | `{row['law']}` | {row['made']:.2f} | {drawn} |"
                )
    return lines


def main() -> None:
    """Measure and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("groups", "statistics", "grid"))
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--grid", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--gap", type=float, default=0.0, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(run_watched(chosen.one)))
        return
    if chosen.grid:
        print(json.dumps(one_grid(chosen.grid, chosen.gap)))
        return
    parts = {
        "groups": ("Many groups", lambda: stage_table("groups", "group", GROUPS)),
        "statistics": (
            "Many statistics",
            lambda: stage_table("statistics", "statistic", STATISTICS),
        ),
        "grid": ("Large grids", lambda: grid_table(POINTS)),
    }
    lines = ["# Wide and many", ""]
    said = "Processor seconds, made by `python benchmarks/wide.py`, which explains the stages."
    lines += [f"{said} {control_line()}", ""]
    for name, (title, make) in parts.items():
        if chosen.only in (None, name):
            lines += [f"## {title}", "", *make(), ""]
    print("\n".join(lines))
    if chosen.only is None:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "wide.md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
