"""Plans without point masses on domains with gaps: the law that is chosen, and what is said of its errors."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dprelease as dp
from dprelease.measurements.graph_box import GraphBoxLaw
from dprelease.measurements.scalar import ScalarCellLaw
from dprelease.measurements.truncated_mean import MeanLaw
from dprelease.schema.domain import Domain


def planned(statistic: str, domain: Mapping[str, Any], epsilon: float, **spec: Any) -> dp.Plan:
    return dp.plan(
        {
            "dprelease": "schema/1",
            "name": "t",
            "unit": "row",
            "adjacency": "add_remove",
            "rows": {"max": 2000, "expected": 50},
            "columns": {"x": {"kind": "number", "range": [0, 100], "step": 0.01}},
            "release": {
                "epsilon": epsilon,
                "statistics": [
                    {"statistic": statistic, "domain": domain, "spikes": "forbid", **spec}
                ],
            },
        }
    )


def of_answer(law: Any, answer: int) -> tuple[float, float]:
    """The expected |error| and the coverage of one answer, by its probabilities."""
    chances = law.pmf(answer)
    points = np.array(list(chances))
    low, high = law.interval(points, 0.95)
    chance = np.array([float(p) for p in chances.values()])
    return (
        float(np.abs(points - answer) @ chance),
        float(((low <= answer) & (answer <= high)) @ chance),
    )


COUNTS: list[tuple[dict[str, Any], float, tuple[int, ...]]] = [
    ({"range": [0, 2000], "forbidden": [[0, 100]]}, 1.2, (0, 50, 100, 2000)),
    ({"range": [0, 2000], "forbidden": [[0, 10]]}, 10, (0, 4, 5, 10)),
    ({"range": [0, 2000], "forbidden": [[0, 100], [110, 300], [301, 1900]]}, 1, (50, 105, 1100)),
    ({"range": [0, 2000], "forbidden": [[20, 1990]]}, 0.3, (10, 1000, 1995)),
]


@pytest.mark.parametrize(("domain", "epsilon", "answers"), COUNTS)
def test_a_count_in_a_gap_is_at_its_edges_and_its_plan_says_how_far_off(domain, epsilon, answers):
    plan = planned("count", domain, epsilon)
    statistic, draw = plan.statistics[0], plan.blocks[0].law
    assert isinstance(draw, ScalarCellLaw)
    worst = statistic.chosen[0].worst_error
    assert worst is not None
    assert worst < 1.5 * max(b - a for a, b in domain["forbidden"]) / 2 + 8 / epsilon
    assert " in a forbidden interval" in statistic.error_text
    for answer in answers:
        error, covered = of_answer(draw.law, answer)
        assert error <= worst * 1.02
        assert covered >= 0.95 - 1e-9


def test_laws_beside_a_gap_are_compared_by_their_worst_error():
    plan = planned("count", {"range": [0, 400], "forbidden": [[0, 60]]}, 0.2)
    figures = [o.worst_error for o in plan.statistics[0].chosen if o.worst_error is not None]
    assert len(figures) > 1
    assert figures == sorted(figures)
    # The control: without a gap they are compared, and stated, by the average alone.
    plain = planned("count", {"range": [0, 400]}, 0.2).statistics[0]
    assert "forbidden" not in plain.error_text


@pytest.mark.parametrize("statistic", ["count", "sum(x)"])
def test_with_spikes_allowed_a_plan_says_as_well_how_far_off_a_gap_is(statistic):
    """A count of 50 is moved by 50 to the nearer edge, whatever the law."""
    domain = {"range": [0, 2000], "forbidden": [[0, 100]]}
    stated = planned(statistic, domain, 1, spikes="allow").statistics[0]
    assert stated.chosen[0].worst_error > stated.planned_error
    assert f"up to ±{stated.chosen[0].worst_error:.3g}" in stated.error_text.replace(".0 ", " ")
    whole = planned(statistic, {"range": [0, 2000]}, 1, spikes="allow").statistics[0]
    assert "forbidden" not in whole.error_text


@pytest.mark.parametrize("epsilon", [0.5, 20])
@pytest.mark.parametrize("forbidden", [[[10, 90]], [[10, 20], [21, 60], [61, 99]]])
def test_a_mean_has_a_law_at_every_size_that_may_be_drawn(epsilon, forbidden):
    plan = planned("mean(x)", {"range": [0, 100], "forbidden": forbidden}, epsilon)
    draw = plan.blocks[0].law
    assert isinstance(draw, MeanLaw)
    worst = plan.statistics[0].chosen[0].worst_error
    widest = max(b - a for a, b in forbidden)
    assert worst is not None
    assert widest / 2 <= worst <= widest / 2 + 60 / epsilon / 50 * 20
    for size in (1, 2, 7, 50, 400, 2000):
        law = draw.law(size)
        for answer in (law.allowed.lower, law.allowed.runs[0][1] + 7, law.allowed.upper):
            _, covered = of_answer(law, answer)
            assert covered >= 0.95 - 1e-9


def test_a_gaussian_mean_that_some_size_has_no_law_for_is_refused_before_anything_is_drawn():
    domain = {"range": [0, 100], "forbidden": [[10, 90]]}
    with pytest.raises(dp.errors.PlanError, match="forbidden intervals are too wide") as refused:
        planned("mean(x)", domain, 20, mechanism="bounded_gaussian")
    assert refused.value.code == "DPR213"
    assert "bounded_laplace" in str(refused.value)
    assert planned("mean(x)", domain, 20, mechanism="bounded_laplace").blocks


def test_the_intervals_of_a_box_allow_for_what_the_floor_of_a_side_may_have_moved():
    """A side with a deep gap stays a table, as its laws are proved together: all that is left is its whole range."""
    deep = GraphBoxLaw.calibrate(
        (Domain(0, 1000, forbidden=[(0, 900)]),), (Fraction(1),), (1,), Fraction(20)
    )
    raw = np.array([[0], [950]], dtype=object)
    assert [ends.tolist() for ends in deep.box(raw, 0.95)] == [[[0], [0]], [[1000], [1000]]]
    plain = GraphBoxLaw.calibrate((Domain(0, 1000),), (Fraction(1),), (1,), Fraction(20))
    low, high = plain.box(raw, 0.95)
    assert (high - low).max() < 100
