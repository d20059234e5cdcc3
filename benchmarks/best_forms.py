"""Is every statistic measured in its best form? Each beside the optimum over *all* private mechanisms, and the best known one.

A column x with the values 0, 1, 2 and at most N rows makes a table of three counts (two columns x, y of 0 and 1
make four), so all tables can be listed, and the best mechanism for a statistic is a linear programme: chances
p(o | table) of outputs on a grid, of neighbouring tables within a factor e^epsilon, least expected |error|. A
histogram or a distribution function is a vector of two or three cells there, its outputs all vectors that its
tables have, its error the sum over cells. The programme knows more than a planner may: that there are at most N
rows, as few as these.

The planner's draw is made on every table by the system's generator; of choices by rank the law is summed.
It is the plan of a budget that adds up epsilons: one that adds up rho takes the exponential mechanism by rank.
Neighbours: one row, or a person with at most two rows, added or removed, or replaced.

    average   mean over answers of the expected |error| (tables of one answer share its weight), over the
              least such mean
    worst     its largest over tables, over the least such largest
    loss      absolute
    known     the same average over that of the best form of `best_known.py`, which somebody could use
    1,000     both on tables of 1,000 rows: over what no law of noise is below at any of them
              (`best_programmes.of_many_rows`; one law for all tables may not reach it), and over the known forms

A row with one of these ratios above 1.1 has its reason beside it, from numbers computed here (`best_reasons.py`);
where a better form is known it is called a loss, and says why the planner does not choose that form.

    python benchmarks/best_forms.py                        # every row of results/best_forms.md: 6 minutes
    python benchmarks/best_forms.py --only "variance(x)"   # that statistic's rows; the others stay, with their day
    python benchmarks/best_forms.py --quick                # two statistics, nothing is written
    python benchmarks/best_forms.py --page                 # measures nothing: the page's words anew
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from best_known import known, known_of_many_rows, least
from best_programmes import best, of_many_rows, seen
from best_reasons import KEPT, KINDS, MANY_ROWS, WHYS, reason
from best_wide import BY_VALUE
from best_worlds import (
    STATISTICS,
    WORLDS,
    World,
    errors,
    large,
    local_moves,
    outputs,
    planned,
    rank_errors,
    truth,
    values_of,
)

Floats = np.ndarray[Any, np.dtype[np.float64]]

EPSILONS = (1.0, 0.3, 3.0)  # the first in every world, all of them where the size is public
DRAWS = 4000

HEADER = (
    "statistic", "neighbours", "epsilon", "rows", "tables", "outputs", "measured as",
    "error, average", "optimum", "ratio", "error, worst", "optimum", "ratio", "best known form", "ratio",
    "1,000 rows: over a bound", "over the best known", "why", "measured",
)  # fmt: skip
_BETTER = re.compile(r"is better by (\d+\.\d+)")
_WORST = "planned for the average over answers; `judge: worst` plans for the other"
_SAID = {
    "few rows": "the optimum knows that there are no more than so few rows, which no plan may",
    "best known": "no known form is better; one law may not reach the bound",
    "few values": "on a column of three values another form is better, mostly counts of every value, which its histogram gives; with more values the choice is",
    "loss": "a form is known that is more than a tenth better, and the planner does not choose it there",
    "by place": "on columns of more than a few values better only where rows lie about the middle of the range, which a plan does not know",
    "no interval": "an interval of the better form needs a law that is not computed; without it there is a box about its counts, which is wider",
    "not built": "no reason but that",
}
ELSEWHERE = (
    "Too large for such a programme, or made of what is above:",
    "",
    "| statistic | measured against | where |",
    "|---|---|---|",
)
"""What stands above the page's last table: statistics that the programme cannot hold. Its lines are written by hand there."""


@dataclass(frozen=True)
class Compared:
    """One row of the table, and what its last columns are made of."""

    cells: tuple[Any, ...]
    ratio: float
    worst: float
    known: float
    kind: str
    why: str

    def line(self, day: str) -> str:
        return "| " + " | ".join(map(str, (*self.cells, self.why, day))) + " |"


