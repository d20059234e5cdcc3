"""Do the intervals of derived values hold what they say, beside the delta method?

Many replicates of one small table, three groups each (a few, some 20 and some 400 rows), are drawn
twice, as two periods, from the laws of one plan; every expression is then derived for every
replicate, and the share of intervals that hold the true value is counted. The true value is that of the same
expression on the same rows without noise.

Beside it the delta method: value +- 1.96 standard deviations of the noise, linearised at the noisy
values, as a reader would do who knows the noise's variance but not its law.

    python benchmarks/derived.py             # 10,000 replicates; writes results/derived.md
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa

import dprelease as dp
from dprelease.core.entropy import ReplayBits
from dprelease.reading.derive import finished
from dprelease.reading.evaluation import Evaluation, Periods
from dprelease.reading.forms import Linear, RatioForm
from dprelease.reading.grammar import parse
from dprelease.reading.public_table import PublicTable
from dprelease.reading.quantity import Quantity
from dprelease.reading.ranking import ranked
from dprelease.reading.released_values import ReleasedValues
from dprelease.results.draw import Draw, assemble

GROUPS = {"a": 2, "b": 20, "c": 400}
PUBLIC = {"a": 5, "b": 31, "c": 700}
Z = 1.959963984540054


def rows(period: int) -> Mapping[str, tuple[np.ndarray, np.ndarray]]:
    """Return (late, x) of each group; the second period differs a little."""
    made = np.random.default_rng(period)
    return {
        g: ((made.random(n) < 0.4).astype(np.int64), np.round(made.beta(2, 4, n) * 20) / 2)
        for g, n in ((g, n + 3 * period) for g, n in GROUPS.items())
    }


def exact(family: str, g: str, period: int) -> list[int]:
    """Return the exact cells of one group, as an engine would sum them."""
    late, x = rows(period)[g]
    codes, k = (2 * x).astype(np.int64), 20
    return {
        "count": [len(x)],
        "sum_late": [int(late.sum())],
        "mean_x+variance_x": [
            int(((k - codes) ** 2).sum()),
            int((2 * codes * (k - codes)).sum()),
            int((codes**2).sum()),
        ],
    }[family]


STATISTICS = ("count", "sum(late)", "mean(x)", "variance(x)")


def schema(
    replicates: int, epsilon: float, statistics: Sequence[str] = STATISTICS
) -> dict[str, object]:
    """Return the schema of the replicates."""
    return {
        "dprelease": "schema/1",
        "name": "replicates",
        "unit": "row",
        "adjacency": "add_remove",
        "rows": {"max": 1000, "expected": 100},
        "columns": {
            "replicate": {"kind": "category", "values": [f"r{i}" for i in range(replicates)]},
            "g": {"kind": "category", "values": list(GROUPS)},
            "late": {"kind": "integer", "range": [0, 1]},
            "x": {"kind": "number", "range": [0, 10], "step": 0.5},
        },
        "release": {
            "epsilon": epsilon,
            "by": ["replicate", "g"],
            "statistics": list(statistics),
        },
    }


def released(replicates: int, epsilon: float) -> Periods:
    """Return two drawn periods; the second one is the current one."""
    plan = dp.plan(schema(replicates, epsilon))
    return Periods((last := drawn(plan, 1)), "1", {"0": drawn(plan, 0), "1": last})


def drawn(plan: dp.ReleasePlan, period: int) -> ReleasedValues:
    """Return a draw of the plan by repeatable bits."""
    cells = {}
    for block in plan.blocks:
        sums = {g: exact(block.name, g, period) for g in GROUPS}
        truth = np.array([sums[key[1]] for key in plan.keys], dtype=object)
        law = block.law
        raw = law.draw(truth, ReplayBits(f"{block.name} {period} {plan.epsilon}"))
        cells[block.name] = tuple(map(tuple, raw.tolist()))
    made = assemble(plan.by, plan.keys, plan.statistics, plan.blocks, cells)
    return ReleasedValues(Draw(plan, made, cells))


@dataclass(frozen=True)
class Case:
    """One expression: per group `g` it is asked for with `{g}` filled in; `true` from (n, late, mean, var)."""

    name: str
    expression: str
    true: Callable[[dict[str, tuple[float, ...]], dict[str, tuple[float, ...]], str], float]
    public: bool = False
    pooled: bool = False


Stats = dict[str, tuple[float, ...]]


def _index(now: Stats, before: Stats, g: str) -> float:
    return 100 * now[g][1] / before[g][1] if before[g][1] else math.nan


def _pooled(now: Stats, before: Stats, g: str) -> float:
    del before, g
    return sum(s[0] * s[2] for s in now.values()) / sum(s[0] for s in now.values())


def _standardised(now: Stats, before: Stats, g: str) -> float:
    del before, g
    return sum(s[1] for s in now.values()) / sum(PUBLIC.values())


_TOTAL = "(count[g='a'] + count[g='b'] + count[g='c'])"
CASES = (
    Case(
        "difference of groups",
        "count[g='{g}'] - count[g='c']",
        lambda now, _, g: now[g][0] - now["c"][0],
    ),
    Case(
        "ratio of counts",
        "sum_late[g='{g}'] / count[g='{g}']",
        lambda now, _, g: now[g][1] / now[g][0],
    ),
    Case(
        "share",
        f"count[g='{{g}}'] / {_TOTAL}",
        lambda now, _, g: now[g][0] / sum(s[0] for s in now.values()),
    ),
    Case(
        "rate per 1,000 people (public)",
        "rate(sum_late[g='{g}'], {people}, 1000)",
        lambda now, _, g: 1000 * now[g][1] / PUBLIC[g],
    ),
    Case("growth", "growth(count[g='{g}'])", lambda now, before, g: now[g][0] / before[g][0] - 1),
    Case("index", "index(sum_late[g='{g}'], '0')", _index),
    Case(
        "change of a mean",
        "mean_x[g='{g}'] - mean_x[g='{g}']@previous",
        lambda now, before, g: now[g][2] - before[g][2],
    ),
    Case("pooled mean", "mean_x", _pooled, pooled=True),
    Case(
        "standardised rate",
        "standardise(sum_late / people, people)",
        _standardised,
        public=True,
        pooled=True,
    ),
    Case(
        "mean and variance of one measurement",
        "variance_x[g='{g}'] + mean_x[g='{g}'] * mean_x[g='{g}']",
        lambda now, _, g: now[g][3] + now[g][2] ** 2,
    ),
    Case(
        "product of two statistics",
        "mean_x[g='{g}'] * count[g='{g}']",
        lambda now, _, g: now[g][2] * now[g][0],
    ),
)


def stats(period: int) -> dict[str, tuple[float, ...]]:
    """Return (rows, late, mean, variance) of each group."""
    return {
        g: (float(len(x)), float(late.sum()), float(x.mean()), float(x.var()))
        for g, (late, x) in rows(period).items()
    }


def people() -> pa.Table:
    return pa.table({"g": list(PUBLIC), "people": list(PUBLIC.values())})


@dataclass(frozen=True)
class Result:
    """How often intervals held the true value, and their median length."""

    name: str
    group: str
    method: str
    held: float
    misses: int
    unbounded: float
    length: float
    delta_held: float
    delta_length: float


def measured(
    periods: Periods, case: Case, group: str, *, shrink: float = 1.0, beside: bool = True
) -> Result:
    """Return one row of the table; `shrink` makes the intervals shorter, for a control; `beside`: with the delta method."""
    text = case.expression.replace("{g}", group).replace("{people}", str(PUBLIC[group]))
    quantities = evaluated(periods, text, case)
    true = case.true(stats(1), stats(0), group)
    rows_of = finished(quantities, 0.95)
    value = np.array([row[0] for row in rows_of], dtype=float)
    lower, upper = (np.array([row[i] for row in rows_of]) for i in (1, 2))
    if shrink != 1:
        middle, half = (lower + upper) / 2, (upper - lower) / 2 * shrink
        lower, upper = middle - half, middle + half
    room = 1e-9 * max(1.0, abs(true))
    held = (lower <= true + room) & (true - room <= upper)
    spread = deltas(quantities) if beside else np.full(value.shape, math.nan)
    with np.errstate(invalid="ignore"):
        by_delta = np.abs(value - true) <= Z * spread + room
    bounded = np.isfinite(lower) & np.isfinite(upper)
    return Result(
        case.name,
        group if not case.pooled else "all",
        rows_of[0][4],
        float(held.mean()),
        int((~held).sum()),
        float((~bounded).mean()),
        float(np.median(upper[bounded] - lower[bounded])) if bounded.any() else math.inf,
        float(by_delta.mean()),
        float(np.nanmedian(2 * Z * spread)) if np.isfinite(spread).any() else math.nan,
    )


def evaluated(periods: Periods, text: str, case: Case) -> list[Quantity]:
    """Return the expression's quantity per replicate."""
    current = periods.current
    table = PublicTable(people(), current.by) if case.public else None
    tree = parse(text, current.names, table.names if table else ())
    evaluation = Evaluation(periods, ["replicate"], table)
    return [evaluation.quantity(tree, row) for row in evaluation.rows]


