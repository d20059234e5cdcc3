"""Noise: variances, characteristic functions and tails beside plain sums."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dprelease.intervals.noise import Gaussian, Laplace

NOISES = [Laplace(Fraction(1, 7)), Laplace(Fraction(3)), Gaussian(1), Gaussian(30)]


def law(noise):
    d = np.arange(-600, 601)
    if isinstance(noise, Laplace):
        weight = np.exp(-float(noise.rate) * np.abs(d))
    else:
        half = np.sqrt(2 * float(noise.square))
        beyond = [math.erfc(x) / 2 for x in ((np.arange(602) - 0.5) / half)]
        weight = (np.array(beyond[:-1]) - np.array(beyond[1:]))[np.abs(d)]
    return d, weight / weight.sum()


@pytest.mark.parametrize("noise", NOISES)
def test_waves_and_moments_are_those_of_the_law(noise):
    d, p = law(noise)
    assert float(noise.variance()) == pytest.approx(float((p * d**2).sum()), rel=1e-6)
    assert float(noise.variance()) >= float((p * d**2).sum()) * (1 - 1e-12)
    t = np.linspace(-9, 9, 41)
    assert noise.wave(t) == pytest.approx([float((p * np.cos(x * d)).sum()) for x in t], abs=1e-12)
    s = 0.1
    exact = math.log(float((p * np.exp(s * d)).sum()))
    assert exact <= noise.log_moments([s])[0] * (1 + 1e-9)
    assert noise.log_moments([s])[0] <= exact * 1.3 + 1e-6
    k = noise.tail(3.0)
    assert p[np.abs(d) > k].sum() <= 2 * math.exp(-3.0)


def test_a_laplace_variance_has_64_digits():
    with mpmath.workdps(60):
        r = mpmath.exp(-mpmath.mpf(1) / 7)
        exact = 2 * r / (1 - r) ** 2
        found = Laplace(Fraction(1, 7)).variance()
        assert (
            abs(mpmath.mpf(found.numerator) / found.denominator / exact - 1) < mpmath.mpf(2) ** -63
        )


def test_beyond_its_rate_a_laplace_has_no_moment():
    assert Laplace(Fraction(1, 7)).log_moments([0.2])[0] == math.inf
