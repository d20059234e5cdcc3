"""Rational bounds of powers of e, written a second time for audits.

An audit that compared a law with the library's own bound of e^epsilon would share its mistakes. Here
the bounds are partial sums of the exponential series, x >= 0:

    sum over n <= N of x^n / n!  <=  e^x  <=  the same + 2 x^(N+1) / (N+1)!     (N + 2 >= 2 x)

of x / 2^k, squared k times; every step keeps `_BITS` significant bits, rounded outward.

Units    nats.
Sources  elementary.
"""

from __future__ import annotations

import math
from fractions import Fraction

__all__ = ["exp_above", "exp_below", "powers"]

_BITS = 256
_TERMS = 60

Bounds = tuple[Fraction, Fraction]


def _short(value: Fraction, *, up: bool) -> Fraction:
    """Return `value` to `_BITS` significant bits, rounded up or down; value >= 0."""
    if value == 0:
        return value
    shift = _BITS - (value.numerator.bit_length() - value.denominator.bit_length())
    scaled = value * Fraction(2) ** shift
    whole = math.ceil(scaled) if up else math.floor(scaled)
    return whole / Fraction(2) ** shift


def _exp(x: Fraction, *, up: bool) -> Fraction:
    if x < 0:
        raise AssertionError("these bounds need x >= 0")
    halvings = max(0, math.ceil(x).bit_length())
    y = _short(x / 2**halvings, up=up)
    total = term = Fraction(1)
    for n in range(1, _TERMS + 1):
        term = _short(term * y / n, up=up)
        total += term
    if up:  # y <= 1: the rest is at most twice the first term left out
        total += 2 * term * y / (_TERMS + 1)
    total = _short(total, up=up)
    for _ in range(halvings):
        total = _short(total * total, up=up)
    return total


def exp_below(x: Fraction) -> Fraction:
    """Return a rational at most e^x, x >= 0, within a relative 2**-200 for x up to 2**20."""
    return _exp(x, up=False)


def exp_above(x: Fraction) -> Fraction:
    """Return a rational at least e^x, x >= 0, within a relative 2**-200 for x up to 2**20."""
    return _exp(x, up=True)


def powers(rate: Fraction, count: int) -> list[Bounds]:
    """Return bounds of e^(-rate d) for d = 0 .. count - 1; rate > 0."""
    low, high = 1 / exp_above(rate), 1 / exp_below(rate)
    out = [(Fraction(1), Fraction(1))]
    for _ in range(count - 1):
        a, b = out[-1]
        out.append((_short(a * low, up=False), _short(b * high, up=True)))
    return out
