"""Randomised response: loss for all pairs in rationals, prices, fit, curves, twins."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dprelease.entropy import ReplayBits
from dprelease.errors import ArgumentError
from dprelease.mechanisms import RandomizedResponse
from dprelease.mechanisms.forms.rows import RowLaw
from dprelease.mechanisms.law import GridRequest, law_from_json
from dprelease.mechanisms.randomized_response import _best, _posterior, _weights
from dprelease.numeric import exp_lower, exp_upper
from dprelease.schema.domain import Domain, GridSet
from tests.mechanisms.plans import corpus, enumerate_law, hull, worst_ratio

LAWS: list[tuple[GridRequest, RowLaw]] = [
    (r, law)  # type: ignore[misc]
    for i, plan in enumerate(corpus(90))
    for r in [replace(plan, criterion="worst" if i % 2 else "average")]
    for law in RandomizedResponse.grid_laws(r)
]
GAPPED = GridSet.from_runs([(0, 9), (20, 29)])


def test_enumerated_loss_is_within_epsilon_for_all_pairs_in_rationals() -> None:
    assert len(LAWS) >= 60
    for request, law in LAWS:
        ratio = worst_ratio(enumerate_law(law), max(1, law.allowed.hull_steps))
        assert ratio <= exp_lower(request.epsilon)
        assert law.certificate.epsilon_upper <= request.epsilon
        if len(law.outputs) > 1 and len(law.outputs) == len(law.rows):
            assert ratio > exp_lower(request.epsilon * Fraction(999, 1000))  # nothing is wasted


def test_outputs_are_allowed_and_the_same_for_every_answer() -> None:
    for _, law in LAWS:
        assert all(y in law.allowed for y in law.outputs)
        assert {tuple(law.pmf(q)) for q in hull(law.allowed)} == {law.outputs}
        assert all(sum(law.pmf(q).values()) == 1 for q in hull(law.allowed))
        assert law_from_json(law.to_json()) == law


def test_prices_are_those_of_the_enumerated_law() -> None:
    for request, law in LAWS:
        power = 1 if request.loss == "absolute" else 2
        errors = [
            float(sum(w * abs(y - q) ** power for y, w in law.pmf(q).items()))
            for q in hull(law.allowed)
        ]
        assert law.expected_error().worst == pytest.approx(max(errors), rel=1e-9)
        assert law.expected_error().average == pytest.approx(np.mean(errors), rel=1e-9)


def test_the_worst_answer_of_a_huge_hull_is_found_at_the_ends_of_the_bins() -> None:
    small = _best(GridRequest(GridSet.from_runs([(0, 2999)]), 3000, Fraction(2)), 3)
    errors = [float(sum(w * abs(y - q) for y, w in small.pmf(q).items())) for q in range(3000)]
    assert small.expected_error().worst == pytest.approx(max(errors), rel=1e-9)
    assert small.expected_error().average == pytest.approx(np.mean(errors), rel=1e-3)
    huge = RandomizedResponse.grid_laws(
        GridRequest(GridSet.from_runs([(0, 10**9)]), 10**9, Fraction(1))
    )[0]
    drawn = huge.draw_raw(np.linspace(0, 10**9, 5000).astype(np.int64), ReplayBits("huge"))
    assert huge.allowed.contains(drawn).all()


def test_the_price_chooses_more_bins_for_larger_epsilon() -> None:
    counts = [
        len(_best(GridRequest(GridSet.from_runs([(0, 40)]), 40, Fraction(e)), None).rows)
        for e in (1, 3, 5)
    ]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_randomized_response_beats_bounded_laplace_when_the_sensitivity_is_the_hull() -> None:
    from dprelease.mechanisms import BoundedLaplace

    request = GridRequest(GridSet.from_runs([(0, 40)]), 40, Fraction(1), criterion="worst")
    ours = RandomizedResponse.grid_laws(request)[0].expected_error()
    assert ours.worst < BoundedLaplace.grid_laws(request)[0].expected_error().worst


@pytest.mark.statistical
@pytest.mark.parametrize("q", [0, 14, 29])
def test_draws_fit_the_pmf_and_a_wrong_epsilon_is_caught(q: int) -> None:
    law = _best(GridRequest(GAPPED, 29, Fraction(2)), 4)
    draws = law.draw_raw(np.full(30_000, q), ReplayBits(f"response {q}"))

    def p_value(epsilon: Fraction) -> float:
        own, rest = math.exp(epsilon), 3.0
        counts = np.array([(draws == y).sum() for y in law.outputs])
        assert counts.sum() == draws.size
        row = law._row_of(np.array([q]))[0]
        expected = np.full(4, draws.size / (own + rest))
        expected[row] *= own
        return float(stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), 3))

    assert p_value(Fraction(2)) > 1e-6
    assert p_value(Fraction(17, 10)) < 1e-6
    assert p_value(Fraction(23, 10)) < 1e-6


class TestBrokenTwins:
    def test_a_weight_above_e_to_the_epsilon(self) -> None:
        law = _best(GridRequest(GAPPED, 29, Fraction(1)), 3)
        rows = tuple(tuple(w * 3 if w == max(row) else w for w in row) for row in law.rows)
        twin = replace(law, rows=rows)
        assert worst_ratio(enumerate_law(twin), 29) > exp_upper(Fraction(2))
        assert twin.certify().epsilon_upper > 2

    def test_the_usual_k_minus_one_mistake(self) -> None:
        """Own weight (K - 1) e^epsilon: right for "any other bin" as one outcome only."""
        law = _best(GridRequest(GAPPED, 29, Fraction(1)), 3)
        other = min(law.rows[0])
        rows = tuple(tuple(2 * w if w > other else w for w in row) for row in law.rows)
        assert replace(law, rows=rows).certify().epsilon_upper > Fraction(16, 10)


class TestTheClass:
    m = RandomizedResponse.calibrate(Domain(0, 12, [(4, 6)]), sensitivity=6, epsilon=2)

    def test_curves_agree_with_each_other(self) -> None:
        values, chance = self.m._table(np.array([1.0]))
        assert chance.sum() == pytest.approx(1)
        assert Domain(0, 12, [(4, 6)]).contains(values).all()
        assert float(self.m.cdf(values[0], 1.0)) == pytest.approx(chance[0, 0])
        assert float(self.m.cdf(12.0, 1.0)) == pytest.approx(1)
        assert float(self.m.mean(1.0)) == pytest.approx((values * chance[0]).sum())
        spread = (values**2 * chance[0]).sum() - (values * chance[0]).sum() ** 2
        assert float(self.m.variance(1.0)) == pytest.approx(spread)
        assert self.m.pdf(values, 1.0).tolist() == [0.0] * values.size
        assert float(self.m.mass(1.0)) == pytest.approx(chance.max())

    def test_loss_scale_and_draws(self) -> None:
        assert self.m.loss(sensitivity=0.001) == 2
        assert self.m.scale == 6
        unit = self.m.on_grid(Fraction(1, 10))
        assert unit.certificate.epsilon_upper <= 2
        assert Domain(0, 12, [(4, 6)]).contains(unit.draw(np.linspace(0, 12, 99))).all()
        assert RandomizedResponse(Domain(0, 12), scale=6, bins=3).epsilon == 2
        point = RandomizedResponse(Domain(3, 3), epsilon=1)
        assert point.loss(sensitivity=1) == 0
        assert float(point.mean(3.0)) == 3

    def test_isolated_values_are_on_the_fine_grid(self) -> None:
        islands = Domain.from_pieces([(0, 0), ("0.3", "0.3"), (1, 1)])
        m = RandomizedResponse(islands, epsilon=4, bins=3)
        assert float(m.cdf(1.0, 0.3)) == pytest.approx(1)

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            ({"bins": 1}, "DPR681"),
            ({"bins": 17}, "DPR681"),
            ({"epsilon": 0}, "DPR606"),
            ({"epsilon": None}, "DPR681"),
            ({"scale": 1}, "DPR681"),
        ],
    )
    def test_invalid_arguments_are_refused_with_a_fix(
        self, change: dict[str, Any], code: str
    ) -> None:
        with pytest.raises(ArgumentError) as caught:
            RandomizedResponse(Domain(0, 1), **({"epsilon": 1} | change))
        assert caught.value.code == code
        assert caught.value.fix
        with pytest.raises(ArgumentError):
            RandomizedResponse(Domain(0, math.inf), epsilon=1)


def test_spikes_and_splits_rule_it_out() -> None:
    assert (
        RandomizedResponse.grid_laws(GridRequest(GAPPED, 3, Fraction(1), point_masses=False)) == []
    )
    assert RandomizedResponse.grid_laws(GridRequest(GAPPED, 3, Fraction(1), splits=True)) == []


def test_the_posterior_median_is_the_first_answer_with_half_of_the_mass_up_to_it() -> None:
    """The reference adds up the mass, answer by answer; bins in front, in the middle and at the end."""
    for points, count in ((1, 1), (7, 2), (29, 3), (30, 4), (31, 5)):
        for epsilon in (Fraction(1, 100), Fraction(2), Fraction(9)):
            request = GridRequest(GridSet(((-3, points - 4),)), 1, epsilon)
            own, other = _weights(epsilon, count)
            starts = [-3 + points * i // count for i in range(count)]
            for start, after in pairwise([*starts, points - 3]):
                inside = range(start, after)
                masses = [own if q in inside else other for q in range(-3, points - 3)]
                rising = np.cumsum(np.array(masses, dtype=object))
                first = next(i for i, mass in enumerate(rising) if 2 * mass >= rising[-1])
                found = _posterior(request, start, after - 1, own, other)
                assert found == first - 3