def deltas(quantities: list[Quantity]) -> np.ndarray:
    """Return the linearised standard deviation per replicate; NaN where it is not defined."""
    found = [variance(q) for q in quantities]
    return np.array([math.sqrt(v) if v >= 0 else math.nan for v in found])


def variance(quantity: Quantity) -> float:
    """Return the variance of the noise by linearisation, in the noisy integers; NaN if undefined."""
    gradient = slopes(quantity)
    if gradient is None:
        return math.nan
    return sum(slope * slope * source.noise.variance() for source, slope in gradient.items())


def slopes(quantity: Quantity) -> dict | None:
    """Return the derivative by every noisy integer."""
    form = quantity.form
    if isinstance(form, Linear):
        return {s: float(w) for s, w in form.terms.items()}
    if isinstance(form, RatioForm):
        top, bottom = float(form.top.observed), float(form.bottom.observed)
        if bottom == 0:
            return None
        sources = {**form.top.terms, **form.bottom.terms}
        return {
            s: float(form.top.terms.get(s, 0)) / bottom
            - top / bottom**2 * float(form.bottom.terms.get(s, 0))
            for s in sources
        }
    op, left, right = (
        getattr(form, "op", None),
        getattr(form, "left", None),
        getattr(form, "right", None),
    )
    if op is None:
        return bernstein(form)
    one, two = slopes(left), slopes(right)
    if one is None or two is None or left.value is None or right.value is None:
        return None
    a, b = left.value, right.value
    scale = {
        "+": (1, 1),
        "-": (1, -1),
        "*": (b, a),
        "/": (1 / b if b else math.nan, -a / b**2 if b else math.nan),
    }[op]
    return {s: scale[0] * one.get(s, 0.0) + scale[1] * two.get(s, 0.0) for s in {**one, **two}}


