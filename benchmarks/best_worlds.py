"""The tables of `best_forms.py`: neighbours, statistics by a road of their own, and what the planner's choice draws."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from dprelease.audit.answers import answer_of, cells_of
from dprelease.core.entropy import SystemBits
from dprelease.engines.reference import ReferenceEngine
from dprelease.planning.make import make_plan
from dprelease.query.load import Schema
from dprelease.query.merge import merge_release
from dprelease.query.spec import resolve
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.consistency import to_domain
from dprelease.statistics.base import kind_named

__all__ = [
    "STATISTICS",
    "WORLDS",
    "World",
    "drawn",
    "errors",
    "flips",
    "influences",
    "large",
    "largest_move",
    "local_moves",
    "outputs",
    "planned",
    "rank_errors",
    "truth",
    "values_of",
]

Floats = np.ndarray[Any, np.dtype[np.float64]]
State = tuple[int, ...]

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
    "std(x)",
    "covariance(x, y)",
    "correlation(x, y)",
    "median(x)",
    "quantile(x, 0.9)",
    "min(x)",
    "max(x)",
    "count_distinct(x)",
    "histogram(x, [0, 1, 2])",
    "histogram(x, [0, 1, 2, 3])",
    "cdf(x, [0, 1])",
)
_OF_NO_ROWS = ("count", "sum", "histogram")
"""What a table of no rows has too."""
_TWO: tuple[State, ...] = ((0, 0), (0, 1), (1, 0), (1, 1))
_SHARES = {3: ((2, 4, 2), (4, 2, 2), (1, 1, 6)), 4: ((2, 2, 2, 2), (1, 3, 3, 1), (4, 2, 1, 1))}
"""Eighths of the rows of a large table at each value."""


def values_of(text: str, many: int = 3) -> tuple[State, ...]:
    """Return the different rows that a table may hold; `many`, of one column."""
    return _TWO if "y)" in text else tuple((i,) for i in range(many))


@dataclass(frozen=True, slots=True)
class World:
    name: str
    unit: Any
    adjacency: str
    public: bool
    m: int
    rows: int

    def states(self, text: str = "") -> list[State]:
        """Return all tables, as how many rows hold each value."""
        every = itertools.product(range(self.rows + 1), repeat=len(values_of(text)))
        least = self.rows if self.public else not text.startswith(_OF_NO_ROWS)
        return [s for s in every if least <= sum(s) <= self.rows]

    def near(self, a: State, b: State) -> bool:
        """Return whether one unit makes the difference."""
        more = sum(max(y - x, 0) for x, y in zip(a, b, strict=True))
        less = sum(max(x - y, 0) for x, y in zip(a, b, strict=True))
        if self.adjacency == "add_remove":
            return min(more, less) == 0 and max(more, less) <= self.m
        return max(more, less) <= self.m

    def pairs(self, text: str) -> list[tuple[int, int]]:
        """Return the places of all neighbours, either way."""
        states = self.states(text)
        every = itertools.permutations(range(len(states)), 2)
        return [(i, j) for i, j in every if self.near(states[i], states[j])]

    def moves(self, many: int) -> Iterator[State]:
        """Yield how one unit changes how many rows hold each of `many` values, where there are enough."""
        for move in itertools.product(range(-self.m, self.m + 1), repeat=many):
            if any(move) and self.near((0,) * many, move) and not (self.public and sum(move)):
                yield move


def planned(
    world: World,
    text: str,
    epsilon: float,
    *,
    rows: int | None = None,
    values: int = 3,
    mechanism: str = "",
) -> ReleasePlan:
    """Return the plan; `rows`, of a table as large as that; `values`, of a column of so many; `mechanism`, pinned."""
    asked = {"statistic": text, "mechanism": mechanism} if mechanism else text
    size = {"max": 2 * rows, "expected": rows} if rows else {"max": world.rows, "expected": 3}
    nulls: dict[str, Any] = {"nulls": {"default": 0}} if world.public else {}
    # three is not a value: it closes the last bin
    top = 1 if len(values_of(text)) == 4 else 3 if "3]" in text else values - 1
    declared = {
        "dprelease": "schema/1",
        "name": "small",
        "unit": world.unit,
        "adjacency": world.adjacency,
        "rows": {"exact": rows or world.rows} if world.public else size,
        "columns": {
            "who": {"kind": "identifier"},
            "x": {"kind": "integer", "range": [0, top], **nulls},
            "y": {"kind": "integer", "range": [0, 1], **nulls},
        },
        "release": {"epsilon": epsilon, "statistics": [asked]},
    }
    schema = Schema.from_dict(declared)
    return make_plan(resolve(schema, merge_release(schema)))


def _rows(text: str, state: State) -> Floats:
    return np.repeat(np.array(values_of(text, len(state)), dtype=np.float64), state, axis=0)


def _correlation(rows: Floats) -> float:
    spread = rows.std(axis=0)
    return float(np.corrcoef(rows.T)[0, 1]) if spread.all() else 0.0


_ONE_NUMBER: dict[str, Callable[[Floats], Any]] = {
    "count": len,
    "sum": lambda r: r[:, 0].sum(),
    "proportion": lambda r: (r[:, 0] > 0).mean(),
    "mean": lambda r: r[:, 0].mean(),
    "variance": lambda r: r[:, 0].var(),
    "std": lambda r: r[:, 0].std(),
    "covariance": lambda r: ((r[:, 0] - r[:, 0].mean()) * (r[:, 1] - r[:, 1].mean())).mean(),
    "correlation": _correlation,
    "min": lambda r: r[:, 0].min(),
    "max": lambda r: r[:, 0].max(),
    "count_distinct": lambda r: np.unique(r[:, 0]).size,
    "median": lambda r: np.sort(r[:, 0])[(len(r) - 1) // 2],
    "quantile": lambda r: np.sort(r[:, 0])[-(-9 * len(r) // 10) - 1],
}


def truth(text: str, state: State) -> Floats:
    """Return the exact statistic, by a road of its own."""
    name = text.partition("(")[0]
    if name in _ONE_NUMBER:
        return np.array([float(_ONE_NUMBER[name](_rows(text, state)))])
    if name == "cdf":
        return np.cumsum(state)[:2] / sum(state)
    cells = state if "3]" in text else (state[0], state[1] + state[2])
    return np.array(cells, dtype=np.float64)


def outputs(text: str, truths: Floats) -> Floats:
    """Return what may be published, `(outputs, cells)`."""
    if truths.shape[1] > 1:
        return np.unique(truths, axis=0)
    if text.startswith(("count", "sum", "median", "quantile", "min", "max")):
        return np.arange(truths.min(), truths.max() + 1)[:, None]
    return np.linspace(truths.min(), truths.max(), 25)[:, None]


def drawn(
    world: World, text: str, plan: ReleasePlan, states: Sequence[State], draws: int
) -> Floats:
    """Return the planner's mean |error| on every table, summed over cells."""
    (block,) = plan.blocks
    (statistic,) = {s.text: s for s in plan.statistics}.values()
    draw, measurement = block.law, block.measurement
    statistic_kind = kind_named(statistic.function)
    bits, out = SystemBits(), []
    for state in states:
        rows = _rows(text, state)
        who = [f"p{i // world.m}" for i in range(len(rows))]
        table = pa.table({"who": who, "x": rows[:, 0], "y": rows[:, -1] % 2})
        (exact,) = cells_of(plan, answer_of(plan, table, ReferenceEngine()))
        raw = draw.draw(np.repeat(exact, draws, axis=0), bits)
        values = statistic_kind.finish(measurement, draw.cells(raw))
        values = to_domain(values, statistic.domain, statistic.step)
        out.append(float(np.abs(values - truth(text, state)).sum(axis=1).mean()))
    return np.array(out)


