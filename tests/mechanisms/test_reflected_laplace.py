"""The continuous law: loss, curves against images and quadrature, calibration, twins."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.core.errors import ArgumentError
from dprelease.mechanisms import BoundedLaplace, ReflectedLaplace
from dprelease.schema.domain import Domain

INF = math.inf
TEN = Domain(0, 10)


def log_cosh_loss(width: float, sensitivity: float, scale: float) -> float:
    return math.log(math.cosh(width / scale)) - math.log(math.cosh((width - sensitivity) / scale))


@given(st.floats(0.01, 1), st.floats(0.01, 20), st.sampled_from([1e-3, 1.0, 1e6]), st.floats(0, 1))
@settings(max_examples=60)
def test_the_loss_is_the_largest_log_ratio_and_calibration_spends_it(
    part: float, epsilon: float, width: float, where: float
) -> None:
    sensitivity = part * width
    domain = Domain(0, width)
    m = ReflectedLaplace.calibrate(domain, sensitivity=sensitivity, epsilon=epsilon)
    loss = m.loss(sensitivity=sensitivity)
    assert loss <= epsilon
    assert loss == pytest.approx(epsilon, rel=1e-10)
    assert m.scale <= sensitivity / epsilon * (1 + 1e-12)  # never wider than plain Laplace noise
    x = np.linspace(0, width, 201)
    q = where * (width - sensitivity)
    with np.errstate(divide="ignore"):
        here, there = np.log(m.pdf(x, q)), np.log(m.pdf(x, min(q + sensitivity, width)))
    sound = (here > -600) & (there > -600)  # beyond, doubles are too coarse
    assert np.abs(here[sound] - there[sound]).max() <= epsilon * (1 + 1e-9) + 1e-9
    if width / m.scale < 300:
        assert loss == pytest.approx(log_cosh_loss(width, sensitivity, m.scale), rel=1e-6, abs=1e-9)
        ends = np.log(m.pdf(x, 0.0)) - np.log(m.pdf(x, sensitivity))
        assert np.abs(ends).max() == pytest.approx(loss, rel=1e-6, abs=1e-9)  # attained


def test_the_density_is_the_sum_of_all_mirror_images() -> None:
    m = ReflectedLaplace(TEN, scale=4)
    x = np.linspace(0, 10, 41)
    for q in (0.0, 3.0, 10.0):
        images = np.zeros(x.size)
        for k in range(-40, 41):
            for place in (20 * k + x, 20 * k - x):
                images += np.exp(-np.abs(place - q) / 4) / 8
        assert m.pdf(x, q) == pytest.approx(images, rel=1e-12)


@pytest.mark.parametrize("domain", [TEN, Domain(-3, INF), Domain(-INF, 5), Domain(-INF, INF)])
@pytest.mark.parametrize("scale", [0.7, 30.0])
def test_curves_agree_with_each_other(domain: Domain, scale: float) -> None:
    m = ReflectedLaplace(domain, scale=scale)
    low, high = domain.hull
    x = np.linspace(max(low, -60 * scale), min(high, 60 * scale), 400_001)
    for q in (2.0, 4.5):
        p = m.pdf(x, q)
        mean = np.trapezoid(p * x, x)
        assert np.trapezoid(p, x) == pytest.approx(1, abs=1e-6)
        assert float(m.mean(q)) == pytest.approx(mean, abs=1e-5 * scale)
        assert float(m.variance(q)) == pytest.approx(np.trapezoid(p * (x - mean) ** 2, x), rel=1e-5)
        for i in (100_000, 150_000, 300_000):
            assert float(m.cdf(x[i], q)) == pytest.approx(
                np.trapezoid(p[: i + 1], x[: i + 1]), abs=1e-6
            )
        assert 0 < float(m.mass(q)) <= 1
    assert m.cdf(INF, 2.0) == 1
    assert m.pdf(INF, 2.0) == 0


def test_wide_noise_becomes_uniform_without_cancellation() -> None:
    m = ReflectedLaplace(TEN, scale=1e7)
    assert float(m.variance(3.0)) == pytest.approx(100 / 12, rel=1e-6)
    assert float(m.mean(0.0)) == pytest.approx(5, rel=1e-6)
    assert m.cdf(np.array([-1.0, 0.0, 2.5, 10.0, 11.0]), 3.0) == pytest.approx([0, 0, 0.25, 1, 1])


def test_reflection_is_more_accurate_than_bounded_laplace_for_small_sensitivities() -> None:
    for sensitivity in (0.1, 1, 2):
        ours = ReflectedLaplace.calibrate(TEN, sensitivity=sensitivity, epsilon=1)
        bounded = BoundedLaplace.calibrate(TEN, sensitivity=sensitivity, epsilon=1)
        assert float(ours.variance(5.0)) < float(bounded.variance(5.0))


class TestBrokenTwins:
    def test_a_scale_slightly_below_the_calibrated_one(self) -> None:
        m = ReflectedLaplace.calibrate(TEN, sensitivity=3, epsilon=1)
        assert ReflectedLaplace(TEN, scale=m.scale * (1 - 1e-9)).loss(sensitivity=3) > 1

    def test_the_loss_of_the_middle_of_the_interval(self) -> None:
        """Calibrating where the noise is hardly reflected understates the loss at the ends."""
        wide = ReflectedLaplace(TEN, scale=5)
        x = np.linspace(0, 10, 101)
        middle = np.abs(np.log(wide.pdf(x, 4.0)) - np.log(wide.pdf(x, 6.0))).max()
        assert middle < 0.9 * wide.loss(sensitivity=2)


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda: ReflectedLaplace(Domain(0, 9, [(2, 3)]), scale=1), "DPR680"),
        (lambda: ReflectedLaplace(Domain(1, 1), scale=1), "DPR680"),
        (lambda: ReflectedLaplace(TEN, scale=0), "DPR606"),
        (lambda: ReflectedLaplace((0, 1), scale=1), "DPR629"),  # type: ignore[arg-type]
        (lambda: ReflectedLaplace.calibrate(TEN, sensitivity=1, epsilon=0), "DPR606"),
        (lambda: ReflectedLaplace(TEN, scale=1).on_grid(step=1), "DPR686"),
        (lambda: ReflectedLaplace(TEN, scale=1).cdf(1, 99.0), "DPR630"),
        (
            lambda: ReflectedLaplace(Domain(0, INF), scale=1).on_grid(step=1, sensitivity=1),
            "DPR603",
        ),
    ],
)
def test_invalid_arguments_are_refused_with_a_fix(build: object, code: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        build()  # type: ignore[operator]
    assert caught.value.code == code
    assert caught.value.fix


def test_on_grid_is_certified_at_the_requested_epsilon() -> None:
    m = ReflectedLaplace.calibrate(TEN, sensitivity=1, epsilon=1)
    unit = m.on_grid(step=Fraction(1, 100))
    assert unit.certificate.epsilon_upper <= 1
    assert TEN.contains(unit.draw(np.linspace(-1, 11, 99))).all()
    by_scale = ReflectedLaplace(TEN, scale=2).on_grid(step=1, sensitivity=1)
    assert by_scale.certificate.epsilon_upper <= Fraction(1, 2)
