"""Tables of which some numbers are fitted and others drawn by themselves: no unit loses more than the plan says of all together.

Everything that one unit may hold is enumerated, before and after, beside three sets of other rows. What an engine
counts goes through the wall's own map to the cells of each block, and the chances of every outcome of its law follow
exactly. Blocks are drawn independently, so the largest log ratio of the whole draw is the sum of those of its cells.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dprelease as dp
from dprelease.core.errors import InternalError, PlanError
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import as_source
from dprelease.measurements.ranks import ExponentialLaw
from dprelease.query.bounded import Near
from dprelease.release_plan.block import Block
from dprelease.release_plan.plan import ReleasePlan
from dprelease.statistics.exact import exact_cells
from dprelease.statistics.ranks import stretches
from dprelease.statistics.sensitivity import sensitivity, unit_bounds
from dprelease.wall import execute
from dprelease.wall.recompute import recompute

PLACES, REGION = ("d0", "d1", "d2"), {"d0": "r0", "d1": "r0", "d2": "r1"}
VALUES = (0, 1, 2)
USER = {"user": "id", "max_groups": 2, "max_rows_per_group": 1}
OWN = ["count", "median(income)"]
TABLES = [
    {"name": "nation", "by": [], "statistics": OWN},
    {"name": "regions", "by": ["region"], "statistics": OWN},
    {"name": "districts", "by": ["district"], "statistics": ["count"]},
]
OTHERS: tuple[tuple[tuple[str, int], ...], ...] = (
    (),
    (("d0", 0), ("d1", 2)),
    (("d0", 1), ("d1", 1), ("d2", 0)),
)
Row = tuple[str, int]


def schema(
    unit: Any = "row", adjacency: str = "add_remove", tables: Any = TABLES, **release: Any
) -> Any:
    return {
        "dprelease": "schema/1",
        "name": "own",
        "unit": unit,
        "adjacency": adjacency,
        "rows": {"max": 100},
        "columns": {
            "id": {"kind": "identifier"},
            "district": {"kind": "category", "values": list(PLACES)},
            "income": {"kind": "integer", "range": [0, 2], "nulls": {"default": 0}},
            "weight": {"kind": "integer", "range": [0, 2], "nulls": {"default": 0}},
        },
        "hierarchies": {
            "place": {"levels": ["region", "district"], "keys": [[REGION[p], p] for p in PLACES]}
        },
        "release": {"epsilon": 4, "tables": tables, **release},
    }


def held(unit: Any, adjacency: str) -> list[tuple[Row, ...]]:
    """Return all that one unit may hold; a replaced row stays one."""
    rows = list(itertools.product(PLACES, VALUES))
    one = [(row,) for row in rows]
    if unit == "row":
        return one if adjacency == "substitution" else [(), *one]
    two = [both for both in itertools.combinations(rows, 2) if both[0][0] != both[1][0]]
    return [(), *one, *two]


def exact(plan: ReleasePlan, rows: Sequence[tuple[str, Row]]) -> dict[str, Any]:
    """Return the exact cells of every block, as the wall makes them."""
    table = pa.table(
        {
            "id": pa.array([who for who, _ in rows], pa.string()),
            "district": pa.array([place for _, (place, _) in rows], pa.string()),
            "income": pa.array([value for _, (_, value) in rows], pa.int64()),
        }
    )
    answer = ReferenceEngine().compute(as_source(table), plan.query, b"salt")
    found = answer.reveal_to_mechanism()
    return {block.name: execute._cells(plan, found, block) for block in plan.blocks}


def chances(law: ExponentialLaw, scores: Any) -> list[float]:
    """Return the chance of every candidate of one group."""
    _, counts, apart = law.runs(scores)
    return [float(p) for p in law.law.pmf(np.repeat(apart, counts))]


def logs(block: Block, cells: Any) -> list[Any]:
    """Return what a draw's loss is made of: exact counts, or log chances of every cell's outcomes."""
    if isinstance(block.law, ExponentialLaw):
        return [np.log(chances(block.law, scores)) for (scores,) in cells]
    return [int(count) for (count,) in cells]


def loss(block: Block, one: list[Any], other: list[Any]) -> float:
    """Return the largest log ratio of one block's outcomes."""
    if isinstance(block.law, ExponentialLaw):
        return sum(float((a - b).max()) for a, b in zip(one, other, strict=True))
    moved = sum(abs(a - b) for a, b in zip(one, other, strict=True))
    return float(block.law.noise.noise.rate) * moved  # type: ignore[attr-defined]


