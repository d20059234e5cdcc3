"""What small cells do to a sparse release, by gap, plain thresholding and `rules`: writes results/rules.md.

Run it: python benchmarks/rules.py [RELEASES]. A release shaped like Wikimedia's daily views of pages: 300,000 declared
cells, threshold 90, epsilon 1, ten pages per person and day. The cells are made here: most have a few rows, a thousandth
has hundreds (a power law with exponent 1.45, cut at 100,000). Every draw is by the plan's own law; exact numbers are read to
judge, and nothing is published.

    gap          0 or at least 90: a noisy 45 is moved up to 90 (`domain: {forbidden: [[0, 90]]}`)
    threshold    the same noise as the rule's, every number from 90 on published with its usual 95 % interval
    rules        `suppress: {below: 90}, sparse: true`
"""

from __future__ import annotations

import platform
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import dprelease as dp
from dprelease.core.entropy import SystemBits
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.fitted import noised_of
from dprelease.results.receipt import Receipt

PAGE = Path(__file__).parent / "results" / "rules.md"
CELLS, BELOW, PAGES = 300_000, 90, 10
TOP = 100_000


def cells(seed: int) -> np.ndarray:
    """Return the exact numbers of rows, `(CELLS,)`."""
    rng = np.random.default_rng(seed)
    return np.minimum(np.floor(rng.random(CELLS) ** (-1 / 1.45)) - 1, TOP).astype(np.int64)


def planned(domain: dict[str, object] | None, rules: dict[str, object] | None) -> ReleasePlan:
    """Return the plan of a day."""
    count = {"statistic": "count", **({} if domain is None else {"domain": domain})}
    return dp.plan(
        {
            "dprelease": "schema/1",
            "name": "views",
            "unit": {"user": "person", "max_groups": PAGES, "max_rows_per_group": 1},
            "adjacency": "add_remove",
            "rows": {"max": TOP, "expected": 5},
            "columns": {
                "page": {"kind": "category", "values": [f"p{i}" for i in range(CELLS)]},
                "person": {"kind": "identifier"},
            },
            "release": {
                "epsilon": 1,
                "by": ["page"],
                "statistics": [count],
                **({} if rules is None else {"rules": rules}),
            },
        }
    )


def released(plan: ReleasePlan, exact: np.ndarray) -> pa.Table:
    """Return what one release shows of these cells."""
    block = plan.blocks[0]
    raw = block.law.draw(exact.astype(object)[:, None], SystemBits())
    drawn = {block.name: tuple(map(tuple, raw.tolist()))}
    return noised_of(plan, drawn, Receipt("1", "0", "")).table


def judged(table: pa.Table, exact: np.ndarray, published: np.ndarray) -> tuple[float, ...]:
    """Return (published, share truly below, share of intervals that miss, mean |error|, mean width) of the published cells."""
    value, low, high = (
        table.column(name).to_numpy(zero_copy_only=False)[published]
        for name in ("value", "lower", "upper")
    )
    truth = exact[published]
    return (
        float(len(truth)),
        float((truth < BELOW).mean()),
        float(((truth < low) | (high < truth)).mean()),
        float(np.abs(value - truth).mean()),
        float((high - low).mean()),
    )


def main() -> None:
    """Measure and write the page."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    rule = {"suppress": {"below": BELOW}, "sparse": True}
    gap = planned({"range": [0, TOP], "forbidden": [[0, BELOW]]}, None)
    plain, ruled = planned(None, None), planned(None, rule)
    assert plain.blocks == ruled.blocks
    found: dict[str, list[tuple[float, ...]]] = {"gap": [], "threshold": [], "rules": []}
    covered, seconds = [], []
    for i in range(times):
        exact = cells(i)
        table = released(gap, exact)
        found["gap"].append(judged(table, exact, table.column("value").to_numpy() >= BELOW))
        table = released(plain, exact)
        found["threshold"].append(judged(table, exact, table.column("value").to_numpy() >= BELOW))
        begun = time.process_time()
        table = released(ruled, exact)
        seconds.append(time.process_time() - begun)
        status = np.array(table.column("status").to_pylist())
        found["rules"].append(judged(table, exact, status != "suppressed"))
        low, high = (table.column(name).to_numpy() for name in ("lower", "upper"))
        covered.append(float(((low <= exact) & (exact <= high)).mean()))
    lines = [
        "# Small cells: a gap, a threshold, rules",
        "",
        f"Made by `benchmarks/rules.py` in one run: {platform.machine()}, Python {platform.python_version()}; the means of {times} releases.",
        (
            f"{CELLS:,} cells, of which {np.mean([(cells(i) >= BELOW).sum() for i in range(times)]):,.0f} have {BELOW} rows or more; epsilon 1,"
            f" {PAGES} pages per person and day ({ruled.blocks[0].mechanism}, error ±{plain.statistics[0].planned_error:.3g} rows)."
        ),
        "",
        "| way | published | truly below the threshold | intervals of published cells that miss | mean error of published cells, rows | mean width of their intervals |",
        "|---|---|---|---|---|---|",
    ]
    for way, rows in found.items():
        count, below, miss, error, width = np.mean(rows, axis=0)
        lines.append(
            f"| {way} | {count:,.0f} | {100 * below:.1f} % | {100 * miss:.2f} % | {error:.1f} | {width:.1f} |"
        )
    lines += [
        "",
        (
            f"Of all cells, suppressed ones included, {100 * np.mean(covered):.3f} % of the intervals of `rules` cover."
            f" A draw and its table of {CELLS:,} cells take {min(seconds):.1f} s of the processor. Intervals of `rules` that"
            " reach down to the threshold reach to 0; the others are the usual ones, which hold for all cells and not for those that the threshold selects."
        ),
        "",
    ]
    PAGE.write_text("\n".join(lines))
    print(PAGE.read_text())


if __name__ == "__main__":
    main()
