"""How wrong are weighted statistics and ratios of sums, beside sums that are priced by themselves?

1,000 rows: amounts of 0 to 120, skewed weights of 0 to 10 (nine in ten below 4), at epsilon 1. The planner's own plan is
drawn by the system's generator. The alternative is what anybody would write first: discrete Laplace noise on S(w x) and
on S(w), half of epsilon each, and their quotient kept to the domain; and the better one, with x about the middle of its range.
Of a weighted sum or count it is Laplace noise on that one sum, with all of epsilon.

    error      mean |value - exact| over draws; coverage: of the 95 % intervals

The second table asks for the same by a derived column, its planned error beside that of the statistic of its own. The third asks what a
ratio would be if it were measured as a weighted mean is, by its top above the least quotient of its domain and the mirror
below the greatest one: with rows as they are, and with rows clamped to these quotients.

    python benchmarks/weights.py           # writes results/weights.md
    python benchmarks/weights.py --planned # the second and third tables alone, the first is kept
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

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
from dprelease.statistics import ratio_sums
from dprelease.statistics.base import Reading, kind_named

Floats = np.ndarray[Any, np.dtype[np.float64]]

ROWS, TOP, HEAVIEST = 1000, 120, 10
ADJACENCIES = {"add_remove": "added or removed", "substitution": "replaced"}
ASKED: dict[str, Any] = {
    "mean(x) weighted by w": {"statistic": "mean(x)", "weighted_by": "w"},
    "proportion(x > 40) weighted by w": {"statistic": "proportion(x > 40)", "weighted_by": "w"},
    "sum(x) weighted by w": {"statistic": "sum(x)", "weighted_by": "w"},
    "count weighted by w": {"statistic": "count", "weighted_by": "w"},
    "ratio(x, v), v from 1": "ratio(x, v)",
    "ratio(x, w), declared up to 60": {"statistic": "ratio(x, w)", "domain": {"range": [0, 60]}},
}
DERIVED: dict[str, dict[str, Any]] = {
    "xw": {"kind": "integer", "range": [0, TOP * HEAVIEST], "from": "x * w"},
    "yes": {"kind": "integer", "range": [0, 1], "from": "case when x > 40 then 1 else 0 end"},
    "yesw": {
        "kind": "integer",
        "range": [0, HEAVIEST],
        "from": "case when x > 40 then w else 0 end",
    },
}
FOLDED: dict[str, Any] = {
    "weighted_sum(x, w)": "sum(xw)",
    "weighted_count(w)": "sum(w)",
    "proportion(x > 40)": "mean(yes)",
    "weighted_mean(x, w)": {"statistic": "ratio(xw, w)", "domain": {"range": [0, TOP]}},
    "weighted_proportion(x > 40, w)": {
        "statistic": "ratio(yesw, w)",
        "domain": {"range": [0, 1]},
    },
}
MIRRORED: tuple[tuple[str, tuple[int, int]], ...] = (
    ("ratio(x, w)", (0, 60)),
    ("ratio(x, w)", (0, TOP)),
    ("ratio(x, w)", (5, 30)),
    ("ratio(xw, w)", (0, TOP)),
    ("ratio(w, x)", (0, 1)),
)
"""Ratios and their declared domains."""


@dataclass(frozen=True)
class Found:
    """Mean errors of the library, of two sums, and of two sums of which one is about the middle; and coverage."""

    ours: float
    sums: float
    centred: float
    covered: float


def table() -> pa.Table:
    pick = np.random.default_rng(11)
    w = np.clip(np.round(pick.lognormal(0.6, 0.6, ROWS)), 0, HEAVIEST)
    x = np.clip(np.round(pick.gamma(4, 10, ROWS)), 0, TOP)
    return pa.table({"x": x, "w": w, "v": np.maximum(w, 1)})


def planned(asked: Any, adjacency: str) -> ReleasePlan:
    number = {"kind": "integer", "nulls": {"default": 1}}
    columns = {
        "x": {**number, "range": [0, TOP]},
        "w": {**number, "range": [0, HEAVIEST]},
        "v": {**number, "range": [1, HEAVIEST]},
        **DERIVED,
    }
    schema = Schema.from_dict(
        {
            "dprelease": "schema/1",
            "name": "weights",
            "unit": "row",
            "adjacency": adjacency,
            "rows": {"expected": ROWS, "max": 2 * ROWS},
            "columns": columns,
            "release": {"epsilon": 1, "statistics": [asked]},
        }
    )
    return make_plan(resolve(schema, merge_release(schema)))


def measured(name: str, adjacency: str, draws: int) -> Found:
    """Return the errors of one statistic of `table()`."""
    plan, rows = planned(ASKED[name], adjacency), table()
    (block,), (statistic,) = plan.blocks, plan.statistics
    draw, measurement = block.law, block.measurement
    (exact,) = cells_of(plan, answer_of(plan, rows, ReferenceEngine()))
    raw = draw.draw(np.repeat(exact, draws, axis=0), SystemBits())
    statistic_kind, cells = kind_named(statistic.function), draw.cells(raw)
    (true,) = statistic_kind.finish(measurement, exact.astype(float))[0]
    noisy = raw.astype(float)
    low, high = statistic_kind.interval(
        measurement, Reading(cells, cells, noisy, draw.noise_scale, 0.95)
    )
    values = statistic_kind.finish(measurement, cells)[:, 0]
    inside = (low[:, 0] <= true + 1e-12) & (true <= high[:, 0] + 1e-12)
    sums, centred = (
        _sums(name, rows, statistic.domain.hull, draws, adjacency, middle=m) for m in (False, True)
    )
    return Found(
        float(np.abs(values - true).mean()),
        float(np.abs(sums - true).mean()),
        float(np.abs(centred - true).mean()),
        float(inside.mean()),
    )


def _sums(
    name: str,
    rows: pa.Table,
    hull: tuple[float, float],
    draws: int,
    adjacency: str,
    *,
    middle: bool,
) -> Floats:
    """Return quotients of two sums with noise of half of epsilon each; of a sum or count, it with noise of all."""
    pick = np.random.default_rng(12)
    x, w, v = (rows[n].to_numpy() for n in ("x", "w", "v"))
    if _alone(name):
        added, most = (w * x, TOP * HEAVIEST) if "x" in name else (w, HEAVIEST)
        return np.clip(added.sum() + most * pick.laplace(size=draws), *hull)
    weights, top, moves = (v, x, float(TOP)) if "(x, v)" in name else (w, x, float(TOP))
    centre = 0.0
    if "weighted" in name:
        value, width = ((x > 40).astype(float), 1.0) if "proportion" in name else (x, float(TOP))
        centre = width / 2 if middle else 0.0
        top, moves = w * (value - centre), HEAVIEST * (width - centre)
        moves *= 2 if middle and adjacency == "substitution" else 1
    noise = pick.laplace(size=(2, draws)) * 2 * np.array([[moves], [float(HEAVIEST)]])
    above, below = top.sum() + noise[0], weights.sum() + noise[1]
    return np.clip(centre + above / np.maximum(below, 1e-9), *hull)


def _alone(name: str) -> bool:
    """Return whether it is one sum, no quotient; its interval is that of its scalar law (`coverage.py`)."""
    return name.startswith(("sum", "count"))


def compared(draws: int) -> Iterator[tuple[str, str, str, bool]]:
    """Yield what is compared, the goal, what is measured, and whether it is kept."""
    error = (0.05 * 0.95 / draws) ** 0.5
    for name, adjacency in product(ASKED, ("add_remove", "substitution")):
        found = measured(name, adjacency, draws)
        ratio, what = (
            found.ours / min(found.sums, found.centred),
            f"{name}, {adjacency}, {draws:,} draws",
        )
        if _alone(name):
            yield f"{what}: error over Laplace noise's", "1", f"{ratio:.2f}", ratio <= 1
            continue
        yield (
            f"{what}: error over two sums'; 95 % intervals cover",
            "1; 95 %, within 3 sampling errors",
            f"{ratio:.2f}; {100 * found.covered:.1f} % (sampling error {100 * error:.1f})",
            ratio <= 1 and found.covered + 3 * error >= 0.95,
        )


def folded() -> Iterator[str]:
    """Yield the lines of the second table."""
    yield "Planned errors of the same number by a derived column (`xw = x * w`, `yes = case when x > 40 then 1 else 0 end`, `yesw` with w in place of 1)."
    yield ""
    yield "| statistic | a row is | planned error | by a derived column | planned error | ratio |"
    yield "|---|---|---|---|---|---|"
    for (name, other), (adjacency, said) in product(FOLDED.items(), ADJACENCIES.items()):
        one, two = (planned(s, adjacency).statistics[0].planned_error for s in (name, other))
        text = other if isinstance(other, str) else other["statistic"]
        yield f"| {name} | {said} | {one:.9g} | {text} | {two:.9g} | {two / one:.3f} |"


def mirrored() -> Iterator[str]:
    """Yield the lines of the third table."""
    yield "Ratios with a declared domain: what the plan says; the same where the cells are the top and the mirror of the domain; and the ratio itself if rows were clamped to the domain's quotients, so that top and mirror add up to no more than the denominator says."
    yield ""
    yield "| ratio | domain | a row is | planned error | top and mirror | ratio of the rows | of clamped rows |"
    yield "|---|---|---|---|---|---|---|"
    rows = {n: np.asarray(c) for n, c in zip("xwv", table().columns, strict=True)}
    rows["xw"] = rows["x"] * rows["w"]
    for (text, (low, high)), (adjacency, said) in product(MIRRORED, ADJACENCIES.items()):
        asked = {"statistic": text, "domain": {"range": [low, high]}}
        ours = planned(asked, adjacency).statistics[0].planned_error
        middle, half = Fraction(low + high, 2), Fraction(high - low, 2)
        cells = ((2, int(2 * middle), int(2 * half)),)
        with patch.object(ratio_sums, "_best", lambda *_, cells=cells: cells):
            theirs = planned(asked, adjacency).statistics[0].planned_error
        a, b = (rows[n] for n in text[6:-1].split(", "))
        clamped = np.clip(a, low * b, high * b)
        yield (
            f"| {text} | {low} to {high} | {said} | {ours:.4g} | {theirs:.4g} | {a.sum() / b.sum():.4g} | {clamped.sum() / b.sum():.4g} |"
        )


def main(draws: int = 20_000) -> None:
    page = Path(__file__).parent / "results" / "weights.md"
    more = ["", *folded(), "", *mirrored()]
    if "--planned" in sys.argv:
        kept = page.read_text(encoding="utf-8").split("\nPlanned errors of")[0].rstrip()
        page.write_text("\n".join([kept, *more, ""]), encoding="utf-8")
        return
    lines = [
        f"{ROWS:,} rows, epsilon 1, {draws:,} draws; mean error, and the coverage of its 95 % interval. `benchmarks/weights.py` makes this page.",
        "",
        "| statistic | a row is | error | two sums, half of epsilon each (one, all of it) | the same about the middle | interval covers |",
        "|---|---|---|---|---|---|",
    ]
    for name in ASKED:
        for adjacency, said in ADJACENCIES.items():
            f = measured(name, adjacency, draws)
            centred = f"{f.centred:.3g}" if "weighted" in name and not _alone(name) else "–"
            covers = "–" if _alone(name) else f"{100 * f.covered:.2f} %"
            lines.append(
                f"| {name} | {said} | {f.ours:.3g} | {f.sums:.3g} | {centred} | {covers} |"
            )
    text = "\n".join([*lines, *more, ""])
    page.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
