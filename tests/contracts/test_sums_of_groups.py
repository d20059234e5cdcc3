"""Tables whose cells are sums of groups: what one unit can do to them, and that they add up.

Everything one unit may hold is enumerated under its three caps; the change by every neighbour is held
against the wall's own computation. The twin is the sensitivity of the groups themselves: it claims
less than a unit moves a table in which all its groups share a cell.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import dprelease as dp
from dprelease.core.errors import InternalError
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import Source, as_source
from dprelease.planning.tables.make import frame_of
from dprelease.query.bounded import BoundedQuery, GroupKeys, Primitive
from dprelease.query.load import schema_from_dict
from dprelease.query.spec import resolve
from dprelease.release_plan.block import Block
from dprelease.release_plan.plan import ReleasePlan
from dprelease.schema.column import Column, Kind
from dprelease.schema.unit import Adjacency, UserUnit
from dprelease.statistics.exact import exact_cells, summed
from dprelease.statistics.sensitivity import Sensitivity, sensitivity, unit_bounds
from dprelease.wall.recompute import recompute
from tests.several_tables import BOTH, PLACES, REGION, TREE, people, schema
from tests.sizes import some

Ints = npt.NDArray[np.int64]

CAPS = {
    "one group": {"max_groups": 1, "max_rows_per_group": 2},
    "two groups": {"max_groups": 2, "max_rows_per_group": 2},
    "a total cap": {"max_groups": 3, "max_rows_per_group": 2, "max_rows": 3},
}
SMALL = [{**t, "share": "1/3"} for t in TREE[:2]] + [
    {"name": "districts", "by": ["district"], "statistics": BOTH, "share": "1/3"}
]
"""All measured: a share is given to each."""


def measured(caps: dict[str, int] | None, adjacency: str) -> ReleasePlan:
    places = PLACES[:3]
    unit: Any = "row" if caps is None else {"user": "id", **caps}
    made = schema(SMALL, unit=unit, adjacency=adjacency)
    made["columns"]["district"] = {"kind": "category", "values": places}
    made["columns"]["income"]["range"] = [-1, 2]
    keys = [[REGION[p], p] for p in places]
    made["hierarchies"] = {"place": {"levels": ["region", "district"], "keys": keys}}
    for table in made["release"]["tables"]:
        table["share"] = 0.33
    return dp.plan(made)


def held(plan: ReleasePlan) -> Ints:
    """Return (rows, sum of incomes) per group of everything one unit may hold, `(n, groups, 2)`."""
    unit = plan.unit
    bounds = unit_bounds(unit, None, len(plan.keys))
    groups, rows = bounds.groups, bounds.rows
    total = bounds.total or groups * rows
    here: dict[int, list[tuple[int, int]]] = {}
    for count in range(rows + 1):
        chosen = itertools.combinations_with_replacement((-1, 0, 2), count)
        here[count] = sorted({(count, sum(values)) for values in chosen})
    out = []
    for counts in itertools.product(range(rows + 1), repeat=len(plan.keys)):
        if sum(c > 0 for c in counts) <= groups and sum(counts) <= total:
            out += list(itertools.product(*(here[c] for c in counts)))
    return np.array(out, dtype=np.int64)


def wall(plan: ReleasePlan, block: Block, **changed: Any) -> Sensitivity:
    """Return the wall's own sensitivity of a block."""
    assert plan.tables is not None
    table = plan.tables.named(block.table or "")
    given: dict[str, Any] = {
        "unit": plan.unit,
        "adjacency": plan.adjacency,
        "groups": len(plan.keys),
        "whole": True,
        "per": None,
        "merge": (table.of, len(table.keys)),
    }
    measurement = block.measurement
    places = tuple(block.measurement.primitives)
    return recompute(plan.query, measurement, places, None, **(given | changed))


def enumerated_sensitivity(plan: ReleasePlan, block: Block) -> tuple[int, int]:
    """Return the largest L1 distance and the largest squared L2 distance of one block, over all neighbours."""
    assert plan.tables is not None
    table = plan.tables.named(block.table or "")
    cells = held(plan)[:, :, int("sum" in block.name)]
    sums = np.zeros((len(cells), len(table.keys)), dtype=np.int64)
    for group, cell in enumerate(table.of):
        sums[:, cell] += cells[:, group]
    sums = np.unique(sums, axis=0)
    if plan.adjacency is Adjacency.add_remove:
        apart = sums
    else:
        apart = (sums[:, None, :] - sums[None, :, :]).reshape(-1, sums.shape[1])
    return int(np.abs(apart).sum(axis=1).max()), int((apart**2).sum(axis=1).max())


