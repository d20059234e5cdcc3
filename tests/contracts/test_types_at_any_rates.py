"""What the engine sums for all that a unit may hold, against the types of its change: at any price of a step of any block.

Which laws draw the blocks does not matter here: a step of each costs what it may, and no change of a unit costs more over all
blocks than one of the wall's types. Rows may leave by a filter, lie in no declared group, have nulls, and feed columns made of others.
"""

from __future__ import annotations

import itertools
import random
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import dprelease as dp
from dprelease.audit.answers import answer_of, cells_of
from dprelease.engines.reference import ReferenceEngine
from dprelease.release_plan.plan import ReleasePlan
from dprelease.statistics.exact import summed
from dprelease.wall import execute
from tests.contracts.test_types_of_change import UNITS, asked
from tests.sizes import whole

ENGINE = ReferenceEngine()

WIDE: dict[str, Any] = {
    "d": {"kind": "category", "values": ["a", "b"], "other": {"as": "rest"}},
    "y": {"kind": "number", "range": [-1, 3], "step": 1},
    "z": {"kind": "number", "from": "x * y", "range": [-3, 6], "step": 1},
    "w": {"kind": "number", "range": [0, 2], "step": 1},
    "day": {"kind": "date"},
}
MANY: tuple[Any, ...] = (
    *(
        "sum(x)",
        "mean(x)",
        "mean(y)",
        "sum(z)",
        "covariance(x, y)",
        "variance(x)",
        "count(persons)",
    ),
    *("cdf(x, [0, 1, 3])", "proportion(x > y)", "count_distinct(d)"),
    {"statistic": "sum(x)", "as": "heavy", "weighted_by": "w"},
)
MONTH = {"user": "who", "per": "month", "max_groups": 2, "max_rows_per_group": 1}


def wide(draw: random.Random, unit: str) -> dict[str, Any]:
    """Return a request with rows that leave, that lie in no group, and columns made of others."""
    request = asked(draw.randrange(10**6), "row")
    release: dict[str, Any] = {"epsilon": 1}
    if draw.random() < 0.5:
        release["where"] = draw.choice(["x > 0", "s = 'f'", "y < 3 or x is null"])
    if draw.random() < 0.4 and "tables" in request["release"]:
        release["tables"] = request["release"]["tables"]
    else:
        release["statistics"] = ["count", *draw.sample(MANY, 3)]
        release["by"] = draw.choice([[], ["d"], ["d", "s"]])
    owner = {"unit": MONTH, "time": {"column": "day", "immutable": True}}
    owner = owner if unit == "month" else {"unit": UNITS[unit][0]}
    return request | owner | {"columns": request["columns"] | WIDE, "release": release}


def wide_cells(
    plan: ReleasePlan, mine: list[dict[str, Any]], other: dict[str, Any]
) -> list[npt.NDArray[np.float64]]:
    """Return all drawn cells of every block, from the engine."""
    rows = [{"who": "other", **other}, *({"who": "me", **row} for row in mine)]
    kinds = {"who": pa.string(), "d": pa.string(), "s": pa.string(), "day": pa.date32()}
    names = [*kinds, "x", "y", "w"]
    table = pa.table({n: pa.array([r[n] for r in rows], kinds.get(n, pa.float64())) for n in names})
    found = cells_of(plan, answer_of(plan, table, ENGINE))
    sums = [None if plan.tables is None else plan.tables.sums(b.table) for b in plan.blocks]
    together = [c if of is None else summed(c, *of) for c, of in zip(found, sums, strict=True)]
    return [np.array(cells.ravel(), dtype=float) for cells in together]