def bernstein(form: object) -> dict | None:
    """Return the derivatives of a variance by its three cells."""
    measurement = form.of  # type: ignore[attr-defined]
    unit = [Fraction(1), Fraction(0), Fraction(0)]
    sources = [
        next(iter(measurement._linear(tuple(unit[-i:] + unit[:-i]), form.group).terms))  # type: ignore[attr-defined]  # noqa: SLF001
        for i in range(3)
    ]
    b = np.array([s.raw for s in sources], dtype=float)
    n = b.sum()
    if n <= 0:
        return None
    value = (b[0] * b[2] - b[1] ** 2 / 4) / n**2
    width = 100.0  # squared
    grad = np.array([b[2], -b[1] / 2, b[0]]) / n**2 - 2 * value / n
    return dict(zip(sources, width * grad, strict=True))


def rank_result(periods: Periods) -> Result:
    """Return how often all three ranks of a replicate are held together."""
    values = periods.current
    groups = list(GROUPS)
    true = {g: 1 + sum(stats(1)[h][0] > stats(1)[g][0] for h in groups) for g in groups}
    names = dict.fromkeys(key[0] for key in values.keys)
    missed, widths = 0, []
    for name in names:
        found = ranked([values.quantity("count", values.groups[name, g]) for g in groups], 0.95)
        missed += not all(r[1] <= true[g] <= r[2] for r, g in zip(found, groups, strict=True))
        widths.append(sum(r[2] - r[1] for r in found))
    share = 1 - missed / len(names)
    return Result("rank (all three together)", "all", "conservative", share, missed, 0.0,
                  float(np.mean(widths)), math.nan, math.nan)  # fmt: skip


def lines(results: list[Result]) -> list[str]:
    out = [
        "| function | rows of the group | method | held | unbounded | median length | delta method held | its length |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in results:
        size = f"{GROUPS[r.group] + 3:,}" if r.group in GROUPS else "3 groups"
        delta = "–" if math.isnan(r.delta_held) else f"{r.delta_held:.2%}"
        length = "–" if math.isnan(r.delta_length) else f"{r.delta_length:.3g}"
        out.append(
            f"| {r.name} | {size} | {r.method} | {r.held:.2%} | {r.unbounded:.1%} "
            f"| {r.length:.3g} | {delta} | {length} |"
        )
    return out


def results(replicates: int, epsilon: float) -> Iterator[Result]:
    """Yield the rows of the table, one function after the other."""
    periods = released(replicates, epsilon)
    for case in CASES:
        for group in ["c"] if case.pooled else ["a", "c"]:
            same = case.name == "difference of groups" and group == "c"
            if not same and not math.isnan(case.true(stats(1), stats(0), group)):
                yield measured(periods, case, group)
    yield rank_result(periods)


def main() -> None:
    """Write the table down, row by row: a run that is stopped keeps what it has."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--replicates", type=int, default=10_000)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 4.0])
    chosen = parser.parse_args()
    done: dict[float, list[Result]] = {}
    for epsilon in chosen.epsilon:
        for result in results(chosen.replicates, epsilon):
            done.setdefault(epsilon, []).append(result)
            print(f"epsilon {epsilon:g}, {result.name}: {result.held:.2%}", flush=True)
            made = "\n".join(page(done, chosen.replicates))
            (chosen.to / "derived.md").write_text(
                made + "Made by `python benchmarks/derived.py`.\n"
            )


def page(done: dict[float, list[Result]], replicates: int) -> list[str]:
    text = ["# Coverage of the 95 % intervals of derived values", ""]
    for epsilon, found in done.items():
        least = min(r.held for r in found)
        text += [
            f"## ε = {epsilon:g}, {replicates:,} draws each; the least of all is {least:.2%}",
            "",
            *lines(found),
            "",
        ]
    return text


if __name__ == "__main__":
    main()
