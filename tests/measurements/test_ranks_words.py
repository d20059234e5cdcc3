"""The sentences about a choice by rank say rows, ends and shares as they are."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dprelease.audit.flips import flip_chances
from dprelease.measurements.ranks import (
    ExponentialLaw,
    PermuteAndFlipLaw,
    aim,
    exponential_notes,
    rank_error_text,
    typical_error,
)
from dprelease.mechanisms.forms.flips import FlipLaw
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.schema.domain import GridSet
from dprelease.statistics.measurement import Measurement
from tests.planning.requests import planned

MEASUREMENT = Measurement("ranks", ("ranks",), ("choice",), ((1, 2, 0),), 2, 4, form="ranks")
DRAW = ExponentialLaw(
    ScoreLaw.calibrate(101, spread=2, epsilon=1), GridSet(((0, 100),)), Fraction(1)
)


@pytest.mark.parametrize(
    ("target", "aims", "error"),
    [
        ((1, 2, 0), "the value at 0.5 of the rows", "±3 rows in rank where rows differ, ±8 at most (95 %)"),
        ((999, 1000, 0), "the value at 0.999 of the rows", "±1 row in rank where rows differ, ±1 at most (95 %)"),
        ((2, 2, -3), "the value with 1 row above it", "1 ±3 rows from the end where rows differ, ±8 at most (95 %)"),
        ((0, 2, 2401), "the value with 1,200 rows below it", "1,200 ±3 rows from the end where rows differ, ±8 at most (95 %)"),
        ((2, 2, -1), "the last row's value", "0 ±3 rows from the end where rows differ, ±8 at most (95 %)"),
        ((1, 1, 0), "the last row's value or any value beyond",
         "0 to 6 rows from the end where rows differ, 15 at most (95 %), or beyond the data"),
        ((0, 1, 0), "the first row's value or any value beyond",
         "0 to 6 rows from the end where rows differ, 15 at most (95 %), or beyond the data"),
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


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), 1, 4])
@pytest.mark.parametrize("rows", [27, 60, 1000])
def test_the_error_for_rows_that_differ_is_that_of_evenly_spaced_ones(
    rows: int, epsilon: Fraction
) -> None:
    """Exactly, for both laws; a third of it would not be enough (control)."""
    points = 20_001
    grid = GridSet(((0, points - 1),))
    law = ScoreLaw.calibrate(points, spread=2, epsilon=epsilon)
    at = np.linspace(0, points - 1, rows).astype(int)
    places = np.arange(points)
    below, upto = (np.searchsorted(at, places, side) for side in ("left", "right"))
    scores = np.maximum(0, np.maximum(2 * below - rows, rows - 2 * upto))
    many = np.bincount(scores)
    apart = np.flatnonzero(many)
    for draw in (
        ExponentialLaw(law, grid, Fraction(1)),
        PermuteAndFlipLaw(FlipLaw.from_scores(law), grid, Fraction(1)),
    ):
        error = typical_error(draw, 2, 0)
        assert error is not None
        weights = law.weights(apart).astype(float)
        chance = weights / (weights @ many[apart])
        if isinstance(draw, PermuteAndFlipLaw):
            chance = flip_chances(draw.law, many[apart], apart)
        beyond = [float((chance * many[apart])[apart > 2 * e].sum()) for e in (error, error / 3)]
        assert beyond[0] <= 0.05 * (1 + 1e-9)
        assert beyond[1] > 0.05 or error < 3 or 2 * error > rows
        bound = draw.rank_error(2, 0.95)
        assert bound is None or error <= bound


def test_a_median_of_few_incomes_says_something_where_its_error_for_rows_that_differ_is_less_than_they_are() -> (
    None
):
    incomes = {"kind": "number", "range": [0, 1_000_000], "step": 1}
    for rows, epsilon, says in (
        (27, 1, True),
        (60, "0.5", True),
        (27, "0.2", False),
        (5, 1, False),
    ):
        plan = planned(
            ["median(x)"], rows={"max": 500, "expected": rows}, x=incomes, epsilon=epsilon
        )
        (told,) = plan.statistics
        assert (told.uninformative is None) == says
        assert told.error_text is not None
        assert "where rows differ" in told.error_text
        assert "at most (95 %)" in told.error_text
        assert any("for any data; " in note and "if the rows differ" in note for note in told.notes)
