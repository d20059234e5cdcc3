"""Which goals of accuracy hold? Each as goal | measured | kept, measured in this run with its baselines.

The goals: shares and forms at most 1.1 times the best private mechanism of a small instance; quantiles
within so many rows; winsorised statistics where a range is loose; prefix sums and distribution functions by
a hierarchy; tight prices under zCDP; least scales, boxes, quick unions; weighted statistics. What the library
does not offer is found out by asking for it, and counts as not kept.

    python benchmarks/accuracy.py --goals    # writes results/goals.md; `--items 1`: that item anew, the others stay
"""

from __future__ import annotations

import importlib.util
import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from dprelease.budget.exact_rho import rho_of_laplace, rho_of_pure
from dprelease.core.entropy import SystemBits
from dprelease.core.errors import DpreleaseError
from dprelease.mechanisms import BoundedGaussian, BoundedLaplace
from dprelease.planning.make import make_plan
from dprelease.query.answer import Answer, Objects
from dprelease.query.load import Schema
from dprelease.query.merge import merge_release
from dprelease.query.spec import resolve
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.draw import assemble
from dprelease.schema.domain import Box, Domain
from dprelease.statistics.exact import exact_cells
from dprelease.statistics.tree_shape import tree_of

__all__ = ["Goal", "lines", "measured"]

Floats = np.ndarray[Any, np.dtype[np.float64]]

RATIO = 1.1
RATIO_OF_BOX = 1.01


@dataclass(frozen=True)
class Goal:
    """One line: `kept` is what the run shows, nothing else."""

    item: str
    what: str
    goal: str
    measured: str
    kept: bool


def beside(name: str) -> Any:
    """Return the script of that name in this folder, as a module."""
    full = f"benchmark_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, Path(__file__).with_name(f"{name}.py"))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[full] = module
        spec.loader.exec_module(module)
    return sys.modules[full]


def planned(
    statistics: list[Any], *, top: int = 120, rows: dict[str, int] | None = None, **more: Any
) -> ReleasePlan:
    """Return a plan for a column x of 0 to `top` and a weight w of 0 to 10."""
    number = {"kind": "integer", "nulls": {"default": 0}}
    declared = {
        "dprelease": "schema/1",
        "name": "goals",
        "unit": "row",
        "adjacency": "add_remove",
        "rows": rows or {"expected": 1000},
        "columns": {"x": {**number, "range": [0, top]}, "w": {**number, "range": [0, 10]}},
        "release": {"epsilon": 1, "statistics": statistics},
        **more,
    }
    schema = Schema.from_dict(declared)
    return make_plan(resolve(schema, merge_release(schema)))


def offered(*statistics: Any) -> bool:
    """Return whether a plan for these statistics can be made."""
    try:
        planned(list(statistics), rows={"expected": 1000, "max": 10_000})
    except DpreleaseError:
        return False
    return True


def _said(offered: bool) -> str:
    return "offered, not measured here" if offered else "not offered"


def shares(draws: int) -> Iterator[Goal]:
    """Item 1: the planner's choice over the best of all mechanisms on every table of a few rows."""
    forms = beside("best_forms")
    forms.DRAWS = draws
    texts = ("proportion(x > 0)", "mean(x)", "sum(x)", "histogram(x, [0, 1, 2])")
    for name, rows in (("row, replace, public size", 8), ("row, replace, private size", 4)):
        for text in texts:
            row = forms.compared(forms.World(name, **forms.WORLDS[name], rows=rows), text, 1.0)
            reason = f"; {row.why}" if row.kind else ""
            yield Goal(
                "1 best forms",
                f"{text}, {name}, {rows} rows, epsilon 1: error over the optimum's, average (worst answer)",
                f"{RATIO:g}, or a computed reason",
                f"{row.ratio:.2f} ({row.worst:.2f}), over the best known form {row.known:.2f}{reason}",
                row.ratio <= RATIO or row.kind not in ("", "loss"),
            )


