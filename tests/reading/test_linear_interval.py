"""Fieller's pivot: exact coverage by enumeration, unbounded where it must be."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.reading.forms import Linear, NoisyInteger, RatioForm
from dprelease.reading.linear_interval import linear_ends, ratio_chance, ratio_ends, ratios_ends
from dprelease.reading.quantity import Quantity, combined

KERNEL = DiscreteLaplaceNoise(Fraction(1, 2))
NOISE = KERNEL.fitted
POSITIVE = (0.0, math.inf)


def form(*parts, constant=0):
    """Linear in sources named by cell: (cell, raw, weight)."""
    terms = {NoisyInteger("r", "b", 0, cell, raw, NOISE): Fraction(w) for cell, raw, w in parts}
    return Linear(Fraction(constant), terms)


def noises(most=14):
    weights = KERNEL.weights(most + 1)
    return [(d, weights[abs(d)]) for d in range(-most, most + 1)]


@pytest.mark.parametrize(("top", "bottom"), [(0, 1), (2, 3), (1, 9), (12, 20), (3, 0)])
def test_coverage_by_enumeration_of_every_draw(top, bottom):
    """An empty denominator has no ratio: any value is its own, and here one that the plan could say."""
    true = top / bottom if bottom else 0.7
    if not bottom:
        top = 0
    draws = list(itertools.product(noises(), repeat=2))
    ratios = [
        RatioForm(form((0, top + a, 1)), form((1, bottom + b, 1))) for (a, _), (b, _) in draws
    ]
    held = 0.0
    ends = ratios_ends(ratios, 0.95, [POSITIVE] * len(ratios))
    for ((_, p), (_, q)), (low, high) in zip(draws, ends, strict=True):
        held += p * q * (low - 1e-12 <= true <= high + 1e-12)
    mass = sum(p for _, p in noises()) ** 2
    assert held / mass >= 0.95
    assert held / mass < 0.999  # the control: not everything is accepted


def test_sources_in_both_forms_cancel():
    """2 a / a is 2 whatever the noise, and a share is at most 1."""
    a = form((0, 12, 1))
    held = Quantity(a, 12.0, POSITIVE)
    assert combined("/", combined("+", held, held), held).form == Linear(Fraction(2))
    low, high = ratio_ends(RatioForm(a, a), 0.95, POSITIVE)
    assert 0.95 < low <= 1 <= high < 1.05  # and without that rule, within a cell of angles
    low, high = ratio_ends(RatioForm(a, form((0, 12, 1), (1, 30, 1))), 0.95, (0, 1))
    assert 0 <= low < 12 / 42 < high < 1


def test_of_a_ratio_that_is_cut_all_quotients_are_looked_at_first():
    """They lie about 2.5, and 1 is the nearest that its domain allows; uncut, the domain's own part would be."""
    parts = form((0, -60, 1)), form((1, -24, 1))
    low, high = ratio_ends(RatioForm(*parts), 0.95, (-math.inf, math.inf))
    assert 1 < low < 2.5 < high
    assert ratio_ends(RatioForm(*parts, cut=True), 0.95, (0, 1)) == (1, 1)
    assert ratio_ends(RatioForm(*parts, cut=True), 0.95, (2, 3)) == (max(low, 2), min(high, 3))
    assert ratio_ends(RatioForm(*parts), 0.95, (0, 1))[0] < 1


def test_a_denominator_within_its_noise_bounds_nothing_above():
    low, high = ratio_ends(RatioForm(form((0, 40, 1)), form((1, 1, 1))), 0.95, POSITIVE)
    assert high == math.inf
    assert low > 0


def test_a_public_denominator_is_the_linear_interval():
    top = form((0, 40, 1))
    ratio = ratio_ends(RatioForm(top, Linear(Fraction(8))), 0.95, POSITIVE)
    linear = linear_ends(top.times(Fraction(1, 8)), 0.95)
    assert ratio[0] <= linear[0]
    assert ratio[1] >= linear[1]
    assert ratio == pytest.approx(linear, abs=2 / 8)  # a step per term is added


def test_the_interval_holds_the_observed_ratio_and_grows_with_the_level():
    ratio = RatioForm(form((0, 40, 1)), form((1, 90, 1)))
    ends = [ratio_ends(ratio, level, POSITIVE) for level in (0.5, 0.9, 0.99)]
    assert all(low <= 40 / 90 <= high for low, high in ends)
    assert np.all(np.diff([low for low, _ in ends]) < 0)
    assert np.all(np.diff([high for _, high in ends]) > 0)


def test_a_p_value_of_one_ratio():
    ratio = RatioForm(form((0, 40, 1)), form((1, 90, 1)))
    assert ratio_chance(ratio, 40 / 90) == pytest.approx(1, abs=0.01)
    assert ratio_chance(ratio, 0.9) < 1e-3
