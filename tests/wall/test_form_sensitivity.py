"""The wall's bounds of a covariance matrix: those that are claimed, made apart from them; never below what is claimed true."""

from __future__ import annotations

import ast
import inspect
from fractions import Fraction

import pytest

from dprelease.statistics import spectrum
from dprelease.statistics.measurement import Axis
from dprelease.wall import form_sensitivity

AXES = (
    Axis(7, Fraction(-3), Fraction(1)),
    Axis(10, Fraction(0), Fraction(1, 4)),
    Axis(3, Fraction(5), Fraction(2)),
    Axis(500_000, Fraction(0), Fraction(1, 100)),
)


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("rows", [1, 2, 3, 40, 10**6, 2**40])
@pytest.mark.parametrize("step", [Fraction(1, 8), Fraction(1, 2**24), Fraction(1, 2**45)])
def test_claim_and_proof_are_the_same_number(count: int, rows: int, step: Fraction) -> None:
    axes = AXES[:count]
    claimed = spectrum.matrix_sensitivity(axes, rows, step)
    assert form_sensitivity.entry_sensitivity(axes, rows, step) == claimed
    claimed = spectrum.spectrum_sensitivity(axes, rows, step)
    proved = form_sensitivity.eigenvalue_sensitivity(axes, rows, step)
    # the claim rounds 2 / sqrt 3 up at 10^-9, the proof at 2^-64
    assert claimed - 1 - Fraction(1, rows) / step / 10**9 <= proved <= claimed


def test_two_by_root_three_is_an_upper_bound() -> None:
    bound = form_sensitivity._TWO_BY_ROOT_THREE
    assert 3 * bound**2 > 4
    assert 3 * (bound - Fraction(2, 2**64)) ** 2 < 4


def test_nothing_of_the_claim_is_imported() -> None:
    source = ast.parse(inspect.getsource(form_sensitivity))
    names = {n.module for n in ast.walk(source) if isinstance(n, ast.ImportFrom)}
    assert not any("spectrum" in str(name) for name in names)
