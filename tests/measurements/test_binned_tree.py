"""Cumulative shares and histograms for ranges through plan, wall, engines and audit."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dprelease.audit.answers import answer_of, cells_of
from dprelease.audit.pairs import pair_loss
from dprelease.core.errors import ConfigError, InternalError, PlanError
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.measurements.binned_tree import TreeLaw
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.draw import assemble
from dprelease.statistics.tree_shape import Tree, level_sums
from dprelease.wall import execute
from tests.planning.requests import forged, planned

USER = {"user": "who", "max_groups": 2, "max_rows_per_group": 2}
WIDE = {"kind": "integer", "range": [0, 39]}
EDGES = list(range(41))
RANGES = {"statistic": f"histogram(x, {EDGES})", "accurate_for": "ranges"}
CDF = f"cdf(x, {list(range(4, 40, 5))})"
FINE = f"cdf(x, {list(range(40))})"


def wide(*statistics: Any, **more: Any) -> ReleasePlan:
    return planned(list(statistics), x=WIDE, **{"rows": {"max": 900, "expected": 300}, **more})


def tree_of_plan(plan: ReleasePlan) -> Tree:
    widths, (bins, _) = plan.blocks[0].measurement.weights
    return Tree(bins, widths)


def published(plan: ReleasePlan, cells: Any) -> pa.Table:
    return assemble(plan.by, plan.keys, plan.statistics, plan.blocks, cells)


def rows_of(values: list[float | None], groups: list[str] | None = None) -> pa.Table:
    n = len(values)
    names = [f"p{i // 2}" for i in range(n)]
    return pa.table({"who": names, "x": pa.array(values, pa.float64()), "g": groups or ["a"] * n})


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"unit": USER, "by": ["g"]},
        {"adjacency": "substitution"},
        {"adjacency": "substitution", "rows": {"exact": 300}},
        {"delta": "0.000001", "by": ["g"]},
    ],
    ids=str,
)
@pytest.mark.parametrize("statistic", [RANGES, FINE], ids=["ranges", "cdf"])
def test_plans_are_proved_and_engines_agree(statistic: Any, more: dict[str, Any]) -> None:
    plan = wide(statistic, **more)
    (block,) = plan.blocks
    draw = block.law
    assert type(draw).from_json(draw.to_json()) == draw
    assert execute.check(plan) <= 1
    pick = np.random.default_rng(5)
    size = more.get("rows", {}).get("exact", 60)
    values = [float(v) for v in pick.integers(-3, 44, size)]
    table = rows_of(values, pick.choice(list("abz"), size).tolist() if "by" in more else None)
    (one,) = cells_of(plan, answer_of(plan, table, ReferenceEngine()))
    (other,) = cells_of(plan, answer_of(plan, table, DuckDBEngine()))
    assert one.tolist() == other.tolist()
    tree, bins = tree_of_plan(plan), one[:, -tree_of_plan(plan).bins :]
    assert one.tolist() == level_sums(bins, tree.widths).tolist()
    if "unit" not in more and "by" not in more:
        inside = np.clip(values, 0, 39)
        assert bins[0].tolist() == [int((inside == k).sum()) for k in range(40)]


def test_a_tree_is_taken_where_it_is_better_and_the_bins_alone_where_not() -> None:
    plan = wide(RANGES)
    assert len(tree_of_plan(plan).widths) == 2
    best, *others = plan.statistics[0].chosen
    flat = next(o for o in others if o.note == "the bins alone")
    assert best.expected_error is not None
    assert flat.expected_error is not None
    assert best.expected_error < 0.9 * flat.expected_error
    assert len(tree_of_plan(wide("cdf(x, [4, 9, 14])")).widths) == 1
    normal = {"statistic": FINE, "mechanism": "rectified_gaussian"}
    assert len(tree_of_plan(wide(normal, delta="0.000001")).widths) >= 2


@pytest.mark.parametrize("delta", [0, "0.000001"])
def test_what_is_published_is_a_distribution_function(delta: Any) -> None:
    plan = wide(FINE, "count", by=["g"], delta=delta, epsilon="0.3")
    pick, names = np.random.default_rng(6), [b.name for b in plan.blocks]
    cells = {
        name: tuple(
            tuple(int(v) for v in pick.integers(-20, 60, len(plan.block(name).cells)))
            for _ in plan.keys
        )
        for name in names
    }
    table = published(plan, cells).to_pandas()
    for _, part in table[table["statistic"] != "count"].groupby("g", sort=False):
        assert (np.diff(part["value"]) >= 0).all()
        assert part["value"].between(0, 1).all()
        assert part["value"].iloc[-1] == part["lower"].iloc[-1] == part["upper"].iloc[-1] == 1
        assert ((part["lower"] <= part["value"]) & (part["value"] <= part["upper"])).all()


def test_shares_are_of_known_rows_at_or_below_each_edge() -> None:
    x = {"kind": "number", "range": [0, 2], "step": 0.5}
    plan = planned(["cdf(x, [0, 0.5, 1.5])"], x=x)
    values = [0.0, 0.4, 0.5, 1.0, 1.5, 1.5, 2.0, 7.0, None]
    (cells,) = cells_of(plan, answer_of(plan, rows_of(values), ReferenceEngine()))
    table = published(plan, {plan.blocks[0].name: tuple(map(tuple, cells.tolist()))})
    assert table["statistic"].to_pylist() == ["cdf_x[0]", "cdf_x[0.5]", "cdf_x[1.5]"]
    assert table["value"].to_pylist() == [0.125, 0.375, 0.75]


def small(statistic: Any, epsilon: Any = 1) -> ReleasePlan:
    """Return a plan of three bins."""
    x = {"kind": "integer", "range": [0, 2]}
    return planned([statistic], x=x, epsilon=epsilon, rows={"max": 12, "expected": 5})


SMALL = {"statistic": "histogram(x, [0, 1, 2, 3])", "accurate_for": "ranges"}


def with_levels(plan: ReleasePlan, widths: list[str], cells: list[str]) -> ReleasePlan:
    """Return the plan with another tree over its three bins, its noise as it was."""
    (block,) = plan.blocks
    levels = str(len(widths))
    moved = {"l1_added_row": levels, "l1_replaced_row": str(2 * int(levels))}
    law = {"count": len(cells)}
    made = forged(block, law=law, weights=[widths, ["3", "0"]], cells=cells, **moved)
    return replace(plan, blocks=(made,))


TWO = (["2", "1"], ["bins 1 to 2", "bins 3 to 3", "[0,1)", "[1,2)", "[2,3]"])


def test_no_pair_of_tables_costs_more_than_epsilon_and_one_costs_it() -> None:
    """All tables of up to three rows, null too, and one row more: through the engine and the audit's losses."""
    half = small(
        SMALL, epsilon="0.5"
    )  # its noise on a tree of two levels, which moves twice as far
    plan = replace(with_levels(half, *TWO), epsilon=Fraction(1))
    values = (None, 0.0, 1.0, 2.0)
    made = {
        rows: cells_of(plan, answer_of(plan, rows_of(list(rows)), ReferenceEngine()))
        for size in range(4)
        for rows in itertools.combinations_with_replacement(values, size)
    }
    worst = 0.0
    for rows, cells in made.items():
        for more in values:
            other = tuple(sorted((*rows, more), key=lambda v: -1 if v is None else v))
            if other in made:
                loss = pair_loss(plan, cells, made[other])
                assert loss.within(plan.epsilon)
                worst = max(worst, loss.nats)
    assert worst == pytest.approx(1.0, abs=1e-6)


