"""How far from their ranks are quantiles, chosen together and one by one?

300 ages (normal, 45 +- 18, in whole years of 0 to 120), or 1,000 amounts of a range that is far too wide;
epsilon 1, one row added or removed. The planner's own plan is drawn by the system's generator, on several
made-up tables. "One by one" asks the same library for a single choice each, at an equal part of epsilon. "Prototype"
is the recursion of Kaplan, Schnapp & Stemmer in floats (`prototypes.py`), its rows spread over their steps by noise.

    rank error   rows between the target and the nearest rank that the value has, mean over quantiles and draws
    value error  between the quantile and the value, in the column's unit, mean over quantiles and draws

The second table is of rows of which many share a value: ages, ratings of 1 to 5, incomes in whole thousands among
500,001 allowed ones, and one constant value, at 30 to 1,000,000 rows and two epsilons.

The third table asks each of the two ways to choose several values alone, whatever the planner would take: could one
of them do for both? Columns are those of `field_corpus.py`.

    python benchmarks/quantiles.py           # writes results/quantiles.md
    python benchmarks/quantiles.py --ways    # the third table alone, the others are kept
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

sys.path.append(str(Path(__file__).parent))
from field_corpus import COLUMNS
from prototypes import recursive_quantiles

from dprelease.audit.answers import answer_of, cells_of
from dprelease.core.entropy import SystemBits
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.measurements import joint_ranks, recursive_ranks
from dprelease.mechanisms.forms.joint_scores import work
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


SIZES = (30, 300, 10_000, 1_000_000)
HEAPED: dict[str, tuple[int, int]] = {
    "deciles of ages": (9, 120),
    "19 quantiles of ages": (19, 120),
    "quintiles of ratings": (4, 5),
    "deciles of incomes in thousands": (9, 500_000),
    "deciles of one constant age": (9, 120),
}
"""Quantiles, the column's greatest value."""


WAYS = ("joint_ranks", "recursive_ranks")
FIELD = ("rating", "age", "duration", "income", "price")
FIELD_SIZES = (30, 300, 10_000, 100_000)
MOST_WORK = 2**25
"""Products of a joint draw that are waited for, some seconds; the planner takes half as many."""
HEADING = "Each way alone:"


def heaped(name: str, size: int, seed: int) -> Floats:
    """Return rows of which many share a value."""
    pick = np.random.default_rng(seed)
    if "ratings" in name:
        return pick.choice([1.0, 2, 3, 4, 5], size, p=[0.08, 0.07, 0.15, 0.3, 0.4])
    if "incomes" in name:
        return np.clip(np.round(np.exp(pick.normal(np.log(30), 0.6, size))), 0, 500) * 1000.0
    if "constant" in name:
        return np.full(size, 42.0)
    return np.clip(np.round(pick.normal(45, 18, size)), 0, 120)


def table(most: int, seed: int) -> Floats:
    pick = np.random.default_rng(seed)
    if most > 1000:
        return np.clip(np.round(np.exp(pick.normal(np.log(30_443), 0.6, 1000))), 0, most)
    return np.clip(np.round(pick.normal(45, 18, 300)), 0, most)


def planned(
    shares: list[str],
    most: int,
    rows: int,
    *,
    alone: bool = False,
    epsilon: float = 1,
    column: str | None = None,
) -> ReleasePlan:
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
            "columns": {
                "x": dict(COLUMNS[column].declared)
                if column
                else {"kind": "integer", "range": [1 if most == 5 else 0, most]}
            },
            "release": {"epsilon": epsilon, "statistics": asked},
        }
    )
    return make_plan(resolve(schema, merge_release(schema)))


def rank_error(plan: ReleasePlan, shares: list[str], x: Floats, draws: int) -> float:
    """Return the mean rank error over `draws` of the plan's blocks."""
    return errors_of(plan, shares, x, draws)[0]


def errors_of(
    plan: ReleasePlan, shares: list[str], x: Floats, draws: int
) -> tuple[float, float, float]:
    """Return the mean rank error, the mean error in the column's unit, and the processor seconds of one draw."""
    exact = cells_of(plan, answer_of(plan, pa.table({"x": x}), DuckDBEngine()))
    by_name = {f"q{i}": float(p) for i, p in enumerate(shares)}
    found: list[float] = []
    off: list[float] = []
    ordered, seconds = np.sort(x), 0.0
    for block, cells in zip(plan.blocks, exact, strict=True):
        draw = block.law
        start = time.process_time()
        values = draw.cells(draw.draw(np.repeat(cells, draws, axis=0), SystemBits()))
        seconds += time.process_time() - start
        of_block = [s for s in plan.statistics if s.block == block.name]
        found += [missed(x, values[:, s.view or 0], by_name[s.name]) for s in of_block]
        for s in of_block:
            exact_value = ordered[max(0, int(np.ceil(by_name[s.name] * x.size - 1e-9)) - 1)]
            off.append(float(np.abs(values[:, s.view or 0] - exact_value).mean()))
    return float(np.mean(found)), float(np.mean(off)), seconds / draws


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


