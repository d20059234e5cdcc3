"""The noise of a measured table, as far as fitting must know it: variance and characteristic function.

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
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dprelease.core.numeric import exp_lower

Floats = npt.NDArray[np.float64]
_BITS = 64


@dataclass(frozen=True, slots=True)
class Laplace:
    """Discrete Laplace noise of an exact rate, in nats per step."""

    rate: Fraction

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


class ZeroSum(Protocol):
    """Noise of several cells that adds up to zero over all of them: a sum of some has a law of its own."""

    def quantile_of_sum(self, count: int, level: float) -> int:
        """Return a k with P(|sum of the noise of `count` cells| <= k) >= level."""


@lru_cache(maxsize=1024)
def _laplace_variance(rate: Fraction) -> Fraction:
    grown = exp_lower(rate, 192)
    return _short(2 * grown / (grown - 1) ** 2)


def _short(value: Fraction) -> Fraction:
    """Round to 64 binary digits."""
    shift = _BITS - (value.numerator.bit_length() - value.denominator.bit_length())
    scaled = value * Fraction(2) ** shift
    return Fraction(round(scaled)) / Fraction(2) ** shift
