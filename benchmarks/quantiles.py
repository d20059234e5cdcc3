"""How far from their ranks are quantiles, chosen together and one by one?

300 ages (normal, 45 +- 18, in whole years of 0 to 120), or 1,000 amounts of a range that is far too wide;
epsilon 1, one row added or removed. The planner's own plan is drawn by the system's generator, on several
made-up tables. "One by one" asks the same library for a single choice each, at an equal part of epsilon. "Prototype"
is the recursion of Kaplan, Schnapp & Stemmer in floats (`prototypes.py`), its rows spread over their steps by noise.

    rank error   rows between the target and the nearest rank that the value has, mean over quantiles and draws

    python benchmarks/quantiles.py           # writes results/quantiles.md
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.append(str(Path(__file__).parent))
from prototypes import recursive_quantiles

from dprelease.audit.answers import answer_of, cells_of
from dprelease.engines.reference import ReferenceEngine
from dprelease.entropy import SystemBits
from dprelease.measurements.draw import draw_from_json
from dprelease.planning.make import make_plan
from dprelease.query.load import Schema
from dprelease.query.merge import merge_release
from dprelease.query.spec import resolve
from dprelease.release_plan.plan import ReleasePlan

Floats = np.ndarray[Any, np.dtype[np.float64]]
WORLDS: dict[str, tuple[int, int, float]] = {
    "3 quartiles of 300 ages": (3, 120, 1.1),
    "9 deciles of 300 ages": (9, 120, 4.0),
    "19 quantiles of 300 ages": (19, 120, 8.0),
    "median of 1,000 amounts, range 0 to 50,000,000, median near 30,443": (1, 50_000_000, 5.0),
}
"""Quantiles, the column's greatest value, the largest acceptable mean rank error."""
MORE: dict[str, tuple[int, int, None]] = {
    "39 quantiles of 300 ages": (39, 120, None),
    "3 quartiles of 1,000 amounts, the same range": (3, 50_000_000, None),
    "19 quantiles of 1,000 amounts, the same range": (19, 50_000_000, None),
}
"""The same without a goal."""


def table(most: int, seed: int) -> Floats:
    pick = np.random.default_rng(seed)
    if most > 1000:
        return np.clip(np.round(np.exp(pick.normal(np.log(30_443), 0.6, 1000))), 0, most)
    return np.clip(np.round(pick.normal(45, 18, 300)), 0, most)


def planned(shares: list[str], most: int, rows: int, *, alone: bool) -> ReleasePlan:
    asked = [
        {"statistic": f"quantile(x, {p})", "as": f"q{i}"}
        | ({"share": 1 / len(shares)} if alone else {})
        for i, p in enumerate(shares)
    ]
    schema = Schema.from_dict(
        {
            "dprelease": "schema/1",
            "name": "quantiles",
            "unit": "row",
            "adjacency": "add_remove",
            "rows": {"expected": rows},
            "columns": {"x": {"kind": "integer", "range": [0, most]}},
            "release": {"epsilon": 1, "statistics": asked},
        }
    )
    return make_plan(resolve(schema, merge_release(schema)))


def rank_error(plan: ReleasePlan, shares: list[str], x: Floats, draws: int) -> float:
    """Return the mean rank error over `draws` of the plan's blocks."""
    exact = cells_of(plan, answer_of(plan, pa.table({"x": x}), ReferenceEngine()))
    by_name = {f"q{i}": float(p) for i, p in enumerate(shares)}
    found: list[float] = []
    for block, cells in zip(plan.blocks, exact, strict=True):
        draw = draw_from_json(block.law)
        values = draw.cells(draw.draw(np.repeat(cells, draws, axis=0), SystemBits()))
        of_block = [s for s in plan.statistics if s.block == block.name]
        found += [missed(x, values[:, s.view or 0], by_name[s.name]) for s in of_block]
    return float(np.mean(found))


def missed(x: Floats, chosen: Floats, share: float) -> float:
    """Return the mean rows between a target and the nearest rank that the values chosen for it have."""
    ordered, target = np.sort(x), share * x.size
    below = np.searchsorted(ordered, chosen, "left")
    upto = np.searchsorted(ordered, chosen, "right")
    return float(np.maximum(0, np.maximum(below - target, target - upto)).mean())


def recursive(x: Floats, shares: list[str], most: int, draws: int, seed: int) -> float:
    """Return the same of the float prototype, on rows spread over their steps, its values rounded."""
    spread = x + np.random.default_rng(seed).uniform(-0.5, 0.5, x.size)
    wanted = [float(s) for s in shares]
    drawn = np.round(recursive_quantiles(spread, wanted, (-0.5, most + 0.5), 1.0, draws, seed))
    return float(np.mean([missed(x, drawn[:, i], s) for i, s in enumerate(wanted)]))


def row(name: str, tables: int, draws: int) -> str:
    many, most, goal = (WORLDS | MORE)[name]
    shares = [f"{i / (many + 1):.3g}" for i in range(1, many + 1)]
    measured = []
    for alone in (False, True) if goal else (False,):
        errors = []
        for seed in range(tables):
            x = table(most, seed)
            plan = planned(shares, most, x.size, alone=alone and many > 1)
            errors.append(rank_error(plan, shares, x, draws))
        measured.append((float(np.mean(errors)), plan.blocks[0].family))
    mine, family = measured[0]
    apart = f"{measured[1][0]:.2f}" if goal else ""
    asked, kept = (f"{goal:g}", "yes" if mine <= goal else "no") if goal else ("", "")
    halves = [recursive(table(most, seed), shares, most, draws, seed) for seed in range(tables)]
    return (
        f"| {name} | {family} | {asked} | {mine:.2f} | {kept} | {apart} | {np.mean(halves):.2f} |"
    )


def main() -> None:
    """Print the table and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--tables", type=int, default=5)
    parser.add_argument("--draws", type=int, default=100)
    chosen = parser.parse_args()
    lines = [
        f"Epsilon 1, one row added or removed, {chosen.tables} tables, {chosen.draws} draws of each.",
        "",
        "| quantiles | measured as | goal, rows | mean rank error | kept | one by one | prototype, in floats |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in WORLDS | MORE:
        lines.append(row(name, chosen.tables, chosen.draws))
        print(lines[-1], flush=True)
    (chosen.to / "quantiles.md").write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
