"""A release of the statistics that need more of an engine than sums of a column: what one answers, and what is drawn of it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import dprelease as dp
from dprelease.core.entropy import ReplayBits
from dprelease.engines.engine import Engine
from dprelease.engines.source import Source
from dprelease.statistics.exact import exact_cells
from tests.several_tables import schema

__all__ = ["FAMILIES", "NOT_OF", "answered", "loose"]

FAMILIES = {
    "centred_squares", "centred_sums", "joint_ranks", "rank_interval", "ratio_ends", "recursive_ranks", "scalar",
    "tree_of_bins", "tree_of_shares", "two_sums", "winsorised",
}  # fmt: skip
NOT_OF = {  # centred ones are for rows replaced within a group, choices inside others for rows added
    "row": {"recursive_ranks", "two_sums"},
    "user": {"centred_squares", "centred_sums"},
}
ASKED: list[Any] = [
    {"statistic": "mean(income)", "winsorize": 0.05},
    {"statistic": "variance(income)", "winsorize": 0.02, "as": "between_limits"},
    {"statistic": "quantile(income, 0.5)", "interval": True, "as": "middle"},
    *(f"quantile(age, {p})" for p in (0.25, 0.5, 0.75)),
    *(f"quantile(income, {p / 100})" for p in range(10, 91, 2) if p != 50),
    {"statistic": f"histogram(age, {list(range(0, 101, 4))})", "accurate_for": "ranges"},
    "cdf(income, [-10, 0, 20, 50])",
    "variance(age)",
    *(
        {"statistic": text, "weighted_by": "age"}
        for text in ("mean(income)", "sum(income)", "count", "proportion(income >= 20)")
    ),
    {"statistic": "ratio(income, age)", "domain": {"range": [-10, 10]}},
]


@cache
def _plan_of(unit: str) -> dp.ReleasePlan:
    """Return the plan: of rows replaced, of all rows together, or of persons of several rows, by sex."""
    declared: Any = "row"
    if unit == "user":
        declared = {"user": "id", "max_groups": 2, "max_rows_per_group": 2}
    request = {"statistics": ASKED, "by": ["sex"] if unit == "user" else [], "epsilon": 8}
    adjacency = "substitution" if unit == "row" else "add_remove"
    expected = 300 if unit == "row" else 60  # few: choices inside others are taken for quartiles
    whole = schema(unit=declared, adjacency=adjacency, rows={"max": 5000, "expected": expected})
    del whole["release"]["tables"], whole["hierarchies"]
    whole["release"] |= request
    return dp.plan(whole)


def answered(engine: Engine, source: Source, unit: str) -> dict[str, tuple[str, list[Any]]]:
    """Return, per block of a release, its family and what is drawn of the exact answer by fixed bits.

    Units are rows replaced, of all rows together, or persons of several rows added or removed, by sex.
    """
    plan = _plan_of(unit)
    answer = engine.compute(source, plan.query, b"salt").reveal_to_mechanism()
    out = {}
    for block in plan.blocks:
        measurement = block.measurement
        exact = exact_cells(measurement, block.measurement.primitives, answer, len(plan.keys))
        drawn = block.law.draw(exact, ReplayBits(block.name))
        out[block.name] = (measurement.family, drawn.tolist())
    return out


def loose(rows: int = 600, seed: int = 7) -> pd.DataFrame:
    """Return made-up rows: ties, values beyond the range, missing ones, an unknown sex."""
    chance = np.random.default_rng(seed)
    income = np.round(chance.normal(10, 30, rows))
    income[chance.random(rows) < 0.05] = np.nan
    return pd.DataFrame(
        {
            "id": chance.integers(0, rows // 3, rows),
            "district": chance.choice(["d0", "d1"], rows),
            "sex": chance.choice(["f", "m", "?"], rows, p=[0.5, 0.45, 0.05]),
            "income": income,
            "age": np.minimum(chance.geometric(0.03, rows), 120).astype(float),
        }
    )
