"""Quantiles of a linear combination of independent draws, by its characteristic function.

    X = S over terms of weight * (sum of `draws` draws) + a bulk of many small terms

Where all weights are multiples of one number that is not too small, X lives on a lattice and its
law is a finite Fourier sum. Otherwise Y = X + K is looked at, K bounded by `delta` and smooth (a
sum of 24 uniform draws): P(|X| <= q) >= P(|Y| <= q - delta), and the Fourier series of Y ends
quickly. Mass beyond the period is bounded by exponential moments, truncation by the decay of K, and
the bulk by the bracket of its characteristic function.

Everything is rounded towards wider. What is returned depends on public numbers alone and is stored
with the plan, so no published byte depends on how a machine adds floats.

Units    as the weights.
Sources  `docs/theory/publications-that-add-up.md#the-law-of-a-combination`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dprelease.fitting.estimate import Estimator, Term, law_of
from dprelease.fitting.law import MOST_KEPT, Bulk, Draws, Law

Floats = npt.NDArray[np.float64]

_ROOM = 1e-9
"""Probability kept for rounding, for mass beyond the period and for what is cut off."""
_UNIFORMS = 24
_FINE, _COARSE = 2**16, 2**14
_LATTICE = 2**17
_FEW = 12
_NOTHING = 1e-16
"""Coefficients below it are left out: fewer than 2^16 of them."""


def half_width(terms: Sequence[Term], level: float = 0.95) -> Fraction:
    """Return q with P(|X| <= q) >= level, nearly the least; 0 without terms."""
    used = [t for t in terms if t.weight and t.draws]
    if not used:
        return Fraction(0)
    exact = _on_lattice(used, level) if len(used) <= _FEW else None
    if exact is not None:
        return exact
    return _up(_smoothed(law_of(used, kept=MOST_KEPT), level, _FINE))


def half_widths(
    estimator: Estimator, table: str, level: float = 0.95, *, many: int = 64
) -> list[Fraction]:
    """Return the half width per class of a table's cells, in the order of `classes`.

    Where there are `many` classes the series is a fourth as long: at most 3 % of a standard
    deviation wider.
    """
    classes = estimator.classes(table)
    _, first = np.unique(classes, return_index=True)
    points = _FINE if first.size < many else _COARSE
    out = []
    for cell in first.tolist():
        law = estimator.law(table, cell)
        whole = None if law.bulk.variance else _on_lattice(estimator.terms(table, cell), level)
        out.append(_up(_smoothed(law, level, points)) if whole is None else whole)
    return out


def quantile_of(law: Law, level: float) -> Fraction:
    """Return q with P(|X| <= q) >= level for a law itself, by the shorter series of `half_widths`."""
    return _up(_smoothed(law, level, _COARSE))


def _up(q: float) -> Fraction:
    """Round up to 20 binary digits after the first, and by more than the last float digits."""
    q *= 1 + 1e-12
    unit = Fraction(2) ** (math.frexp(q)[1] - 20)
    return math.ceil(Fraction(q) / unit) * unit


# A lattice holds all weights.


def _on_lattice(terms: Sequence[Term], level: float) -> Fraction | None:
    """Return the exact quantile where a coarse lattice holds X, else None."""
    bottom = math.lcm(*(t.weight.denominator for t in terms))
    step_size = Fraction(math.gcd(*(int(t.weight * bottom) for t in terms)), bottom)
    scaled = [t._replace(weight=t.weight / step_size) for t in terms]
    draws = law_of(scaled)
    cutoff = _beyond(draws, 1e-12)
    if not cutoff < _LATTICE / 4:
        return None
    points = 1 << math.ceil(math.log2(4 * cutoff + 64))
    wave = _wave(draws, 2 * math.pi * np.arange(points // 2 + 1) / points)
    mass = np.fft.irfft(wave, points)
    inside = np.cumsum(mass[: points // 2])
    inside = 2 * inside - mass[0]  # P(|X| <= k)
    k = int(np.argmax(inside >= level + _room(draws)))
    return k * step_size


# No lattice does.


def _smoothed(law: Law, level: float, points: int) -> float:
    """Return q from the Fourier series of X + K; 0 where nothing is drawn.

    It is kept: a plan that is made again, as a verifier does, asks for the same.
    """
    return _by_series(tuple(law.draws.items()), law.bulk, level, points)


@lru_cache(maxsize=8192)
def _by_series(
    draws: tuple[tuple[Draws, int], ...], bulk: Bulk, level: float, points: int
) -> float:
    law = Law(dict(draws), bulk)
    half = _beyond(law, 1e-12) * 1.05
    if half == 0:
        return 0.0
    # Cut off are at most (2 / pi p) (period / (pi u points))^p, p uniforms of width u.
    width = 2 * half / (math.pi * points * math.exp(-27 / _UNIFORMS))
    delta = _UNIFORMS * width / 2
    half += delta
    period = 2 * half
    k = np.arange(1, points + 1, dtype=np.float64)
    t = 2 * math.pi * k / period
    smooth = 2 / (math.pi * k) * np.sinc(t * width / (2 * math.pi)) ** _UNIFORMS  # at least 0
    t, known = _waves(law, t, smooth)
    middle, doubt = _bulk(law, t)
    series = known * middle
    wanted = level + _room(law) + float(np.abs(known * doubt).sum())
    low, high = 0.0, half
    guess = 2 * math.sqrt(_variance(law))
    x = guess if guess < high else high / 2
    for _ in range(60):
        inside = 2 * x / period + float((series * np.sin(t * x)).sum())
        low, high = (low, x) if inside >= wanted else (x, high)
        if high - low <= half * 1e-6:
            break
        slope = 2 / period + float((series * t * np.cos(t * x)).sum())
        x += (wanted - inside) / slope if slope > 0 else math.inf
        x += half * 4e-7 * (1 if inside < wanted else -1)  # to have it on both sides
        if not low < x < high:
            x = (low + high) / 2
    return high + delta


def _waves(law: Law, t: Floats, smooth: Floats) -> tuple[Floats, Floats]:
    """Return the frequencies that matter and their coefficients; what is left out is in `_ROOM`."""
    ranked = sorted(law.draws.items(), key=lambda item: (-item[1] * item[0][1], item[0][1]))
    for (noise, weight), count in ranked:
        wave = noise.wave(weight * t)
        smooth = smooth * (wave if count == 1 else wave**count)
        matter = smooth > _NOTHING
        if np.count_nonzero(matter) < 0.7 * matter.size:
            t, smooth = t[matter], smooth[matter]
    return t, smooth


def _room(law: Law) -> float:
    return _ROOM + 1e-15 * sum(law.draws.values())


def _wave(law: Law, t: Floats) -> Floats:
    """Return the characteristic function of the draws that are kept one by one."""
    out = np.ones(t.size)
    for (noise, weight), count in law.draws.items():
        wave = noise.wave(weight * t)
        out *= wave if count == 1 else wave**count
    return out


def _bulk(law: Law, t: Floats) -> tuple[Floats, Floats]:
    """Return the bulk's characteristic function, and how far it may be from that."""
    bulk = law.bulk
    middle: Floats = np.exp(-bulk.variance * t * t / 2)
    spread = np.minimum(bulk.quartic * t**4, 1.0)
    sure = (bulk.widest * t * t <= 1) & (bulk.quartic * t**4 <= 1)
    return middle, np.where(sure, middle * np.expm1(spread), 1 + middle) * (bulk.variance > 0)


def _beyond(law: Law, chance: float) -> float:
    """Return an x with P(|X| > x) <= chance: 2 e^(-s x) E e^(s X), over a ladder of s."""
    parts = [(noise, weight, count) for (noise, weight), count in law.draws.items()]
    variance = _variance(law)
    if variance == 0:
        return 0.0

    def bound(s: float) -> float:
        if law.bulk.widest * s * s > 0.5:
            return math.inf
        grown = sum(n * noise.log_moment(s * w) for noise, w, n in parts)
        grown += law.bulk.variance * s * s
        return (math.log(2 / chance) + grown) / s

    first = 0.15 / math.sqrt(variance)
    best = min(bound(first * step) for step in range(1, 60))
    if law.bulk.variance:
        while math.isinf(best):  # far fewer draws than not are 0: moments end below the ladder
            first /= 2
            best = bound(first)
        return best
    # For few draws of a heavy tail: each one's own tail.
    share = math.log(2 * sum(n for _, _, n in parts) / chance)
    return min(best, sum(n * w * noise.tail(share) for noise, w, n in parts))


def _variance(law: Law) -> float:
    own = sum(n * w * w * float(noise.variance()) for (noise, w), n in law.draws.items())
    return own + law.bulk.variance
