"""Symmetric integer noise, as far as fits and intervals must know it: variance, tails and characteristic function.

    Laplace    P(d) = tanh(rate / 2) e^(-rate |d|)
    Gaussian   P(d) = e^(-d^2 / (2 square)) / Z,  d any integer

Variances are rationals of 64 binary digits, the same on every machine: the weights of a fit are
made of them. The variance of a discrete Gaussian is at most `square`
([CKS20], arXiv:2004.00010, Corollary 9), which stands for it.

Units    grid steps, steps squared; rate in nats per step.
Sources  `docs/theory/publications-that-add-up.md#least-squares`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from dprelease.core.numeric import exp_lower

Floats = npt.NDArray[np.float64]
_BITS = 64
_EXACT_GAUSSIAN = 2**26
"""Squares of scales up to this are summed term by term; a wider one is read as the normal law within 2 steps of it."""


class IntegerNoise(Protocol):
    """Symmetric integer noise, falling with the distance; frozen, so that it is hashable."""

    @property
    def apart(self) -> float:
        """How far a draw may be from the law of `survival`, in steps."""

    def __hash__(self) -> int:
        """It is frozen."""

    def survival(self, x: Floats) -> Floats:
        """Return P(D > x) for x >= 0."""

    def quantile(self, level: float) -> int:
        """Return a k with P(|D| <= k) >= level."""

    def variance(self) -> Fraction | float:
        """Return E D^2."""


class Term(NamedTuple):
    """`draws` independent draws of one noise, each with the same weight."""

    noise: IntegerNoise
    draws: int
    weight: Fraction


@dataclass(frozen=True, slots=True)
class Laplace:
    """Discrete Laplace noise of an exact rate, in nats per step."""

    rate: Fraction

    @property
    def scale(self) -> float:
        return 1 / float(self.rate)

    @property
    def apart(self) -> float:
        return 0.0

    def survival(self, x: Floats) -> Floats:
        rate = float(self.rate)
        return np.asarray(np.exp(-rate * (np.floor(x) + 1)) / (1 + math.exp(-rate)))

    def quantile(self, level: float) -> int:
        """Return the smallest k (rounded up in doubt) with P(|D| <= k) >= level."""
        rate = float(self.rate)
        need = math.log(2 / ((1 + math.exp(-rate)) * (1 - level))) / rate
        return max(0, math.ceil(need * (1 + 1e-12)) - 1)

    def variance(self) -> Fraction:
        """Return 2 r / (1 - r)^2, r = e^-rate, to 64 digits."""
        return _laplace_variance(self.rate)

    def fourth(self) -> float:
        """Return E D^4 = variance + 6 variance^2."""
        variance = float(self.variance())
        return variance + 6 * variance**2

    def wave(self, t: Floats) -> Floats:
        """Return E cos(t D): (1 - r)^2 / ((1 - r)^2 + 4 r sin^2(t / 2))."""
        rate = float(self.rate)
        spread = math.exp(-rate) * (2 / math.expm1(-rate)) ** 2
        return np.asarray(1 / (1 + spread * np.sin(t / 2) ** 2))

    def tail(self, share: float) -> float:
        """Return a k with P(|D| > k) <= 2 e^-share: P(|D| > k) < e^(-rate k)."""
        return share / float(self.rate)

    def log_moment(self, s: float) -> float:
        """Return log E e^(s D); infinite from s = rate on."""
        rate = float(self.rate)
        if s >= rate:
            return math.inf
        return 2 * math.log(-math.expm1(-rate)) - math.log(
            -math.expm1(-rate - s) * -math.expm1(-rate + s)
        )


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Discrete Gaussian noise with scale^2 = `square`, in steps squared."""

    square: int

    @property
    def scale(self) -> float:
        """Standard deviation of the normal law of the same exponent, in steps."""
        return math.sqrt(self.square)

    @property
    def apart(self) -> float:
        return 2.0 if self.square > _EXACT_GAUSSIAN else 0.0

    def survival(self, x: Floats) -> Floats:
        if self.apart:
            from scipy.special import ndtr  # half a second, where it is needed

            return np.asarray(ndtr(-x / self.scale))
        beyond = _gaussian_survival(self.square)
        return np.asarray(beyond[np.minimum(np.floor(x), beyond.size - 1).astype(np.int64)])

    def quantile(self, level: float) -> int:
        """Return the smallest k with P(|D| <= k) >= level; of wide noise one a step or two larger: P(|D| > k) <= P(|N| >= k)."""
        if not self.apart:
            return int(np.argmax(2 * _gaussian_survival(self.square) <= 1 - level))
        return math.ceil(self.scale * -NormalDist().inv_cdf((1 - level) / 2) * (1 + 1e-12))

    def variance(self) -> Fraction:
        """Return `square`: an upper bound, within e^(-2 pi^2 square) of the variance."""
        return Fraction(self.square)

    def fourth(self) -> float:
        """Return an upper bound of E D^4: 3 square^2, and more than the lattice adds."""
        return 3.001 * self.square**2

    def wave(self, t: Floats) -> Floats:
        """Return E cos(t D) = S e^(-square (t + 2 pi k)^2 / 2) / S e^(-square (2 pi k)^2 / 2)."""
        near = np.abs(t - 2 * math.pi * np.round(t / (2 * math.pi)))
        top = bottom = np.zeros(1)
        for k in (-2, -1, 0, 1, 2):
            shift = 2 * math.pi * k
            top = top + np.exp(-self.square * (near + shift) ** 2 / 2)
            bottom = bottom + np.exp(-self.square * np.full(1, shift) ** 2 / 2)
        return np.asarray(top / bottom)

    def tail(self, share: float) -> float:
        """Return a k with P(|D| > k) <= 2 e^-share: it is sub-Gaussian of its own scale."""
        return math.sqrt(2 * share * self.square)

    def log_moment(self, s: float) -> float:
        """Return an upper bound of log E e^(s D) ([CKS20], Fact 18)."""
        return self.square * s * s / 2


Noise = Laplace | Gaussian


@lru_cache(maxsize=1024)
def noise_of_scale(scale: float, *, gaussian: bool = False) -> Noise:
    """Return discrete Laplace or Gaussian noise of a scale in steps."""
    return Gaussian(round(scale**2)) if gaussian else Laplace(Fraction(1 / scale))


@lru_cache(maxsize=1024)
def _laplace_variance(rate: Fraction) -> Fraction:
    grown = exp_lower(rate, 192)
    return _short(2 * grown / (grown - 1) ** 2)


def _short(value: Fraction) -> Fraction:
    """Round to 64 binary digits."""
    shift = _BITS - (value.numerator.bit_length() - value.denominator.bit_length())
    scaled = value * Fraction(2) ** shift
    return Fraction(round(scaled)) / Fraction(2) ** shift


@lru_cache(maxsize=64)
def _gaussian_survival(square: int) -> Floats:
    """Return P(D > 0), P(D > 1), ..., as far as any is above 0."""
    d = np.arange(40 * (math.isqrt(square) + 1), dtype=np.float64)
    weight = np.exp(-d * d / (2 * square))
    total = weight[0] + 2 * weight[1:].sum()
    return np.asarray(np.append(np.cumsum(weight[::-1])[::-1][1:], 0.0) / total)
