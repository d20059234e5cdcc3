"""Continuous bounded Laplace against its definition in 40 digits (`tests/reference/laplace.py`)."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import exact
from dprelease.mechanisms import BoundedLaplace, bounded_laplace_scale
from dprelease.mechanisms.calibration import laplace_loss, search
from dprelease.mechanisms.calibration.laplace_loss import LossView, interval_loss
from dprelease.schema.domain import Domain
from tests.reference import laplace as reference
from tests.sizes import whole

GAPPED = Domain(0, 12, forbidden=[(4, 6)])
ISLANDS = Domain.from_pieces([(0, "0.000001"), (1, "1.000000001"), (4, "4.01")])
INF = math.inf


def test_scales_of_one_interval_match_the_reference() -> None:
    pick = random.Random("scales")
    for _ in range(whole(30, 60)):
        width = 10 ** pick.uniform(-3, 3)
        sensitivity = width * 10 ** pick.uniform(-4, 0.2)
        epsilon = 10 ** pick.uniform(-9, 1)
        scale = float(bounded_laplace_scale(0.0, width, sensitivity, epsilon))
        smallest = reference.interval_scale(width, sensitivity, epsilon)
        assert scale >= smallest  # never below the exact scale: that would cost more than epsilon
        assert scale == pytest.approx(float(smallest), rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 5.0])
def test_closed_forms(epsilon: float) -> None:
    e = math.exp(epsilon)
    whole = float(bounded_laplace_scale(0, 3, 3, epsilon))
    assert whole == pytest.approx(3 / epsilon, rel=1e-12)
    double = float(bounded_laplace_scale(0, 6, 3, epsilon))
    assert double == pytest.approx(3 / math.log((e + math.sqrt(e * e + 8 * e)) / 4), rel=1e-11)
    half_line = float(bounded_laplace_scale(0, INF, 3, epsilon))
    assert half_line == pytest.approx(3 / math.log((1 + e) / 2), rel=1e-11)
    line = float(bounded_laplace_scale(-INF, INF, 3, epsilon))
    assert line == pytest.approx(3 / epsilon, rel=1e-12)


def test_many_intervals_at_once_stay_within_epsilon() -> None:
    pick = np.random.Generator(np.random.PCG64(7))
    width = 10 ** pick.uniform(-6, 6, 100_000)
    sensitivity, epsilon = 10 ** pick.uniform(-9, 6, 100_000), 10 ** pick.uniform(-9, 1, 100_000)
    scale = bounded_laplace_scale(0, width, sensitivity, epsilon)
    distance = np.minimum(sensitivity, width)
    assert (interval_loss(1 / scale, distance, width) <= epsilon).all()
    assert (scale >= distance / epsilon).all()
    assert (scale <= 2 * distance / epsilon * (1 + 1e-9)).all()


@pytest.mark.parametrize("domain", [Domain(0, 1), GAPPED, ISLANDS], ids=str)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_loss_over_hull_pairs_matches_brute_force(domain: Domain, epsilon: float) -> None:
    sensitivity = 0.3 if domain.hull[1] < 2 else 1.2
    mechanism = BoundedLaplace.calibrate(domain, sensitivity=sensitivity, epsilon=epsilon)
    low, high = domain.hull
    pairs = [
        (q, q + sensitivity) for q in np.linspace(low, high - sensitivity, whole(9, 41)).tolist()
    ]
    brute = max(reference.pair_loss(domain.pieces, q, r, mechanism.scale) for q, r in pairs)
    loss = mechanism.loss(sensitivity=sensitivity)
    assert brute <= epsilon
    assert float(brute) <= loss * (1 + 1e-9)
    assert loss <= epsilon
    assert loss == pytest.approx(epsilon, rel=1e-9)
    if len(domain.pieces) == 1:
        assert loss == pytest.approx(float(brute), rel=1e-9)


def test_answers_inside_the_domain_use_the_finite_pair_list() -> None:
    m = BoundedLaplace.calibrate(ISLANDS, sensitivity=1.2, epsilon=3.5, answers="domain")
    assert m.scale == pytest.approx(0.31436, abs=1e-5)
    inside = [q for a, b in ISLANDS.pieces for q in (a, b)]
    brute = max(
        float(reference.pair_loss(ISLANDS.pieces, q, r, m.scale))
        for q in inside
        for r in inside
        if 0 < r - q <= 1.2
    )
    assert brute <= 3.5
    assert brute == pytest.approx(3.5, rel=1e-6)


def test_a_larger_scale_is_not_safer_on_a_union() -> None:
    loss = {
        b: BoundedLaplace(ISLANDS, scale=b, answers="domain").loss(sensitivity=1.2)
        for b in (0.32, 0.45, 0.56)
    }
    assert loss[0.32] < 3.5 < loss[0.45]
    assert loss[0.56] < 3.5


def test_hull_answers_cost_more_than_answers_inside() -> None:
    hull = BoundedLaplace.calibrate(GAPPED, sensitivity=0.5, epsilon=1)
    inside = BoundedLaplace.calibrate(GAPPED, sensitivity=0.5, epsilon=1, answers="domain")
    assert hull.scale > 1.05 * inside.scale
    twin = BoundedLaplace(GAPPED, scale=inside.scale)
    assert twin.loss(sensitivity=0.5) > 1.05  # the list for D used for hull answers


def test_the_interval_formula_understates_the_loss_of_a_union() -> None:
    scale = float(bounded_laplace_scale(0, 12, 0.5, 1.0))
    assert BoundedLaplace(GAPPED, scale=scale).loss(sensitivity=0.5) > 1.05
    starts = np.linspace(3.5, 6, whole(11, 26)).tolist()
    assert max(reference.pair_loss(GAPPED.pieces, q, q + 0.5, scale) for q in starts) > 1.05


@pytest.mark.parametrize(
    "domain", [Domain(0, 1), GAPPED, Domain(0, INF, forbidden=[(1, 3)])], ids=str
)
def test_curves_match_the_definition(domain: Domain) -> None:
    m = BoundedLaplace(domain, scale=0.7)
    pieces = [(a, min(b, 60.0)) for a, b in domain.pieces]
    for q in (0.0, 0.4, 1.0):
        z = float(reference.normaliser(pieces, q, 0.7))
        assert float(m.mass(q)) == pytest.approx(z / 1.4, rel=1e-12)
        assert float(m.pdf(0.9, q)) == pytest.approx(math.exp(-abs(0.9 - q) / 0.7) / z, rel=1e-12)
        below = reference.normaliser([(a, min(b, 0.9)) for a, b in pieces if a < 0.9], q, 0.7)
        assert float(m.cdf(0.9, q)) == pytest.approx(float(below) / z, rel=1e-12)
        mean = reference.moment(pieces, q, 0.7, 1)
        assert float(m.mean(q)) == pytest.approx(float(mean), rel=1e-11)
        variance = reference.moment(pieces, q, 0.7, 2) - mean**2
        assert float(m.variance(q)) == pytest.approx(float(variance), rel=1e-10)


def test_curves_far_inside_a_wide_gap_do_not_underflow() -> None:
    m = BoundedLaplace(Domain(0, 1000, forbidden=[(1, 999)]), scale=0.01)
    assert float(m.pdf(0.5, 400.0)) == pytest.approx(math.exp(-50) / 0.01, rel=1e-9)
    assert np.isfinite(m.loss(sensitivity=1))
    assert float(m.mean(400.0)) == pytest.approx(0.99, rel=1e-9)
    assert float(m.variance(400.0)) == pytest.approx(1e-4, rel=1e-9)


def test_curves_are_vectorised_and_zero_outside() -> None:
    m = BoundedLaplace(GAPPED, scale=1)
    density = m.pdf(np.linspace(-1, 13, 29)[:, None], np.array([0.0, 5.0, 12.0]))
    assert density.shape == (29, 3)
    inside = GAPPED.contains(np.linspace(-1, 13, 29))
    assert (density[~inside] == 0).all()
    assert (density[inside] > 0).all()
    assert m.cdf(12, 5.0) == 1.0
    assert m.cdf(-0.1, 5.0) == 0.0


@pytest.mark.parametrize("pair", [(0.0, 0.3), (0.35, 0.65), (0.7, 1.0)])
def test_the_hockey_stick_matches_the_definition(pair: tuple[float, float]) -> None:
    q, r = pair
    m = BoundedLaplace(Domain(0, 1), scale=0.4)
    both = [reference.hockey_stick([(0, 1)], a, b, 0.4, 0.3) for a, b in (pair, (r, q))]
    view = LossView(m.domain, "hull")
    found = float(view._hockey(np.array([q]), np.array([r]), 0.4, 0.3)[0])
    assert found == pytest.approx(max(both), rel=1e-5)
    assert m.delta(epsilon=0.3, sensitivity=0.3) >= max(both) * (1 - 1e-5)


@pytest.mark.parametrize("pieces", [[(0, 3)], [(0, 1.5), (2.5, 3)]])
@pytest.mark.parametrize("epsilon", [0.0, 0.4, 0.9, 1.5])
def test_the_formula_of_the_hockey_stick_and_where_it_ends(
    pieces: list[tuple[float, float]], epsilon: float
) -> None:
    q, other, b = 1.0, 2.0, 1.0
    masses = [float(reference.normaliser(pieces, v, b)) for v in (q, other)]
    most = (other - q) / b + math.log(masses[1] / masses[0])
    cut, formula = q + b * (most - epsilon) / 2, 0.0
    for low, high in pieces:
        step = (min(high, cut) - low) / 4000
        x = low + (np.arange(4000) + 0.5) * step if step > 0 else np.empty(0)
        loss = np.clip(most - 2 * (x - q) / b, most - 2 * (other - q) / b, most)
        parts = np.exp(-np.abs(x - q) / b) / masses[0] * -np.expm1(epsilon - loss)
        formula += float(parts.sum()) * step
    truth = reference.hockey_stick(pieces, q, other, b, epsilon)
    if epsilon <= most:
        assert formula == pytest.approx(truth, abs=1e-6)
        assert truth > 0
    else:
        assert truth == 0
        assert formula < -0.1  # the broken twin: the integral for an epsilon above the loss


def test_delta_vanishes_at_the_pure_loss_and_calibrates() -> None:
    for domain in (Domain(0, 1), Domain(0, 1, forbidden=[("0.4", "0.7")])):
        m = BoundedLaplace.calibrate(domain, sensitivity=0.3, epsilon=1)
        assert m.delta(epsilon=1.0001, sensitivity=0.3) == 0
        assert m.delta(epsilon=0.5, sensitivity=0.3) > 0
        relaxed = BoundedLaplace.calibrate(domain, sensitivity=0.3, epsilon=1, delta=1e-3)
        assert relaxed.scale < m.scale
        assert relaxed.delta(epsilon=1, sensitivity=0.3) <= 1e-3
        assert relaxed.delta(epsilon=1, sensitivity=0.3) >= 0.9e-3


def test_delta_with_answers_inside_the_domain() -> None:
    kw: dict[str, Any] = {"sensitivity": 0.5, "epsilon": 1, "answers": "domain"}
    pure = BoundedLaplace.calibrate(GAPPED, **kw)
    relaxed = BoundedLaplace.calibrate(GAPPED, **kw, delta=1e-3)
    assert relaxed.scale < pure.scale
    assert relaxed.delta(epsilon=1, sensitivity=0.5) <= 1e-3


def test_the_whole_line_is_plain_laplace() -> None:
    m = BoundedLaplace.calibrate(Domain(-INF, INF), sensitivity=2, epsilon=1)
    assert m.scale == pytest.approx(2)
    assert m.loss(sensitivity=2) == pytest.approx(1)
    # Plain Laplace: delta = 1 - e^((epsilon - loss) / 2).
    assert m.delta(epsilon=0.4, sensitivity=2) == pytest.approx(1 - math.exp(-0.3))
    assert m.delta(epsilon=2, sensitivity=2) == 0


def test_pairs_across_a_gap_count_when_both_sides_are_allowed() -> None:
    """Islands of width 1 with gaps of 2 and a sensitivity of exactly 3: u and u + 3 are both in."""
    domain = Domain.from_pieces([(0, 1), (3, 4), (6, 7)])
    m = BoundedLaplace.calibrate(domain, sensitivity=3, epsilon=1, answers="domain")
    inside = [q for a, b in domain.pieces for q in np.linspace(a, b, 4).tolist()]
    worst = max(
        reference.pair_loss(domain.pieces, q, r, m.scale)
        for q in inside
        for r in inside
        if 0 < r - q <= 3
    )
    assert worst <= 1
    assert float(worst) == pytest.approx(1, rel=1e-9)


def test_a_proposal_that_fails_its_verification_is_widened(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target above epsilon proposes scales that are too small; none may be returned."""
    monkeypatch.setattr(laplace_loss, "_TARGET", 1 + 1e-9)
    scale = float(bounded_laplace_scale(0.0, 1.0, 0.3, 1.0))
    assert scale >= reference.interval_scale(1.0, 0.3, 1.0)
    monkeypatch.setattr(search, "_ROOM", -1e-9)
    for answers in ("hull", "domain"):
        m = BoundedLaplace.calibrate(GAPPED, sensitivity=0.5, epsilon=1, answers=answers)
        assert m.loss(sensitivity=0.5) <= 1


