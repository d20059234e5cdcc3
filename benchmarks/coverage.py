"""Do the 95 % intervals hold what they say, and are they no longer than they must be?

Grid laws, exactly: for every answer q of the hull the chance, by the law's own probabilities, that
the interval made from the draw holds q. Nothing is sampled. Reported per law and domain: the least
over all answers, the mean over inner answers (no closer to an end than a tenth of the hull), and
the ends. Shorter and longer hulls, a gap, islands; epsilon from 0.1 to 4.

Joint cells (means, variances, histograms), by simulation: many groups with the same rows, drawn by
repeatable bits; the share whose interval holds the true value.

    python benchmarks/coverage.py            # prints both tables, writes results/coverage.md
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.core.entropy import ReplayBits
from dprelease.mechanisms.forms.additive import AdditiveLaw
from dprelease.mechanisms.law import GridLaw, GridRequest, grid_laws
from dprelease.planning.make import make_plan
from dprelease.query.load import Schema
from dprelease.query.merge import merge_release
from dprelease.query.spec import resolve
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.draw import assemble
from dprelease.schema.domain import GridSet

Floats = npt.NDArray[np.float64]
DOMAINS = {
    "0..400, sensitivity 10": ([(0, 400)], 10),
    "0..40, sensitivity 1": ([(0, 40)], 1),
    "gap of 80 in 0..400, sensitivity 10": ([(0, 160), (240, 400)], 10),
    "three islands in 0..400, sensitivity 40": ([(0, 20), (200, 230), (390, 400)], 40),
}
EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(4))
TABLES = ("optimal_grid",)


def laws() -> Iterator[tuple[str, Fraction, GridLaw]]:
    """Yield every family's law for every domain and epsilon."""
    for name, (runs, sensitivity) in DOMAINS.items():
        for epsilon in EPSILONS:
            found: dict[str, GridLaw] = {}
            for point_masses in (True, False):
                request = GridRequest(
                    GridSet.from_runs(runs), sensitivity, epsilon, point_masses=point_masses
                )
                for law in grid_laws(request):
                    found.setdefault(law.family, law)
            for family in sorted(found):
                yield name, epsilon, found[family]


def coverage(law: GridLaw) -> Floats:
    """Return the exact chance, per hull answer, that its 95 % interval holds it."""
    low, high = law.allowed.lower, law.allowed.upper
    out = np.empty(high - low + 1)
    if isinstance(law, AdditiveLaw):
        margin = law.noise.quantile(1 - 1e-9)
        weights = law.noise.weights(margin + 1)
        chance = np.concatenate([weights[:0:-1], weights])
        raw = np.arange(low - margin, high + margin + 1)
        lower, upper = law.interval(raw)
        for q in range(low, high + 1):
            here = slice(q - low, q - low + chance.size)
            out[q - low] = chance[(lower[here] <= q) & (q <= upper[here])].sum()
        return out
    outputs = np.array(sorted(law.pmf(low)), dtype=np.int64)
    lower, upper = law.interval(outputs)
    for q in range(low, high + 1):
        pmf: dict[int, Any] = law.pmf(q)
        held = (lower <= q) & (q <= upper)
        out[q - low] = sum(float(pmf[int(y)]) for y in outputs[held])
    return out


