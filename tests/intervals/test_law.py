"""The law of a combination of draws, beside exact convolution and simulation."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dprelease.fitting.interval import half_widths
from dprelease.fitting.least_squares import estimator
from dprelease.intervals.law import (
    EXACT_TERMS,
    MOST_EXACT_TERMS,
    SumLaw,
    half_width,
    law_of,
    quantile_of,
)
from dprelease.intervals.noise import Gaussian, Laplace, Term
from tests.fitting.small import NOISES, cube, tree
from tests.intervals.test_noise import law as plain_law


def exact_law(terms):
    """The law of a combination as {value: probability}, draws beyond 1e-12 left out."""
    out = {Fraction(0): 1.0}
    for term in terms:
        d, p = plain_law(term.noise)
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


def many_terms(count):
    own = Term(Laplace(Fraction(1, 20)), 1, Fraction(1, 2))
    return [own, *(Term(Laplace(Fraction(1, 20)), 2, Fraction(1, 20 + k)) for k in range(count))]


def test_a_bulk_of_small_terms_is_bracketed():
    terms = many_terms(200)
    law = law_of(terms)
    kept = set(law.draws)
    small = [t for t in terms if (t.noise, abs(float(t.weight))) not in kept]
    assert len(law.draws) == EXACT_TERMS
    assert len(small) == 201 - EXACT_TERMS
    t = np.linspace(0, law.bulk.widest**-0.5, 50)
    exact = np.zeros(t.size)
    for term in small:
        exact += term.draws * np.log(term.noise.wave(float(term.weight) * t))
    off = np.abs(exact + law.bulk.variance * t**2 / 2)
    assert (off <= law.bulk.quartic * t**4 + 1e-12).all()
    assert (off >= 0.2 * law.bulk.quartic * t**4 - 1e-12)[:10].all()  # and not by far too much
    for s in np.linspace(0.01, (0.5 / law.bulk.widest) ** 0.5, 9):
        grown = sum(x.draws * x.noise.log_moments([s * float(x.weight)])[0] for x in small)
        assert grown <= law.bulk.variance * s * s


def test_a_bulk_covers_and_is_tight():
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
    assert simulated[0] < q < simulated[1] * 1.01


def test_tables_of_many_classes_take_the_shorter_series():
    structure = tree()
    made = estimator(structure, NOISES)
    exact = half_widths(made, "leaf")
    short = half_widths(made, "leaf", many=1)
    assert len(exact) == 3
    for cell, (a, b) in enumerate(zip(exact, short, strict=True)):
        sd = made.variance("leaf")[made.classes("leaf").tolist().index(cell)] ** 0.5
        assert a <= b <= a + Fraction(0.03 * sd)
    assert half_widths(estimator(tree(np.arange(12) < 5), NOISES), "leaf")[-1] == 0


def test_the_law_of_a_cell_is_that_of_its_terms():
    for structure, noises in (
        (tree(), NOISES),
        (cube(), {"a": NOISES["leaf"], "all": NOISES["region"]}),
    ):
        made = estimator(structure, noises)
        for table in structure.tables:
            for cell in (0, table.cells - 1):
                law = made.law(table.name, cell)
                variance = law.bulk.variance + sum(
                    n * float(noise.variance()) * w * w for (noise, w), n in law.draws.items()
                )
                assert variance == pytest.approx(made.variance(table.name)[cell])


def test_no_terms_are_no_width():
    assert half_width([]) == 0
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


@pytest.mark.parametrize("rate", [17, 60, 300])
def test_very_many_draws_that_are_nearly_always_0_have_a_width(rate: int) -> None:
    """Their moments end where E e^(s X) of noise as wide as its variance would only begin."""
    noise = Laplace(Fraction(rate))
    law = SumLaw.weighted_sum(
        (SumLaw({(noise, 1.0): 1}), 1 / (k + 1), 1) for k in range(2 * MOST_EXACT_TERMS)
    )
    assert law.bulk.variance > 0
    assert 0 <= quantile_of(law, 0.95) < 10


@pytest.mark.parametrize("rate", [2, 3])
def test_noise_of_less_than_a_step_is_kept_draw_by_draw(rate: int) -> None:
    """A bulk of it brackets little: with twelve draws kept the width was ten times the quantile."""
    noise = Laplace(Fraction(rate))
    weights = [1 / (k + 1) for k in range(3 * EXACT_TERMS)]
    law = SumLaw.weighted_sum((SumLaw({(noise, 1.0): 1}), weight, 1) for weight in weights)
    chance, p = np.random.default_rng(17), -np.expm1(-float(rate))
    drawn = sum(w * (chance.geometric(p, 40_000) - chance.geometric(p, 40_000)) for w in weights)
    found = float(quantile_of(law, 0.95))
    inside = float(np.mean(np.abs(drawn) <= found))
    assert inside >= 0.95 - 4.9 * (0.95 * 0.05 / 40_000) ** 0.5
    assert found < 1.1 * np.quantile(np.abs(drawn), 0.95)
