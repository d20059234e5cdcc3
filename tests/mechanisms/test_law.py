"""Every family on a corpus of plans: privacy by exact enumeration, then domains and contracts."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import ArgumentError, ConfigError, InternalError
from dprelease.core.numeric import exp_lower, exp_upper, ranking
from dprelease.mechanisms.bounded_gaussian import BoundedGaussian
from dprelease.mechanisms.bounded_laplace import BoundedLaplace
from dprelease.mechanisms.certificate import log_upper
from dprelease.mechanisms.certifiers.table_laplace import BoundedLaplaceLaw
from dprelease.mechanisms.forms.additive import AdditiveLaw
from dprelease.mechanisms.law import (
    GridLaw,
    GridRequest,
    choose_answers,
    family_laws,
    grid_laws,
    law_from_json,
)
from dprelease.schema.domain import GridSet
from tests.mechanisms.plans import StuckBits, corpus, enumerate_law, hull, worst_ratio
from tests.sizes import some, whole

PLANS = some(corpus(), 7)
FAMILIES = ("staircase", "discrete_laplace", "rectified_laplace", "bounded_laplace")


@cache
def laws() -> list[tuple[GridRequest, GridLaw]]:
    """Return every law of the corpus; made when a test first asks, not while tests are collected."""
    return [(r, law) for r in PLANS for law in grid_laws(r)]


def of(family: str) -> list[tuple[GridRequest, GridLaw]]:
    return [(r, law) for r, law in laws() if law.family == family]


def test_every_plan_offers_every_family_best_first() -> None:
    for request in PLANS[:20]:
        laws = grid_laws(request)
        assert {law.family for law in laws} >= set(FAMILIES)
        prices = [ranking(law.expected_error().average) for law in laws]
        assert prices == sorted(prices)


def test_a_law_of_one_coordinate_is_not_offered_for_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A family that does not look at `splits` makes plans that the wall would refuse."""
    one = GridRequest(GridSet.from_runs([(0, 12)]), 3, Fraction(1))

    def blind(request: GridRequest) -> list[GridLaw]:
        return [BoundedLaplaceLaw.calibrate(replace(request, splits=False))]

    monkeypatch.setattr(BoundedLaplace, "grid_laws", blind)
    for request, offered in ((one, True), (replace(one, splits=True), False)):
        assert bool(family_laws(request, "bounded_laplace")) is offered
        assert ("bounded_laplace" in {law.family for law in grid_laws(request)}) is offered


@pytest.mark.parametrize("family", ["staircase", "bounded_laplace"])
def test_enumerated_loss_is_within_epsilon_in_rationals(family: str) -> None:
    for request, law in of(family):
        pmfs = enumerate_law(law)
        assert all(isinstance(w, Fraction) for w in pmfs[law.allowed.lower].values())
        assert all(sum(p.values()) == 1 for p in pmfs.values())
        ratio = worst_ratio(pmfs, request.sensitivity)
        assert ratio <= exp_lower(request.epsilon)
        certificate = law.certificate
        assert certificate.epsilon_upper <= request.epsilon
        assert certificate.ratio is not None
        assert ratio <= max(certificate.ratio, Fraction(1))


@pytest.mark.parametrize("family", ["discrete_laplace", "rectified_laplace"])
def test_linear_losses_are_within_epsilon_in_rationals(family: str) -> None:
    for request, law in of(family):
        assert isinstance(law, AdditiveLaw)
        noise: Any = law.noise
        distance = request.capped_sensitivity
        exact = max(
            noise.log_ratio(d, k) for d in range(-99, 99) for k in range(-distance, distance + 1)
        )
        assert exact <= request.epsilon
        assert law.certificate.epsilon_upper == exact
        assert exact > request.epsilon * Fraction(999, 1000)  # nothing is wasted either
        ratio = worst_ratio(enumerate_law(law), request.sensitivity)
        assert ratio <= float(exp_upper(request.epsilon)) * (1 + 1e-9)


