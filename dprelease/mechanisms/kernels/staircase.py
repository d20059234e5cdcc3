"""Staircase noise on the integers, exact rational weights.

    P(d) = c * rho^f(d),  f(d) = floor((|d| + width - j) / width),  rho = p / 2**64 < 1.

Level 0 holds the 2j - 1 values |d| < j; every later level holds 2 * width values.

Privacy. For |s| <= width, | |d + s| - |d| | <= width, so f changes by at most one and

    P(d) / P(d + s) <= 1 / rho = 2**64 / p,

one integer inequality against a rational lower bound of e^epsilon: p = ceil(2**64 / E).
The loss is a full epsilon for *any* distance in 1..width, so on a vector the coordinates add up to
several epsilon: scalars only (`certify(splits=True)` says so).

Units    grid steps; epsilon in nats.
Sources  Geng & Viswanath, "The optimal mechanism in differential privacy" (the staircase shape);
         integer form and certificate: `docs/theory/kernels-and-boundaries.md#staircase`.
Limits   epsilon >= 2**-14: below, the exact sampler's numbers grow too long, and discrete Laplace
         noise is as good. Magnitudes saturate beyond 2**62.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.core.codec import Stored
from dprelease.core.entropy import ROUND_LIMIT, RandomBits, stuck, uniform_below
from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import exp_lower, first_holding
from dprelease.mechanisms.arguments import FloatArray, IntArray, check_level
from dprelease.mechanisms.certificate import Certificate, certify_ratio
from dprelease.mechanisms.kernels.sampling import bernoulli

EPSILON_FLOOR = Fraction(1, 2**14)
_FAR = 2**62 + 2**60


@dataclass(frozen=True, slots=True)
class StaircaseNoise(Stored):
    """Staircase noise with step `width`, first step `j` in 1..width and decay p / 2**64."""

    p: int
    width: int
    j: int

    def __post_init__(self) -> None:
        if not (0 < self.p < 2**64 and 1 <= self.j <= self.width <= 2**61):
            raise ArgumentError(
                "these are not the integers of a staircase",
                why="it needs 0 < p < 2**64 and 1 <= j <= width <= 2**61",
                fix="calibrate it instead of building it by hand",
                code="DPR687",
            )

    @classmethod
    def calibrate(cls, width: int, epsilon: Fraction, j: int) -> StaircaseNoise:
        """Return the staircase with loss at most `epsilon` for distances up to `width`."""
        if epsilon < EPSILON_FLOOR:
            raise ArgumentError(
                "epsilon is too small for staircase noise",
                fix="use discrete_laplace, which is as accurate there",
                code="DPR626",
            )
        return cls(max(1, math.ceil(2**64 / exp_lower(epsilon))), width, j)

    @property
    def period(self) -> int:
        return self.width

    @property
    def beyond(self) -> None:
        """Tails are periodic: how far noise lies beyond an end depends on the answer."""

    @property
    def decay(self) -> float:
        return self.p / 2**64

    def level(self, d: int) -> int:
        """Return f(d)."""
        return (abs(d) + self.width - self.j) // self.width

    def certify(
        self, family: str, distance: int, claim: Fraction, *, splits: bool = False
    ) -> Certificate:
        """Return the proof for distances up to `distance`.

        A distance over `width` crosses ceil(distance / width) levels. With `splits`, every single step
        can cross a level in its own coordinate, so `distance` coordinates pay in full.
        """
        levels = distance if splits else -(-distance // self.width)
        ratio = Fraction(2**64, self.p) ** levels
        return certify_ratio(
            family,
            ratio,
            claim,
            "2**64 / p per level crossed, against a lower bound of e^epsilon",
            p=self.p,
            width=self.width,
            j=self.j,
            levels=levels,
        )

    def sample(self, count: int, bits: RandomBits) -> IntArray:
        """Return `count` independent exact draws, shape `(count,)`; saturated at 2**62 + 2**60."""
        inside, thresholds = _plan(self)
        out = np.zeros(count, dtype=np.int64)
        centre = bernoulli(*inside, count, bits)
        first = np.flatnonzero(centre)
        out[first] = uniform_below(2 * self.j - 1, first.size, bits) - (self.j - 1)
        rest = np.flatnonzero(~centre)
        blocks = _geometric(thresholds, rest.size, bits)
        spot = uniform_below(2 * self.width, rest.size, bits)
        blocks = np.minimum(blocks, -(-_FAR // self.width)).astype(np.uint64)
        near = (self.j + spot % self.width).astype(np.uint64)
        # Unsigned: with the widest steps the sum passes 2**63, and a wrapped one would be a near one.
        size = np.minimum(blocks * np.uint64(self.width) + near, np.uint64(_FAR)).astype(np.int64)
        out[rest] = np.where(spot < self.width, size, -size)
        return out

    def _norm(self) -> tuple[float, float]:
        """Return (c, 1 - rho)."""
        rest = (2**64 - self.p) / 2**64
        return 1 / ((2 * self.j - 1) + 2 * self.width * self.decay / rest), rest

    def weights(self, count: int) -> FloatArray:
        """Return P(0), ..., P(count - 1)."""
        d = np.arange(count, dtype=np.int64)
        powers = self.decay ** np.arange(self.level(max(count, 1)) + 1, dtype=np.float64)
        out: FloatArray = self._norm()[0] * powers[(d + self.width - self.j) // self.width]
        return out

    def tails(self, k: npt.ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return, for k >= 0: P(D > k), E(D - k)+, E(D^2 - k^2; D > k); closed forms."""
        at = np.asarray(k, dtype=np.int64)
        w, rho = float(self.width), self.decay
        c, rest = self._norm()
        level = (at + 1 + self.width - self.j) // self.width
        end = (self.j + level * self.width).astype(np.float64)  # first distance of the next level
        here = c * np.exp(level * math.log(rho))
        x = at.astype(np.float64)
        n = end - x - 1  # distances x + 1 .. end - 1, all on this level
        g0, g1, g2 = 1 / rest, rho / rest**2, rho * (1 + rho) / rest**3
        gap = end - x
        mass = here * (n + w * rho * g0)
        first = here * (n * (n + 1) / 2 + rho * w * ((gap + (w - 1) / 2) * g0 + w * g1))
        # sum of (d - x)^2 over a level that starts at gap + r w, then over r = 0, 1, ...
        square_head = n * (n + 1) * (2 * n + 1) / 6
        start2 = gap * gap * g0 + 2 * gap * w * g1 + w * w * g2
        cross = (w - 1) * (gap * g0 + w * g1)
        square_rest = w * (start2 + cross + (w - 1) * (2 * w - 1) / 6 * g0)
        second = here * (square_head + rho * square_rest)
        return mass, first, second + 2 * x * first

    @property
    def fitted(self) -> StaircaseNoise:
        """What it is for intervals."""
        return self

    @property
    def apart(self) -> float:
        return 0.0

    @property
    def flat(self) -> int:
        return self.width

    def survival(self, x: npt.ArrayLike) -> FloatArray:
        """Return P(D > x) for x >= 0."""
        return self.tails(np.minimum(np.floor(x), 2.0**60))[0]

    def between(self, start: npt.ArrayLike, stop: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return, for 0 <= start <= stop: the sums of P(D > x) and (2 x + 1) P(D > x), start <= x < stop."""
        _, first, second = self.tails(np.stack(np.broadcast_arrays(start, stop)))
        return first[0] - first[1], second[0] - second[1]

    def quantile(self, level: float) -> int:
        """Return the smallest k (rounded up in doubt) with P(|D| <= k) >= level."""
        check_level(level)
        goal = (1 - level) * (1 - 1e-12)
        # P(|D| > j - 1 + m w) = P(|D| > j - 1) rho^m: find the level, then the step within it.
        low, high = -1, self.j
        while 2 * float(self.tails(high)[0]) > goal and high < _FAR:
            low, high = high, min(2 * high + self.width, _FAR)
        return first_holding(lambda k: 2 * float(self.tails(max(k, 0))[0]) <= goal, low, high)

    def variance(self) -> float:
        """Return E D^2, in steps squared."""
        return 2 * float(self.tails(0)[2])

    def block_weights(self, count: int) -> tuple[list[Any], list[Any]]:
        """Return exact integer weights of distances 0..count-1: of one point, of all repeats.

        Repeats d, d + width, ... weigh 1 / (1 - rho) = 2**64 / (2**64 - p) times as much.
        """
        top = self.level(count)
        powers = [self.p**m << 64 * (top - m) for m in range(top + 1)]
        inner = [powers[self.level(d)] * (2**64 - self.p) for d in range(count)]
        return inner, [powers[self.level(d)] << 64 for d in range(count)]

    def describe(self) -> str:
        return f"step {self.width}, first step {self.j}"


@lru_cache(maxsize=64)
def _plan(noise: StaircaseNoise) -> tuple[tuple[int, int], tuple[tuple[int, int], ...]]:
    """Return the exact coins of one draw: (level 0 or not), then the bits of the level.

    A geometric level m with ratio rho has independent binary digits: digit i is one with
    probability rho^(2^i) / (1 + rho^(2^i)), and m >> digits is geometric with ratio
    rho^(2^digits). So a small epsilon costs log2(1/epsilon) coins, not 1/epsilon.
    """
    a = (2 * noise.j - 1) * (2**64 - noise.p)
    inside = (a, a + 2 * noise.width * noise.p)
    coins = []
    num, den = noise.p, 2**64
    while 4 * num > den:
        coins.append((num, num + den))
        num, den = num * num, den * den
    return inside, (*coins, (num, den))


def _geometric(coins: tuple[tuple[int, int], ...], count: int, bits: RandomBits) -> IntArray:
    out = np.zeros(count, dtype=np.int64)
    *digits, (num, den) = coins
    for i, (a, b) in enumerate(digits):
        out += bernoulli(a, b, count, bits).astype(np.int64) << i
    active = np.arange(count)
    for _ in range(ROUND_LIMIT):
        active = active[bernoulli(num, den, active.size, bits)]
        if not active.size:
            return out
        out[active] += 1 << len(digits)
    raise stuck()
