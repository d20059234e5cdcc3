"""What one unit can do to a block of moments of several columns, by brute force over small tables.

Every contribution of one unit, rows of two or three columns at, beyond and between the ends and null, is enumerated under
both adjacencies, for rows and for persons in one or two groups: no neighbour moves the cells further than the plan
claims or the wall finds, in L1 or in L2, and what comes or goes attains both.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from dprelease.planning.layout import layouts
from dprelease.query.bounded import Fixed, Primitive
from dprelease.query.load import Schema
from dprelease.query.merge import merge_release
from dprelease.query.spec import resolve
from dprelease.schema.unit import Adjacency
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import bounded_query
from dprelease.wall.code_sensitivity import cells_apart
from tests.contracts.brute_cases import COLUMNS, UNITS, Case
from tests.contracts.test_pair_sensitivities import cells_of, contributions

KINDS = ("odd width across zero", "from zero", "half steps")
ASKED = {
    "means": ["mean(x)", "mean(y)"],
    "count and means": ["count", "mean(x)", "mean(y)"],
    "moments": ["mean(x)", "variance(x)", "std(y)"],
    "covariances": ["count", "covariance(x, y)", "variance(x)"],
    "three columns": ["mean(x)", "covariance(x, y)", "covariance(y, z)", "variance(z)"],
}
SETTINGS = [
    (unit, adjacency, groups)
    for unit, groups in (("row", 2), ("m=2 G=1", 2), ("m=1 G=2", 3), ("m=2 G=2 T=3", 2))
    for adjacency in ("add_remove", "substitution")
]


def default(kind: str) -> dict[str, object]:
    return {"nulls": {"default": COLUMNS[kind]["range"][1]}}


def case(asked: list[str], unit: str, adjacency: str, groups: int, *, filled: bool = True) -> Case:
    columns = {
        label: {"kind": "number", **COLUMNS[kind]} | (default(kind) if filled else {})
        for label, kind in zip("xyz", KINDS, strict=True)
    }
    schema = Schema.from_dict(
        {
            "dprelease": "schema/1",
            "name": "brute",
            "unit": UNITS[unit],
            "adjacency": adjacency,
            "rows": {"max": 50},
            "columns": {
                "who": {"kind": "identifier"},
                **columns,
                "g": {"kind": "category", "values": list("abc"[:groups])},
            },
            "release": {"epsilon": 1, "delta": 1e-6, "statistics": asked, "by": ["g"]},
        }
    )
    query = resolve(schema, merge_release(schema))
    blocks = layouts(query)[-1]
    options = tuple(o for block in blocks for o in block.options if o.family == "shared_rows")
    if not filled:
        return Case(query, options, bounded_query(query, ()))
    task = bounded_query(query, tuple((o, None) for o in options))
    made = Case(query, options, task)
    ends = [made.ends(c.column) for c in task.codes]  # type: ignore[union-attr]
    values = [(low - 9.0, high + 9.0, (low + high) / 2) for low, *_, high in ends]
    few = [tuple(row) + (None,) * (3 - len(row)) for row in itertools.product(*values)]
    return replace(made, values=tuple(few if unit == "row" else few[:: 1 + len(few) // 9]))


@pytest.mark.parametrize("name", ASKED)
def test_no_neighbour_moves_a_shared_block_further_than_stated(name: str) -> None:
    for unit, adjacency, groups in SETTINGS:
        made = case(ASKED[name], unit, adjacency, groups)
        assert made.measurements
        for measurement in made.measurements:
            claimed, proved = made.claimed(measurement), made.proved(measurement)
            l1, square = moved(made, measurement)
            where = (unit, adjacency, measurement.weights)
            assert l1 <= proved.l1_over_groups <= claimed.l1_over_groups, where
            assert square <= (proved.l2_squared or 0) <= (claimed.l2_squared or 0), where
            if made.adjacency is Adjacency.add_remove and unit == "row":
                assert l1 == claimed.l1_over_groups, where
                assert square == claimed.l2_squared, where


def moved(made: Case, measurement: Measurement) -> tuple[int, int]:
    """Return the largest L1 distance, and the largest squared L2 distance, over all groups together."""
    held = contributions(made)
    flat = cells_of(made, measurement, held.reshape(-1, held.shape[2])).astype(object)
    cells = flat.reshape(held.shape[0], -1)
    if made.adjacency is Adjacency.add_remove:
        return _norms(cells)
    each = [_norms(cells - one) for one in cells[:: max(1, len(cells) // 30)]]
    return max(one for one, _ in each), max(two for _, two in each)


def _norms(change: np.ndarray) -> tuple[int, int]:  # type: ignore[type-arg]
    return int(np.abs(change).sum(axis=1).max()), int((change * change).sum(axis=1).max())


def test_a_replaced_row_of_means_attains_what_is_stated() -> None:
    made = case(ASKED["means"], "row", "substitution", 2)
    for measurement in made.measurements:
        one = np.array([moved(made, measurement)])
        assert one[0, 0] == made.proved(measurement).l1_over_groups


def test_columns_whose_nulls_leave_rows_out_share_nothing() -> None:
    made = case(ASKED["means"], "row", "add_remove", 2, filled=False)
    assert not made.measurements


def test_the_wall_takes_no_word_for_it() -> None:
    """What a plan says of its own squares is not looked at, and codes that may be null have no bound in L2 cell by cell."""
    made = case(ASKED["count and means"], "row", "add_remove", 2)
    (measurement, *_) = made.measurements
    forged = replace(measurement, squares=(1, 1), l1_added_row=1, l1_replaced_row=1)
    assert made.proved(forged) == made.proved(measurement)
    codes, places = made.task.codes, made.places(measurement)
    assert isinstance(codes[1], Fixed)
    task = replace(made.task, codes=(codes[0], replace(codes[1], default=None)))
    null = replace(made, task=task).proved(measurement, places)
    assert null.l2_squared == null.l1_over_groups**2


ROWS, ONE, SQUARE = Primitive("power", 0), Primitive("power", 0, 1), Primitive("power", 0, 2)
BOTH = Primitive("product", 0, 1, other=1, other_power=1)


def test_a_row_that_goes_need_not_be_replaced() -> None:
    assert cells_apart([[3, 0], [-2, 1]], [ROWS, ONE], {0: (0, 4)}) == (5, 5, 13, 16)
    assert cells_apart([[3]], [ROWS], {0: (0, 4)}) == (3, 3, 9, 9)


@pytest.mark.parametrize(
    ("used", "spans"),
    [
        ([], {}),
        ([ROWS], {}),
        ([replace(ONE, power=3)], {0: (0, 4)}),
        ([BOTH], {0: (0, 4)}),
        ([replace(BOTH, other_power=2)], {0: (0, 4), 1: (0, 4)}),
        ([replace(BOTH, other=0)], {0: (0, 4)}),
        ([BOTH, replace(ONE, code=2)], {0: (0, 4), 1: (0, 4), 2: (0, 4)}),
        ([Primitive("rows")], {0: (0, 4)}),
        ([Primitive("between", 0, low=0, high=2)], {0: (0, 4)}),
        ([Primitive("edges", 0, other=1)], {0: (0, 4), 1: (0, 4)}),
    ],
    ids=str,
)
def test_cells_without_a_bound_of_their_own_have_none(
    used: list[Primitive], spans: dict[int, tuple[int, int]]
) -> None:
    assert cells_apart([[1] * len(used)] if used else [], used, spans) == ()
