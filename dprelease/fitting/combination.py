"""The law of a linear combination of independent draws, by its characteristic function.

    X = S over terms of weight * (sum of `draws` draws)

Where all weights are multiples of one number that is not too small, X lives on a lattice and its
law is a finite Fourier sum. Otherwise Y = X + K is looked at, K bounded by `delta` and smooth (a
sum of 24 uniform draws): P(|X| <= q) >= P(|Y| <= q - delta), and the Fourier series of Y ends
quickly. Mass beyond the period is bounded by exponential moments, truncation by the decay of K.

Many terms with nearly equal weights are first given equal ones; how far that moves X is bounded by
exponential moments too, and added.

Everything is rounded towards wider. What is returned depends on public numbers alone and is stored
with the plan, so no published byte depends on how a machine adds floats.

Units    as the weights.
Sources  `docs/theory/publications-that-add-up.md#the-law-of-a-combination`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.fitting.estimate import Term
from dprelease.fitting.noise import Noise

__all__ = ["half_width", "half_widths"]

Floats = npt.NDArray[np.float64]

_ROOM = 1e-9
"""Probability kept for rounding, for mass beyond the period and for what is cut off."""
_UNIFORMS = 24
_FINE, _COARSE = 2**15, 2**12
_LATTICE = 2**17
_TERMS = 32
_MOVED = 1e-6
"""Probability kept for how far equal weights move X."""


@dataclass(frozen=True)
class _Draws:
    noise: Noise
    count: int
    weight: float


def half_width(terms: Sequence[Term], level: float = 0.95, *, fine: bool = True) -> Fraction:
    """Return q with P(|X| <= q) >= level, nearly the least; 0 without terms.

    Args:
        fine: whether to take the finer series: an eighth of the time else, and at most 6 % of a
            standard deviation wider.
    """
    used = [t for t in terms if t.weight and t.draws]
    if not used:
        return Fraction(0)
    exact = _on_lattice(used, level)
    if exact is not None:
        return exact
    draws, moved = _merged([_Draws(t.noise, t.draws, abs(float(t.weight))) for t in used])
    room = _ROOM + 1e-15 * sum(d.count for d in draws) + (_MOVED if moved else 0.0)
    q = _smoothed(draws, level + room, _FINE if fine else _COARSE) + moved
    return _up(q)


def half_widths(
    several: Sequence[Sequence[Term]], level: float = 0.95, *, many: int = 256
) -> list[Fraction]:
    """Return the half width per class of cells; the coarser series where there are `many`."""
    made: dict[tuple[Term, ...], Fraction] = {}
    for terms in several:
        key = tuple(terms)
        if key not in made:
            made[key] = half_width(key, level, fine=len(several) <= many)
    return [made[tuple(terms)] for terms in several]


def _up(q: float) -> Fraction:
    """Round up to 20 binary digits after the first, and by more than the last float digits."""
    q *= 1 + 1e-12
    unit = Fraction(2) ** (math.frexp(q)[1] - 20)
    return math.ceil(Fraction(q) / unit) * unit


# A lattice holds all weights.


def _on_lattice(terms: Sequence[Term], level: float) -> Fraction | None:
    """Return the exact quantile where a coarse lattice holds X, else None."""
    if len(terms) > _TERMS:
        return None
    bottom = math.lcm(*(t.weight.denominator for t in terms))
    pitch = Fraction(math.gcd(*(int(t.weight * bottom) for t in terms)), bottom)
    draws = [_Draws(t.noise, t.draws, abs(float(t.weight / pitch))) for t in terms]
    reach = _beyond(draws, 1e-12)
    if not reach < _LATTICE / 4:
        return None
    points = 1 << math.ceil(math.log2(4 * reach + 64))
    wave = _wave(draws, 2 * math.pi * np.arange(points // 2 + 1) / points)
    mass = np.fft.irfft(wave, points)
    inside = np.cumsum(mass[: points // 2])
    inside = 2 * inside - mass[0]  # P(|X| <= k)
    room = _ROOM + 1e-15 * sum(d.count for d in draws)
    k = int(np.argmax(inside >= level + room))
    return k * pitch


# No lattice does.


def _smoothed(draws: Sequence[_Draws], level: float, points: int) -> float:
    """Return q from the Fourier series of X + K."""
    half = _beyond(draws, 1e-12) * 1.05
    period = 2 * half
    # Cut off are at most (2 / pi p) (period / (pi u points))^p, p uniforms of width u.
    ratio = math.exp(-27 / _UNIFORMS)
    width = period / (math.pi * points * ratio)
    delta = _UNIFORMS * width / 2
    half += delta
    period = 2 * half
    k = np.arange(1, points + 1, dtype=np.float64)
    t = 2 * math.pi * k / period
    series = 2 / (math.pi * k) * _wave(draws, t) * np.sinc(t * width / (2 * math.pi)) ** _UNIFORMS
    low, high = 0.0, half
    while high - low > half * 1e-7:
        x = (low + high) / 2
        inside = 2 * x / period + float((series * np.sin(t * x)).sum())
        low, high = (low, x) if inside >= level else (x, high)
    return high + delta


def _wave(draws: Sequence[_Draws], t: Floats) -> Floats:
    """Return the characteristic function of X."""
    out = np.ones(t.size)
    for d in draws:
        out *= d.noise.wave(d.weight * t) ** d.count
    return out


def _beyond(draws: Sequence[_Draws], chance: float) -> float:
    """Return an x with P(|X| > x) <= chance: 2 e^(-s x) E e^(s X), over a ladder of s."""
    sd = math.sqrt(sum(d.count * d.weight**2 * float(d.noise.variance()) for d in draws))
    if sd == 0:
        return 0.0
    best = math.inf
    for step in range(1, 60):
        s = 0.15 * step / sd
        grown = sum(d.count * d.noise.log_moment(s * d.weight) for d in draws)
        best = min(best, (math.log(2 / chance) + grown) / s)
    return min(best, _union(draws, chance))


def _union(draws: Sequence[_Draws], chance: float) -> float:
    """Return the same, each draw's own tail added up: for few draws of a heavy tail."""
    n = sum(d.count for d in draws)
    share = math.log(2 * n / chance)
    return sum(d.count * d.weight * d.noise.tail(share) for d in draws)


