"""Symmetric integer noise, as far as fits and intervals must know it: variance, tails and characteristic function.

    Laplace    P(d) = tanh(rate / 2) e^(-rate |d|)
    Gaussian   P(d) = P(d - 1/2 < N < d + 1/2),  N normal of variance `square` >= 1

Variances are rationals of 64 binary digits, the same on every machine: the weights of a fit are
made of them. That of a rounded normal draw is `square` + 1/12, but for 1e-7 of it. A discrete Gaussian of the same
`square`, as folders of 0.2.0 have, lies nearer to 0 than this law, which is read in its place.

Units    grid steps, steps squared; rate in nats per step.
Sources  `docs/theory/publications-that-add-up.md#least-squares`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from dprelease.core.numeric import exp_lower

Floats = npt.NDArray[np.float64]
_BITS = 64
_erfc = np.frompyfunc(math.erfc, 1, 1)


class IntegerNoise(Protocol):
    """Symmetric integer noise, falling with the distance; frozen, so that it is hashable."""

    @property
    def apart(self) -> float:
        """How far a draw may be from the law of `survival`, in steps."""

    @property
    def flat(self) -> int:
        """The most steps over which its chance does not fall; 0 where it falls at each of them."""

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
    flat: ClassVar[int] = 0

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

    def log_moments(self, at: Sequence[float]) -> list[float]:
        """Return log E e^(s D) for each s; infinite from s = rate on."""
        rate = float(self.rate)
        whole = 2 * math.log(-math.expm1(-rate))
        return [
            whole - math.log(-math.expm1(-rate - s) * -math.expm1(-rate + s))
            if s < rate
            else math.inf
            for s in at
        ]


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Normal noise with scale^2 = `square`, at least 1 step squared, rounded to the nearest integer."""

    square: Fraction | int
    flat: ClassVar[int] = 0

    @property
    def scale(self) -> float:
        """Standard deviation before rounding, in steps."""
        return math.sqrt(self.square)

    @property
    def apart(self) -> float:
        return 0.0

    def survival(self, x: Floats) -> Floats:
        beyond = (np.floor(x) + 0.5) / (self.scale * math.sqrt(2))
        return np.asarray(_erfc(beyond), dtype=np.float64) / 2

    def quantile(self, level: float) -> int:
        """Return the smallest k (rounded up in doubt) with P(|D| <= k) >= level."""
        far = self.scale * -NormalDist().inv_cdf((1 - level) / 2)
        return max(0, math.ceil(far * (1 + 1e-12) - 0.5))

    def variance(self) -> Fraction:
        """Return E D^2, to 64 digits."""
        return _short(self.square + Fraction(1, 12))

    def fourth(self) -> float:
        """Return an upper bound of E D^4: 3 variance^2, and more than the lattice adds."""
        return 3.001 * float(self.variance()) ** 2

    def wave(self, t: Floats) -> Floats:
        """Return E cos(t D) = S e^(-square u^2 / 2) sin(u / 2) / (u / 2) over u = t + 2 pi k."""
        near = t - 2 * math.pi * np.round(t / (2 * math.pi))
        square, out = float(self.square), np.zeros(1)
        for k in (-2, -1, 0, 1, 2):
            u = near + 2 * math.pi * k
            out = out + np.exp(-square * u * u / 2) * np.sinc(u / (2 * math.pi))
        return np.asarray(out)

    def tail(self, share: float) -> float:
        """Return a k with P(|D| > k) <= 2 e^-share: it is rounded from a sub-Gaussian one of its own scale."""
        return math.sqrt(2 * share * self.square) + 0.5

    def log_moments(self, at: Sequence[float]) -> list[float]:
        """Return upper bounds of log E e^(s D): sinh(s / 2) / (s / 2) <= e^(s^2 / 24), and 2 e^-19 that the lattice adds."""
        variance = float(self.variance())
        return [variance * s * s / 2 + 1e-8 for s in at]


Noise = Laplace | Gaussian


@lru_cache(maxsize=1024)
def noise_of_scale(scale: float, *, gaussian: bool = False) -> Noise:
    """Return discrete Laplace or Gaussian noise of a scale in steps."""
    return Gaussian(Fraction(scale) ** 2) if gaussian else Laplace(Fraction(1 / scale))


@lru_cache(maxsize=1024)
def _laplace_variance(rate: Fraction) -> Fraction:
    grown = exp_lower(rate, 192)
    return _short(2 * grown / (grown - 1) ** 2)


def _short(value: Fraction) -> Fraction:
    """Round to 64 binary digits."""
    shift = _BITS - (value.numerator.bit_length() - value.denominator.bit_length())
    scaled = value * Fraction(2) ** shift
    return Fraction(round(scaled)) / Fraction(2) ** shift
