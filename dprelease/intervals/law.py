"""The law of a weighted sum of independent noises: what every interval is made of.

    X = S over terms of weight * (sum of `draws` draws) + a bulk of many small terms

A few different terms are convolved one by one (`intervals.few`). Of more, as behind tables that add up, what counts
is kept draw by draw: the `EXACT_TERMS` terms (`MOST_EXACT_TERMS` of narrow noise, or where one law alone is asked for) with the
largest part of the variance. Of the others only three numbers are kept, which bracket their characteristic function:

    e^(-v t^2 / 2 - q t^4) <= phi(t) <= e^(-v t^2 / 2 + q t^4)   while  widest * t^2 <= 1,

and E e^(s X) <= e^(v s^2) while widest * s^2 <= 1/2. Then Y = X + K is looked at, K bounded by `delta` and smooth (a
sum of 24 uniform draws): P(|X| <= q) >= P(|Y| <= q - delta), and the Fourier series of Y ends quickly. Mass beyond the
period is bounded by exponential moments, truncation by the decay of K, and the bulk by its bracket.

Everything is rounded towards wider. What is returned depends on public numbers alone and is stored
with the plan, so no published byte depends on how a machine adds floats.

Units    as the weights; draws in steps.
Sources  `docs/theory/publications-that-add-up.md#the-law-of-a-combination`, `docs/theory/intervals.md#derived-values`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dprelease.intervals.few import EXACT, exact_quantile, few_chance, few_quantile
from dprelease.intervals.noise import Gaussian, Laplace, Noise, Term

Floats = npt.NDArray[np.float64]

EXACT_TERMS = 12
MOST_EXACT_TERMS = 64
"""Where noise is narrower than a step: its characteristic function does not fall off, so a bulk says little."""

Draws = tuple[Noise, float]
"""A noise and the size of its weight."""

FEW = 12
"""So many different terms are convolved one by one."""

LEVELS = (1 - 2.0 ** (-np.arange(1, 133) / 4)).tolist()
"""Confidence levels at which a p-value is looked for: it is rounded up by at most a fifth."""

Terms = tuple[Term, ...]

_ROOM = 1e-9
"""Probability kept for rounding, for mass beyond the period and for what is cut off."""
_UNIFORMS = 24
FINE, COARSE = 2**16, 2**14
_NOTHING = 1e-16
"""Coefficients below it are left out: fewer than 2^16 of them."""


@lru_cache(maxsize=8192)
def quantile(terms: Terms, level: float, *, points: int = FINE) -> float:
    """Return q with P(|S| <= q) >= level; `points` of a lattice of a few terms, where the weights give none."""
    if _few(terms):
        return few_quantile(terms, level, points=points)
    return float(quantile_of(law_of(terms, exact=MOST_EXACT_TERMS), level, points=FINE)) * (
        1 + 1e-12
    )


def chance(terms: Terms, size: float) -> float:
    """Return an upper bound of P(|S| >= size): a p-value of what was seen, if the true value were 0."""
    if _few(terms):
        return few_chance(terms, max(0.0, size), points=FINE)
    return least_risk(lambda level: quantile(terms, level) >= size)


def least_risk(inside: Callable[[float], bool]) -> float:
    """Return the least 1 - level at which a value is not `inside` its interval, which grows with the level; 1 if there is none."""
    first = bisect_left(LEVELS, True, key=inside)
    return 1 - LEVELS[first - 1] if first else 1.0


def half_width(terms: Sequence[Term], level: float = 0.95) -> Fraction:
    """Return q with P(|S| <= q) >= level as a plan holds it: exact on a coarse lattice, else rounded up; 0 without terms."""
    used = [t for t in terms if t.weight and t.draws]
    exact = exact_quantile(used, level, most=EXACT) if len(used) <= FEW else None
    if exact is not None:
        return exact
    return quantile_of(law_of(used, exact=MOST_EXACT_TERMS), level, points=FINE)


def _few(terms: Terms) -> bool:
    """Return whether the terms are convolved one by one; of unknown noise they are, however many they are."""
    return len(terms) <= FEW or not all(isinstance(t.noise, Laplace | Gaussian) for t in terms)


@dataclass(frozen=True, slots=True)
class Bulk:
    """Many small terms: their variance, the bound of the quartic term, and the widest of them.

    `widest` is the largest square of a weight times the noise's variance, or 1 where that is less.
    """

    variance: float = 0.0
    quartic: float = 0.0
    widest: float = 0.0

    def scaled(self, weight: float, count: int) -> Bulk:
        """Return `count` independent copies, each times `weight`."""
        square = weight * weight
        return Bulk(
            count * square * self.variance, count * square * square * self.quartic,
            square * self.widest,
        )  # fmt: skip

    def plus(self, other: Bulk) -> Bulk:
        return Bulk(
            self.variance + other.variance,
            self.quartic + other.quartic,
            max(self.widest, other.widest),
        )


@dataclass(frozen=True, slots=True)
class SumLaw:
    """`draws[noise, weight]`: how many, all independent; and the bulk."""

    draws: Mapping[Draws, int]
    bulk: Bulk = Bulk()

    @classmethod
    def weighted_sum(
        cls, parts: Iterable[tuple[SumLaw, float, int]], *, exact: int = EXACT_TERMS
    ) -> SumLaw:
        """Return the law of a sum: per part its law, a weight, and how many independent copies.

        Args:
            exact: so many terms are kept draw by draw.
        """
        found: dict[Draws, int] = {}
        bulk = Bulk()
        for law, weight, count in parts:
            if not weight or count <= 0:
                continue
            bulk = bulk.plus(law.bulk.scaled(weight, count))
            for (noise, own), n in law.draws.items():
                key = noise, abs(own * weight)
                found[key] = found.get(key, 0) + n * count
        narrow = any(float(noise.variance()) < 1 for noise, _ in found)
        exact = MOST_EXACT_TERMS if narrow else exact
        if len(found) <= exact:
            return cls(found, bulk)
        sized = {key: float(key[0].variance()) * key[1] ** 2 for key in found}
        ranked = sorted(found, key=lambda key: (-found[key] * sized[key], key[1]))
        for noise, weight in ranked[exact:]:
            variance = sized[noise, weight]
            quartic = weight**4 * (float(noise.variance()) ** 2 / 4 + noise.fourth() / 24)
            widest = weight**2 * max(float(noise.variance()), 1.0)
            bulk = bulk.plus(Bulk(variance, quartic, widest).scaled(1.0, found[noise, weight]))
        return cls({key: found[key] for key in ranked[:exact]}, bulk)


def law_of(terms: Sequence[Term], *, exact: int = EXACT_TERMS) -> SumLaw:
    """Return the law of a sum of Laplace and Gaussian terms, `exact` of them draw by draw."""
    parts = []
    for noise, draws, weight in terms:
        assert isinstance(noise, Laplace | Gaussian)
        parts.append((SumLaw({(noise, 1.0): draws}), float(weight), 1))
    return SumLaw.weighted_sum(parts, exact=exact)


def quantile_of(law: SumLaw, level: float, *, points: int = COARSE) -> Fraction:
    """Return q with P(|X| <= q) >= level for a law itself, by a series of so many `points`."""
    return _up(_smoothed(law, level, points))


def _up(q: float) -> Fraction:
    """Round up to 20 binary digits after the first, and by more than the last float digits."""
    q *= 1 + 1e-12
    unit = Fraction(2) ** (math.frexp(q)[1] - 20)
    return math.ceil(Fraction(q) / unit) * unit


def _smoothed(law: SumLaw, level: float, points: int) -> float:
    """Return q from the Fourier series of X + K; 0 where nothing is drawn.

    It is kept: a plan that is made again, as a verifier does, asks for the same.
    """
    return _by_series(tuple(law.draws.items()), law.bulk, level, points)


@lru_cache(maxsize=8192)
def _by_series(
    draws: tuple[tuple[Draws, int], ...], bulk: Bulk, level: float, points: int
) -> float:
    law = SumLaw(dict(draws), bulk)
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


def _waves(law: SumLaw, t: Floats, smooth: Floats) -> tuple[Floats, Floats]:
    """Return the frequencies that matter and their coefficients; what is left out is in `_ROOM`."""
    ranked = sorted(law.draws.items(), key=lambda item: (-item[1] * item[0][1], item[0][1]))
    for (noise, weight), count in ranked:
        wave = noise.wave(weight * t)
        smooth = smooth * (wave if count == 1 else wave**count)
        matter = smooth > _NOTHING
        if np.count_nonzero(matter) < 0.7 * matter.size:
            t, smooth = t[matter], smooth[matter]
    return t, smooth


def _room(law: SumLaw) -> float:
    return _ROOM + 1e-15 * sum(law.draws.values())


def _bulk(law: SumLaw, t: Floats) -> tuple[Floats, Floats]:
    """Return the bulk's characteristic function, and how far it may be from that."""
    bulk = law.bulk
    middle: Floats = np.exp(-bulk.variance * t * t / 2)
    spread = np.minimum(bulk.quartic * t**4, 1.0)
    sure = (bulk.widest * t * t <= 1) & (bulk.quartic * t**4 <= 1)
    return middle, np.where(sure, middle * np.expm1(spread), 1 + middle) * (bulk.variance > 0)


