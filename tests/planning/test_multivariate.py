"""Plans of multivariate statistics: what shares a block, what is said, what is refused, what it costs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.core.errors import InternalError, PlanError
from dprelease.planning.layout import layout
from dprelease.query.bounded import Fixed
from dprelease.release_plan.plan import ReleasePlan
from dprelease.statistics.base import kind_named
from dprelease.wall import execute
from tests.planning.requests import USER, asked, forged, planned
from tests.planning.simulated import simulated_cells

Y = {"kind": "number", "range": [-5, 15], "step": 1, "measure": "kg"}
Z = {"kind": "number", "range": [0, 4], "step": 1}
X = {"kind": "number", "range": [0, 10], "step": 0.5, "measure": "m"}
KEPT = {"nulls": {"default": 1}}
PUBLIC: dict[str, Any] = {"adjacency": "substitution", "rows": {"exact": 900}}


def shape(statistics: list[Any], kept: bool = True, **more: Any) -> dict[str, str]:
    """Return block name -> family preferred first."""
    nulls = KEPT if kept else {}
    columns = {"y": {**Y, **nulls}, "z": {**Z, **nulls}}
    blocks = layout(asked(statistics, x={**X, **nulls}, columns=columns, **more))
    return {b.name: b.options[0].family for b in blocks}


def plan_of(statistics: list[Any], kept: bool = True, **more: Any) -> ReleasePlan:
    nulls = KEPT if kept else {}
    columns = {"y": {**Y, **nulls}, "z": {**Z, **nulls}}
    return planned(statistics, x={**X, **nulls}, columns=columns, **more)


class TestSharing:
    def test_a_covariance_alone_takes_the_smallest_form(self) -> None:
        assert shape(["covariance(x, y)"]) == {"covariance_x_y": "soft_table"}
        assert shape(["covariance(x, y)"], **PUBLIC) == {"covariance_x_y": "scalar"}

    def test_a_correlation_brings_the_covariance_and_both_orders_along(self) -> None:
        for more in ({}, PUBLIC):
            found = shape(["covariance(y, x)", "correlation(x, y)", "correlation(y, x)"], **more)
            assert list(found.values()) == ["tensor"]

    def test_moments_of_either_column_join_when_no_null_leaves_a_row_out(self) -> None:
        asked_for = ["mean(x)", "covariance(x, y)", "std(y)", "variance(z)"]
        assert shape(asked_for) == {
            "mean_x+covariance_x_y+std_y": "tensor",
            "variance_z": "bernstein2",
        }
        apart = shape(asked_for, kept=False)
        assert list(apart.values()) == ["two_sums", "soft_table", "bernstein2", "bernstein2"]

    def test_two_columns_share_their_spectrum_with_their_correlation(self) -> None:
        found = shape(["eigenvalues(x, y)", "correlation(x, y)", "eigenvalues(x, y, z)"])
        assert list(found.values()) == ["tensor", "pairs"]

    def test_pins_and_bounds_of_their_own_do_not_share(self) -> None:
        pinned = [{"statistic": "mean(x)", "mechanism": "discrete_laplace"}, "correlation(x, y)"]
        assert len(shape(pinned)) == 2
        capped = [{"statistic": "variance(x)", "max_rows_per_group": 1}, "correlation(x, y)"]
        assert len(shape(capped, unit=USER)) == 2

    def test_a_view_survives_json_and_is_absent_elsewhere(self) -> None:
        plan = plan_of(["mean(y)", "correlation(x, y)", "count"])
        views = {s.name: s.view for s in plan.statistics}
        assert views == {"mean_y": 1, "correlation_x_y": None, "count": None}
        assert ReleasePlan.from_json(plan.to_json()) == plan
        assert "view" not in plan.to_json()["statistics"][2]


class TestWords:
    def test_the_unit_of_a_statistic_is_made_of_its_columns_units(self) -> None:
        plan = plan_of(["covariance(x, y)", "correlation(x, y)", "eigenvalues(x, y)"])
        assert [s.measure for s in plan.statistics] == ["m·kg", "", ""]
        same = planned(
            ["covariance(x, y)", "eigenvalues(x, y)"], x=X, columns={"y": {**Y, "measure": "m"}}
        )
        assert [s.measure for s in same.statistics] == ["m²", "m²"]

    def test_notes_say_which_rows_count(self) -> None:
        (dropping,) = plan_of(["correlation(x, y)"], kept=False).statistics
        assert "over rows where x and y are known" in dropping.notes
        (keeping,) = plan_of(["covariance(x, y)"]).statistics
        assert not any("known" in note for note in keeping.notes)
        assert "population form (divided by n)" in keeping.notes

    def test_fine_columns_are_coarsened_and_it_is_said(self) -> None:
        fine = {"kind": "number", "range": [0, 200_000], "step": 1, "nulls": {"default": 170_001}}
        plan = planned(["correlation(x, y)"], x=fine, columns={"y": Y})
        assert "x is rounded to steps of 200 before use" in plan.statistics[0].notes
        code = plan.query.codes[0]
        assert isinstance(code, Fixed)
        assert (code.grid.runs, code.default) == (((0, 1000),), 850)

    def test_a_range_without_a_coarser_step_keeps_its_own(self) -> None:
        odd = {"kind": "number", "range": [-3, 99_998], "step": 1}
        plan = planned(["covariance(x, y)"], x=odd, columns={"y": Y})
        code = plan.query.codes[0]
        assert isinstance(code, Fixed)
        assert code.step == 1


class TestRefusals:
    def test_no_truncated_form_of_a_correlation(self) -> None:
        with pytest.raises(PlanError) as refused:
            plan_of([{"statistic": "correlation(x, y)", "spikes": "forbid"}])
        assert refused.value.code == "DPR210"

    def test_a_public_covariance_has_one(self) -> None:
        plan = plan_of([{"statistic": "covariance(x, y)", "spikes": "forbid"}], **PUBLIC)
        assert plan.blocks[0].mechanism in ("reflected_laplace", "bounded_laplace")

    def test_a_column_that_cannot_vary(self) -> None:
        with pytest.raises(PlanError) as refused:
            planned(
                ["covariance(x, y)"], columns={"y": {"kind": "number", "range": [3, 3], "step": 1}}
            )
        assert refused.value.code == "DPR222"

    def test_a_column_without_a_range(self) -> None:
        with pytest.raises(PlanError) as refused:
            planned(["covariance(x, y)"], columns={"y": {"kind": "number"}})
        assert refused.value.code == "DPR202"

    def test_products_of_wide_columns_are_planned(self) -> None:
        odd = {"kind": "number", "range": [-3, 10**10 + 1], "step": 1}
        planned(["covariance(x, y)", "correlation(x, y)"], x=odd, columns={"y": odd})


class TestTheWall:
    @pytest.mark.parametrize("more", [{}, PUBLIC])
    @pytest.mark.parametrize(
        "text", ["covariance(x, y)", "correlation(x, y)", "eigenvalues(x, y, z)"]
    )
    def test_a_plan_that_claims_half_the_move_is_refused(
        self, text: str, more: dict[str, Any]
    ) -> None:
        plan = plan_of([text], **more)
        (block,) = plan.blocks
        law = block.law.to_json()
        inner = dict(law["law"])
        for key in ("l1_sensitivity", "sensitivity"):
            if key in inner:
                inner[key] = int(inner[key]) // 2
        if "sensitivity" in law:
            law["sensitivity"] = int(law["sensitivity"]) // 2
        law["law"] = inner
        with pytest.raises(InternalError) as refused:
            execute.check(replace(plan, blocks=(forged(block, law=law),)))
        assert refused.value.code in ("DPR901", "DPR902")

    @pytest.mark.parametrize(
        "change",
        [
            {"step_size": "1"},  # a grid so coarse that nothing would seem to move
            {"step_size": "-1/1024"},
            {"public_rows": 9000},
            {"form": "pairs"},
            {"form": "scatter"},
            {"axes": []},
        ],
    )
    def test_a_forged_spectrum_is_refused_or_costs_more(self, change: dict[str, Any]) -> None:
        plan = plan_of(["eigenvalues(x, y, z)"], **PUBLIC)
        (block,) = plan.blocks
        assert block.family == "spectrum"
        twin = replace(plan, blocks=(forged(block, **change),))
        if change in ({"step_size": "1"}, {"public_rows": 9000}):
            # cheaper by these numbers, but then it also draws from cells of these numbers
            assert execute.check(twin) <= plan.epsilon
            return
        with pytest.raises(InternalError):
            execute.check(twin)

    def test_a_narrower_column_in_the_measurement_is_refused(self) -> None:
        plan = plan_of(["eigenvalues(x, y, z)"])
        (block,) = plan.blocks
        first, *others = block.measurement.axes
        narrow = replace(block.measurement, axes=(replace(first, scale=1), *others))
        with pytest.raises(InternalError) as refused:
            execute.check(replace(plan, blocks=(replace(block, measurement=narrow),)))
        assert refused.value.code == "DPR902"


class TestPrice:
    @pytest.mark.parametrize("size", [200, 20_000])
    def test_the_price_is_the_error_of_a_simulation(self, size: int) -> None:
        """Fresh noise on other rows than the planner's gives about the stated error."""
        plan = planned(
            ["covariance(x, y)", {"statistic": "correlation(x, y)", "expected": 0.5}],
            rows={"expected": size},
            x={**X, **KEPT, "expected": {"sd": 2}},
            columns={"y": {**Y, **KEPT, "expected": {"sd": 4}}},
        )
        (block,) = plan.blocks
        measurement = block.measurement
        random = np.random.default_rng(7)
        z = random.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 4000)
        exact = simulated_cells(measurement, np.clip(0.4 + z / 5, 0, 1), size)
        noisy = exact + random.laplace(scale=measurement.l1_added_row, size=(4000, 9))
        for statistic in plan.statistics:
            finish = kind_named(statistic.function).finish
            error = np.abs(finish(measurement, noisy) - finish(measurement, exact[None, :])).mean()
            assert statistic.planned_error is not None
            assert 0.6 < float(error) / statistic.planned_error < 1.7

    def test_less_epsilon_and_fewer_rows_cost_more(self) -> None:
        errors = [
            plan_of(["eigenvalues(x, y, z)"], rows={"expected": n}, epsilon=e)
            .statistics[0]
            .planned_error
            for n, e in ((10_000, 1), (1_000, 1), (1_000, Fraction(1, 4)))
        ]
        assert errors == sorted(errors, key=lambda e: float(e or 0))