@pytest.mark.parametrize("adjacency", ["add_remove", "substitution"])
@pytest.mark.parametrize("caps", [None, *CAPS], ids=str)
def test_no_unit_moves_a_sum_of_groups_further(caps: str | None, adjacency: str) -> None:
    plan = measured(None if caps is None else CAPS[caps], adjacency)
    assert {b.table for b in plan.blocks} == {"nation", "regions", "districts"}
    for block in plan.blocks:
        found, square = enumerated_sensitivity(plan, block)
        said = wall(plan, block)
        assert found <= said.l1_over_groups, block.name
        assert said.l2_squared is None or square <= said.l2_squared, block.name
        if plan.adjacency is Adjacency.add_remove:  # and no less would do
            assert (found, square) == (said.l1_over_groups, said.l2_squared), block.name


def test_the_sensitivity_of_the_groups_themselves_would_be_too_small() -> None:
    plan = measured(CAPS["two groups"], "add_remove")
    block = plan.block("nation.count")
    measurement = block.measurement
    bounds = unit_bounds(plan.unit, None, len(plan.keys))
    twin = sensitivity(measurement, bounds, plan.adjacency, len(plan.keys))
    square = enumerated_sensitivity(plan, block)[1]
    assert twin.l2_squared is not None
    assert square > twin.l2_squared
    assert wall(plan, block).l2_squared == square


def test_the_planner_prices_what_the_wall_recomputes() -> None:
    for caps, adjacency in itertools.product(CAPS.values(), ("add_remove", "substitution")):
        plan = measured(caps, adjacency)
        assert plan.request is not None
        frame = frame_of(plan.request)
        for family, block in itertools.product(frame.families, plan.blocks):
            layout = family.layout(block.table or "", None)
            if layout.name == block.name:
                priced = frame.prices.sensitivity(layout.options[0], layout)
                assert priced == wall(plan, block)


@pytest.mark.parametrize(
    "merge",
    [((0, 0), 1), ((0, 0, -1), 1), ((0, 0, 1), 1), ((0, 0, True), 2), ((0, 0, 0, 0), 1)],
)
def test_a_map_that_is_none_of_the_groups_is_refused(merge: Any) -> None:
    plan = measured(CAPS["two groups"], "add_remove")
    with pytest.raises(InternalError, match="does not measure"):
        wall(plan, plan.block("nation.count"), merge=merge)


def test_persons_of_several_groups_are_no_sum() -> None:
    tables = [
        {"name": "nation", "by": [], "statistics": ["count(persons)"], "share": 0.5},
        {"name": "districts", "by": ["district"], "statistics": ["count(persons)"], "share": 0.5},
    ]
    one = {"user": "id", "max_groups": 1, "max_rows_per_group": 3}
    plan = dp.plan(schema(tables, unit=one))
    block = plan.block("nation.count_persons")
    assert wall(plan, block).l1_over_groups == 1
    both = UserUnit("id", max_groups=2, max_rows_per_group=3)
    with pytest.raises(InternalError, match="not made of sums"):
        wall(plan, block, unit=both)


# -- persons of several groups: each once in a cell ----------------------------------------------

PERSONS: list[dict[str, Any]] = [
    {"name": "nation", "by": [], "statistics": ["count(persons)"], "share": 0.33},
    {"name": "regions", "by": ["region"], "statistics": ["count(persons)"], "share": 0.33},
    {"name": "districts", "by": ["district"], "statistics": ["count(persons)"], "share": 0.33},
]


def counting_persons(caps: dict[str, int], adjacency: str = "add_remove") -> ReleasePlan:
    made = schema(PERSONS, unit={"user": "id", **caps}, adjacency=adjacency)
    made["columns"]["district"] = {"kind": "category", "values": PLACES[:3]}
    keys = [[REGION[p], p] for p in PLACES[:3]]
    made["hierarchies"] = {"place": {"levels": ["region", "district"], "keys": keys}}
    return dp.plan(made)


