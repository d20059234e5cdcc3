"""Discrete Gaussian cells: rho by exact Renyi sums, draws against the law, both samplers."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from dprelease.audit.sampler import noise_fit
from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import ArgumentError
from dprelease.mechanisms.forms.vector import GaussianCells
from dprelease.mechanisms.kernels.gaussian_unbounded import wide_draws
from tests.sizes import some


@pytest.mark.parametrize(
    ("square", "change", "alpha"),
    some(product([1, 4, 30], [(1, 0), (2, 1), (3, 3)], [1.01, 2.0, 7.5]), 4),
)
def test_the_renyi_divergence_of_a_vector_is_at_most_rho_alpha(
    square: int, change: tuple[int, int], alpha: float
) -> None:
    cells = GaussianCells(sum(k * k for k in change), square)
    cutoff = 30 * math.isqrt(square) + 60
    total = mp.mpf(0)
    with mp.workdps(40):
        w = [mp.exp(-mp.mpf(d * d) / (2 * square)) for d in range(-cutoff - 400, cutoff + 401)]
        z = sum(w)
        at = {d: w[d + cutoff + 400] / z for d in range(-cutoff - 400, cutoff + 401)}
        for k in change:  # independent cells: divergences add up
            s = sum(
                at[d] ** mp.mpf(alpha) * at[d - k] ** (1 - mp.mpf(alpha))
                for d in range(-cutoff, cutoff)
            )
            total += mp.log(s) / (mp.mpf(alpha) - 1)
    claim = float(cells.rho) * alpha
    assert float(total) <= claim * (1 + 1e-12)
    assert float(total) > claim * 0.5 or square == 1  # the control: it is not a vacuous bound


def test_calibration_is_the_least_scale() -> None:
    for l2, rho in ((1, Fraction(1, 50)), (90, Fraction(1, 7)), (10**12, Fraction(3, 1000))):
        cells = GaussianCells.calibrate(l2, rho)
        assert cells.rho <= rho
        assert Fraction(l2, 2 * (cells.square - 1)) > rho


@pytest.mark.statistical
@pytest.mark.parametrize("square", [9, 10**6 + 3])
def test_draws_fit_and_a_wrong_scale_is_caught(square: int) -> None:
    """Small scales take the int64 sampler, the second is forced through the wide one."""
    cells = GaussianCells(1, square)
    bits = ReplayBits(f"gaussian cells {square}")
    drawn = cells.sample(20_000, bits) if square < 100 else wide_draws(cells.square, 20_000, bits)
    edges = np.unique(np.round(stats.norm.ppf(np.linspace(0.02, 0.98, 25)) * math.sqrt(square)))

    def p_value(scale: float) -> float:
        d = np.arange(-int(40 * scale) - 2, int(40 * scale) + 3)
        w = np.exp(-(d.astype(float) ** 2) / (2 * scale**2))
        w /= w.sum()
        cuts = np.concatenate([[-np.inf], edges + 0.5, [np.inf]])
        expected = np.histogram(d, cuts, weights=w)[0] * drawn.size
        seen = np.histogram(drawn, cuts)[0]
        return float(stats.chisquare(seen, expected).pvalue)

    scale = math.sqrt(square)
    assert p_value(scale) > 1e-6
    assert p_value(scale * 0.9) < 1e-6
    assert p_value(scale * 1.1) < 1e-6


def test_two_samplers_draw_the_same_law_at_the_border() -> None:
    cells = GaussianCells(1, 2**24)
    small = cells.sample(4000, ReplayBits("border small"))
    wide = wide_draws(cells.square, 4000, ReplayBits("border wide"))
    assert stats.ks_2samp(small, wide).pvalue > 1e-6
    assert stats.ks_2samp(small, wide * 1.3).pvalue < 1e-6


@pytest.mark.parametrize("bits", some([100, 104, 300], 2))
def test_huge_scales_are_drawn(bits: int) -> None:
    cells = GaussianCells(1, 2**bits)
    drawn = cells.sample(300, ReplayBits("huge"))
    assert 0.8 < drawn.astype(float).std() / 2 ** (bits // 2) < 1.2
    assert len(set(drawn % 2)) == 2
    assert noise_fit(cells, 5000, ReplayBits("huge")) > 1e-6


@pytest.mark.parametrize("square", [1, 2, 9, 401, 10**8])
def test_moments_and_quantiles(square: int) -> None:
    cells = GaussianCells(1, square)
    scale = math.sqrt(square)
    if square <= 401:
        d = np.arange(-60 * int(scale + 1), 60 * int(scale + 1) + 1)
        w = np.exp(-(d.astype(float) ** 2) / (2 * square))
        w /= w.sum()
        assert cells.mean_abs() == pytest.approx(float((np.abs(d) * w).sum()), rel=1e-3)
        assert cells.variance() == pytest.approx(float((d * d * w).sum()), rel=1e-6)
        for level in (0.5, 0.95, 0.999):
            k = cells.quantile(level)
            assert float(w[np.abs(d) <= k].sum()) >= level
            assert float(w[np.abs(d) <= k - 3].sum()) < level
    assert cells.quantile(0.95) == pytest.approx(1.96 * scale, abs=1.01)


@pytest.mark.parametrize(("l2", "square"), [(0, 5), (1, 0)])
def test_what_cannot_be_drawn_is_refused(l2: int, square: int) -> None:
    with pytest.raises(ArgumentError):
        GaussianCells(l2, square)
    with pytest.raises(ArgumentError):
        GaussianCells.calibrate(1, Fraction(0))
    with pytest.raises(ArgumentError):
        GaussianCells(1, 5).quantile(1.0)


def test_json_round_trip() -> None:
    cells = GaussianCells(10**20, 10**21)
    assert GaussianCells.from_json(cells.to_json()) == cells
    assert Fraction(cells.evidence()["rho"]) == cells.rho == Fraction(1, 20)
    assert "cells" in cells.describe()
