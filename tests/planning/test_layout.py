"""Blocks, domains and refusals: what shares a budget, and what has no proved form."""

from __future__ import annotations

from typing import Any

import pytest

from dprelease.core.errors import PlanError
from dprelease.planning.layout import layout
from dprelease.planning.make import make_plan
from dprelease.query.spec import resolve
from dprelease.release_plan.curve import error_words
from dprelease.schema.domain import Domain
from dprelease.schema.release_spec import ReleaseSpec
from dprelease.wall import execute
from tests.planning.requests import PUBLIC_X, USER, asked, declared, planned, public

GAP = {"range": [0, 10], "forbidden": [[2, 6]]}
PUBLIC: dict[str, Any] = {"adjacency": "substitution", "rows": {"exact": 900}, "x": PUBLIC_X}


def names(statistics: list[object], **more: Any) -> list[str]:
    return [b.name for b in layout(asked(statistics, **more))]


class TestSharing:
    def test_a_mean_alone_prefers_two_sums_and_joins_a_variance(self) -> None:
        assert [b.options[0].family for b in layout(asked(["mean(x)"]))] == ["two_sums"]
        joint = layout(asked(["mean(x)", "variance(x)"]))
        assert [(b.name, b.options[0].family) for b in joint] == [
            ("mean_x+variance_x", "bernstein2")
        ]

    def test_a_mean_without_spikes_pays_for_itself(self) -> None:
        assert names([{"statistic": "mean(x)", "spikes": "forbid"}, "variance(x)"]) == [
            "mean_x",
            "variance_x",
        ]

    def test_other_bounds_or_pins_do_not_share(self) -> None:
        user = [{"statistic": "mean(x)", "max_rows_per_group": 1}, "variance(x)"]
        assert names(user, unit=USER) == ["mean_x", "variance_x"]
        pinned = [{"statistic": "mean(x)", "mechanism": "discrete_laplace"}, "variance(x)"]
        assert names(pinned) == ["mean_x", "variance_x"]

    def test_a_spike_free_law_on_a_domain_of_its_own_is_not_shared(self) -> None:
        """A shared law respects the cells' hull only; mapping into a gap would make point masses."""
        both = [{"statistic": "variance(x)", "spikes": "forbid", "domain": GAP}, "std(x)"]
        assert names(both, **PUBLIC) == ["variance_x", "std_x"]
        plan = public(both)
        law = next(b for b in plan.blocks if b.name == "variance_x").law.to_json()["law"]
        assert len(law["allowed"]) == 2
        assert names(["variance(x)", "std(x)"], **PUBLIC) == ["variance_x+std_x"]

    def test_two_public_counts_share_a_constant(self) -> None:
        plan = public(["count", {"statistic": "count", "as": "n"}])
        assert [s.error_text for s in plan.statistics] == ["exact (public)"] * 2
        assert execute.check(plan) == 0


@pytest.mark.parametrize("statistic", ["mean(x)", "sum(x)", "variance(x)", "histogram(x, [0, 5])"])
@pytest.mark.parametrize("sign", [0, -1])
@pytest.mark.parametrize(("end", "step"), [(1e16, 0.1), (1e300, 0.1), (1e160, 1e150)])
def test_a_range_that_no_sum_can_be_of_is_refused_with_a_fix(statistic, sign, end, step):
    x = {"kind": "number", "range": [sign * end, end], "step": step}
    with pytest.raises(PlanError) as error:
        planned([statistic], x=x)
    assert error.value.code == "DPR231"
    assert "declare a" in (error.value.fix or "")
    planned([statistic], x={**x, "range": [sign * 1e15, 1e15], "step": 1000})


