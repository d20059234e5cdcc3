"""Default steps are 1, 2 or 5 times a power of ten, no coarser than asked, and meet the edges."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dprelease.core.errors import PlanError
from dprelease.measurements import steps
from dprelease.measurements.steps import best_step
from dprelease.schema.domain import Domain
from tests.planning.requests import planned

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
