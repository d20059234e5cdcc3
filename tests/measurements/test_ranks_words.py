"""The sentences about a choice by rank say rows, ends and shares as they are."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from dprelease.aggregates.measurement import Measurement
from dprelease.measurements.ranks import ExponentialDraw, aim, exponential_notes, rank_error_text
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.schema.domain import GridSet

MEASUREMENT = Measurement("ranks", ("ranks",), ("choice",), ((1, 2, 0),), 2, 4, form="ranks")
DRAW = ExponentialDraw(
    ScoreLaw.calibrate(101, spread=2, epsilon=1), GridSet(((0, 100),)), Fraction(1)
)


@pytest.mark.parametrize(
    ("target", "aims", "error"),
    [
        ((1, 2, 0), "the value at 0.5 of the rows", "±8 rows in rank (95 %)"),
        ((999, 1000, 0), "the value at 0.999 of the rows", "±1 row in rank (95 %)"),
        ((2, 2, -3), "the value with 1 row above it", "1 ±8 rows from the end (95 %)"),
        ((0, 2, 2401), "the value with 1,200 rows below it", "1,200 ±8 rows from the end (95 %)"),
        ((2, 2, -1), "the last row's value", "0 ±8 rows from the end (95 %)"),
        ((1, 1, 0), "the last row's value or any value beyond",
         "0 to 15 rows from the end (95 %), or beyond the data"),
        ((0, 1, 0), "the first row's value or any value beyond",
         "0 to 15 rows from the end (95 %), or beyond the data"),
    ],
)  # fmt: skip
def test_aim_and_error(target: tuple[int, int, int], aims: str, error: str) -> None:
    measurement = replace(MEASUREMENT, weights=(target,))
    assert aim(measurement) == aims
    assert rank_error_text(DRAW, measurement) == error
    notes = exponential_notes(DRAW, measurement)
    assert f"among 101 allowed values; it aims at {aims}" in notes[0]
    assert ("at least 1,201 rows" in notes[1]) == (target[2] == 2401)
    assert any("no interval" in note for note in notes)
