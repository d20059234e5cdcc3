"""The curve is made of whole plans, passes through the plan itself, and tells of refusals."""

from __future__ import annotations

from fractions import Fraction

import dprelease as dp
from dprelease.core.errors import PlanError
from dprelease.release_plan.curve import error_of, error_words, trace

SCHEMA = {
    "dprelease": "schema/1",
    "name": "visits",
    "unit": "row",
    "adjacency": "add_remove",
    "rows": {"max": 1000, "expected": 100},
    "columns": {"age": {"kind": "integer", "measure": "years", "range": [0, 100]}},
    "release": {"epsilon": 1, "statistics": ["count", "mean(age)"]},
}
FEW = (Fraction(1, 2), Fraction(2))


def make(epsilon):
    return dp.plan(SCHEMA, epsilon=str(epsilon))


def test_errors_fall_as_epsilon_rises_and_the_plan_lies_on_the_curve():
    curve = trace(Fraction(1), make, FEW)
    assert [p.epsilon for p in curve.points] == [Fraction(1, 2), 1, 2]
    assert curve.own == 1
    plan = make(1)
    assert curve.points[1].errors == tuple(error_of(plan, s) for s in plan.statistics)
    for i in range(2):
        errors = [p.errors[i] for p in curve.points]
        assert errors == sorted(errors, reverse=True)
        assert errors[0] > errors[2] > 0


def test_a_refusal_is_a_point_that_says_so():
    def fussy(epsilon):
        if epsilon < 1:
            raise PlanError("too little", code="DPR240")
        return make(epsilon)

    first, *rest = trace(Fraction(1), fussy, FEW).points
    assert (first.refused, first.errors) == ("too little", ())
    assert all(not p.refused for p in rest)


def test_a_squared_loss_is_shown_as_its_root():
    plan = dp.plan({**SCHEMA, "release": {**SCHEMA["release"], "loss": "squared"}})
    for statistic in plan.statistics:
        assert f"{error_of(plan, statistic):.3g}" in error_words(plan, statistic)
        assert statistic.planned_error != error_of(plan, statistic)


def test_words_leave_unit_and_size_to_the_table():
    plan = make(1)
    found = [error_words(plan, s).lstrip("±").replace(".", "") for s in plan.statistics]
    assert [text.isdigit() for text in found] == [True] * 2
