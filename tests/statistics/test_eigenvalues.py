"""Released spectra: consistent values, intervals that cover, the solver of released matrices."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.core.entropy import ReplayBits
from dprelease.query.answer import Answer
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.draw import LEVEL
from dprelease.statistics.base import Reading
from dprelease.statistics.eigenvalues import capped, statistic
from dprelease.statistics.exact import exact_cells
from dprelease.statistics.jacobi import jacobi_eigenvalues
from tests.contracts.test_pair_sensitivities import primitives
from tests.planning.requests import planned
from tests.sizes import whole

Y = {"kind": "number", "range": [-5, 15], "step": 1}
Z = {"kind": "number", "range": [0, 4], "step": 1}
X = {"kind": "number", "range": [0, 10], "step": "0.5"}


def plan_of(columns: str, n: int | None) -> ReleasePlan:
    kept = {} if n is None else {"nulls": {"default": 1}}
    more = {} if n is None else {"rows": {"exact": n}, "adjacency": "substitution"}
    cols = {"y": {**Y, **kept}, "z": {**Z, **kept}}
    return planned([f"eigenvalues({columns})"], x={**X, **kept}, columns=cols, epsilon=4, **more)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 12])
def test_jacobi_finds_the_eigenvalues_of_any_symmetric_matrix(count: int) -> None:
    a = np.random.default_rng(count).normal(size=(50, count, count))
    a += a.transpose(0, 2, 1)
    a[0] = 0.0
    a[1] = np.eye(count)
    expected = np.linalg.eigvalsh(a)[:, ::-1]
    assert jacobi_eigenvalues(a) == pytest.approx(expected, abs=1e-12 * count)


def test_jacobi_is_total() -> None:
    a = np.array([[[1e-300, 5e-324], [5e-324, 1e300]], [[0.0, 1e-320], [1e-320, 0.0]]])
    assert np.isfinite(jacobi_eigenvalues(a)).all()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.floats(0.01, 0.5))
def test_capping_projects_onto_sums_that_can_be(values: list[float], most: float) -> None:
    start = -np.sort(-np.array([values]))
    found = capped(start, most)[0]
    assert (found >= 0).all()
    assert (np.diff(found) <= 1e-12).all()
    assert found.sum() <= most + 1e-9
    if start.sum() <= most:
        assert found == pytest.approx(start[0])
    else:  # the projection: no other point of the simplex is nearer
        other = np.full(len(values), most / len(values))
        assert np.sum((start[0] - found) ** 2) <= np.sum((start[0] - other) ** 2) + 1e-9


@pytest.mark.parametrize("n", [None, 60])
@pytest.mark.parametrize("columns", ["x, y", "x, y, z"])
def test_released_spectra_are_ordered_not_negative_and_have_a_possible_sum(
    columns: str, n: int | None
) -> None:
    plan = plan_of(columns, n)
    (block,) = plan.blocks
    measurement = block.measurement
    raw = np.random.default_rng(3).normal(0, 3e4, (whole(4_000, 20_000), len(block.cells)))
    raw *= 1 if n is None else 10
    values = statistic.finish(measurement, np.maximum(raw, 0.0))
    assert (np.diff(values, axis=1) <= 1e-9).all()
    assert (values >= 0).all()
    assert (values.sum(axis=1) <= float(plan.statistics[0].domain.upper) * (1 + 1e-9)).all()


@pytest.mark.parametrize("n", [None, 400])
@pytest.mark.parametrize("columns", ["x, y", "x, y, z"])
def test_intervals_hold_for_all_eigenvalues_together(columns: str, n: int | None) -> None:
    plan = plan_of(columns, n)
    (block,) = plan.blocks
    measurement = block.measurement
    i = np.arange(400)
    table = np.stack(
        [10 * (i * 0.7548 % 1), 12 * (i * 0.7548 % 1) + 3 * (i * 0.5698 % 1), 4 * (i * 0.3371 % 1)]
    ).T
    sums = sum(np.array(primitives(plan.query, tuple(row)), dtype=object) for row in table)
    exact = exact_cells(measurement, block.measurement.primitives, Answer(np.array([sums])), 1)
    truth = statistic.finish(measurement, exact.astype(float))[0]
    law, groups = block.law, 300
    drawn = law.draw(np.repeat(exact, groups, axis=0), ReplayBits(f"{columns} {n}"))
    low, high = law.box(drawn, LEVEL)
    reading = Reading(low, high, drawn.astype(float), law.noise_scale, LEVEL)
    lower, upper = statistic.interval(measurement, reading)
    held = ((lower <= truth + 1e-6) & (truth <= upper + 1e-6)).all(axis=1).mean()
    assert held >= 0.95
    values = statistic.finish(measurement, law.cells(drawn))
    assert float(np.median(np.abs(values - truth))) < float(plan.statistics[0].domain.upper) / 20
    assert (upper - lower).mean() < 0.8 * float(plan.statistics[0].domain.upper)


def test_the_planner_takes_what_is_cheaper() -> None:
    """One dominant column: its variance is nearly the whole spectrum, and the matrix route wins."""
    assert plan_of("x, y, z", 400).blocks[0].family == "spectrum"
    wide = {"kind": "number", "range": [0, 1000], "step": 1, "nulls": {"default": 1}}
    flat = {"kind": "number", "range": [0, 1], "step": 1, "nulls": {"default": 1}}
    plan = planned(
        ["eigenvalues(x, y, z)"],
        x=wide,
        columns={"y": flat, "z": flat},
        rows={"exact": 400},
        adjacency="substitution",
    )
    families = {o.note for o in plan.statistics[0].chosen}
    assert len(families) == 2
    assert plan.blocks[0].family in ("spectrum", "matrix")
    assert Fraction(plan.blocks[0].certificate["epsilon_upper"]) <= 1
