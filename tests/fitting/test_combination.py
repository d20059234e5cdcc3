"""The law of a combination of draws, beside exact convolution and simulation."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dprelease.fitting.combination import half_width, half_widths
from dprelease.fitting.estimate import Term
from dprelease.fitting.noise import Gaussian, Laplace
from tests.fitting.test_noise import law


def exact_law(terms):
    """The law of a combination as {value: probability}, draws beyond 1e-12 left out."""
    out = {Fraction(0): 1.0}
    for term in terms:
        d, p = law(term.noise)
        keep = p > 1e-9
        for _ in range(term.draws):
            new = {}
            for x, chance in out.items():
                for k, q in zip(d[keep].tolist(), p[keep].tolist(), strict=True):
                    at = x + term.weight * k
                    new[at] = new.get(at, 0.0) + chance * q
            out = {x: c for x, c in new.items() if c > 1e-13}
    return out


def inside(terms, q):
    return sum(chance for x, chance in exact_law(terms).items() if abs(x) <= q)


LATTICE = [
    [Term(Laplace(Fraction(1, 2)), 1, Fraction(1))],
    [Term(Gaussian(3), 2, Fraction(1, 2)), Term(Laplace(Fraction(1)), 1, Fraction(3, 4))],
    [Term(Laplace(Fraction(4)), 3, Fraction(1, 3))],
]
ODD = [
    [Term(Laplace(Fraction(1)), 1, Fraction(2**40 // 3, 2**40)), Term(Gaussian(2), 1, Fraction(1))],
    [Term(Gaussian(4), 1, Fraction(1)), Term(Gaussian(5), 1, Fraction(2**40 * 5 // 7, 2**40))],
]


@pytest.mark.parametrize("terms", LATTICE)
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_on_a_lattice_it_is_the_exact_quantile(terms, level):
    q = half_width(terms, level)
    assert inside(terms, q) >= level - 1e-6
    assert inside(terms, q - Fraction(1, 1000)) < level


@pytest.mark.parametrize("terms", ODD)
def test_off_a_lattice_it_covers_and_is_tight(terms):
    q = half_width(terms)
    sd = float(sum(t.noise.variance() * t.draws * t.weight**2 for t in terms)) ** 0.5
    assert inside(terms, q) >= 0.95
    assert inside(terms, q - Fraction(0.03 * sd)) < 0.95
    coarse = half_width(terms, fine=False)
    assert q <= coarse <= q + Fraction(0.15 * sd)


def many_terms(count):
    own = Term(Laplace(Fraction(1, 20)), 1, Fraction(1, 2))
    return [own, *(Term(Laplace(Fraction(1, 20)), 2, Fraction(1, 20 + k)) for k in range(count))]


def test_merging_weights_never_shortens_much_nor_undercovers():
    terms = many_terms(200)
    q = half_width(terms)
    rng = np.random.default_rng(4)
    p = 1 - np.exp(-1 / 20)
    draws = sum(
        float(t.weight)
        * sum((rng.geometric(p, 20_000) - rng.geometric(p, 20_000)) for _ in range(t.draws))
        for t in terms
    )
    simulated = np.quantile(np.abs(draws), [0.945, 0.955])
    assert simulated[0] < q < simulated[1] * 1.05


def test_equal_terms_share_one_computation_and_no_terms_are_no_width():
    assert half_widths([LATTICE[0], [], LATTICE[0]]) == [6, 0, 6]
    assert half_width([Term(Laplace(Fraction(1)), 1, Fraction(0))]) == 0


def test_very_wide_and_very_narrow_noise():
    wide = half_width(
        [Term(Gaussian(10**16), 1, Fraction(1)), Term(Gaussian(10**16), 1, Fraction(1, 3))]
    )
    assert float(wide) == pytest.approx(1.959964 * 1e8 * (10 / 9) ** 0.5, rel=0.02)
    assert (
        half_width(
            [
                Term(Laplace(Fraction(64)), 1, Fraction(1)),
                Term(Laplace(Fraction(60)), 1, Fraction(1, 3)),
            ]
        )
        == 0
    )