def rank_errors(text: str, plan: ReleasePlan, states: Sequence[State]) -> dict[str, Floats]:
    """Return the mean |error| on every table by the weights of the planner's law, summed: both ways to draw from them."""
    draw = plan.blocks[0].law
    ((a, b, offset),) = plan.blocks[0].measurement.weights
    tally = np.array(states)
    upto = np.cumsum(tally, axis=1)
    rank = a * upto[:, -1:] + offset
    scores = np.maximum(0, np.maximum(b * (upto - tally) - rank, rank - b * upto))
    true = np.stack([truth(text, s) for s in states])
    off = np.abs(np.arange(tally.shape[1])[None, :] - true)
    law: Any = draw
    weights = np.exp(-law.law.rate * (scores - scores.min(axis=1, keepdims=True)))
    flipped = np.stack([flips(w) for w in weights])
    return {
        "exponential": (weights / weights.sum(axis=1, keepdims=True) * off).sum(axis=1),
        "permute_and_flip": (flipped * off).sum(axis=1),
    }


def flips(weights: Floats) -> Floats:
    """Return the chances of permute-and-flip: every candidate is kept with its weight, one of the kept is drawn.

    McKenna & Sheldon 2020, with weights of 1 for the best: w_y times the integral of prod (1 - t w_z) over t in 0..1.
    """
    at, share = np.polynomial.legendre.leggauss(weights.size // 2 + 1)
    left = 1 - (at[:, None] + 1) / 2 * weights[None, :]
    return np.asarray(weights * ((share / 2 * left.prod(axis=1)) @ (1 / left)))


def errors(
    world: World, text: str, plan: ReleasePlan, states: Sequence[State], draws: int
) -> Floats:
    """Return the planner's mean |error| on every table: summed of choices by rank, else drawn."""
    block = plan.blocks[0]
    if block.family == "ranks":
        return rank_errors(text, plan, states)[block.mechanism]
    return drawn(world, text, plan, states, draws)


def large(text: str, rows: int) -> list[State]:
    """Return tables of `rows` rows (a multiple of 8)."""
    return [tuple(rows * e // 8 for e in each) for each in _SHARES[len(values_of(text))]]


def influences(text: str, state: State) -> tuple[list[list[Any]], float] | None:
    """Return what a row of each value adds to the statistic of a table of many rows, times a factor.

    None where a statistic does not move by fixed steps: values by rank, numbers of different values.
    """
    n, values = sum(state), values_of(text, len(state))
    share = [Fraction(k, n) for k in state]
    x = [Fraction(v[0]) for v in values]
    mean = sum((s * v for s, v in zip(share, x, strict=True)), Fraction(0))
    spread = sum((s * (v - mean) ** 2 for s, v in zip(share, x, strict=True)), Fraction(0))
    zero, factor = Fraction(0), 1 / n
    match text.partition("(")[0]:
        case "count":
            each, factor = [[Fraction(1)] for _ in values], 1.0
        case "sum":
            each, factor = [[v] for v in x], 1.0
        case "proportion":
            above = sum((s for s, v in zip(share, x, strict=True) if v > 0), zero)
            each = [[int(v > 0) - above] for v in x]
        case "mean":
            each = [[v - mean] for v in x]
        case "variance" | "std" as name:
            each = [[(v - mean) ** 2 - spread] for v in x]
            factor = factor / (2 * float(spread) ** 0.5) if name == "std" else factor
        case "covariance":
            y = [Fraction(v[1]) for v in values]
            other = sum((s * v for s, v in zip(share, y, strict=True)), zero)
            both = [(a - mean) * (b - other) for a, b in zip(x, y, strict=True)]
            middle = sum((s * v for s, v in zip(share, both, strict=True)), zero)
            each = [[v - middle] for v in both]
        case "histogram":
            cells = 3 if "3]" in text else 2
            each = [[Fraction(min(i, cells - 1) == c) for c in range(cells)] for i in range(3)]
            factor = 1.0
        case "cdf":
            upto = list(itertools.accumulate(share))
            each = [[int(i <= e) - upto[e] for e in range(2)] for i in range(3)]
        case _:
            return None
    return each, factor


def local_moves(world: World, text: str, state: State) -> tuple[list[list[Fraction]], float] | None:
    """Return what one unit can add to the statistic near a table of many rows, times a factor."""
    found = influences(text, state)
    if found is None:
        return None
    each, factor = found
    zero, wide = Fraction(0), range(len(each[0]))
    made = [
        [sum((k * e[c] for k, e in zip(m, each, strict=True)), zero) for c in wide]
        for m in world.moves(len(state))
    ]
    return made, factor


def largest_move(world: World, text: str, state: State) -> float | None:
    """Return the most that one unit moves a number of a table of many rows."""
    found = influences(text, state)
    if found is None or len(found[0][0]) > 1:
        return None
    each = [float(e[0]) for e in found[0]]
    apart, alone = max(each) - min(each), max(map(abs, each))
    most = {
        (True, False): alone, (False, True): apart, (False, False): max(apart, alone),
    }[world.adjacency == "add_remove", world.public]  # fmt: skip
    return world.m * most * found[1]