def weights_of(truths: Floats) -> Floats:
    """Return the weight of each table, `(tables,)`: every answer counts alike, all together 1."""
    _, place, many = np.unique(truths, axis=0, return_inverse=True, return_counts=True)
    out: Floats = 1 / many[place.ravel()] / many.size
    return out


def over_a_bound(world: World, text: str, epsilon: float, mine: Floats) -> float | None:
    """Return the planner's error on large tables over the bound there; None where there is none."""
    moved = [local_moves(world, text, table) for table in large(text, MANY_ROWS)]
    bounds = [
        m[1] * of_many_rows(m[0], epsilon, alike=text.startswith("histogram")) for m in moved if m
    ]
    return float(mine.mean()) / float(np.mean(bounds)) if bounds else None


def many_rows(
    world: World, text: str, epsilon: float
) -> tuple[float | None, tuple[str, float] | None]:
    """Return the planner's error with 1,000 rows over the bound, and over the best known form; None where there is none.

    Values that hundreds of rows have are chosen, or counted, without error: there is nothing to compare.
    """
    if text.startswith(BY_VALUE):
        return None, None
    tables = large(text, MANY_ROWS)
    plan = planned(world, text, epsilon, rows=MANY_ROWS)
    mine = errors(world, text, plan, tables, DRAWS // 2)
    name, error = least(known_of_many_rows(world, text, tables, epsilon))
    return over_a_bound(world, text, epsilon, mine), (name, float(mine.mean()) / error)


def costs(text: str, truths: Floats) -> Floats:
    """Return the |error| of every output on every table, `(tables, outputs)`."""
    out: Floats = np.abs(truths[:, None, :] - outputs(text, truths)[None, :, :]).sum(axis=2)
    return out


def compared(world: World, text: str, epsilon: float, *, why: bool = True) -> Compared | None:
    """Return one row of the table, None where nothing is drawn; without `why`, its reason is not computed."""
    plan = planned(world, text, epsilon)
    block = plan.blocks[0]
    if plan.epsilon == 0 or not block.epsilon:
        return None
    states = world.states(text)
    truths = np.stack([truth(text, s) for s in states])
    cost, near, weights = costs(text, truths), world.pairs(text), weights_of(truths)
    mine = errors(world, text, plan, states, DRAWS)
    mean, most = (best(near, cost, weights, epsilon, worst=worst) for worst in (False, True))
    forms = known(world, text, epsilon)
    if block.family == "ranks":
        forms["permute-and-flip"] = rank_errors(text, plan, states)["permute_and_flip"]
    name, error = least(forms, weights)
    own = float(mine @ weights)
    ratio, largest, here = (
        round(r, 2) for r in (own / mean, float(mine.max()) / most, own / error)
    )
    bound, there = many = many_rows(world, text, epsilon) if why else (None, None)
    kind, said = "", _WORST if largest > KEPT else ""
    if why and max(ratio, here, round(there[1], 2) if there else 0) > KEPT:
        kind, said = reason(world, text, epsilon, (name, own / error), many)
    if kind and text.startswith("count_distinct"):
        what = [tuple(t) for t in truths.tolist()]
        blind = own / seen(near, what, cost, weights, epsilon)
        said += f"; {blind:.2f} of the optimum that sees this number of the table only"
    cells = (
        text, world.name, f"{epsilon:g}", world.rows, len(states), cost.shape[1],
        f"{block.family}, {block.mechanism}", f"{own:.3f}", f"{mean:.3f}", f"{ratio:.2f}",
        f"{mine.max():.3f}", f"{most:.3f}", f"{largest:.2f}", name, f"{here:.2f}",
        "–" if bound is None else f"{bound:.2f}", "–" if there is None else f"{there[1]:.2f}, {there[0]}",
    )  # fmt: skip
    return Compared(cells, ratio, largest, here, kind, said)


def _key(row: str) -> tuple[str, ...]:
    return tuple(c.strip() for c in row.split("|")[1:4])


def merged(page: str, rows: list[str]) -> str:
    """Return the page with `rows` in the place of those of the same key, in the order of the script."""
    width = len(HEADER) + 2
    kept = {_key(line): line for line in page.splitlines() if len(line.split("|")) == width}
    kept.update({_key(row): row for row in rows})
    places = [
        (text, name, f"{epsilon:g}")
        for name in WORLDS
        for epsilon in EPSILONS
        for text in STATISTICS
    ]
    ordered = [kept[place] for place in places if place in kept]
    return "\n".join(
        [
            *concluded(ordered),
            "",
            "| " + " | ".join(HEADER) + " |",
            "|" + "---|" * len(HEADER),
            *ordered,
            "",
            *ELSEWHERE,
            *elsewhere(page),
            "",
        ]
    )


def concluded(rows: list[str]) -> list[str]:
    """Return what a reader should conclude, counted from the rows."""
    cells = [[c.strip() for c in row.strip().strip("|").split("|")] for row in rows]
    whys = [c[HEADER.index("why")] for c in cells]
    kinds = {kind: [w for w in whys if w.startswith(f"{kind}:")] for kind in KINDS}
    near = len(rows) - sum(map(len, kinds.values()))
    lost = kinds.pop("loss")
    most = max((float(by) for w in lost for by in _BETTER.findall(w)), default=1.0)
    return [
        f"{near} of {len(rows)} rows are at most {KEPT:g} times the optimum on average, and the best known form. The others say why not, by numbers",
        "computed in the same run; a loss is named as one:",
        "",
        *(f"* {len(found)} **{kind}**: {_SAID[kind]}." for kind, found in kinds.items()),
        f"* {len(lost)} **loss**, by up to {most:.2f}: {_SAID['loss']}. Why not:",
        *(f"    * {sum(f'; {why}' in w for w in lost)} *{why}*: {_SAID[why]}." for why in WHYS),
        "",
        f"Absolute error, {DRAWS:,} draws per table (of choices by rank the law is summed): a ratio is known to about 0.02. The optimum of",
        "means, shares and spreads is over 25 even outputs: a law on a finer grid may be below it. `python benchmarks/best_forms.py` makes this page.",
    ]


def elsewhere(page: str) -> list[str]:
    """Return the lines of the page's last table: statistic, what it is measured against, and where."""
    return page.partition("\n".join(ELSEWHERE))[2].strip().splitlines()


def main() -> None:
    """Print the table and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--quick", action="store_true", help="two statistics of a public size")
    parser.add_argument("--page", action="store_true", help="write the words anew, measure nothing")
    parser.add_argument("--only", nargs="*", default=[], help="statistics to measure anew")
    parser.add_argument("--worlds", nargs="*", default=list(WORLDS), help="neighbours to look at")
    chosen = parser.parse_args()
    page = chosen.to / "best_forms.md"
    if chosen.page:
        page.write_text(merged(page.read_text(encoding="utf-8"), []), encoding="utf-8")
        return
    day = datetime.now(UTC).date().isoformat()
    for name in chosen.worlds:
        declared = WORLDS[name]
        if chosen.quick and not declared["public"]:
            continue
        world = World(name, **declared, rows=8 if declared["public"] else 5)
        epsilons = EPSILONS if declared["public"] and not chosen.quick else EPSILONS[:1]
        texts = chosen.only or (STATISTICS[1:3] if chosen.quick else STATISTICS)
        for epsilon, text in itertools.product(epsilons, texts):
            smaller = (
                replace(world, rows=5 if world.public else 4) if len(values_of(text)) > 3 else world
            )
            row = compared(smaller, text, epsilon, why=not chosen.quick)
            if row is None:
                continue
            print(row.line(day), flush=True)
            if not chosen.quick:
                before = page.read_text(encoding="utf-8") if page.exists() else ""
                page.write_text(merged(before, [row.line(day)]), encoding="utf-8")


if __name__ == "__main__":
    main()
