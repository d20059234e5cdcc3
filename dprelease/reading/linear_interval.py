"""The interval of a linear form: exact, from the law of its noise.

Its noisy value misses the true one by S(w_i D_i), whose law depends on nothing private, so
[value - q, value + q] with P(|S| <= q) >= level covers at the level, for every table. A few different
terms are convolved on a lattice; of more, as behind tables that add up, the small ones are bracketed
together (`fitting.combination`).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from dprelease.fitting.combination import half_width
from dprelease.fitting.estimate import Term as FitTerm
from dprelease.mechanisms.arguments import check_level
from dprelease.reading.estimated import Estimate
from dprelease.reading.forms import Linear
from dprelease.reading.joint import Joint, joint
from dprelease.reading.noise_sums import Term, sum_law
from dprelease.release_plan.fits import fit_noise

_FINE = 2**16

FEW = 12
"""So many different terms are convolved one by one."""

LEVELS = tuple(1 - 2.0 ** (-k / 4) for k in range(1, 133))
"""Confidence levels at which a p-value is looked for: it is rounded up by at most a fifth."""


def linear_ends(form: Linear, level: float) -> tuple[float, float]:
    """Return the ends of the interval at `level`."""
    check_level(level)
    return ends_of(joint(form), level)


def beside(
    form: Linear, ends: tuple[float, float], domain: tuple[float, float]
) -> tuple[float, float]:
    """Return the ends; of fitted cells around the possible value nearest to their middle (`fitting.interval`)."""
    if not any(isinstance(variable, Estimate) for variable in form.terms):
        return ends
    middle = (ends[0] + ends[1]) / 2
    moved = min(max(middle, domain[0]), domain[1]) - middle
    return ends[0] + moved, ends[1] + moved


def ends_of(whole: Joint, level: float) -> tuple[float, float]:
    """Return the ends of the interval of one form."""
    value = float(whole.observed[0])
    terms = whole.pattern()
    if len(terms) <= FEW:
        q = sum_law(terms, size=_FINE).quantile(level)
    else:
        q = quantile_of_many(terms, level)
    q += float(whole.moved[0])
    return value - q, value + q


def linear_chance(form: Linear) -> float:
    """Return an upper bound of the chance of noise as large as seen if the form were 0."""
    whole = joint(form)
    size = abs(float(whole.observed[0])) - float(whole.moved[0])
    if not whole.draws:
        return float(size <= 0)
    terms = whole.pattern()
    if len(terms) <= FEW:
        return sum_law(terms, size=_FINE).chance(max(0.0, size))
    first, last = 0, len(LEVELS)  # the first level at which 0 is inside
    while first < last:
        middle = (first + last) // 2
        inside = quantile_of_many(terms, LEVELS[middle]) >= size
        first, last = (first, middle) if inside else (middle + 1, last)
    return 1.0 if first == 0 else 1 - LEVELS[first - 1]


@lru_cache(maxsize=8192)
def quantile_of_many(terms: tuple[Term, ...], level: float) -> float:
    """Return q with P(|S| <= q) >= level."""
    found = []
    for noise, count, weight in terms:
        known = fit_noise(noise)
        if known is None:  # convolved one by one, however many they are
            return sum_law(terms, size=_FINE).quantile(level)
        found.append(FitTerm(known, count, Fraction(weight)))
    return float(half_width(found, level)) * (1 + 1e-12)
