"""The interval of a linear form: exact, from the law of its noise.

Its noisy value misses the true one by S(w_i D_i), whose law depends on nothing private, so
[value - q, value + q] with P(|S| <= q) >= level covers at the level, for every table
(`intervals.law`).
"""

from __future__ import annotations

from dprelease.intervals.law import chance, quantile
from dprelease.mechanisms.arguments import check_level
from dprelease.reading.estimated import Estimate
from dprelease.reading.forms import Linear
from dprelease.reading.joint import Joint, joint


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
    q = quantile(whole.pattern(), level) + float(whole.moved[0])
    return value - q, value + q


def linear_chance(form: Linear) -> float:
    """Return an upper bound of the chance of noise as large as seen if the form were 0."""
    whole = joint(form)
    size = abs(float(whole.observed[0])) - float(whole.moved[0])
    if not whole.draws:
        return float(size <= 0)
    return chance(whole.pattern(), size)
