"""Rows of several levels: every finest cell is in one row, whatever is drawn; sizes alone choose."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dprelease as dp
from dprelease.core.errors import ConfigError
from dprelease.release_plan.detail import ALL, PlannedDetail
from dprelease.release_plan.tables import PlannedTables
from tests.several_tables import PLACES, REGION, schema

COUNT = ["count"]


def tables_of(by: list[str], levels: list[str], **fine: Any) -> PlannedTables:
    detail = {"statistic": "count", "max_relative_error": 0.2, "levels": levels}
    plan = dp.plan(
        schema(
            [
                {"name": "nation", "by": [], "statistics": COUNT},
                {"name": "regions", "by": ["region"], "statistics": COUNT},
                {"name": "places", "by": ["district"], "statistics": COUNT},
                {"name": "fine", "by": by, "statistics": COUNT, "detail": detail, **fine},
            ]
        )
    )
    assert plan.tables is not None
    return plan.tables


def drawn(detail: PlannedDetail, sizes: tuple[int, ...]) -> dict[str, tuple[tuple[int], ...]]:
    assert detail.block is not None
    return {detail.block: tuple((size,) for size in sizes)}


SHAPES = {
    "two levels": (["district", "sex"], ["places"], {}),
    "three levels": (["district", "sex"], ["regions", "places"], {}),
    "a level left out": (["sex", "district"], ["regions"], {}),
    "the whole": (["district", "sex"], ["nation", "regions", "places"], {}),
    "zeros": (["district", "sex"], ["regions", "places"], {"zeros": [["d0", "f"], ["d1", "m"]]}),
    "an empty branch": (["district", "sex"], ["places"], {"zeros": [["d0", "f"], ["d0", "m"]]}),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_of_every_outcome_hold_every_finest_cell_once(shape: str) -> None:
    by, levels, more = SHAPES[shape]
    tables = tables_of(by, levels, **more)
    detail = tables.detail
    assert detail is not None
    assert detail.levels == (*levels, "fine")
    structure = tables.structure(list(detail.levels))
    numbers = np.arange(structure.n) ** 2 + 1  # any: they add up in every table
    whole = {
        name: np.bincount(structure.table(name).of, numbers).astype(int) for name in detail.levels
    }
    steps = [
        sorted({0, *(n for need in detail.needed if (n := need[b]) is not None)})
        for b in range(len(detail.needed[0]))
    ]
    seen: set[tuple[int, ...]] = set()
    for sizes in itertools.product(
        *([s - 1 if s else -5 for s in (0, *each)] + [max(each)] for each in steps)
    ):
        chosen = detail.chosen(list(sizes))
        if tuple(chosen) in seen:
            continue
        seen.add(tuple(chosen))
        rows = detail.rows(tables, drawn(detail, sizes))
        held: Counter[int] = Counter()
        for row in rows:
            held.update(np.flatnonzero(structure.table(row.table).of == row.cell).tolist())
        assert held == Counter(range(structure.n))
        assert sum(whole[row.table][row.cell] for row in rows) == numbers.sum()
        keys = [row.key for row in rows]
        assert len(set(keys)) == len(keys)
        assert {len(key) for key in keys} == {len(detail.by(tables))}
        for row in rows:
            assert row.key[-1] == row.table
            labels = dict(zip(detail.by(tables), row.key, strict=True))
            own = dict(
                zip(tables.named(row.table).by, tables.named(row.table).keys[row.cell], strict=True)
            )
            assert own.items() <= labels.items()
            if "region" in labels and labels.get("district", ALL) != ALL:
                assert labels["region"] == REGION[labels["district"]]
    possible = [1 + sum(need[b] is not None for need in detail.needed) for b in range(len(steps))]
    assert len(seen) == np.prod(possible)
    assert min(possible) == (
        1 if shape == "an empty branch" else 2 if len(levels) == 1 else len(levels) + 1
    )


def test_the_finest_level_whose_need_is_met() -> None:
    detail = PlannedDetail(
        "c", "count", ("a", "b", "c"), "a.count-detail", None, Fraction(1, 5),
        ((10, 10, None, 30, None), (20, None, 20, 20, None)),
    )  # fmt: skip
    assert detail.chosen([9, 9, 19, 19, 99]) == [0, 0, 0, 0, 0]
    assert detail.chosen([10, 10, 20, 20, 99]) == [1, 1, 2, 2, 0]
    assert detail.chosen([20, 99, 99, 30, 99]) == [2, 1, 2, 2, 0]
    assert detail.chosen([-(10**30)] * 5) == [0] * 5
    assert detail.chosen(None) == [2, 1, 2, 2, 0]  # errors alone
    with pytest.raises(ValueError, match="not one size per branch"):
        detail.chosen([1, 2])


def test_the_detail_of_a_plan_is_stored_and_read() -> None:
    tables = tables_of(["district", "sex"], ["regions", "places"])
    again = PlannedTables.from_json(tables.to_json())
    assert again == tables
    assert again.detail == tables.detail
    stored = tables.to_json()
    stored["detail"]["needed"][0][0] = 1.0
    with pytest.raises(ConfigError, match="does not parse"):
        PlannedTables.from_json(stored)
    assert len(PLACES) == len(set(tables.named("places").keys))
