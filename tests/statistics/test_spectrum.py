"""Measurements of a covariance matrix: the constants of their bounds and their exact cells."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dprelease.statistics.measurement import Axis, Measurement
from dprelease.statistics.spectrum import (
    MIRSKY,
    factors,
    matrix_sensitivity,
    pair_parts,
    solver_error,
    spectrum_sensitivity,
    square_width,
)
from dprelease.statistics.spectrum_cells import matrix_cells, matrix_shift, spectrum_cells

AXES = (
    Axis(7, Fraction(-3), Fraction(1)),
    Axis(10, Fraction(0), Fraction(1, 4)),
    Axis(3, Fraction(5), Fraction(2)),
)
GRID = Fraction(1, 2**24)


def measurement(n: int, form: str, grid: Fraction = GRID) -> Measurement:
    cells = 3 if form == "spectrum" else 6
    return Measurement(
        family=form,  # type: ignore[arg-type]
        key=(form,),
        cells=("c",) * cells,
        measures=(),
        weights=(),
        l1_added_row=1,
        l1_replaced_row=1,
        step_size=grid,
        form=form,  # type: ignore[arg-type]
        public_rows=n,
        axes=AXES,
    )


def sums_of(codes: np.ndarray) -> np.ndarray:
    """Return S(1), S_i, S_ij of rows of codes, `(1, 10)`."""
    pairs = itertools.combinations_with_replacement(range(3), 2)
    both = [int((codes[:, i] * codes[:, j]).sum()) for i, j in pairs]
    return np.array([[len(codes), *codes.sum(axis=0).tolist(), *both]], dtype=object)


def values_of(codes: np.ndarray) -> np.ndarray:
    return np.array(
        [
            [float(a.offset + a.step_size * int(k)) for a, k in zip(AXES, row, strict=True)]
            for row in codes
        ]
    )


def test_the_constant_is_an_upper_bound_of_two_over_root_three() -> None:
    assert MIRSKY**2 * 3 > 4
    assert (MIRSKY - Fraction(1, 10**9)) ** 2 * 3 < 4


def test_parts_of_a_private_matrix_weigh_nearly_the_same() -> None:
    scaled = [f * part for f, part in zip(factors(AXES), pair_parts(AXES), strict=True)]
    assert len(scaled) == 6
    assert 1 <= max(scaled) / min(scaled) < 1.002


def test_the_solver_s_error_is_far_below_a_grid_step_and_is_charged() -> None:
    assert 0 < solver_error(64) < Fraction(1, 10**9)
    n, fine = 900, Fraction(1, 2**44)
    move = spectrum_sensitivity(AXES, n, fine)
    ideal = MIRSKY * Fraction(n - 1, n * n)
    assert move * fine >= ideal + 2 * 3 * solver_error(3)  # twin: without tau it would be less
    assert int(ideal / fine) + 3 < move
    assert spectrum_sensitivity(AXES, n, GRID) == int((ideal + 6 * solver_error(3)) / GRID) + 3
    assert matrix_sensitivity(AXES, n, GRID) > 6


@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_cells_are_those_of_the_covariance_matrix(count: int) -> None:
    codes = np.random.default_rng(count).integers(0, [8, 11, 4], (count, 3))
    matrix = np.cov(values_of(codes).T, ddof=0).reshape(3, 3) / float(square_width(AXES))
    found = spectrum_cells(measurement(count, "spectrum"), sums_of(codes))[0].astype(float) * float(
        GRID
    )
    assert found == pytest.approx(np.linalg.eigvalsh(matrix)[::-1], abs=float(GRID))
    assert (np.diff(found) <= 0).all()
    made = measurement(count, "matrix")
    cells = matrix_cells(made, sums_of(codes))[0]
    assert (cells >= 0).all()
    upper = (cells - matrix_shift(made)).astype(float) * float(GRID)
    assert upper == pytest.approx(matrix[np.triu_indices(3)], abs=float(GRID))


def test_sums_of_no_table_give_cells_too() -> None:
    """Total: whatever the integers are, nothing raises and cells stay in their range."""
    for scale in (0, -(10**9), 10**30):
        sums = np.array([[3, *(scale,) * 9]], dtype=object)
        cells = spectrum_cells(measurement(3, "spectrum"), sums)[0]
        assert all(0 <= c <= int(Fraction(1, 4) / GRID) + 1 for c in cells)
        assert len(matrix_cells(measurement(3, "matrix"), sums)[0]) == 6


@pytest.mark.parametrize("n", [2, 3, 4, 7])
def test_a_replaced_row_moves_the_spectrum_as_far_as_observed_but_never_further(n: int) -> None:
    """The largest change found is kappa R^2 (tight for Frobenius); the bound is 15 % above it."""
    corners = list(itertools.product((0, 7), (0, 10), (0, 3)))
    made = measurement(n, "spectrum")
    stated, worst = spectrum_sensitivity(AXES, n, GRID), 0
    for others in itertools.combinations_with_replacement(corners, n - 1 if n < 4 else 1):
        repeated = [*others] * (1 if n < 4 else n - 1)
        tables = [np.array([*repeated, row]) for row in corners]
        cells = [spectrum_cells(made, sums_of(t))[0].astype(int) for t in tables]
        worst = max(worst, *(int(np.abs(a - b).sum()) for a in cells for b in cells))
    assert worst <= stated
    assert worst >= 0.8 * stated


def test_twin_half_of_the_bound_is_exceeded() -> None:
    made = measurement(2, "spectrum")
    tables = [np.array([[0, 0, 0], row]) for row in ([0, 0, 0], [7, 10, 3])]
    a, b = (spectrum_cells(made, sums_of(t))[0].astype(int) for t in tables)
    assert int(np.abs(a - b).sum()) > spectrum_sensitivity(AXES, 2, GRID) / 2