def _beyond(law: SumLaw, chance: float) -> float:
    """Return an x with P(|X| > x) <= chance: 2 e^(-s x) E e^(s X), over a ladder of s."""
    parts = [(noise, weight, count) for (noise, weight), count in law.draws.items()]
    variance = _variance(law)
    if variance == 0:
        return 0.0

    def bound(ladder: Sequence[float]) -> float:
        ladder = [s for s in ladder if law.bulk.widest * s * s <= 0.5]
        each = [
            [n * moment for moment in noise.log_moments([s * w for s in ladder])]
            for noise, w, n in parts
        ]
        return min(
            (
                (math.log(2 / chance) + (sum(m[i] for m in each) + law.bulk.variance * s * s)) / s
                for i, s in enumerate(ladder)
            ),
            default=math.inf,
        )

    first = 0.15 / math.sqrt(variance)
    best = bound([first * step for step in range(1, 60)])
    if law.bulk.variance:
        while math.isinf(best):  # far fewer draws than not are 0: moments end below the ladder
            first /= 2
            best = bound([first])
        return best
    # For few draws of a heavy tail: each one's own tail.
    share = math.log(2 * sum(n for _, _, n in parts) / chance)
    return min(best, sum(n * w * noise.tail(share) for noise, w, n in parts))


def _variance(law: SumLaw) -> float:
    own = sum(n * w * w * float(noise.variance()) for (noise, w), n in law.draws.items())
    return own + law.bulk.variance
