"""How much of a finest table says something, with and without `detail`: writes results/detail.md.

Run it: python benchmarks/detail.py [DRAWS]. The flights of 2013 in six tables at one epsilon
(schemas/flights_tables.yaml); their exact cells are summed once and every draw is a release's own, by the
wall. A number is *uninformative* here if its interval holds 0: it does not say that there is a flight.
Groups that can hold none are left aside. Exact sums are read to count coverage: nothing is published.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

import dprelease as dp
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.source import file_source
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.fitted import noised_of
from dprelease.results.receipt import Receipt
from dprelease.statistics.exact import exact_cells
from dprelease.wall import execute

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "benchmarks" / "results" / "detail.md"
DATA = ROOT / "examples" / "data" / "flights_nyc_2013.parquet"
SCHEMA = ROOT / "schemas" / "flights_tables.yaml"
TABLE, COLUMN = "months", "flights"
RELATIVE = {"statistic": COLUMN, "max_relative_error": 0.2, "levels": ["routes", "quarters"]}
CASES: dict[str, dict[str, Any] | None] = {
    "every cell": None,
    "20 %, one route at one of three levels": RELATIVE,
    "the same, a tenth of ε for sizes": {**RELATIVE, "share": 0.1},
    "25 %": {**RELATIVE, "max_relative_error": 0.25},
    "20 %, one quarter at one of two levels": {**RELATIVE, "levels": ["quarters"]},
    "public errors: at most 20 flights": {
        "statistic": COLUMN, "max_error": 20, "levels": ["routes", "quarters"],
    },
}  # fmt: skip


def planned(detail: Mapping[str, Any] | None) -> ReleasePlan:
    tables = yaml.safe_load(SCHEMA.read_text())["release"]["tables"]
    tables[-1].pop("detail")
    if detail is not None:
        tables[-1]["detail"] = dict(detail)
    return dp.plan(SCHEMA, tables=tables)


def truths(plan: ReleasePlan, exact: execute.Exact) -> dict[str, np.ndarray]:
    """Return the exact cells of every table."""
    assert plan.tables is not None
    block = next(b for b in plan.blocks if b.table == TABLE)
    measurement = block.measurement
    answer = exact.reveal_to_mechanism()
    groups = exact_cells(measurement, measurement.primitives, answer, len(plan.keys))[:, 0].astype(
        int
    )
    return {
        t.name: np.bincount(t.of, groups, minlength=len(t.keys)).astype(int)
        for t in plan.tables.tables
    }


def measured(plan: ReleasePlan, draws: int) -> dict[str, Any]:
    """Draw the plan many times; return what its finest table says."""
    assert plan.tables is not None
    exact = DuckDBEngine().compute(file_source("parquet", str(DATA)), plan.query, b"benchmark")
    known = truths(plan, exact)
    alive = {t.name: np.isin(np.arange(len(t.keys)), t.of) for t in plan.tables.tables}
    mute, rows, covered, relative = [], [], [], []
    levels: dict[str, list[int]] = {}
    for _ in range(draws):
        part = noised_of(plan, execute.draw(plan, exact), Receipt("0", "0", "")).parts[TABLE]
        places = part.rows or tuple((TABLE, i) for i in range(len(known[TABLE])))
        live = np.array([alive[table][cell] for table, cell in places])
        truth = np.array([known[table][cell] for table, cell in places])[live]
        value, low, high = (
            part.table[name].to_numpy()[live] for name in ("value", "lower", "upper")
        )
        assert int(part.table["value"].to_numpy().sum()) == int(value.sum())
        mute.append(float((low <= 0).mean()))
        rows.append(int(live.sum()))
        covered.append(float(((low <= truth) & (truth <= high)).mean()))
        relative.append(float(np.median(np.abs(value - truth) / np.maximum(truth, 1))))
        for name in dict.fromkeys(table for table, _ in places):
            here = sum(
                1 for (table, _), kept in zip(places, live, strict=True) if kept and table == name
            )
            levels.setdefault(name, []).append(here)
    error = float(np.std(covered)) / draws**0.5
    return {
        "mute": float(np.mean(mute)), "most": max(mute), "rows": float(np.mean(rows)),
        "covered": float(np.mean(covered)), "error": error, "relative": float(np.mean(relative)),
        "levels": {name: sum(n) / draws for name, n in levels.items()},
        "sd": next(s.planned_error for s in plan.statistics if s.table == TABLE),
    }  # fmt: skip


SHIPPED = "the same, a tenth of ε for sizes"
"""The case of schemas/flights_tables.yaml."""


def goals(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return what was asked of `detail`, beside what was measured."""
    plain, shipped = found["every cell"], found[SHIPPED]
    least = min(found.values(), key=lambda one: one["covered"] + 3 * one["error"])
    covered = least["covered"] + 3 * least["error"]
    rows = [
        ("uninformative cells by month without `detail`", "about 30 %", f"{plain['mute']:.1%}", ""),
        (
            "uninformative rows of the shipped example, `detail` at a tenth of ε, on average",
            "at most 5 %", f"{shipped['mute']:.1%}", _kept(shipped["mute"] <= 0.05),
        ),
        (
            "the same, the worst of all draws",
            "at most 5 %", f"{shipped['most']:.1%}", _kept(shipped["most"] <= 0.05),
        ),
        (
            "coverage of intervals: the least of any line, plus three standard errors",
            "at least 0.95", f"{covered:.4f}", _kept(covered >= 0.95),
        ),
    ]  # fmt: skip
    head = ["| goal | asked | measured | kept |", "| --- | --- | --- | --- |"]
    return [*head, *(f"| {' | '.join(row)} |" for row in rows), ""]


def _kept(yes: bool) -> str:
    return "yes" if yes else "**no**"


def main(draws: int) -> None:
    head = [
        "# How much of a finest table says something",
        "",
        f"Written by `benchmarks/detail.py`: flights by airline, airport and month at ε = 4 in all, {draws} draws of each line.",
        f"Python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}.",
        "*Uninformative*: the interval holds 0. Groups that can hold no flight are left aside. The exact numbers are those of the bounded rows.",
        "",
    ]
    lines = [
        "| `detail` of the table by month | uninformative | at most, of all draws | rows | at routes, quarters, months | coverage | s.e. | planned error of a month | median relative error |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    every = {}
    for name, detail in CASES.items():
        every[name] = found = measured(planned(detail), draws)
        levels = ", ".join(
            f"{found['levels'].get(t, 0):.0f}" for t in ("routes", "quarters", TABLE)
        )
        lines.append(
            f"| {name} | {found['mute']:.1%} | {found['most']:.1%} | {found['rows']:.0f} | {levels}"
            f" | {found['covered']:.4f} | {found['error']:.4f} | {found['sd']:.1f} | {found['relative']:.1%} |"
        )
        print(lines[-1], flush=True)
    PAGE.write_text("\n".join([*head, *goals(every), *lines]) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
