"""Many draws of whole plans: every value allowed, every sum exact, every table's interval at its level.

What is drawn here is numpy's noise of the plan's own laws on made-up exact cells, most of them tiny; plan,
estimates, values and intervals are the library's, as they are published.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import dprelease as dp
from dprelease.intervals.noise import Laplace, Noise
from dprelease.release_plan.fits import noise_of
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.fitted import broken, columns_of, fits_of
from tests.several_tables import TREE, schema
from tests.sizes import FULL, whole

DRAWS = whole(40, 2000)
"""Of each case; 10,000 in all in `make evidence`."""
SHORTER = 0.9 if FULL else 0.5
"""Halves of intervals that must not cover: a tenth shorter is seen in many draws only."""
SIGMAS = 4.9
"""One side of normal tails with a chance below 1e-6."""
COUNT = ["count"]
GAP = [{"statistic": "count", "domain": {"range": [0, 5000], "forbidden": [[0, 10]]}}]
MARGINS = [
    {"name": "nation", "by": [], "statistics": COUNT},
    {"name": "regions", "by": ["region"], "statistics": COUNT},
    {"name": "sexes", "by": ["sex"], "statistics": COUNT},
    {"name": "districts", "by": ["district", "sex"], "statistics": COUNT},
]
TINY = np.array([0, 1, 2, 0, 5, 300, 1, 0, 3, 40, 0, 1])
"""Rows of each finest group: six districts by two sexes."""


def only(statistics: list[Any]) -> list[dict[str, Any]]:
    return [{**t, "statistics": statistics} for t in TREE]


USERS = {"unit": {"user": "id", "max_groups": 12, "max_rows_per_group": 1}}
TOTALS = [{"table": "nation", "statistic": "count", "values": [[str(TINY.sum())]]}]
PUBLIC = {"adjacency": "substitution", "rows": {"exact": int(TINY.sum())}}
CASES: dict[str, dict[str, Any]] = {
    "counts and sums": schema(release={"epsilon": 0.5}),
    "0 or at least 10": schema(only(GAP), release={"epsilon": 0.25}),
    "crossing margins": schema(MARGINS, release={"epsilon": 0.25}),
    "discrete Gaussian": schema(MARGINS, **USERS, release={"epsilon": 1, "delta": "1/1000"}),
    "a public total": schema(only(COUNT), **PUBLIC, release={"epsilon": 0.5, "totals": TOTALS}),
}


def exact_of(plan: ReleasePlan) -> dict[str, dict[str, np.ndarray]]:
    """Return the exact cells per fit and table; a sum is 7 per row."""
    assert plan.tables is not None
    rows = {fit.name: TINY * (1 if fit.name == "count" else 7) for fit in plan.tables.fits}
    return {
        fit.name: {
            part.table: np.bincount(plan.tables.named(part.table).of, rows[fit.name])
            for part in fit.tables
        }
        for fit in plan.tables.fits
    }


def noise(law: Noise, cells: int, chance: np.random.Generator) -> np.ndarray:
    if isinstance(law, Laplace):
        p = -np.expm1(-float(law.rate))
        return chance.geometric(p, cells) - chance.geometric(p, cells)
    return np.round(chance.normal(0, math.sqrt(law.square), cells)).astype(int)


def drawn(
    plan: ReleasePlan, exact: Mapping[str, Any], chance: np.random.Generator
) -> dict[str, tuple[tuple[int, ...], ...]]:
    assert plan.tables is not None
    return {
        part.block: tuple(
            (int(value),)
            for value in exact[fit.name][part.table]
            + noise(
                noise_of(plan.block(part.block).law),
                len(exact[fit.name][part.table]),
                chance,
            )
        )
        for fit in plan.tables.fits
        for part in fit.tables
        if part.block is not None
    }


def share(covered: list[float]) -> tuple[float, float]:
    """Return the mean of a table's covered share over draws, and its standard error; at least that of one draw."""
    values = np.array(covered)
    return float(values.mean()), max(float(values.std()), 0.02) / math.sqrt(len(values))


@pytest.mark.parametrize("name", CASES)
def test_no_draw_breaks_a_rule_and_every_table_is_covered(name: str, evidence: Any) -> None:
    plan = dp.plan(CASES[name])
    assert plan.tables is not None
    laws = {type(noise_of(b.law)).__name__ for b in plan.blocks}
    assert laws == ({"Gaussian"} if name == "discrete Gaussian" else {"Laplace"})
    exact, chance = exact_of(plan), np.random.default_rng(17)
    covered: dict[tuple[str, str], list[float]] = {}
    short: dict[tuple[str, str], list[float]] = {}
    for _ in range(DRAWS):
        cells = drawn(plan, exact, chance)
        fits = fits_of(plan, cells)
        assert broken(plan, fits) == {fit.name: [] for fit in plan.tables.fits}
        columns = columns_of(plan, cells, fits)
        for fit in plan.tables.fits:
            for part in fit.tables:
                column, truth = columns[part.table, part.column], exact[fit.name][part.table]
                key = fit.name, part.table
                inside = (column["lower"] <= truth) & (truth <= column["upper"])
                covered.setdefault(key, []).append(float(inside.mean()))
                half = SHORTER * max(map(float, part.halves)) * float(fit.step_size)  # the control
                near = np.abs(column["unbiased"] - truth) <= half
                short.setdefault(key, []).append(float(near.mean()))
    for key, values in covered.items():
        mean, error = share(values)
        assert mean + SIGMAS * error >= 0.95, (name, key, mean)
    worst = min((share(values) for values in covered.values()), key=lambda found: found[0])
    finest = [key for key in short if key[1] == "districts"]
    pooled = [float(np.mean(parts)) for parts in zip(*(short[key] for key in finest), strict=True)]
    mean, error = share(pooled)
    assert mean + SIGMAS * error < 0.95, "shorter intervals must not cover"
    evidence(
        f"tables: {name}",
        f"{DRAWS} draws",
        f"0 broken rules; least coverage of a table {worst[0]:.3f}; of shorter ones ({SHORTER}) {mean:.3f}",
    )
