"""Means and covariances of several columns over the same rows: the default plan beside one that is made by hand.

By hand: one size, a sum about the middle per column, a square and a product where they are asked for, Laplace noise or
normal noise on all of them, and one public split between the four kinds, searched on other rows before these were drawn.
Errors are mean distances from the exact statistics over 4,000 draws of the laws alone, in parts of the by-hand plan's.
`apart` is every statistic drawn by itself with an equal part, as the library did before. Run: `python benchmarks/shared_rows.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.stats import norm

from dprelease.allocation.spend import Spending, spend
from dprelease.measurements.base import seen_by
from dprelease.planning.layout import layouts
from dprelease.planning.make import make_plan
from dprelease.planning.prices import Prices
from dprelease.planning.write import write_plan
from dprelease.query.load import Schema
from dprelease.query.merge import merge_release
from dprelease.query.spec import Query, resolve
from dprelease.release_plan.plan import ReleasePlan
from dprelease.statistics.base import Reading, kind_named

Floats = npt.NDArray[np.float64]
PAGE = Path(__file__).parent / "results" / "shared_rows.md"
ROWS, STEPS, DRAWS, DELTA = 1000, 1000, 4000, Fraction(1, 10**6)
Asked = tuple[str, tuple[int, ...]]


def rows_of(columns: int, seed: int) -> Floats:
    """Return rows in [-1, 1], correlated, each column somewhere in its range."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(ROWS, 1))
    own = rng.normal(size=(ROWS, columns))
    middle, spread = rng.uniform(-0.7, 0.7, columns), rng.uniform(0.1, 0.4, columns)
    s = np.clip(middle + spread * (0.5 * common + 0.87 * own), -1, 1)
    return np.asarray(np.rint((s + 1) / 2 * STEPS) / STEPS * 2 - 1)


def texts(asked: Sequence[Asked]) -> list[str]:
    return [f"{f}({', '.join(f'x{j:02d}' for j in of)})" if of else f for f, of in asked]


def request(asked: Sequence[Asked], columns: int, epsilon: int, delta: Fraction) -> Query:
    column = {"kind": "number", "range": [-1, 1], "step": 2 / STEPS, "nulls": {"default": 0}}
    schema = Schema.from_dict(
        {
            "dprelease": "schema/1",
            "name": "shared",
            "unit": "row",
            "adjacency": "add_remove",
            "rows": {"max": 100_000, "expected": ROWS},
            "columns": {f"x{j:02d}": column for j in range(columns)},
            "release": {"epsilon": epsilon, "delta": float(delta), "statistics": texts(asked)},
        }
    )
    return resolve(schema, merge_release(schema))


def exact(s: Floats, asked: Sequence[Asked]) -> list[float]:
    whole = np.atleast_2d(np.cov(s.T, bias=True))
    of: dict[str, Callable[[tuple[int, ...]], float]] = {
        "count": lambda _: float(len(s)),
        "mean": lambda c: float(s[:, c[0]].mean()),
        "variance": lambda c: float(whole[c[0], c[0]]),
        "covariance": lambda c: float(whole[c[0], c[1]]),
    }
    return [of[f](c) for f, c in asked]


def planned(plan: ReleasePlan, s: Floats, asked: Sequence[Asked]) -> Floats:
    """Return the mean error of each statistic over draws of the plan's laws."""
    rng, out = np.random.default_rng(1), []
    codes = {f"x{j:02d}": np.rint((c + 1) / 2 * STEPS).astype(object) for j, c in enumerate(s.T)}
    drawn: dict[str, Any] = {}
    for block in plan.blocks:
        sums = []
        for place in block.measurement.primitives:
            p = plan.query.primitives[place]
            pairs = [
                (c, q) for c, q in ((p.code, p.power), (p.other, p.other_power)) if c is not None
            ]
            names = [(getattr(plan.query.codes[c], "column", ""), q) for c, q in pairs]
            each = [codes[name] ** q for name, q in names]
            sums.append(int(np.prod(each, axis=0).sum()) if each else len(s))
        cells = [
            sum(w * t for w, t in zip(row, sums, strict=True)) for row in block.measurement.weights
        ]
        spread, shape = float(block.law.variance or 0) ** 0.5, (DRAWS, len(cells))
        normal = block.law.gaussian
        noise = (
            rng.normal(scale=spread, size=shape)
            if normal
            else rng.laplace(scale=spread / 2**0.5, size=shape)
        )
        drawn[block.name] = np.array(cells, dtype=object) + np.rint(noise).astype(object)
    for statistic, value in zip(plan.statistics, exact(s, asked), strict=True):
        block = plan.block(statistic.block)
        raw = drawn[block.name]
        reading = Reading(raw, raw, raw.astype(float), 1.0, 0.95)
        seen, cells, _ = seen_by(statistic.view, block.measurement, block.law.cells(raw), reading)
        found = kind_named(statistic.function).finish(seen, cells)[:, 0]
        found = np.rint(found) if statistic.function == "count" else np.clip(found, -1, 1)
        out.append(float(np.abs(found - value).mean()))
    return np.array(out)


