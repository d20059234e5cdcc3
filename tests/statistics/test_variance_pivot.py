"""Quantiles against the scalar form and sampling; intervals that cover and are shorter than a box."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import numpy.typing as npt
import pytest

from dprelease.core.entropy import ReplayBits
from dprelease.mechanisms.forms.vector import CellNoise, GaussianCells
from dprelease.statistics.cells import bernstein_variance_box
from dprelease.statistics.variance_pivot import quantiles, variance_interval

K = 20
GROUPS = 4_000


def exact(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.array([((K - codes) ** 2).sum(), (2 * codes * (K - codes)).sum(), (codes**2).sum()])


def beyond(weights: list[float], z: float) -> float:
    """Return P(|S w_i X_i| > z) for different weights: partial fractions, in 60 digits."""
    with mpmath.workdps(60):
        square = [mpmath.mpf(w) ** 2 for w in weights]
        parts = [
            mpmath.fprod(s / (s - t) for j, t in enumerate(square) if j != i)
            * mpmath.exp(-z / mpmath.mpf(w))
            for i, (w, s) in enumerate(zip(weights, square, strict=True))
        ]
        return float(mpmath.fsum(parts))


def test_rows_of_weights_have_the_level_that_is_asked() -> None:
    random = np.random.default_rng(4)
    weights = random.uniform(0.01, 1, (40, 3))
    got = quantiles(weights, 0.95)
    for row, z in zip(weights, got, strict=True):
        assert 0.05 * (1 - 1e-3) <= beyond(row.tolist(), float(z)) <= 0.05
    # equal weights and zeros only lengthen
    for row in ([1.0, 1.0, 1.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]):
        z = quantiles(np.array([row]), 0.95)[0]
        draws = np.abs(random.laplace(size=(400_000, 3)) @ row)
        assert float(np.quantile(draws, 0.947)) <= z <= float(np.quantile(draws, 0.953))


@pytest.mark.statistical
@pytest.mark.parametrize("rows", [3, 60, 2_000])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(5)])
def test_the_interval_covers_and_is_shorter_than_the_box(rows: int, epsilon: Fraction) -> None:
    codes = np.round(np.random.default_rng(rows).beta(2, 4, rows) * K).astype(np.int64)
    noise = CellNoise.calibrate(K * K, epsilon)
    bits = ReplayBits(f"variance {rows} {epsilon}")
    raw = (exact(codes) + noise.sample(3 * GROUPS, bits).reshape(-1, 3)).astype(float)
    scale, truth = float(noise.scale), float((codes / K).var())
    low, high = variance_interval(raw, scale, 0.95)
    assert ((low >= 0) & (low <= high) & (high <= 0.25)).all()
    share = ((low <= truth) & (truth <= high)).mean()
    assert share >= 0.95 - 5 * np.sqrt(0.95 * 0.05 / GROUPS)
    half = noise.quantile(1 - 0.05 / 3)
    left, right = bernstein_variance_box(raw - half, raw + half)
    if rows == 2_000:
        assert (high - low).mean() < 0.6 * (right - left).mean()
        # the twin: half the scale does not cover
        low, high = variance_interval(raw, scale / 2, 0.95)
        assert ((low <= truth) & (truth <= high)).mean() < 0.9


@pytest.mark.statistical
def test_the_interval_covers_under_gaussian_noise() -> None:
    codes = np.round(np.random.default_rng(5).beta(2, 4, 500) * K).astype(np.int64)
    noise = GaussianCells.calibrate(K**4, Fraction(1, 20))
    raw = exact(codes) + noise.sample(3 * GROUPS, ReplayBits("normal")).reshape(-1, 3)
    truth = float((codes / K).var())
    low, high = variance_interval(raw.astype(float), noise.scale, 0.95, gaussian=True)
    assert ((low <= truth) & (truth <= high)).mean() >= 0.95 - 5 * np.sqrt(0.95 * 0.05 / GROUPS)
    assert (high - low).mean() < 0.2


def test_noise_alone_gives_the_whole_range_or_a_point_inside_it() -> None:
    raw = np.array(
        [[0.0, 0, 0], [-5e4, 1, 2], [-1e9, -1e9, -1e9], [1e9, 0, 0], [0, 0, 1e9], [5e8, 0, 5e8]]
    )
    low, high = variance_interval(raw, 400.0, 0.95)
    assert ((low >= 0) & (low <= high) & (high <= 0.25)).all()
    assert low[0] == 0
    assert high[0] == 0.25
    assert high[3] < 1e-4
    assert high[4] < 1e-4
    assert low[5] > 0.249


def test_groups_side_by_side_have_the_intervals_that_each_has_alone() -> None:
    """Few groups meet all cells of the mean at once, many meet them part by part: no bit differs."""
    random = np.random.default_rng(8)
    one = random.dirichlet([1, 1, 1], 7) * random.integers(0, 4_000, (7, 1))
    raw = np.round(np.concatenate([one, [[0, 0, 0], [-9, 2, 1], [5, -80, 60]]]))
    alone = [variance_interval(row[None], 20.0, 0.95) for row in raw]
    for times in (1, 300):
        together = variance_interval(np.tile(raw, (times, 1)), 20.0, 0.95)
        for end, each in zip(together, zip(*alone, strict=True), strict=True):
            assert np.array_equal(end, np.tile(np.concatenate(each), times))
