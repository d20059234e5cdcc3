"""Noise that ends: its law, its loss and its least bound, by enumeration in decimals of 80 digits."""

from __future__ import annotations

import itertools
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest

from dprelease.core.entropy import SystemBits
from dprelease.core.errors import ConfigError
from dprelease.mechanisms.kernels.ending_laplace import EndingLaplaceNoise
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.statistics.sensitivity import Sensitivity
from dprelease.wall.ending_noise import ended_loss
from tests.sizes import whole

DIGITS = 80
CLOSE = Decimal(10) ** -40


def decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


@lru_cache(maxsize=100_000)
def weight(rate: Decimal, far: int) -> Decimal:
    """Return e^(-rate far), to `DIGITS` digits."""
    with localcontext(prec=DIGITS):
        return (-rate * far).exp()


def law_of(rate: Fraction, bound: int) -> dict[int, Decimal]:
    """Return every probability, from the definition."""
    weights = {d: weight(decimal(rate), abs(d)) for d in range(-bound, bound + 1)}
    total = sum(weights.values())
    return {d: w / total for d, w in weights.items()}


def passed(law: dict[int, Decimal], moves: tuple[int, ...], epsilon: Decimal) -> Decimal:
    """Return the sum of P(y) - e^epsilon P'(y), where positive, over all draws y of cells that move so far."""
    grown, out = epsilon.exp(), Decimal(0)
    for drawn in itertools.product(law, repeat=len(moves)):
        here = there = Decimal(1)
        for d, k in zip(drawn, moves, strict=True):
            here, there = here * law[d], there * law.get(d - k, Decimal(0))
        out += max(Decimal(0), here - grown * there)
    return out


def counted(noise: EndingLaplaceNoise, moved: int, total: int) -> tuple[Fraction, Fraction]:
    """Return what the wall counts, from the JSON alone."""
    sensitivity = Sensitivity(moved, total, 1, 1, in_a_cell=moved)
    return ended_loss({"law": noise.to_json()}, sensitivity)


