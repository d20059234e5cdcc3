"""Divergences of bounded Laplace noise: all admissible pairs, tiny values, outward rounding."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from dprelease import Domain
from dprelease.mechanisms import BoundedLaplace
from dprelease.mechanisms.calibration import laplace_loss
from dprelease.mechanisms.calibration.laplace_delta import hockey
from dprelease.mechanisms.calibration.laplace_loss import LossView
from dprelease.mechanisms.calibration.laplace_pairs import domain_runs
from tests.reference import laplace as reference
from tests.sizes import whole

GAPPED = [(0.0, 1.0), (1.5, 2.5)]


def found(pieces: list[tuple[float, float]], q: float, r: float, b: float, e: float) -> float:
    view = LossView(Domain.from_pieces(pieces), "hull")
    return float(view._hockey(np.array([q]), np.array([r]), b, e)[0])


@pytest.mark.parametrize(
    ("pieces", "sensitivity", "scale", "epsilon"),
    [
        (GAPPED, 0.2, 0.3, 0.3),
        (GAPPED, 0.3, 0.2, 0.8),
        (GAPPED, 0.6, 0.5, 0.3),
        ([(0.0, 0.1), (0.4, 0.5), (0.9, 2.0)], 0.45, 0.4, 0.2),
    ],
)
def test_answers_in_the_domain_are_all_admissible_pairs(
    pieces: list[tuple[float, float]], sensitivity: float, scale: float, epsilon: float
) -> None:
    domain = Domain.from_pieces(pieces)
    m = BoundedLaplace(domain, scale=scale, answers="domain")
    delta = m.delta(epsilon=epsilon, sensitivity=sensitivity)
    points = np.array([k / 100 for k in range(251) if any(a <= k / 100 <= c for a, c in pieces)])
    q, r = (v.ravel() for v in np.meshgrid(points, points))
    near = (q < r) & (r - q <= sensitivity + 1e-12)
    brute = float(LossView(domain, "domain")._hockey(q[near], r[near], scale, epsilon).max())
    assert brute * (1 - 1e-9) <= delta <= brute * 1.02
    assert delta <= BoundedLaplace(domain, scale=scale).delta(
        epsilon=epsilon, sensitivity=sensitivity
    )


def test_ends_of_pieces_alone_would_understate() -> None:
    """The control: the worst pair lies inside a piece, where the pure loss has no candidate."""
    domain = Domain.from_pieces(GAPPED)
    ends = max(found(GAPPED, q, q + 0.2, 0.3, 0.3) for q in (0.0, 0.8, 1.5, 2.3))
    m = BoundedLaplace(domain, scale=0.3, answers="domain")
    assert m.delta(epsilon=0.3, sensitivity=0.2) > 1.15 * ends


def test_calibration_inside_the_domain_holds_for_every_pair() -> None:
    domain = Domain.from_pieces(GAPPED)
    m = BoundedLaplace.calibrate(domain, sensitivity=0.2, epsilon=0.5, delta=1e-2, answers="domain")
    few = whole(60, 200)
    starts = np.concatenate([np.linspace(0, 0.8, few), np.linspace(1.5, 2.3, few)])
    for q in starts.tolist():
        assert found(GAPPED, q, q + 0.2, float(m.scale), 0.5) <= 1e-2 * (1 + 1e-9)


def test_runs_are_exact() -> None:
    domain = Domain(0, 1, forbidden=[("0.3", "0.7")])
    # From 0.0 .. 0.3 to 0.7 .. 1.0, ends included: decided on exact numbers, not floats.
    assert domain_runs(domain.exact_pieces, Fraction(7, 10)) == [(0.0, 0.3)]


@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9])
def test_just_below_the_loss_the_value_is_tiny_and_right(gap: float) -> None:
    """About gap^2: a difference of two probabilities would have no digit left."""
    pieces, q, r, b = GAPPED, 0.4, 0.7, 0.3
    with mp.workdps(60):
        masses = [reference.exact_mass(pieces, mp.mpf(v), mp.mpf(b)) for v in (q, r)]
        z = mp.mpf(r) - mp.mpf(q)
        loss = float(z / mp.mpf(b) + abs(mp.log(masses[1] / masses[0])))
        value = float(reference.pair_hockey_stick(pieces, q, r, b, loss - gap))
    ours = found(pieces, q, r, b, loss - gap)
    assert ours >= value
    assert ours <= value * (1 + 1e-12 + 1e-13 / gap)
    assert found(pieces, q, r, b, loss * (1 + 1e-12)) == 0


def test_rounded_outward() -> None:
    pick = np.random.default_rng(5)
    with mp.workdps(40):
        for _ in range(60):
            q, r = sorted(pick.uniform(0, 2.5, 2).tolist())
            b, e = float(10 ** pick.uniform(-1.5, 1)), float(10 ** pick.uniform(-2, 1))
            value = float(reference.pair_hockey_stick(GAPPED, q, r, b, e))
            ours = found(GAPPED, q, r, b, e)
            assert ours >= value * (1 - 1e-15)
            if value > 1e-8:
                assert ours == pytest.approx(value, rel=1e-7)


def test_infinite_ends_and_far_locations() -> None:
    domain = Domain.from_pieces([(-math.inf, 0.0), (1.0, math.inf)])
    q, r = np.array([-900.0, 0.2]), np.array([-899.0, 0.9])
    ratio = LossView(domain, "hull")._log_ratio(q, r, 1.0)
    out = hockey(domain, q, r, 1.0, 0.5, ratio)
    assert out[0] == pytest.approx(1 - math.exp((0.5 - 1) / 2), rel=1e-9)
    assert 0 < out[1] < 1


LEAST = [
    ([(0.0, 1.0)], Fraction(33, 100), Fraction(4, 5), 1.1e-5),
    ([(0.0, 0.4), (1.3, 2.7), (4.9, 6.3), (8.4, 10.0)], Fraction(5), Fraction(14, 5), 1.4e-6),
    ([(0.0, 1.0), (1.5, 2.5)], Fraction(6, 5), Fraction(1, 2), 1e-2),
    ([(0.0, math.inf)], Fraction(1), Fraction(1), 1e-4),
]


def excess(
    m: BoundedLaplace, sensitivity: Fraction, epsilon: Fraction, delta: float
) -> tuple[bool, bool]:
    """Return whether the scale holds, and whether one less by a millionth would too."""
    smaller = BoundedLaplace(m.domain, scale=m.scale * (1 - 1e-6))
    first, second = (law.delta(epsilon=epsilon, sensitivity=sensitivity) for law in (m, smaller))
    return first <= delta, second <= delta


@pytest.mark.parametrize(("pieces", "sensitivity", "epsilon", "delta"), LEAST)
def test_no_scale_that_is_less_by_a_millionth_holds(
    pieces: list[tuple[float, float]], sensitivity: Fraction, epsilon: Fraction, delta: float
) -> None:
    domain = Domain.from_pieces(pieces)
    m = BoundedLaplace.calibrate(domain, sensitivity=sensitivity, epsilon=epsilon, delta=delta)
    assert excess(m, sensitivity, epsilon, delta) == (True, False)


def test_twin_that_never_adds_the_worst_place_is_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes alone miss the worst pair; widening what they give until it holds goes too far."""
    monkeypatch.setattr(laplace_loss, "_WORST_PLACES", 1)
    pieces, sensitivity, epsilon, delta = LEAST[0]
    domain = Domain.from_pieces(pieces)
    m = BoundedLaplace.calibrate(domain, sensitivity=sensitivity, epsilon=epsilon, delta=delta)
    assert excess(m, sensitivity, epsilon, delta) == (True, True)