def _merged(draws: list[_Draws]) -> tuple[list[_Draws], float]:
    """Give nearly equal weights their mean; return the draws and how far X moved at most."""
    if len(draws) <= _TERMS:
        return draws, 0.0
    kinds = list(dict.fromkeys(d.noise for d in draws))
    bins = [
        some
        for noise in kinds
        for some in _bins([d for d in draws if d.noise == noise], max(1, _TERMS // len(kinds)))
    ]
    out, differences = [], []
    for some in bins:
        noise, count = some[0].noise, sum(d.count for d in some)
        mean = sum(d.count * d.weight for d in some) / count
        out.append(_Draws(noise, count, mean))
        differences += [_Draws(noise, d.count, abs(d.weight - mean)) for d in some]
    moving = [d for d in differences if d.weight]
    return out, _beyond(moving, _MOVED / 2) if moving else 0.0


def _bins(draws: list[_Draws], most: int) -> list[list[_Draws]]:
    """Return at most about `most` groups of near weights, denser where there are many draws."""
    ordered = sorted(draws, key=lambda d: d.weight)
    place, spread = 0.0, [0.0]
    for a, b in itertools.pairwise(ordered):
        place += (b.weight - a.weight) ** (2 / 3) * (a.count + b.count) ** (1 / 3)
        spread.append(place)
    groups: dict[int, list[_Draws]] = {}
    for d, at in zip(ordered, spread, strict=True):
        groups.setdefault(math.floor(at / (place or 1.0) * most), []).append(d)
    return list(groups.values())
