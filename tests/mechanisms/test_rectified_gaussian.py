"""Rectified Gaussian: point masses, moments against the curves, cost, and what is drawn."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import ArgumentError, ConfigError
from dprelease.mechanisms import GridRequest, RectifiedGaussian, law_from_json
from dprelease.schema.domain import Domain, GridSet

GAPPED = Domain(0, 12, forbidden=[(4, 6)])
INF = math.inf
M = RectifiedGaussian(GAPPED, scale=2)


@pytest.mark.parametrize("q", [0.0, 1.3, 4.5, 5.0, 11.0])
def test_moments_mass_and_atoms_match_the_curves(q: float) -> None:
    x = (np.arange(60_000) + 0.5) / 5_000  # midpoints: jumps fall between them
    f = M.cdf(x, q)
    mean = 12 - f.mean() * 12
    second = 144 - (2 * x * f).mean() * 12
    assert float(M.mean(q)) == pytest.approx(mean, abs=4e-4)
    assert float(M.variance(q)) == pytest.approx(second - mean**2, abs=2e-3)
    assert float(M.mass(q)) == pytest.approx(M.pdf(x, q).mean() * 12, abs=4e-4)
    point_masses = M.point_masses(q)
    assert sorted(point_masses) == [0, 4, 6, 12]
    assert sum(point_masses.values()) + M.mass(q) == pytest.approx(1, abs=1e-12)
    for point, chance in point_masses.items():
        jump = float(M.cdf(point, q)) - float(M.cdf(point - 1e-9, q))
        assert float(chance) == pytest.approx(jump, abs=1e-8)


def test_atoms_keep_their_relative_precision() -> None:
    far = RectifiedGaussian(Domain(0, 30), scale=1).point_masses(np.array([0.0, 20.0]))
    with mp.workdps(40):
        assert far[0.0][1] == pytest.approx(float(mp.ncdf(-20)), rel=1e-12)
        assert far[30.0][0] == pytest.approx(float(mp.ncdf(-30)), rel=1e-12)


def test_infinite_domains_have_atoms_at_finite_ends_only() -> None:
    line = RectifiedGaussian(Domain(-INF, INF, forbidden=[(1, 3)]), scale=1)
    assert sorted(line.point_masses(2.0)) == [1, 3]
    assert float(line.point_masses(2.0)[1]) == pytest.approx(0.3413447460685429)
    assert float(line.mean(2.0)) == pytest.approx(2.0)
    point = RectifiedGaussian(Domain.from_pieces([(0, 1), (5, 5)]), scale=1)
    assert sum(point.point_masses(0.5).values()) + point.mass(0.5) == pytest.approx(1)
    with pytest.raises(ArgumentError) as caught:
        line.on_grid(1)
    assert caught.value.code == "DPR603"


def test_the_cost_in_zcdp_and_gdp_is_that_of_normal_noise() -> None:
    assert M.zcdp(1) == pytest.approx(1 / 8)
    assert M.zcdp(1) >= 1 / 8
    assert M.gdp(1) == pytest.approx(0.5)
    assert M.zcdp(100) == M.zcdp(12)  # answers are clamped to the hull
    assert M.loss(sensitivity=1) == INF
    with mp.workdps(40):
        wanted = mp.ncdf(-1.75) - mp.exp(1) * mp.ncdf(-2.25)
    assert M.delta(epsilon=1, sensitivity=1) == pytest.approx(float(wanted), rel=1e-11)
    single = RectifiedGaussian(Domain(3, 3), scale=1)
    assert single.delta(epsilon=0.1, sensitivity=1) == 0
    assert single.loss(sensitivity=1) == 0


def test_the_hockey_stick_of_the_released_value_is_within_delta() -> None:
    edges = np.array([-1, 0, *np.linspace(0.01, 12, 1200)])
    for q in (0.0, 3.5, 6.0, 11.0):
        p, r = np.diff(M.cdf(edges, q)), np.diff(M.cdf(edges, q + 1))
        for first, second in ((p, r), (r, p)):
            gain = np.maximum(first - math.exp(0.3) * second, 0).sum()
            assert gain <= M.delta(epsilon=0.3, sensitivity=1) + 1e-12


def test_what_is_drawn() -> None:
    release = M.on_grid(Fraction(1, 10))
    assert release.rho(1) == Fraction(1, 8)
    assert release.rho("0.05") == Fraction(1, 800)  # one whole step
    values = release.draw(np.array([[0.0, 5.0], [99.0, -INF]]))
    assert values.shape == (2, 2)
    assert GAPPED.contains(values).all()
    assert isinstance(release.draw(3), float)
    drawn = release.draw_with(np.full(20_000, 5.0), ReplayBits("rectified"))
    for point, chance in M.point_masses(5.0).items():
        share = float((drawn == point).mean())
        near = float(M.cdf(point + 0.05, 5.0) - M.cdf(point - 0.05, 5.0))
        assert abs(share - near) < 0.02
        assert share > 0.5 * float(chance)
    assert drawn.mean() == pytest.approx(float(M.mean(5.0)), abs=0.1)
    assert drawn.std() == pytest.approx(float(M.variance(5.0)) ** 0.5, rel=0.05)
    with pytest.raises(ArgumentError):
        release.draw(math.nan)


@pytest.mark.parametrize("step", [3, Fraction(1, 4096)])
def test_steps_out_of_proportion_are_refused(step: Fraction) -> None:
    """A coarse step is fine (its noise is rounded up to one step); a very fine one is not."""
    if step > 1:
        assert M.on_grid(step).noise.square == 1
        return
    with pytest.raises(ArgumentError) as caught:
        M.on_grid(step)
    assert caught.value.code == "DPR624"


def test_the_rectified_gaussian_is_never_a_pure_grid_law() -> None:
    request = GridRequest(GridSet.from_runs([(0, 9)]), 1, Fraction(1))
    assert RectifiedGaussian.grid_laws(request) == []
    with pytest.raises(ArgumentError) as caught:
        RectifiedGaussian.grid_law_from_json({"family": "rectified_gaussian"})
    assert caught.value.code == "DPR628"
    with pytest.raises(ConfigError) as stored:
        law_from_json({"family": "rectified_gaussian"})
    assert stored.value.code == "DPR180"


def test_invalid_arguments() -> None:
    for scale in (0, -1, math.nan, INF):
        with pytest.raises(ArgumentError):
            RectifiedGaussian(GAPPED, scale=scale)
    with pytest.raises(ArgumentError):
        RectifiedGaussian((0, 1), scale=1)  # type: ignore[arg-type]
    for curve in (M.mean, M.variance, M.mass, M.point_masses):
        with pytest.raises(ArgumentError) as caught:
            curve(12.5)
        assert caught.value.code == "DPR630"