def test_the_support_is_the_same_for_every_answer() -> None:
    for _, law in laws():
        supports = {frozenset(y for y, w in law.pmf(q).items() if w > 0) for q in hull(law.allowed)}
        assert len(supports) == 1
        assert all(y in law.allowed for y in next(iter(supports)))


def test_draws_stay_in_the_allowed_set() -> None:
    drawn = 0
    for i, (_, law) in enumerate(laws()):
        low, high = law.allowed.lower, law.allowed.upper
        answers = (
            np.arange(low - 50, low - 50 + 2100, dtype=np.int64) % (high - low + 100) + low - 50
        )
        values = law.finish(law.draw_raw(answers, ReplayBits(f"domain {i}")))
        assert law.allowed.contains(values).all()
        drawn += values.size
    assert drawn >= whole(10**5, 10**6)


def test_finish_is_total_over_int64() -> None:
    raw = np.array([-(2**62), -(2**61), -1, 0, 1, 2**61, 2**62], dtype=np.int64)
    for _, law in laws():
        if isinstance(law, AdditiveLaw):
            assert law.allowed.contains(law.finish(raw)).all()


def test_pmf_clamps_answers_to_the_hull() -> None:
    for _, law in laws()[:40]:
        assert law.pmf(law.allowed.upper + 7) == law.pmf(law.allowed.upper)


def test_expected_errors_are_those_of_the_enumerated_law() -> None:
    for request, law in laws():
        power = 1 if request.loss == "absolute" else 2
        errors = [
            sum(float(w) * abs(y - q) ** power for y, w in law.pmf(q).items())
            for q in hull(law.allowed)
        ]
        price = law.expected_error()
        assert price.average == pytest.approx(sum(errors) / len(errors), rel=1e-9, abs=1e-12)
        assert price.worst == pytest.approx(max(errors), rel=1e-9, abs=1e-12)


def test_json_round_trip_keeps_the_law_and_its_proof() -> None:
    for _, law in laws()[::7]:
        back = law_from_json(json.loads(json.dumps(law.to_json())))
        assert back == law
        assert back.certify() == law.certificate
        assert json.loads(json.dumps(law.certificate.to_json()))["family"] == law.family
        assert law.family in law.describe()


def test_a_false_claim_shows_in_the_recomputed_certificate() -> None:
    for family in FAMILIES:
        law = next(law for r, law in of(family) if r.epsilon == 1 and law.allowed.hull_steps)
        tampered = law.to_json() | {"epsilon": "1/2"}
        assert law_from_json(tampered).certify().epsilon_upper > Fraction(1, 2)
        wider = law.to_json() | {"sensitivity": 10**6}
        assert law_from_json(wider).certify().epsilon_upper >= law.certificate.epsilon_upper


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": None},
        {"allowed": [[1]]},
        {"allowed": [[3, 1]]},
        {"allowed": []},
        {"loss": "other"},
    ],
)
def test_a_malformed_law_is_a_config_error(change: dict[str, Any]) -> None:
    for _, law in laws()[:4]:
        with pytest.raises(ConfigError) as caught:
            law_from_json(law.to_json() | change)
        assert caught.value.code == "DPR180"


def test_an_unknown_remap_is_a_config_error() -> None:
    law = next(law for _, law in of("staircase"))
    with pytest.raises(ConfigError):
        law_from_json(law.to_json() | {"remap": "farthest"})


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(ArgumentError, match="no mechanism called"):
        law_from_json({"family": "stairs"})


@pytest.mark.parametrize("byte", [0x00, 0xFF])
def test_a_stuck_source_yields_allowed_values_or_stops(byte: int) -> None:
    stopped = 0
    for _, law in laws()[::11]:
        try:
            value = law.finish(law.draw_raw(np.array([law.allowed.lower]), StuckBits(byte)))
        except InternalError:
            stopped += 1
        else:
            assert law.allowed.contains(value).all()
    if byte == 0:
        assert stopped == 0