def heaped_rows(name: str, tables: int, draws: int) -> list[str]:
    """Return the lines of one kind of rows: together as planned, and one by one, in one run."""
    many, most = HEAPED[name]
    shares = [f"{i / (many + 1):.3g}" for i in range(1, many + 1)]
    out = []
    for size in SIZES:
        for epsilon in (1, 10):
            told: list[str] = []
            for alone in (False, True):
                plan = planned(shares, most, size, alone=alone, epsilon=epsilon)
                errors = [
                    errors_of(plan, shares, heaped(name, size, s), draws) for s in range(tables)
                ]
                ranks, values, seconds = np.mean(errors, axis=0)
                told.append(
                    f"{plan.blocks[0].family} | {ranks:.2f} | {values:.3g} | {1000 * seconds:.3g}"
                )
            out.append(
                f"| {name} | {size:,} | {epsilon} | {told[0]} | {told[1].split(' | ', 1)[1]} |"
            )
            print(out[-1], flush=True)
    return out


@contextmanager
def only(way: str) -> Iterator[None]:
    """Let the planner choose several values in one way, however much work it is."""
    joint = way == "joint_ranks"
    with (
        patch.object(joint_ranks, "_offered", lambda *_: joint),
        patch.object(joint_ranks, "_better", lambda *_: joint),
        patch.object(recursive_ranks, "_better", lambda *_: not joint),
    ):
        yield


def way_rows(column: str, tables: int, draws: int) -> Iterator[str]:
    """Yield the lines of one column: what each way errs by, and its time; - where it is too much work."""
    for size, many, epsilon in itertools.product(FIELD_SIZES, (3, 9, 19), (0.1, 1, 10)):
        shares = [f"{i / (many + 1):.3f}" for i in range(1, many + 1)]
        rows = [COLUMNS[column].rows(np.random.default_rng(s), size) for s in range(tables)]
        values = max(np.unique(x).size for x in rows)
        told, ranks = [], []
        for way in WAYS:
            if way == "joint_ranks" and work(values, many) > MOST_WORK:
                told.append("- | - | -")
                continue
            with only(way):
                plan = planned(shares, 0, size, epsilon=epsilon, column=column)
            assert [b.family for b in plan.blocks] == [way]
            rank, value, seconds = np.mean([errors_of(plan, shares, x, draws) for x in rows], 0)
            ranks.append(rank)
            told.append(f"{rank:.2f} | {value:.3g} | {1000 * seconds:.3g}")
        now = planned(shares, 0, size, epsilon=epsilon, column=column).blocks[0].family
        ratio = f"{ranks[0] / ranks[1]:.2f}" if len(ranks) == 2 and ranks[1] else ""
        yield f"| {column} | {size:,} | {many} | {epsilon:g} | {values:,} | {' | '.join(told)} | {ratio} | {now} |"


def ways(tables: int, draws: int) -> list[str]:
    """Return the third table."""
    lines = [
        f"{HEADING} columns of the field corpus, {tables} tables, {draws} draws of each. Work of more than 2^25 products is not waited for.",
        "",
        "| column | rows | quantiles | epsilon | different values | joint: rank error | value error | ms | recursive: rank error | value error | ms | joint / recursive | the planner takes |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for column in FIELD:
        for line in way_rows(column, tables, draws):
            lines.append(line)
            print(line, flush=True)
    return lines


def main() -> None:
    """Print the table and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--tables", type=int, default=5)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--ways", action="store_true")
    chosen = parser.parse_args()
    page = chosen.to / "quantiles.md"
    if chosen.ways:
        kept = page.read_text(encoding="utf-8").split(HEADING)[0].rstrip()
        page.write_text("\n".join([kept, "", *ways(2, 20), ""]), encoding="utf-8")
        return
    lines = [
        f"Epsilon 1, one row added or removed, {chosen.tables} tables, {chosen.draws} draws of each.",
        "",
        "| quantiles | measured as | goal, rows | mean rank error | kept | one by one | prototype, in floats |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in WORLDS | MORE:
        lines.append(row(name, chosen.tables, chosen.draws))
        print(lines[-1], flush=True)
    lines += [
        "",
        "Rows that share values: two tables of each, 20 draws. Milliseconds of the processor are those of one draw of all quantiles; what is made once for a table is divided by its draws.",
        "",
        "| quantiles | rows | epsilon | measured as | rank error | value error | ms | one by one: rank error | value error | ms |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in HEAPED:
        lines += heaped_rows(name, 2, max(10, chosen.draws // 5))
    lines += ["", *ways(2, max(10, chosen.draws // 5))]
    page.write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
