"""The interval of a linear form: exact, from the law of its noise.

Its noisy value misses the true one by S(w_i D_i), whose law depends on nothing private, so
[value - q, value + q] with P(|S| <= q) >= level covers at the level, for every table
(`intervals.law`).
"""

from __future__ import annotations

import math

from dprelease.intervals.law import chance, quantile
from dprelease.mechanisms.arguments import check_level
from dprelease.reading.forms import Linear
from dprelease.reading.joint import joint

Ends = tuple[float, float]


def linear_ends(form: Linear, level: float, domain: Ends = (-math.inf, math.inf)) -> Ends:
    """Return the ends of the interval at `level`, around the possible value nearest to the noisy one."""
    check_level(level)
    whole = joint(form)
    value = min(max(float(whole.observed[0]), domain[0]), domain[1])
    q = quantile(whole.pattern(), level) + float(whole.moved[0])
    return value - q, value + q


def linear_chance(form: Linear) -> float:
    """Return an upper bound of the chance of noise as large as seen if the form were 0."""
    whole = joint(form)
    size = abs(float(whole.observed[0])) - float(whole.moved[0])
    if not whole.draws:
        return float(size <= 0)
    return chance(whole.pattern(), size)
