"""Zero-concentrated privacy: how rho adds up and what (epsilon, delta) it is worth.

Law      M is rho-zCDP if for neighbours D, D' and every alpha > 1 the Renyi divergence of order
         alpha of M(D) from M(D') is at most rho alpha. The rho of independent releases add up,
         also where each release is chosen after seeing the earlier ones ([BS]).
         As a *filter* (stop before the sum passes a fixed rho, each rho chosen adaptively) the sum
         is valid as well ([FZ]; [WRRW]): that is what the ledger enforces.
Into it  epsilon-DP gives rho = epsilon^2/2 ([BS]): what a ledger records of a debit that is known by
         its epsilon alone. An exponential mechanism is of bounded range, which gives epsilon^2/8
         (Cesar & Rogers, arXiv:2004.07223). Plans are priced by the smaller `exact_rho`.
Out of   rho-zCDP gives (epsilon, delta)-DP for every alpha > 1 with ([CKS20])

             epsilon = alpha rho + log(1/(alpha delta))/(alpha - 1) + log(1 - 1/alpha).

         Any alpha is a proof. A float search picks a good one; the value there is computed in
         rationals with outward bounds, so the result never understates.
Units    rho and epsilon in nats, exact `Fraction`s; results in whole nano-units.
Sources  `docs/theory/composition.md#zcdp`, `#from-rho-to-epsilon-and-delta`;
         [BS] Bun & Steinke, arXiv:1605.02065. [CKS20] Canonne, Kamath & Steinke, "The discrete
         Gaussian for differential privacy", arXiv:2004.00010. [FZ] Feldman & Zrnic,
         "Individual privacy accounting via a Renyi filter", arXiv:2008.11193. [WRRW] Whitehouse,
         Ramdas, Rogers & Wu, "Fully adaptive composition", arXiv:2203.05481.
Limits   the order is searched between 1 + 1e-6 and 1e9; outside, the bound is valid, not sharp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dprelease.core.numeric import NANO, exp_lower, exp_upper, nano_up

_GRID = 2**32
"""Orders are multiples of 1 / `_GRID` above 1."""


def zcdp_of_pure(epsilon: Fraction, *, bounded_range: bool = False) -> Fraction:
    """Return the rho of an `epsilon`-private release: epsilon^2/2, or /8 for bounded range."""
    return epsilon * epsilon / (8 if bounded_range else 2)


def zcdp_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """Return an epsilon, in whole nano-units rounded up, that rho-zCDP has at 0 < delta < 1."""
    if rho == 0:
        return Fraction(0)
    alpha = _order(float(rho), math.log(1 / delta))
    inner = 1 / (alpha * delta)
    first = log_upper(inner) if inner >= 1 else -log_lower(1 / inner)
    value = alpha * rho + first / (alpha - 1) - log_lower(alpha / (alpha - 1))
    return Fraction(max(0, nano_up(value)), NANO)


def zcdp_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest rho found, in whole nano-units, with `zcdp_epsilon` <= epsilon; may be 0."""
    low, high = 0.0, float(epsilon) + 1.0
    target, log_delta = float(epsilon), math.log(1 / delta)
    for _ in range(64):
        middle = (low + high) / 2
        alpha = float(_order(middle, log_delta))
        if _epsilon(alpha, middle, log_delta) <= target:
            low = middle
        else:
            high = middle
    return largest_below(math.floor(low * NANO), lambda rho: zcdp_epsilon(rho, delta) <= epsilon)


def log_upper(ratio: Fraction) -> Fraction:
    """Return a rational at least log(ratio), ratio >= 1, within about 2**-48 relative."""
    if ratio == 1:
        return Fraction(0)
    bound, step = _log(ratio), Fraction(1, 1 << 48)
    while exp_lower(bound) < ratio:
        bound, step = bound * (1 + step), 2 * step
    return bound


def log_lower(ratio: Fraction) -> Fraction:
    """Return a rational at most log(ratio), ratio >= 1, within about 2**-48 relative."""
    if ratio == 1:
        return Fraction(0)
    bound, step = _log(ratio), Fraction(1, 1 << 48)
    while exp_upper(bound) > ratio:
        bound, step = bound * (1 - step) if step < 1 else Fraction(0), 2 * step
    return bound


def _log(ratio: Fraction) -> Fraction:
    """Return log(ratio) in floats, accurate near 1 and for any size."""
    if ratio < 2:
        return Fraction(math.log1p(float(ratio - 1)))
    shift = max(0, ratio.numerator.bit_length() - ratio.denominator.bit_length() - 8)
    return Fraction(math.log(ratio / (1 << shift)) + shift * math.log(2))


def _epsilon(alpha: float, rho: float, log_one_over_delta: float) -> float:
    return (
        alpha * rho + (log_one_over_delta - math.log(alpha)) / (alpha - 1) + math.log1p(-1 / alpha)
    )


def _order(rho: float, log_one_over_delta: float) -> Fraction:
    """Return a rational order above 1 near the minimum of `_epsilon`."""

    def epsilon(x: float) -> float:
        return _epsilon(1 + math.exp(x), rho, log_one_over_delta)

    found = near_least(epsilon, math.log(1e-6), math.log(1e9), 60)
    return 1 + Fraction(max(1, round(math.exp(found) * _GRID)), _GRID)


def near_least(value: Callable[[float], float], low: float, high: float, rounds: int) -> float:
    """Return a point near the minimum of `value`, by golden section."""
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = value(left), value(right)
    for _ in range(rounds):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = value(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = value(right)
    return (low + high) / 2


def largest_below(nanos: int, fits: Callable[[Fraction], bool]) -> Fraction:
    """Return a rho in whole nano-units, at most `nanos`, that fits; 0 where none that is tried does."""
    step = 1
    while nanos > 0 and not fits(Fraction(nanos, NANO)):
        nanos, step = nanos - step, 2 * step
    return Fraction(max(0, nanos), NANO)
