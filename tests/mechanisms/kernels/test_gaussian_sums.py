"""Brackets of Gaussian sums against their definition in mpmath; every term is needed."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.mechanisms.kernels import gaussian_sums
from dprelease.mechanisms.kernels.gaussian_sums import Bounds, gaussian_sum


def defined(runs: Any, q: int, rate: Fraction) -> Any:
    r = mp.mpf(rate.numerator) / rate.denominator
    return sum(mp.exp(-r * (y - q) ** 2) for a, b in runs for y in range(a, b + 1))


def brackets(found: Bounds, value: Any, room: float) -> bool:
    low = mp.mpf(found.low.numerator) / found.low.denominator
    high = mp.mpf(found.high.numerator) / found.high.denominator
    return bool(low <= value <= high and high - low <= room * value)


@settings(max_examples=60, deadline=None)
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


@pytest.mark.parametrize("q", [0, 31, 5000, 9000, 30000])
def test_far_ends_and_tails(q: int) -> None:
    """Integrals beyond z = 120 and points beyond z = 300."""
    runs, rate = ((0, 9000), (9500, 9500)), Fraction(1, 2 * 40**2)
    with mp.workdps(60):
        found = gaussian_sum(runs, q, rate)
        assert brackets(found, defined(runs, q, rate), float("inf"))
        if q < 9500:
            assert brackets(found, defined(runs, q, rate), 1e-6)


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
