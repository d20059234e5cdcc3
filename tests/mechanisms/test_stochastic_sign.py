"""Stochastic sign: probabilities, cost, symmetry of what is drawn."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import ArgumentError, ConfigError
from dprelease.mechanisms import GridRequest, StochasticSign, law_from_json
from dprelease.schema.domain import GridSet
from tests.sizes import whole

M = StochasticSign(scale=0.5)


def test_probabilities_keep_their_relative_precision() -> None:
    q = np.array([-15.0, -0.3, 0.0, 0.3, 15.0])
    point_masses = M.point_masses(q)
    with mp.workdps(60):
        for i, x in enumerate(q.tolist()):
            assert point_masses[1.0][i] == pytest.approx(float(mp.ncdf(x / 0.5)), rel=1e-12)
            assert point_masses[-1.0][i] == pytest.approx(float(mp.ncdf(-x / 0.5)), rel=1e-12)
            assert M.mean(q)[i] == pytest.approx(float(mp.erf(x / 0.5 / mp.sqrt(2))), abs=1e-14)
    np.testing.assert_allclose(M.variance(q), 1 - M.mean(q) ** 2, atol=1e-14)
    assert M.pmf([-1, 0, 1], 0.3).tolist() == [point_masses[-1.0][3], 0, point_masses[1.0][3]]
    assert M.cdf([-2, -1, 0.5, 1], 0.3).tolist() == [
        0,
        point_masses[-1.0][3],
        point_masses[-1.0][3],
        1,
    ]
    assert not M.pdf(0.0, q).any()


def test_the_cost_in_zcdp_and_gdp_is_that_of_the_sign() -> None:
    assert M.zcdp(1) == pytest.approx(2)
    assert M.gdp(1) == pytest.approx(2)
    assert M.loss(sensitivity=1) == math.inf
    # the sign attains the normal noise's hockey-stick divergence at its worst location
    q = np.linspace(-2, 2, 4001)
    gains = M.point_masses(q + 0.5)[1.0] - math.exp(0.4) * M.point_masses(q)[1.0]
    best = float(gains.max())
    assert M.delta(epsilon=0.4, sensitivity=0.5) == pytest.approx(best, rel=1e-6)


def test_what_is_drawn_is_symmetric() -> None:
    release = M.on_grid(Fraction(1, 5))
    assert release.rho(1) == Fraction(25, 14)  # 5 steps; 6.25 steps squared, rounded up to 7
    count = whole(10_000, 20_000)
    for q in (0.05, 0.3):
        up = release.draw_with(np.full(count, q), ReplayBits("sign"))
        down = release.draw_with(np.full(count, -q), ReplayBits("other"))
        assert set(np.unique(up)) == {-1.0, 1.0}
        assert abs(up.mean() + down.mean()) < 6 * math.sqrt(2 / count)
        assert up.mean() > 6 * math.sqrt(1 / count)  # the sign is not a fair coin there
    fine = M.on_grid(Fraction(1, 100)).draw_with(np.full(count, 0.3), ReplayBits("fine"))
    assert abs(fine.mean() - float(M.mean(0.3))) < 6 / math.sqrt(count)
    assert abs(fine.mean() - float(StochasticSign(scale=0.35).mean(0.3))) > 6 / math.sqrt(count)
    assert release.draw([[math.inf, -math.inf]]).tolist() == [[1.0, -1.0]]
    assert release.draw(7.0) == 1.0


def test_the_stochastic_sign_is_never_a_pure_grid_law() -> None:
    request = GridRequest(GridSet.from_runs([(0, 9)]), 1, Fraction(1))
    assert StochasticSign.grid_laws(request) == []
    with pytest.raises(ArgumentError) as caught:
        StochasticSign.grid_law_from_json({"family": "stochastic_sign"})
    assert caught.value.code == "DPR628"
    with pytest.raises(ConfigError) as stored:
        law_from_json({"family": "stochastic_sign"})
    assert stored.value.code == "DPR180"


def test_invalid_arguments() -> None:
    for scale in (0, -1, math.nan):
        with pytest.raises(ArgumentError):
            StochasticSign(scale=scale)
    for location in (math.nan, math.inf):
        for curve in (M.mean, M.point_masses, M.variance, lambda q: M.cdf(0, q)):
            with pytest.raises(ArgumentError) as caught:
                curve(location)
            assert caught.value.code == "DPR630"
