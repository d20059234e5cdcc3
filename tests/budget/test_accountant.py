"""Integer sums against exact ones; floats are the broken twin."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from operator import add

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.budget.accountant import ATTO, Cost
from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import NANO
from tests.sizes import whole

epsilons = st.fractions("1/1000", 20, max_denominator=10**12)
deltas = st.fractions(0, "1/1000", max_denominator=10**15)


@settings(max_examples=whole(30, 100))
@given(st.lists(st.tuples(epsilons, deltas), max_size=30))
def test_sum_is_never_below_the_exact_sum_and_at_most_a_unit_each_above(losses):
    total = sum((Cost.rounded_up(e, d) for e, d in losses), Cost(0))
    exact_epsilon = sum((e for e, _ in losses), Fraction(0))
    exact_delta = sum((d for _, d in losses), Fraction(0))
    assert exact_epsilon <= total.epsilon <= exact_epsilon + Fraction(len(losses), NANO)
    assert exact_delta <= total.delta <= exact_delta + Fraction(len(losses), ATTO)


@given(epsilons, deltas)
def test_a_budget_is_rounded_down_and_a_cost_up(epsilon, delta):
    budget, cost = Cost.budget(epsilon, delta), Cost.rounded_up(epsilon, delta)
    assert budget.epsilon <= epsilon <= cost.epsilon
    assert budget.delta <= delta <= cost.delta


def test_ten_tenths_fit_one_and_an_eleventh_does_not():
    tenth, one = Cost.rounded_up(Fraction(1, 10)), Cost.budget(Fraction(1))
    assert sum([tenth] * 10, Cost(0)).within(one)
    assert not sum([tenth] * 10, Cost.rounded_up(Fraction(1, NANO))).within(one)
    # Broken twin: the float sum of ten tenths is below one and would admit more.
    assert reduce(add, [0.1] * 10) < 1.0  # `sum` is exact enough from Python 3.12 on


def test_three_thirds_do_not_fit_one():
    third = Cost.rounded_up(Fraction(1, 3))
    assert not sum([third] * 3, Cost(0)).within(Cost.budget(Fraction(1)))


def test_delta_is_held_on_its_own():
    cost = Cost.rounded_up(Fraction(1, 10), Fraction(1, 10**6))
    budget = Cost.budget(Fraction(9), Fraction(15, 10**7))
    assert cost.within(budget)
    assert not (cost + cost).within(budget)


def test_a_tiny_delta_costs_about_what_it_is():
    assert Cost.rounded_up(Fraction(1), Fraction(1, 10**12)).delta == Fraction(1, 10**12)


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 0), (-1, 0), (10**9 + 1, 0), (1, 1), (1, -1)])
def test_costs_out_of_range_are_refused(epsilon, delta):
    for make in (Cost.rounded_up, Cost.budget):
        with pytest.raises(ArgumentError):
            make(Fraction(epsilon), Fraction(delta))


def test_a_budget_below_one_unit_is_refused_and_a_cost_is_rounded_up_to_it():
    tiny = Fraction(1, 10**12)
    assert Cost.rounded_up(tiny).nano_epsilon == 1
    with pytest.raises(ArgumentError):
        Cost.budget(tiny)
