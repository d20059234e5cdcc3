"""The worst neighbour: both signs, both directions, at the full sensitivity."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.core.errors import ArgumentError
from dprelease.diagnostics import composed_rdp, per_instance_rdp, renyi_divergence
from dprelease.mechanisms import BoundedGaussian, RectifiedGaussian, StochasticSign
from dprelease.schema.domain import Box, Domain
from tests.sizes import whole

ONE, GAP = Domain(-1, 1), Domain(0, 12, forbidden=[(4, 6)])
LAWS = [
    BoundedGaussian(ONE, scale=0.5),
    RectifiedGaussian(ONE, scale=0.5),
    StochasticSign(scale=0.5),
    BoundedGaussian(GAP, scale=1.0),
    RectifiedGaussian(GAP, scale=1.0),
]


def brute(m: object, t: float, c: float, alpha: float) -> float:
    """Every neighbour on a grid of [t - c, t + c], both directions."""
    near = t + np.linspace(-c, c, 81)
    both = (renyi_divergence(m, t, near, alpha), renyi_divergence(m, near, t, alpha))
    return max(float(np.asarray(d).max()) for d in both)


@settings(max_examples=whole(25, 60))
@given(
    st.sampled_from(range(5)), st.floats(-3, 12), st.floats(0.001, 3), st.sampled_from([1.5, 2, 8])
)
def test_the_worst_neighbour_lies_at_the_full_distance(
    which: int, t: float, c: float, alpha: float
) -> None:
    m = LAWS[which]
    got = float(per_instance_rdp(m, t, c, alpha))
    assert got == pytest.approx(brute(m, t, c, alpha), rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("which", range(3))
def test_each_of_the_four_pairs_is_needed(which: int) -> None:
    """A twin that forgets one sign or one direction is caught somewhere."""
    m, t = LAWS[which], np.linspace(-2, 2, 41)
    missed = set()
    for c, alpha in ((0.3, 2.0), (0.7, 4.0), (0.7, 2.0), (2.0, 1.5)):
        full = np.asarray(per_instance_rdp(m, t, c, alpha))
        pairs = [(t, t + c), (t, t - c), (t + c, t), (t - c, t)]
        losses = [np.asarray(renyi_divergence(m, a, b, alpha)) for a, b in pairs]
        assert full == pytest.approx(np.max(losses, axis=0), rel=1e-15)
        for left_out in range(4):
            twin = np.max([d for i, d in enumerate(losses) if i != left_out], axis=0)
            if (twin < full * (1 - 1e-6)).any():
                missed.add(left_out)
    assert missed == {0, 1, 2, 3}


def test_composition_keeps_one_direction_for_all_coordinates() -> None:
    m = RectifiedGaussian(ONE, scale=0.5)
    t = np.array([-1.5, -0.4, 0.2, 1.9])
    c, alpha = 0.5, 4.0
    out = [np.asarray(renyi_divergence(m, t, t + s * c, alpha)) for s in (1, -1)]
    back = [np.asarray(renyi_divergence(m, t + s * c, t, alpha)) for s in (1, -1)]
    expected = max(np.maximum(*out).sum(), np.maximum(*back).sum())
    got = float(composed_rdp(m, t, c, alpha))
    assert got == pytest.approx(expected, rel=1e-14)
    loose = float(np.asarray(per_instance_rdp(m, t, c, alpha)).sum())
    assert got <= loose
    # Every neighbour's joint divergence is a sum over coordinates: none exceeds the composition.
    for signs in np.ndindex(2, 2, 2, 2):
        u = t + c * (1 - 2 * np.array(signs))
        for a, b in ((t, u), (u, t)):
            assert np.asarray(renyi_divergence(m, a, b, alpha)).sum() <= got * (1 + 1e-12)


def test_composition_over_a_box_and_over_rounds() -> None:
    box = BoundedGaussian(Box([(-1, 1), (0, 12)]), scale=[0.5, 2.0])
    one, two = BoundedGaussian(ONE, scale=0.5), BoundedGaussian(Domain(0, 12), scale=2)
    t = np.array([[0.1, 3.0], [0.9, 11.0]])
    got = np.asarray(composed_rdp(box, t, [0.2, 1.0], 2.0))
    assert got.shape == (2,)
    loose = np.asarray(per_instance_rdp(one, t[:, 0], 0.2, 2.0)) + np.asarray(
        per_instance_rdp(two, t[:, 1], 1.0, 2.0)
    )
    assert (got <= loose * (1 + 1e-12)).all()
    assert (got >= loose / 2).all()


def test_no_sensitivity_no_loss() -> None:
    for m in LAWS:
        assert float(per_instance_rdp(m, 0.3, 0.0, 2.0)) == 0


def test_invalid_arguments() -> None:
    with pytest.raises(ArgumentError, match="DPR671"):
        per_instance_rdp(LAWS[0], 0.0, -0.1, 2.0)
    with pytest.raises(ArgumentError, match="DPR674"):
        composed_rdp(LAWS[0], 0.0, 0.1, 2.0)
