"""The rho of pure laws against divergences that are summed in 50 digits, for every way to move cells."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.budget.exact_rho import pure_of_rho, rho_of_laplace, rho_of_pure
from tests.sizes import some

RATES = (Fraction(1, 5), Fraction(1), Fraction(3))
ORDERS = tuple(map(mp.mpf, some(("1.000001", "1.05", "1.5", "2", "3.7", "16", "300"), 2)))
BOUNDS = [(1, None), (2, None), (2, 2), (3, 3), (4, 8), (4, 10), (5, 25), (6, 12), (7, 3), (2, 9)]


@cache
def divergence(rate: Fraction, k: int, order: mp.mpf) -> mp.mpf:
    """Return D_order of the laws of noise around 0 and k, every term of the sum but vanishing ones."""
    with mp.workdps(50):
        r = mp.mpf(rate.numerator) / rate.denominator
        cutoff = math.ceil(130 / float(rate)) + k
        total = mp.mpf(0)
        for x in range(-cutoff, cutoff + k + 1):
            total += mp.exp(-r * (order * abs(x) + (1 - order) * abs(x - k)))
        return mp.log(mp.tanh(r / 2) * total) / (order - 1)


def changes(l1: int, square: int | None) -> list[tuple[int, ...]]:
    """Return the changes of up to 7 cells, without order or sign, within both bounds."""
    sizes = combinations_with_replacement(range(l1 + 1), min(l1, 7))
    most = l1 * l1 if square is None else square
    return [k for k in sizes if sum(k) <= l1 and sum(v * v for v in k) <= most]


def furthest(rate: Fraction, l1: int, square: int | None) -> mp.mpf:
    return max(
        sum((divergence(rate, k, a) for k in move if k), mp.mpf(0)) / a
        for move in changes(l1, square)
        for a in ORDERS
    )


def real(value: Fraction) -> mp.mpf:
    return mp.mpf(value.numerator) / value.denominator


@pytest.mark.parametrize("rate", RATES)
def test_no_move_of_cells_diverges_further(rate: Fraction) -> None:
    with mp.workdps(50):
        for l1, square in BOUNDS:
            stated = rho_of_laplace(rate, l1, square)
            assert furthest(rate, l1, square) <= real(stated) <= real((rate * l1) ** 2 / 2)


def test_one_cell_attains_it() -> None:
    """Nothing is given away where the whole move may fall on one cell, or on equal ones."""
    with mp.workdps(50):
        for rate in RATES:
            for l1, square in ((1, None), (4, None), (5, 25), (3, 3), (4, 8)):
                stated = real(rho_of_laplace(rate, l1, square))
                assert furthest(rate, l1, square) >= stated * (1 - mp.mpf("1e-4"))


def test_twins_that_state_less_are_caught() -> None:
    with mp.workdps(50):
        rate, l1 = Fraction(1), 4
        honest = furthest(rate, l1, None)
        assert honest <= real(rho_of_laplace(rate, l1))
        by_the_step = l1 * rho_of_laplace(rate, 1)  # steps add up, and their rho does not
        assert honest > real(by_the_step)
        spread = rho_of_laplace(
            rate, l1, 2 * l1
        )  # changes of two where all four may be on one cell
        assert honest > real(spread)
        one = real(Fraction(1))
        continuous = one + mp.exp(-one) - 1  # of noise that is not on a grid
        assert furthest(Fraction(1), 1, None) > continuous
        assert furthest(Fraction(1), 1, None) > real(rho_of_pure(Fraction(1)) * Fraction(9, 10))


def test_no_pure_pair_diverges_further() -> None:
    """Pairs of laws on a few points whose losses are at most epsilon, the widest ones among them."""
    pick, worst = random.Random("pairs"), mp.mpf(0)
    with mp.workdps(30):
        for epsilon in (Fraction(1, 10), Fraction(1), Fraction(2), Fraction(5)):
            e = real(epsilon)
            stated = real(rho_of_pure(epsilon))
            pairs = [([mp.exp(e), mp.mpf(1)], [mp.mpf(1), mp.exp(e)])]
            for _ in range(60):
                weights = [mp.mpf(pick.randint(1, 30)) for _ in range(pick.randint(2, 5))]
                other = [w * mp.exp(e * pick.choice((0, 0.5, 1, 1))) for w in weights]
                pairs.append((weights, other))
            for one, two in pairs:
                p = [w / sum(one) for w in one]
                q = [w / sum(two) for w in two]
                assert max(abs(mp.log(x / y)) for x, y in zip(p, q, strict=True)) <= e * (
                    1 + mp.mpf("1e-20")
                )
                for a in ORDERS:
                    total = sum(x**a * y ** (1 - a) for x, y in zip(p, q, strict=True))
                    found = mp.log(total) / (a - 1) / a
                    assert found <= stated
                    worst = max(worst, found / stated)
    assert worst > 0.9999  # randomised response attains it


@settings(max_examples=60)
@given(st.fractions(Fraction(1, 10**8), 40, max_denominator=10**9))
def test_a_loss_of_a_rho_is_the_largest_with_that_rho(rho: Fraction) -> None:
    epsilon = pure_of_rho(rho)
    assert rho_of_pure(epsilon) <= rho < rho_of_pure(epsilon + Fraction(1, 10**9))


def test_extremes_stay_bounds() -> None:
    assert (
        rho_of_pure(Fraction(0)) == rho_of_laplace(Fraction(1), 0) == pure_of_rho(Fraction(0)) == 0
    )
    assert rho_of_pure(Fraction(10**6)) == 10**6
    tiny = Fraction(1, 10**14)
    assert 0 < rho_of_pure(tiny) <= tiny * tiny / 2
    wide = rho_of_laplace(
        tiny, 10**14
    )  # a loss of 1, spread over very many steps: as without a grid
    assert math.isclose(float(wide), math.exp(-1), rel_tol=1e-9)
    assert rho_of_laplace(Fraction(60), 10**9) <= 60 * 10**9