def exact_table(chosen: Sequence[tuple[str, Fraction, GridLaw]]) -> tuple[list[str], float]:
    """Return the lines and the least coverage of all."""
    lines = [
        "| domain | epsilon | law | least | inner answers, mean | ends |",
        "|---|---|---|---|---|---|",
    ]
    least = 1.0
    for name, epsilon, law in chosen:
        found = coverage(law)
        margin = max(1, found.size // 10)
        inner = found[margin:-margin]
        least = min(least, float(found.min()))
        lines.append(
            f"| {name} | {float(epsilon):g} | {law.family} | {found.min():.2%} "
            f"| {inner.mean():.2%} | {found[0]:.2%}, {found[-1]:.2%} |"
        )
    return lines, least


def planned(statistics: list[object], groups: int, epsilon: float, delta: float = 0) -> ReleasePlan:
    release: dict[str, object] = {"epsilon": epsilon, "by": ["g"], "statistics": statistics}
    if delta:
        release["delta"] = delta
    schema = Schema.from_dict(
        {
            "dprelease": "schema/1",
            "name": "coverage",
            "unit": "row",
            "adjacency": "add_remove",
            "rows": {"max": 100_000, "expected": 100},
            "columns": {
                "x": {"kind": "number", "range": [0, 10], "step": 0.5},
                "g": {"kind": "category", "values": [f"k{i}" for i in range(groups)]},
            },
            "release": release,
        }
    )
    return make_plan(resolve(schema, merge_release(schema)))


def primitives(plan: ReleasePlan, codes: npt.NDArray[np.int64]) -> list[int]:
    """Return the exact sums of one group's codes, as an engine would."""
    out = []
    for p in plan.query.primitives:
        match p.kind:
            case "power":
                out.append(int((codes**p.power).sum()))
            case "between":
                out.append(int(((codes >= p.low) & (codes <= p.high)).sum()))
            case _:
                out.append(len(codes))
    return out


def simulated(
    plan: ReleasePlan, codes: npt.NDArray[np.int64], label: str
) -> dict[str, tuple[float, float]]:
    """Return, per published column, the share covered and the mean length of the interval."""
    sums = np.array([primitives(plan, codes)] * len(plan.keys), dtype=object)
    cells = {}
    for block in plan.blocks:
        weights = np.array(block.measurement.weights, dtype=object)
        exact = sums[:, list(block.measurement.primitives)] @ weights.T
        raw = block.law.draw(exact, ReplayBits(label + block.name))
        cells[block.name] = tuple(tuple(int(v) for v in row) for row in raw)
    table = assemble(plan.by, plan.keys, plan.statistics, plan.blocks, cells)
    x = codes / 2
    true = {"count": [len(x)], "mean": [x.mean()], "variance": [x.var()], "std": [x.std()]}
    true["histogram"] = list(np.histogram(x, [0, 2, 5, 10])[0])
    names = np.array(table["statistic"].to_pylist())
    lower, upper = table["lower"].to_numpy(), table["upper"].to_numpy()
    out = {}
    for statistic in plan.statistics:
        for column, value in zip(statistic.columns, true[statistic.function], strict=True):
            here, slack = names == column, 1e-9 * max(1.0, abs(value))
            held = (lower[here] <= value + slack) & (value - slack <= upper[here])
            out[column] = float(held.mean()), float((upper[here] - lower[here]).mean())
    return out


SUITES: tuple[tuple[list[object], float], ...] = (
    (["mean(x)"], 0),
    (["mean(x)", "variance(x)", "std(x)"], 0),
    (["histogram(x, [0, 2, 5, 10])"], 0),
    ([{"statistic": "mean(x)", "spikes": "forbid"}], 0),
    (["mean(x)", "variance(x)", "std(x)"], 1e-6),
)


def simulated_table(
    groups: int, sizes: Sequence[int], epsilons: Sequence[float]
) -> tuple[list[str], float]:
    """Return the lines and the least coverage of all."""
    lines = [
        "| statistic | mechanism | rows | epsilon | delta | covered | mean length |",
        "|---|---|---|---|---|---|---|",
    ]
    least = 1.0
    for statistics, delta in SUITES:
        for epsilon in epsilons:
            plan = planned(statistics, groups, epsilon, delta)
            for rows in sizes:
                codes = np.round(np.random.default_rng(rows).beta(2, 4, rows) * 20).astype(np.int64)
                found = simulated(plan, codes, f"{rows} {epsilon}")
                for statistic in plan.statistics:
                    for column in statistic.columns[:1]:
                        share, length = found[column]
                        least = min(least, share)
                        lines.append(
                            f"| {statistic.text} | {statistic.mechanism} | {rows:,} | {epsilon:g} "
                            f"| {delta:g} | {share:.1%} | {length:.3g} |"
                        )
    return lines, least


def main() -> None:
    """Print the tables and write them down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--groups", type=int, default=4_000)
    chosen = parser.parse_args()
    one, least = exact_table(list(laws()))
    two, lowest = simulated_table(chosen.groups, (3, 60, 2_000), (0.5, 5))
    lines = [
        "# Coverage of the 95 % intervals",
        "",
        f"## Grid laws, exact; the least of all is {least:.3%}",
        "",
        *one,
        "",
        f"## Joint cells, {chosen.groups:,} simulated groups each; the least of all is {lowest:.1%}",
        "",
        *two,
        "",
    ]
    text = "\n".join(lines)
    print(text)
    chosen.to.mkdir(parents=True, exist_ok=True)
    (chosen.to / "coverage.md").write_text(text + "Made by `python benchmarks/coverage.py`.\n")


if __name__ == "__main__":
    main()