def by_hand(
    s: Floats, asked: Sequence[Asked], split: Sequence[float], epsilon: float, normal: float | None
) -> Floats:
    """Return the mean error of each statistic of a plan with this split; `normal`: a scale per unit of L2."""
    (n, k), rng = s.shape, np.random.default_rng(2)
    a, b, c, d = split
    squares = [of[0] for f, of in asked if f == "variance"]
    pairs = [of for f, of in asked if f == "covariance"]
    parts = np.array([a, *[b] * k, *[c] * len(squares), *[d] * len(pairs)])
    scale = parts.sum() / epsilon if normal is None else normal * float(np.sqrt((parts**2).sum()))
    noise = (
        (rng.laplace if normal is None else rng.normal)(size=(DRAWS, parts.size)) * scale / parts
    )
    size = n + noise[:, 0]
    known = np.maximum(size, 1e-9)
    mean = np.clip((s.sum(axis=0) + noise[:, 1 : 1 + k]) / known[:, None], -1, 1)
    out = []
    for (f, of), value in zip(asked, exact(s, asked), strict=True):
        if f == "count":
            found = np.rint(size)
        elif f == "mean":
            found = mean[:, of[0]]
        elif f == "variance":
            own = noise[:, 1 + k + squares.index(of[0])]
            square = (((2 * s[:, of[0]] ** 2 - 1).sum() + own) / known + 1) / 2
            found = np.clip(square, mean[:, of[0]] ** 2, 1) - mean[:, of[0]] ** 2
        else:
            own = noise[:, 1 + k + len(squares) + pairs.index(of)]
            one, two = mean[:, of[0]], mean[:, of[1]]
            product = ((s[:, of[0]] * s[:, of[1]]).sum() + own) / known
            found = np.clip(product, np.abs(one + two) - 1, 1 - np.abs(one - two)) - one * two
        out.append(float(np.abs(found - value).mean()))
    return np.array(out)


def split_of(
    asked: Sequence[Asked], columns: int, epsilon: float, normal: float | None
) -> list[float]:
    """Return the split with the least mean of errors, each a part of its own at equal parts, on other rows."""
    other, split = rows_of(columns, 99), [1.0, 1.0, 1.0, 1.0]
    equal = by_hand(other, asked, split, epsilon, normal)
    best = 1.0
    for _, place, factor in itertools.product(range(2), range(4), (0.6, 0.84, 1.19, 1.68)):
        trial = [x * factor if i == place else x for i, x in enumerate(split)]
        found = float((by_hand(other, asked, trial, epsilon, normal) / equal).mean())
        if found < best - 1e-4:
            best, split = found, trial
    return split


def analytic(epsilon: float, delta: float) -> float:
    """Return the scale of the analytic Gaussian at sensitivity 1 (Balle & Wang, arXiv:1805.06530)."""

    def over(mu: float) -> float:
        near, far = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        return float(norm.cdf(near) - np.exp(epsilon) * norm.cdf(far)) - delta

    return 1 / float(brentq(over, 1e-3, 30.0))


