"""Rounded normal cells: rho by exact Renyi sums, how near they are to the law, draws against it, both samplers."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from dprelease.audit.sampler import noise_fit
from dprelease.budget.normal import NEAR
from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import ArgumentError
from dprelease.mechanisms.forms.vector import GaussianCells
from dprelease.mechanisms.kernels.gaussian import wide_draws
from tests.sizes import some


def noise(square: int | Fraction, l2: int = 1) -> GaussianCells:
    """Return rounded normal noise of this square and a little more."""
    return GaussianCells.calibrate(l2, l2 / (2 * Fraction(square)))


def chances(scale: float, far: int) -> dict[int, mp.mpf]:
    """Return P(-far), ..., P(far) of a normal draw rounded to the nearest integer."""
    with mp.workdps(60):
        half, s = mp.mpf(1) / 2, mp.mpf(scale)
        beyond = [mp.erfc((k - half) / (s * mp.sqrt(2))) / 2 for k in range(far + 2)]
        found = [beyond[k] - beyond[k + 1] for k in range(far + 1)]
        return {k: found[abs(k)] for k in range(-far, far + 1)}


@pytest.mark.parametrize(
    ("square", "change", "alpha"),
    some(product([1, 4, 30], [(1, 0), (2, 1), (3, 3)], [1.01, 2.0, 7.5]), 4),
)
def test_the_renyi_divergence_of_a_vector_is_at_most_rho_alpha(
    square: int, change: tuple[int, int], alpha: float
) -> None:
    cells = noise(square, sum(k * k for k in change))
    far, total = 12 * math.isqrt(square) + 40, mp.mpf(0)
    at = chances(math.sqrt(cells.square), far)
    with mp.workdps(60):
        for k in change:  # independent cells: divergences add up
            s = sum(
                at[d] ** mp.mpf(alpha) * at[d - k] ** (1 - mp.mpf(alpha))
                for d in range(k - far, far + 1)
            )
            total += mp.log(s) / (mp.mpf(alpha) - 1)
    claim = float(cells.rho) * alpha
    assert float(total) <= claim * (1 + 1e-12)
    assert float(total) > claim * 0.5  # the control: it is not a vacuous bound


@pytest.mark.parametrize("square", [Fraction(4, 3), Fraction(7), Fraction(10**15, 3)])
def test_what_is_drawn_lies_as_near_to_rounded_normal_noise_as_is_said(square: Fraction) -> None:
    """Every weight of the finer grid beside the integral over its step, out to 40 scales, in 90 digits."""
    cells = noise(square)
    fine = cells.square * 4**cells.bits
    scale = math.isqrt(int(fine))
    with mp.workdps(90):
        s = mp.sqrt(mp.mpf(fine.numerator) / fine.denominator)
        whole = mp.sqrt(2 * mp.pi) * s  # of all weights, but for e^(-2 pi^2 fine)
        furthest = mp.mpf(0)
        for z in [*range(0, 41, 4)]:
            j = mp.mpf(z * scale)
            drawn = mp.exp(-(j**2) / (2 * s**2)) / whole
            ends = [
                mp.erfc((j + side) / (s * mp.sqrt(2))) for side in (-mp.mpf(1) / 2, mp.mpf(1) / 2)
            ]
            within = (ends[0] - ends[1]) / 2
            furthest = max(furthest, abs(mp.log(drawn / within)))
        room = mp.mpf(NEAR.numerator) / NEAR.denominator
        most = fine / 2**68  # so many cells
        assert furthest * (mp.mpf(most.numerator) / most.denominator) <= room
        assert furthest * 2**14 * (mp.mpf(most.numerator) / most.denominator) > room
    assert cells.rounded(2**24)
    many = noise(Fraction(2**50), 2**40)
    assert many.rounded(2**24)
    assert not many.rounded(2**27)  # of so many cells that one unit touches


def test_noise_that_is_discrete_gaussian_is_no_rounded_normal_noise() -> None:
    assert not GaussianCells(1, Fraction(100)).rounded(1)  # as folders of 0.2.0 have it
    assert GaussianCells(1, Fraction(2**100)).rounded(1)
    assert not GaussianCells(2**110, Fraction(2**100)).rounded(1)  # too far for its scale


def test_calibration_is_the_least_scale() -> None:
    for l2, rho in ((1, Fraction(1, 50)), (90, Fraction(1, 7)), (10**12, Fraction(3, 1000))):
        cells = GaussianCells.calibrate(l2, rho)
        assert rho * (1 - Fraction(1, 2**33)) < cells.rho <= rho
    wide = GaussianCells.calibrate(1, Fraction(3, 10**30))
    assert wide.bits == 0
    assert Fraction(1) / (2 * (wide.square - 1)) > Fraction(3, 10**30)
    assert GaussianCells.calibrate(1, Fraction(5)).square == 1  # never narrower than a step


@pytest.mark.statistical
@pytest.mark.parametrize("square", [1, 9, 10**6 + 3, 10**20])
def test_draws_fit_and_a_wrong_scale_is_caught(square: int) -> None:
    drawn = noise(square).sample(20_000, ReplayBits(f"normal cells {square}"))
    edges = np.unique(np.round(stats.norm.ppf(np.linspace(0.02, 0.98, 25)) * math.sqrt(square)))
    cuts = np.concatenate([[-np.inf], edges + 0.5, [np.inf]])
    seen = np.histogram(drawn, cuts)[0]

    def p_value(scale: float) -> float:
        return float(stats.chisquare(seen, np.diff(stats.norm.cdf(cuts / scale)) * 20_000).pvalue)

    scale = math.sqrt(square)
    assert p_value(scale) > 1e-6
    assert p_value(scale * 0.9) < 1e-6
    assert p_value(scale * 1.1) < 1e-6


@pytest.mark.statistical
def test_a_discrete_gaussian_of_the_same_scale_is_told_apart() -> None:
    drawn = noise(1).sample(200_000, ReplayBits("rounded"))
    other = wide_draws(1, 200_000, ReplayBits("discrete"))
    at = chances(1.0, 6)
    expected = np.array([float(at[k]) for k in range(-4, 5)])
    expected /= expected.sum()

    def p_value(found: object) -> float:
        seen = np.array([(found == k).sum() for k in range(-4, 5)])
        return float(stats.chisquare(seen, expected * seen.sum()).pvalue)

    assert p_value(drawn) > 1e-6
    assert p_value(other) < 1e-6


@pytest.mark.parametrize("bits", some([100, 104, 300], 2))
def test_huge_scales_are_drawn(bits: int) -> None:
    cells = noise(2**bits)
    assert cells.bits == 0
    drawn = cells.sample(300, ReplayBits("huge"))
    assert 0.8 < drawn.astype(float).std() / 2 ** (bits // 2) < 1.2
    assert len(set(drawn % 2)) == 2
    assert noise_fit(cells, 5000, ReplayBits("huge")) > 1e-6


@pytest.mark.parametrize("square", [1, 2, 9, 401, 10**8])
def test_moments_and_quantiles(square: int) -> None:
    cells = noise(square)
    scale = math.sqrt(square)
    if square <= 401:
        at = chances(scale, 12 * int(scale + 1))
        assert cells.variance() == pytest.approx(
            float(sum(k * k * p for k, p in at.items())), rel=1e-6
        )
        for level in (0.5, 0.95, 0.999):
            k = cells.quantile(level)
            assert sum(p for d, p in at.items() if abs(d) <= k) >= level
            assert sum(p for d, p in at.items() if abs(d) < k) < level
    assert cells.quantile(0.95) == pytest.approx(1.96 * scale, abs=1.01)


@pytest.mark.parametrize(
    ("l2", "square", "bits"),
    [
        (0, Fraction(5), 0),
        (1, Fraction(0), 0),
        (1, Fraction(5, 3), 0),  # not a whole number, and no finer grid
        (1, Fraction(5), 46),  # no power of two over a number of few digits
        (1, Fraction(8, 2**40 - 1), 46),
        (1, Fraction(4), 40),  # not finely divided
        (1, Fraction(4), 60),  # more finely than can be drawn
        (1, Fraction(4), 10**9),
    ],
)
def test_what_cannot_be_drawn_is_refused(l2: int, square: Fraction, bits: int) -> None:
    with pytest.raises(ArgumentError):
        GaussianCells(l2, square, bits)
    with pytest.raises(ArgumentError):
        GaussianCells.calibrate(1, Fraction(0))
    with pytest.raises(ArgumentError):
        noise(5).quantile(1.0)


def test_json_round_trip() -> None:
    cells = noise(10**21, 10**20)
    assert GaussianCells.from_json(cells.to_json()) == cells
    assert Fraction(cells.evidence()["rho"]) == cells.rho <= Fraction(1, 20)
    assert "cells" in cells.describe()
    said = {
        "kind": "gaussian_cells",
        "family": "rectified_gaussian",
        "l2_square": "4",
        "square": "36",
    }
    assert GaussianCells.from_json(said) == GaussianCells(4, Fraction(36))  # as 0.2.0 wrote it
