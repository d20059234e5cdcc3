"""Statuses on groups of nulls, of no rows, of one value, at the ends: from noisy integers alone, every one tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dprelease as dp
from dprelease.audit.answers import answer_of, cells_of
from dprelease.core import registry
from dprelease.core.entropy import ReplayBits
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.measurements.base import family_named
from dprelease.measurements.known import Known, all_of, known_values
from dprelease.results.draw import LEVEL, assemble
from dprelease.results.rules import WEAK
from dprelease.statistics.base import Reading
from tests.sizes import some, whole

SEEDS = whole(40, 300)

ROWS = 400
GROUPS = {
    "nulls": [None] * ROWS,
    "no rows": [],
    "one value": [300] * ROWS,
    "the upper end": [1000] * ROWS,
    "the lower end": [0] * ROWS,
    "spread": [i * 1000 // ROWS for i in range(ROWS)],
}
NOTHING = ("nulls", "no rows")
MEDIAN = "median(x)"
P90: dict[str, Any] = {"statistic": "quantile(x, 0.9)", "interval": True, "as": "p90"}
SHARED = ["mean(y)", "mean(z)", "mean(w)"]
QUARTILES = ["quantile(x, 0.25)", "quantile(x, 0.5)", "quantile(x, 0.75)"]
BESIDE: list[list[Any]] = [
    [MEDIAN, "mean(x)"],
    [MEDIAN, "variance(x)"],
    ["max(x)", "mean(x)"],
    ["count", "min(x)", "std(x)"],
    [MEDIAN, {"statistic": "mean(x)", "spikes": "forbid"}],
    ["mean(x)", *QUARTILES],
    ["mean(x)", P90],
    ["winsorised_mean(x, 0.05)"],
    ["winsorised_std(x, 0.05)"],
]


def plan_of(
    statistics: Sequence[Any], adjacency: str = "add_remove", by: Sequence[str] = ("g",)
) -> dp.Plan:
    return dp.plan(
        {
            "dprelease": "schema/1",
            "name": "t",
            "unit": "row",
            "adjacency": adjacency,
            "rows": {"max": 2000, "expected": ROWS},
            "columns": {
                "g": {"kind": "category", "values": list(GROUPS)},
                "x": {"kind": "integer", "range": [0, 1000]},
                **{
                    c: {"kind": "integer", "range": [0, 1000], "nulls": {"default": 500}}
                    for c in "yzw"
                },
            },
            "release": {"epsilon": 6, "by": list(by), "statistics": list(statistics)},
        }
    )


def rows() -> pa.Table:
    g = [name for name, values in GROUPS.items() for _ in values]
    x = [v for values in GROUPS.values() for v in values]
    return pa.table({"g": g, **{name: pa.array(x, pa.int64()) for name in "xyzw"}})


def drawn(plan: dp.Plan, seeds: int) -> Iterator[dict[str, Any]]:
    """The tidy rows of `seeds` releases, drawn as one; the bits are replayed, so they are always these."""
    answer = answer_of(plan, rows(), DuckDBEngine(threads=1)).repeated(range(len(plan.keys)), seeds)
    exact = cells_of(plan, answer)
    cells = {
        block.name: block.law.draw(answers, ReplayBits(block.name)).tolist()
        for block, answers in zip(plan.blocks, exact, strict=True)
    }
    keys = [key for _ in range(seeds) for key in plan.keys]
    yield from assemble(plan.by, keys, plan.statistics, plan.blocks, cells).to_pylist()


def statuses(plan: dp.Plan, seeds: int) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for row in drawn(plan, seeds):
        found.setdefault((row["g"], row["statistic"]), []).append(row["status"])
    return found


def usable(said: list[str]) -> float:
    return sum(word not in WEAK for word in said) / len(said)


def ranked(plan: dp.Plan) -> list[str]:
    forms = {b.name: b.measurement.form for b in plan.blocks}
    chosen = ("ranks", "joint_ranks", "recursive_ranks", "rank_interval", "winsorised")
    return [s.name for s in plan.statistics if forms[s.block] in chosen]


@pytest.mark.parametrize("statistics", some(BESIDE, 3))
@pytest.mark.parametrize("adjacency", ["add_remove", "substitution"])
def test_values_by_rank_of_nothing_do_not_look_usable(statistics, adjacency):
    plan = plan_of(statistics, adjacency)
    assert ranked(plan)
    said = statuses(plan, SEEDS)
    for name in ranked(plan):
        for group in GROUPS:
            share = usable(said[group, name])
            if group in NOTHING:
                assert share <= 0.05 + 0.03
                assert said[group, name].count("empty_signal") >= 0.85 * SEEDS
            else:
                assert share == 1


@pytest.mark.parametrize("family", ["two_sums", "bernstein2"])
def test_a_sum_beside_it_counts_the_known_values(family, monkeypatch):
    """The broken twin: a family that does not say what its cells add up to."""
    plan = plan_of([MEDIAN, "mean(x)" if family == "two_sums" else "variance(x)"])
    assert family in {b.family for b in plan.blocks}
    assert usable(statuses(plan, SEEDS)["nulls", "median_x"]) <= 0.08
    monkeypatch.setattr(family_named(family), "counting", None)
    assert usable(statuses(plan, SEEDS)["nulls", "median_x"]) == 1


def test_rows_count_where_no_cell_is_null_and_bound_elsewhere():
    """A column with a default has no nulls: then the count of rows tells what a median was chosen among."""
    plan = plan_of(["count", MEDIAN, "median(y)"])
    said = statuses(plan, SEEDS)
    assert usable(said["no rows", "median_x"]) <= 0.08
    assert usable(said["no rows", "median_y"]) <= 0.08
    assert usable(said["nulls", "median_y"]) == 1  # its nulls are 500
    # Nothing that is released tells these nulls from values: the plan's notes say so.
    assert usable(said["nulls", "median_x"]) == 1
    median = next(s for s in plan.statistics if s.name == "median_x")
    assert any("cannot be seen from the value" in note for note in median.notes)


def test_a_size_that_columns_share_counts_the_values_of_columns_without_nulls():
    plan = plan_of(["median(y)", MEDIAN, *SHARED])
    assert "shared_rows" in {b.family for b in plan.blocks}
    said = statuses(plan, SEEDS)
    assert usable(said["no rows", "median_y"]) <= 0.08
    assert usable(said["nulls", "median_y"]) == 1  # its nulls are 500
    assert usable(said["nulls", "median_x"]) == 1  # nothing counts them
    said = statuses(plan_of([MEDIAN, "mean(x)", *SHARED]), SEEDS)
    assert (
        usable(said["nulls", "median_x"]) <= 0.08
    )  # a mean of x does, and no row of another column


def test_what_each_family_counts_is_a_multiple_of_the_known_rows():
    """Against plain counting, for every family that says that it counts."""
    seen = set()
    known_in = {g: sum(v is not None for v in values) for g, values in GROUPS.items()}
    rows_in = {g: len(values) for g, values in GROUPS.items()}
    for adjacency, by in (("add_remove", ["g"]), ("substitution", [])):
        for statistics in (["mean(x)"], ["variance(x)"], BESIDE[4][1:], SHARED)[: 4 if by else 3]:
            plan = plan_of(statistics, adjacency, by)
            (exact,) = cells_of(plan, answer_of(plan, rows(), DuckDBEngine(threads=1)))
            (block,) = plan.blocks
            ends = exact.astype(float)
            measurement = block.measurement
            known = known_values(measurement, Reading(ends, ends, ends, 1.0, LEVEL))
            assert known is not None
            all_known = rows_in if statistics is SHARED else known_in  # its nulls are 500
            true = list(all_known.values()) if by else [sum(all_known.values())]
            assert known.low.tolist() == known.high.tolist() == true
            seen.add(block.family)
    assert seen == {
        f.family
        for f in map(family_named, registry.names("measurements"))
        if f.counting is not None
    }


def test_the_largest_of_the_lower_ends_and_the_least_of_the_upper_ones_count():
    a, b, count = (
        Known(np.array([float(low)]), np.array([float(high)]))
        for low, high in ((0, 9), (2, 30), (40, 50))
    )
    both = all_of([a, b], count, complete=False)
    assert both is not None
    assert (both.low[0], both.high[0]) == (2, 9)
    whole = all_of([a], count, complete=True)
    assert whole is not None
    assert (whole.low[0], whole.high[0]) == (40, 9)
    assert all_of([], None, complete=True) is None


SUMS = ["sum(x)", "histogram(x, [0, 500, 1000])", "count", "winsorised_sum(x, 0.05)"]
QUOTIENTS = [
    "mean(x)",
    "variance(x)",
    "std(x)",
    "covariance(x, y)",
    "correlation(x, y)",
    "proportion(x > 500)",
    "winsorised_mean(x, 0.05)",
]
TRUE = {
    "mean(x)": {"one value": 300, "the upper end": 1000, "the lower end": 0},
    "variance(x)": dict.fromkeys(("one value", "the upper end", "the lower end"), 0),
    "std(x)": dict.fromkeys(("one value", "the upper end", "the lower end"), 0),
    "covariance(x, y)": dict.fromkeys(("one value", "the upper end", "the lower end"), 0),
    "proportion(x > 500)": {"one value": 0, "the upper end": 1, "the lower end": 0},
}


@pytest.mark.parametrize("text", some([*QUOTIENTS, *SUMS], 4))
def test_every_status_of_every_statistic_on_groups_at_the_edge(text):
    """A quotient of nothing says nothing; a sum of nothing is 0, and its interval holds it; ends are at the bound."""
    plan, seeds = plan_of([text]), whole(20, 200)
    enough = 0.95 - 5 * (0.95 * 0.05 / seeds) ** 0.5  # missed by chance once in a million
    said: dict[str, list[dict[str, Any]]] = {}
    for row in drawn(plan, seeds):
        said.setdefault(row["g"], []).append(row)
    for group, found in said.items():
        words = [row["status"] for row in found]
        assert all(row["lower"] <= row["value"] <= row["upper"] for row in found)
        if group in NOTHING and text in QUOTIENTS:
            assert usable(words) <= max(0.2, 1 - enough)
        elif group in NOTHING and (text != "count" or group == "no rows"):
            assert np.mean([row["lower"] <= 0 <= row["upper"] for row in found]) >= enough
        elif text in ("variance(x)", "std(x)") and group in TRUE[text]:
            # no variance is likely where the noise is far below 0; its interval is then every one
            assert set(words) <= {"ok", "at_bound", "uninformative"}
            assert usable(words) >= enough
        elif text != "correlation(x, y)":  # of one value there is none
            assert set(words) <= {"ok", "at_bound"}
        true = TRUE.get(text, {}).get(group)
        if true is not None:
            assert np.mean([row["lower"] <= true <= row["upper"] for row in found]) >= enough


@pytest.mark.parametrize("statistic", ["mean(x)", "proportion(x >= 500)", "std(x)"])
def test_a_mean_of_a_group_whose_released_count_is_zero_is_no_signal(statistic):
    """By a count in another block; of a group of rows it says something (control)."""
    plan = plan_of(["count", statistic])
    none, some_rows = 0, 0
    found: dict[Any, dict[str, Any]] = {}
    for i, row in enumerate(drawn(plan, SEEDS)):
        found.setdefault((i // (2 * len(GROUPS)), row["g"]), {})[row["statistic"]] = row
    for (_, group), both in found.items():
        count, other = both.pop("count"), next(iter(both.values()))
        if count["value"] <= 0:
            assert other["status"] == "empty_signal"
            none += 1
        some_rows += group == "spread" and other["status"] == "ok"
    assert none > SEEDS / 4
    assert some_rows == SEEDS