class TestTheLoss:
    @pytest.mark.parametrize(
        ("moved", "total", "bound"),
        [(1, 1, 4), (2, 2, 5), (1, 2, 4), (1, 3, 3), (2, 3, 4), (2, 5, 3)],
    )
    @pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(2)])
    def test_it_is_attained_by_some_move_and_passed_by_none(
        self, moved: int, total: int, bound: int, rate: Fraction
    ) -> None:
        with localcontext(prec=DIGITS):
            noise = EndingLaplaceNoise(rate, bound)
            law, claimed = law_of(rate, bound), decimal(noise.delta(moved, total))
            cells = -(-total // moved)
            every = itertools.product(range(-moved, moved + 1), repeat=cells)
            moves = [k for k in every if sum(map(abs, k)) <= total]
            found = [passed(law, k, decimal(rate * total)) for k in moves]
            assert max(found) <= claimed
            assert claimed - max(found) < CLOSE

    def test_moves_of_less_lose_less_epsilon_at_the_same_delta(self) -> None:
        """At e^(rate k) for every k: the ratio is never passed, so no smaller epsilon would do."""
        with localcontext(prec=DIGITS):
            law = law_of(Fraction(1, 2), 6)
            for k in range(1, 4):
                lost = sum(law[d] for d in range(7 - k, 7))
                assert abs(passed(law, (k,), Decimal(k) / 2) - lost) < CLOSE
                assert passed(law, (k,), Decimal(k) / 2 - Decimal("0.01")) > lost

    @pytest.mark.parametrize(("moved", "total"), [(1, 1), (1, 4), (3, 3), (3, 7), (50, 120)])
    @pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(8)])
    @pytest.mark.parametrize("delta", [Fraction(1, 100), Fraction(1, 10**6), Fraction(1, 10**9)])
    def test_the_bound_is_the_least(
        self, moved: int, total: int, epsilon: Fraction, delta: Fraction
    ) -> None:
        with localcontext(prec=DIGITS):
            noise = EndingLaplaceNoise.calibrate(moved, total, epsilon, delta)
            assert noise.rate * total <= epsilon
            for bound, fits in ((noise.bound, True), (noise.bound - 1, False)):
                kept, law = Decimal(1), law_of(noise.rate, bound)
                for k in [moved] * (total // moved) + [total % moved]:
                    kept *= 1 - sum(
                        (law.get(d, 0) for d in range(bound + 1 - k, bound + 1)), Decimal(0)
                    )
                    assert bound >= k or not fits
                assert (1 - kept <= decimal(delta)) is fits or (not fits and bound < moved)

    def test_the_figures_of_the_specification(self) -> None:
        for delta, bound in ((Fraction(1, 10**6), 14), (Fraction(1, 10**9), 20)):
            noise = EndingLaplaceNoise.calibrate(1, 1, Fraction(1), delta)
            assert (noise.rate, noise.bound) == (1, bound)

    @pytest.mark.parametrize(
        ("moved", "total", "epsilon", "delta"),
        [
            (1, 1, Fraction(1), Fraction(1, 10**6)),
            (2, 9, Fraction(1, 3), Fraction(1, 10**9)),
            (100_000, 350_000, Fraction(1, 100), Fraction(1, 10**12)),
            (1, 1, Fraction(100), Fraction(1, 10**9)),
            (1, 2, Fraction(1), Fraction(9, 10)),
            (5, 5, Fraction(1, 10**9), Fraction(1, 10**6)),
        ],
    )
    def test_the_wall_counts_the_same_by_other_arithmetic(
        self, moved: int, total: int, epsilon: Fraction, delta: Fraction
    ) -> None:
        noise = EndingLaplaceNoise.calibrate(moved, total, epsilon, delta)
        own, stated = counted(noise, moved, total), noise.delta(moved, total)
        assert own[0] == noise.rate * total
        assert abs(own[1] - stated) <= stated * Fraction(1, 2**64)
        assert max(own[1], stated) <= delta

    def test_both_round_up(self) -> None:
        with localcontext(prec=DIGITS):
            for rate, bound, k in ((Fraction(1, 7), 20, 3), (Fraction(3, 2), 9, 1)):
                noise, law = EndingLaplaceNoise(rate, bound), law_of(rate, bound)
                exact = sum(law[d] for d in range(bound + 1 - k, bound + 1))
                room = exact * Decimal(10) ** -70
                assert exact - room <= decimal(noise.outermost(k)) <= exact + CLOSE
                assert exact - room <= decimal(counted(noise, k, k)[1]) <= exact + CLOSE

    def test_a_move_beyond_the_bound_is_told_for_certain(self) -> None:
        noise = EndingLaplaceNoise(Fraction(1), 3)
        assert noise.delta(4, 4) == counted(noise, 4, 4)[1] == 1

    def test_a_bound_below_one_step_is_none(self) -> None:
        stored = EndingLaplaceNoise(Fraction(1), 1).to_json()
        assert EndingLaplaceNoise.from_json(stored).bound == 1
        with pytest.raises(ConfigError, match="does not parse") as refused:
            EndingLaplaceNoise.from_json({**stored, "bound": "0"})
        assert refused.value.code == "DPR180"


class TestDraws:
    def test_all_lie_within_the_bound_and_those_of_noise_without_an_end_do_not(self) -> None:
        """10^6 of 10^6 in `make evidence`; the control draws outside with probability 1 - 10^-40 and more."""
        count = whole(100_000, 1_000_000)
        noise = EndingLaplaceNoise.calibrate(1, 1, Fraction(1), Fraction(1, 1000))
        drawn = noise.sample(count, SystemBits())
        assert drawn.shape == (count,)
        assert int(abs(drawn).max()) == noise.bound  # an end has a chance of 4 in 10^4
        rng = np.random.default_rng(7)
        beyond = abs(rng.geometric(1 - np.exp(-1), count) - rng.geometric(1 - np.exp(-1), count))
        assert (beyond > noise.bound).sum() > 0

    def test_they_follow_the_law(self) -> None:
        """Chi-squared of 9 cells: 60 is passed with probability 5e-10; the law without an end misses by more."""
        count = whole(50_000, 500_000)
        noise = EndingLaplaceNoise(Fraction(1, 3), 4)
        with localcontext(prec=DIGITS):
            law = {d: float(p) for d, p in law_of(noise.rate, noise.bound).items()}

        def off(drawn: np.ndarray) -> float:
            counts = {d: int((drawn == d).sum()) for d in law}
            return sum((counts[d] - count * p) ** 2 / (count * p) for d, p in law.items())

        assert off(noise.sample(count, SystemBits())) < 60
        assert off(DiscreteLaplaceNoise(Fraction(1, 3)).draws(count, SystemBits())) > 1000

    def test_wide_ones_are_whole_numbers_of_any_size(self) -> None:
        noise = EndingLaplaceNoise(Fraction(1, 2**70), 2**75)
        drawn = noise.sample(64, SystemBits())
        assert all(isinstance(int(d), int) and abs(int(d)) <= 2**75 for d in drawn)
        assert max(abs(int(d)) for d in drawn) > 2**64