class TestCaps:
    def test_a_declared_domain_caps_a_count(self) -> None:
        plan = planned([{"statistic": "count", "domain": {"range": [0, 50]}}], rows={})
        assert plan.statistics[0].domain == Domain(0, 50)

    @pytest.mark.parametrize(
        ("column", "ends"),
        [((0, 0.5), (0, 5_000)), ((-5, 0), (-5_000, 0)), ((-1, 2), (-30, 900)), ((2, 3), (0, 70))],
    )
    def test_a_declared_domain_of_a_sum_is_kept_whole(
        self, column: tuple[float, float], ends: tuple[int, int]
    ) -> None:
        plan = planned(
            [{"statistic": "sum(x)", "domain": {"range": list(ends)}}],
            rows={},
            x={"kind": "number", "range": list(column), "step": 0.5},
        )
        assert plan.statistics[0].domain == Domain(*ends)

    def test_the_domain_of_a_mean_says_nothing_about_its_rows(self) -> None:
        """Taken for a cap, [0, 10] would divide the sum of 40,000 rows by at most 10."""
        plan = planned(
            [{"statistic": "mean(x)", "spikes": "forbid", "domain": {"range": [0, 10]}}], rows={}
        )
        assert plan.blocks[0].law.to_json()["size"]["law"]["allowed"][-1][1] >= 2**40

    def test_no_cap_at_all(self) -> None:
        for text in ("count", "sum(x)", "histogram(x, [0, 5, 10])"):
            with pytest.raises(PlanError, match="no public cap") as caught:
                planned([text], rows={})
            assert caught.value.code == "DPR203"
            assert "needs a declared upper end" in (caught.value.why or "")
            assert "rows: {max: ...}" in (caught.value.fix or "")
            assert "item 1" in (caught.value.where or "")


