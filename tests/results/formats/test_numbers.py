from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from dprelease.results.formats.numbers import (
    decimals_of,
    machine_text,
    reading_decimals,
    reading_text,
)


def test_decimals_follow_the_step():
    steps = {"1": 0, "10": 0, "1/2": 1, "0.05": 2, "0.001": 3, "1/3": None, "1/1048576": None}
    assert {s: decimals_of(Fraction(s)) for s in steps} == steps


@given(
    st.sampled_from(["1", "25", "0.1", "0.05", "0.001", "1/8", "1/3"]),
    st.integers(-(10**11), 10**11),
)
def test_machine_text_reads_back_as_the_same_double(step, k):
    value = float(k * Fraction(step))
    assert float(machine_text(value, decimals_of(Fraction(step)))) == value


def test_a_fixed_two_decimals_twin_would_lose_values():
    assert float(f"{0.125:.2f}") != 0.125
    assert machine_text(0.125, decimals_of(Fraction(1, 8))) == "0.125"


def test_reading_text_has_separators_true_minus_and_no_negative_zero():
    assert reading_text(1234567.0, 0) == "1,234,567"
    assert reading_text(-0.04, 1) == "0.0"
    assert reading_text(-3.25, 2) == "\u22123.25"
    assert reading_decimals(Fraction(1, 100), None) == 2
    assert reading_decimals(Fraction(1, 100), 4.0) == 0
    assert reading_decimals(Fraction(1, 100), 0.0001) == 2
