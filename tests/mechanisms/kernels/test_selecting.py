"""The noise that decides which keys are published: its law, loss and intervals, enumerated in decimals of 80 digits."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from dprelease.core.entropy import SystemBits
from dprelease.core.errors import ArgumentError
from dprelease.mechanisms.kernels.selecting import TOTAL, SelectingNoise
from dprelease.wall.ending_noise import delta_of_a_key

CASES = [
    (Fraction(1), Fraction(1, 10**6)),
    (Fraction(1, 3), Fraction(1, 100)),
    (Fraction(3), Fraction(1, 10**9)),
    (Fraction(1, 10), Fraction(1, 10**6)),
    (Fraction(2), Fraction(2, 5)),
]


def decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def outputs(noise: SelectingNoise, persons: int) -> dict[int, Decimal]:
    """Return the probability of every published number, 0 for none, from the weights."""
    found = {0: Decimal(0)}
    for m, weight in enumerate(noise.weights, start=1):
        y = persons + noise.bound + 1 - m
        chance = Decimal(weight) / TOTAL
        if m <= persons:
            found[y] = chance
        else:
            found[0] += chance
    return found


def passed(one: dict[int, Decimal], other: dict[int, Decimal], epsilon: Fraction) -> Decimal:
    grown = decimal(epsilon).exp()
    return sum(
        (max(Decimal(0), p - grown * other.get(y, Decimal(0))) for y, p in one.items()), Decimal(0)
    )


def optimal(epsilon: Fraction, delta: Fraction) -> list[Decimal]:
    """Return the optimal rule's chances, from its definition."""
    e, d, chances = decimal(epsilon).exp(), decimal(delta), [Decimal(0)]
    while chances[-1] < 1:
        p = chances[-1]
        chances.append(min(e * p + d, 1 - (1 - p - d) / e, Decimal(1)))
    return chances


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
def test_every_pair_of_numbers_keeps_the_loss_and_one_attains_it(
    epsilon: Fraction, delta: Fraction
) -> None:
    noise = SelectingNoise.calibrate(epsilon, delta)
    with localcontext(prec=80):
        worst = Decimal(0)
        for n in range(min(len(noise.weights), 80) + 3):
            here, there = outputs(noise, n), outputs(noise, n + 1)
            worst = max(worst, passed(here, there, epsilon), passed(there, here, epsilon))
        assert worst <= decimal(noise.delta()) <= decimal(delta)
        assert worst > decimal(delta) * (1 - Decimal(10) ** -6)
        if len(noise.weights) < 80:
            assert decimal(noise.delta()) - worst < Decimal(10) ** -30


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
def test_the_wall_counts_the_same(epsilon: Fraction, delta: Fraction) -> None:
    noise = SelectingNoise.calibrate(epsilon, delta)
    found, own = delta_of_a_key(list(noise.weights), epsilon), noise.delta()
    assert abs(found - own) <= own * Fraction(1, 10**20)
    worse = list(noise.weights)
    worse[0], worse[-1] = worse[0] + worse[-1], 1
    assert delta_of_a_key(worse, epsilon) > delta


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
def test_keys_are_published_as_often_as_the_optimal_rule(
    epsilon: Fraction, delta: Fraction
) -> None:
    noise = SelectingNoise.calibrate(epsilon, delta)
    with localcontext(prec=80):
        best = optimal(epsilon, delta)
        for n, chance in enumerate(best):
            mine = Decimal(noise.sums[min(n, len(noise.weights))]) / TOTAL
            assert mine <= chance
            assert mine >= chance * (1 - Decimal(10) ** -4)
    assert noise.sums[0] == 0
    assert noise.sums[-1] == TOTAL


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
def test_of_published_numbers_enough_lie_in_their_intervals(
    epsilon: Fraction, delta: Fraction
) -> None:
    noise = SelectingNoise.calibrate(epsilon, delta)
    last = len(noise.weights)
    for n in (*range(1, min(last, 40) + 1), last + 1, 3 * last):
        place = np.arange(1, min(n, last) + 1)
        low, high = noise.ends(n + noise.bound + 1 - place, 0.95)
        weights = np.array(noise.weights[: place.size], dtype=float)
        inside = weights[(low <= n) & (n <= high)].sum() / weights.sum()
        assert inside >= 0.95 - 1e-12
        assert (low >= 1).all()


def test_draws_have_the_law() -> None:
    noise = SelectingNoise.calibrate(Fraction(1), Fraction(1, 100))
    n, count = 4, 400_000
    drawn = noise.draws(np.full(count, n), SystemBits())
    with localcontext(prec=40):
        expected = outputs(noise, n)
    assert set(np.unique(drawn).tolist()) <= set(expected)
    chi = sum(
        (np.count_nonzero(drawn == y) - count * float(p)) ** 2 / (count * float(p))
        for y, p in expected.items()
    )
    assert chi < 60  # below 10 degrees of freedom: p < 1e-6 beyond
    moved = noise.draws(np.full(count, n + 1), SystemBits())
    assert abs(np.mean(moved > 0) - float(sum(expected.values()) - expected[0])) > 0.01


def test_a_key_of_nobody_is_never_published() -> None:
    noise = SelectingNoise.calibrate(Fraction(1), Fraction(1, 2))
    assert not noise.draws(np.zeros(100_000, dtype=np.int64), SystemBits()).any()


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(Fraction(1), Fraction(0)), (Fraction(1, 10**6), Fraction(1, 10**9))]
)
def test_too_little_to_find_anything_is_refused(epsilon: Fraction, delta: Fraction) -> None:
    with pytest.raises(ArgumentError, match="so small a loss"):
        SelectingNoise.calibrate(epsilon, delta)