def persons_in(of: Sequence[int], cells: int, groups: Ints) -> Ints:
    """Return in which cells a unit is that has rows in `groups`, 0 or 1 each, `(n, cells)`."""
    out = np.zeros((len(groups), cells), dtype=np.int64)
    for group, cell in enumerate(of):
        out[:, cell] |= groups[:, group]
    return out


@pytest.mark.parametrize("adjacency", ["add_remove", "substitution"])
@pytest.mark.parametrize("caps", CAPS, ids=str)
def test_no_unit_moves_persons_of_cells_further(caps: str, adjacency: str) -> None:
    """Everything one unit may hold, before and after; of G groups as many persons are moved at the most."""
    plan = counting_persons(CAPS[caps], adjacency)
    assert plan.tables is not None
    assert {b.table for b in plan.blocks} == {"nation", "regions", "districts"}
    bounds = unit_bounds(plan.unit, None, len(plan.keys))
    most = min(bounds.groups, bounds.total or bounds.groups)
    some = [c for c in itertools.product((0, 1), repeat=len(plan.keys)) if sum(c) <= most]
    for block in plan.blocks:
        table = plan.tables.named(block.table or "")
        cells = persons_in(table.of, len(table.keys), np.array(some, dtype=np.int64))
        apart = cells[:, None, :] - cells[None, :, :]
        apart = cells[:, None, :] if adjacency == "add_remove" else apart
        said = wall(plan, block)
        assert (
            said.l1_over_groups == np.abs(apart).sum(axis=2).max() == (apart**2).sum(axis=2).max()
        )
        assert said.l1_over_groups == said.l2_squared


PLACE = Column("place", Kind.category, values=("a", "b", "c"))
REGIONS = (0, 0, 1)
"""a and b are one region."""
World = tuple[tuple[int, ...], ...]


def in_a_world(engine: Any, persons: World, groups: int) -> tuple[list[int], list[int]]:
    """Return per region the persons counted once, and the sum of those of its places."""
    rows = [
        (place, str(person))
        for person, held in enumerate(persons)
        for place, here in zip(PLACE.values, held, strict=False)
        if here
    ]
    table = {k: pa.array([r[j] for r in rows], pa.string()) for j, k in enumerate(("place", "id"))}
    query = BoundedQuery(
        columns=(PLACE, Column("id", Kind.identifier)),
        groups=GroupKeys((PLACE,), tuple((v,) for v in PLACE.values)),
        codes=(),
        primitives=(Primitive("persons_in_cells", cells=REGIONS), Primitive("persons")),
        user="id",
        max_groups=groups,
    )
    answer = engine.compute(as_source(pa.table(table)), query, b"salt").reveal_to_mechanism()
    once, added = summed(answer.sums, REGIONS, 2).T.tolist()
    return once, added


@pytest.mark.parametrize("engine", [DuckDBEngine(), ReferenceEngine()], ids=["duckdb", "reference"])
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_every_world_of_two_persons(engine: Any, groups: int) -> None:
    """All 64 (6 in DuckDB): a person counts once per region, and a neighbour moves one person's regions at most."""
    each = [(), *(held for held in itertools.product((0, 1), repeat=3) if any(held))]
    other = each if engine.name == "reference" else [(), (1, 1, 0)]
    each = each if engine.name == "reference" else some(each, 3)
    found = {w: in_a_world(engine, w, groups) for w in itertools.product(each, other)}
    if groups == 3:  # nothing is cut: the persons themselves
        for persons, (once, _) in found.items():
            assert once == [sum(any(h[:2]) for h in persons), sum(any(h[2:]) for h in persons)]
    moves = [
        [
            [a - b for a, b in zip(*both, strict=True)]
            for both in zip(found[w], found[gone], strict=True)
        ]
        for w in found
        for gone in [(w[0], ()), ((), w[1])]
    ]
    for once, _ in moves:
        assert set(once) <= {0, 1}
        assert sum(once) <= min(groups, 2)
    # the twin: summed over places, a person of two of a region counts twice there
    assert (max(max(added) for _, added in moves) == 2) == (groups > 1)


