"""How accurate is a release of a payroll of ten million people, and does it stay in its domains?

By region (47 with some 212,000 people, three with 40, 12 and 3): count, mean age, mean salary and
variance of the salary, total epsilon 1, one row added or removed. The exact integers are computed
once; then the release is drawn many times through the wall, from the operating system's generator.

    relative RMSE   root of the mean squared error over draws, over the true value of the clamped
                    data; pooled over the large regions (root of the mean square) and the worst one
    outside         published values outside their domain, all regions, the tiny ones apart

    python benchmarks/accuracy.py            # 10 million rows, 200 draws; writes results/accuracy.md
    python benchmarks/accuracy.py --goals    # every goal of accuracy: goal | measured | kept; results/goals.md
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.source import file_source
from dprelease.planning.make import make_plan
from dprelease.query.load import Schema
from dprelease.query.merge import merge_release
from dprelease.query.spec import resolve
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.draw import assemble
from dprelease.wall import execute

STATISTICS = ["count", "mean(age)", "mean(salary)", "variance(salary)"]
TARGETS = {"mean_age": 0.0002, "mean_salary": 0.0005, "variance_salary": 0.01}
"""Largest acceptable relative RMSE over the large regions."""

ENDS = {
    "count": (0, 10**9),
    "mean_age": (0, 120),
    "mean_salary": (0, 500_000),
    "variance_salary": (0, 250_000**2),
}
"""Each domain as the payroll is declared, written down once more: the library's own are under test."""


def beside(script: str) -> Any:
    """Return the script of that name in this folder, as a module."""
    name = f"benchmark_{script}"
    if name not in sys.modules:
        path = Path(__file__).with_name(f"{script}.py")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def payroll() -> Any:
    """Return the generator beside this script."""
    return beside("payroll")


def planned(epsilon: object = 1, statistics: object = None) -> ReleasePlan:
    """Return the plan: a function of the declaration alone."""
    declared = {
        **payroll().SCHEMA,
        "release": {"epsilon": epsilon, "by": ["region"], "statistics": statistics or STATISTICS},
    }
    schema = Schema.from_dict(declared)
    plan = make_plan(resolve(schema, merge_release(schema)))
    execute.check(plan)
    return plan


def truth(path: Path, plan: ReleasePlan) -> dict[str, np.ndarray[Any, Any]]:
    """Return the exact statistics per region, by a road of their own: plain SQL over integers."""
    found = duckdb.sql(
        "SELECT region, COUNT(*), SUM(age::BIGINT), SUM(salary::BIGINT), "
        f"SUM(salary::HUGEINT * salary) FROM '{path}' GROUP BY region"
    ).fetchall()
    rows = {row[0]: row[1:] for row in found}
    keys = [key[0] for key in plan.keys]
    n, age, pay, square = (
        np.array([int(rows[k][i]) for k in keys], dtype=object) for i in range(4)
    )
    return {
        "count": n.astype(float),
        "mean_age": (age / n).astype(float),
        "mean_salary": (pay / n).astype(float),
        "variance_salary": ((n * square - pay * pay) / (n * n)).astype(float),
    }