def test_without_point_masses_only_truncated_laws_are_admissible() -> None:
    allowed = GridSet.from_runs([(0, 30), (40, 50)])
    laws = grid_laws(GridRequest(allowed, 3, Fraction(1), point_masses=False))
    assert "bounded_laplace" in {law.family for law in laws}
    additive = {"staircase", "discrete_laplace", "rectified_laplace"}
    assert not additive & {law.family for law in laws}
    # One family's refusal is not the request's.
    for torn in (((0, 10), (10**9, 2 * 10**9)), ((0, 20), (4_020, 4_040))):
        request = GridRequest(GridSet(torn), 3, Fraction(1), point_masses=False)
        with pytest.raises(ArgumentError) as caught:
            BoundedGaussian.grid_laws(request)
        assert caught.value.code == "DPR627"
        assert {law.family for law in grid_laws(request)} == {"bounded_laplace"}
    torn = GridSet.from_runs([(0, 10), (10**9, 2 * 10**9)])
    assert additive <= {law.family for law in grid_laws(GridRequest(torn, 3, Fraction(1)))}


def test_splits_admit_only_linear_losses_and_the_hull_caps_nothing() -> None:
    allowed = GridSet.from_runs([(0, 5)])
    laws = grid_laws(GridRequest(allowed, 12, Fraction(1), splits=True))
    assert {law.family for law in laws} == {"discrete_laplace", "rectified_laplace"}
    for law in laws:
        assert isinstance(law, AdditiveLaw)
        # Three coordinates of hull 5 can together move 12 steps; capping at 5 would cost 12/5.
        assert law.noise.log_ratio(0, 12) == law.certificate.epsilon_upper == 1  # type: ignore[union-attr]
    assert grid_laws(GridRequest(allowed, 12, Fraction(1), splits=True, point_masses=False)) == []


def test_a_staircase_on_two_cells_costs_twice_epsilon() -> None:
    """The twin that the refusal above guards against: one step in each of two coordinates."""
    allowed = GridSet.from_runs([(0, 9)])
    law = next(
        law for law in grid_laws(GridRequest(allowed, 2, Fraction(1))) if law.family == "staircase"
    )
    one_step = max(worst_ratio(enumerate_law(law), 1), Fraction(1))
    assert one_step**2 > exp_upper(Fraction(19, 10))  # both coordinates move one step each
    assert isinstance(law, AdditiveLaw)
    split = law.noise.certify("staircase", 2, Fraction(1), splits=True)
    assert split.epsilon_upper > Fraction(199, 100)


@pytest.mark.parametrize(("sensitivity", "epsilon"), [(0, 1), (-1, 1), (1, 0), (1, -1)])
def test_requests_without_sensitivity_or_budget_are_refused(sensitivity: int, epsilon: int) -> None:
    with pytest.raises(ArgumentError):
        GridRequest(GridSet.from_runs([(0, 3)]), sensitivity, Fraction(epsilon))


def test_a_grid_beyond_int64_is_refused() -> None:
    with pytest.raises(ArgumentError, match="too fine"):
        GridRequest(GridSet.from_runs([(0, 2**61)]), 1, Fraction(1))


def test_answers_are_clamped_before_the_noise() -> None:
    """Unclamped answers outside the hull would be further apart than the capped sensitivity."""
    for _, law in laws()[:40]:
        low, high = law.allowed.lower, law.allowed.upper
        far = law.draw_raw(np.array([low - 999, high + 999, 2**61]), ReplayBits("clamp"))
        near = law.draw_raw(np.array([low, high, high]), ReplayBits("clamp"))
        assert far.tolist() == near.tolist()


def test_no_groups_mean_no_draws() -> None:
    nobody = np.zeros(0, dtype=np.int64)
    for _, law in laws()[:4]:
        raw = law.draw_raw(nobody, ReplayBits("none"))
        low, high = law.interval(raw)
        assert law.finish(raw).size == low.size == high.size == 0


