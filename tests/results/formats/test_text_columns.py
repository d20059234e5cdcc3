"""Columns as text are the texts that Python writes cell by cell."""

from __future__ import annotations

import math
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.results.formats.numbers import machine_text
from dprelease.results.formats.text_columns import fixed, fixed_apart, joined, lines, shortest

ENDS = [
    0.0, -0.0, 1.0, -2.5, 0.1, 1e-4, 9.999999e-5, 1e-5, 1.5e-7, 5e-324, 123456789.125,
    22517998136852.48, 999999999999999.9, 1e15, 1e15 + 0.125, 1234567890123456.8, 1e16 - 2, 1e16,
    1e22, 2.0**51, 2.0**53, 2.0**53 + 2, 1.7e308, 0.005, 0.015, 1.005, 2.675, 1e-12,
]  # fmt: skip
"""Where notations change, ties of decimals, and the ends of what is exact."""

doubles = st.floats(allow_nan=False, allow_infinity=False)


def bits(count: int) -> list[float]:
    """Return doubles of every magnitude: finite ones among random bits."""
    random = np.random.Generator(np.random.Philox(8))
    made = struct.unpack(f"{count}d", random.bytes(8 * count))
    return [x for x in made if math.isfinite(x)]


SPREAD = [
    *ENDS,
    *(-x for x in ENDS),
    *bits(3000),
    *np.round(np.geomspace(1e-6, 1e14, 3000), 2).tolist(),
]


def test_the_shortest_text_is_repr() -> None:
    assert shortest(pa.array(SPREAD)).to_pylist() == [repr(x + 0.0) for x in SPREAD]
    assert shortest(pa.array([math.nan, math.inf])).to_pylist() == ["nan", "inf"]


@given(st.lists(doubles))
def test_the_shortest_text_is_repr_of_anything(values: list[float]) -> None:
    got = shortest(pa.array(values, pa.float64())).to_pylist()
    assert got == [repr(x + 0.0) for x in values]


@pytest.mark.parametrize("decimals", range(13))
def test_fixed_decimals_are_the_formatter_s(decimals: int) -> None:
    values = [*SPREAD, *(round(x, decimals) for x in SPREAD)]
    assert fixed(pa.array(values), decimals).to_pylist() == [
        machine_text(x, decimals) for x in values
    ]


@given(st.lists(st.tuples(st.integers(-(10**18), 10**18), st.integers(0, 12))))
def test_multiples_of_a_step_keep_their_digits(multiples: list[tuple[int, int]]) -> None:
    for k, decimals in multiples:
        value = k / 10**decimals
        assert fixed(pa.array([value]), decimals).to_pylist() == [f"{value + 0.0:.{decimals}f}"]


def test_missing_values_and_integers() -> None:
    column = pa.chunked_array([[1.5, None], [-0.0]])
    assert shortest(column).to_pylist() == ["1.5", "", "0.0"]
    assert shortest(column, missing="null").to_pylist() == ["1.5", "null", "0.0"]
    assert fixed(column, 1).to_pylist() == ["1.5", "", "0.0"]
    assert fixed(column, None).to_pylist() == ["1.5", "", "0.0"]
    assert fixed(pa.array([2**53 + 1, None]), 0).to_pylist() == ["9007199254740993", ""]


def test_every_row_has_the_decimals_of_its_column() -> None:
    values = pa.array([1.0, 2.25, None, 3.0, 1e20])
    got = fixed_apart(values, [0, 2, 0, None], np.array([0, 1, 1, 2, 3]))
    assert got.to_pylist() == ["1", "2.25", "", "3", "1e+20"]
    assert fixed_apart(values[:0], [0], np.array([], dtype=np.int64)).to_pylist() == []


def test_lines_are_the_cells_of_a_slice_too() -> None:
    cells = [pa.array(["gone", "a", "ü"])[1:], pa.array(["gone", "", "c"])[1:]]
    assert lines("x,y\n", cells, ",", "\n") == "x,y\na,\nü,c\n".encode()
    assert lines("x,y\n", [column[:0] for column in cells], ",", "\n") == b"x,y\n"
    assert joined(["[", cells[0], pa.array(["1", None])], "").to_pylist() == ["[a1", None]