@cache
def worlds(kind: str, adjacency: str, composition: str) -> tuple[ReleasePlan, list[list[Any]]]:
    unit: Any = "row" if kind == "row" else USER
    release: Any = {"composition": "zcdp", "delta": "1e-6"} if composition == "zcdp" else {}
    plan = dp.plan(schema(unit, adjacency, **release))
    out = []
    for others in OTHERS:
        beside = [(f"o{i}", row) for i, row in enumerate(others)]
        same = []
        for mine in held(unit, adjacency):
            cells = exact(plan, [*beside, *(("me", row) for row in mine)])
            same.append({b.name: logs(b, cells[b.name]) for b in plan.blocks})
        out.append(same)
    return plan, out


def neighbours(worlds: list[Any], adjacency: str) -> list[tuple[Any, Any]]:
    if adjacency == "add_remove":  # the first one is without the unit
        return [pair for w in worlds[1:] for pair in ((w, worlds[0]), (worlds[0], w))]
    return list(itertools.permutations(worlds, 2))


@pytest.mark.parametrize("adjacency", ["add_remove", "substitution"])
@pytest.mark.parametrize("unit", ["row", "user"])
def test_no_unit_loses_more_than_the_plan_says(unit: str, adjacency: str) -> None:
    plan, every = worlds(unit, adjacency, "basic")
    apart = [b for b in plan.blocks if isinstance(b.law, ExponentialLaw)]
    assert [b.table for b in apart] == ["nation", "regions"]
    assert len(plan.blocks) > len(apart)
    most, own = 0.0, dict.fromkeys((b.name for b in plan.blocks), 0.0)
    for same in every:
        for one, other in neighbours(same, adjacency):
            each = {b.name: loss(b, one[b.name], other[b.name]) for b in plan.blocks}
            most = max(most, sum(each.values()))
            own = {name: max(own[name], found) for name, found in each.items()}
    assert most <= float(plan.epsilon) + 1e-9
    assert most >= 0.6 * float(plan.epsilon)  # and little less would do
    assert all(found <= float(plan.block(name).epsilon) + 1e-9 for name, found in own.items())
    assert execute.check(plan) <= plan.epsilon


def renyi(one: Any, other: Any, order: int) -> float:
    """Return the Renyi divergence of independent cells, from their log chances."""
    parts = (np.exp(order * a - (order - 1) * b).sum() for a, b in zip(one, other, strict=True))
    return sum(map(math.log, parts)) / (order - 1)


@pytest.mark.parametrize("adjacency", ["add_remove", "substitution"])
def test_the_rho_of_values_of_sums_of_groups_holds(adjacency: str) -> None:
    """Both rows of a unit may lie in one cell: the rho of the groups, half of it, is not proved there."""
    plan, every = worlds("user", adjacency, "zcdp")
    for block in (b for b in plan.blocks if isinstance(b.law, ExponentialLaw)):
        moved = execute._sensitivity(plan, block)
        rho = float(block.law.proof(moved).tight)  # type: ignore[arg-type]
        for same in every:
            for one, other in neighbours(same, adjacency):
                for order in (2, 8):
                    assert renyi(one[block.name], other[block.name], order) <= order * rho + 1e-9
        bounds = unit_bounds(plan.unit, None, len(plan.keys))
        twin = sensitivity(block.measurement, bounds, plan.adjacency, len(plan.keys))
        assert float(block.law.proof(twin).tight) < 0.6 * rho  # type: ignore[arg-type]


# -- what is counted of sums of groups -----------------------------------------------------------


def test_scores_of_a_cell_are_those_of_all_its_rows() -> None:
    """Against a plain count of the rows of each cell, for every map of four groups to three cells."""
    chance = np.random.default_rng(3)
    measurement = dp.plan(schema()).block("nation.median_income").measurement
    for of in itertools.product(range(3), repeat=4):
        codes = [sorted(chance.integers(0, 6, chance.integers(0, 5)).tolist()) for _ in of]
        made = exact_cells(measurement, (0,), answer(codes), 4, (of, 3))
        cells: list[list[int]] = [[], [], []]
        for own, cell in zip(codes, of, strict=True):
            cells[cell] += own
        wanted = stretches(tally(cells), 3, *measurement.weights[0])
        assert made.tolist() == wanted.tolist(), (of, codes)


