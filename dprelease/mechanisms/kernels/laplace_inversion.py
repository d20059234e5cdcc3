"""One exact draw of truncated discrete Laplace noise by inversion, whatever the acceptance.

For a clamped answer q and allowed runs D, the law P(y) = e^(-rate |y - q|) / Z(q) on D is the law of
F^-1(U), U uniform on [0, 1), for any order of the points. Here they are ordered by pieces: each run
is cut at q into at most two, and a piece is walked away from q, so that its first j points weigh

    r^start (1 - r^j),   r = e^-rate   (times 1 / (1 - r), which all pieces share).

U is drawn digit by digit. What is known of it, an interval, is compared with outward-rounded bounds of
these masses; where the two overlap, 64 more digits are drawn and the bounds made finer. So each
decision is that of the real number U: the draw is exact, and its time does not depend on how rarely
noise would land in D.

Units    grid steps.
Sources  `docs/theory/certificates.md#exact-sampling`;
         Devroye, "Non-Uniform Random Variate Generation", section II.2; lazy digits: Knuth & Yao,
         "The complexity of nonuniform random number generation".
Limits   one draw takes some milliseconds, and the time of two powers per run. More digits are needed
         with a probability of at most (number of comparisons) * 2**-64 each time, whatever q is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from dprelease.core.entropy import RandomBits, stuck
from dprelease.core.numeric import exp_lower, exp_upper
from dprelease.schema.domain import GridSet

_DIGITS = 128
_MOST_DIGITS = 2**11
"""A sound source needs as many with probability below 2**-1500, whatever the answer."""

Bounds = tuple[int, int]
"""Of a real number x: (low, high) with low <= 2**digits x <= high."""

Powers = Callable[[int, int], Bounds]
"""Of (n, digits): r^n."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """The points `first`, `first + sign`, ..., `length` of them; the first is `start` from q."""

    first: int
    sign: int
    start: int
    length: int


def inverse_draw(allowed: GridSet, power: Powers, q: int, bits: RandomBits) -> int:
    """Return one draw for the hull answer `q`; `power` is of the law's rate, shared by many draws.

    Raises:
        InternalError: the source is stuck (DPR904).
    """
    pieces = _pieces(allowed, q)
    digits, u = _DIGITS, int.from_bytes(bits.read(_DIGITS // 8), "little")
    while digits <= _MOST_DIGITS:
        found = _found(pieces, power, u, digits)
        if found is not None:
            return found
        u = u << 64 | int.from_bytes(bits.read(8), "little")
        digits += 64
    raise stuck()


def _pieces(allowed: GridSet, q: int) -> list[_Piece]:
    """Return the pieces around q, their starts counted from the allowed point nearest to q."""
    out = []
    for a, b in allowed.runs:
        if b >= q:
            first = max(a, q)
            out.append(_Piece(first, 1, first - q, b - first + 1))
        if a < q:
            first = min(b, q - 1)
            out.append(_Piece(first, -1, q - first, first - a + 1))
    near = min(piece.start for piece in out)
    return [_Piece(p.first, p.sign, p.start - near, p.length) for p in out]


def _found(pieces: list[_Piece], power: Powers, u: int, digits: int) -> int | None:
    """Return F^-1(U) for u <= 2**digits U <= u + 1; None where that does not say it yet."""
    starts = [power(p.start, digits) for p in pieces]
    masses = [
        _part(s, power(p.length, digits), digits) for s, p in zip(starts, pieces, strict=True)
    ]
    whole = sum(m[0] for m in masses), sum(m[1] for m in masses)
    low, high = u * whole[0] >> digits, ((u + 1) * whole[1] >> digits) + 1  # of U Z
    for piece, start, mass in zip(pieces, starts, masses, strict=True):
        if high <= mass[0]:
            return _inside(piece, start, power, (low, high), digits)
        if low < mass[1]:
            return None
        low, high = low - mass[1], high - mass[0]
    return None


def _inside(piece: _Piece, start: Bounds, power: Powers, rest: Bounds, digits: int) -> int | None:
    """Return the point of `piece` at which its running mass passes `rest`, by bisection."""
    at_least, below = 0, piece.length  # points that are surely before it, and surely enough
    while below - at_least > 1:
        j = (at_least + below) // 2
        mass = _part(start, power(j, digits), digits)
        if rest[1] <= mass[0]:
            below = j
        elif rest[0] >= mass[1]:
            at_least = j
        else:
            return None
    return piece.first + piece.sign * at_least


def _part(start: Bounds, power: Bounds, digits: int) -> Bounds:
    """Return r^start (1 - r^count), given the two powers."""
    one = 1 << digits
    return start[0] * (one - power[1]) >> digits, (start[1] * (one - power[0]) >> digits) + 1


def powers(rate: Fraction) -> Powers:
    """Return what bounds the powers of e^-rate, each computed once for as long as it is kept."""
    return cache(lambda n, digits: _power(rate * n, digits))


def _power(x: Fraction, digits: int) -> Bounds:
    """Return e^-x."""
    if x == 0:
        return 1 << digits, 1 << digits
    if x > digits:  # below 2**-digits
        return 0, 1
    high, low = exp_lower(x, digits + 16), exp_upper(x, digits + 16)
    return (
        (low.denominator << digits) // low.numerator,
        (high.denominator << digits) // high.numerator + 1,
    )
