"""What normal noise costs: the analytic formula, alone and beside releases of which only rho is known.

Law      Normal noise with sum L2^2 / scale^2 = mu^2 (rho = mu^2 / 2), however the move is spread over cells
         and blocks, is (epsilon, delta)-private exactly from ([BW])

             delta = phi(c) (R(c) - R(c + mu)),   epsilon = mu c + mu^2 / 2,

         on, R(y) = (1 - Phi(y)) / phi(y). Together with a rho-zCDP release, for every real c,

             epsilon = mu c + mu^2 / 2 + (s + 1) rho + log(phi(c) (R(c) - R(c + mu)) / delta) / s

         with s = R(c + mu) / (R(c) - R(c + mu)); without normal noise this is the conversion of zCDP.
Table    What is drawn is an integer law within e^(+-2^-60) of the rounded normal one on the cells that a
         unit touches, but for a chance of 2^-200: `slack` for it is in every result.
Exact    any c is a proof, so floats only propose one. mu and R are rationals rounded outward, R by its power
         series or, far out, by its continued fraction, whose convergents lie on both sides in turn.
Units    rho and epsilon in nats, exact `Fraction`s; results in whole nano-units, rounded up.
Sources  `docs/theory/composition.md#normal-noise`; [BW] Balle & Wang, "Improving the Gaussian mechanism for
         differential privacy", arXiv:1805.06530.
Limits   c is looked for from -12 to 45.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from dprelease.budget.concentrated import (
    largest_below,
    log_lower,
    log_upper,
    near_least,
    zcdp_epsilon,
)
from dprelease.core.numeric import NANO, exp_lower, exp_upper, nano_up

NEAR = Fraction(1, 1 << 60)
"""The law drawn lies within e^(+-NEAR) of the rounded normal one, in all cells of a block together,"""

BEYOND = Fraction(1, 1 << 200)
"""but for this chance,"""

MOST = 16
"""for blocks with L2 at most so many scales."""

_BITS = 320
_ONE = 1 << _BITS
_SERIES = 6
_ORDERS = 160
_ROOT = 1253314137315500251207882642405522626503493370304969158314961788
"""sqrt(pi / 2) in units of 10^-63, rounded down."""
_LEAST, _MOST = -12.0, 45.0


@lru_cache(maxsize=1024)
def normal_epsilon(normal: Fraction, rho: Fraction, delta: Fraction, blocks: int = 1) -> Fraction:
    """Return an epsilon that noise of rho `normal` in `blocks` blocks and a `rho`-zCDP release have at 0 < delta < 1.

    It is never above that of zCDP.
    """
    plain = zcdp_epsilon(normal + rho, delta)
    left = (delta - blocks * BEYOND) * (1 - blocks * NEAR)
    if normal == 0 or left <= 0:
        return plain
    c = Fraction(_best(math.sqrt(2 * normal), float(rho), math.log(left)))
    value = _epsilon(normal, rho, c, left) + 2 * blocks * NEAR
    return min(plain, Fraction(max(0, nano_up(value)), NANO))


@lru_cache(maxsize=1024)
def normal_rho(epsilon: Fraction, delta: Fraction, blocks: int = 1) -> Fraction:
    """Return the largest rho found, in whole nano-units, with which normal noise costs at most `epsilon`; may be 0."""
    low, high = 0.0, math.sqrt(2 * float(epsilon)) + 10.0
    target = math.log(delta)
    for _ in range(64):
        mu = (low + high) / 2
        low, high = (
            (mu, high) if _log_delta(mu, float(epsilon) / mu - mu / 2) <= target else (low, mu)
        )
    return largest_below(
        math.floor(low * low / 2 * NANO),
        lambda rho: normal_epsilon(rho, Fraction(0), delta, blocks) <= epsilon,
    )


def _epsilon(normal: Fraction, rho: Fraction, c: Fraction, delta: Fraction) -> Fraction:
    """Return the law's epsilon at `c`, rounded up."""
    mu = Fraction(math.isqrt(math.ceil(2 * normal * _ONE * _ONE)) + 1, _ONE)
    (low, high), (far_low, far_high) = _mills(c), _mills(c + mu)
    least = far_low / (high - far_low)  # the slope lies between these
    most = far_high / (low - far_high)
    root = 2 * Fraction(_ROOT, 10**63)
    grown = exp_lower(c * c / 2, _BITS)
    ratio = (high - far_low) / (root * grown * delta)
    over = log_upper(ratio) / least if ratio >= 1 else -log_lower(1 / ratio) / most
    return mu * c + mu * mu / 2 + (most + 1) * rho + over


def _mills(y: Fraction) -> tuple[Fraction, Fraction]:
    """Return bounds of R(y) = (1 - Phi(y)) / phi(y)."""
    if y > _SERIES:
        return _fraction(y)
    # R(y) = sqrt(pi / 2) e^(y^2 / 2) - (y + y^3 / 3 + y^5 / (3 * 5) + ...), an odd series
    square = y * y
    shift = _ONE
    twice_low, twice_high = math.floor(square * shift), math.ceil(square * shift)
    low = high = low_term = high_term = _ONE
    odd = 3
    while low_term > 1 or square >= odd / 2:
        low_term = low_term * twice_low // shift // odd
        high_term = -(-high_term * twice_high // shift // odd)
        low, high = low + low_term, high + high_term
        odd += 2
    high += 2 * high_term  # terms fall by half from here on
    ends = y * Fraction(low, _ONE), y * Fraction(high, _ONE)
    root = Fraction(_ROOT, 10**63), Fraction(_ROOT + 1, 10**63)
    half = square / 2
    return (
        root[0] * exp_lower(half, _BITS) - max(ends),
        root[1] * exp_upper(half, _BITS) - min(ends),
    )


def _fraction(y: Fraction) -> tuple[Fraction, Fraction]:
    """Return bounds of R(y), y > `_SERIES`, by 1 / (y + 1 / (y + 2 / (y + 3 / ...))) cut after two orders in turn."""
    ends = []
    for last in (_ORDERS, _ORDERS + 1):
        value = y  # R's tail lies between two successive cuts
        for order in range(last, 0, -1):
            value = y + order / value
            value = Fraction(math.floor(value * _ONE), _ONE)
        ends.append(1 / value)
    room = Fraction(
        1, 1 << (_BITS - 16)
    )  # what rounding moved: each step divides it by more than 1
    return min(ends) - room, max(ends) + room


# --- proposals, in floats -----------------------------------------------------------------------


def _best(mu: float, rho: float, log_delta: float) -> float:
    """Return a `c` near the one of the least epsilon."""

    def value(c: float) -> float:
        near, far = _float(c), _float(c + mu)
        if not 0 < far < near < math.inf:
            return math.inf
        s = far / (near - far)
        return mu * c + (s + 1) * rho + (_log_delta(mu, c) - log_delta) / s

    return near_least(value, _LEAST, _MOST, 64)


def _log_delta(mu: float, c: float) -> float:
    gain = _float(c) - _float(c + mu)
    return -c * c / 2 - math.log(2 * math.pi) / 2 + math.log(gain) if gain > 0 else -math.inf


def _float(y: float) -> float:
    """Return R(y) in floats."""
    if y < 5:
        return math.sqrt(math.pi / 2) * math.exp(y * y / 2) * math.erfc(y / math.sqrt(2))
    value = y
    for order in range(60, 0, -1):
        value = y + order / value
    return 1 / value
