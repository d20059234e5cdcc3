"""Is every statistic measured in its best form? Each beside the optimum over *all* private mechanisms.

A column x with the values 0, 1, 2 and at most N rows makes a table of three counts, so all tables can be
listed, and the best mechanism for a statistic is a linear programme: chances p(o | table) of outputs on a
grid, of neighbouring tables within a factor e^epsilon, least expected |error|. A histogram is a vector of
two or three cells there, its outputs all vectors that its tables have, its error the sum over cells. The
programme knows more than a planner may: that there are at most N rows, as few as these.

The planner's draw is made on every table by the system's generator. Neighbours: one row, or a person with
at most two rows, added or removed, or replaced.

    average   mean over answers of the expected |error| (tables of one answer share its weight), over the
              least such mean
    worst     its largest over tables, over the least such largest
    loss      absolute

A ratio above 1.1 has its reason beside it (`REASONS`), or says that none was separated.

    python benchmarks/best_forms.py                        # every row of results/best_forms.md
    python benchmarks/best_forms.py --only "variance(x)"   # that statistic's rows; the others stay, with their day
    python benchmarks/best_forms.py --quick                # two statistics, nothing is written
"""

from __future__ import annotations

import argparse
import itertools
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.optimize import linprog
from scipy.sparse import coo_array, vstack

from dprelease.aggregates.base import aggregate_named
from dprelease.aggregates.measurement import PlacedMeasurement
from dprelease.audit.answers import answer_of, cells_of
from dprelease.consistency import to_domain
from dprelease.engines.reference import ReferenceEngine
from dprelease.entropy import SystemBits
from dprelease.measurements.draw import draw_from_json
from dprelease.planning.make import make_plan
from dprelease.query.load import Schema
from dprelease.query.merge import merge_release
from dprelease.query.spec import resolve
from dprelease.release_plan.plan import ReleasePlan

Floats = np.ndarray[Any, np.dtype[np.float64]]
State = tuple[int, int, int]

WORLDS: dict[str, dict[str, Any]] = {
    "row, add or remove": {"unit": "row", "adjacency": "add_remove", "public": False, "m": 1},
    "row, replace, private size": {
        "unit": "row", "adjacency": "substitution", "public": False, "m": 1,
    },
    "row, replace, public size": {
        "unit": "row", "adjacency": "substitution", "public": True, "m": 1,
    },
    "person of 2 rows, add or remove": {
        "unit": {"user": "who", "max_groups": 1, "max_rows_per_group": 2},
        "adjacency": "add_remove", "public": False, "m": 2,
    },
    "person of 2 rows, replace": {
        "unit": {"user": "who", "max_groups": 1, "max_rows_per_group": 2},
        "adjacency": "substitution", "public": False, "m": 2,
    },
}  # fmt: skip
STATISTICS = (
    "count",
    "sum(x)",
    "proportion(x > 0)",
    "mean(x)",
    "variance(x)",
    "median(x)",
    "min(x)",
    "max(x)",
    "count_distinct(x)",
    "histogram(x, [0, 1, 2])",
    "histogram(x, [0, 1, 2, 3])",
)
LEAST = 1
EPSILONS = (1.0, 0.3, 3.0)  # the first in every world, all of them where the size is public
DRAWS = 4000
KEPT = 1.1

