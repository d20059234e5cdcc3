"""The rho of pure laws, no larger than it is: any pure loss, discrete Laplace noise on cells.

Pure     an epsilon-DP release is rho-zCDP with rho = epsilon tanh(epsilon / 2), which randomised
         response attains; epsilon^2 / 2 is above it by 2, 8, 24 % at epsilon 0.5, 1, 2.
Laplace  independent noise of rate r on integer cells that move by at most `l1` steps in L1 and by a
         squared L2 distance of at most `square`: with K = min(l1, square), x = min(square / K, K)
         and a = e^-r

             rho = r K (1 - 2 a (1 - a^x) / (x (1 - a^2))).

         One cell that moves attains it. Where all of the move may fall on one cell, x = K.

Zero sum noise of rate r on m cells given that it adds up to zero; one step goes from one cell to another:

             rho = 2 r / R,   R = P_{m-1}(coth r) / P_{m-2}(coth r), Legendre polynomials.

Units    rate in nats per step, moves in steps; epsilon and rho in nats, exact `Fraction`s, rounded up.
Sources  `docs/theory/composition.md#zcdp-of-pure-laws`; the constants of single laws are also in
         Harrison & Manurangsi, arXiv:2510.25746.
Limits   what cannot be told apart in 192 digits is rounded up.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from dprelease.core.numeric import NANO, exp_lower, exp_upper

_DIGITS = 256
_SHORT = 2**192
_FAR = 128
"""Beyond so many nats e^-x is no longer told from this one: rounded up."""


@lru_cache(maxsize=4096)
def rho_of_pure(epsilon: Fraction) -> Fraction:
    """Return the rho of any `epsilon`-private release, epsilon >= 0, rounded up.

    >>> round(float(rho_of_pure(Fraction(2))), 4)
    1.5232
    """
    if epsilon > _FAR:
        return epsilon
    rest = 1 / exp_upper(epsilon, _DIGITS)
    return min(epsilon * epsilon / 2, _up(epsilon * (1 - rest) / (1 + rest)))


@lru_cache(maxsize=4096)
def pure_of_rho(rho: Fraction) -> Fraction:
    """Return the largest pure loss, in whole nano-units, that any release of it has at most `rho`."""
    least = math.isqrt(int(2 * rho * NANO * NANO))  # it costs half its square at most
    step = 1 + int(least * min(1.0, (least / NANO) ** 2 / 24))
    while rho_of_pure(Fraction(least + step, NANO)) <= rho:
        least, step = least + step, 2 * step
    beyond = least + step
    while beyond - least > 1:
        middle = (least + beyond) // 2
        fits = rho_of_pure(Fraction(middle, NANO)) <= rho
        least, beyond = (middle, beyond) if fits else (least, middle)
    return Fraction(least, NANO)


@lru_cache(maxsize=4096)
def rho_of_laplace(rate: Fraction, l1: int, square: int | None = None) -> Fraction:
    """Return the rho of noise of `rate` on cells that move by `l1` in L1, rounded up.

    Args:
        square: the squared L2 sensitivity, where something is known about it.
    """
    most = l1 if square is None else min(l1, square)
    if most == 0:
        return Fraction(0)
    each = Fraction(most) if square is None else min(Fraction(square, most), Fraction(most))
    a = 1 / exp_upper(rate, _DIGITS)
    far = 1 / exp_lower(min(rate * each, Fraction(_FAR)), _DIGITS)
    saved = 2 * a * (1 - far) / (each * (1 - a * a))
    return min(rho_of_pure(rate * l1), _up(rate * most * (1 - saved)))


@lru_cache(maxsize=4096)
def rho_of_zero_sum(rate: Fraction, cells: int) -> Fraction:
    """Return the rho of noise on `cells` >= 2 cells that adds up to zero, one step moved between two, rounded up.

    >>> round(float(rho_of_zero_sum(Fraction(1, 2), 3)), 4)
    0.3317
    """
    if rate > _FAR:
        return 2 * rate
    rest = 1 / exp_upper(2 * rate, _DIGITS)
    x = ratio = (1 + rest) / (1 - rest)
    for n in range(2, cells):
        ratio = -_up(-((2 * n - 1) * x - (n - 1) / ratio) / n)
    return _up(2 * rate / ratio)


def _up(value: Fraction) -> Fraction:
    return Fraction(math.ceil(value * _SHORT), _SHORT)
