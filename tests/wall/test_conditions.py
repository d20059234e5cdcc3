"""Each condition of a proof alone: what differs from an honest plan in one thing only is refused, whatever its family says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from dprelease.core.errors import InternalError
from dprelease.query.bounded import (
    BoundedQuery,
    Condition,
    Cross,
    Fixed,
    GroupKeys,
    Label,
    Near,
    Primitive,
    Window,
)
from dprelease.query.expression import parse_condition
from dprelease.release_plan.plan import ReleasePlan
from dprelease.schema.column import Column, Kind
from dprelease.statistics.exact import Merge
from dprelease.statistics.measurement import Axis, Measurement
from dprelease.statistics.sensitivity import Bounds, Sensitivity
from dprelease.wall import execute
from dprelease.wall.recompute import recompute
from dprelease.wall.sums_of_groups import bounds_of_sums, set_sensitivity
from tests.planning.requests import planned, public
from tests.wall.test_margin_sensitivity import plan_of as tables_of
from tests.wall.test_recompute import plan_of as graph_of

X = {"kind": "integer", "range": [0, 3], "nulls": {"default": 0}}
Y = {"kind": "number", "range": [0, 8], "step": 0.5, "nulls": {"default": 5}}
G = Column("g", Kind.category, values=("a",))
WINDOW = Window("t", datetime(2026, 1, 1), datetime(2027, 1, 1))
RANGES = {"statistic": "histogram(x, [0, 1, 2, 3, 4])", "accurate_for": "ranges"}


@cache
def plan(name: str) -> ReleasePlan:
    """Return an honest plan of one block; its primitives are those of the block, from the first on."""
    match name:
        case "median":
            return planned(["median(x)"])
        case "interval":
            return planned([{"statistic": "median(x)", "interval": True}])
        case "winsorised":
            return planned([{"statistic": "mean(x)", "winsorize": 0.05}])
        case "quartiles":
            return planned(["quantile(x, 0.25)", "quantile(x, 0.5)", "quantile(x, 0.75)"])
        case "tree":
            return planned([{**RANGES, "statistic": "histogram(x, [0, 1, 2, 3])"}], x=X)
        case "bins":
            rows = {"exact": 60}
            more = {"x": X, "rows": rows, "adjacency": "substitution"}
            return planned(["histogram(x, [0, 1, 2, 3, 4])"], **more)
        case "smooth":
            return planned([{"statistic": "mean(x)", "spikes": "forbid"}])
        case "covariance":
            y = {k: v for k, v in Y.items() if k != "nulls"}
            return planned(["covariance(x, y)"], columns={"y": y})
        case "cross product":
            return public(["covariance(x, y)"], columns={"y": Y})
        case "spectrum":
            return public(["eigenvalues(x, y, z)"], n=30, columns={"y": Y, "z": Y})
        case "pairs":
            y = {k: v for k, v in Y.items() if k != "nulls"}
            return planned(["eigenvalues(x, y, z)"], columns={"y": y, "z": y})
        case "scatter":
            return public(["variance(x)"], n=9)
        case "public mean":
            return public(["mean(x)"])
        case "graph":
            return graph_of(["algebraic_connectivity"])
        case _:
            return planned(["mean(x)"])


def proved(
    of: ReleasePlan,
    query: BoundedQuery | None = None,
    measurement: Measurement | None = None,
    merge: Merge | None = None,
) -> Sensitivity:
    """Return what the wall proves of a block of a query, the plan's own where none is given."""
    made = measurement or of.blocks[0].measurement
    return recompute(
        query or of.query,
        made,
        made.primitives,
        made.max_rows,
        unit=of.unit,
        adjacency=of.adjacency,
        groups=len(of.keys),
        whole=True,
        per=None,
        merge=merge,
    )


def asking(**wrong: Any) -> Callable[[ReleasePlan], Any]:
    return lambda of: proved(of, replace(of.query, **wrong))


def measuring(**wrong: Any) -> Callable[[ReleasePlan], Any]:
    return lambda of: proved(of, None, replace(of.blocks[0].measurement, **wrong))


def summing(place: int, **wrong: Any) -> Callable[[ReleasePlan], Any]:
    def changed(of: ReleasePlan) -> Any:
        primitives = list(of.query.primitives)
        primitives[place] = replace(primitives[place], **wrong)
        return proved(of, replace(of.query, primitives=tuple(primitives)))

    return changed