def test_one_allowed_point_is_released_always() -> None:
    for law in grid_laws(GridRequest(GridSet.from_runs([(3, 3)]), 4, Fraction(1))):
        assert law.pmf(3) == {3: 1}
        assert law.finish(law.draw_raw(np.array([9, -9]), ReplayBits("p"))).tolist() == [3, 3]
        assert law.certificate.epsilon_upper <= 1


def test_log_upper_is_an_upper_bound_and_close() -> None:
    for ratio in (Fraction(1), Fraction(2), Fraction(10**400), 1 + Fraction(1, 10**20)):
        bound = log_upper(ratio)
        assert exp_lower(bound) >= ratio
        assert exp_lower(bound * (1 - Fraction(1, 2**30))) < ratio or ratio == 1


def test_choose_answers_covers_the_hull() -> None:
    allowed = GridSet.from_runs([(0, 1000), (5000, 5000), (9000, 10**9)])
    answers, share = choose_answers(allowed)
    assert share.sum() == pytest.approx(1)
    assert {0, 1000, 3000, 5000, 7000, 9000, 10**9} <= set(answers.tolist())
    assert answers.size <= 75


class TestBrokenTwins:
    """Each change breaks the promise; the enumeration must say so."""

    gapped = GridRequest(GridSet.from_runs([(0, 6), (16, 22)]), 2, Fraction(1))

    @pytest.mark.parametrize("family", FAMILIES)
    def test_snapping_the_answer_before_the_noise(self, family: str) -> None:
        law = next(law for law in grid_laws(self.gapped) if law.family == family)
        snapped = {
            q: law.pmf(int(law.allowed.nearest(np.array([q]))[0])) for q in hull(law.allowed)
        }
        assert worst_ratio(snapped, 2) > exp_upper(Fraction(3, 2))
        assert worst_ratio(enumerate_law(law), 2) <= exp_upper(Fraction(1)) * (
            1 + Fraction(1, 10**9)
        )

    @pytest.mark.parametrize("family", FAMILIES)
    def test_half_the_sensitivity(self, family: str) -> None:
        half = GridRequest(self.gapped.allowed, 1, Fraction(1))
        law = next(law for law in grid_laws(half) if law.family == family)
        assert worst_ratio(enumerate_law(law), 2) > exp_upper(Fraction(11, 10))

    def test_truncation_without_recalibration(self) -> None:
        rate = float(self.gapped.epsilon) / self.gapped.sensitivity
        law = BoundedLaplaceLaw(
            self.gapped.allowed, 2, Fraction(1), "absolute", round(2**60 * np.exp(-rate))
        )
        assert worst_ratio(enumerate_law(law), 2) > exp_upper(Fraction(11, 10))
        assert law.certificate.epsilon_upper > Fraction(11, 10)

    def test_checking_only_pairs_inside_the_allowed_set(self) -> None:
        allowed = GridSet.from_runs([(0, 0), (20, 20)])
        # Inside D no pair is within 2 steps: "no pair exceeds epsilon" holds for any noise.
        law = BoundedLaplaceLaw(allowed, 2, Fraction(1), "absolute", 2**58)
        pmfs = enumerate_law(law)
        inside = {q: p for q, p in pmfs.items() if q in allowed}
        assert worst_ratio(inside, 2) == 0
        assert worst_ratio(pmfs, 2) > exp_upper(Fraction(2))
        assert law.certificate.epsilon_upper > 2

    def test_a_capped_table_claiming_a_little_less(self) -> None:
        law = BoundedLaplaceLaw.calibrate(self.gapped)
        sharper = BoundedLaplaceLaw(
            law.allowed, law.sensitivity, law.epsilon, law.loss, law.p - (1 << 30)
        )
        assert law.certificate.epsilon_upper == 1
        assert sharper.certificate.epsilon_upper > 1
