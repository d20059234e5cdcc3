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
from functools import lru_cache

_BITS = 256
_TERMS = 60

Bounds = tuple[Fraction, Fraction]


def rounded(value: Fraction, *, up: bool) -> Fraction:
    """Return `value` to `_BITS` significant bits, up or down; value >= 0. Sums of thousands stay short."""
    if value == 0:
        return value
    top, bottom = value.numerator, value.denominator
    shift = _BITS - (top.bit_length() - bottom.bit_length())
    scaled, unit = (top << shift, bottom) if shift >= 0 else (top, bottom << -shift)
    whole = -(-scaled // unit) if up else scaled // unit
    return Fraction(whole, 1 << shift) if shift >= 0 else Fraction(whole << -shift)


def _exp(x: Fraction, *, up: bool) -> Fraction:
    if x < 0:
        raise AssertionError("these bounds need x >= 0")
    halvings = max(0, math.ceil(x).bit_length())
    y = rounded(x / 2**halvings, up=up)
    total = term = Fraction(1)
    for n in range(1, _TERMS + 1):
        term = rounded(term * y / n, up=up)
        total += term
    if up:  # y <= 1: the rest is at most twice the first term left out
        total += 2 * term * y / (_TERMS + 1)
    total = rounded(total, up=up)
    for _ in range(halvings):
        total = rounded(total * total, up=up)
    return total


def exp_below(x: Fraction) -> Fraction:
    """Return a rational at most e^x, x >= 0, within a relative 2**-200 for x up to 2**20."""
    return _exp(x, up=False)


def exp_above(x: Fraction) -> Fraction:
    """Return a rational at least e^x, x >= 0, within a relative 2**-200 for x up to 2**20."""
    return _exp(x, up=True)


class Powers:
    """Bounds of e^(-rate d) for d = 0 .. count - 1; `powers[d]` is a pair of fractions."""

    def __init__(self, rate: Fraction, count: int) -> None:
        self._low = _falling(1 / exp_above(rate), count, up=False)
        self._high = _falling(1 / exp_below(rate), count, up=True)

    def __getitem__(self, d: int) -> Bounds:
        (low, a), (high, b) = self._low[d], self._high[d]
        return Fraction(low, 1 << a), Fraction(high, 1 << b)


def _falling(base: Fraction, count: int, *, up: bool) -> list[tuple[int, int]]:
    """Return bounds of base^d as (mantissa, exponent): mantissa / 2^exponent; base <= 1."""
    short = rounded(base, up=up)
    step, places = short.numerator, short.denominator.bit_length() - 1
    out, mantissa, exponent = [(1, 0)], 1, 0
    for _ in range(count - 1):
        mantissa, exponent = mantissa * step, exponent + places
        spare = mantissa.bit_length() - _BITS
        if spare > 0:
            mantissa = -(-mantissa >> spare) if up else mantissa >> spare
            exponent -= spare
        out.append((mantissa, exponent))
    return out


@lru_cache(maxsize=64)
def powers(rate: Fraction, count: int) -> Powers:
    """Return bounds of e^(-rate d) for d = 0 .. count - 1; rate > 0.

    Kept, because every pair of tables asks the same of a plan's laws.
    """
    return Powers(rate, count)