def coded(code: Any, place: int = 0) -> Callable[[ReleasePlan], Any]:
    def changed(of: ReleasePlan) -> Any:
        codes = list(of.query.codes)
        codes[place] = code
        return proved(of, replace(of.query, codes=tuple(codes)))

    return changed


def beside(primitive: Primitive) -> Callable[[ReleasePlan], Any]:
    return lambda of: proved(of, replace(of.query, primitives=(*of.query.primitives, primitive)))


def two_columns(of: ReleasePlan) -> Any:
    """Have the first bin count another column."""
    (code,), (first, *others) = of.query.codes, of.query.primitives
    primitives = (replace(first, code=1), *others)
    return proved(of, replace(of.query, codes=(code, code), primitives=primitives))


def from_the_last(of: ReleasePlan) -> Any:
    (block,) = of.blocks
    measurement = replace(block.measurement, primitives=(-1,))
    return execute.check(replace(of, blocks=(replace(block, measurement=measurement),)))


def below_zero(of: ReleasePlan) -> Any:
    first, *others = of.query.codes
    assert isinstance(first, Fixed)
    return proved(of, replace(of.query, codes=(replace(first, default=-1), *others)))


def axes(of: ReleasePlan, own: tuple[Axis, ...]) -> Any:
    return proved(of, None, replace(of.blocks[0].measurement, axes=own))


def stepped(of: ReleasePlan, **wrong: Any) -> Any:
    first, *others = of.blocks[0].measurement.axes
    return axes(of, (replace(first, **wrong), *others))


def merged(groups: int, **wrong: Any) -> Callable[[ReleasePlan], Any]:
    def changed(of: ReleasePlan) -> Any:
        measurement = replace(of.blocks[0].measurement, **wrong)
        return proved(of, None, measurement, ((0,) * groups, 1))

    return changed


LABELS = Label("g", ("a", "b", "c"))
FILTER = parse_condition("x > 1", {"x": Column("x", Kind.number)}, origin="test")
WRONG: dict[str, tuple[str, Callable[[ReleasePlan], Any]]] = {
    "ranks of sums": ("median", summing(0, kind="power")),
    "ranks of labels": ("median", coded(LABELS)),
    "ranks of a condition": ("median", coded(Condition(FILTER))),
    "ranks of no column": ("median", summing(0, code=None)),
    "a rank above all rows": ("median", measuring(weights=((3, 2, 0),))),
    "a rank below all rows": ("median", measuring(weights=((-1, 2, 0),))),
    "a rank of no rows": ("median", measuring(weights=((0, 0, 0),))),
    "an interval near one rank": ("interval", summing(0, near=Near(1, 2, 0, 5))),
    "an interval of two ranks": ("interval", measuring(weights=((1, 2, 0), (1, 2, 0)))),
    "limits near one rank": ("winsorised", summing(0, near=Near(1, 2, 0, 5))),
    "values chosen together near one rank": ("quartiles", summing(0, near=Near(1, 2, 0, 5))),
    "a tree of sums": ("tree", summing(0, kind="power")),
    "a tree of two columns": ("tree", two_columns),
    "a mean whose size is its sum": ("smooth", summing(0, power=1)),
    "a mean of another law's cells": ("smooth", measuring(form="bins")),
    "a mean of more sums": ("smooth", measuring(weights=((1, 0), (0, 2)))),
    "a mean of labels": ("smooth", coded(LABELS)),
    "a power that has no bound": ("covariance", summing(-1, power=3)),
    "another power that has no bound": ("covariance", summing(-1, other_power=3)),
    "a product of labels": ("covariance", coded(LABELS)),
    "a product of numbers below 0": ("covariance", below_zero),
    "a matrix of other columns": ("spectrum", coded(Condition(FILTER))),
    "a matrix of one column": ("spectrum", lambda of: axes(of, of.blocks[0].measurement.axes[:1])),
    "a matrix with a step of 0": ("spectrum", measuring(step_size=Fraction(0))),
    "a matrix with an axis of step 0": ("spectrum", lambda of: stepped(of, step_size=Fraction(0))),
    "a matrix of cubes": ("spectrum", summing(-1, power=3)),
    "a matrix of a private number of rows": ("spectrum", measuring(public_rows=None)),
    "pairs of a public number of rows": ("pairs", measuring(public_rows=30)),
    "pairs as a matrix": ("pairs", measuring(form="matrix")),
    "a cross product of a column and itself": ("cross product", summing(0, other_power=2)),
    "a scatter of cubes": ("scatter", summing(1, power=1)),
    "a public number of rows behind a filter": ("public mean", asking(where=FILTER)),
    "a public number of rows of one period": ("public mean", asking(window=WINDOW)),
    "a public number of rows of one group": (
        "public mean",
        asking(groups=GroupKeys((G,), (("a",),))),
    ),
    "a weight for a sum that is not there": ("mean", measuring(weights=((1, 0, 0), (0, 1, 0)))),
    "weights of no sums": ("mean", measuring(primitives=())),
    "sums from the last one": ("median", from_the_last),
    "rows beside the edges": ("graph", beside(Primitive("rows"))),
    "a graph in groups": ("graph", asking(groups=GroupKeys((G,), (("a",),)))),
    "groups per unit that are not a number": ("mean", asking(max_groups=True)),
    "no groups per unit": ("mean", asking(max_groups=0)),
    "less than no row": ("mean", asking(max_rows=-1)),
    "sums of groups of a tree": ("tree", merged(1)),
    "sums of groups of a public number of rows": ("public mean", merged(1)),
}