HEADER = (
    "statistic", "neighbours", "epsilon", "rows", "tables", "outputs", "measured as",
    "error, average", "optimum", "ratio", "error, worst", "optimum", "ratio", "measured", "reason",
)  # fmt: skip
NOT_SEPARATED = "not separated"
_SUMS = "docs/theory/sensitivities-and-contribution-bounding.md"
_FEW = "few rows: of many"
REASONS = (
    ("variance(x)", "public", f"{_FEW} 2.25, 1.5 and 1.3 of the chain bound by mean ({_SUMS}#centred-squares); here the scatter is drawn"),
    ("variance(x)", "replace", f"{_FEW} 2.3, 1.7 and 1.8 of the chain bound by mean ({_SUMS}#centred-squares)"),
    ("variance(x)", "add", f"{_FEW} 2.6, 1.2 and 1.0 of the chain bound by mean ({_SUMS}#centred-squares)"),
    ("mean(x)", "private", f"{_FEW} 1.19 of the chain bound ({_SUMS}#centred-sums)"),
    ("proportion(x > 0)", "private", f"{_FEW} 1.19 of the chain bound ({_SUMS}#centred-sums)"),
    ("mean(x)", "row, add", f"{_FEW} 1.11 of the chain bound ({_SUMS}#centred-sums)"),
    ("proportion(x > 0)", "row, add", f"{_FEW} 1.11 of the chain bound ({_SUMS}#centred-sums)"),
    ("count", "row, ", "the optimum knows that there are 1 to 5 rows: without that this noise is the best (Ghosh et al. 2009)"),
    ("count_distinct(x)", "row, ", "the optimum knows how often each value is there: where each is there once this noise is the best (Ghosh et al. 2009)"),
)  # fmt: skip
"""Why a ratio is above `KEPT`: statistic, part of the neighbours' name, reason; the first that fits. The chain bound
is the error that no mechanism is below along tables that differ by a row of the largest influence each."""


def reason(text: str, world: str) -> str:
    """Return it; a loss without one says so."""
    return next(
        (why for name, part, why in REASONS if name == text and part in world), NOT_SEPARATED
    )


@dataclass(frozen=True)
class World:
    name: str
    unit: Any
    adjacency: str
    public: bool
    m: int
    rows: int

    @property
    def states(self) -> list[State]:
        every = itertools.product(range(self.rows + 1), repeat=3)
        return [
            s
            for s in every
            if (sum(s) == self.rows if self.public else LEAST <= sum(s) <= self.rows)
        ]

    def near(self, a: State, b: State) -> bool:
        """Return whether one unit makes the difference."""
        more = sum(max(y - x, 0) for x, y in zip(a, b, strict=True))
        less = sum(max(x - y, 0) for x, y in zip(a, b, strict=True))
        if self.adjacency == "add_remove":
            return min(more, less) == 0 and max(more, less) <= self.m
        return max(more, less) <= self.m


def planned(world: World, text: str, epsilon: float) -> ReleasePlan:
    declared = {
        "dprelease": "schema/1",
        "name": "small",
        "unit": world.unit,
        "adjacency": world.adjacency,
        "rows": {"exact": world.rows} if world.public else {"max": world.rows, "expected": 3},
        "columns": {
            "who": {"kind": "identifier"},
            # three is no value: it closes the last bin
            "x": {"kind": "integer", "range": [0, 3 if "3]" in text else 2],
                  **({"nulls": {"default": 0}} if world.public else {})},
        },
        "release": {"epsilon": epsilon, "statistics": [text]},
    }  # fmt: skip
    schema = Schema.from_dict(declared)
    return make_plan(resolve(schema, merge_release(schema)))


