"""Accuracy goals: the least budget that meets them, what is left for others, and honest refusals."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.allocation.goals import has_goal, least_budget
from dprelease.core.errors import ConfigError, PlanError
from dprelease.measurements.members import BlockLayout
from dprelease.planning.layout import layout
from dprelease.planning.make import make_plan
from dprelease.release_plan.explain import text
from dprelease.release_plan.plan import ReleasePlan
from tests.planning.requests import asked, planned

ROWS = {"max": 10_000, "expected": 500}
LEAST = Fraction(1, 1000)


def count(goal: object, **more: object) -> dict[str, Any]:
    return {"statistic": "count", "max_error": goal, **more}


def error(plan: ReleasePlan, name: str) -> float:
    found = next(s for s in plan.statistics if s.name == name).planned_error
    assert found is not None
    return found


def test_a_goal_is_met_with_the_least_budget() -> None:
    """Within 0.01 %: a thousandth less epsilon would miss it."""
    plan = planned([count(2), "mean(x)"], rows=ROWS)
    assert error(plan, "count") <= 2
    spent = plan.block("count").epsilon
    less = planned(["count"], rows=ROWS, epsilon=spent * Fraction(999, 1000))
    assert error(less, "count") > 2
    assert plan.epsilon == 1
    assert plan.block("mean_x").epsilon == 1 - spent


def test_a_ratio_is_priced_at_the_public_guess() -> None:
    goal = [{"statistic": "mean(x)", "max_error": "0.05"}]
    plan = planned(["count", *goal], rows=ROWS)
    assert 0.04 < error(plan, "mean_x") < 0.05  # at its worst place it is the goal
    least = plan.block("mean_x").epsilon
    with pytest.raises(PlanError, match="need an epsilon of"):
        planned(goal, rows=ROWS, epsilon=least * Fraction(999, 1000))
    assert planned(goal, rows=ROWS, epsilon=least).epsilon == least
    with pytest.raises(PlanError) as refusal:
        make_plan(asked([{"statistic": "mean(x)", "max_error": "0.05"}]))
    assert refusal.value.code == "DPR241"
    assert "expected" in str(refusal.value)


def test_squared_loss_means_the_root() -> None:
    wanted: list[Any] = [{"statistic": "variance(x)", "max_error": "0.2"}, "count"]
    plan = planned(wanted, rows=ROWS, epsilon=2, loss="squared")
    assert 0.15 < error(plan, "variance_x") ** 0.5 < 0.2
    least = plan.block("variance_x").epsilon
    with pytest.raises(PlanError, match="need an epsilon of"):
        planned(wanted[:1], rows=ROWS, epsilon=least * Fraction(999, 1000), loss="squared")


def test_all_members_of_a_block_have_their_say() -> None:
    loose = [
        {"statistic": "mean(x)", "max_error": "0.5"},
        {"statistic": "variance(x)", "max_error": "0.3"},
    ]
    plan = planned(loose, rows=ROWS, epsilon=3)
    assert len(plan.blocks) == 1
    assert error(plan, "variance_x") <= 0.3
    assert error(plan, "mean_x") < 0.4  # carried by the stricter one


def test_epsilon_may_be_left_out_where_every_statistic_has_a_goal() -> None:
    wanted = [count(2), {"statistic": "mean(x)", "max_error": "0.05"}]
    plan = planned(wanted, rows=ROWS, epsilon=None)
    assert plan.epsilon == sum(b.epsilon for b in plan.blocks)
    assert any("needs epsilon" in n for n in plan.notes)
    exact = planned(wanted, rows=ROWS, epsilon=plan.epsilon)
    assert [b.epsilon for b in exact.blocks] == [b.epsilon for b in plan.blocks]
    more = planned(wanted, rows=ROWS, epsilon=5)
    assert more.epsilon == plan.epsilon
    assert any("is used and charged" in n for n in more.notes)
    with pytest.raises(ConfigError) as refusal:
        asked([count(2), "mean(x)"], epsilon=None)
    assert refusal.value.code == "DPR111"


@pytest.mark.parametrize("others", [[], ["mean(x)"]])
def test_too_little_names_the_epsilon_that_is_needed(others: list[Any]) -> None:
    needed = planned([count(2)], rows=ROWS, epsilon=None).epsilon
    with pytest.raises(PlanError) as refusal:
        make_plan(asked([count(2), *others], rows=ROWS, epsilon="0.2"))
    assert refusal.value.code == "DPR240"
    assert str(float(needed)) in refusal.value.what
    assert ("more than" in refusal.value.what) == bool(others)
    # What the message says is enough.
    enough = needed * Fraction(1001, 1000)
    assert error(planned([count(2), *others], rows=ROWS, epsilon=enough), "count") <= 2


def test_with_a_delta_goals_may_compose() -> None:
    wanted = [count(20, **{"as": f"c{i}"}) for i in range(18)]
    pure = planned(wanted, rows=ROWS, epsilon=None)
    plan = planned(wanted, rows=ROWS, epsilon=None, delta="0.000001")
    assert plan.composition is not None
    assert plan.composition.method == "normal/1"
    assert plan.epsilon < pure.epsilon
    assert all(
        s.planned_error is not None and 19.5 < s.planned_error <= 20 for s in plan.statistics
    )
    more = float(pure.epsilon / plan.epsilon) - 1  # the errors are the goals, whatever the way
    assert f"the sum of pure losses ({more:+.0%} epsilon)" in text(plan, width=999)
    with pytest.raises(PlanError) as refusal:
        make_plan(asked(wanted, rows=ROWS, epsilon="0.2", delta="0.000001"))
    assert str(float(plan.epsilon))[:5] in refusal.value.what  # the cheaper way is named


def test_a_goal_nobody_can_meet_is_refused() -> None:
    with pytest.raises(PlanError) as refusal:
        least_budget(one_block(1), lambda *_: (1.5,), LEAST)
    assert refusal.value.code == "DPR242"
    with pytest.raises(PlanError) as refusal:
        least_budget(one_block(1), lambda *_: (None,), LEAST)
    assert refusal.value.code == "DPR241"


@pytest.mark.parametrize(
    ("item", "code"),
    [
        (count(0), "DPR135"),
        (count(-1), "DPR135"),
        (count("much"), "DPR135"),
        (count(2, share="0.5"), "DPR135"),
    ],
)
def test_faulty_goals_are_found_with_the_file(item: dict[str, Any], code: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        asked([item])
    assert refusal.value.code == code


def one_block(goal: object) -> BlockLayout:
    (block,) = layout(asked([count(goal)]))
    assert has_goal(block)
    return block


@settings(max_examples=60)
@given(
    st.floats(0.01, 1e4), st.floats(0.01, 1e3), st.floats(0.3, 2.0),
)  # fmt: skip
def test_any_falling_error_is_solved(c: float, goal: float, power: float) -> None:
    """error = c / budget^power: the answer is the exact root within 0.01 %, from above."""
    block = one_block(repr(goal))
    root = (c / goal) ** (1 / power)
    if root > 900:
        return
    found = least_budget(block, lambda _, b: (c / float(b) ** power,), LEAST)
    assert c / float(found) ** power <= goal * (1 + 1e-12)
    assert max(float(LEAST), root) * (1 - 1e-9) <= float(found)
    assert float(found) <= max(float(LEAST), root) * (1 + 2e-4) + 2e-9


def test_an_error_that_falls_in_steps_is_solved_by_bisection() -> None:
    block = one_block(3)
    prices: list[Fraction] = []

    def errors(_: BlockLayout, budget: Fraction) -> tuple[float]:
        prices.append(budget)
        return (10.0 if budget < Fraction(7, 10) else 2.0,)

    found = least_budget(block, errors, LEAST)
    assert Fraction(7, 10) <= found <= Fraction(7, 10) * Fraction(10002, 10000)
    assert found in prices  # only what was priced is promised
    assert len(prices) <= 45


def test_a_goal_that_costs_nothing_gets_the_least() -> None:
    assert least_budget(one_block(10**9), lambda *_: (5.0,), LEAST) == LEAST


@pytest.mark.parametrize("delta", ["0.001", "0.1"])
@pytest.mark.parametrize("goal", [1e3, 1e9])
def test_goals_that_a_delta_pays_for_alone_still_cost_an_epsilon(goal: float, delta: str) -> None:
    """A rho of 5e-7 is worth (0, 0.001): a budget of 0 has no multiples for advice to be made of."""
    plan = planned([count(goal)], rows=ROWS, epsilon=None, delta=delta)
    assert plan.composition is not None
    assert plan.composition.method == "normal/1"
    assert plan.epsilon == Fraction(1, 10**9)
