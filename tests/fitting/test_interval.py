"""Intervals after fitting: coverage by enumeration, and what a tenth less would cover."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dprelease.fitting.estimate import ONE
from dprelease.fitting.interval import ends
from dprelease.fitting.least_squares import estimator
from dprelease.fitting.structure import nested
from dprelease.intervals.law import half_width
from dprelease.intervals.noise import Gaussian, Laplace
from tests.intervals.test_noise import law

PARTS = 2
LAWS = {
    "laplace": {"all": Laplace(Fraction(4, 5)), "part": Laplace(Fraction(1))},
    "gaussian": {"all": Gaussian(4), "part": Gaussian(3)},
    "mixed, tiny": {"all": Gaussian(1), "part": Laplace(Fraction(2))},
}


def copies(count):
    """That many independent trees of one root and two leaves."""
    leaf = np.arange(PARTS * count)
    return nested({"all": leaf // PARTS, "part": leaf})


def coverage(noises, truth, factor=Fraction(1), hull=(0, 1000)):
    """The exact probability that each cell is covered: one tree per outcome of its three draws."""
    sides = []
    for noise in (noises["all"], noises["part"], noises["part"]):
        d, p = law(noise)
        keep = p > 2e-5
        sides.append(list(zip(d[keep].tolist(), p[keep].tolist(), strict=True)))
    outcomes = list(itertools.product(*sides))
    chance = np.array([p * q * r for (_, p), (_, q), (_, r) in outcomes])
    structure = copies(len(outcomes))
    made = estimator(structure, noises)
    noisy = {
        "all": [sum(truth) + a for (a, _), _, _ in outcomes],
        "part": [x for _, (b, _), (c, _) in outcomes for x in (truth[0] + b, truth[1] + c)],
    }
    found = made.estimates(noisy, {})
    out = []
    for name, exact in (("all", [sum(truth)]), ("part", list(truth))):
        q = factor * half_width(made.terms(name, 0))
        low, high = ends(
            found.values[name], [q] * len(found.values[name]), hull, slack=Fraction(1, 2**20)
        )
        for k, x in enumerate(exact):
            inside = (np.array(low[k :: len(exact)]) <= x) & (x <= np.array(high[k :: len(exact)]))
            out.append(float(chance[inside].sum()))  # what is left out counts as missed
    assert chance.sum() > 0.998
    return out


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("truth", [(0, 0), (0, 3)])
def test_coverage_by_enumeration_of_small_trees(name, truth):
    assert min(coverage(LAWS[name], truth)) >= 0.95


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_a_tenth_too_short_does_not_cover(name):
    assert min(coverage(LAWS[name], (300, 500), Fraction(9, 10))) < 0.95


@pytest.mark.parametrize("noise", [Laplace(Fraction(1, 9)), Gaussian(50), Laplace(Fraction(2))])
@pytest.mark.parametrize("fan", [1, 2, 5, 60])
def test_no_wider_than_its_own_measurement(noise, fan):
    structure = nested({"all": np.zeros(fan, dtype=int), "part": np.arange(fan)})
    made = estimator(structure, {"all": noise, "part": noise})
    own = half_width(estimator(structure, {"part": noise}).terms("part", 0))
    for name in ("all", "part"):
        q = half_width(made.terms(name, 0))
        values = [7 * ONE + k * ONE // 8 for k in range(8)]
        low, high = ends(values, [q] * 8, (-(10**6), 10**6))
        mean = np.mean(np.array(high) - np.array(low))
        assert mean <= 1.02 * 2 * float(own)


def test_an_estimate_beyond_the_hull_is_that_of_its_nearer_end():
    values = [-50 * ONE, -2 * ONE, 0, 50 * ONE, 5 * ONE]
    low, high = ends(values, [Fraction(3)] * 5, (0, 20))
    assert (low, high) == ([0, 0, 0, 17, 2], [3, 3, 3, 20, 8])
    # where the hull is shorter than half of the interval it is all of it
    assert ends([-50 * ONE], [Fraction(30)], (0, 20)) == ([0], [20])
