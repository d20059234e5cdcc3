"""Discrete Gaussian noise: exact coins, fit with a control on both sides, rho."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import ArgumentError, InternalError
from dprelease.mechanisms.kernels.gaussian import SQUARE_LIMIT, DiscreteGaussianNoise
from tests.mechanisms.plans import StuckBits


@pytest.mark.statistical
@pytest.mark.parametrize("square", [1, 2, 30, 1000])
def test_draws_fit_and_a_wrong_scale_is_caught(square: int) -> None:
    count = 20_000
    drawn = DiscreteGaussianNoise(square).sample(count, ReplayBits(f"normal {square}"))

    def excess(other: int) -> float:
        """Return the chi-square statistic in standard deviations above its mean."""
        width = max(1, math.isqrt(other) // 4)
        half = DiscreteGaussianNoise(other).weights(60 * (math.isqrt(other) + 1))
        both = np.concatenate([half[:0:-1], half])
        edge = half.size - 1
        cells = (np.arange(-edge, edge + 1) + edge) // width
        expected = count * np.bincount(cells, both)
        found = np.bincount(np.clip((drawn + edge) // width, 0, expected.size - 1),
                            minlength=expected.size)  # fmt: skip
        keep = expected > 5
        chi = ((found - expected)[keep] ** 2 / expected[keep]).sum()
        return float((chi - keep.sum()) / math.sqrt(2 * keep.sum()))

    assert excess(square) < 6
    assert excess(max(square + 1, square * 3 // 2)) > 6
    if square > 1:
        assert excess(square * 2 // 3 or 1) > 6


def test_the_acceptance_coin_is_the_gaussian_over_the_laplace() -> None:
    """P(d) proportional to e^(-|d| / t) times the coin's probability, in exact exponents."""
    for square in (1, 7, 100):
        t = math.isqrt(square) + 1
        for d in range(20):
            coin = Fraction((d * t - square) ** 2, 2 * square * t * t)
            gaussian = Fraction(d * d, 2 * square)
            assert coin + Fraction(d, t) - gaussian == Fraction(square, 2 * t * t)


def test_rho_is_exact() -> None:
    noise = DiscreteGaussianNoise(18)
    assert noise.rho(3) == Fraction(1, 4)
    assert DiscreteGaussianNoise.from_json(noise.to_json()) == noise
    assert "4.24" in noise.describe()
    for alpha in (1.5, 2.0, 10.0):  # Renyi divergence of the integer law itself
        d = np.arange(-400, 401, dtype=float)
        p, q = -(d**2) / 36, -((d - 3) ** 2) / 36
        z = np.exp(p).sum()
        value = math.log(np.exp(alpha * p + (1 - alpha) * q).sum() / z) / (alpha - 1)
        assert value <= alpha * 0.25 * (1 + 1e-9)
        assert value > alpha * 0.25 * 0.99


def test_a_square_outside_its_limits_is_refused() -> None:
    for square in (0, -1, SQUARE_LIMIT + 1):
        with pytest.raises(ArgumentError) as caught:
            DiscreteGaussianNoise(square)
        assert caught.value.code == "DPR624"


@pytest.mark.parametrize("byte", [0, 255])
def test_a_stuck_source_releases_nothing_or_ends(byte: int) -> None:
    outcome = None
    try:
        outcome = DiscreteGaussianNoise(9).sample(3, StuckBits(byte)).shape
    except InternalError as problem:
        outcome = problem.code
    assert outcome in ((3,), "DPR904")
