"""The intervals of ratios of linear forms by Fieller's pivot (`intervals.quotient`), those of one shape together.

A ratio whose denominator is public is a linear form. Of a ratio that is cut to its domain all quotients are looked at
first: what is accepted in the domain alone may have come round by infinity, and need not hold the value nearest to
the quotient.

Source: `docs/theory/intervals.md#derived-values`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dprelease.intervals.quotient import ROOM, Ends, Part, ends, short
from dprelease.mechanisms.arguments import check_level
from dprelease.reading.forms import RatioForm
from dprelease.reading.joint import Joint, joint
from dprelease.reading.linear_interval import linear_chance, linear_ends


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
            moved = float(both.moved[0]), float(both.moved[1])
            within = (-math.inf, math.inf) if ratio.cut else domain
            alike.setdefault((parts, moved, within), []).append((place, both))
    for (parts, moved, within), found in alike.items():
        top, bottom = (np.array([float(b.observed[k]) for _, b in found]) for k in (0, 1))
        lows, highs = ends(parts, level, top, bottom, moved, within)
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
    return not noisy and both.moved[1] < abs(both.observed[1]) * Fraction(ROOM) / 4