def quantiles(tables: int, draws: int) -> Iterator[Goal]:
    """Item 2: rank errors, beside a float prototype of the joint mechanism on the same tables."""
    script, floats = beside("quantiles"), beside("prototypes")
    for name, (many, most, goal) in script.WORLDS.items():
        targets = [i / (many + 1) for i in range(1, many + 1)]
        mine, theirs = [], []
        for seed in range(tables):
            x = script.table(most, seed)
            plan = script.planned([f"{p:.3g}" for p in targets], most, x.size, alone=False)
            mine.append(script.rank_error(plan, [f"{p:.3g}" for p in targets], x, draws))
            spread = x + np.random.default_rng(seed).uniform(-0.5, 0.5, x.size)
            chosen = floats.joint_quantiles(spread, targets, (-0.5, most + 0.5), 1.0, draws, seed)
            theirs.append(_rank_error(np.sort(x), np.round(chosen), targets))
        found, other = float(np.mean(mine)), float(np.mean(theirs))
        yield Goal(
            "2 quantiles", f"{name}: mean rank error", f"{goal:g} rows",
            f"{found:.2f} (float prototype {other:.2f})", found <= goal,
        )  # fmt: skip
    yield Goal(
        "2 quantiles", "quantile(x, 0.9): a 95 % interval for the value", "offered",
        _said(ranks := offered({"statistic": "quantile(x, 0.9)", "interval": True})), ranks,
    )  # fmt: skip


def _rank_error(ordered: Any, chosen: Any, targets: list[float]) -> float:
    want = np.array(targets) * ordered.size
    low, high = (np.searchsorted(ordered, chosen, side) for side in ("left", "right"))
    return float(np.maximum(0, np.maximum(low - want, want - high)).mean())


def winsorised(draws: int) -> Iterator[Goal]:
    """Item 3: what a range a hundred times too wide costs, and clipping privately first; rare bad limits take many draws."""
    floats, script, pick = beside("prototypes"), beside("winsorising"), np.random.default_rng(3)
    x = script.amounts(pick)
    plan = planned(["mean(x)"], top=1_000_000, rows={"exact": 10_000}, adjacency="substitution")
    error = plan.statistics[0].chosen[0].expected_error
    assert error is not None
    theirs = np.array([floats.clipped_mean(x, (0, 1e6), 1.0, pick) for _ in range(draws)])
    mine = script.drawn("mean(x)", x, draws)
    clipped = np.clip(x, *np.quantile(x, [0.01, 0.99])).mean()
    ours, other = (np.abs(means - x.mean()) for means in (mine, theirs))
    ratio = ours.mean() / other.mean()
    off = ratio * math.hypot(*(e.std() / e.mean() / math.sqrt(draws) for e in (ours, other)))
    noise = np.abs(mine - clipped).mean() / np.abs(theirs - clipped).mean()
    yield Goal(
        "3 winsorised", f"mean of 10,000 amounts, range 100 times the data, {draws:,} draws: error over clipping privately first (its bias included)",
        f"{RATIO}, under its own name",
        f"{ratio:.2f} (sampling error {off:.2f}; from the clipped mean {noise:.2f}); without it {error / other.mean():.0f} times",
        bool(ratio <= RATIO),
    )  # fmt: skip
    yield from (Goal("3 winsorised", *line) for line in script.compared(x, draws))


def ranges(sizes: dict[int, float], draws: int) -> Iterator[Goal]:
    """Item 4: sums of bins from the first one on, by the laws' variances, which the draws must bear out; cumulative shares."""
    floats = beside("prototypes")
    for bins, goal in sizes.items():
        text = f"histogram(x,[{','.join(map(str, range(bins)))},{bins}])"
        many = 320 * draws // bins if bins < 500 else draws // 16
        exact = np.full((many, bins), 40, dtype=object)
        computed = []
        for more in ({}, {"accurate_for": "ranges"}):
            plan = planned([{"statistic": text, **more}], top=bins - 1, rows={"max": 100_000})
            computed.append(_prefix_variance(plan, bins))
        off = (np.cumsum(published(plan, exact)[0] - 40, axis=1) ** 2).mean(axis=1)
        drawn, spread = float(off.mean()) / computed[1], float(off.std()) / computed[1]
        gain = math.sqrt(computed[0] / computed[1])
        best = min(floats.prefix_variance(bins, 1.0, fan) for fan in (2, 4, 8, 16))
        tree = (floats.prefix_variance(bins, 1.0, 1) / best) ** 0.5
        beyond = f"; weighted counts: {floats.weighted_counts(bins):.2f}" if bins < 100 else ""
        yield Goal(
            "4 ranges", f"prefix sums of {bins:,} bins: root mean square error of bins alone over `accurate_for: ranges`",
            f"{goal:g}",
            f"{gain:.2f} (in floats, an even tree: {tree:.2f}{beyond}); the mean square of {many} published draws is "
            f"{drawn:.2f} of what was computed (sampling error {spread / math.sqrt(many):.2f})",
            gain >= goal,
        )  # fmt: skip
    edges = list(range(3, 64, 4))
    plan = planned([f"cdf(x, {edges})"], top=63, rows={"max": 100_000, "expected": 640})
    values, low, high = published(plan, np.full((4 * draws, 16), 40, dtype=object))
    true = np.arange(1, 17) / 16
    valid = bool((np.diff(values, axis=1) >= 0).all() and (values[:, -1] == 1).all())
    covered = ((low <= true + 1e-12) & (true <= high + 1e-12))[:, :-1].mean(axis=0)
    error = float(np.sqrt(0.05 * 0.95 / len(values)))
    yield Goal(
        "4 ranges", f"cdf(x, edges) of 16 edges, {4 * draws} draws: monotone, ends at 1, intervals cover 95 %",
        "always; 95 %, within 3 sampling errors",
        f"{'always' if valid else 'not always'}; {100 * covered.min():.1f} % at the worst edge (sampling error {100 * error:.1f})",
        valid and covered.min() + 3 * error >= 0.95,
    )  # fmt: skip


