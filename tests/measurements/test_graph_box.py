"""One law over a box: the loss of every pair by enumeration, and the paper's own query."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import ArgumentError, InternalError
from dprelease.measurements.graph_box import GraphBoxLaw, box_errors
from dprelease.measurements.law import draw_from_json
from dprelease.mechanisms.certifiers.box_gaussian import BoundedGaussianBoxLaw
from dprelease.schema.domain import Box, Domain
from dprelease.statistics.sensitivity import Sensitivity

HALF = Fraction(1, 2)
SIDES = (Domain(0, 4, forbidden=[(2, 4)]), Domain(1, 5))


def small(epsilon: Fraction = Fraction(1)) -> GraphBoxLaw:
    """lambda_2 of a graph on four nodes in half steps, and a degree; k = 1."""
    return GraphBoxLaw.calibrate(SIDES, (HALF, Fraction(1)), (4, 1), epsilon)


def test_only_points_of_its_sides_can_be_drawn() -> None:
    draw = small()
    raw = np.array([[0, 1], [4, 5], [5, 5], [-1, 1], [8, 5], [8, 0], [9, 1]], dtype=object)
    assert draw.drawable(raw).tolist() == [True, True, False, False, True, False, False]


def test_the_request_decides_all_of_it_but_how_the_sides_share_epsilon() -> None:
    law = small().to_json()
    other, dearer, odd = (json.loads(json.dumps(law)) for _ in range(3))
    other["law"]["laws"][0]["epsilon"] = "1/3"
    dearer["law"]["epsilon"] = "2"
    odd["law"]["laws"][0]["sensitivity"] = 1
    assert "epsilon" in law["law"] and "sensitivity" in law["law"]["laws"][0]
    assert other != law
    assert GraphBoxLaw.decided(other) == GraphBoxLaw.decided(law)
    assert GraphBoxLaw.decided(dearer) != GraphBoxLaw.decided(law) != GraphBoxLaw.decided(odd)
    assert GraphBoxLaw.decided({"draw": "cells"}) == {"draw": "cells"}
    assert GraphBoxLaw.decided(None) is None


def one_group(*each: int) -> Sensitivity:
    return Sensitivity(sum(each), sum(each), 1, 1, linf_per_component=each)


@pytest.mark.parametrize("epsilon", [Fraction(1, 4), Fraction(1), Fraction(3)])
def test_no_pair_of_answers_is_told_apart_by_more_than_stated(epsilon: Fraction) -> None:
    draw = small(epsilon)
    laws = draw.law.laws
    pmfs = [
        {q: law.pmf(q) for q in range(law.allowed.lower, law.allowed.upper + 1)} for law in laws
    ]
    worst = 0.0
    answers = list(itertools.product(*pmfs))
    for p, q in itertools.product(answers, answers):
        if abs(p[0] - q[0]) > 4 or abs(p[1] - q[1]) > 1:
            continue
        loss = sum(
            max(math.log(pmf[a][y] / pmf[b][y]) for y in pmf[a])
            for pmf, a, b in zip(pmfs, p, q, strict=True)
        )
        worst = max(worst, loss)
    stated = float(draw.certify(one_group(4, 1)))
    assert worst <= stated + 1e-12
    assert 0.99 * float(epsilon) <= stated <= float(epsilon)
    assert worst > 0.99 * stated


def test_less_than_the_query_moves_is_refused() -> None:
    draw = small()
    for each in ((5, 1), (4, 2), (4,), (4, 1, 1), ()):
        with pytest.raises(InternalError) as caught:
            draw.certify(one_group(*each))
        assert caught.value.code == "DPR901"
    ball = BoundedGaussianBoxLaw.calibrate(
        Box(list(SIDES)), (HALF, Fraction(1)), Fraction(1, 2), None, Fraction(1), (1.0, 1.0)
    )
    with pytest.raises(InternalError):
        GraphBoxLaw(ball).certify(one_group(1, 1))


def test_a_narrower_table_does_not_certify() -> None:
    draw = small()
    first = draw.law.laws[0]
    narrow = replace(first, p=first.p * 9 // 10)
    twin = GraphBoxLaw(replace(draw.law, laws=(narrow, draw.law.laws[1])))
    assert twin.certify(one_group(4, 1)) > 1


def test_two_sides_change_together_and_one_alone_would_be_too_little() -> None:
    """k + 1 in one side and k in the other happen at once: the larger loss alone is not a bound."""
    draw = small()
    alone = [float(law.epsilon) for law in draw.law.laws]
    assert max(alone) < 0.99 * float(draw.certify(one_group(4, 1)))


def test_json_keeps_the_draw() -> None:
    draw = small()
    again = draw_from_json(json.loads(json.dumps(draw.to_json())))
    assert again == draw


def test_unbounded_sides_are_refused() -> None:
    with pytest.raises(ArgumentError) as caught:
        GraphBoxLaw.calibrate((Domain(0, math.inf),), (HALF,), (1,), Fraction(1))
    assert caught.value.code == "DPR603"


def test_draws_fit_the_law_and_a_wrong_answer_is_caught() -> None:
    draw = small(Fraction(3))
    exact = np.empty((4000, 2), dtype=object)
    exact[:] = [8, 99]  # the degree is clamped to 5
    raw = draw.draw(exact, ReplayBits("box"))
    values = draw.cells(raw)
    assert all(SIDES[0].has(Fraction(v)) for v in set(values[:, 0].tolist()))

    def p_value(cell: int, answer: int) -> float:
        pmf = draw.law.laws[cell].pmf(answer)
        points = sorted(pmf)
        seen = [(raw[:, cell] == y).sum() for y in points]
        return float(stats.chisquare(seen, [float(pmf[y]) * len(raw) for y in points]).pvalue)

    for cell, answer, wrong in ((0, 8, (6, 4)), (1, 5, (4, 3))):
        assert p_value(cell, answer) > 1e-6
        assert all(p_value(cell, w) < 1e-6 for w in wrong)
    low, high = draw.box(raw, 0.95)
    assert ((low <= [4.0, 5.0]) & (high >= [4.0, 5.0])).mean(axis=0).min() >= 0.94
    assert not draw.empty(raw).any()
    assert [e[0] < e[1] for e in box_errors(draw, "absolute")] == [True, True]


TABLE_1 = (
    (0.1, 290.9),
    (0.5, 61.40),
    (1.0, 32.34),
    (1.5, 22.46),
    (2.0, 17.41),
    (2.5, 14.32),
    (3.0, 12.21),
)


@pytest.mark.parametrize(("epsilon", "exact"), TABLE_1)
def test_the_papers_query(epsilon: float, exact: float) -> None:
    """[0, 10] x [1, 9], k = 2: the exact variance at the printed sensitivity, then (k + 1, k)."""
    sides = (Domain(0, 10), Domain(1, 9))
    steps = (Fraction(1, 20), Fraction(1, 20))
    e = Fraction(str(epsilon))
    radius = Fraction(math.isqrt(20 * 10**12) + 1, 10**6)
    start = (math.sqrt(exact) * 0.9,) * 2
    ball = BoundedGaussianBoxLaw.calibrate(Box(list(sides)), steps, radius, None, e, start)
    assert max(ball.scales) ** 2 == pytest.approx(exact, rel=0.03)
    ours = GraphBoxLaw.calibrate(sides, steps, (60, 40), e)
    assert ours.law.certify().epsilon_upper <= e
    assert max(ours.law.scales) ** 2 < exact  # (3, 2) lies inside the ball of radius sqrt(20)
