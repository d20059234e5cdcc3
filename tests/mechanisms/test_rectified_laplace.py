"""Noise then nearest point: curves against quadrature, grids, arguments; both families."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import exp_lower
from dprelease.mechanisms import DiscreteLaplace, RectifiedLaplace, Staircase
from dprelease.schema.domain import Domain

GAPPED = Domain(0, 12, forbidden=[(4, 6)])
SIZES = {"sensitivity": 2, "epsilon": Fraction(3, 4)}
CONTINUOUS: list[Any] = [
    RectifiedLaplace.calibrate(GAPPED, **SIZES),
    Staircase.calibrate(GAPPED, **SIZES),
]
INF = math.inf


@pytest.mark.parametrize("m", CONTINUOUS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("q", [0.0, 1.3, 4.5, 5.0, 11.0])
def test_moments_and_mass_match_the_curves(m: Any, q: float) -> None:
    x = np.linspace(0, 12, 1_200_001)[:-1] + 0.5e-5  # midpoints: jumps fall between them
    f = m.cdf(x, q)
    mean = 12 - f.mean() * 12
    second = 144 - (2 * x * f).mean() * 12
    assert float(m.mean(q)) == pytest.approx(mean, abs=1e-4)
    assert float(m.variance(q)) == pytest.approx(second - mean**2, abs=2e-3)
    assert float(m.mass(q)) == pytest.approx(m.pdf(x, q).mean() * 12, abs=1e-4)


@pytest.mark.parametrize("m", CONTINUOUS, ids=lambda m: type(m).__name__)
def test_the_density_ratio_is_within_epsilon(m: Any) -> None:
    x = np.linspace(0, 12, 2401)
    for q in np.linspace(0, 10, 21):
        for r in (q + 0.5, q + 2.0):
            p, s = m.pdf(x, q), m.pdf(x, r)
            inside = p > 0
            assert np.abs(np.log(p[inside] / s[inside])).max() <= 0.75 + 1e-12
            for edge in (
                0.0,
                3.9,
                4.0,
                11.999,
            ):  # point masses too: through the distribution function
                assert abs(math.log(m.cdf(edge, q) / m.cdf(edge, r))) <= 0.75 + 1e-12


@pytest.mark.parametrize("m", CONTINUOUS, ids=lambda m: type(m).__name__)
def test_loss_and_calibration(m: Any) -> None:
    assert m.loss(sensitivity=2) <= 0.75
    assert m.loss(sensitivity=2) == pytest.approx(0.75)
    assert m.scale == pytest.approx(2 / 0.75)
    assert m.loss(sensitivity=4) == pytest.approx(1.5)
    assert m.loss(sensitivity=500) == pytest.approx(m.loss(sensitivity=12))  # hull caps it
    assert float(m.cdf(12, 3)) == 1
    assert float(m.cdf(-1, 3)) == 0
    assert m.cdf(4.0, 3) == m.cdf(5.0 - 1e-12, 3)  # flat in the gap


@pytest.mark.parametrize("m", CONTINUOUS, ids=lambda m: type(m).__name__)
def test_grid_laws_are_certified_and_valid(m: Any) -> None:
    law = m.on_grid(step=Fraction(1, 10))
    assert law.certificate.epsilon_upper <= Fraction(3, 4)
    values = law.draw(np.linspace(-3, 15, 400))
    assert GAPPED.contains(values).all()
    if law.certificate.ratio is not None:
        assert law.certificate.ratio <= exp_lower(Fraction(3, 4))


def test_an_unbounded_domain_has_curves_but_no_grid() -> None:
    line = Domain(-INF, INF, forbidden=[(1, 3)])
    for m in (
        RectifiedLaplace.calibrate(line, **SIZES),
        Staircase.calibrate(line, **SIZES),
    ):
        assert float(m.mean(2.0)) == pytest.approx(2.0)
        assert 0 < float(m.mass(2.0)) < 1
        assert float(m.variance(0.0)) > 0
        with pytest.raises(ArgumentError) as caught:
            m.on_grid(step=1)
        assert caught.value.code == "DPR603"


def test_a_scale_alone_needs_a_sensitivity_on_a_grid() -> None:
    m = RectifiedLaplace(GAPPED, scale=4)
    with pytest.raises(ArgumentError):
        m.on_grid(step=1)
    assert m.on_grid(step=1, sensitivity=2).certificate.epsilon_upper == Fraction(1, 2)


def test_a_staircase_needs_two_of_its_three_numbers() -> None:
    by_scale = Staircase(GAPPED, scale=4, epsilon=Fraction(1, 2))
    assert by_scale.sensitivity == 2
    assert Staircase(GAPPED, scale=4, sensitivity=2).epsilon == Fraction(1, 2)
    assert by_scale.gamma == pytest.approx(1 / (1 + math.exp(0.25)))
    for change in ({"scale": 4}, {"scale": 1, "epsilon": 1, "sensitivity": 1}):
        with pytest.raises(ArgumentError) as caught:
            Staircase(GAPPED, **change)
        assert caught.value.code == "DPR636"
    with pytest.raises(ArgumentError) as caught:
        Staircase(GAPPED, scale=4, epsilon=1, gamma=0)
    assert caught.value.code == "DPR688"


def test_the_staircase_is_more_accurate_than_laplace() -> None:
    for epsilon in (1, 3):
        stair = Staircase.calibrate(Domain(0, 100), sensitivity=2, epsilon=epsilon)
        laplace = RectifiedLaplace.calibrate(Domain(0, 100), sensitivity=2, epsilon=epsilon)
        assert float(stair.variance(50.0)) < float(laplace.variance(50.0))


def test_a_staircase_with_a_tiny_epsilon_has_no_grid_law() -> None:
    m = Staircase.calibrate(GAPPED, sensitivity=1, epsilon=Fraction(1, 10**6))
    with pytest.raises(ArgumentError) as caught:
        m.on_grid(step=1)
    assert caught.value.code == "DPR628"
    assert "is too small for it" in str(caught.value.why)


def test_numbers_that_are_no_normal_floats_are_refused() -> None:
    for change in ({"sensitivity": "1e-350"}, {"epsilon": "1e350"}):
        with pytest.raises(ArgumentError, match="out of range"):
            Staircase.calibrate(GAPPED, **(SIZES | change))
    with pytest.raises(ArgumentError, match="out of range"):
        RectifiedLaplace.calibrate(GAPPED, sensitivity="1e-350", epsilon=1)
    with pytest.raises(ArgumentError, match="out of range"):
        DiscreteLaplace.calibrate(GAPPED, sensitivity="1e350", epsilon=1)


class TestDiscreteLaplace:
    m = DiscreteLaplace.calibrate(GAPPED, sensitivity=2, epsilon=1, step=Fraction(1, 2))

    def test_curves_agree_with_each_other(self) -> None:
        x = np.arange(0, 12.5, 0.5)
        pmf = self.m.pmf(x, 3.0)
        assert pmf.sum() == pytest.approx(1)
        assert pmf[~GAPPED.contains(x)].sum() == 0
        assert self.m.cdf(7.0, 3.0) == pytest.approx(pmf[x <= 7].sum())
        assert float(self.m.mean(3.0)) == pytest.approx((x * pmf).sum())
        assert float(self.m.variance(3.0)) == pytest.approx(
            (x**2 * pmf).sum() - (x * pmf).sum() ** 2
        )
        assert self.m.pmf(0.3, 3.0) == 0

    def test_loss_counts_whole_steps(self) -> None:
        assert self.m.loss(sensitivity=2) <= 1
        assert self.m.loss(sensitivity=0.1) == pytest.approx(0.25)

    def test_the_float_scale_is_rounded_up(self) -> None:
        for kind in (DiscreteLaplace, RectifiedLaplace):
            for n in range(1, 30):
                m = kind.calibrate(Domain(0, 50), sensitivity=1, epsilon=Fraction(n, 7))
                assert Fraction(m.scale) * Fraction(n, 7) >= 1

    def test_the_grid_law_uses_its_own_step(self) -> None:
        law = self.m.on_grid(loss="squared")
        assert law.step == Fraction(1, 2)
        assert law.certificate.epsilon_upper <= 1
        assert GAPPED.contains(law.draw(np.linspace(0, 12, 99))).all()
        bare = DiscreteLaplace(GAPPED, scale=2)
        assert bare.on_grid(sensitivity=1).certificate.epsilon_upper == Fraction(1, 2)


@pytest.mark.parametrize("kind", [RectifiedLaplace, DiscreteLaplace, Staircase])
@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0},
        {"epsilon": math.nan},
        {"sensitivity": -1},
        {"sensitivity": INF},
    ],
    ids=str,
)
def test_invalid_arguments_are_refused_with_a_fix(kind: Any, change: dict[str, Any]) -> None:
    good: dict[str, Any] = {"sensitivity": 1, "epsilon": 1}
    with pytest.raises(ArgumentError) as caught:
        kind.calibrate(GAPPED, **(good | change))
    assert caught.value.fix
    with pytest.raises(ArgumentError):
        kind.calibrate((0, 1), **good)
    with pytest.raises(ArgumentError):
        kind.calibrate(GAPPED, **good).cdf(1, 99.0)