@pytest.mark.parametrize("unit", [*UNITS, "month"])
def test_no_change_of_a_unit_moves_all_blocks_further_than_one_type_at_any_rates(unit: str) -> None:
    """The engine sums every state of a unit, and each block costs any price a step, or a squared one: laws do not decide."""
    draw, most = random.Random(unit), UNITS[unit][3] if unit in UNITS else 2
    attained = [0, 0]
    for _ in range(whole(5, 60)):
        plan = dp.plan(wide(draw, unit))
        types = [
            [v for each in execute._sensitivity(plan, block).types for v in each]
            for block in plan.blocks
        ]
        values = (
            ["a", "b", "c", None],
            ["f", "m"],
            [None, -1, 0, 3],
            [None, -1, 0, 3],
            [None, 0, 2],
        )
        rows = [
            {"day": date(2024, 1, 9)} | dict(zip("dsxyw", map(draw.choice, values), strict=True))
            for _ in range(whole(20, 40) if most == 1 else 12 // most)
        ]
        chosen = itertools.combinations_with_replacement
        states = [list(s) for k in range(most + 1) for s in chosen(rows, k)]
        held = [wide_cells(plan, state, rows[0]) for state in states]
        known = [i for i, each in enumerate(types) if each]
        moved = [np.array([cells[i] for cells in held]) for i in known]
        steps = [np.abs(m[:, None] - m[None]) for m in moved]
        for power in (1, 2):
            apart = np.array([(each**power).sum(axis=2) for each in steps])
            each_type = np.array([types[i] for i in known], dtype=float)[..., power - 1]
            for _ in range(12):
                rates = np.array([draw.expovariate(1) * draw.choice([0, 1, 9]) for _ in known])
                bound = (rates @ each_type).max()
                found = np.tensordot(rates, apart, axes=1).max()
                assert found <= bound * (1 + 1e-9), (power, plan.query)
                attained[power - 1] += bool(found > 0.999 * bound)
    assert min(attained) >= (whole(5, 60) if most == 1 else 1), attained  # control


def test_a_person_in_another_month_may_be_counted_in_place_of_the_one_who_is_replaced() -> None:
    """One cell then changes by one, although somebody is there before and after."""
    request = wide(random.Random(1), "month")
    request["release"] = {"epsilon": 1, "statistics": ["count", "count(persons)"]}
    plan = dp.plan(request)
    base: list[dict[str, Any]] = [{"who": "me", "day": date(2024, 2, 9)}]
    row = {"day": date(2024, 1, 9), "d": "a", "s": "f", "x": 1, "y": 1, "w": 1}
    before, after = (
        wide_cells(plan, [*({**row, **one} for one in base), {**row, "who": who}], {**row})
        for who in ("me", "new")
    )
    change = [float(np.abs(a - b).sum()) for a, b in zip(before, after, strict=True)]
    assert change == [0, 1]
    types = execute._sensitivity(plan, plan.blocks[1]).types
    assert min(v for each in types for v in each) == (1, 1)
    whole_person = dp.plan({**request, "unit": UNITS["two of one"][0]})
    assert (0, 0) in [
        v for each in execute._sensitivity(whole_person, whole_person.blocks[1]).types for v in each
    ]


def test_a_row_whose_null_becomes_a_value_moves_a_sum_further_than_any_two_values() -> None:
    """Numbers from 3 to 5, of which some are null, beside others: one row replaced moves both sums by their whole."""
    request = asked(1, "row")
    numbers = {"x": [3, 5], "y": [-3, 3]}
    kinds = {name: {"kind": "number", "range": ends, "step": 1} for name, ends in numbers.items()}
    kinds["y"] = kinds["y"] | {"nulls": {"default": 0}}
    request["columns"] |= {"w": WIDE["w"], "day": WIDE["day"], **kinds}
    request["release"] = {"epsilon": 1, "statistics": ["sum(x)", "sum(y)"]}
    plan = dp.plan(request)
    row = {"day": date(2024, 1, 9), "d": "a", "s": "f", "w": 1}
    before, after = (
        wide_cells(plan, [{**row, "x": x, "y": y}], {**row, "x": 4, "y": 0})
        for x, y in ((None, -3), (5, 3))
    )
    change = [float(np.abs(a - b).sum()) for a, b in zip(before, after, strict=True)]
    assert change == [5, 6]
    moved = [sum(execute._sensitivity(plan, block).types, ()) for block in plan.blocks]
    assert max(sum(v for v, _ in each) for each in zip(*moved, strict=True)) == sum(change)


@pytest.mark.parametrize(
    ("statistics", "by", "x", "squares"),
    [
        (["sum(y)", "count"], ["d"], 1, [36, 0]),
        (["sum(x)", "sum(y)", "sum(z)"], [], 3, [0, 36, 81]),  # of a third number no ends are tried
    ],
)
def test_a_sum_whose_sign_changes_moves_further_in_l2_than_one_in_two_groups(
    statistics: list[str], by: list[str], x: int, squares: list[float]
) -> None:
    """From -3 to 3 in one group: 36, where two groups make 9 and 9; in L1 it is 6 either way."""
    request = wide(random.Random(1), "row")
    request["columns"]["y"] = {"kind": "number", "range": [-3, 3], "step": 1}
    request["release"] = {"epsilon": 1, "statistics": statistics, "by": by}
    plan = dp.plan(request)
    row = {"day": date(2024, 1, 9), "d": "a", "s": "f", "x": x, "w": 1}
    before, after = (wide_cells(plan, [{**row, "y": y}], {**row, "y": 0}) for y in (-3, 3))
    assert [float(((a - b) ** 2).sum()) for a, b in zip(before, after, strict=True)] == squares
    for block, moved in zip(plan.blocks, squares, strict=True):
        types = execute._sensitivity(plan, block).types
        assert max(v for each in types for _, v in each) >= moved