def door_line(columns: int, counted: bool, delta: Fraction) -> str:
    """Return the errors of the same means asked of `tables:`, of one table, in parts of the plan's by hand and of the other door's."""
    asked: list[Asked] = [("count", ())] * counted + [("mean", (j,)) for j in range(columns)]
    s, one = rows_of(columns, columns), request(asked, columns, 1, delta)
    schema = one.schema
    release = {"epsilon": 1, "delta": float(delta)}
    release |= {"tables": [{"name": "all", "by": [], "statistics": texts(asked)}]}
    plan = make_plan(resolve(schema, merge_release(schema, release)), brief=True)
    rng, n = np.random.default_rng(3), len(s)
    noise = {}
    for block in plan.blocks:
        spread = float(block.law.variance or 0) ** 0.5 * float(block.measurement.step_size)
        draw = rng.normal if block.law.gaussian else rng.laplace
        noise[block.name] = draw(scale=spread / (1 if block.law.gaussian else 2**0.5), size=DRAWS)
    (size,) = (x for name, x in noise.items() if name.endswith(("count", "number of rows")))
    sums = [x for x in noise.values() if x is not size]
    found = [np.rint(n + size)] * counted + [
        np.clip((c.sum() + x) / np.maximum(n + size, 1), -1, 1)
        for c, x in zip(s.T, sums, strict=True)
    ]
    tables = np.array([np.abs(f - v).mean() for f, v in zip(found, exact(s, asked), strict=True)])
    shared = make_plan(one, brief=True)
    other = planned(shared, s, asked)
    normal = analytic(1, float(delta)) if plan.blocks[0].law.gaussian else None
    hand = by_hand(s, asked, split_of(asked, columns, 1, normal), 1, normal)
    means = slice(int(counted), None)
    ratios = [tables[means].mean() / by[means].mean() for by in (hand, other)]
    ratios += [tables[0] / by[0] for by in (hand, other)] if counted else []
    cells = [f"{r:.2f}" for r in ratios] + [""] * (4 - len(ratios))
    return f"| {'count, ' * counted}{columns} means | {'1e-6' if delta else '0'} | {' | '.join(cells)} |"


def line(name: str, asked: Sequence[Asked], columns: int, epsilon: int, delta: Fraction) -> str:
    s, query = rows_of(columns, columns), request(asked, columns, epsilon, delta)
    plan, prices = make_plan(query, brief=True), Prices(query, brief=True)
    ways: list[Spending] = [spend(layouts(query)[0], query.epsilon, delta, query.loss, prices)]
    apart = write_plan(query, ways[0], prices)
    normal = None
    if plan.blocks[0].law.gaussian:
        normal = analytic(epsilon, float(delta))
    split = split_of(asked, columns, epsilon, normal)
    hand = by_hand(s, asked, split, epsilon, normal)
    mine, alone = planned(plan, s, asked), planned(apart, s, asked)
    cells = []
    for f in ("count", "mean", "variance", "covariance"):
        at = [i for i, (g, _) in enumerate(asked) if g == f]
        shown = (
            f"{mine[at].mean() / hand[at].mean():.2f} ({alone[at].mean() / hand[at].mean():.2f})"
            if at
            else ""
        )
        cells.append(shown)
    form = "shared" if len(plan.blocks) == 1 else "apart"
    noise = "normal" if plan.blocks[0].law.gaussian else "Laplace"
    return f"| {name} | {epsilon} | {'1e-6' if delta else '0'} | {form}, {noise} | {' | '.join(cells)} |"


def main() -> None:
    out = [
        "# Several columns over the same rows",
        "",
        f"Mean error over {DRAWS:,} draws of the laws, divided by that of a plan made by hand; in brackets the same of every statistic drawn apart.",
        f"{ROWS:,} rows. Made by `benchmarks/shared_rows.py`.",
        "",
        "| request | ε | δ | default plan | count | means | variances | covariances |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for columns, delta in itertools.product((2, 5, 10, 30), (Fraction(0), DELTA)):
        means: list[Asked] = [("mean", (j,)) for j in range(columns)]
        out.append(line(f"{columns} means", means, columns, 1, delta))
        out.append(line(f"count, {columns} means", [("count", ()), *means], columns, 1, delta))
        print("\n".join(out[-2:]), flush=True)
    matrix: list[Asked] = [("variance", (j,)) for j in range(5)]
    matrix += [("covariance", pair) for pair in itertools.combinations(range(5), 2)]
    for epsilon, delta in itertools.product((1, 4), (Fraction(0), DELTA)):
        out.append(line("5 × 5 covariances", matrix, 5, epsilon, delta))
        print(out[-1], flush=True)
    out += [
        "",
        "The same means asked of `tables:`, which measures one size and a sum about the middle of each column, of one table of all rows at ε = 1:",
        "their error in parts of the plan's by hand, and of the one-table door's above.",
        "",
        "| request | δ | means, by hand | means, one table | count, by hand | count, one table |",
        "|---|---|---|---|---|---|",
    ]
    for columns, counted, delta in itertools.product(
        (2, 5, 10, 30), (False, True), (Fraction(0), DELTA)
    ):
        out.append(door_line(columns, counted, delta))
        print(out[-1], flush=True)
    PAGE.write_text("\n".join(out) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