def test_twin_the_move_of_the_bins_alone() -> None:
    """A tree of two levels with the noise of its bins alone: the wall refuses it, and the audit finds twice the loss."""
    plan = with_levels(small(SMALL), *TWO)
    with pytest.raises(InternalError, match="smaller sensitivity"):
        execute.check(plan)
    one, other = (
        cells_of(plan, answer_of(plan, rows_of(list(rows)), ReferenceEngine()))
        for rows in ((), (1.0,))
    )
    assert pair_loss(plan, one, other).nats == pytest.approx(2.0, abs=1e-6)


@pytest.mark.parametrize(
    ("what", "widths", "cells"),
    [
        ("no whole runs", ["2", "2", "1"], None),
        ("no bins", ["2"], None),
        ("a width of no run", ["0", "1"], None),
        ("too few cells", ["2", "1"], 4),
        ("more levels than cells", ["1"], 5),
    ],
)
def test_the_wall_refuses_a_tree_that_is_none(
    what: str, widths: list[str], cells: int | None
) -> None:
    plan = with_levels(small(SMALL), widths, TWO[1][: cells or 5])
    with pytest.raises(InternalError) as caught:
        execute.check(plan)
    assert caught.value.code == "DPR902", what


def test_the_wall_refuses_bins_that_meet() -> None:
    plan = small(SMALL)
    meet = tuple(replace(p, low=0) for p in plan.query.primitives)
    with pytest.raises(InternalError) as caught:
        execute.check(replace(plan, query=replace(plan.query, primitives=meet)))
    assert caught.value.code == "DPR902"


def test_the_law_of_a_tree_keeps_its_signs() -> None:
    draw = wide(RANGES).blocks[0].law
    assert isinstance(draw, TreeLaw)
    raw = np.full((1, draw.count), -3, dtype=object)
    assert (draw.cells(raw) == -3).all()
    assert not draw.empty(raw).any()


@pytest.mark.parametrize("statistic", ["histogram(x, [0, 0.5, 1])", "cdf(x, [0.5, 1])"])
def test_a_column_of_truths_has_no_bins(statistic: str) -> None:
    with pytest.raises(ConfigError, match="of kind boolean") as caught:
        planned([statistic], x={"kind": "boolean"})
    assert caught.value.code == "DPR133"
    assert "proportion(x)" in (caught.value.fix or "")
    assert planned(["proportion(x)"], x={"kind": "boolean"}).statistics


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"statistic": "mean(x)", "accurate_for": "ranges"}, "DPR135"),
        ({"statistic": "histogram(x, [0, 5, 39])", "accurate_for": "bins"}, "DPR135"),
        ("cdf(x, [3])", "DPR133"),
        ("cdf(x, [-2, 3])", "DPR204"),
        ("cdf(x, [3, 3.5])", "DPR204"),
        ("histogram_of_ranges(x, [0, 5, 39])", "DPR131"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(asked: Any, code: str) -> None:
    with pytest.raises((ConfigError, PlanError)) as caught:
        wide(asked)
    assert caught.value.code == code
