"""The law of a weighted sum of a few independent noises, convolved on a lattice and rounded outwards.

    T = w_1 N_1 + w_2 N_2 + ...,   N_j the sum of m_j independent draws of one noise law

Each w_j N_j is moved to the nearest point of a lattice of width h, by at most h/2, and the lattice
laws are convolved by one Fourier transform. Where all weights are multiples of h nothing is moved
and the law is exact; otherwise h/2 per term (`slack`) is added to every quantile. The sum of equal
draws is convolved on its own lattice first, so that many equal weights cost one rounding.

Errors of the transform and the mass beyond the lattice are below `ROOM`, which every tail is raised
by.

Of noise that is wider than a step there are closed forms, for many sums at once. With independent continuous Laplace noise of scale b and weights w_i,
P(|sum(w_i X_i)| > z) = sum(c_i e^(-z / (b w_i))), c_i = prod_{j != i} w_i^2 / (w_i^2 - w_j^2). It rises
with every |w_i| (sums of symmetric unimodal variables, Birnbaum's peakedness), so equal weights may be
pulled apart upwards. Discrete Laplace noise of scale b differs from a continuous one by at most 1
step under the monotone coupling (P(|D| >= k) = 2r^k/(1+r) lies between r^k and r^(k-1)), which
adds sum(w_i).

Units: weights and quantiles in any common unit per grid step. Shapes: weights `(rows, weights)`, quantiles `(rows,)`.
Sources: `docs/theory/intervals.md#derived-values`, `#ratios`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from dprelease.intervals.noise import IntegerNoise, Term

Floats = npt.NDArray[np.float64]

ROOM = 1e-10
"""Probability added to every tail: rounding of the transform, mass beyond the lattice."""

EXACT = 2**17
"""Most points of a lattice on which an exact quantile stands in a plan."""
_SIZE = 2**13
_MOST = 2**19
_FAR = 1 - 1e-13


SumLaw = tuple[Fraction, Floats, float]
"""The law of |T|: h, upper bounds of P(K >= 0), P(K >= 1), ..., and the slack: |T| is within it of h K, K whole."""


def few_chance(terms: Sequence[Term], size: float, *, points: int = _SIZE) -> float:
    """Return an upper bound of P(|T| >= size): a p-value for 0."""
    width, tail, slack = sum_law(terms, points=points)
    k = max(0, math.ceil((size - slack) / float(width) - 1e-9))
    return float(min(1.0, tail[k])) if k < tail.size else ROOM


def few_quantile(terms: Sequence[Term], level: float, *, points: int = _SIZE) -> float:
    """Return q with P(|T| <= q) >= level, the least on the lattice, slack added."""
    width, tail, slack = sum_law(terms, points=points)
    return _steps(tail, level) * float(width) + slack


def _steps(tail: Floats, level: float) -> int:
    """Return the least k with P(K <= k) >= level: P(K > k) is tail[k + 1]."""
    small = tail[1:] <= 1 - level
    return int(np.argmax(small)) if small.any() else tail.size


def sum_law(terms: Sequence[Term], *, points: int = _SIZE) -> SumLaw:
    """Return the law of the sum of `terms`; weights of 0 are left out.

    Args:
        points: of the lattice, where it is not given by the weights; a power of 2.
    """
    used = tuple(t._replace(weight=abs(t.weight)) for t in terms if t.weight and t.draws)
    if not used:
        return Fraction(1), np.array([1.0, 0.0]), 0.0
    unit = max(t.weight for t in used)
    width, tail, slack = _unit_law(tuple(t._replace(weight=t.weight / unit) for t in used), points)
    return width * unit, tail, slack * float(unit)


def exact_quantile(terms: Sequence[Term], level: float, *, most: int) -> Fraction | None:
    """Return the exact quantile where a lattice of at most so many points holds the sum, else None."""
    used = tuple(t._replace(weight=abs(t.weight)) for t in terms if t.weight and t.draws)
    if not used:
        return Fraction(0)
    if 2 * _cutoff(used) > most * _common(used) or any(t.noise.apart for t in used):
        return None
    width, tail, _ = sum_law(used, points=most // 4)
    return _steps(tail, level) * width


def _cutoff(terms: Sequence[Term]) -> float:
    """Return how far the sum reaches, but for chances below `ROOM`."""
    far = max(float(t.weight) * t.noise.quantile(_FAR) for t in terms)
    square = sum(t.draws * float(t.weight) ** 2 * float(t.noise.variance()) for t in terms)
    return 1.5 * far + 14 * math.sqrt(square) + 2 * float(max(t.weight for t in terms))


@lru_cache(maxsize=64)  # a law has up to 2 MB, and its quantiles are kept (`law.quantile`)
def _unit_law(terms: tuple[Term, ...], size: int) -> SumLaw:
    cutoff, h = _cutoff(terms), _common(terms)
    exact = 2 * cutoff <= 4 * size * h
    if exact:
        points = max(64, 1 << math.ceil(math.log2(2 * cutoff / h + 2)))
    else:
        points = min(_MOST, size * (1 << max(0, (len(terms) - 3).bit_length())))
        h = Fraction(2 * cutoff / points)
    law: Floats = np.ones(points // 2 + 1)
    slack = 0.0
    for noise, draws, share in terms:
        weight, (survival, rounding) = float(share), _sum_of_equal(noise, draws)
        slack += weight * rounding + (0.0 if exact else float(h) / 2)
        law = law * np.fft.rfft(_on_lattice(survival, weight, float(h), points)).real
    mass = np.fft.irfft(law, points)
    half = np.maximum(mass[: points // 2], 0.0)
    half[1:] *= 2
    tail = np.append(np.cumsum(half[::-1])[::-1], 0.0) + ROOM
    return h, tail, slack


def _common(terms: Sequence[Term]) -> Fraction:
    """Return the widest lattice that holds every weight exactly."""
    bottom = math.lcm(*(weight.denominator for _, _, weight in terms))
    return Fraction(math.gcd(*(int(weight * bottom) for _, _, weight in terms)), bottom)


Survival = Callable[[Floats], Floats]
"""From x >= 0 to P(N > x)."""


def _on_lattice(survival: Survival, weight: float, h: float, points: int) -> Floats:
    """Return the law of the lattice point nearest to weight * N, zero first, cyclic."""
    edges: Floats = np.asarray((np.arange(points // 2 + 1) + 0.5) * (h / weight))
    beyond = survival(edges)
    out = np.zeros(points)
    out[0] = 1 - 2 * beyond[0]
    side = beyond[:-1] - beyond[1:]
    out[1 : points // 2 + 1] = side
    out[points // 2 :] += side[::-1]  # the point half round stands for both signs
    return out


@lru_cache(maxsize=64)
def _sum_of_equal(noise: IntegerNoise, count: int) -> tuple[Survival, float]:
    """Return the survival of the sum of `count` draws, in steps, and how far they were moved."""
    if count == 1:
        return noise.survival, noise.apart
    cutoff = 1.5 * noise.quantile(_FAR) + 14 * math.sqrt(count * noise.variance()) + 2
    step_size = max(1, math.ceil(2 * cutoff / _MOST))
    points = 1 << math.ceil(math.log2(2 * cutoff / step_size + 2))
    law = np.fft.rfft(_on_lattice(noise.survival, 1.0, float(step_size), points)).real ** count
    mass = np.maximum(np.fft.irfft(law, points)[: points // 2], 0.0)
    beyond = np.append(np.cumsum(mass[::-1])[::-1][1:], 0.0)  # P(N > k step_size)

    def survival(x: Floats) -> Floats:
        k = np.minimum(np.floor(x / step_size), beyond.size - 1).astype(np.int64)
        return np.asarray(beyond[k])

    return survival, count * (noise.apart + (0.0 if step_size == 1 else step_size / 2))


def normal_quantiles(weights: Floats, scale: float, level: float) -> Floats:
    """Return q with P(|sum(w_i D_i)| <= q) >= level for rounded normal D_i of this scale, per row; w_i >= 0.

    sum(w_i N_i) is normal with variance scale^2 sum(w_i^2), which rises with every |w_i|, and each D_i is within
    half a step of its N_i.
    """
    z = -NormalDist().inv_cdf((1 - level) / 2) * (1 + 1e-9)
    return np.asarray(
        z * scale * np.sqrt((weights * weights).sum(axis=1)) + weights.sum(axis=1) / 2
    )


@lru_cache(maxsize=2**15)
def sum_quantile(weights: tuple[float, ...], level: float) -> float:
    """Return z with P(|sum(w_i X_i)| <= z) >= level for independent unit Laplace X_i, equal w_i too.

    The closed form of `quantiles` cancels where many weights are equal. Here w_i X_i is
    coupled with a discrete Laplace D_i on the lattice of width h (within one h of it, by the same
    coupling as in the module's docstring), whose characteristic function is
    (1 - r)^2 / (1 - 2 r cos(omega) + r^2), r = e^(-h / w_i). The law of the sum is one inverse
    Fourier transform; z is its quantile plus one h per weight. The period of the lattice is 128
    times the largest weight, beyond which less than 1e-15 lies for up to 16 weights.

    >>> 2.995 < sum_quantile((1.0,), 0.95) < 3.01
    True
    """
    w = np.abs(np.asarray(weights, dtype=float))
    w = w[w > 0]
    if w.size == 0:
        return 0.0
    most = float(w.max())
    h, size = 1 / 256, 2**15
    cosine = _cosine(size)
    law = np.ones(cosine.shape)
    for r in np.exp(-h * most / np.maximum(w, most * 1e-6)):
        law *= (1 - r) ** 2 / (1 - 2 * r * cosine + r * r)
    mass = np.fft.irfft(law, size)
    within = mass[0] + 2 * np.cumsum(mass[1 : size // 2])
    k = int(np.searchsorted(within, level + 1e-9)) + 1
    return float(most * h * (k + w.size))


@lru_cache(maxsize=1)
def _cosine(size: int) -> Floats:
    return np.asarray(np.cos(2 * np.pi * np.arange(size // 2 + 1) / size))


def quantiles(weights: Floats, level: float) -> Floats:
    """Return z with P(|sum(w_i X_i)| <= z) >= level for independent unit Laplace X_i, per row.

    `weights` are of shape `(rows, weights)`. Equal ones are pulled apart upwards and zeros raised,
    which only lengthens.

    >>> quantiles(np.array([[1.0, 0.0, 0.0]]), 0.95).round(3)
    array([2.996])
    """
    w = np.sort(weights, axis=1)
    w = np.maximum(w, w[:, -1:] * 1e-6)
    for i in range(1, w.shape[1]):  # equal weights apart, upwards: conservative, and no 0/0
        w[:, i] = np.maximum(w[:, i], w[:, i - 1] * (1 + 1e-4))
    square = w * w
    c = np.ones_like(w)
    for i in range(w.shape[1]):
        for j in range(w.shape[1]):
            if i != j:
                c[:, i] *= square[:, i] / (square[:, i] - square[:, j])
    low, high = np.zeros(w.shape[0]), w.sum(axis=1) * (1 - np.log(1 - level)) * 2
    for _ in range(60):
        z = (low + high) / 2
        over = (c * np.exp(-z[:, None] / w)).sum(axis=1) > 1 - level
        low, high = np.where(over, z, low), np.where(over, high, z)
    return np.asarray(high * (1 + 1e-7))  # the sums are rounded