def _prefix_variance(plan: ReleasePlan, bins: int) -> float:
    """Return the mean variance of sums from the first bin on, by the law that the plan draws."""
    (block,) = plan.blocks
    variance = block.law.variance
    assert variance is not None
    measurement = block.measurement
    if measurement.form == "binned_tree":
        return variance * float(tree_of(measurement).variances()[0].mean())
    return variance * (bins + 1) / 2


def published(plan: ReleasePlan, bins: Objects) -> tuple[Floats, Floats, Floats]:
    """Return values and intervals of a plan of one statistic of bins, `(draws, columns)`: every draw is a group."""
    (block,), (statistic,) = plan.blocks, plan.statistics
    draw, measurement = block.law, block.measurement
    answer = Answer(bins)
    exact = exact_cells(measurement, tuple(range(bins.shape[1])), answer, len(bins))
    keys = tuple((str(i),) for i in range(len(bins)))
    drawn = draw.draw(exact, SystemBits()).tolist()
    table = assemble(("group",), keys, (statistic,), (block,), {block.name: drawn})
    names = ("value", "lower", "upper")
    values, low, high = (table[n].to_numpy().reshape(len(bins), -1) for n in names)
    return values, low, high


def zcdp() -> Iterator[Goal]:
    """Item 5: what is saved of epsilon^2 / 2."""
    for epsilon, goal, wide in ((0.5, 2, 15), (1, 8, 26), (2, 24, 43)):
        e = Fraction(epsilon)
        half = e * e / 2
        one = 100 * float(1 - rho_of_laplace(e, 1) / half)
        far = 100 * float(1 - rho_of_laplace(e / 1000, 1000) / half)
        pure = 100 * float(1 - rho_of_pure(e) / half)
        yield Goal(
            "5 zCDP", f"a count at epsilon {epsilon:g}, saved of epsilon^2 / 2", f"{goal} %", f"{one:.1f} %",
            round(one) >= goal,
        )  # fmt: skip
        yield Goal(
            "5 zCDP", f"noise for a sensitivity of 1,000 steps at epsilon {epsilon:g}, saved", f"{wide} %",
            f"{far:.1f} % (any pure law {pure:.1f} %)", round(far) >= wide,
        )  # fmt: skip


def scales(cases: int) -> Iterator[Goal]:
    """Item 6: random domains, of up to four intervals; is a scale less by a millionth valid too?"""
    pick, least = random.Random(6), 0
    for _ in range(cases):
        width, cuts = (
            pick.choice((1, 10, 120)),
            sorted(pick.sample(range(1, 100), 2 * pick.randint(0, 3))),
        )
        gaps = [
            (Fraction(a * width, 100), Fraction(b * width, 100))
            for a, b in zip(cuts[::2], cuts[1::2], strict=True)
        ]
        domain = Domain(0, width, forbidden=gaps)
        moved = Fraction(pick.randint(1, 100) * width, 100)
        epsilon, delta = Fraction(pick.randint(1, 40), 10), 10 ** -pick.uniform(1, 9)
        law = BoundedLaplace.calibrate(domain, sensitivity=moved, epsilon=epsilon, delta=delta)
        smaller = BoundedLaplace(domain, scale=law.scale * (1 - 1e-6))
        holds, beyond = (
            m.delta(epsilon=epsilon, sensitivity=moved) <= delta for m in (law, smaller)
        )
        least += holds and not beyond
    yield Goal(
        "6 delta > 0", "random domains: least valid scale of bounded Laplace noise, within 1e-6",
        f"{cases} of {cases}", f"{least} of {cases}", least == cases,
    )  # fmt: skip