def measure(path: Path, draws: int) -> tuple[ReleasePlan, dict[str, Any]]:
    """Return per statistic: relative RMSE per region, values outside the domain, coverage."""
    plan = planned()
    engine = DuckDBEngine()
    source = file_source("parquet", path)
    engine.preflight(source, plan.query)
    start = time.perf_counter()
    exact = engine.compute(source, plan.query, b"\0" * 32)  # row units: the salt chooses nothing
    seconds = time.perf_counter() - start
    true = truth(path, plan)
    groups, width = len(plan.keys), len(plan.statistics)
    squares = np.zeros((groups, width))
    outside = np.zeros((groups, width), dtype=int)
    covered = np.zeros((groups, width))
    truths = np.stack([true[s.name] for s in plan.statistics], axis=1)
    for _ in range(draws):
        cells = execute.draw(plan, exact)
        table = assemble(plan.by, plan.keys, plan.statistics, plan.blocks, cells)
        value, lower, upper, fitted = (
            table.column(name).to_numpy().reshape(groups, width)
            for name in ("value", "lower", "upper", "consistent")
        )
        squares += (value - truths) ** 2
        covered += (lower <= truths) & (truths <= upper)
        for i, statistic in enumerate(plan.statistics):
            low, high = ENDS[statistic.name]  # of the declaration, compared by hand
            outside[:, i] += ~((low <= value[:, i]) & (value[:, i] <= high))
            outside[:, i] += ~((low <= fitted[:, i]) & (fitted[:, i] <= high))
    relative = np.sqrt(squares / draws) / truths
    return plan, {
        "seconds": seconds,
        "relative": relative,
        "outside": outside,
        "coverage": covered / draws,
        "truth": truths,
    }


def report(plan: ReleasePlan, found: dict[str, Any], rows: int, draws: int) -> list[str]:
    """Return the lines of the result table."""
    tiny = np.array([key[0].startswith("tiny") for key in plan.keys])
    lines = [
        (
            f"{rows:,} rows, {len(plan.keys)} regions, epsilon {float(plan.epsilon):g} in total, "
            f"one row added or removed, {draws} draws; exact integers in {found['seconds']:.1f} s."
        ),
        "",
        (
            "| statistic | epsilon | mechanism | relative RMSE, large regions pooled | worst of them "
            "| target | covered by its 95 % interval | outside the domain, large / tiny |"
        ),
        "|---|---|---|---|---|---|---|---|",
    ]
    for i, statistic in enumerate(plan.statistics):
        block = plan.block(statistic.block)
        shared = sum(s.block == block.name for s in plan.statistics) > 1
        big = found["relative"][~tiny, i]
        target = TARGETS.get(statistic.name)
        outside = found["outside"][:, i]
        lines.append(
            f"| {statistic.text} | {float(block.epsilon):.4g}{' shared' if shared else ''} "
            f"| {statistic.mechanism} | {np.sqrt((big**2).mean()):.4%} | {big.max():.4%} "
            f"| {'' if target is None else f'{target:.2%}'} "
            f"| {found['coverage'][~tiny, i].mean():.1%} "
            f"| {outside[~tiny].sum()} / {outside[tiny].sum()} |"
        )
    lines += [
        "",
        "Tiny regions, relative RMSE: "
        + "; ".join(
            f"{key[0]} "
            + ", ".join(
                f"{s.text} {found['relative'][g, i]:.0%}" for i, s in enumerate(plan.statistics)
            )
            for g, key in enumerate(plan.keys)
            if tiny[g]
        )
        + ".",
        "",
    ]
    return lines


def goals(folder: Path, items: list[int]) -> None:
    """Measure every goal (or those of `items`), print it as it is known, and write the table down."""
    script = beside("goals")
    found = []
    for goal in script.measured(items=items):
        found.append(goal)
        print(goal, flush=True)
    page = folder / "goals.md"
    before = page.read_text(encoding="utf-8") if items and page.exists() else ""
    page.write_text("\n".join(script.lines(found, before)), encoding="utf-8")


def main() -> None:
    """Print the table and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--goals", action="store_true", help="the table of goals alone")
    parser.add_argument(
        "--items", type=int, nargs="*", default=[], help="goals of these items only"
    )
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "results")
    chosen = parser.parse_args()
    chosen.to.mkdir(parents=True, exist_ok=True)
    goals(chosen.to, chosen.items)
    if chosen.goals:
        return
    plan, found = measure(payroll().cached(chosen.rows), chosen.draws)
    lines = ["# Accuracy of a payroll release", "", *report(plan, found, chosen.rows, chosen.draws)]
    text = "\n".join(lines)
    print(text)
    (chosen.to / "accuracy.md").write_text(text + "Made by `python benchmarks/accuracy.py`.\n")


if __name__ == "__main__":
    main()
