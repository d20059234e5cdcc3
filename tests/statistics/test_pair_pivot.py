"""Intervals of covariance, correlation and variance: coverage by draws, with controls."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import numpy.typing as npt
import pytest

from dprelease.core.entropy import ReplayBits
from dprelease.intervals.few import sum_quantile
from dprelease.intervals.quotient import ratio_interval
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.statistics.pair_cells import pair_correlation
from dprelease.statistics.pair_pivot import (
    correlation_interval,
    covariance_interval,
    variance_interval,
)
from tests.sizes import whole

Floats = npt.NDArray[np.float64]
GROUPS = 1500
SCALE = 50


def rows(count: int, rho: float) -> tuple[Floats, Floats]:
    """Return two columns as shares of their ranges: a public lattice, correlated about `rho`."""
    i = np.arange(count)
    u, v = (i * 0.7548776662) % 1.0, (i * 0.5698402910) % 1.0
    return 0.1 + 0.6 * u, 0.2 + 0.7 * (rho * u + (1 - rho) * v)


def cells(s: Floats, t: Floats, side: int) -> Floats:
    """Return exact cells of 1,000 steps a row."""
    if side == 2:
        one, other = np.stack([1 - s, s]), np.stack([1 - t, t])
    else:
        one, other = (np.stack([(1 - a) ** 2, 2 * a * (1 - a), a * a]) for a in (s, t))
    return np.rint(1000 * (one @ other.T)).ravel()


def drawn(exact: Floats, label: str, groups: int = GROUPS) -> Floats:
    noise = DiscreteLaplaceNoise(Fraction(1, SCALE * 1000))
    raw = noise.sample(groups * exact.size, ReplayBits(label)).reshape(groups, -1)
    return np.asarray(exact + raw)


def truth(exact: Floats, side: int) -> tuple[float, float]:
    """Return covariance and correlation of the exact (rounded) cells."""
    c = (exact / exact.sum()).reshape(side, side)
    x = np.linspace(0, 1, side)
    s, t = c.sum(axis=1) @ x, c.sum(axis=0) @ x
    cov = float(x @ c @ x - s * t)
    one, other = c.sum(axis=1)[-1] - s * s, c.sum(axis=0)[-1] - t * t
    return cov, cov / float(np.sqrt(one * other)) if side == 3 else 0.0


def below(hits: int, level: float, groups: int = GROUPS) -> float:
    """Return P(at most `hits` of `groups`) if each is a hit with probability `level`."""
    miss = groups - hits
    return 1 - sum(comb(groups, k) * (1 - level) ** k * level ** (groups - k) for k in range(miss))


@pytest.mark.parametrize("side", [2, 3])
@pytest.mark.parametrize(("count", "rho"), [(4000, 0.0), (20_000, 0.6)])
def test_a_covariance_is_covered_and_not_by_far_too_much(count: int, rho: float, side: int) -> None:
    exact = cells(*rows(count, rho), side)
    groups = GROUPS if count == 20_000 else whole(400, GROUPS)  # few rows need many quantiles
    raw = drawn(exact, f"cov {count} {side}", groups)
    cov, _ = truth(exact, side)
    low, high = covariance_interval(raw, SCALE * 1000.0, 0.95)
    hits = int(((low <= cov) & (cov <= high)).sum())
    assert below(hits, 0.95, groups) > 1e-6
    if count == 20_000:  # nuisances are known well: close to the stated level
        assert 0.94 <= hits / groups <= 0.975


def test_a_correlation_is_covered() -> None:
    exact = cells(*rows(60_000, 0.6), 3)
    raw = drawn(exact, "correlation")
    _, r = truth(exact, 3)
    low, high = correlation_interval(raw, SCALE * 1000.0, 0.95)
    hits = int(((low <= r) & (r <= high)).sum())
    assert below(hits, 0.95) > 1e-6
    assert 0.94 <= hits / GROUPS <= 0.985
    assert float(np.median(high - low)) < 1.5 * 3.92 * float(pair_correlation(raw).std())


def test_a_variance_is_covered() -> None:
    exact = cells(*rows(20_000, 0.6), 3)
    raw = drawn(exact, "variance").reshape(-1, 3, 3).sum(axis=2)
    c = exact.reshape(3, 3).sum(axis=1) / exact.sum()
    v = float(c[2] - (c[1] / 2 + c[2]) ** 2)
    low, high = variance_interval(raw, SCALE * 1000.0, 0.95, 3)
    hits = int(((low <= v) & (v <= high)).sum())
    assert below(hits, 0.95) > 1e-6
    assert 0.94 <= hits / GROUPS <= 0.98


def test_a_wrong_scale_is_caught() -> None:
    """Controls on both sides: 0.7 of the noise's scale covers too little, 1.4 far too much."""
    exact = cells(*rows(20_000, 0.6), 2)
    raw = drawn(exact, "control")
    cov, _ = truth(exact, 2)
    for factor, few in ((0.7, True), (1.4, False)):
        low, high = covariance_interval(raw, factor * SCALE * 1000, 0.95)
        hits = int(((low <= cov) & (cov <= high)).sum())
        assert (below(hits, 0.95) < 1e-6) if few else (hits / GROUPS > 0.985)


def test_no_signal_gives_everything() -> None:
    nothing = np.zeros((2, 9))
    assert [a.tolist() for a in covariance_interval(nothing, 9.0, 0.95)] == [
        [-0.25] * 2,
        [0.25] * 2,
    ]
    assert [a.tolist() for a in correlation_interval(nothing, 9.0, 0.95)] == [[-1.0] * 2, [1.0] * 2]


def test_always_a_valid_interval() -> None:
    raw = np.random.default_rng(5).normal(0, 40, (whole(80, 2000), 9))
    for low, high, reach in (
        (*covariance_interval(raw, 3.0, 0.95), 0.25),
        (*covariance_interval(raw[:, :4], 3.0, 0.95), 0.25),
        (*correlation_interval(raw, 3.0, 0.95), 1.0),
    ):
        assert ((low >= -reach) & (low <= high) & (high <= reach)).all()


def test_more_rows_shorter_intervals() -> None:
    widths = []
    for count in (2_000, 8_000, 32_000):
        exact = cells(*rows(count, 0.6), 3)[None, :]
        low, high = correlation_interval(exact, SCALE * 1000.0, 0.95)
        widths.append(float(high[0] - low[0]))
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize("weights", [(1.0,), (1.0, 1.0, 1.0), (0.5,) * 9, (1.0, 0.3, 0.3, 0.0)])
def test_the_quantile_of_a_sum_is_at_least_the_true_one(weights: tuple[float, ...]) -> None:
    z = sum_quantile(weights, 0.95)
    random = np.random.default_rng(9)
    beyond = float(
        (np.abs((random.laplace(size=(200_000, len(weights))) * weights).sum(axis=1)) > z).mean()
    )
    assert 0.044 < beyond < 0.0515
    assert sum_quantile((0.0,), 0.95) == 0.0


def test_cells_with_several_noises_need_a_longer_interval() -> None:
    raw = np.array([[4000.0, 3000.0, 3000.0]])
    one, three = (
        ratio_interval(raw, (0.0, 0.5, 1.0), 50.0, 0.95, copies=copies) for copies in (1, 3)
    )
    assert 1.5 < float((three[1] - three[0])[0] / (one[1] - one[0])[0]) < 2.0