def test_the_wall_takes_a_count_of_persons_for_its_own_cells_only() -> None:
    plan = counting_persons(CAPS["two groups"])
    assert plan.tables is not None
    block = plan.block("regions.count_persons")
    table = plan.tables.named("regions")
    assert table.of == (0, 1, 0)
    other = tuple(1 - cell for cell in table.of)
    for merge in ((other, 2), ((0, 0, 0), 1), ((0, 1, 2), 3)):
        with pytest.raises(InternalError, match="does not measure"):
            wall(plan, block, merge=merge)
    with pytest.raises(InternalError, match="does not measure"):
        wall(plan, block, merge=None)
    assert wall(plan, block).l1_over_groups == 2
    assert wall(plan, plan.block("nation.count_persons")).l1_over_groups == 1


TABLES = ("nation", "regions", "districts")


def tables_before_noise(
    engine: Any, source: Source, unit: str
) -> tuple[ReleasePlan, dict[str, list[int]]]:
    """Return the exact cells of every measured table, as the wall sums an engine's integers.

    Of a user unit with persons in all tables, and with the draw that tells how fine the last one is.
    """
    declared: Any = "row"
    tables: list[dict[str, Any]] = [{**t, "share": 0.18} for t in TREE]
    if unit == "user":
        declared = {"user": "id", "max_groups": 2, "max_rows_per_group": 1, "max_rows": 2}
        tables = [{**t, "statistics": [*BOTH, "count(persons)"]} for t in tables]
        detail = {"statistic": "count", "max_relative_error": 0.2, "levels": ["regions"]}
        tables[-1]["detail"] = detail
    plan = dp.plan(schema(tables, unit=declared))
    assert plan.tables is not None
    answer = engine.compute(source, plan.query, b"salt").reveal_to_mechanism()
    cells = {}
    for block in plan.blocks:
        measurement = block.measurement
        finest = exact_cells(measurement, block.measurement.primitives, answer, len(plan.keys))
        table = plan.tables.named(block.table or "")
        cells[block.name] = summed(finest, table.of, len(table.keys))[:, 0].tolist()
    return plan, cells


def add_up(plan: ReleasePlan, cells: dict[str, list[int]]) -> bool:
    """Return whether every region is the sum of its districts, and the nation of all, and none is 0."""
    assert plan.tables is not None
    at = [REGION[key[0]] for key in plan.tables.named("districts").keys]
    found = []
    for name in ("count", "sum_income"):
        nation, regions, districts = (
            cells[f"{t}.{name}"] for t in ("nation", "regions", "districts")
        )
        found.append(nation[0] == sum(regions) == sum(districts) != 0)
        for region, value in zip(plan.tables.named("regions").keys, regions, strict=True):
            mine = [v for r, v in zip(at, districts, strict=True) if r == region[0]]
            found.append(value == sum(mine))
    return all(found)


@pytest.mark.parametrize("engine", [DuckDBEngine(), ReferenceEngine()], ids=["duckdb", "reference"])
@pytest.mark.parametrize("unit", ["row", "user"])
def test_exact_bounded_tables_add_up_before_any_noise(engine: Any, unit: str) -> None:
    """One set of kept rows serves all tables; tables bounded by their own groups would not add up."""
    source = as_source(people())
    plan, cells = tables_before_noise(engine, source, unit)
    assert add_up(plan, cells)
    if unit == "user":
        assert cells["regions.count-detail"] == cells["regions.count"]
        nation, regions, districts = (sum(cells[f"{t}.count_persons"]) for t in TABLES)
        assert (
            0 < nation < regions < districts
        )  # a person of two districts of a region is one there
        # bounded by its own groups the nation keeps other rows
        alone = schema_from_dict(
            schema(
                [TREE[0]],
                unit={"user": "id", "max_groups": 2, "max_rows_per_group": 1, "max_rows": 2},
            )
        )
        assert alone.release is not None
        query = resolve(alone, alone.release)
        assert query.tables is not None
        assert len(query.groups.keys) == 1
        own = dp.plan(alone)
        rows = engine.compute(source, own.query, b"salt").reveal_to_mechanism().sums[0, 0]
        assert rows != cells["nation.count"][0]
