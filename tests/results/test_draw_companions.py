"""The three companion columns of the table: averages, medians, nulls, and nothing but public input."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.core.entropy import ReplayBits
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.draw import assemble
from dprelease.statistics.measurement import Measurement
from tests.planning.requests import planned, public
from tests.results.test_draw import private, replayed, rows_of

Floats = npt.NDArray[np.float64]


def columns(plan: ReleasePlan, cells: Any, name: str) -> dict[str, Floats]:
    table = assemble(plan.by, plan.keys, plan.statistics, plan.blocks, cells)
    here = np.array(table["statistic"].to_pylist()) == name
    names = ("value", "estimate", "unbiased", "consistent")
    return {n: table[n].to_numpy(zero_copy_only=False).astype(float)[here] for n in names}


def counted(plan: ReleasePlan, exact: int) -> dict[str, Floats]:
    """Draw a lone count of `exact` rows in every group."""
    block = plan.blocks[0]
    full = np.full((len(plan.keys), 1), exact, dtype=object)
    raw = block.law.draw(full, ReplayBits(f"counted {exact}"))
    return columns(plan, {block.name: [[int(v)] for v in raw[:, 0]]}, plan.statistics[0].columns[0])


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", ["staircase", "rectified_laplace", "discrete_laplace"])
@pytest.mark.parametrize("exact", [0, 2, 400])
def test_averaging_unbiased_counts_gives_the_count_and_averaging_values_does_not(
    mechanism: str, exact: int
) -> None:
    plan = private([{"statistic": "count", "mechanism": mechanism}], epsilon=0.2)
    got = counted(plan, exact)
    error = got["unbiased"].std() / np.sqrt(len(plan.keys))
    assert abs(got["unbiased"].mean() - exact) < 5 * error
    assert abs(got["value"].mean() - exact) > 10 * error  # what clamping does near an end
    assert got["unbiased"].min() < 0 or got["unbiased"].max() > 400  # outside the domain, by nature
    assert ((got["estimate"] >= 0) & (got["estimate"] <= 400)).all()
    assert (got["consistent"] == got["value"]).all()


@pytest.mark.statistical
def test_estimates_of_a_truncated_law_are_too_high_as_often_as_too_low() -> None:
    plan = private([{"statistic": "count", "spikes": "forbid"}], epsilon=0.05)
    got = counted(plan, 3)
    assert np.isnan(got["unbiased"]).all()  # none exists
    above = (got["estimate"] > 3).mean()
    assert abs(above - 0.5) < 0.05
    assert (got["value"] > 3).mean() > 0.6  # the raw value, near an end, is not


@pytest.mark.statistical
@pytest.mark.parametrize("spikes", ["allow", "forbid"])
def test_the_estimate_of_a_mean_is_about_median_unbiased(spikes: str) -> None:
    plan, rows = private([{"statistic": "mean(x)", "spikes": spikes}], epsilon=2), rows_of(11)
    got = columns(plan, replayed(plan, rows, "means"), "mean_x")
    kept = got["estimate"][~np.isnan(got["estimate"])]
    assert kept.size > 3_900
    assert abs((kept > rows.mean()).mean() - 0.5) < 0.05
    assert np.isnan(got["unbiased"]).all()  # a ratio has none


def test_what_has_no_estimate_is_null_and_a_constant_is_itself() -> None:
    plan = planned(["variance(x)", "std(x)", "median(x)"], by=["g"])
    cells = {b.name: [[3] * len(b.cells)] * len(plan.keys) for b in plan.blocks}
    for name in ("variance_x", "std_x", "median_x"):
        got = columns(plan, cells, name)
        assert np.isnan(got["unbiased"]).all()
        assert np.isnan(got["estimate"]).all()
    moments = [{"statistic": s, "mechanism": "staircase"} for s in ("variance(x)", "std(x)")]
    plan = public(["count", *moments], n=57)  # the scatter, one number
    cells = {b.name: [[57] * len(b.cells)] for b in plan.blocks}
    assert columns(plan, cells, "count")["unbiased"].tolist() == [57.0]
    assert not np.isnan(columns(plan, cells, "variance_x")["unbiased"]).any()
    root = columns(plan, cells, "std_x")  # a root keeps medians, not expectations
    assert np.isnan(root["unbiased"]).all()
    assert not np.isnan(root["estimate"]).any()


def test_a_mean_without_signal_has_no_estimate() -> None:
    plan = planned(["mean(x)"], by=["g"])
    low, high = plan.statistics[0].domain.hull
    got = columns(plan, {"mean_x": [[-5, -5], [300, 700], [0, 0]]}, "mean_x")
    assert np.isnan(got["estimate"]).tolist() == [True, False, True]
    assert got["estimate"][1] == pytest.approx(3.0)
    # one sum is surely there, though both together are negative
    got = columns(plan, {"mean_x": [[-900, 400], [400, -900], [400, -400]]}, "mean_x")
    assert got["estimate"].tolist() == [low, high, high]


@pytest.mark.parametrize("family", ["two_sums", "bernstein2", "centred_sums", "centred_squares"])
def test_an_estimate_is_too_low_exactly_where_the_pivot_is_negative(family: str) -> None:
    """What makes it median-unbiased: the pivot at the true mean is symmetric, whatever the total is."""
    from dprelease.statistics.base import Reading
    from dprelease.statistics.mean import Mean
    from dprelease.statistics.moments import cells_of

    held = cells_of(family)
    assert held is not None
    scores, parts = np.array(held.scores), np.array(held.parts)
    raw = np.array(
        list(itertools.product((-90, -7, -1, 0, 2, 11, 80), repeat=scores.size)), dtype=float
    )
    cells = tuple(f"c{i}" for i in range(scores.size))
    measurement = Measurement(family, ("m",), cells, (), 1, 2)  # type: ignore[arg-type]
    found = Mean("mean").estimate(measurement, Reading(raw, raw, raw, 1.0, 0.95))[:, 0]
    for theta in (0.03, 0.2, 0.51, 0.77, 0.98):
        pivot = raw @ (scores - theta * parts)
        known = ~np.isnan(found) & (np.abs(pivot) > 1e-9)
        assert ((found < theta) == (pivot < 0))[known].all()
    none = np.isnan(found)
    top, total = raw @ scores, raw @ parts
    assert (none == (total <= 0) & (top <= 0) & (top >= total)).all()
    assert none.mean() < 0.35


def test_consistent_values_come_from_the_published_ones() -> None:
    plan = planned(
        ["count", "histogram(x, [0, 5, 10])"],
        by=["g"],
        x={"kind": "number", "range": [0, 10], "step": 0.5, "nulls": {"default": 5}},
    )
    cells = {"count": [[100], [0], [40]], "histogram_x": [[70, 10], [-5, 3], [30, 10]]}
    table = assemble(plan.by, plan.keys, plan.statistics, plan.blocks, cells)
    fitted = table["consistent"].to_numpy().reshape(3, 3)
    value = table["value"].to_numpy().reshape(3, 3)
    assert (fitted[:, 0] == fitted[:, 1:].sum(axis=1)).all()
    assert (value[0] != fitted[0]).any()