def test_each_rule_gives_the_scale_that_it_states() -> None:
    sensitivity, epsilon, delta = 0.1, 1.0, 0.01
    exact_ = BoundedLaplace.calibrate(Domain(0, 1), sensitivity=sensitivity, epsilon=epsilon)
    holohan = BoundedLaplace.calibrate(
        Domain(0, 1), sensitivity=sensitivity, epsilon=epsilon, rule="holohan"
    )
    assert holohan.scale == pytest.approx(exact_.scale, rel=1e-12)
    loose = BoundedLaplace.calibrate(
        Domain(0, 1), sensitivity=sensitivity, epsilon=epsilon, delta=delta, rule="holohan"
    )
    assert loose.loss(sensitivity=sensitivity) == pytest.approx(
        epsilon - math.log1p(-delta), rel=1e-9
    )
    tight = BoundedLaplace.calibrate(
        Domain(0, 1), sensitivity=sensitivity, epsilon=epsilon, delta=delta
    )
    assert tight.scale < loose.scale < exact_.scale
    croft = BoundedLaplace.calibrate(
        Domain(0, 1), sensitivity=sensitivity, epsilon=epsilon, rule="croft"
    )
    assert croft.scale == pytest.approx(2 * sensitivity / epsilon, rel=1e-12)
    line = Domain(-INF, INF, forbidden=[(1, 3)])
    open_gap = BoundedLaplace.calibrate(line, sensitivity=0.5, epsilon=0.5, rule="croft")
    assert 1 < open_gap.scale < 2
    assert open_gap.loss(sensitivity=0.5) <= 0.5
    plain = BoundedLaplace.calibrate(Domain(-INF, INF), sensitivity=2, epsilon=1, rule="croft")
    assert plain.scale == pytest.approx(2)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), min_size=1, max_size=4),
    st.integers(1, 40),
    st.sampled_from([0.05, 0.4, 1.0, 4.0]),
)
@settings(max_examples=whole(5, 12))
def test_unions_stay_within_epsilon_at_random_hull_pairs(
    parts: list[tuple[int, int]], sensitivity: int, epsilon: float
) -> None:
    domain = Domain.from_pieces([(a, a + w) for a, w in parts])
    m = BoundedLaplace.calibrate(domain, sensitivity=sensitivity, epsilon=epsilon)
    low, high = domain.hull
    distance = min(float(sensitivity), high - low)
    for q in np.linspace(low, high - distance, whole(9, 23)).tolist():
        assert float(reference.pair_loss(domain.pieces, q, q + distance, m.scale)) <= epsilon


