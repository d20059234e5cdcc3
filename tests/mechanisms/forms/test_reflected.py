"""The folded grid law: the closed form, its exact loss over all hull pairs, draws, intervals."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import ArgumentError, ConfigError
from dprelease.core.numeric import exp_lower, exp_upper
from dprelease.mechanisms import ReflectedLaplace
from dprelease.mechanisms.forms.reflected import ReflectedLaplaceLaw
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.law import GridRequest, grid_laws, law_from_json
from dprelease.schema.domain import GridSet
from tests.mechanisms.plans import EPSILONS, hull
from tests.sizes import whole


def plans(count: int = whole(48, 80)) -> list[GridRequest]:
    pick = random.Random("reflected")
    out = []
    for i in range(count):
        low, n = pick.randint(-9, 9), pick.randint(1, 12 if i % 6 else 30)
        sensitivity = pick.choice([1, 2, max(1, n // 3), n, n + 5])
        allowed, epsilon = GridSet.from_runs([(low, low + n)]), EPSILONS[i % len(EPSILONS)]
        loss: Any = "absolute" if i % 2 else "squared"
        out.append(GridRequest(allowed, sensitivity, epsilon, loss, point_masses=bool(i % 3)))
    return out


LAWS = [(r, ReflectedLaplaceLaw.calibrate(r)) for r in plans()]


def exact_rows(n: int, a: Fraction) -> list[list[Fraction]]:
    """The folded law with P(d) proportional to a^|d|, all images summed, in rationals."""
    period = 2 * (n + 1)
    rows = []
    for q in range(n + 1):
        # sum over k of a^|d + k period| = (a^d + a^(period - d)) / (1 - a^period), 0 <= d < period
        def images(d: int) -> Fraction:
            d %= period
            return (a**d + a ** (period - d)) / (1 - a**period)

        norm = (1 - a) / (1 + a)
        rows.append([norm * (images(x - q) + images(-1 - x - q)) for x in range(n + 1)])
    return rows


@pytest.mark.parametrize("n", [1, 4, 9])
@pytest.mark.parametrize("a", [Fraction(1, 5), Fraction(99, 100)])
def test_images_sum_to_the_closed_form_in_rationals(n: int, a: Fraction) -> None:
    rows = exact_rows(n, a)
    constants = set()
    for q, row in enumerate(rows):
        assert sum(row) == 1
        for x, p in enumerate(row):
            low, high = min(x, q), max(x, q)
            form = a ** (high - low) * (1 + a ** (2 * low + 1)) * (1 + a ** (2 * (n - high) + 1))
            constants.add(p / form)
    assert len(constants) == 1


def enclosures(n: int, rate: Fraction) -> tuple[list[list[Fraction]], list[list[Fraction]]]:
    """Return rational lower and upper bounds of the closed form's weights, every (q, x)."""
    low = [1 / exp_upper(k * rate) for k in range(2 * n + 2)]
    high = [1 / exp_lower(k * rate) for k in range(2 * n + 2)]

    def weights(a: list[Fraction]) -> list[list[Fraction]]:
        return [
            [
                a[abs(x - q)] * (1 + a[2 * min(x, q) + 1]) * (1 + a[2 * (n - max(x, q)) + 1])
                for x in range(n + 1)
            ]
            for q in range(n + 1)
        ]

    return weights(low), weights(high)


def test_the_loss_is_within_epsilon_in_rationals_over_all_hull_pairs() -> None:
    small = [(r, law) for r, law in LAWS if law.allowed.hull_steps <= 12]
    assert len(small) >= whole(36, 60)
    for request, law in small:
        n = law.allowed.hull_steps
        low, high = enclosures(n, law.noise.rate)
        worst = max(
            high[q][x] / low[other][x]
            for q in range(n + 1)
            for other in range(max(0, q - request.sensitivity), min(n, q + request.sensitivity) + 1)
            for x in range(n + 1)
        )
        certificate = law.certificate
        assert certificate.ratio is not None
        assert worst <= certificate.ratio * (1 + Fraction(1, 2**100))
        assert worst <= exp_lower(request.epsilon)
        assert certificate.ratio <= exp_lower(request.epsilon)
        assert certificate.epsilon_upper == request.epsilon
        assert worst >= exp_lower(request.epsilon * (1 - Fraction(1, 10**9)))  # nothing wasted


