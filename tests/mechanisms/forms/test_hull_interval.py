"""Both ends by bisection are the ends of the set as it is defined, found point by point."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dprelease.core.errors import ArgumentError
from dprelease.core.registry import load
from dprelease.mechanisms.forms import hull_interval
from dprelease.mechanisms.forms.hull_interval import first_answer, likely_answers
from dprelease.mechanisms.law import GridRequest
from dprelease.schema.domain import GridSet

HULLS = [((0, 0),), ((-7, 12),), ((-40, -20), (3, 9)), ((2**60 - 60, 2**60),)]


def logistic(scale):
    """P_q(Y <= y) of a law that is not symmetric in q: its scale grows with y."""
    return lambda q, y: 1 / (1 + np.exp(-(y - q + 0.3).astype(np.float64) / scale))


def by_definition(allowed, y, level, below):
    hull = np.arange(allowed.lower, allowed.upper + 1, dtype=np.int64)
    at = np.full_like(hull, y)
    tail = (1 - level) / 2 * (1 - 1e-6)
    up, down = 1 - below(hull, at - 1) >= tail, below(hull, at) >= tail
    first = hull[up][0] if up.any() else hull[-1]
    last = hull[down][-1] if down.any() else hull[0]
    return min(first, last), max(first, last)


def by_definition_at(allowed, y, level, below):
    """What either end draws that far out, or farther, with less than both tails is read as what it does not."""
    hull = np.arange(allowed.lower, allowed.upper + 1, dtype=np.int64)
    some = (1 - level) * (1 - 1e-6) if level > 0.5 else 0
    low = hull[below(np.full_like(hull, hull[0]), hull) >= some]
    high = hull[1 - below(np.full_like(hull, hull[-1]), hull - 1) >= some]
    y = max(y, low[0] if low.size else hull[-1])
    return by_definition(allowed, min(y, high[-1] if high.size else hull[0]), level, below)


def ends(allowed, level, below):
    y = allowed.points()
    low, high = likely_answers(allowed, y, level, below)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def expected(allowed, level, below):
    return [by_definition_at(allowed, y, level, below) for y in allowed.points().tolist()]


@pytest.mark.parametrize("runs", HULLS)
@pytest.mark.parametrize("level", [0.1, 0.9, 0.9999])
@pytest.mark.parametrize("scale", [0.2, 3.0, 500.0])
def test_the_ends_are_those_of_the_set(runs, level, scale):
    allowed, below = GridSet(runs), logistic(scale)
    assert ends(allowed, level, below) == expected(allowed, level, below)


@pytest.mark.parametrize("make", ["bounded_laplace", "bounded_gaussian", "reflected_laplace"])
def test_no_interval_is_one_point_where_noise_is_wider_than_a_step(make):
    """A draw of 0 was published with [0, 0]: it is read as a value that the end draws, or passes, in 5 % of draws."""
    allowed = GridSet(((0, 2000),))
    [law] = load("mechanisms", make).grid_laws(GridRequest(allowed, 1, Fraction(1, 20)))
    y = allowed.points()
    low, high = law.interval(y)
    assert ((low <= y) & (y <= high) & (low < high)).all()
    assert (high - low == (high - low)[::-1]).all()
    assert high[0] > 20
    answers = np.array([0, 1, 30, 1000])
    for q in answers.tolist():
        inside = set(y[(low <= q) & (q <= high)].tolist())
        assert sum(float(p) for x, p in law.pmf(q).items() if x in inside) >= 0.95


def test_where_noise_is_narrower_than_a_step_a_draw_of_the_end_is_that_answer():
    request = GridRequest(GridSet(((0, 9),)), 1, Fraction(8))
    [law] = load("mechanisms", "bounded_laplace").grid_laws(request)
    assert [int(end[0]) for end in law.interval(np.array([0]))] == [0, 0]


def test_a_search_that_stops_early_is_noticed(monkeypatch):
    def short(allowed, y, holds):
        low = np.full(y.shape, allowed.lower, dtype=np.int64)
        high = np.full(y.shape, allowed.upper, dtype=np.int64)
        for _ in range(allowed.hull_steps.bit_length() - 1):
            middle = (low + high) // 2
            good = holds(middle)
            high, low = np.where(good, middle, high), np.where(good, low, middle + 1)
        return high

    allowed, below = GridSet(((-7, 12),)), logistic(3.0)
    monkeypatch.setattr(hull_interval, "first_answer", short)
    assert ends(allowed, 0.9, below) != expected(allowed, 0.9, below)


def test_more_room_never_shortens_an_interval():
    allowed, below = GridSet(((-40, 40),)), logistic(5.0)
    y = allowed.points()
    narrow = likely_answers(allowed, y, 0.9, below, room=0.0)
    wide = likely_answers(allowed, y, 0.9, below, room=0.5)
    assert (wide[0] <= narrow[0]).all()
    assert (wide[1] >= narrow[1]).all()
    assert (wide[1] - wide[0] > narrow[1] - narrow[0]).any()


def test_where_nothing_holds_the_answer_is_the_upper_end():
    allowed, y = GridSet(((3, 9),)), np.zeros(2, dtype=np.int64)
    assert first_answer(allowed, y, lambda q: np.zeros(q.shape, dtype=bool)).tolist() == [9, 9]
    assert first_answer(allowed, y, lambda q: np.ones(q.shape, dtype=bool)).tolist() == [3, 3]


@pytest.mark.parametrize("level", [0, 1, -0.5, math.nan])
def test_a_level_lies_strictly_between_0_and_1(level):
    with pytest.raises(ArgumentError) as found:
        likely_answers(GridSet(((0, 3),)), np.zeros(1, dtype=np.int64), level, logistic(1.0))
    assert found.value.code == "DPR625"
