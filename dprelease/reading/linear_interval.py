"""The interval of a linear form: exact, from the law of its noise.

Its noisy value misses the true one by S(w_i D_i), whose law depends on nothing private, so
[value - q, value + q] with P(|S| <= q) >= level covers at the level, for every table.
"""

from __future__ import annotations

from dprelease.mechanisms.arguments import check_level
from dprelease.reading.forms import Linear, pattern
from dprelease.reading.noise_sums import sum_law

__all__ = ["linear_chance", "linear_ends"]

_FINE = 2**16


def linear_ends(form: Linear, level: float) -> tuple[float, float]:
    """Return the ends of the interval at `level`."""
    check_level(level)
    value = float(form.observed)
    q = sum_law(pattern(form), size=_FINE).quantile(level) + float(form.moved)
    return value - q, value + q


def linear_chance(form: Linear) -> float:
    """Return an upper bound of the chance of noise as large as seen if the form were 0."""
    size = abs(float(form.observed)) - float(form.moved)
    if not form.terms:
        return float(size <= 0)
    return sum_law(pattern(form), size=_FINE).chance(max(0.0, size))