def test_the_exact_loss_buys_a_larger_rate_than_plain_noise() -> None:
    for request, law in LAWS:
        assert law.noise.rate * request.capped_sensitivity >= request.epsilon * (
            1 - Fraction(1, 2**40)
        )
    wide = ReflectedLaplaceLaw.calibrate(GridRequest(GridSet.from_runs([(0, 20)]), 20, Fraction(1)))
    assert wide.noise.rate * 20 > Fraction(16, 10)


def test_pmf_and_prices_are_those_of_the_images() -> None:
    for request, law in LAWS[: whole(20, 40)]:
        n, low = law.allowed.hull_steps, law.allowed.lower
        rows = exact_rows(n, Fraction(math.exp(-law.noise.rate)))
        power = 1 if request.loss == "absolute" else 2
        errors = []
        for q in hull(law.allowed):
            pmf = law.pmf(q)
            assert list(pmf.values()) == pytest.approx([float(p) for p in rows[q - low]], rel=1e-9)
            errors.append(sum(p * abs(y - q) ** power for y, p in pmf.items()))
        price = law.expected_error()
        assert price.average == pytest.approx(np.mean(errors), rel=1e-9)
        assert price.worst == pytest.approx(max(errors), rel=1e-9)


@pytest.mark.parametrize("epsilon", ["0.0001", "0.01", "1"])
@pytest.mark.parametrize("loss", ["absolute", "squared"])
def test_prices_of_large_hulls_do_not_cancel(epsilon: str, loss: str) -> None:
    allowed = GridSet.from_runs([(0, 5000)])
    noise = DiscreteLaplaceNoise.calibrate(1, Fraction(epsilon) / 5000)
    kind = "squared" if loss == "squared" else "absolute"
    law = ReflectedLaplaceLaw(allowed, 100, Fraction(1), kind, noise)  # type: ignore[arg-type]
    power = 1 if loss == "absolute" else 2
    for q in (0, 7, 2500, 5000):
        direct = sum(p * abs(y - q) ** power for y, p in law.pmf(q).items())
        i, m = np.array([float(q)]), np.array([5000.0 - q])
        assert float((law._upper_error(i, m) + law._upper_error(m, i))[0]) == pytest.approx(
            direct, rel=1e-6
        )


@pytest.mark.parametrize("points", [10**3, 10**6, 10**9])
def test_any_size_certifies_and_draws_inside_the_hull(points: int) -> None:
    allowed = GridSet.from_runs([(-5, points - 6)])
    request = GridRequest(allowed, max(1, points // 1000), Fraction(1, 2), point_masses=False)
    law = ReflectedLaplace.grid_laws(request)[0]
    assert law.certify().epsilon_upper == Fraction(1, 2)
    answers = np.linspace(-9, points, 20_000).astype(np.int64)
    values = law.draw_raw(answers, ReplayBits(f"size {points}"))
    assert allowed.contains(values).all()
    inside = np.clip(answers, -5, points - 6)
    error = np.abs(values - inside).mean()
    assert error == pytest.approx(law.expected_error().average, rel=0.05)


@pytest.mark.statistical
@pytest.mark.parametrize("q", [0, 7, 20])
def test_draws_fit_the_pmf_and_a_wrong_scale_is_caught(q: int) -> None:
    law = ReflectedLaplaceLaw.calibrate(GridRequest(GridSet.from_runs([(0, 20)]), 6, Fraction(2)))
    draws = law.draw_raw(np.full(30_000, q), ReplayBits(f"reflected {q}"))

    def p_value(factor: Fraction) -> float:
        noise = DiscreteLaplaceNoise.calibrate(1, law.noise.rate / factor)
        pmf = replace(law, noise=noise).pmf(q)
        expected = np.array(list(pmf.values())) * draws.size
        counts = np.bincount(draws, minlength=21)
        return float(stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), 20))

    assert p_value(Fraction(1)) > 1e-6
    assert p_value(Fraction(8, 10)) < 1e-6
    assert p_value(Fraction(12, 10)) < 1e-6


