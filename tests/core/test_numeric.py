"""Exact numbers and one-sided rounding."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import mpmath  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import (
    NANO,
    exact,
    exp_lower,
    exp_upper,
    floor_half_up,
    fraction_from_json,
    fraction_to_json,
    nano_up,
    plain,
    positive,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.1, Fraction(1, 10)),
        ("0.1", Fraction(1, 10)),
        (" 1e-6 ", Fraction(1, 10**6)),
        (Decimal("2.50"), Fraction(5, 2)),
        ("1/3", Fraction(1, 3)),
        (7, Fraction(7)),
        (Fraction(2, 3), Fraction(2, 3)),
        ("-inf", -math.inf),
        (math.inf, math.inf),
    ],
)
def test_a_number_is_read_exactly(value: object, expected: object) -> None:
    assert exact(value) == expected


@pytest.mark.parametrize(
    "value", [True, None, "", "x", "1/0", "1/x", math.nan, "1e500", "1e-500", [], object()]
)
def test_exact_refuses(value: object) -> None:
    with pytest.raises(ArgumentError) as caught:
        exact(value)
    assert caught.value.code == "DPR605"


@pytest.mark.parametrize(
    "text", ["0" * 8001 + "5", " " * 8001 + "5", "5." + "0" * 8001, "9" * 10**7]
)
def test_a_text_is_refused_by_its_length_before_it_is_read(text: str) -> None:
    for read in (exact, fraction_from_json):
        with pytest.raises(ArgumentError) as caught:
            read(text)
        assert caught.value.code == "DPR605"


def test_zeros_within_the_length_are_read() -> None:
    assert exact("0" * 3000 + "5") == exact(" " * 3000 + "5") == 5


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300))
def test_floats_round_trip(value: float) -> None:
    if value == 0 or abs(value) > 1e-300:
        number = exact(value)
        assert float(number) == value
        assert exact(plain(number)) == number


@given(st.fractions())
def test_plain_and_json_are_faithful(value: Fraction) -> None:
    assert exact(plain(value)) == value
    assert fraction_from_json(fraction_to_json(value)) == value


def test_a_number_that_is_not_positive_is_refused() -> None:
    assert positive("0.5", "x") == Fraction(1, 2)
    assert positive(0, "x", allow_zero=True) == 0
    for value in (0, -1, math.inf):
        with pytest.raises(ArgumentError) as caught:
            positive(value, "x")
        assert caught.value.code == "DPR606"


@given(st.fractions(-100, 100))
def test_floor_half_up(value: Fraction) -> None:
    assert floor_half_up(value) == math.floor(value + Fraction(1, 2))


@given(st.fractions(0, 60, max_denominator=10**6))
def test_exponentials_bracket_the_truth_tightly(x: Fraction) -> None:
    low, high = exp_lower(x), exp_upper(x)
    with mpmath.workdps(120):
        true = mpmath.exp(mpmath.mpf(x.numerator) / x.denominator)
        as_mpf = [mpmath.mpf(v.numerator) / v.denominator for v in (low, high)]
        assert as_mpf[0] <= true * (1 + mpmath.mpf(10) ** -110)
        assert as_mpf[1] >= true * (1 - mpmath.mpf(10) ** -110)
        # control: no looser than stated, and a bound rounded the wrong way would be seen
        assert as_mpf[0] >= true * (1 - mpmath.mpf(2) ** -124)
        assert as_mpf[1] <= true * (1 + mpmath.mpf(2) ** -123)
        if x > 0:
            assert as_mpf[0] < true < as_mpf[1]


def test_exponential_of_zero_and_negative() -> None:
    assert exp_lower(Fraction(0)) == 1
    with pytest.raises(AssertionError):
        exp_lower(Fraction(-1))


@given(st.fractions(0, 1000))
def test_nano_units_round_up(value: Fraction) -> None:
    assert Fraction(nano_up(value), NANO) >= value > Fraction(nano_up(value) - 1, NANO)
