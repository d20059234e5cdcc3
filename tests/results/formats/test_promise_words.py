"""Odds of a promise: never too small, at most one case too large, and in the right words for every unit."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest

from dprelease.budget.concentrated import zcdp_epsilon
from dprelease.results.formats.promise_words import guesses, promise
from dprelease.results.formats.public_words import PublicWords
from dprelease.results.formats.templates import with_parts
from dprelease.schema.about import About, UnitName
from dprelease.schema.unit import EdgeUnit, RowUnit, UserUnit

mpmath.mp.dps = 60
EPSILONS = [Fraction(n, 20) for n in range(201)] + [
    Fraction(1, 10**9),
    Fraction(19),
    Fraction(20),
]
DELTAS = [Fraction(0), Fraction(1, 10**6), Fraction(1, 100), Fraction(1, 3)]


def number(value):
    return mpmath.mpf(value.numerator) / value.denominator


def best_guess(epsilon, delta):
    """Return how often the best rule is right of the worst law: it tells all with probability δ, else flips a coin.

    Its probabilities under the two tables are enumerated, and the likelier table is guessed.
    """
    keep = mpmath.exp(number(epsilon)) / (1 + mpmath.exp(number(epsilon)))
    rest = 1 - number(delta)
    one = [number(delta), mpmath.mpf(0), rest * keep, rest * (1 - keep)]
    other = [mpmath.mpf(0), number(delta), rest * (1 - keep), rest * keep]
    return sum(max(p, q) for p, q in zip(one, other, strict=True)) / 2


def odds_words(said, right):
    """Return the sentence that pages say, without what HTML makes of its apostrophes."""
    template = with_parts("")
    template.autoescape = False
    source = '{% import "sentences.j2" as say %}{{ say.odds(page) }}'
    return template.from_string(source).render(page={"promise": said, "guesses": right})


def stated(text):
    right, cases = (int(part.replace(",", "")) for part in text.split(" of "))
    return right, cases


@pytest.mark.parametrize("delta", DELTAS)
def test_no_rule_guesses_better_than_is_said(delta):
    for epsilon in EPSILONS:
        if text := guesses(epsilon, delta):
            right, cases = stated(text)
            assert best_guess(epsilon, delta) * cases <= right


@pytest.mark.parametrize("delta", DELTAS)
def test_it_is_rounded_up_and_never_by_more_than_one_case(delta):
    for epsilon in EPSILONS:
        best = best_guess(epsilon, delta)
        if text := guesses(epsilon, delta):
            right, cases = stated(text)
            assert right - 1 < best * cases + mpmath.mpf(10) ** -30
            assert cases == 100 or best > mpmath.mpf("0.99")
        else:
            assert best > mpmath.mpf("0.9999")


@pytest.mark.parametrize("rho", [Fraction(1, 100), Fraction(1, 8), Fraction(1, 2), Fraction(2)])
def test_it_holds_for_normal_noise_at_the_delta_that_rho_was_converted_at(rho):
    """The best rule looks at which of two normal laws is denser: it is right with probability Φ(sqrt(ρ/2))."""
    best = mpmath.ncdf(mpmath.sqrt(number(rho) / 2))
    for delta in (Fraction(1, 10**6), Fraction(1, 1000)):
        if text := guesses(zcdp_epsilon(rho, delta), delta):
            right, cases = stated(text)
            assert best * cases <= right


def test_what_is_next_to_no_limit_is_said():
    assert guesses(Fraction(21)) == guesses(Fraction(10)) == guesses(Fraction(0), Fraction(1)) == ""
    said = odds_words(promise(PublicWords("t"), "add_remove"), "")
    assert "in up to nearly every case, which is next to no limit, in place of 50" in said


NAMED = UnitName(one="patient", many="patients", rows="visits")


@pytest.mark.parametrize(
    ("unit", "name", "adjacency", "said"),
    [
        (RowUnit(), None, "add_remove", "Take any one row. | that row or without it"),
        (RowUnit(), None, "substitution", "Take any one row. | that row or with anything else in its place"),
        (UserUnit("who", 1, 2), None, "add_remove", "Take any one participant. | their data or without it"),
        (UserUnit("who", 1, 2), NAMED, "add_remove", "Take any one patient's visits. | those visits or without them"),
        (UserUnit("who", 1, 2), NAMED, "substitution", "Take any one patient's visits. | those visits or with others instead"),
        (UserUnit("who", 1, 2, per="week"), None, "add_remove", "Take any one who's rows of one week. | those rows or without them"),
        (EdgeUnit("a", "b", 1, 9), None, "add_remove", "Take any one connection. | that connection or without it"),
        (EdgeUnit("a", "b", 2, 9), None, "substitution", "Take any 2 connections. | those connections or with others instead"),
    ],
)  # fmt: skip
def test_the_sentence_names_the_two_worlds_of_its_unit(unit, name, adjacency, said):
    words = PublicWords("t", unit, About(unit_name=name))
    text = odds_words(promise(words, adjacency), guesses(Fraction(1, 2)))
    who, worlds = said.split(" | ")
    assert text.startswith(f"{who} Whoever knows everything else")
    assert f"whether the table is with {worlds}, guesses right" in text
    assert text.endswith("in at most 63 of 100 such cases on average, in place of 50 of 100.")