class TestRefusals:
    def refused(self, code: str, statistics: list[object], **more: Any) -> PlanError:
        with pytest.raises(PlanError) as caught:
            make_plan(asked(statistics, **more))
        assert caught.value.code == code
        assert caught.value.spent == "nothing"
        assert "item 1" in (caught.value.where or "")
        return caught.value

    def test_nothing_to_release(self) -> None:
        schema = declared(["count"])
        empty = ReleaseSpec((), schema.release.epsilon, origin="here:1")  # type: ignore[union-attr]
        with pytest.raises(PlanError, match="nothing to release") as caught:
            make_plan(resolve(schema, empty))
        assert (caught.value.code, caught.value.where) == ("DPR201", "here:1")
        assert "statistics: [count]" in (caught.value.fix or "")

    def test_a_bin_that_can_hold_nothing(self) -> None:
        x = {"kind": "number", "range": [0, 10], "forbidden": [[2, 6]], "step": 0.5}
        problem = self.refused("DPR204", ["histogram(x, [0, 3, 5, 10])"], x=x)
        assert "[3,5)" in problem.what and "[0, 2]" in (problem.why or "")

    def test_domains_that_do_not_meet(self) -> None:
        problem = self.refused("DPR206", [{"statistic": "mean(x)", "domain": {"range": [20, 30]}}])
        assert "[0, 10]" in (problem.why or "") and "[20, 30]" in (problem.why or "")
        assert "overlaps" in (problem.fix or "")

    def test_a_column_of_one_value(self) -> None:
        x = {"kind": "number", "range": [5, 5], "step": 1}
        problem = self.refused("DPR208", ["mean(x)"], x=x)
        assert "one value only" in problem.what

    @pytest.mark.parametrize(
        "statistic",
        [
            "count",
            "sum(x)",
            "mean(x)",
            "variance(x)",
            "std(x)",
            "proportion(x > 3)",
            "histogram(x, [0, 10])",
        ],
    )
    def test_a_domain_of_one_value_is_not_charged_for(self, statistic: str) -> None:
        only = {"range": [1, 1], "step": 1}
        problem = self.refused("DPR208", [{"statistic": statistic, "domain": only}])
        assert "would be one number whatever the rows are" in problem.what
        assert "it would be charged all the same" in (problem.why or "")

    def test_a_step_that_leaves_one_value_or_a_column_of_zeros(self) -> None:
        self.refused("DPR208", ["sum(x)"], x={"kind": "number", "range": [0, 0], "step": 1})
        wide = {"statistic": "mean(x)", "domain": {"range": [0, 10], "forbidden": [[0, 10]]}}
        assert planned([wide]).epsilon == 1  # two values: the ends

    @pytest.mark.parametrize("more", [{}, {"unit": USER, "by": ["g"], "adjacency": "substitution"}])
    def test_a_variance_without_spikes_names_the_nearest_forms(self, more: dict[str, Any]) -> None:
        problem = self.refused("DPR210", [{"statistic": "variance(x)", "spikes": "forbid"}], **more)
        assert "mass on the ends" in (problem.why or "")
        for form in ("remove `spikes: forbid`", "mean(...)", "rows: {exact: n}"):
            assert form in (problem.fix or "")

    def test_a_histogram_without_spikes(self) -> None:
        problem = self.refused(
            "DPR210", [{"statistic": "histogram(x, [0, 5, 10])", "spikes": "forbid"}]
        )
        assert "as a count" in (problem.fix or "")

    def test_a_root_without_spikes_on_a_domain_with_a_gap(self) -> None:
        gap = {"range": [0, 5], "forbidden": [[1, 2]]}
        wanted = [{"statistic": "std(x)", "spikes": "forbid", "domain": gap}]
        problem = self.refused("DPR210", wanted, **PUBLIC)
        assert "makes point masses" in (problem.why or "")

    @pytest.mark.parametrize(
        ("text", "pin", "offer"),
        [
            ("mean(x)", "staircase", "bounded_laplace"),
            ("histogram(x, [0, 5, 10])", "bounded_laplace", "discrete_laplace"),
        ],
    )
    def test_a_pin_without_a_proof(self, text: str, pin: str, offer: str) -> None:
        problem = self.refused("DPR211", [{"statistic": text, "mechanism": pin}])
        assert pin in problem.what and offer in (problem.fix or "")

    @pytest.mark.parametrize(
        ("text", "pin", "fix"),
        [
            ("mean(x)", "bounded_laplac", "`bounded_laplace`"),
            ("count", "stair_case", "`staircase`"),
            ("count", "unlike_all_of_them", "dprelease kinds"),
        ],
    )
    def test_a_pin_to_no_mechanism(self, text: str, pin: str, fix: str) -> None:
        problem = self.refused("DPR211", [{"statistic": text, "mechanism": pin}])
        assert problem.what == f"there is no mechanism `{pin}`"
        assert fix in (problem.fix or "")

    def test_a_pin_to_a_mechanism_that_was_removed_says_what_to_write(self) -> None:
        for text in ("count", "median(x)"):
            problem = self.refused(
                "DPR211", [{"statistic": text, "mechanism": "randomized_response"}]
            )
            assert "was removed" in problem.what
            assert "leave `mechanism` out, or write `mechanism: optimal_grid`" in (
                problem.fix or ""
            )

    def test_a_pin_that_has_no_law_here_is_told_to_go_and_nothing_else_is(self) -> None:
        for pin in ("exponential", "permute_and_flip"):
            problem = self.refused("DPR212", [{"statistic": "count", "mechanism": pin}])
            assert problem.fix == f"remove `mechanism: {pin}`"
            assert "spikes" not in f"{problem.why}"
        both = {"statistic": "count", "mechanism": "staircase", "spikes": "forbid"}
        fix = self.refused("DPR212", [both]).fix
        assert fix == "remove `mechanism: staircase` or `spikes: forbid`"

    @pytest.mark.parametrize(
        "statistic",
        [
            {"statistic": "count", "domain": {"range": [0.2, 0.8]}},
            {"statistic": "mean(x)", "domain": {"range": [3.1, 3.9], "step": 1}},
            {
                "statistic": "mean(x)",
                "domain": {"range": [0, 10], "step": "0.00000000000000000001"},
            },
            {"statistic": "sum(x)", "domain": {"range": [0, 100_000], "step": "0.000000000001"}},
        ],
    )
    def test_steps_that_miss_the_domain_or_are_too_fine(self, statistic: object) -> None:
        """All of it before the charge: a step that fails while publishing would be too late."""
        problem = self.refused("DPR213", [statistic])
        assert problem.fix


def test_a_drawn_value_is_not_called_public_however_large_its_budget() -> None:
    plan = planned(["proportion(x >= 5)"], rows={"max": 5000}, epsilon=100)
    assert plan.statistics[0].mechanism != "public_constant"
    assert plan.statistics[0].planned_error in (None, 0.0)
    assert plan.statistics[0].error_text.startswith("±0 ")
    assert error_words(plan, plan.statistics[0]) == "±0"
