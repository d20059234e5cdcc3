"""Natural schemas: what people have in tables, at the steps they have it in.

`requests(count)` gives the same `count` requests every time: money in cents to 10^11 steps, ages, rates
to nine digits, sensor values, dates as numbers; epsilon 0.01 to 10; 1 to 20 statistics; a row and a
person as the unit; both adjacencies; private and public sizes. `drawn_errors` draws the blocks of a plan
on the data that its stated errors are about.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.core.entropy import RandomBits
from dprelease.measurements.cells import CellLaw
from dprelease.measurements.law import Law
from dprelease.measurements.scalar import ScalarCellLaw
from dprelease.release_plan.block import Block
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.results.consistency import to_domain
from dprelease.statistics.base import kind_named
from dprelease.statistics.measurement import Measurement
from tests.planning.simulated import simulated_cells

Columns = dict[str, dict[str, Any]]

COLUMNS: Columns = {
    "age": {"kind": "integer", "range": [0, 110]},
    "age_months": {"kind": "integer", "range": [0, 1320]},
    "children": {"kind": "integer", "range": [0, 20]},
    "salary": {"kind": "number", "range": [0, 500_000], "step": 0.01},
    "salary_euro": {"kind": "integer", "range": [0, 500_000]},
    "wealth": {"kind": "number", "range": [-10_000_000, 1_000_000_000], "step": 0.01},
    "turnover": {"kind": "number", "range": [0, 1_000_000_000], "step": 1},
    "balance": {"kind": "number", "range": [-100_000, 100_000], "step": 0.01},
    "price": {"kind": "number", "range": [0, 9_999.99], "step": 0.01},
    "rent": {"kind": "number", "range": [0, 5_000], "step": 5},
    "share": {"kind": "number", "range": [0, 1], "step": "0.000000001"},
    "rate": {"kind": "number", "range": [0, 1], "step": 0.0001},
    "interest": {"kind": "number", "range": [-5, 25], "step": 0.001},
    "percent": {"kind": "number", "range": [0, 100], "step": 0.1},
    "growth": {"kind": "number", "range": [-100, 100], "step": 0.01},
    "millidegrees": {"kind": "number", "range": [-1_000_000, 1_000_000], "step": 0.001},
    "celsius": {"kind": "number", "range": [-40, 60], "step": 0.1},
    "kelvin": {"kind": "number", "range": [233.15, 333.15], "step": 0.01},
    "volt": {"kind": "number", "range": [-5, 5], "step": "0.000001"},
    "pascal": {"kind": "number", "range": [87_000, 108_500], "step": 1},
    "ppm": {"kind": "number", "range": [0, 10_000], "step": 0.5},
    "latitude": {"kind": "number", "range": [-90, 90], "step": "0.000001"},
    "longitude": {"kind": "number", "range": [-180, 180], "step": "0.000001"},
    "heart_rate": {"kind": "integer", "range": [30, 220]},
    "bmi": {"kind": "number", "range": [10, 60], "step": 0.1},
    "glucose": {"kind": "number", "range": [1.5, 40], "step": 0.05},
    "steps_a_day": {"kind": "integer", "range": [0, 60_000]},
    "bytes_sent": {"kind": "integer", "range": [0, 1_000_000_000_000]},
    "milliseconds": {"kind": "number", "range": [0, 86_400_000], "step": 1},
    "seconds_1970": {"kind": "integer", "range": [0, 2_000_000_000]},
    "milliseconds_1970": {"kind": "integer", "range": [0, 2_000_000_000_000]},
    "day_number": {"kind": "integer", "range": [0, 40_000]},
    "year": {"kind": "integer", "range": [1900, 2030]},
    "score": {"kind": "number", "range": [0, 10], "step": 0.5},
    "rating": {"kind": "integer", "range": [1, 5]},
}
EPSILONS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10)
UNITS: tuple[Any, ...] = (
    "row",
    {"user": "who", "max_groups": 1, "max_rows_per_group": 1},
    {"user": "who", "max_groups": 2, "max_rows_per_group": 5},
)
_ONE = ("sum({a})", "mean({a})", "variance({a})", "std({a})", "median({a})", "min({a})", "max({a})")
_TWO = ("covariance({a}, {b})", "correlation({a}, {b})")
_SHARE = "proportion({a} >= {middle})"


def requests(count: int) -> Iterator[dict[str, Any]]:
    """Yield `count` schemas with a release, the same ones every time."""
    pick = random.Random(13)
    names = list(COLUMNS)
    for i in range(count):
        a = names[i % len(names)]
        others = pick.sample([n for n in names if n != a], 3)
        columns = {n: dict(COLUMNS[n]) for n in (a, *others)}
        public = i % 7 == 3
        if public:
            for column in columns.values():
                column["nulls"] = {"default": column["range"][0]}
        size = pick.choice((100, 1_000, 20_000))
        rows: dict[str, Any] = {"max": 100_000, "expected": size}
        yield {
            "dprelease": "schema/1",
            "name": "natural",
            "unit": "row" if public else UNITS[i % len(UNITS)],
            "adjacency": "substitution" if public or pick.random() < 0.5 else "add_remove",
            "rows": {"exact": size} if public else rows,
            "columns": {
                "who": {"kind": "identifier"},
                "g": {"kind": "category", "values": ["a", "b", "c"]},
                **columns,
            },
            "release": {
                "epsilon": EPSILONS[(i // len(names) + i) % len(EPSILONS)],
                "by": [] if public or pick.random() < 0.4 else ["g"],
                "statistics": [
                    # what the drawn rows have; without it a correlation is priced as if it were 0
                    {"statistic": s, "expected": 0.5} if s.startswith("correlation") else s
                    for s in _statistics(pick, columns, pick.choice((1, 1, 2, 3, 5, 8, 20)))
                ],
                **({"loss": "squared"} if pick.random() < 0.2 else {}),
            },
        }


def _statistics(pick: random.Random, columns: Columns, count: int) -> list[str]:
    names = list(columns)
    every = ["count"]
    for a in names:
        low, high = columns[a]["range"]
        every += [text.format(a=a) for text in _ONE]
        every.append(_SHARE.format(a=a, middle=(low + high) // 2))
    pairs = [
        t.format(a=min(a, b), b=max(a, b)) for t in _TWO for a in names for b in names if a < b
    ]
    first = [text.format(a=names[0]) for text in _ONE[:4]]
    chosen = [pick.choice((*first, pick.choice(pairs), pick.choice(every)))]
    rest = [s for s in (*every, *pick.sample(pairs, 2)) if s not in chosen]
    return chosen + pick.sample(rest, count - 1)


# --- stated and drawn -------------------------------------------------------------------------


def drawn_errors(
    plan: ReleasePlan, draws: int, size: int, bits: RandomBits
) -> Iterator[tuple[PlannedStatistic, float, float]]:
    """Yield (statistic, mean error of draws, its standard error), where a plan states an error.

    Absolute errors, or squares under squared loss, as the plan states them.
    """
    for block in plan.blocks:
        draw, measurement = (
            block.law,
            block.measurement,
        )
        exact = _answers(draw, measurement, size)
        if exact is None:
            continue
        raw = draw.draw(np.repeat(exact, draws, axis=0), bits)
        for statistic in plan.statistics:
            if statistic.block == block.name and statistic.view is None:
                yield statistic, *_error(plan, block, statistic, draw.cells(raw), exact)


def _error(
    plan: ReleasePlan,
    block: Block,
    statistic: PlannedStatistic,
    cells: npt.NDArray[np.float64],
    exact: npt.NDArray[np.object_],
) -> tuple[float, float]:
    measurement = block.measurement
    finish = kind_named(statistic.function).finish
    truth = exact.astype(np.float64)
    if measurement.family == "scalar":  # a scalar's cells are values already
        truth = float(measurement.offset) + truth * float(measurement.step_size)
    truth = np.repeat(finish(measurement, truth), cells.shape[0] // exact.shape[0], axis=0)
    off = np.abs(to_domain(finish(measurement, cells), statistic.domain, statistic.step) - truth)
    error = off * off if plan.loss == "squared" else off
    of_answer = error.reshape(exact.shape[0], -1)
    spread = of_answer.std(axis=1) / np.sqrt(of_answer.shape[1])
    deviation = float(np.sqrt((spread**2).sum()) / exact.shape[0])
    if (
        not error.any()
    ):  # noise this rare was not seen at all: then one draw in all is what may be missed
        jump = float(statistic.domain.width) / float(
            max(1, sum(map(abs, exact[0])) // max(1, measurement.l1_added_row))
        )
        deviation = (jump * jump if plan.loss == "squared" else jump) / error.size
    return float(error.mean()), deviation


def _answers(draw: Law, measurement: Measurement, size: int) -> npt.NDArray[np.object_] | None:
    """Return the answers that a stated error is about, `(answers, cells)`; None where it is about others.

    One integer: half to twice as many rows, or uniform over what so many rows can add up to; of public rows uniform
    over its hull. Moments of one column: `size` rows, two thirds of them at the mean
    t, the others at the ends: as far apart as values that fill the range (`measurements.price.FILLS`). Several columns: `size` rows of normal shares that hardly touch the ends.
    """
    if isinstance(draw, ScalarCellLaw):
        assert measurement.upper is not None
        low, high = measurement.lower, measurement.upper
        if measurement.cells == ("rows",):
            low, high = min(size // 2, high), min(2 * size, high)
        elif measurement.public_rows is None and measurement.form == "linear":
            most = size * measurement.l1_added_row
            low, high = max(low, -most), min(most, high)
        return np.array([[low + (high - low) * i // 80] for i in range(1, 80, 2)], dtype=object)
    if not isinstance(draw, CellLaw):
        return None
    if measurement.axes:
        z = np.random.default_rng(5).normal(size=(4_000, len(measurement.axes) + 1))
        shares = 0.4 + (0.7 * z[:, :1] + 0.7 * z[:, 1:]) / 5
        cells = simulated_cells(measurement, np.clip(shares, 0, 1), size)
        return np.array([[round(float(c)) for c in cells]], dtype=object)
    k, out = measurement.scale, []
    for i in range(1, 50, 3):
        at = k * i // 50
        middle = size - size // 3
        full = (size - middle) * i // 50
        over = (
            middle * (k * i % 50) // 50
        )  # where codes are few, as of a condition, t lies between two
        codes = [(at, middle - over), (at + 1, over), (k, full), (0, size - middle - full)]
        if measurement.family == "two_sums":
            out.append([sum(c * n for c, n in codes), sum((k - c) * n for c, n in codes)])
        elif measurement.family == "bernstein2":
            parts = [((k - c) ** 2, 2 * c * (k - c), c * c) for c, _ in codes]
            out.append(
                [sum(p[j] * n for p, (_, n) in zip(parts, codes, strict=True)) for j in range(3)]
            )
        else:
            return None
    return np.array(out, dtype=object)
