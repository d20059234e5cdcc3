"""Default steps are 1, 2 or 5 times a power of ten, no coarser than asked, and meet the edges."""

from __future__ import annotations

import itertools
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dprelease.audit.sampler import chances_of
from dprelease.core.errors import PlanError
from dprelease.measurements import steps
from dprelease.measurements.scalar import ScalarCellLaw
from dprelease.measurements.steps import best_step
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.consistency import to_domain
from dprelease.schema.domain import Domain
from tests.planning.requests import planned
from tests.sizes import some

WIDE = Domain(0, 1000)
STEPS = {m * Fraction(10) ** p for m in (1, 2, 5) for p in range(-30, 30)}


@given(st.fractions("1/1000000", 10**6))
def test_the_largest_decimal_step_that_is_fine_enough(target):
    step = best_step(target, Domain(0, 0))
    assert step in STEPS
    assert step <= target
    assert not [s for s in STEPS if step < s <= target]


EDGES = st.decimals("-50", "50", places=4)


@given(st.fractions("1/1000", 100), EDGES, EDGES)
@example(Fraction(1, 1000), Decimal("-0.0225"), Decimal("-0.0002"))  # 5 meets the first, 2 not
def test_decimal_edges_are_multiples(target, one, other):
    step = best_step(target, Domain(min(one, other), max(one, other)))
    assert step in STEPS
    assert step <= target
    assert Fraction(one) % step == 0
    assert Fraction(other) % step == 0


def test_a_step_that_ignores_the_edges_is_noticed(monkeypatch):
    domain = Domain("0.25", 10)
    assert Fraction(1, 4) % best_step(Fraction(1), domain) == 0
    monkeypatch.setattr(steps, "_finer", lambda step: Fraction(1, 4))
    assert best_step(Fraction(1), domain) not in STEPS


def test_without_a_target_the_step_is_at_most_one():
    assert best_step(Fraction(0), WIDE) == 1


def test_a_step_beyond_exact_doubles_is_refused_before_anything_is_spent():
    member = {"statistic": "mean(x)", "domain": {"range": [0, 10], "step": "1e-16"}}
    with pytest.raises(PlanError) as refused:
        planned([member])
    assert refused.value.code == "DPR213"


def in_steps(step: int) -> dict[str, Any]:
    return {"statistic": "count", "domain": {"range": [0, 10_000], "step": step}}


def off_by(plan: ReleasePlan, answers: range) -> np.ndarray[Any, Any]:
    """Return the exact mean error of the published count, `(answers,)`."""
    (statistic,), (block,) = plan.statistics, plan.blocks
    assert isinstance(block.law, ScalarCellLaw)
    out = []
    for answer in answers:
        raw, chance = chances_of(block.law.law, answer)  # type: ignore[arg-type]
        values = block.law.cells(raw.astype(object)[:, None])
        value = to_domain(values, statistic.domain, statistic.step)[:, 0]
        out.append(float(np.abs(value - answer) @ chance / chance.sum()))
    return np.array(out)


@pytest.mark.parametrize(
    ("step", "epsilon"), some(itertools.product([1, 10, 25], ["0.1", "0.5", 3]), 2)
)
def test_the_stated_error_of_a_rounded_count_is_its_mean_over_a_step_and_a_goal_holds_at_its_worst_place(
    step: int, epsilon: object
) -> None:
    """Every answer of one step, by the law's own chances; the noise alone is the control."""
    count = in_steps(step)
    plan = planned([count], epsilon=epsilon)
    places = off_by(plan, range(5000, 5000 + step))
    stated = plan.statistics[0].planned_error
    assert stated is not None
    assert stated == pytest.approx(places.mean(), rel=0.06)
    if step == 25 and epsilon == 3:
        assert plan.blocks[0].law.law.expected_error().average < stated / 50  # type: ignore[attr-defined]
    goal = float(places.max()) * 1.02
    met = planned([count | {"max_error": goal}], epsilon=50)
    assert (
        off_by(met, range(5000, 5000 + step)).max() <= goal * 1.01
    )  # 1 %: not all noise is exponential
    assert met.epsilon < Fraction(str(epsilon)) * Fraction(11, 10)


def test_a_goal_below_half_a_step_is_refused() -> None:
    with pytest.raises(PlanError, match="half of one"):
        planned([in_steps(25) | {"max_error": 1}], epsilon=10)
