"""What a unit moves of a set of tables, by every pair of neighbours of small ones; what is forged is refused."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dprelease.core.errors import InternalError
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import as_source
from dprelease.fitting.margin_sets import designs, drawn_for
from dprelease.fitting.structure import Design, MarginSource
from dprelease.measurements.cells import CellLaw
from dprelease.measurements.gaussian import GaussianLaw
from dprelease.measurements.table_set import family
from dprelease.query.answer import Answer
from dprelease.query.bounded import BoundedQuery, Cross, Primitive
from dprelease.query.load import Schema
from dprelease.release_plan.plan import ReleasePlan
from dprelease.wall import execute
from dprelease.wall.sums_of_groups import _moves, set_sensitivity
from tests.folders import planned

VALUES = {"a": ["x", "y"], "b": ["x", "y", "z"], "c": ["x", "y"]}
USER = {"user": "id", "max_groups": 2, "max_rows_per_group": 1}


def plan_of(delta: float = 0, unit: Any = "row", adjacency: str = "add_remove") -> ReleasePlan:
    columns: dict[str, Any] = {n: {"kind": "category", "values": v} for n, v in VALUES.items()}
    if unit != "row":
        columns["id"] = {"kind": "identifier"}
    tables = [{"all_pairs": list(VALUES), "statistics": ["count"]}]
    release = {"epsilon": 1, "delta": delta, "tables": tables}
    said = {"name": "survey", "unit": unit, "adjacency": adjacency, "rows": {"max": 99}}
    found = {"dprelease": "schema/1", "columns": columns, "release": release, **said}
    return planned(Schema.from_dict(found))


@cache
def _answer(query: BoundedQuery, rows: tuple[tuple[str, ...], ...]) -> Answer:
    """Return what an engine sums; plans of either delta ask the same of it."""
    frame = pd.DataFrame([(*row, "p") for row in rows], columns=[*VALUES, "id"], dtype=str)
    return ReferenceEngine().compute(as_source(frame), query, b"salt").reveal_to_mechanism()


def _exact(plan: ReleasePlan, rows: Sequence[tuple[str, ...]]) -> np.ndarray:
    """Return the integers that noise is added to, of the rows of one person."""
    (block,) = plan.blocks
    return execute._cells(plan, _answer(plan.query, tuple(rows)), block)[0]


@pytest.mark.parametrize("unit", ["row", USER], ids=["row", "two rows"])
@pytest.mark.parametrize("adjacency", ["add_remove", "substitution"])
@pytest.mark.parametrize("delta", [0, 1e-2])
def test_the_loss_of_all_neighbours_is_what_is_charged(
    delta: float, adjacency: str, unit: Any
) -> None:
    plan = plan_of(delta, unit, adjacency)
    (block,) = plan.blocks
    kinds, most = list(itertools.product(*VALUES.values())), 1 if unit == "row" else 3
    units = [
        _exact(plan, rows)
        for n in range(most + 1)
        for rows in itertools.combinations_with_replacement(kinds, n)
        if n != 3 or rows[0] in (kinds[0], kinds[-1])  # a third row is left out
    ]
    sides = units[:1] if adjacency == "add_remove" else units
    moves = [one - other for one in sides for other in units]
    if isinstance(block.law, CellLaw):
        worst = block.law.noise.noise.rate * max(int(np.abs(m).sum()) for m in moves)
        assert worst <= 1
        assert adjacency == "substitution" or worst > 1 - 1e-9  # nothing is charged in vain
    else:
        assert isinstance(block.law, GaussianLaw)
        square = max(int((m * m).sum()) for m in moves)
        assert square <= block.law.noise.l2_square
        assert adjacency == "substitution" or square == block.law.noise.l2_square
    assert execute.check(plan) <= plan.epsilon


AXES = tuple((tuple(range(n)),) for n in (2, 3, 1, 4))
DEEP = (((0, 0, 1, 1), (0, 1, 2, 3)), *AXES[1:])
UNEVEN = (((0, 0, 1), (0, 1, 2)), *AXES[1:])
SETS = [(1, 1, 0, 0), (0, 1, 0, 1), (1, 0, 1, 0), (1, 1, 0, 1)]
LEVELS = [(2, 1, 0, 0), (1, 0, 0, 1), (2, 0, 1, 0)]
DESIGNS = [*designs(AXES, SETS), *designs(DEEP, LEVELS), *designs(UNEVEN, LEVELS)]


@pytest.mark.parametrize("design", DESIGNS)
def test_the_walls_number_is_that_of_every_row_and_every_two(design: Design) -> None:
    plan = plan_of(1e-2)
    sizes = [len(axis[-1]) for axis in design.axes]
    codes = tuple(
        Cross(*zip(*((n, s) for n, s, k in zip("abcd", sizes, t, strict=True) if k), strict=True))
        for t in design.counted
    )
    used = [Primitive("tally", i) for i in range(len(codes))]
    query = replace(plan.query, codes=codes, primitives=tuple(used))
    measurement = replace(plan.blocks[0].measurement, margins=design)
    rows = []
    for row in itertools.product(*map(range, sizes)):
        cells = []
        for t in design.counted:
            one = np.zeros([s if k else 1 for s, k in zip(sizes, t, strict=True)], dtype=object)
            one[tuple(i if k else 0 for i, k in zip(row, t, strict=True))] = 1
            cells.append(one.reshape(-1))
        rows.append(np.array(drawn_for(design, cells), dtype=object))
    pairs = [a - b for a, b in itertools.combinations(rows, 2)]
    added, replaced, square, moved = set_sensitivity(query, measurement, used)
    assert added == max(int(np.abs(r).sum()) for r in rows)
    assert square == max(int((r * r).sum()) for r in rows)
    assert replaced >= max(int(np.abs(m).sum()) for m in pairs)
    assert moved >= max(int((m * m).sum()) for m in pairs)
    assert moved <= 1.6 * max(int((m * m).sum()) for m in pairs)
    (claimed,) = [m for m in family.ways(list("abcd"), design.axes, design.tables) if m.margins == design]  # fmt: skip
    assert (claimed.l1_added_row, claimed.l1_replaced_row, *claimed.squares) == (added, replaced, square, moved)  # fmt: skip


def test_an_axis_of_many_keys_takes_no_table_of_every_two_of_them() -> None:
    n = 50_000  # 20 GB for every two
    keys = tuple(range(n))
    assert _moves((keys,), residual=True) == (2 * (n - 1), n * (n - 1), -n)
    assert _moves((tuple(k // 2 for k in keys), keys), residual=True) == (2, 2, -2)
    assert _moves((keys,), residual=False) == (1, 1, 0)
    with pytest.raises(ValueError, match="divides a cell"):
        _moves(((0, 1, 1), (0, 0, 1)), residual=True)


def _forged(plan: ReleasePlan, **changed: Any) -> ReleasePlan:
    (block,) = plan.blocks
    measurement = replace(block.measurement, **changed)
    return replace(plan, blocks=(replace(block, measurement=measurement),))


def test_a_design_that_measures_more_than_it_claims_is_refused() -> None:
    for delta in (0, 1e-2):
        plan = plan_of(delta)
        design = plan.blocks[0].measurement.margins
        assert design is not None
        for wrong in (
            replace(design, sources=(*design.sources, MarginSource((1, 1, 0)))),
            replace(design, sources=(MarginSource((1, 1, 0), 10**4), *design.sources)),
            replace(design, axes=(*design.axes[1:], design.axes[0])),
            replace(design, axes=((tuple(reversed(design.axes[0][0])),), *design.axes[1:])),
            replace(design, sources=(MarginSource((1, 1, 1)),)),
            replace(design, sources=(MarginSource((1, -1, 0)),)),
            replace(design, sources=(MarginSource((1, 1, 0), -1),)),
            replace(design, counted=design.counted[1:]),
            replace(design, counted=tuple(reversed(design.counted))),
        ):
            with pytest.raises(InternalError):
                execute.check(_forged(plan, margins=wrong))
        with pytest.raises(InternalError):
            execute.check(_forged(plan, margins=None))


def test_rows_that_are_not_counted_in_its_crosses_are_refused() -> None:
    plan = plan_of()
    first = plan.query.codes[0]
    assert isinstance(first, Cross)
    twice = replace(plan.query, codes=(replace(first, crossed=("a", "a")), *plan.query.codes[1:]))
    alike = tuple(
        replace(c, crossed=tuple("a" if n == "b" else n for n in c.crossed))
        for c in plan.query.codes
        if isinstance(c, Cross)
    )
    merged = replace(plan.query, codes=alike)  # two axes are one column: rows lie on its diagonal
    near = tuple(replace(p, kind="distinct") for p in plan.query.primitives)
    for query in (twice, merged, replace(plan.query, primitives=near)):
        with pytest.raises(InternalError):
            execute.check(replace(plan, query=query))


def test_under_a_delta_residuals_are_measured_and_tables_without() -> None:
    kinds = [plan_of(d).blocks[0].measurement.key for d in (0, 1e-2)]
    assert kinds == [("tables",), ("residuals",)]
    residual = plan_of(1e-2).blocks[0].measurement.margins
    assert isinstance(residual, Design)
    assert {sum(s.level) for s in residual.sources} == {0, 1, 2}
    assert math.isclose(sum(s.residual for s in residual.sources), 7)
