"""Sums of e^(-rate |y - q|) over runs of integers, however long: outward bounds, and a float view.

Y(q) = (1 - e^-rate) Z(q) is a sum of powers of e^-rate, bounded in outward-rounded rationals, and over
a whole stretch of answers by monotone parts: a power either rises or falls in q.

Units    grid steps; rate in nats per step.
Sources  geometric sums; `docs/theory/certificates.md#wide-laplace`.
Limits   the bounds keep 600 binary digits; the float view is for proposals, intervals and errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dprelease.core.numeric import exp_lower, exp_upper
from dprelease.mechanisms.arguments import FloatArray, IntArray
from dprelease.schema.domain import GridSet

UNBOUNDED = Fraction(10**400)
"""A bound of a quotient whose denominator may be 0, as far as its own bounds tell."""

_FAR = 300
"""Powers below e**-300 are bounded by [0, e**-300]."""


class LaplaceSums:
    """Outward bounds of Y(q) = (1 - e^-rate) Z(q)."""

    def __init__(self, allowed: GridSet, rate: Fraction) -> None:
        self.runs = allowed.runs
        self.low, self.high = allowed.lower, allowed.upper
        self.rate = rate

    def power(self, n: int) -> tuple[Fraction, Fraction]:
        """Return (lower, upper) bounds of e^(-rate n), n >= 0."""
        return _power(self.rate, n)

    def bounds(self, first: int, last: int) -> tuple[Fraction, Fraction]:
        """Return bounds of Y over the answers first..last, none of which crosses a run edge."""
        down = up = Fraction(0)
        r = self.power(1)
        for a, b in self.runs:
            if last < a:  # the run lies right: rises with q
                some = self._outside(a - first, a - last, b - a + 1)
            elif first > b:
                some = self._outside(last - b, first - b, b - a + 1)
            else:  # inside: 1 + r - r^(q-a+1) - r^(b-q+1)
                left = self.power(first - a + 1), self.power(last - a + 1)
                right = self.power(b - last + 1), self.power(b - first + 1)
                low = 1 + r[0] - left[0][1] - right[0][1]
                high = 1 + r[1] - left[1][0] - right[1][0]
                some = max(low, Fraction(0)), high
            down, up = down + some[0], up + some[1]
        return down, up

    def _outside(self, far: int, near: int, length: int) -> tuple[Fraction, Fraction]:
        """Return bounds of r^d (1 - r^length) for d between near and far."""
        size = self.power(length)
        return (
            self.power(far)[0] * max(1 - size[1], Fraction(0)),
            self.power(near)[1] * (1 - size[0]),
        )

    def across(self, left: int, right: int, q: int, distance: int) -> Fraction:
        """Return an upper bound of max(Y(q + distance) / Y(q), inverse) for two answers inside one gap.

        There Y is r^(q - left) times the mass of all runs on its left as seen from `left`, plus the same for
        the right: powers are counted from the nearer edge, so that none vanishes in a wide gap.
        """
        one, other = self.bounds_of(left, right)
        u, v = q - left, right - q - distance
        near = min(u, v)
        p, w = self.power(u - near), self.power(v - near)
        p_far, w_far = self.power(u - near + distance), self.power(v - near + distance)
        here = [p[i] * one[i] + w_far[i] * other[i] for i in (0, 1)]
        there = [p_far[i] * one[i] + w[i] * other[i] for i in (0, 1)]
        if min(here[0], there[0]) <= 0:
            return UNBOUNDED
        return max(there[1] / here[0], here[1] / there[0])

    def bounds_of(self, left: int, right: int) -> tuple[tuple[Fraction, Fraction], ...]:
        """Return bounds of the mass left of a gap as seen from `left`, and right of it from `right`."""
        sides = [[Fraction(0), Fraction(0)], [Fraction(0), Fraction(0)]]
        for a, b in self.runs:
            side, start = (0, left - b) if b <= left else (1, a - right)
            part = self._outside(start, start, b - a + 1)
            sides[side] = [total + more for total, more in zip(sides[side], part, strict=True)]
        return tuple((low, high) for low, high in sides)

    def change(self, first: int, last: int, distance: int) -> tuple[Fraction, Fraction] | None:
        """Return bounds of Y(q + distance) - Y(q) over first..last; None where a run edge lies between.

        Term by term: the masses themselves move far more over a stretch than their difference does,
        so bounding them apart would take a stretch per few answers.
        """
        down = up = Fraction(0)
        step = self.power(distance)
        lost = 1 - step[1], 1 - step[0]
        for a, b in self.runs:
            size = self.power(b - a + 1)
            part = lost[0] * max(1 - size[1], Fraction(0)), lost[1] * (1 - size[0])
            if (
                last + distance < a
            ):  # right of both: r^(a - q - distance) (1 - r^distance) (1 - r^length)
                down += self.power(a - first - distance)[0] * part[0]
                up += self.power(a - last - distance)[1] * part[1]
            elif first > b:  # left of both: -r^(q - b) (1 - r^distance) (1 - r^length)
                down -= self.power(first - b)[1] * part[1]
                up -= self.power(last - b)[0] * part[0]
            elif first >= a and last + distance <= b:
                # around both: (1 - r^distance) (r^(q - a + 1) - r^(b - q - distance + 1)), falling in q
                low = (
                    self.power(last - a + 1)[0] * lost[0]
                    - self.power(b - last - distance + 1)[1] * lost[1]
                )
                high = (
                    self.power(first - a + 1)[1] * lost[1]
                    - self.power(b - first - distance + 1)[0] * lost[0]
                )
                down, up = down + low, up + high
            else:
                return None
        return down, up


@lru_cache(maxsize=65536)
def _power(rate: Fraction, n: int) -> tuple[Fraction, Fraction]:
    x = rate * n
    if x > _FAR:
        return Fraction(0), 1 / exp_lower(Fraction(_FAR))
    if x == 0:
        return Fraction(1), Fraction(1)
    return _round(1 / exp_upper(x), up=False), _round(1 / exp_lower(x), up=True)


def _round(value: Fraction, *, up: bool) -> Fraction:
    """Round outward to 600 binary digits, so that sums of powers stay small numbers."""
    scaled = value.numerator << 600
    whole = -(-scaled // value.denominator) if up else scaled // value.denominator
    return Fraction(whole, 1 << 600)


def _nearest(allowed: GridSet, q: IntArray) -> FloatArray:
    """Return the distance from q to the nearest allowed point."""
    near = np.full(q.shape, np.inf)
    for a, b in allowed.runs:
        near = np.minimum(near, np.maximum(np.maximum(a - q, q - b), 0).astype(np.float64))
    return near


def relative_mass(allowed: GridSet, rate: float, q: IntArray, top: IntArray) -> FloatArray:
    """Return the mass of allowed points at most `top`, relative to the nearest allowed point.

    Shapes: `q` and `top` are broadcast together.
    """
    total = np.zeros(np.broadcast_shapes(q.shape, top.shape))
    for _, _, mass in _sides(allowed, rate, q, top):
        total += mass
    return total


def mean_distance(allowed: GridSet, rate: float, q: IntArray, power: int) -> FloatArray:
    """Return E |Y - q| (`power` 1) or E (Y - q)^2 (`power` 2) of Y with these masses, per answer.

    On each side of q in each run the distance is its nearest one plus a truncated geometric number.
    """
    total, sum_ = np.zeros(q.shape), np.zeros(q.shape)
    for start, n, mass in _sides(allowed, rate, q, np.full_like(q, allowed.upper)):
        mean, variance = _truncated_geometric(rate, n)
        away = start + mean
        sum_ += mass * (away if power == 1 else away**2 + variance)
        total += mass
    return sum_ / total


def _sides(
    allowed: GridSet, rate: float, q: IntArray, top: IntArray
) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
    """Yield per run and side of q: the distance of its nearest point, its points up to `top`, their mass."""
    near = _nearest(allowed, q)
    for a, b in allowed.runs:
        end = np.minimum(top, b)
        for start, length in (
            (np.maximum(a - q, 0), end - np.maximum(q, a) + 1),
            (np.maximum(q - end, 1), np.minimum(q - 1, end) - a + 1),
        ):
            n = np.maximum(length, 0).astype(np.float64)
            away = np.maximum(start.astype(np.float64) - near, 0.0)
            mass = np.where(n > 0, np.exp(-rate * away) * -np.expm1(-rate * n), 0.0)
            yield start.astype(np.float64), n, mass


def _truncated_geometric(rate: float, n: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of K in 0..n-1 with P(k) in proportion to e^(-rate k).

    1 / (e^r - 1) - n / (e^(r n) - 1), and 1 / (4 sinh(r / 2)^2) less the same of n; where r n is
    small, both are cancelled by hand: the next terms are below 1e-7 of the sums.
    """
    x = np.minimum(rate * n, 700.0)
    few = x < 1e-3
    safe = np.where(few, 1.0, x)
    mean = 1 / np.expm1(rate) - n / np.expm1(safe)
    variance = (1 / np.sinh(rate / 2) ** 2 - (n / np.sinh(safe / 2)) ** 2) / 4
    squares = (n * n - 1) / 12
    return (
        np.where(few, (n - 1) / 2 - rate * squares, mean),
        np.where(few, squares, variance),
    )


def log_mass(allowed: GridSet, rate: float, q: IntArray) -> FloatArray:
    """Return log Y(q), without underflow in wide gaps."""
    full = np.full_like(q, allowed.upper)
    out: FloatArray = np.log(relative_mass(allowed, rate, q, full)) - rate * _nearest(allowed, q)
    return out