@pytest.mark.parametrize("name", WRONG)
def test_one_thing_that_differs_is_refused(name: str) -> None:
    honest, change = WRONG[name]
    assert proved(plan(honest)) is not None
    with pytest.raises(InternalError) as refused:
        change(plan(honest))
    assert refused.value.code == "DPR902"


def test_a_period_takes_rows_away() -> None:
    honest = plan("public mean")
    assert execute.check(honest) == 1
    with pytest.raises(InternalError) as refused:
        execute.check(replace(honest, window=(WINDOW.start, WINDOW.end)))
    assert refused.value.code == "DPR902"


def test_bins_keep_their_sum_only_where_all_are_bins_of_one_column() -> None:
    """A row that changes one bin and no other changes the sum."""
    of = plan("bins")
    query = of.query
    assert proved(of).sum_is_fixed
    (code,) = query.codes
    first, *others = query.primitives
    assert (first.low, first.high) == (0, 0)
    two = replace(query, codes=(code, code))
    for changed in (
        replace(query, primitives=(replace(first, kind="rows", code=None), *others)),
        replace(two, primitives=(replace(first, code=1), *others)),
    ):
        assert not proved(of, changed).sum_is_fixed


ROWS, PERSONS = Primitive("rows"), Primitive("persons")
TALLY = Primitive("tally", 0)
ONE, TWO = Bounds(1, 1), Bounds(1, 2)
MERGE: Merge = ((0, 0, 1), 2)


@pytest.mark.parametrize(
    ("used", "bounds", "merge"),
    [
        ([ROWS], ONE, ((0, 0), 2)),
        ([ROWS], ONE, ((False, 0, 1), 2)),
        ([ROWS], ONE, ((0, 0, 2), 2)),
        ([Primitive("persons_in_cells", cells=(0, 1, 1))], ONE, MERGE),
        ([Primitive("distinct", 0)], ONE, MERGE),
        ([ROWS, TALLY], ONE, MERGE),
        ([PERSONS], TWO, MERGE),
        ([replace(TALLY, near=Near(1, 2, 0, 5))], ONE, MERGE),
    ],
    ids=str,
)
def test_sums_of_groups_without_a_proof_have_no_bounds(used: Any, bounds: Any, merge: Any) -> None:
    assert bounds_of_sums(used, bounds, 3, merge) is None
    for honest, of in (([ROWS, PERSONS], ONE), ([ROWS], TWO), ([TALLY], TWO)):
        assert bounds_of_sums(honest, of, 3, MERGE) is not None
    cells = Primitive("persons_in_cells", cells=tuple(MERGE[0]))
    assert bounds_of_sums([cells], TWO, 3, MERGE) is not None


def test_a_set_of_tables_is_counted_whole_and_in_crosses() -> None:
    of = tables_of()
    (block,) = of.blocks
    query, measurement = of.query, block.measurement
    used = [query.primitives[i] for i in measurement.primitives]
    assert set_sensitivity(query, measurement, used)
    first, *others = query.codes
    assert isinstance(first, Cross)
    labels = Label("a", tuple(map(str, range(first.sizes[0]))))
    near = [replace(used[0], near=Near(1, 2, 0, 5)), *used[1:]]
    column, *_ = query.groups.columns
    for wrong, sums in (
        (query, near),
        (replace(query, groups=GroupKeys((column,), (("x",),))), used),
        (replace(query, codes=(labels, *others)), used),
    ):
        with pytest.raises(ValueError, match="tables"):
            set_sensitivity(wrong, measurement, sums)
