"""zCDP: the conversion against its formula in 50 digits."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.budget.concentrated import (
    log_lower,
    log_upper,
    zcdp_epsilon,
    zcdp_of_pure,
    zcdp_rho,
)
from dprelease.budget.loss_lattice import LossLattice
from tests.sizes import some

DELTA = Fraction(1, 10**6)


def tight(rho: float, delta: float) -> float:
    """Return the least epsilon over orders on a fine grid, in 50 digits."""
    with mp.workdps(50):
        r, d = mp.mpf(rho), mp.mpf(delta)
        grid = [1 + mp.mpf(10) ** (mp.mpf(i) / 200) for i in range(-1000, 1400)]
        return float(min(a * r + mp.log(1 / (a * d)) / (a - 1) + mp.log(1 - 1 / a) for a in grid))


@pytest.mark.parametrize("rho", some(["0.0001", "0.01", "0.5", "3", "40"], 2))
@pytest.mark.parametrize("delta", some(["1e-3", "1e-6", "1e-12"], 2))
def test_the_conversion_is_the_tight_formula_from_above(rho: str, delta: str) -> None:
    found = float(zcdp_epsilon(Fraction(rho), Fraction(delta)))
    expected = max(0.0, tight(float(rho), float(delta)))
    assert expected * (1 - 1e-3) <= found <= expected * (1 + 1e-6) + 2e-9


def test_a_known_figure() -> None:
    assert float(zcdp_epsilon(Fraction(1, 2), DELTA)) == pytest.approx(5.2215, abs=1e-4)


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1, 2), Fraction(3)])
def test_a_pure_loss_is_covered_by_its_rho(epsilon: Fraction) -> None:
    rho = zcdp_of_pure(epsilon)
    lattice = LossLattice.two_points(epsilon, epsilon)
    for digits in range(1, 9):
        least = lattice.epsilon(Fraction(1, 10**digits))
        assert least is not None
        assert least <= zcdp_epsilon(rho, Fraction(1, 10**digits))
    assert zcdp_of_pure(epsilon, bounded_range=True) == epsilon**2 / 8


@settings(max_examples=50)
@given(st.integers(10**3, 20 * 10**9), st.sampled_from([3, 6, 9]))
def test_rho_and_back(nano: int, digits: int) -> None:
    epsilon, delta = Fraction(nano, 10**9), Fraction(1, 10**digits)
    rho = zcdp_rho(epsilon, delta)
    assert zcdp_epsilon(rho, delta) <= epsilon
    assert zcdp_epsilon(rho + Fraction(2, 10**9), delta) > epsilon * (1 - Fraction(1, 10**3))


@settings(max_examples=60)
@given(st.fractions(1, 10**9, max_denominator=10**12))
def test_logarithms_enclose(x: Fraction) -> None:
    low, high = log_lower(x), log_upper(x)
    with mp.workdps(60):
        exact = mp.log(mp.mpf(x.numerator) / x.denominator)
        assert mp.mpf(low.numerator) / low.denominator <= exact
        assert mp.mpf(high.numerator) / high.denominator >= exact
    assert math.isclose(float(low), float(high), rel_tol=1e-9, abs_tol=1e-12)
