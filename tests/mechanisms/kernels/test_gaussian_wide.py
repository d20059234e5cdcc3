"""The exponents add up exactly; draws fit, with a control on both sides; no product overflows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import InternalError
from dprelease.mechanisms.kernels.gaussian_wide import WideGaussianNoise
from tests.mechanisms.plans import StuckBits
from tests.sizes import FULL, whole

NOISES = [WideGaussianNoise(p, m) for p, m in ((2**33, 40), (2**34 - 1, 41), (3 * 2**32, 90))]


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_the_coins_of_a_block_multiply_to_the_weight(noise: WideGaussianNoise) -> None:
    b, n = noise.block
    a = Fraction(noise.p, 1 << n)
    assert Fraction(1, 128) <= a < Fraction(1, 32)
    assert a == noise.rate * 4**b
    for h in (0, 1, 7, 8, 40, 500):
        first = noise.p * h * h + (1 << (n - 1)) - (h << (n - 3))
        assert first >= 0
        for r in (0, (1 << b) // 3, (1 << b) - 1):
            f, d = Fraction(r, 1 << b), (h << b) + r
            total = Fraction(h, 8) + Fraction(first, 1 << n) + a * f * (2 * h + f)
            assert total == noise.rate * d * d + Fraction(1, 2)


def test_a_lost_half_would_be_a_probability_above_one() -> None:
    """The control: without + 1/2 the exponent of the coin is negative for the middle blocks."""
    noise = NOISES[0]
    _, n = noise.block
    assert min(noise.p * h * h - (h << (n - 3)) for h in range(64)) < 0


def fit(noise: WideGaussianNoise, other: float, flat: bool) -> float:
    """Return the p-value of draws on +-span against scale times `other`."""
    scale = float(1 / (2 * noise.rate)) ** 0.5
    count, span = 30_000, int(scale * (1 if flat else 5))
    bits = ReplayBits(f"wide {noise.p} {noise.m} {flat}")
    if flat:
        y = bits_uniform(span, count, bits)
        d = y[noise.keep_uniform(y, span, bits)]
        cdf = stats.truncnorm(0, span / (scale * other), scale=scale * other).cdf
    else:
        _, d = noise.attempt_block(count, span, bits)
        d = d[np.abs(d) <= span]
        cdf = stats.truncnorm(
            -span / (scale * other), span / (scale * other), scale=scale * other
        ).cdf
    # Blur single steps: the law is of integers.
    u = (bits_uniform(10**6, d.size, bits) - 5e5) / 1e6
    return float(stats.kstest(np.abs(d + u) if flat else d + u, cdf).pvalue)


def bits_uniform(span: int, count: int, bits: ReplayBits) -> np.ndarray:
    from dprelease.core.entropy import uniform_below

    return uniform_below(span + 1, count, bits)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("m", "flat"),
    [(m, flat) for m in (50, 90, 120) for flat in ((False, True) if FULL else (m == 90,))],
)
def test_draws_fit_and_a_wrong_scale_is_caught(m: int, flat: bool) -> None:
    noise = WideGaussianNoise(11 * 2**30, m)
    assert fit(noise, 1.0, flat) > 1e-6
    assert fit(noise, 0.8, flat) < 1e-6
    assert fit(noise, 1.25, flat) < 1e-6


@pytest.mark.statistical
def test_small_draws_fit_point_by_point() -> None:
    """A scale of 6 steps, every integer counted; dropping the rule for minus zero shows."""
    noise = WideGaussianNoise(2**33, 40)
    _, d = noise.attempt_block(whole(60_000, 200_000), 60, ReplayBits("points"))
    points = np.arange(-14, 15)
    weight = np.exp(-float(noise.rate) * points**2)
    found = np.array([(d == k).sum() for k in points])
    chi = stats.chisquare(found, weight / weight.sum() * found.sum()).pvalue
    assert chi > 1e-6
    twice = weight * np.where(points == 0, 2, 1)
    assert stats.chisquare(found, twice / twice.sum() * found.sum()).pvalue < 1e-6


def test_the_widest_noise_stays_inside_int64() -> None:
    noise = WideGaussianNoise(2**33, 33 + 1 + 2 * 57)
    span = 2**60
    assert not noise.uniform_fits(span)
    _, d = noise.attempt_block(2000, span, ReplayBits("widest"))
    assert d.size > 200
    assert np.abs(d).max() < 2**62
    assert np.abs(d).max() > 2**57
    flat = WideGaussianNoise(2**33, 33 + 1 + 2 * 61)
    assert flat.uniform_fits(span)
    assert flat.keep_uniform(np.array([0, span]), span, ReplayBits("flat"))[0]


@pytest.mark.parametrize("byte", [0x55, 0xFF])
def test_stuck_sources_end(byte: int) -> None:
    """Attempts are finite loops: they refuse, or keep nothing."""
    try:
        at, _ = NOISES[2].attempt_block(4, 2**40, StuckBits(byte))
    except InternalError:
        return
    assert at.size in (0, 4)


@pytest.mark.parametrize(("p", "m"), [(2**34, 60), (2**33 - 1, 60), (2**33, 39), (2**33, 401)])
def test_out_of_range(p: int, m: int) -> None:
    with pytest.raises(ValueError, match="p or m"):
        WideGaussianNoise(p, m)