def test_intervals_cover_every_answer_by_enumeration() -> None:
    for n, sensitivity, epsilon in [(300, 10, "1"), (90, 60, "3"), (40, 1, "0.05")]:
        law = ReflectedLaplaceLaw.calibrate(
            GridRequest(GridSet.from_runs([(0, n)]), sensitivity, Fraction(epsilon))
        )
        y = np.arange(n + 1)
        low, high = law.interval(y)
        assert (low <= high).all()
        for q in (0, 1, n // 3, n // 2, n):
            pmf = np.array(list(law.pmf(q).values()))
            assert pmf[(low <= q) & (q <= high)].sum() >= 0.95 - 1e-6
            tails = law._upper_tail(np.full(n + 1, q), y)
            assert tails == pytest.approx(np.cumsum(pmf[::-1])[::-1], abs=1e-12)
    with pytest.raises(ArgumentError):
        law.interval(y, level=0.0)


class TestBrokenTwins:
    request = GridRequest(GridSet.from_runs([(0, 20)]), 10, Fraction(1))
    law = ReflectedLaplaceLaw.calibrate(request)

    def test_a_slightly_larger_rate(self) -> None:
        larger = self.law.noise.rate * (1 + Fraction(1, 2**20))
        noise = DiscreteLaplaceNoise(Fraction(math.ceil(larger * 2**50), 2**50))
        assert replace(self.law, noise=noise).certify().epsilon_upper > 1

    def test_a_larger_sensitivity_or_a_narrower_hull_than_calibrated_for(self) -> None:
        assert replace(self.law, sensitivity=11).certify().epsilon_upper > 1
        tight = ReflectedLaplaceLaw.calibrate(
            GridRequest(GridSet.from_runs([(0, 10)]), 5, Fraction(1))
        )
        wide = replace(tight, allowed=GridSet.from_runs([(0, 20)]))
        assert wide.certify().epsilon_upper > 1  # the ends reflect less, so they hide less

    def test_clamping_instead_of_folding_does_not_fit(self) -> None:
        rate = self.law.noise
        noisy = np.full(30_000, 2) + rate.sample(30_000, ReplayBits("twin"))
        counts = np.bincount(np.clip(noisy, 0, 20), minlength=21)
        expected = np.array(list(self.law.pmf(2).values())) * 30_000
        assert stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), 20) < 1e-6

    def test_folding_at_the_points_instead_of_beside_them_is_not_this_law(self) -> None:
        """Reflection at 0 and n (period 2 n) visits the end points half as often."""
        noisy = np.full(30_000, 2) + self.law.noise.sample(30_000, ReplayBits("twin 2"))
        turn = noisy % 40
        counts = np.bincount(np.where(turn > 20, 40 - turn, turn), minlength=21)
        expected = np.array(list(self.law.pmf(2).values())) * 30_000
        assert stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), 20) < 1e-6


def test_json_round_trip_and_malformed_laws() -> None:
    for _, law in LAWS[::9]:
        assert law_from_json(json.loads(json.dumps(law.to_json()))) == law
        assert law.family in law.describe()
    for change in ({"allowed": [[0, 1], [3, 4]]}, {"loss": "other"}, {"noise": None}):
        with pytest.raises(ConfigError):
            law_from_json(LAWS[0][1].to_json() | change)


def test_gaps_splits_and_tiny_epsilons_rule_it_out() -> None:
    one = GridSet.from_runs([(0, 9)])
    assert (
        ReflectedLaplace.grid_laws(GridRequest(GridSet.from_runs([(0, 3), (6, 9)]), 1, Fraction(1)))
        == []
    )
    assert ReflectedLaplace.grid_laws(GridRequest(one, 1, Fraction(1), splits=True)) == []
    assert ReflectedLaplace.grid_laws(GridRequest(one, 1, Fraction(1, 2**50))) == []
    families = {
        law.family for law in grid_laws(GridRequest(one, 1, Fraction(1), point_masses=False))
    }
    assert "reflected_laplace" in families
    point = ReflectedLaplaceLaw.calibrate(GridRequest(GridSet.from_runs([(3, 3)]), 4, Fraction(1)))
    assert point.pmf(9) == {3: 1.0}
    assert point.certify().ratio == 1
    with pytest.raises(ArgumentError) as caught:
        ReflectedLaplaceLaw.calibrate(
            GridRequest(GridSet.from_runs([(0, 2**17)]), 5, Fraction(1))
        ).pmf(0)
    assert caught.value.code == "DPR623"