def boxes() -> Iterator[Goal]:
    """Item 7: a radius and caps together, and the step of a box."""
    graph, radius = Box([Domain(0, 10), Domain(1, 9)]), 20**0.5
    for caps, goal in (([4, 3], 32.35), ([2, 5], 29.33)):
        need = [
            BoundedGaussian.calibrate(graph, sensitivity=s, epsilon=1).scales[0] ** 2
            for s in (caps, radius, {"l2": radius, "per_coordinate": caps})
        ]
        yield Goal(
            "7 boxes", f"an l2 radius of sqrt(20) and caps of {caps[0]} and {caps[1]} together: scale^2",
            f"{goal:g}", f"{need[2]:.2f} (caps alone {need[0]:.2f}, radius alone {need[1]:.2f})", need[2] <= goal,
        )  # fmt: skip
    box = Box([Domain(0, 34), Domain(0, 33)])
    law = BoundedGaussian.calibrate(box, sensitivity=2, epsilon=1)
    over = {}
    for step in (None, 1):
        grid: Any = law.on_grid(step)
        points = ([0, 0], [17, 16.5], [34, 33])
        over[step] = max(float((grid.variance(p) / law.variance(p)).max()) for p in points)
    yield Goal(
        "7 boxes", "variance of a box on its grid over the continuous law's, worst of three answers", "1.01",
        f"{over[None]:.3f} at the step that it picks ({over[1]:.2f} at step 1)", over[None] <= RATIO_OF_BOX,
    )  # fmt: skip


def unions(sizes: dict[int, float]) -> Iterator[Goal]:
    """Item 8: processor seconds of one calibration, answers in the hull."""
    for count, goal in sizes.items():
        gaps = [(3 * i + 2, 3 * i + 3) for i in range(count - 1)]
        domain = Domain(0, 3 * count - 1, forbidden=gaps)
        seconds = []
        for _ in range(5 if count < 50 else 2):
            start = time.process_time()
            BoundedLaplace.calibrate(domain, sensitivity=2, epsilon=1)
            seconds.append(time.process_time() - start)
        yield Goal(
            "8 unions", f"calibration on {count} intervals, processor time", f"{1000 * goal:g} ms",
            f"{1000 * min(seconds):.1f} ms", min(seconds) <= goal,
        )  # fmt: skip


def weighted(draws: int) -> Iterator[Goal]:
    """Item 11: errors beside sums that are priced by themselves, the better of plain and about the middle."""
    yield from (Goal("11 weights", *line) for line in beside("weights").compared(draws))


def measured(*, small: bool = False, items: Sequence[int] = ()) -> Iterator[Goal]:
    """Yield every goal, or those of some items; `small` takes the sizes of a test."""
    few = 2 if small else 12
    parts: dict[int, Callable[[], Iterator[Goal]]] = {
        1: lambda: shares(50 if small else 2000),
        2: lambda: quantiles(1 if small else 3, few * 8),
        3: lambda: winsorised(20 if small else 4000),
        4: lambda: ranges({64: 1.4} if small else {64: 1.4, 256: 1.8, 1024: 2.5}, 100 * few),
        5: zcdp,
        6: lambda: scales(few),
        7: boxes,
        8: lambda: unions({2: 0.001} if small else {2: 0.001, 20: 0.02, 50: 0.1}),
        11: lambda: weighted(2000 if small else 20_000),
    }
    for item, part in parts.items():
        if not items or item in items:
            yield from part()


def lines(goals: list[Goal], before: str = "") -> list[str]:
    """Return the table, and how many are kept; items of the page `before` that are not measured anew stay."""
    anew = {g.item for g in goals}
    old = [line for line in before.splitlines() if line[:2] == "| " and line[2:3].isdigit()]
    rows = [line for line in old if line.split(" | ")[0][2:] not in anew]
    rows += [
        f"| {g.item} | {g.what} | {g.goal} | {g.measured} | {'yes' if g.kept else 'no'} |"
        for g in goals
    ]
    rows.sort(key=lambda row: int(row.split()[1]))
    kept = sum(row.endswith("| yes |") for row in rows)
    return [
        f"{kept} of {len(rows)} goals are kept.",
        "",
        "| item | what | goal | measured | kept |",
        "|---|---|---|---|---|",
        *rows,
        "",
    ]