class TestOnGrid:
    def test_the_certificate_holds_the_requested_epsilon(self) -> None:
        law = BoundedLaplace.calibrate(GAPPED, sensitivity=0.5, epsilon=1).on_grid(step=0.01)
        assert law.certificate.epsilon_upper == 1
        values = law.draw(np.array([[0.0, 5.0], [12.0, INF]]))
        assert values.shape == (2, 2)
        assert GAPPED.contains(values).all()
        assert isinstance(law.draw(3), float)
        assert sum(law.pmf(5.0).values()) == 1
        assert law.to_json()["step"] == "1/100"

    def test_rounding_to_the_grid_is_decimal_and_half_up(self) -> None:
        law = BoundedLaplace.calibrate(GAPPED, sensitivity=0.5, epsilon=1).on_grid(step=0.1)
        assert law.rounded(0.35) == 4
        assert law.rounded(0.349) == 3
        assert law.rounded(-INF) == 0
        assert law.rounded(99) == 120

    def test_a_nan_answer_is_refused_without_showing_it(self) -> None:
        law = BoundedLaplace.calibrate(GAPPED, sensitivity=0.5, epsilon=1).on_grid(step=1)
        with pytest.raises(ArgumentError):
            law.draw(math.nan)

    def test_a_mechanism_built_from_its_scale_needs_a_sensitivity(self) -> None:
        m = BoundedLaplace(GAPPED, scale=1)
        with pytest.raises(ArgumentError) as caught:
            m.on_grid(step=0.1)
        assert caught.value.code == "DPR686"
        law = m.on_grid(step=0.01, sensitivity=0.5)
        assert law.certificate.epsilon_upper <= exact(m.loss(sensitivity=0.5) * (1 + 1e-9))

    def test_delta_has_no_pure_grid_law(self) -> None:
        m = BoundedLaplace.calibrate(Domain(0, 1), sensitivity=0.5, epsilon=1, delta=0.01)
        with pytest.raises(ArgumentError):
            m.on_grid(step=0.1)


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0},
        {"epsilon": -1},
        {"epsilon": math.nan},
        {"epsilon": INF},
        {"epsilon": "much"},
        {"sensitivity": 0},
        {"sensitivity": -2},
        {"sensitivity": math.nan},
        {"sensitivity": "1e350"},
        {"epsilon": "1e-350"},
        {"delta": 1},
        {"delta": -0.1},
        {"rule": "guess"},
        {"answers": "inside"},
        {"rule": "croft", "delta": 0.1},
    ],
    ids=str,
)
def test_invalid_arguments_are_refused_with_a_fix(change: dict[str, Any]) -> None:
    good: dict[str, Any] = {"sensitivity": 1, "epsilon": 1}
    with pytest.raises(ArgumentError) as caught:
        BoundedLaplace.calibrate(Domain(0, 10), **(good | change))
    assert caught.value.fix


def test_more_invalid_arguments() -> None:
    m = BoundedLaplace(GAPPED, scale=1)
    for location in (-0.1, 12.1, math.nan, INF):
        with pytest.raises(ArgumentError) as caught:
            m.pdf(1, location)
        assert caught.value.code == "DPR630"
    bad: Any = (0, 1)
    with pytest.raises(ArgumentError, match="Domain"):
        BoundedLaplace(bad, scale=1)
    with pytest.raises(ArgumentError):
        BoundedLaplace(GAPPED, scale=0)
    with pytest.raises(ArgumentError, match="positive width"):
        BoundedLaplace(Domain(3, 3), scale=1)
    with pytest.raises(ArgumentError, match="one interval only"):
        BoundedLaplace.calibrate(GAPPED, sensitivity=1, epsilon=1, rule="holohan")
    for arrays in ((1, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, math.nan), (math.nan, 1, 1, 1)):
        with pytest.raises(ArgumentError) as caught:
            bounded_laplace_scale(*arrays)
        assert caught.value.code == "DPR635"