def tally(groups: Sequence[Sequence[int]]) -> Any:
    """Return the tally of codes, group by group."""
    out = [
        (g, c, sum(x < c for x in rows), sum(x <= c for x in rows), len(rows))
        for g, rows in enumerate(groups)
        for c in sorted(set(rows))
    ]
    return np.array(out, dtype=np.int64).reshape(-1, 5)


def answer(groups: Sequence[Sequence[int]]) -> Any:
    from dprelease.query.answer import Answer

    return Answer(np.zeros((len(groups), 1), dtype=object), tallies={0: tally(groups)})


def wall(plan: ReleasePlan, block: Block, merge: Any, **near: Any) -> Any:
    places = tuple(block.measurement.primitives)
    primitives = list(plan.query.primitives)
    for place in places:
        primitives[place] = replace(primitives[place], **near)
    query = replace(plan.query, primitives=tuple(primitives))
    given: dict[str, Any] = {"unit": plan.unit, "adjacency": plan.adjacency, "per": None}
    return recompute(
        query, block.measurement, places, None, **given, groups=3, whole=True, merge=merge
    )


def test_ranks_of_a_group_are_not_those_of_a_cell_of_several() -> None:
    plan = dp.plan(schema())
    block = plan.block("nation.median_income")
    near = {"near": Near(*block.measurement.weights[0], 5)}
    assert plan.query.primitives[block.measurement.primitives[0]].near is None
    assert wall(plan, block, ((0, 0, 0), 1)).l1_over_groups == 2
    assert wall(plan, block, ((2, 0, 1), 3), **near).l1_over_groups == 2  # each is a cell
    with pytest.raises(InternalError, match="does not measure"):
        wall(plan, block, ((0, 0, 0), 1), **near)


def test_forms_that_no_sums_make_are_refused_for_several_groups() -> None:
    made = schema(by=["district"], statistics=["cdf(income, [0, 1, 2])"])
    made["release"].pop("tables")
    plan = dp.plan(made)
    (block,) = plan.blocks
    assert block.measurement.form == "binned_tree"
    assert wall(plan, block, None).l1_over_groups >= 1
    with pytest.raises(InternalError, match="does not measure"):
        wall(plan, block, ((0, 0, 0), 1))


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statistics", "words", "fix"),
    [
        (["count", "count_distinct(income)"], "sums of groups", "a release of its own"),
        (["median(income)"], "nothing in the tables does", "add `count`"),
        (["count", "weighted_sum(income, weight)"], "as it is written", "sum("),
    ],
)
def test_refused_where_no_sums_make_it(statistics: list[str], words: str, fix: str) -> None:
    tables = [{**t, "statistics": statistics} for t in TABLES]
    with pytest.raises(PlanError) as caught:
        dp.plan(schema(tables=tables))
    assert caught.value.code == "DPR292"
    assert words in str(caught.value)
    assert fix in str(caught.value)


def test_a_share_of_a_table_is_for_what_is_fitted() -> None:
    with pytest.raises(PlanError, match="`share` of table `nation`") as caught:
        dp.plan(schema(tables=[{**TABLES[0], "share": 0.5}, *TABLES[1:]]))
    assert caught.value.code == "DPR292"
    assert dp.plan(schema(tables=[*TABLES[:2], {**TABLES[2], "share": 0.3}])).hash


def test_a_table_with_detail_holds_what_adds_up() -> None:
    fine = {"name": "districts", "by": ["district"], "statistics": OWN}
    detail = {**fine, "detail": {"statistic": "count", "max_error": 5, "levels": ["regions"]}}
    with pytest.raises(PlanError, match="median") as caught:
        dp.plan(schema(tables=[*TABLES[:2], detail]))
    assert caught.value.code == "DPR295"


def test_parts_of_the_budget() -> None:
    """Half for the counts of all tables, half for medians; a goal is met first."""
    plan = dp.plan(schema())
    spent = [b.epsilon for b in plan.blocks if "median" in b.name]
    assert sum(spent) == sum(b.epsilon for b in plan.blocks if "count" in b.name) == 2
    assert spent == [1, 1]
    goal = {"statistic": "variance(income)", "max_error": 0.2}
    tables = [*TABLES[:2], {**TABLES[2], "statistics": ["count", goal]}]
    made = schema(tables=tables)
    made["rows"]["expected"] = 30
    found = dp.plan(made)
    assert {s.name: s for s in found.statistics}["variance_income"].planned_error <= 0.2
    assert sum(b.epsilon for b in found.blocks) == found.epsilon == 4
