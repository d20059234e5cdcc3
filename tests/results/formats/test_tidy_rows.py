"""Rows find their group and column in any order, and strays are seen."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from dprelease.results.formats.tidy_rows import group_places, places_of
from tests.results.formats import releases

KEYS = [(f"a{i}", f"b{j}") for i in range(7) for j in range(3)]
PLAN = releases.plan(
    [releases.statistic("n", "count", releases.Domain(0, 9), "1", block="b")],
    [releases.block("b")],
    by=("a", "b"),
    keys=KEYS,
)


def table(rows: list[tuple[str, str]]) -> pa.Table:
    return pa.table(
        {name: pa.array([r[i] for r in rows], pa.utf8()) for i, name in enumerate("ab")}
    )


def test_rows_as_they_are_made() -> None:
    rows = [key for key in KEYS for _ in range(4)]
    assert group_places(table(rows), PLAN).tolist() == [
        g for g in range(len(KEYS)) for _ in range(4)
    ]
    assert group_places(table([]), PLAN).tolist() == []


@pytest.mark.parametrize("seed", range(3))
def test_rows_in_another_order(seed: int) -> None:
    order = np.random.Generator(np.random.Philox(seed)).integers(0, len(KEYS), 4 * len(KEYS))
    assert group_places(table([KEYS[g] for g in order]), PLAN).tolist() == order.tolist()


def test_one_stray_row_among_the_usual_ones() -> None:
    rows = [*KEYS]
    for stray in (("a0", "b9"), ("x", "b0")):
        rows[5] = stray
        expected = [-1 if g == 5 else g for g in range(len(KEYS))]
        assert group_places(table(rows), PLAN).tolist() == expected
    # Both labels are declared, but not together.
    fewer = releases.plan(PLAN.statistics, PLAN.blocks, by=("a", "b"), keys=KEYS[1:])
    assert group_places(table([KEYS[0]]), fewer).tolist() == [-1]


def test_places_of_values() -> None:
    assert places_of(pa.chunked_array([["b", "z"], [None, "a"]]), ["a", "b"]).tolist() == [
        1,
        -1,
        -1,
        0,
    ]
