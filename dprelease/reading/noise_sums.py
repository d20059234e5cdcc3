"""The law of a weighted sum of independent noises, convolved on a lattice and rounded outwards.

    S = w_1 N_1 + w_2 N_2 + ...,   N_j the sum of m_j independent draws of one noise law

Each w_j N_j is moved to the nearest point of a lattice of width h, by at most h/2, and the lattice
laws are convolved by one Fourier transform. Where all weights are multiples of h nothing is moved
and the law is exact; otherwise h/2 per term (`slack`) is added to every quantile. The sum of equal
draws is convolved on its own lattice first, so that many equal weights cost one rounding.

Errors of the transform and the mass beyond the lattice are below `ROOM`, which every tail is raised
by. A discrete Gaussian of more than 2^13 steps is read as the normal law that lies within 2 steps
of it (`aggregates.pivot`).

Units: weights and quantiles in any common unit per grid step. Sources: `docs/theory/intervals.md#derived-values`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dprelease.mechanisms.forms.vector import GaussianCells

Floats = npt.NDArray[np.float64]

ROOM = 1e-10
"""Probability added to every tail: rounding of the transform, mass beyond the lattice."""

_SIZE = 2**13
_MOST = 2**19
_FAR = 1 - 1e-13
_EXACT_GAUSSIAN = 2**26
"""Squares of scales up to this are summed term by term."""


class Noise(Protocol):
    """Symmetric integer noise, falling with the distance; frozen, so that it is hashable."""

    def __hash__(self) -> int:
        """It is frozen."""

    def quantile(self, level: float) -> int:
        """Return a k with P(|D| <= k) >= level."""

    def variance(self) -> float:
        """Return E D^2."""


Term = tuple[Noise, int, float]
"""A noise law, how many independent draws of it, and the weight of their sum."""


@dataclass(frozen=True)
class SumLaw:
    """The law of |S|: `tail[k]` bounds P(|lattice sum| >= k h) from above."""

    width: float
    tail: Floats
    slack: float

    def chance(self, size: float) -> float:
        """Return an upper bound of P(|S| >= size): a p-value for 0."""
        k = max(0, math.ceil((size - self.slack) / self.width - 1e-9))
        return float(min(1.0, self.tail[k])) if k < self.tail.size else ROOM

    def quantile(self, level: float) -> float:
        """Return q with P(|S| <= q) >= level, the least on the lattice, slack added.

        P(|S| > k h) is tail[k + 1]: the first k at which it is small enough.
        """
        small = self.tail[1:] <= 1 - level
        k = int(np.argmax(small)) if small.any() else self.tail.size
        return k * self.width + self.slack


def sum_law(terms: Sequence[Term], *, size: int = _SIZE) -> SumLaw:
    """Return the law of the sum of `terms`; weights of 0 are left out.

    Args:
        size: points of the lattice, where it is not given by the weights; a power of 2.
    """
    used = tuple((noise, m, abs(w)) for noise, m, w in terms if w and m)
    if not used:
        return SumLaw(1.0, np.array([1.0, 0.0]), 0.0)
    unit = max(w for _, _, w in used)
    made = _unit_law(tuple((noise, m, w / unit) for noise, m, w in used), size)
    return SumLaw(made.width * unit, made.tail, made.slack * unit)


@lru_cache(maxsize=4096)
def _unit_law(terms: tuple[Term, ...], size: int) -> SumLaw:
    cutoff = max(w * noise.quantile(_FAR) for noise, _, w in terms) * 1.5
    cutoff += 14 * math.sqrt(sum(m * w * w * noise.variance() for noise, m, w in terms)) + 2
    exact = _common(terms)
    if exact is not None and 2 * cutoff / exact <= _MOST:
        h = exact
        points = max(64, 1 << math.ceil(math.log2(2 * cutoff / h + 2)))
    else:
        points = min(_MOST, size * (1 << max(0, (len(terms) - 3).bit_length())))
        h = 2 * cutoff / points
    law: Floats = np.ones(points // 2 + 1)
    slack = 0.0
    for noise, m, w in terms:
        survival, moved = _sum_of_equal(noise, m)
        slack += w * moved + (0.0 if exact == h else h / 2)
        law = law * np.fft.rfft(_on_lattice(survival, w, h, points)).real
    mass = np.fft.irfft(law, points)
    half = np.maximum(mass[: points // 2], 0.0)
    half[1:] *= 2
    tail = np.append(np.cumsum(half[::-1])[::-1], 0.0) + ROOM
    return SumLaw(h, tail, slack)


def _common(terms: tuple[Term, ...]) -> float | None:
    """Return a lattice that holds every weight exactly, if a coarse one does."""
    for parts in range(1, 9):
        scaled = [w * parts for _, _, w in terms]
        if all(float(w).is_integer() for w in scaled):
            return 1 / parts
    return None


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
def _sum_of_equal(noise: Noise, count: int) -> tuple[Survival, float]:
    """Return the survival of the sum of `count` draws, in steps, and how far they were moved."""
    if count == 1:
        return _survival(noise)
    single, moved = _survival(noise)
    cutoff = 1.5 * noise.quantile(_FAR) + 14 * math.sqrt(count * noise.variance()) + 2
    step_size = max(1, math.ceil(2 * cutoff / _MOST))
    points = 1 << math.ceil(math.log2(2 * cutoff / step_size + 2))
    law = np.fft.rfft(_on_lattice(single, 1.0, float(step_size), points)).real ** count
    mass = np.maximum(np.fft.irfft(law, points)[: points // 2], 0.0)
    beyond = np.append(np.cumsum(mass[::-1])[::-1][1:], 0.0)  # P(N > k step_size)

    def survival(x: Floats) -> Floats:
        k = np.minimum(np.floor(x / step_size).astype(np.int64), beyond.size - 1)
        return np.asarray(beyond[k])

    return survival, count * (moved + (0.0 if step_size == 1 else step_size / 2))


def _survival(noise: Noise) -> tuple[Survival, float]:
    tails = getattr(noise, "tails", None)
    if tails is not None:
        return lambda x: np.asarray(tails(np.minimum(np.floor(x), 2.0**60))[0]), 0.0
    assert isinstance(noise, GaussianCells)
    if noise.square > _EXACT_GAUSSIAN:
        from scipy.special import ndtr  # half a second, where it is needed

        scale = noise.scale
        return lambda x: np.asarray(ndtr(-x / scale)), 2.0
    beyond = _gaussian_survival(noise)
    return lambda x: np.asarray(
        beyond[np.minimum(np.floor(x), beyond.size - 1).astype(np.int64)]
    ), 0.0


@lru_cache(maxsize=64)
def _gaussian_survival(noise: GaussianCells) -> Floats:
    d = np.arange(40 * (math.isqrt(noise.square) + 1), dtype=np.float64)
    weight = np.exp(-d * d / (2 * noise.square))
    total = weight[0] + 2 * weight[1:].sum()
    return np.asarray(np.append(np.cumsum(weight[::-1])[::-1][1:], 0.0) / total)
