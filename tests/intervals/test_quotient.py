"""Intervals of quotients: no value is left out that a bound does not rule out, and none is a point."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dprelease.intervals import quotient
from dprelease.intervals.law import quantile
from dprelease.intervals.noise import Gaussian, Laplace, Term
from dprelease.intervals.quotient import ends

NARROW, WIDE = Laplace(Fraction(1)), Laplace(Fraction(1, 40))
SHAPES = {
    "a part of a whole": [(NARROW, 1, 1, 1), (NARROW, 1, 0, 1)],
    "Bernstein cells": [(NARROW, 1, 0, 1), (NARROW, 1, Fraction(1, 2), 1), (NARROW, 1, 1, 1)],
    "in closed form": [(WIDE, 1, 1, 1), (WIDE, 1, 0, 1)],
    "two laws": [(Gaussian(9), 1, 3, 0), (WIDE, 2, 0, 1)],
    "no common lattice": [(NARROW, 1, Fraction(math.pi), 0), (NARROW, 1, 0, 1)],
}


def parts(name):
    return tuple((noise, n, Fraction(t), Fraction(b)) for noise, n, t, b in SHAPES[name])


def exact(name, s, level=0.95):
    """A quantile of |T - s B|, by its own law."""
    parts = [(noise, n, abs(Fraction(t) - s * Fraction(b))) for noise, n, t, b in SHAPES[name]]
    return quantile(tuple(Term(*part) for part in parts if part[2]), level)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("within", [(0.0, 1.0), (-math.inf, math.inf), (0.0, math.inf), (2.0, 9.0)])
def test_every_value_that_its_own_law_allows_is_inside(name, within):
    rng = np.random.default_rng(5)
    top, bottom = rng.integers(-80, 200, 40).astype(float), rng.integers(-60, 200, 40).astype(float)
    low, high = ends(parts(name), 0.95, top, bottom, (0.0, 0.0), within)
    places = [Fraction(k, 7) for k in range(-35, 70, 3)] + [Fraction(40), Fraction(-300)]
    for s in (s for s in places if within[0] <= s <= within[1]):
        allowed = np.abs(top - float(s) * bottom) <= exact(name, s) * (1 - 1e-6)
        assert (low[allowed] <= s).all()
        assert (high[allowed] >= s).all()
    assert (low <= high).all()


@pytest.mark.parametrize("name", SHAPES)
def test_where_there_is_signal_it_is_hardly_longer_than_the_exact_set(name):
    top, bottom = np.array([3000.0]), np.array([8000.0])
    low, high = ends(parts(name), 0.95, top, bottom, (0.0, 0.0), (-math.inf, math.inf))
    s = Fraction(3, 8)
    half = exact(name, s) / 8000
    assert low[0] < 3 / 8 < high[0]
    assert 2 * half <= high[0] - low[0] <= 2 * half * 1.1


def test_a_value_far_beyond_an_end_is_not_a_point():
    """A tenth of the draws lie beyond an end; the noise is wider than a step."""
    low, high = ends(
        parts("a part of a whole"),
        0.95,
        np.array([-9.0, 60.0]),
        np.array([40.0, 40.0]),
        (0.0, 0.0),
        (0.0, 1.0),
    )
    assert low[0] == 0 and high[1] == 1
    assert (high - low > 2 / 40).all()


@pytest.mark.parametrize("noise", [Laplace(Fraction(1, 2)), Laplace(Fraction(3))])
@pytest.mark.parametrize(("top", "bottom"), [(0, 1), (1, 3), (6, 20), (3, 0)])
def test_coverage_by_enumeration_of_every_draw(noise, top, bottom):
    """A part of a whole; of an empty whole every share is its own, and here it is one that might be said."""
    most = 30
    tails = noise.survival(np.arange(-1.0, most) + 0.0)
    chances = -np.diff(np.append(tails[1:], 0.0))
    p = {
        d: float(chances[abs(d) - 1]) if d else float(1 - 2 * tails[1])
        for d in range(-most, most + 1)
    }
    true = top / bottom if bottom else 0.7
    top = top if bottom else 0
    pairs = list(itertools.product(p, repeat=2))
    raw = np.array(pairs) + np.array([top, bottom - top])
    mass = np.array([p[a] * p[b] for a, b in pairs])
    made = ((noise, 1, Fraction(1), Fraction(1)), (noise, 1, Fraction(0), Fraction(1)))
    low, high = ends(made, 0.95, raw[:, 0] + 0.0, raw.sum(axis=1) + 0.0, (0.0, 0.0), (0.0, 1.0))
    held = mass[(low - 1e-12 <= true) & (true <= high + 1e-12)].sum()
    assert held / mass.sum() >= 0.95
    if bottom == 20 and noise.rate < 1:  # the control: a fifth less does not cover
        middle, half = (low + high) / 2, 0.4 * (high - low)
        assert mass[np.abs(middle - true) <= half].sum() / mass.sum() < 0.95


def test_laws_are_made_once_for_all_rows_of_one_shape():
    made = parts("a part of a whole")
    rng = np.random.default_rng(3)
    bottom = 500.0 + rng.integers(-3, 4, 2000)
    ends(made, 0.9, np.round(0.3 * bottom), bottom, (0.0, 0.0), (0.0, 1.0))
    known = quotient._pivot(made, 0.9, (0.0, 1.0)).known
    assert np.isfinite(known).sum() < 12


@pytest.mark.parametrize(("draws", "scale"), [(4, 2**10), (9, 2**10), (9, 2**14)])
def test_wide_noise_is_read_as_continuous_and_is_hardly_wider(draws, scale):
    """Draws of one width, so wide, have the quantile of continuous ones: never less than their own, nor 1 % more."""
    noise = Laplace(Fraction(1, scale))
    parts = tuple((noise, draws // 2 + i, Fraction(i, 2), Fraction(1)) for i in (0, 1))
    far = quotient._Pivot(parts, 0.95, (0.0, 1.0))
    near = quotient._Pivot(parts, 0.95, (0.0, 1.0))
    assert far._far == scale
    near._far = None
    for m in (-0.5, 0.0, 0.25, 1.0):
        one, two = (p._quantiles(np.ones(1), np.array([m]), 0.9)[0] for p in (far, near))
        assert two <= one <= 1.01 * two
