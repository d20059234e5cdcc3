"""Holohan et al., the bounded Laplace mechanism: what its text overstates."""

from __future__ import annotations

import numpy as np
import pytest

from dprelease.mechanisms import BoundedLaplace
from dprelease.schema.domain import Domain
from tests.examples.scripts import paper
from tests.reference import laplace as reference

UNIT, PIECES = Domain(0, 1), ((0.0, 1.0),)


def worst_delta(scale: float, epsilon: float, sensitivity: float) -> float:
    """Return the largest hockey-stick over pairs at distance `sensitivity`, by quadrature.

    The difference p - e^epsilon q changes sign once, so a fine grid of cells is enough.
    """
    worst = 0.0
    x = (np.arange(20_000) + 0.5) / 20_000
    for q in np.linspace(0, 1 - sensitivity, 31):
        p, r = (np.exp(-np.abs(x - at) / scale) for at in (q, q + sensitivity))
        p, r = p / p.mean(), r / r.mean()
        for a, b in ((p, r), (r, p)):
            worst = max(worst, float(np.maximum(a - np.exp(epsilon) * b, 0).mean()))
    return worst


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.01), (0.5, 0.05)])
def test_the_fixed_point_is_no_lower_bound_once_delta_is_positive(
    epsilon: float, delta: float
) -> None:
    """Theorem 4.5's corollary: "any fixed point is a lower bound on all b that satisfy DP"."""
    fixed = paper("holohan").fixed_point(0.1, epsilon, delta)
    printed = BoundedLaplace.calibrate(
        UNIT, sensitivity=0.1, epsilon=epsilon, delta=delta, rule="holohan"
    ).scale
    assert printed == pytest.approx(fixed, rel=1e-9)
    smaller = BoundedLaplace.calibrate(UNIT, sensitivity=0.1, epsilon=epsilon, delta=delta).scale
    assert smaller < 0.9 * fixed
    assert worst_delta(smaller, epsilon, 0.1) <= delta * (1 + 1e-3)
    assert worst_delta(0.97 * smaller, epsilon, 0.1) > delta  # control: nothing to spare


@pytest.mark.parametrize(("sensitivity", "epsilon"), [(0.1, 1.0), (0.5, 0.1), (0.02, 4.0)])
def test_with_delta_zero_the_fixed_point_is_the_smallest_scale(
    sensitivity: float, epsilon: float
) -> None:
    fixed = paper("holohan").fixed_point(sensitivity, epsilon)
    ours = BoundedLaplace.calibrate(UNIT, sensitivity=sensitivity, epsilon=epsilon).scale
    assert ours == pytest.approx(fixed, rel=1e-11)
    assert reference.pair_loss(PIECES, 0, sensitivity, 0.999 * fixed) > epsilon
    assert reference.pair_loss(PIECES, 0, sensitivity, 1.001 * fixed) < epsilon


def test_halving_epsilon_doubles_the_scale_and_quadruples_the_variance() -> None:
    """Section 5 calls it "a doubling of the noise variance"."""
    wide, small = Domain(-(10**5), 10**5), 0.01
    one, two = (
        BoundedLaplace.calibrate(wide, sensitivity=1, epsilon=e) for e in (small, small / 2)
    )
    assert two.scale / one.scale == pytest.approx(2, rel=small)
    ratio = float(two.variance(0.0)) / float(one.variance(0.0))
    assert ratio == pytest.approx(4, rel=2 * small)
    assert ratio != pytest.approx(2, rel=0.5)
    line = [
        BoundedLaplace.calibrate(Domain(-np.inf, np.inf), sensitivity=1, epsilon=e).scale
        for e in (1, 0.5)
    ]
    assert line == pytest.approx([1, 2])