def truth(text: str, state: State) -> Floats:
    """Return the exact statistic, by a road of its own."""
    x = np.repeat([0, 1, 2], state)
    match text.partition("(")[0]:
        case "count":
            return np.array([float(x.size)])
        case "sum":
            return np.array([float(x.sum())])
        case "proportion":
            return np.array([float((x > 0).mean())])
        case "mean":
            return np.array([float(x.mean())])
        case "variance":
            return np.array([float(x.var())])
        case "min":
            return np.array([float(x.min())])
        case "max":
            return np.array([float(x.max())])
        case "count_distinct":
            return np.array([float(np.unique(x).size)])
        case "median":
            return np.array([float(np.sort(x)[(x.size - 1) // 2])])
        case _:
            cells = state if "3]" in text else (state[0], state[1] + state[2])
            return np.array(cells, dtype=np.float64)


def outputs(text: str, truths: Floats) -> Floats:
    """Return what may be published, `(outputs, cells)`."""
    if truths.shape[1] > 1:
        return np.unique(truths, axis=0)
    if text.startswith(("count", "sum", "median", "min", "max")):
        return np.arange(truths.min(), truths.max() + 1)[:, None]
    return np.linspace(truths.min(), truths.max(), 25)[:, None]


def weights_of(truths: Floats) -> Floats:
    """Return the weight of each table, `(tables,)`: every answer counts alike, all together 1."""
    _, place, many = np.unique(truths, axis=0, return_inverse=True, return_counts=True)
    out: Floats = 1 / many[place.ravel()] / many.size
    return out


def best(world: World, cost: Floats, weights: Floats, epsilon: float, *, worst: bool) -> float:
    """Return the least mean, or largest, expected cost over tables; `cost` is `(tables, outputs)`."""
    states = world.states
    tables, width = cost.shape
    near = [
        (i, j)
        for i, j in itertools.permutations(range(tables), 2)
        if world.near(states[i], states[j])
    ]
    size = tables * width + worst
    pair = np.array(near)
    high = (pair[:, :1] * width + np.arange(width)).ravel()
    low = (pair[:, 1:] * width + np.arange(width)).ravel()
    row = np.arange(high.size)
    values = np.concatenate([np.ones(high.size), np.full(high.size, -math.exp(epsilon))])
    bounds: Any = coo_array(
        (values, (np.concatenate([row, row]), np.concatenate([high, low]))), shape=(high.size, size)
    )
    sums = coo_array(
        (np.ones(tables * width), (np.repeat(np.arange(tables), width), np.arange(tables * width))),
        shape=(tables, size),
    )
    objective = np.zeros(size)
    if worst:
        objective[-1] = 1.0
        each = np.arange(tables)
        place = (
            np.concatenate([np.repeat(each, width), each]),
            np.concatenate([np.arange(tables * width), np.full(tables, size - 1)]),
        )
        errors = coo_array(
            (np.concatenate([cost.ravel(), -np.ones(tables)]), place), shape=(tables, size)
        )
        bounds = vstack([bounds, errors])
    else:
        objective[: tables * width] = (cost * weights[:, None]).ravel()
    found = linprog(
        objective, A_ub=bounds.tocsr(), b_ub=np.zeros(bounds.shape[0]), A_eq=sums.tocsr(),
        b_eq=np.ones(tables), method="highs-ipm",
    )  # fmt: skip
    if found.status != 0:
        raise RuntimeError(found.message)
    return float(found.fun)


def drawn(world: World, text: str, plan: ReleasePlan) -> Floats:
    """Return the planner's mean |error| on every table, summed over cells."""
    (block,) = plan.blocks
    (statistic,) = {s.text: s for s in plan.statistics}.values()
    draw, measurement = draw_from_json(block.law), PlacedMeasurement.from_json(block.measurement)
    aggregate = aggregate_named(statistic.function)
    bits, out = SystemBits(), []
    for state in world.states:
        x = np.repeat([0, 1, 2], state)
        who = [f"p{i // world.m}" for i in range(x.size)]
        table = pa.table({"who": who, "x": x.astype(np.float64)})
        (exact,) = cells_of(plan, answer_of(plan, table, ReferenceEngine()))
        raw = draw.draw(np.repeat(exact, DRAWS, axis=0), bits)
        values = aggregate.finish(measurement, draw.cells(raw))
        values = to_domain(values, statistic.domain, statistic.step)
        out.append(float(np.abs(values - truth(text, state)).sum(axis=1).mean()))
    return np.array(out)


def compared(world: World, text: str, epsilon: float) -> str:
    """Return one row of the table."""
    plan = planned(world, text, epsilon)
    truths = np.stack([truth(text, s) for s in world.states])
    if plan.epsilon == 0 or not plan.blocks[0].epsilon:
        return ""
    cost = np.abs(truths[:, None, :] - outputs(text, truths)[None, :, :]).sum(axis=2)
    mine = drawn(world, text, plan)
    weights = weights_of(truths)
    mean, most = (best(world, cost, weights, epsilon, worst=worst) for worst in (False, True))
    block = plan.blocks[0]
    own = float(mine @ weights)
    ratio, largest = own / mean, float(mine.max() / most)
    fields = (
        text, world.name, f"{epsilon:g}", world.rows, len(world.states), cost.shape[1],
        f"{block.family}, {block.mechanism}", f"{own:.3f}", f"{mean:.3f}", f"{ratio:.2f}",
        f"{mine.max():.3f}", f"{most:.3f}", f"{largest:.2f}",
    )  # fmt: skip
    return "| " + " | ".join(map(str, fields)) + " |"


def told(row: str, day: str) -> str:
    """Return a measured row with its day, and the reason of a ratio above `KEPT`."""
    cells = [c.strip() for c in row.strip().strip("|").split("|")]
    ratios = [float(cells[i]) for i, name in enumerate(HEADER[:13]) if name == "ratio"]
    why = reason(cells[0], cells[1]) if ratios[0] > KEPT else ""
    if ratios[0] <= KEPT < ratios[1]:
        why = "planned for the average over answers; `judge: worst` plans for the other"
    return "| " + " | ".join([*cells[:13], day, why]) + " |"


def _key(row: str) -> tuple[str, ...]:
    return tuple(c.strip() for c in row.split("|")[1:4])


def merged(page: str, rows: list[str]) -> str:
    """Return the page with `rows` (as `told`) in the place of those of the same key, in the order of the script."""
    known = [line for line in page.splitlines() if line.startswith("| ") and len(_key(line)) == 3]
    kept = {
        _key(line): told(line, line.split("|")[14].strip())
        for line in known
        if not line.startswith("| statistic")
    }
    kept.update({_key(row): row for row in rows})
    places = [
        (text, name, f"{epsilon:g}")
        for name in WORLDS
        for epsilon in EPSILONS
        for text in STATISTICS
    ]
    ordered = [kept[place] for place in places if place in kept]
    above = sum(line.rstrip(" |").endswith(NOT_SEPARATED) for line in ordered)
    return "\n".join(
        [
            f"Absolute error, {DRAWS:,} draws per table; a column of three values. The last columns say when a row was measured, and why",
            f"a ratio is above {KEPT:g}; of {len(ordered)} rows {above} are above it for reasons that were not separated.",
            "The optimum of means, shares and variances is over 25 even outputs: a law on a finer grid may be below it.",
            "",
            "| " + " | ".join(HEADER) + " |",
            "|" + "---|" * len(HEADER),
            *ordered,
            "",
        ]
    )


def main() -> None:
    """Print the table and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--quick", action="store_true", help="two statistics of a public size")
    parser.add_argument("--only", nargs="*", default=[], help="statistics to measure anew")
    parser.add_argument("--worlds", nargs="*", default=list(WORLDS), help="neighbours to look at")
    chosen = parser.parse_args()
    rows, day = [], datetime.now(UTC).date().isoformat()
    for name in chosen.worlds:
        declared = WORLDS[name]
        if chosen.quick and not declared["public"]:
            continue
        world = World(name, **declared, rows=8 if declared["public"] else 5)
        epsilons = EPSILONS if declared["public"] and not chosen.quick else EPSILONS[:1]
        texts = chosen.only or (STATISTICS[1:3] if chosen.quick else STATISTICS)
        for epsilon, text in itertools.product(epsilons, texts):
            row = compared(world, text, epsilon)
            if row:
                rows.append(told(row, day))
                print(rows[-1], flush=True)
    if not chosen.quick:
        page = chosen.to / "best_forms.md"
        before = page.read_text(encoding="utf-8") if page.exists() else ""
        page.write_text(merged(before, rows), encoding="utf-8")


if __name__ == "__main__":
    main()
