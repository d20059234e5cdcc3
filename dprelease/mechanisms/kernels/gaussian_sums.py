"""Outward bounds of sums of e^(-rate (y - q)^2) over runs of integers, however long.

Euler and Maclaurin, with f(y) = e^(-rate (y - q)^2):

    sum over a..b = integral + (f(a) + f(b)) / 2 + (f'(b) - f'(a)) / 12 + R,
    |R| <= min((b - a) rate^2 / 60, 0.01709 (2 rate)^(3/2)),

by two forms of the remainder: x^2 (1 - x)^2 / 24 times the fourth derivative, at most 12 rate^2, over
every cell; or the third derivative at both ends and the sixth one's integral
(`docs/theory/certificates.md#wide-gaussian`).
Integrals from 0 come from the series x e^-z (1 + 2 z / 3 + (2 z)^2 / (3 * 5) + ...), z = rate x^2,
whose terms are positive; beyond z = 120 the rest is at most e^-z / (2 rate x).

Everything is an integer or a rational rounded outward: what is returned brackets the sum.

Units    grid steps.
Sources  Euler-Maclaurin formula; elementary.
Limits   relative width about scale^-4 / 70 where the runs carry the mass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dprelease.core.numeric import exp_lower, exp_upper

_WORK = 224
_FAR = 120
_NEGLIGIBLE = 300
_TAIL = Fraction(1709, 100000)


@dataclass(frozen=True, slots=True)
class Enclosure:
    """low <= value <= high."""

    low: Fraction
    high: Fraction

    def __add__(self, other: Enclosure) -> Enclosure:
        return Enclosure(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Enclosure) -> Enclosure:
        return Enclosure(self.low - other.high, self.high - other.low)

    def times(self, factor: Fraction) -> Enclosure:
        ends = (self.low * factor, self.high * factor)
        return Enclosure(min(ends), max(ends))

    def rounded(self) -> Enclosure:
        """Return the bounds on multiples of 2**-`_WORK`, outward: keeps fractions short."""
        low = self.low.numerator << _WORK
        high = self.high.numerator << _WORK
        one = 1 << _WORK
        return Enclosure(
            Fraction(low // self.low.denominator, one),
            Fraction(-(-high // self.high.denominator), one),
        )


def gaussian_sum(runs: tuple[tuple[int, int], ...], q: int, rate: Fraction) -> Enclosure:
    """Return bounds of the sum over all integers y in `runs`; `rate` in (0, 1)."""
    total = Enclosure(Fraction(0), Fraction(0))
    for a, b in runs:
        if a == b:
            total += _power(rate, a - q)
            continue
        x, y = a - q, b - q
        at, to = _power(rate, x), _power(rate, y)
        slope = to.times(-2 * rate * y) - at.times(-2 * rate * x)
        part = _integral(rate, y) - _integral(rate, x)
        part += (at + to).times(Fraction(1, 2)) + slope.times(Fraction(1, 12))
        room = _remainder(rate, b - a)
        total += Enclosure(max(part.low - room, Fraction(0)), part.high + room).rounded()
    return total


def _remainder(rate: Fraction, length: int) -> Fraction:
    root = Fraction(math.isqrt(math.floor(2 * rate * (1 << 400))) + 1, 1 << 200)
    return min(length * rate * rate / 60, _TAIL * 2 * rate * root)


def _power(rate: Fraction, x: int) -> Enclosure:
    """Return bounds of e^(-rate x^2)."""
    return _even_power(rate, abs(x))


@lru_cache(maxsize=256)  # one certificate asks for few, several times each
def _even_power(rate: Fraction, x: int) -> Enclosure:
    z = rate * x * x
    if z > _NEGLIGIBLE:
        return Enclosure(Fraction(0), Fraction(1, 1 << 400))  # e^-300 < 2^-400
    return Enclosure(1 / exp_upper(z), 1 / exp_lower(z)).rounded()


def _integral(rate: Fraction, x: int) -> Enclosure:
    """Return bounds of the integral of e^(-rate t^2) over t from 0 to x."""
    if x < 0:
        return _integral(rate, -x).times(Fraction(-1))
    z = rate * x * x
    if z > _FAR:
        inner = math.isqrt(math.floor(_FAR / rate))
        known = _integral(rate, inner)
        return Enclosure(known.low, known.high + _power(rate, inner).high / (2 * rate * inner))
    return _near_integral(rate, x)


@lru_cache(maxsize=64)
def _near_integral(rate: Fraction, x: int) -> Enclosure:
    """Return `_integral` of 0 <= x with rate x^2 at most `_FAR`; its series is the longest part."""
    low, high = _series(2 * rate * x * x)
    scale, one = _power(rate, x), 1 << _WORK
    return Enclosure(
        Fraction(x * low, one) * scale.low, Fraction(x * high, one) * scale.high
    ).rounded()


def _series(twice: Fraction) -> tuple[int, int]:
    """Return bounds of 1 + t / 3 + t^2 / (3 * 5) + ... at t = `twice`, in units of 2**-`_WORK`.

    A division by two factors in turn rounds as one by their product, and a shift is the fastest.
    """
    num, den = twice.as_integer_ratio()
    shift = den.bit_length() - 1
    dyadic = den == 1 << shift
    low = high = low_term = high_term = 1 << _WORK
    odd = 3
    while True:
        low_term = low_term * num // odd
        high_term = -high_term * num // odd
        if dyadic:
            low_term, high_term = low_term >> shift, -(high_term >> shift)
        else:
            low_term, high_term = low_term // den, -(high_term // den)
        low, high = low + low_term, high + high_term
        # From here on terms fall by half: the rest is at most the last one.
        if low_term <= 1 and num * 2 <= den * (odd + 2):
            return low, high + high_term
        odd += 2
