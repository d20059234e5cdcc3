"""The two integer noises: exact weights, tails, quantiles, and draws against them."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dprelease.audit.sampler import _laplace_fit
from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import exp_lower
from dprelease.mechanisms.forms.additive import AdditiveLaw
from dprelease.mechanisms.forms.vector import CellNoise
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.kernels.staircase import StaircaseNoise
from dprelease.mechanisms.law import GridRequest
from dprelease.schema.domain import GridSet
from tests.sizes import some

Noise = StaircaseNoise | DiscreteLaplaceNoise
DRAWS = 60_000


def samples() -> list[Noise]:
    noises: list[Noise] = [
        StaircaseNoise.calibrate(w, Fraction(e), j)
        for w, e, j in [(1, "1", 1), (5, "1", 2), (5, "0.05", 5), (7, "3", 1), (40, "0.3", 17)]
    ]
    return noises + [DiscreteLaplaceNoise(Fraction(r)) for r in ("1", "1/7", "3", "5/2", "1/40")]


def p_value(draws: np.ndarray, weights: np.ndarray) -> float:
    """Chi-square of signed draws against P(d), d >= 0, with the tail pooled."""
    two_sided = np.concatenate([weights[:0:-1], weights])
    edge = weights.size - 1
    inside = np.abs(draws) <= edge
    counts = np.bincount(draws[inside] + edge, minlength=two_sided.size).astype(float)
    expected = two_sided * draws.size
    keep = expected >= 5
    counts = np.append(counts[keep], draws.size - counts[keep].sum())
    expected = np.append(expected[keep], draws.size - expected[keep].sum())
    if expected[-1] < 5:
        counts, expected = counts[:-1], expected[:-1]
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return float(stats.chi2.sf(statistic, counts.size - 1))


def rescaled(noise: Noise, factor: float) -> Noise:
    """Return the noise of a scale `factor` times as large (decay per step ** (1 / factor))."""
    if isinstance(noise, DiscreteLaplaceNoise):
        return DiscreteLaplaceNoise(Fraction(round(float(noise.rate) / factor * 2**40), 2**40))
    return StaircaseNoise(round(2**64 * noise.decay ** (1 / factor)), noise.width, noise.j)


@pytest.mark.parametrize("noise", samples(), ids=str)
def test_draws_fit_and_a_wrong_scale_is_caught(noise: Noise) -> None:
    draws = noise.sample(DRAWS, ReplayBits(f"fit {noise}"))
    assert p_value(draws, noise.weights(600)) > 1e-6
    assert p_value(draws, rescaled(noise, 0.7).weights(600)) < 1e-6
    assert p_value(draws, rescaled(noise, 1.3).weights(600)) < 1e-6


@pytest.mark.parametrize("noise", samples(), ids=str)
def test_tails_are_sums_of_the_weights(noise: Noise) -> None:
    size = 40_000
    p, d = noise.weights(size), np.arange(size, dtype=float)
    assert p[0] + 2 * p[1:].sum() == pytest.approx(1)
    for k in (0, 1, 4, 5, 6, 33):
        beyond = p[k + 1 :]
        sums = (
            beyond.sum(),
            (beyond * (d[k + 1 :] - k)).sum(),
            (beyond * (d[k + 1 :] ** 2 - k * k)).sum(),
        )
        assert [float(v) for v in noise.tails(k)] == pytest.approx(sums, rel=1e-9)


@pytest.mark.parametrize("noise", samples(), ids=str)
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999999])
def test_the_quantile_is_the_smallest_that_covers(noise: Noise, level: float) -> None:
    k = noise.quantile(level)
    p = noise.weights(20_000)
    inside = p[0] + 2 * np.cumsum(np.append(0.0, p[1:]))
    assert inside[k] >= level - 1e-12
    assert k == 0 or inside[k - 1] < level
    with pytest.raises(ArgumentError):
        noise.quantile(1.0)


@pytest.mark.parametrize("noise", samples(), ids=str)
def test_the_weights_repeat_with_the_stated_period_and_decay(noise: Noise) -> None:
    p = noise.weights(200)
    assert p[noise.period :] == pytest.approx(p[: -noise.period] * noise.decay)
    inner, outer = noise.block_weights(20)
    assert [w / inner[0] for w in inner] == pytest.approx((p[:20] / p[0]).tolist())
    assert outer[3] / inner[3] == pytest.approx(1 / (1 - noise.decay))


@given(
    st.integers(1, 10**9),
    st.fractions(Fraction(1, 10**4), 20, max_denominator=10**6),
    st.data(),
)
@settings(max_examples=60)
def test_staircase_certificates_are_exact(
    width: int, epsilon: Fraction, data: st.DataObject
) -> None:
    j = data.draw(st.integers(1, width))
    noise = StaircaseNoise.calibrate(width, epsilon, j)
    certificate = noise.certify("staircase", width, epsilon)
    assert certificate.epsilon_upper == epsilon
    assert Fraction(2**64, noise.p) <= exp_lower(epsilon)
    # One unit less of p, the smallest float-like slip, must not pass.
    if noise.p > 1:
        slipped = StaircaseNoise(noise.p - 1, width, j)
        assert slipped.certify("staircase", width, epsilon).epsilon_upper > epsilon
    # One level is crossed at most: f changes by at most one for distances up to the width.
    for d in (0, j - 1, j, width, 3 * width + j):
        for s in (1, width // 2, width):
            assert abs(noise.level(d + s) - noise.level(d)) <= 1
            assert abs(noise.level(d - s) - noise.level(d)) <= 1


@given(st.integers(1, 10**12), st.fractions(Fraction(1, 10**3), 50, max_denominator=10**30))
@settings(max_examples=100)
def test_discrete_laplace_rates_stay_below_and_close(distance: int, epsilon: Fraction) -> None:
    noise = DiscreteLaplaceNoise.calibrate(distance, epsilon)
    loss = noise.certify("discrete_laplace", distance, epsilon).epsilon_upper
    assert loss <= epsilon
    assert loss == noise.rate * distance
    if epsilon / distance <= 64:
        assert loss >= epsilon * (1 - Fraction(1, 2**14))
    assert noise.rate.denominator <= 2**52
    assert DiscreteLaplaceNoise.from_json(noise.to_json()) == noise


def test_a_float_rate_just_above_the_exact_one_shows_in_the_certificate() -> None:
    exact = Fraction(1, 3)
    above = DiscreteLaplaceNoise(exact + Fraction(1, 3 * 2**50))
    assert above.certify("discrete_laplace", 3, Fraction(1)).epsilon_upper > 1


@pytest.mark.parametrize(
    "rate",
    some(
        [
            Fraction(
                2**60 + 1, 2**61 + 3
            ),  # an ordinary scale in long numbers: every output is seen
            Fraction(2**58 + 1, 2**58),
            Fraction(1, 2**52 + 1),
            Fraction(1, 2**70),
            Fraction(2**64 - 1, 10**37),
            Fraction(1, 25 * 10**16),  # a payroll in cents, squared, at epsilon 0.01
            Fraction(7, 10**60),
        ],
        2,
    ),
)
def test_rates_of_integers_of_any_size_are_drawn_exactly(rate: Fraction) -> None:
    noise = CellNoise(1, Fraction(64), DiscreteLaplaceNoise(rate))
    drawn = noise.sample(20_000, ReplayBits(f"any {rate}"))
    assert _laplace_fit(rate, drawn) > 1e-6
    # control: the same draws are told from a law of a third more scale
    assert _laplace_fit(rate * 3 / 4, drawn) < 1e-6


def test_calibrated_rates_lose_next_to_nothing() -> None:
    for distance in (1, 10**6, 25 * 10**14, 10**18, 10**44):
        for epsilon in (
            Fraction(1, 10**9),
            Fraction(1, 100),
            Fraction(333333333, 10**9),
            Fraction(10),
        ):
            noise = CellNoise.calibrate(distance, epsilon)
            loss = noise.certify().epsilon_upper
            assert epsilon * (1 - Fraction(1, 2**50)) <= loss <= epsilon


def test_saturated_draws_stay_inside_int64() -> None:
    wide = DiscreteLaplaceNoise(Fraction(1, 2**80))
    draws = wide.sample(50, ReplayBits("far"))
    assert draws.dtype == np.int64
    assert set(np.abs(draws).tolist()) == {2**62 + 2**60}


def test_saturation_acts_on_the_sum_whatever_the_answer() -> None:
    """Noise cut off before the addition would show the answer: 2**62 - 5 is 5 below the cut."""
    allowed = GridSet(((-(2**60), 2**60),))
    request = GridRequest(allowed, 2**60, Fraction(1, 2**20))
    law = AdditiveLaw.build(
        "discrete_laplace", request, DiscreteLaplaceNoise(Fraction(1, 2**80)), nearest=True
    )
    answers = np.array([-(2**60), -6, -5, 0, 5, 6, 2**60] * 20, dtype=np.int64)
    raw = law.draw_raw(answers, ReplayBits("far"))
    assert set(np.abs(raw).tolist()) == {2**62}


@pytest.mark.parametrize("width", [2**60, 2**61])
def test_the_widest_staircases_do_not_wrap(width: int) -> None:
    far = StaircaseNoise.calibrate(width, Fraction(1, 10**4), width).sample(400, ReplayBits("far"))
    assert np.abs(far).max() == 2**62 + 2**60
    assert (np.abs(far) < 2**62).mean() < 0.01  # level 0 and the next ones weigh next to nothing


def test_extreme_rates_stay_inside_int64() -> None:
    wide = DiscreteLaplaceNoise(Fraction(1, 2**52))
    draws = wide.sample(2000, ReplayBits("wide"))
    assert np.abs(draws).max() < 2**62
    assert np.abs(draws).mean() == pytest.approx(2**52, rel=0.15)
    narrow = DiscreteLaplaceNoise.calibrate(1, Fraction(1000))
    assert narrow.rate == 64
    assert not narrow.sample(1000, ReplayBits("narrow")).any()
    far = StaircaseNoise.calibrate(2**60, Fraction(1, 10**4), 1)
    assert np.abs(far.sample(500, ReplayBits("far"))).max() > 2**62  # saturated, not wrapped


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(65), Fraction(-1, 2**53)])
def test_what_is_not_a_rate_is_refused(rate: Fraction) -> None:
    with pytest.raises(ArgumentError) as caught:
        DiscreteLaplaceNoise(rate)
    assert caught.value.code == "DPR624"


def test_staircases_that_cannot_be_drawn_are_refused() -> None:
    with pytest.raises(ArgumentError, match="too small") as caught:
        StaircaseNoise.calibrate(3, Fraction(1, 10**6), 1)
    assert caught.value.code == "DPR626"
    with pytest.raises(ArgumentError, match="not the integers") as caught:
        StaircaseNoise(2**63, 3, 4)
    assert caught.value.code == "DPR687"


class TestCells:
    def test_the_loss_is_linear_in_the_l1_sensitivity(self) -> None:
        cells = CellNoise.calibrate(4, Fraction(1, 2))
        assert cells.family == "discrete_laplace"
        assert cells.certificate.epsilon_upper == Fraction(1, 2)
        assert cells.scale == 8
        # Any split of 4 steps over cells costs the same total.
        for split in ([4], [2, 2], [1, 1, 1, 1], [3, 1]):
            assert sum(cells.noise.log_ratio(0, k) for k in split) == Fraction(1, 2)

    def test_moments_are_those_of_the_weights(self) -> None:
        cells = CellNoise.calibrate(3, Fraction(1))
        p, d = cells.noise.weights(400), np.arange(400)
        assert cells.variance() == pytest.approx(2 * (p * d * d).sum())
        assert cells.mean_abs() == pytest.approx(2 * (p * d).sum())
        assert cells.quantile(0.95) == cells.noise.quantile(0.95)
        draws = cells.sample(40_000, ReplayBits("cells"))
        assert draws.var() == pytest.approx(cells.variance(), rel=0.05)

    def test_json_round_trip(self) -> None:
        cells = CellNoise.calibrate(7, Fraction(1, 3))
        assert CellNoise.from_json(cells.to_json()) == cells
        assert "cells" in cells.describe()

    @pytest.mark.parametrize(("sensitivity", "epsilon"), [(0, 1), (1, 0)])
    def test_no_sensitivity_or_budget_is_refused(self, sensitivity: int, epsilon: int) -> None:
        with pytest.raises(ArgumentError):
            CellNoise.calibrate(sensitivity, Fraction(epsilon))


@pytest.mark.parametrize(
    "rate",
    [Fraction(3), Fraction(1, 7), Fraction(1, 10**4), Fraction(1, 10**12), Fraction(1, 10**20)],
)
@pytest.mark.parametrize(("start", "stop"), [(0, 1), (0, 10), (5, 100), (0, 3000), (100, 100)])
def test_partial_tails_do_not_cancel(rate: Fraction, start: int, stop: int) -> None:
    """As differences of tails they came out negative at tiny rates, and a squared error had no root."""
    with mp.workdps(60):
        q = mp.e ** (-mp.mpf(rate.numerator) / rate.denominator)
        beyond = [q ** (x + 1) / (1 + q) for x in range(start, stop)]
        wanted = [
            sum(beyond),
            sum((2 * x + 1) * p for x, p in zip(range(start, stop), beyond, strict=True)),
        ]
        wanted = [float(w) for w in wanted]
    found = DiscreteLaplaceNoise(rate).between(start, stop)
    assert [float(f) for f in found] == pytest.approx(wanted, rel=1e-7)
