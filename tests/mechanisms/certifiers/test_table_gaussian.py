"""Grid laws of the bounded Gaussian: exact enumeration, round trips, draws, price."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import ArgumentError, ConfigError
from dprelease.core.numeric import exp_lower
from dprelease.mechanisms import BoundedGaussian, GridRequest, grid_laws, law_from_json
from dprelease.mechanisms.certifiers.table_gaussian import BoundedGaussianLaw, decay_of
from dprelease.mechanisms.certifiers.table_laplace import BoundedLaplaceLaw
from dprelease.mechanisms.law import rho_upper
from dprelease.schema.domain import GridSet
from tests.mechanisms.plans import corpus, enumerate_law, renyi_rate, worst_ratio
from tests.sizes import whole

PLANS = [p for p in corpus(whole(40, 80)) if p.allowed.hull_steps > 0]
INTERVAL = GridRequest(GridSet.from_runs([(0, 100)]), 10, Fraction(1))


def law_of(request: GridRequest) -> BoundedGaussianLaw:
    (law,) = BoundedGaussian.grid_laws(request)
    assert isinstance(law, BoundedGaussianLaw)
    return law


@pytest.mark.parametrize("part", range(4))
def test_the_certificate_by_exact_enumeration(part: int) -> None:
    for request in PLANS[part::4]:
        law = law_of(request)
        exact = worst_ratio(enumerate_law(law), request.capped_sensitivity)
        certificate = law.certificate
        assert certificate.ratio is not None
        assert exact <= certificate.ratio <= exp_lower(request.epsilon)
        assert certificate.epsilon_upper == request.epsilon
        assert law.certify() == certificate


def test_less_noise_is_caught() -> None:
    """The broken twin: noise at 0.8 of the scale; its certificate says so, exactly."""
    caught = 0
    for request in PLANS:
        law = law_of(request)
        twin = dataclasses.replace(law, p=decay_of(0.8 * law.scale))
        exact = worst_ratio(enumerate_law(twin), request.capped_sensitivity)
        assert twin.certificate.ratio is not None
        assert twin.certificate.ratio >= exact
        if exact > exp_lower(request.epsilon):
            assert twin.certificate.epsilon_upper > request.epsilon
            caught += 1
    assert caught > 0.9 * len(PLANS)


def test_little_is_lost_to_the_proof() -> None:
    for runs, sensitivity, epsilon in (
        ([(0, 100)], 10, Fraction(1)),
        ([(0, 100)], 10, Fraction(1, 100)),
        ([(0, 40), (60, 120)], 7, Fraction(2)),
        ([(0, 2000)], 200, Fraction(1, 2)),
    ):
        law = law_of(GridRequest(GridSet.from_runs(runs), sensitivity, epsilon))
        assert law.certificate.ratio is not None
        assert math.log(law.certificate.ratio) >= float(epsilon) * (1 - 1e-6)


def test_the_support_never_depends_on_the_answer() -> None:
    law = BoundedGaussianLaw.calibrate(
        GridRequest(GridSet.from_runs([(0, 1), (400, 403)]), 1, Fraction(10))
    )
    for q in (0, 200, 403):
        assert all(p > 0 for p in law.pmf(q).values())
        assert sum(law.pmf(q).values()) == 1
    assert law.pmf(-5) == law.pmf(0)


def test_round_trip_through_json() -> None:
    for request in PLANS[:8]:
        law = law_of(request)
        again = law_from_json(json.loads(json.dumps(law.to_json())))
        assert again == law
        assert again.certify() == law.certificate
    good = law_of(INTERVAL).to_json()
    for change in ({"p": 0}, {"p": 2**121}, {"p": "x"}, {"loss": "cubic"}, {"sensitivity": None}):
        with pytest.raises(ConfigError):
            law_from_json(good | change)


def test_weights_are_the_documented_recurrence_and_the_gaussian() -> None:
    law = law_of(INTERVAL)
    weights = law.table.weights.astype(float)
    d = np.arange(weights.size)
    assert law.scale == pytest.approx(27.6292, abs=1e-3)
    near = d < 5 * law.scale
    np.testing.assert_allclose(
        weights[near] / weights[0], np.exp(-(d[near] ** 2) / (2 * law.scale**2)), rtol=1e-8
    )
    # never narrower than the Gaussian: the table's own ratios are at most the Gaussian's
    steps = np.log(weights[:-1] / weights[1:])
    assert (steps <= (2 * d[:-1] + 1) / (2 * law.scale**2) * (1 + 1e-12)).all()


@pytest.mark.statistical
@pytest.mark.parametrize("answer", [0, 50, -9])
def test_draws_fit_the_pmf_and_a_wrong_scale_is_caught(answer: int) -> None:
    request = GridRequest(GridSet.from_runs([(0, 40), (60, 70)]), 20, Fraction(3))
    law = law_of(request)
    drawn = law.finish(law.draw_raw(np.full(20_000, answer), ReplayBits(f"gaussian {answer}")))
    assert drawn.min() >= 0
    counts = np.bincount(drawn, minlength=71)

    def chi_square(other: BoundedGaussianLaw) -> float:
        pmf = other.pmf(answer)
        expected = np.array([20_000 * float(pmf.get(y, 0)) for y in range(71)])
        keep = expected > 5
        rest = expected[~keep].sum()
        chi = ((counts - expected)[keep] ** 2 / expected[keep]).sum()
        if rest > 0.5:
            chi += (counts[~keep].sum() - rest) ** 2 / rest
        return float(chi)

    limit = 52 + 5.5 * math.sqrt(2 * 52)  # at most 52 degrees of freedom; p > 1e-6
    assert chi_square(law) < limit
    assert chi_square(dataclasses.replace(law, p=decay_of(0.8 * law.scale))) > limit
    assert chi_square(dataclasses.replace(law, p=decay_of(1.25 * law.scale))) > limit


def test_when_it_is_offered() -> None:
    allowed = GridSet.from_runs([(0, 9)])
    one = Fraction(1)
    assert BoundedGaussian.grid_laws(GridRequest(allowed, 1, one, point_masses=False))
    assert not BoundedGaussian.grid_laws(GridRequest(allowed, 1, one, splits=True))
    assert not BoundedGaussian.grid_laws(GridRequest(GridSet.from_runs([(3, 3)]), 1, one))
    huge = GridSet.from_runs([(0, 2**20)])
    [wide] = BoundedGaussian.grid_laws(GridRequest(huge, 1, one))
    assert wide.to_json()["form"] == "wide"
    with pytest.raises(ArgumentError) as caught:
        BoundedGaussianLaw.calibrate(GridRequest(huge, 1, one, point_masses=False))
    assert caught.value.code == "DPR622"
    (point,) = BoundedGaussian.grid_laws(
        GridRequest(GridSet.from_runs([(3, 3)]), 1, one, point_masses=False)
    )
    assert point.pmf(3) == {3: 1}
    assert point.certificate.ratio == 1


def test_the_gaussian_table_is_priced_honestly_and_not_picked() -> None:
    for request in PLANS[::6]:
        laws = grid_laws(request)
        ours = next(law for law in laws if law.family == "bounded_gaussian")
        error, pmfs = ours.expected_error(), enumerate_law(ours)
        power = 1 if request.loss == "absolute" else 2
        by_hand = [
            float(sum(p * abs(y - q) ** power for y, p in pmf.items())) for q, pmf in pmfs.items()
        ]
        assert error.average == pytest.approx(np.mean(by_hand))
        assert error.worst == pytest.approx(max(by_hand))
        best = laws[0].expected_error().average
        assert laws[0].family != "bounded_gaussian" or best == pytest.approx(
            laws[1].expected_error().average
        )


def test_a_large_table_is_quick_and_certified() -> None:
    law = law_of(GridRequest(GridSet.from_runs([(0, 60_000)]), 300, Fraction(1)))
    assert law.certificate.epsilon_upper == 1
    low, high = law.interval(np.array([0, 30_000, 60_000]))
    assert (low <= [0, 30_000, 60_000]).all()
    assert (high >= [0, 30_000, 60_000]).all()
    assert "scale" in law.describe()


def test_intervals_cover() -> None:
    law = law_of(GridRequest(GridSet.from_runs([(0, 12), (20, 33)]), 10, Fraction(4)))
    low, high = law.interval(np.arange(34), 0.95)
    for q, pmf in enumerate_law(law).items():
        assert sum(p for y, p in pmf.items() if low[y] <= q <= high[y]) >= Fraction(19, 20)


@pytest.mark.parametrize("runs", [[(0, 60)], [(0, 20), (40, 60)], [(0, 1)]], ids=str)
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(6)])
def test_renyi_divergences_of_all_pairs_are_within_rho(
    runs: list[tuple[int, int]], epsilon: Fraction
) -> None:
    request = GridRequest(GridSet.from_runs(runs), 4, epsilon)
    for law in (BoundedGaussianLaw.calibrate(request), BoundedLaplaceLaw.calibrate(request)):
        rho = float(law.rho_upper)
        assert renyi_rate(enumerate_law(law), request.capped_sensitivity) <= rho * (1 + 1e-9)
        assert rho <= float(epsilon) ** 2 / 2 * (1 + 1e-6)
        assert rho_upper(law) <= epsilon**2 / 2


def test_an_interval_costs_little_more_than_the_gaussian() -> None:
    allowed = GridSet.from_runs([(0, 1000)])
    law = BoundedGaussianLaw.calibrate(GridRequest(allowed, 50, Fraction(1)))
    assert float(law.rho_upper) == pytest.approx(50**2 / 2 / law.scale**2, rel=0.02)
    gapped = GridSet.from_runs([(0, 100), (900, 1000)])
    other = BoundedGaussianLaw(gapped, 50, Fraction(1), "absolute", law.p)
    assert other.rho_upper > 5 * law.rho_upper


def test_laws_without_a_proof_of_their_own_cost_half_the_square() -> None:
    allowed = GridSet.from_runs([(0, 9)])
    for law in grid_laws(GridRequest(allowed, 2, Fraction(1))):
        assert 0 < rho_upper(law) <= law.certificate.epsilon_upper**2 / 2
