"""Do the intervals of values derived from tables that add up hold what they say, beside the delta method?

A nation of three regions and fourteen towns, of 2 to 400 people; counts and sums in all three tables, fitted
to each other. One plan is drawn many times; every expression is a form in the noisy integers of all tables, and
the share of its intervals that hold the value of the same rows without noise is counted. The delta method: the
fitted estimates +- 1.96 standard deviations, each published cell taken as independent of the others, which is what
a reader would do who has only the published intervals.

    python benchmarks/derived_tables.py      # 10,000 draws; writes results/derived_tables.md
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd

import dprelease as dp
from dprelease.core.entropy import ReplayBits
from dprelease.reading.estimated import expanded
from dprelease.reading.evaluation import Evaluation, Periods
from dprelease.reading.forms import Linear, NoisyInteger, RatioForm
from dprelease.reading.grammar import parse
from dprelease.reading.projection import part_ends
from dprelease.reading.quantity import Quantity
from dprelease.reading.table_values import values_of

SIZES = (2, 5, 9, 30, 30, 40, 55, 80, 80, 120, 150, 200, 300, 400)
TOWNS = [f"t{i}" for i in range(len(SIZES))]
REGIONS = {t: f"r{i % 3}" for i, t in enumerate(TOWNS)}
CASES = {
    "difference of towns": ("towns", "count[town='{t}'] - count[town='t13']"),
    "share of all": ("towns", "count[town='{t}'] / total(count)"),
    "mean of a town": ("towns", "sum_late[town='{t}'] / count[town='{t}']"),
    "ratio of regions": ("regions", "count[region='r0'] / count[region='r2']"),
}
Z = 1.959963984540054


def people() -> pd.DataFrame:
    """Return one row per person."""
    town = np.repeat(TOWNS, SIZES)
    late = np.random.default_rng(3).integers(0, 11, len(town))
    return pd.DataFrame({"town": town, "late": late})


def released(epsilon: float) -> dp.Release:
    """Return one release of the three tables."""
    both = ["count", "sum(late)"]
    names = {"nation": [], "regions": ["region"], "towns": ["town"]}
    made = {
        "dprelease": "schema/1",
        "name": "towns",
        "unit": "row",
        "adjacency": "add_remove",
        "rows": {"max": 5000},
        "columns": {
            "town": {"kind": "category", "values": TOWNS},
            "late": {"kind": "integer", "range": [0, 10]},
        },
        "hierarchies": {
            "place": {"levels": ["region", "town"], "keys": [[REGIONS[t], t] for t in TOWNS]}
        },
        "release": {
            "epsilon": epsilon,
            "tables": [{"name": n, "by": by, "statistics": both} for n, by in names.items()],
        },
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.errors.UnledgeredWarning)
        return dp.release(people(), made)


@dataclass(frozen=True)
class Result:
    """How often intervals held the true value, and their median length."""

    name: str
    town: str
    held: float
    misses: int
    length: float
    beside: float
    beside_length: float


class Draws:
    """Many draws of one plan."""

    def __init__(self, epsilon: float, draws: int) -> None:
        self.release, self.draws = released(epsilon), draws
        plan, rows = self.release.plan, people()
        rows["region"] = rows["town"].map(REGIONS)
        self.raw: dict[str, np.ndarray] = {}
        self.truth: dict[str, np.ndarray] = {}
        assert plan.tables is not None
        for fit in plan.tables.fits:
            for part in fit.tables:
                if part.block is None:
                    continue  # summed up from finer tables
                table = plan.tables.named(part.table)
                of = rows if table.by else rows.assign(all="")
                found = of.groupby(list(table.by) or "all")["late"]
                sums = found.size() if fit.name.startswith("count") else found.sum()
                keys = [key[0] if key else "" for key in table.keys]
                exact = np.array([[int(sums[k])] for k in keys], dtype=object)
                law = plan.block(part.block).law
                bits = ReplayBits(f"{part.block} {epsilon}")
                drawn = law.draw(np.tile(exact, (draws, 1)), bits)
                self.raw[part.block] = np.asarray(drawn).reshape(draws, len(keys), 1)
                self.truth[part.block] = exact

    def quantity(self, table: str, text: str) -> Quantity:
        """Return the expression over the one release, its forms over noisy integers."""
        values = values_of(self.release.noised, table)
        tree = parse(text, values.names, ())
        return Evaluation(Periods(values, None, {}), (), None).quantity(tree, ())

    def at(self, form: Linear, raw: Sequence[int]) -> Linear:
        return replace(
            form,
            terms={
                replace(s, raw=int(k)): w for (s, w), k in zip(form.cells, raw, strict=True)
            },
        )  # fmt: skip

    def of(self, form: Linear, cells: dict[str, np.ndarray]) -> np.ndarray:
        """Return the cells that a form is over, `(…, terms)`."""
        picked = [cells[s.block][..., s.group, s.cell] for s, _ in form.cells]
        return np.stack(picked, axis=-1)


def measured(drawn: Draws, name: str, town: str, *, shrink: float = 1.0) -> Result:
    """Return one row of the table; `shrink` makes the intervals shorter, for a control."""
    table, text = CASES[name]
    quantity = drawn.quantity(table, text.replace("{t}", town))
    form = quantity.form
    assert isinstance(form, Linear | RatioForm)
    parts = [form] if isinstance(form, Linear) else [form.top, form.bottom]
    parts = [expanded(part) for part in parts]
    raws = [drawn.of(part, drawn.raw) for part in parts]
    exact = [_sum(drawn.at(p, drawn.of(p, drawn.truth))) for p in parts]
    true = float(exact[0] if len(parts) == 1 else exact[0] / exact[1])
    spread = _apart(quantity)
    missed, lengths, beside, widths = 0, [], 0, []
    for i in range(drawn.draws):
        made = [drawn.at(p, raw[i]) for p, raw in zip(parts, raws, strict=True)]
        whole = made[0] if len(made) == 1 else RatioForm(*made)
        low, high = part_ends(replace(quantity, form=whole), 0.95)
        if shrink != 1:
            middle, half = (low + high) / 2, (high - low) / 2 * shrink
            low, high = middle - half, middle + half
        missed += not low - 1e-9 <= true <= high + 1e-9
        lengths.append(high - low)
        seen = [float(_sum(p)) for p in made]
        value = seen[0] if len(seen) == 1 else seen[0] / seen[1] if seen[1] else math.nan
        sd = _spread(seen, spread)
        beside += abs(value - true) <= Z * sd
        widths.append(2 * Z * sd)
    return Result(
        name,
        town,
        1 - missed / drawn.draws,
        missed,
        sorted(lengths)[len(lengths) // 2],
        beside / drawn.draws,
        float(np.nanmedian(widths)),
    )


def _sum(form: Linear) -> Fraction:
    return form.observed


def _apart(quantity: Quantity) -> list[dict[object, tuple[float, float]]]:
    """Return per part the (weight, variance) of each published cell, as if they were independent."""
    form = quantity.form
    assert isinstance(form, Linear | RatioForm)
    out = []
    for part in [form] if isinstance(form, Linear) else [form.top, form.bottom]:
        found: dict[object, tuple[float, float]] = {}
        for atom, weight in part.terms.items():
            own = expanded(Linear(Fraction(0), {atom: Fraction(1)}))
            variance = sum(float(w) ** 2 * _variance(s) for s, w in own.cells)
            found[atom] = float(weight), variance
        out.append(found)
    return out


def _variance(source: NoisyInteger) -> float:
    return float(source.noise.variance())


def _spread(seen: Sequence[float], parts: list[dict[object, tuple[float, float]]]) -> float:
    if len(parts) == 1:
        return math.sqrt(sum(w * w * v for w, v in parts[0].values()))
    top, bottom = seen
    if not bottom:
        return math.nan
    total = 0.0
    for atom in {**parts[0], **parts[1]}:
        t, v = parts[0].get(atom, (0.0, 0.0))
        b, u = parts[1].get(atom, (0.0, 0.0))
        total += ((t - top / bottom * b) / bottom) ** 2 * max(u, v)
    return math.sqrt(total)


def results(epsilon: float, draws: int) -> list[Result]:
    drawn = Draws(epsilon, draws)
    out = []
    for name, (_, text) in CASES.items():
        for town in ("t0", "t12") if "{t}" in text else ("",):
            out.append(measured(drawn, name, town))
            print(f"epsilon {epsilon:g}, {name} {town}: {out[-1].held:.2%}", flush=True)
    return out


def page(done: dict[float, list[Result]], draws: int) -> str:
    text = ["# Coverage of intervals derived from tables that add up", ""]
    for epsilon, found in done.items():
        text += [
            f"## ε = {epsilon:g}, {draws:,} draws each; the least of all is {min(r.held for r in found):.2%}",
            "",
            "| function | rows of the group | held | median length | cells as if independent held | its length |",
            "|---|---|---|---|---|---|",
        ]
        for r in found:
            size = SIZES[TOWNS.index(r.town)] if r.town else "region"
            length = f"{r.length:.3g}" if math.isfinite(r.length) else "unbounded"
            text.append(
                f"| {r.name} | {size} | {r.held:.2%} | {length} | {r.beside:.2%} | {r.beside_length:.3g} |"
            )
        text.append("")
    return "\n".join([*text, "Made by `python benchmarks/derived_tables.py`.", ""])


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 4.0])
    chosen = parser.parse_args()
    done = {epsilon: results(epsilon, chosen.draws) for epsilon in chosen.epsilon}
    (chosen.to / "derived_tables.md").write_text(page(done, chosen.draws))


if __name__ == "__main__":
    main()
