"""What a plan says of the laws beside the one that it takes."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dprelease.release_plan.explain import rows, text
from dprelease.schema.about import UnitName
from dprelease.statistics.measurement import Measurement
from tests.planning.requests import USER, planned

SHORT = {"kind": "number", "range": [0, 99], "step": 1}


def test_under_a_rho_it_would_cost_more() -> None:
    """Many medians share a rho: at an equal one the exponential mechanism has twice the epsilon."""
    columns = {f"x{i}": {**SHORT, "range": [0, 9]} for i in range(24)}
    medians = [{"statistic": f"quantile(x{i}, 0.5)", "as": f"m{i}"} for i in range(24)]
    plan = planned(medians, delta=Fraction(1, 10**6), columns=columns)
    assert plan.composition is not None
    assert plan.composition.method == "zcdp/1"
    assert {b.mechanism for b in plan.blocks} == {"exponential"}


def test_a_law_that_is_better_near_the_declared_size_alone_is_said_to_be() -> None:
    """Its figure is smaller than that of the law that is used: laws are compared over the whole domain."""
    one = {"user": "who", "max_groups": 1, "max_rows_per_group": 2}
    more = {"unit": one, "rows": {"max": 5000, "expected": 400}, "epsilon": 0.5}
    plan = planned(["count"], **more)
    (row,) = rows(plan)
    first, second = plan.statistics[0].chosen[:2]
    assert (second.expected_error or 0) < (first.expected_error or 0)
    said = " near the declared size, no less over the whole domain"
    assert f"{second.mechanism} ±{second.expected_error:.3g}{said}" in row[4]
    assert said.partition(",")[0] in text(plan, 80).replace("\n", " ")
    (row,) = rows(planned(["count"], **{**more, "epsilon": 1}))
    assert said not in row[4]  # there the least of both is used


def test_a_number_of_units_is_in_the_words_of_the_guarantee() -> None:
    plan = planned(["count(persons)", "count"], unit=USER)
    assert "for one who" in plan.guarantee
    persons, count = rows(plan)
    assert (persons[2], persons[6].split()[1]) == ("1 who", "who")
    assert (count[2], count[6].split()[1]) == ("3 rows", "rows")


def test_a_unit_has_the_publishers_word() -> None:
    plain = planned(
        ["count(persons)", "sum(x)"], unit=USER, columns={"x": {**SHORT, "range": [0, 10**5]}}
    )
    assert plain.request is not None
    name = UnitName(one="guest", many="guests")
    about = plain.request.schema.about.model_copy(update={"unit_name": name})
    schema = replace(plain.request.schema, about=about)
    plan = replace(plain, request=replace(plain.request, schema=schema))
    persons, _ = rows(plan)
    assert (persons[2], persons[6].split()[1]) == ("1 guest", "guests")
    said = text(plan, 140)
    assert "for one guest" in said and "one who" not in said and "per who" not in said
    assert "e+0" not in said  # 120,000 and not 1.2e+05


def test_an_error_of_some_rows_is_said_to_be_for_all_of_them() -> None:
    """Of half of 1,000 rows a mean errs twice what is stated at n=1,000, and a `max_error` that was taken is passed."""
    more = {"columns": {"x": SHORT, "y": SHORT}, "rows": {"max": 5000, "expected": 1000}}
    goal = {"statistic": "mean(x) where y >= 50", "as": "older", "max_error": 5}
    said = text(planned([goal, "mean(x)", "count where y >= 50"], **more))
    assert "\nolder: the error is stated, and a `max_error` is met, if all expected rows" in said
    assert "older: the error" not in text(planned(["mean(x)", "sum(x) where y >= 50"], **more))


def test_a_plan_of_many_medians_is_soon_shown(monkeypatch) -> None:
    """Every measurement was compared with all, for each of them: 300 medians took ten seconds."""
    columns = {f"x{i}": {**SHORT, "range": [0, 9]} for i in range(8)}
    plan = planned([f"median(x{i})" for i in range(8)], columns=columns)
    compared = []
    monkeypatch.setattr(
        Measurement, "__eq__", lambda *both: compared.append(both) or both[0] is both[1]
    )
    assert "nothing here counts the known values" in text(plan)
    assert len(compared) <= 8
