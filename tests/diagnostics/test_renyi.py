"""Rényi divergences against their definition, and where formulas hand over to each other."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.core.errors import ArgumentError
from dprelease.diagnostics import fisher_information_loss, renyi_divergence
from dprelease.diagnostics import renyi as source
from dprelease.diagnostics.support import supports
from dprelease.mechanisms import BoundedGaussian, RectifiedGaussian, StochasticSign
from dprelease.schema.domain import Box, Domain
from tests.reference import fisher as reference

with reference.TABLE.open(encoding="utf-8", newline="") as handle:
    ROWS = [row for row in csv.DictReader(handle) if row["quantity"] == "renyi"]
ONE, GAP = Domain(-1, 1), Domain(0, 12, forbidden=[(4, 6)])
POINT = Domain(0, 10, forbidden=[(2, 5), (5, 8)])
LAWS = [
    BoundedGaussian(ONE, scale=0.7),
    RectifiedGaussian(ONE, scale=0.7),
    StochasticSign(scale=0.7),
    BoundedGaussian(GAP, scale=1.3),
    RectifiedGaussian(GAP, scale=1.3),
    RectifiedGaussian(POINT, scale=1.3),
]
NAMES = ["truncated", "rectified", "sign", "truncated gap", "rectified gap", "rectified point"]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: "-".join(list(r.values())[1:7]))
def test_divergences_match_the_reference(row: dict[str, str]) -> None:
    numbers = [float(x) for x in row["ends"].split()]
    domain = Domain.from_pieces(list(zip(numbers[::2], numbers[1::2], strict=True)))
    scale, kind = float(row["scale"]), row["kind"]
    m = {
        "sign": lambda: StochasticSign(scale=scale),
        "truncated": lambda: BoundedGaussian(domain, scale=scale),
        "rectified": lambda: RectifiedGaussian(domain, scale=scale),
    }[kind]()
    got = renyi_divergence(m, float(row["location"]), float(row["other"]), float(row["alpha"]))
    assert float(got) == pytest.approx(float(row["value"]), rel=1e-12, abs=0)


@pytest.mark.parametrize("m", LAWS, ids=NAMES)
def test_near_and_far_formulas_agree_where_both_hold(m: object) -> None:
    view = supports(m)[0]
    t, alpha = np.linspace(-2, 12, 29), 3.0
    for c in (0.9 * view.pace / alpha, -0.9 * view.pace / alpha):
        u = t + c
        if view.conditioned:
            near = source.divergence(view, t, u, alpha)
            far = source._truncated_far(view, t, u, alpha)
        else:
            near = source._collapsed_near(view, t, u, alpha)
            far = source._collapsed_far(view, t, u, alpha)
        inside = np.abs(t) < 6  # far outside, the closed form keeps absolute digits only
        assert near[inside] == pytest.approx(far[inside], rel=1e-8, abs=1e-13)
        assert np.abs(near - far).max() < 1e-11


@pytest.mark.parametrize("m", LAWS, ids=NAMES)
@pytest.mark.parametrize("alpha", [1.5, 2.0, 32.0])
def test_a_tiny_move_costs_what_fisher_information_says(m: object, alpha: float) -> None:
    t, c = np.array([-0.8, 0.1, 0.7, 5.0]), 1e-7
    eta = np.asarray(fisher_information_loss(m, t))
    got = np.asarray(renyi_divergence(m, t, t + c, alpha))
    assert got == pytest.approx(alpha * c**2 * eta**2 / 2, rel=1e-4, abs=0)
    assert np.asarray(renyi_divergence(m, t, t, alpha)).tolist() == [0, 0, 0, 0]


@settings(max_examples=80)
@given(
    st.sampled_from(range(3)),
    st.floats(-3, 3),
    st.floats(-3, 3),
    st.floats(1.05, 40),
)
def test_bounded_support_amplifies_on_intervals(
    which: int, t: float, u: float, alpha: float
) -> None:
    m = LAWS[which]
    got = float(renyi_divergence(m, t, u, alpha))
    assert 0 <= got <= alpha * (t - u) ** 2 / (2 * 0.7**2) * (1 + 1e-9) + 1e-300


@settings(max_examples=50)
@given(st.sampled_from(range(6)), st.floats(-2, 12), st.floats(-2, 12), st.floats(1.1, 10))
def test_divergence_grows_with_the_order(which: int, t: float, u: float, alpha: float) -> None:
    m = LAWS[which]
    low, high = (float(renyi_divergence(m, t, u, a)) for a in (alpha, 1.3 * alpha))
    assert low <= high * (1 + 1e-7) + 1e-12


def test_amplification_fails_on_a_union() -> None:
    islands = BoundedGaussian(Domain(0, 10, forbidden=[(1, 9)]), scale=2)
    assert float(renyi_divergence(islands, 4.9, 5.1, 2.0)) > 4 * 2 * 0.2**2 / (2 * 2**2)


def test_everything_on_one_atom_costs_next_to_nothing_but_not_zero() -> None:
    m = RectifiedGaussian(ONE, scale=0.5)
    got = float(renyi_divergence(m, 9.0, 8.0, 2.0))
    # All but 1e-44 of both laws lies on the upper point mass.
    assert 0 < got < 1e-40
    assert float(renyi_divergence(StochasticSign(scale=0.5), 9.0, 8.0, 2.0)) > 0


def test_long_ways_do_not_overflow() -> None:
    for m in LAWS[:3]:
        got = float(renyi_divergence(m, -300.0, 400.0, 50.0))
        assert math.isfinite(got)
        assert got > 1


def test_shapes_and_boxes() -> None:
    t = np.linspace(-1, 1, 6).reshape(2, 3)
    assert renyi_divergence(LAWS[0], t, 0.0, 2.0).shape == (2, 3)
    box = BoundedGaussian(Box([(-1, 1), (0, 12)]), scale=[0.7, 2.0])
    pair = np.asarray(renyi_divergence(box, [0.1, 3.0], [0.2, 4.0], 2.0))
    assert pair[0] == float(renyi_divergence(LAWS[0], 0.1, 0.2, 2.0))


@pytest.mark.parametrize("alpha", [1, 0.5, math.inf, math.nan, "2", None])
def test_orders_not_above_one_are_refused(alpha: object) -> None:
    with pytest.raises(ArgumentError, match="DPR672"):
        renyi_divergence(LAWS[0], 0.0, 0.1, alpha)


def test_a_single_allowed_point_tells_nothing() -> None:
    m = RectifiedGaussian(Domain(3, 3), scale=0.5)
    assert float(fisher_information_loss(m, 2.0)) == 0
    assert float(renyi_divergence(m, 2.0, 2.1, 2.0)) == 0
    assert float(renyi_divergence(m, 2.0, 9.0, 2.0)) == 0


def test_a_half_line_is_a_long_interval() -> None:
    half, long = (RectifiedGaussian(Domain(0, end), scale=1.0) for end in (math.inf, 100))
    for t, u in ((0.3, 1.9), (0.3, 0.31), (2.0, 0.0)):
        near, far = (float(renyi_divergence(m, t, u, 2.0)) for m in (half, long))
        assert near == pytest.approx(far, rel=1e-12, abs=0)
    assert float(fisher_information_loss(half, 0.3)) == pytest.approx(
        float(fisher_information_loss(long, 0.3)), rel=1e-14
    )
