"""Brackets of Gaussian sums against their definition in mpmath; every term is needed."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.mechanisms.kernels import gaussian_sums
from dprelease.mechanisms.kernels.gaussian_sums import Enclosure, gaussian_sum
from tests.sizes import some, whole


def defined(runs: Any, q: int, rate: Fraction) -> Any:
    r = mp.mpf(rate.numerator) / rate.denominator
    return sum(mp.exp(-r * (y - q) ** 2) for a, b in runs for y in range(a, b + 1))


def brackets(found: Enclosure, value: Any, room: float) -> bool:
    low = mp.mpf(found.low.numerator) / found.low.denominator
    high = mp.mpf(found.high.numerator) / found.high.denominator
    return bool(low <= value <= high and high - low <= room * value)


@settings(max_examples=whole(30, 60))
@given(
    st.integers(-300, 300),
    st.integers(0, 400),
    st.integers(0, 90),
    st.integers(0, 60),
    st.fractions("1/40000", "1/80", max_denominator=10**6),
)
def test_sums_are_bracketed(q: int, first: int, gap: int, second: int, rate: Fraction) -> None:
    runs = ((0, first), (first + gap + 2, first + gap + 2 + second))
    with mp.workdps(60):
        value = defined(runs, q, rate)
        found = gaussian_sum(runs, q, rate)
        assert brackets(found, value, float("inf"))
        if 0 <= q <= first:
            assert brackets(found, value, 0.2 * float(rate) ** 1.5)


@pytest.mark.parametrize("q", some([0, 31, 5000, 9000, 30000], 2))
def test_far_ends_and_tails(q: int) -> None:
    """Integrals beyond z = 120 and points beyond z = 300."""
    runs, rate = ((0, 9000), (9500, 9500)), Fraction(1, 2 * 40**2)
    with mp.workdps(60):
        found = gaussian_sum(runs, q, rate)
        assert brackets(found, defined(runs, q, rate), float("inf"))
        if q < 9500:
            assert brackets(found, defined(runs, q, rate), 1e-6)


def remainder(rate: Any, a: int, b: int) -> tuple[Any, Any]:
    """Return |R| of the sum over a..b around 0, and the integral of |f''''| / 720."""
    f = lambda x: mp.exp(-rate * x * x)  # noqa: E731
    slope = lambda x: -2 * rate * x * f(x)  # noqa: E731
    hermite = lambda z: z**4 - 6 * z**2 + 3  # noqa: E731
    fourth = lambda x: abs((2 * rate) ** 2 * hermite(mp.sqrt(2 * rate) * x) * f(x))  # noqa: E731
    roots = [s * mp.sqrt((3 + t * mp.sqrt(6)) / (2 * rate)) for s in (-1, 1) for t in (-1, 1)]
    ends = [a, *sorted(r for r in roots if a < r < b), b]
    whole = sum(f(mp.mpf(x)) for x in range(a, b + 1)) - mp.quad(f, ends)
    return abs(whole - (f(a) + f(b)) / 2 - (slope(b) - slope(a)) / 12), mp.quad(fourth, ends) / 720


def test_the_remainder_is_bounded_cell_by_cell_not_by_one_integral() -> None:
    """A 720th of the integral of |f''''| is too little: the mean over a cell is not an even one."""
    over = 0
    with mp.workdps(30):
        for rate in (mp.mpf(1) / 65, mp.mpf(1) / 80, mp.mpf(1) / 1000):
            for a, b in ((0, 1), (0, 3), (-5, 5), (3, 9), (4, 20), (0, 40)):
                found, integral = remainder(rate, a, b)
                exact = Fraction(int(rate**-1 + mp.mpf("0.5")))
                assert found <= float(gaussian_sums._remainder(1 / exact, b - a)) * (1 + 1e-12)
                over += found > integral
    assert over >= 5


def test_a_bracket_without_its_remainder_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, q, rate = ((0, 30),), 0, Fraction(1, 70)
    with mp.workdps(60):
        value = defined(runs, q, rate)
        assert brackets(gaussian_sum(runs, q, rate), value, 1e-3)
        monkeypatch.setattr(gaussian_sums, "_remainder", lambda rate, length: Fraction(0))
        assert not brackets(gaussian_sum(runs, q, rate), value, 1e-3)


def test_a_length_of_a_thousand_million() -> None:
    rate = Fraction(1, 2 * (10**8) ** 2)
    found = gaussian_sum(((0, 10**9),), 0, rate)
    with mp.workdps(60):
        half = mp.sqrt(mp.pi / 2) * 10**8 + mp.mpf(1) / 2
        assert abs(mp.mpf(found.low.numerator) / found.low.denominator - half) < mp.mpf(10) ** -12
        assert found.high - found.low < Fraction(1, 10**12)
