"""The intervals of linear forms, exact from the law of their noise, and of ratios of two of them.

The noisy value of a form misses the true one by S(w_i D_i), whose law depends on nothing private, so
[value - q, value + q] with P(|S| <= q) >= level covers at the level, for every table (`intervals.law`).

Ratios have Fieller's pivot (`intervals.quotient`), those of one shape together. One whose denominator is public is a
linear form. Of a ratio that is cut to its domain all quotients are looked at first: what is accepted in the domain
alone may have come round by infinity, and need not hold the value nearest to the quotient.

Source: `docs/theory/intervals.md#derived-values`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dprelease.intervals.law import chance, quantile
from dprelease.intervals.quotient import ROOM, Ends, Part, ends, short
from dprelease.mechanisms.arguments import check_level
from dprelease.reading.forms import Linear, RatioForm
from dprelease.reading.joint import Joint, joint


def linear_ends(form: Linear, level: float, domain: Ends = (-math.inf, math.inf)) -> Ends:
    """Return the ends of the interval at `level`, around the possible value nearest to the noisy one."""
    check_level(level)
    whole = joint(form)
    value = min(max(float(whole.observed[0]), domain[0]), domain[1])
    q = quantile(whole.pattern(), level) + float(whole.rounding[0])
    return value - q, value + q


def linear_chance(form: Linear) -> float:
    """Return an upper bound of the chance of noise as large as seen if the form were 0."""
    whole = joint(form)
    size = abs(float(whole.observed[0])) - float(whole.rounding[0])
    if not whole.draws:
        return float(size <= 0)
    return chance(whole.pattern(), size)


def ratio_ends(ratio: RatioForm, level: float, domain: Ends) -> Ends:
    """Return the ends of one ratio's interval, as `ratios_ends`."""
    return ratios_ends([ratio], level, [domain])[0]


def ratios_ends(ratios: Sequence[RatioForm], level: float, domains: Sequence[Ends]) -> list[Ends]:
    """Return the ends of the intervals at `level`, inside the domains; infinite where nothing bounds them.

    Args:
        domains: the values that each ratio can have.
    """
    check_level(level)
    out: list[Ends] = list(domains)
    alike: dict[tuple[tuple[Part, ...], Ends, Ends], list[tuple[int, Joint]]] = {}
    for place, (ratio, domain) in enumerate(zip(ratios, domains, strict=True)):
        both = joint(ratio.top, ratio.bottom)
        if _sure(both):
            least, most = linear_ends(ratio.top.times(1 / both.observed[1]), level, domain)
            room = ROOM * max(abs(least), abs(most))
            out[place] = least - room, most + room
        elif both.draws:
            parts = tuple(
                (noise, n, short(t), short(b)) for (noise, (t, b)), n in both.draws.items()
            )
            rounding = float(both.rounding[0]), float(both.rounding[1])
            within = (-math.inf, math.inf) if ratio.cut else domain
            alike.setdefault((parts, rounding, within), []).append((place, both))
    for (parts, rounding, within), found in alike.items():
        top, bottom = (np.array([float(b.observed[k]) for _, b in found]) for k in (0, 1))
        lows, highs = ends(parts, level, top, bottom, rounding, within)
        for (place, _), low, high in zip(found, lows.tolist(), highs.tolist(), strict=True):
            out[place] = low, high
    return [
        (min(max(least, low), high), max(min(most, high), low))
        for (least, most), (low, high) in zip(out, domains, strict=True)
    ]


def ratio_chance(ratio: RatioForm, value: float) -> float:
    """Return an upper bound of the chance of noise as large as seen if the ratio were `value`."""
    return linear_chance(ratio.top.plus(ratio.bottom, -Fraction(value)))


def _sure(both: Joint) -> bool:
    """Whether the denominator is public, but for traces that `ROOM` covers, and not 0."""
    noisy = any(weights[1] for _, weights in both.draws)
    return not noisy and both.rounding[1] < abs(both.observed[1]) * Fraction(ROOM) / 4
