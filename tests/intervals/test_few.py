"""Laws of weighted sums: against enumeration, and conservative where they round."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dprelease.intervals import few
from dprelease.intervals import law as whole_laws
from dprelease.intervals.few import ROOM, few_chance, few_quantile, sum_law
from dprelease.intervals.law import EXACT_TERMS
from dprelease.intervals.noise import Gaussian, Laplace, Term
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.kernels.staircase import StaircaseNoise

NARROW = Laplace(Fraction(1))
WIDE = Laplace(Fraction(1, 40))
STAIRS = StaircaseNoise.calibrate(3, Fraction(1), 2)
NORMAL = Gaussian(9)


def masses(noise, most=60):
    """{d: P(D = d)} by the law's own weights."""
    if isinstance(noise, Gaussian):
        beyond = [math.erfc((d - 0.5) / math.sqrt(2 * noise.square)) / 2 for d in range(most + 2)]
        return {d: beyond[abs(d)] - beyond[abs(d) + 1] for d in range(-most, most + 1)}
    kernel = DiscreteLaplaceNoise(noise.rate) if isinstance(noise, Laplace) else noise
    w = kernel.weights(most + 1).tolist()
    return {d: w[abs(d)] for d in range(-most, most + 1)}


class Summed:
    """The law of a sum, as tests look at it."""

    def __init__(self, terms, points=2**13):
        self.terms, self.points = [Term(noise, m, Fraction(w)) for noise, m, w in terms], points
        _, self.tail, self.slack = sum_law(self.terms, points=points)

    def chance(self, size):
        return few_chance(self.terms, size, points=self.points)

    def quantile(self, level):
        return few_quantile(self.terms, level, points=self.points)


def tail(terms, size):
    """P(|sum| >= size) by enumeration."""
    laws = [masses(noise) for noise, m, _ in terms for _ in range(m)]
    weights = [w for _, m, w in terms for _ in range(m)]
    return sum(
        math.prod(law[d] for law, d in zip(laws, ds, strict=True))
        for ds in itertools.product(*laws)
        if abs(sum(w * d for w, d in zip(weights, ds, strict=True))) >= size - 1e-9
    )


@pytest.mark.parametrize(
    "terms",
    [
        [(NARROW, 1, 1.0)],
        [(NARROW, 2, 1.0)],
        [(STAIRS, 1, 1.0), (NARROW, 1, -2.0)],
        [(NORMAL, 1, 1.0), (NARROW, 1, 0.5)],
    ],
)
def test_weights_of_one_lattice_are_exact(terms):
    law = Summed(terms)
    assert law.slack == 0
    for size in (0.0, 1.0, 3.0, 7.5, 12.0):
        assert law.chance(size) == pytest.approx(tail(terms, size), abs=2e-9)


@pytest.mark.parametrize(
    "terms", [[(NARROW, 1, 1.0), (STAIRS, 1, math.sqrt(2))], [(NORMAL, 2, math.pi)]]
)
def test_other_weights_are_rounded_outwards_and_hardly(terms):
    law = Summed(terms)
    for size in (0.5, 2.0, 5.0, 9.0):
        exact = tail(terms, size)
        assert law.chance(size) >= exact - 1e-12
        assert law.chance(size) <= tail(terms, size - 3 * law.slack) + 1e-9
    assert law.slack < 0.02 * law.quantile(0.95)


def test_a_quantile_is_the_least_that_covers():
    law = Summed([(WIDE, 1, 1.0), (WIDE, 1, 1.0)])
    q = law.quantile(0.95)
    assert law.chance(q + 1) <= 0.05 < law.chance(q) + 2 * ROOM


def test_a_quantile_of_one_noise_is_the_laws_own():
    for noise in (NARROW, WIDE, STAIRS):
        assert Summed([(noise, 1, 1.0)]).quantile(0.95) == noise.quantile(0.95)


def test_many_equal_terms_cost_one_rounding():
    law = Summed([(WIDE, 500, 0.37), (WIDE, 1, 0.63)])
    assert law.slack < 0.01 * law.quantile(0.95)
    sd = math.sqrt((500 * 0.37**2 + 0.63**2) * WIDE.variance())
    assert law.quantile(0.95) == pytest.approx(1.96 * sd, rel=0.02)


def test_nothing_drawn_is_never_off():
    law = Summed([(WIDE, 1, 0.0)])
    assert law.quantile(0.95) == 0
    assert law.chance(0.1) <= ROOM


def test_a_wide_gaussian_is_close_to_a_normal_and_covers():
    noise = Gaussian(10**12)
    q = Summed([(noise, 1, 1.0), (noise, 1, 1.0)]).quantile(0.95)
    assert q == pytest.approx(1.959964 * math.sqrt(2) * 1e6, rel=0.01)
    assert q > 1.959964 * math.sqrt(2) * 1e6


def test_the_tail_falls():
    law = Summed([(WIDE, 1, 1.0), (STAIRS, 2, 0.3)])
    assert (np.diff(law.tail) <= 1e-15).all()


@pytest.mark.parametrize("count", [20, 100])
def test_a_sum_of_many_like_weights_is_as_narrow_as_its_exact_law(count, monkeypatch):
    noise = Laplace(Fraction(1, 3))
    terms = tuple(Term(noise, 1, Fraction(w)) for w in range(1, count + 1))
    exact = Summed(terms, 2**16).quantile(0.95)
    assert 0.99 * exact <= whole_laws.quantile(terms, 0.95) <= 1.003 * exact
    monkeypatch.setattr(
        whole_laws, "MOST_EXACT_TERMS", EXACT_TERMS
    )  # the control: with fewer terms it is wider
    assert whole_laws.quantile.__wrapped__(terms, 0.95) > 1.008 * exact


def test_laws_that_are_kept_take_little_memory():
    """Every edge of a `cdf` has five of its own: those of 300 edges took 300 MB."""
    kept = few._unit_law.cache_info().maxsize
    assert kept * few._MOST // 2 * np.dtype(float).itemsize <= 2**27
