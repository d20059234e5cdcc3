"""Discrete Laplace noise on the integers, exact.

    P(d) = tanh(rate / 2) * exp(-rate |d|),    rate = s / t rational.

Privacy. |log P(d) - log P(d + k)| <= rate * |k|, with equality, so the loss of a vector whose
cells move by k_1, k_2, ... is rate * sum |k_i|: linear in the L1 sensitivity. That makes it the noise
for cells and for anything a unit can split over several coordinates. The loss is a rational
number; no approximation is involved.

Units    grid steps; rate in nats per step; scale = 1 / rate in steps.
Sources  `docs/theory/kernels-and-boundaries.md#noise-and-a-fixed-map`, `docs/theory/certificates.md#exact-sampling`;
         [CKS20] Canonne, Kamath & Steinke, arXiv:2004.00010: the exact sampler. Geometric noise:
         Ghosh, Roughgarden & Sundararajan, "Universally utility-maximizing privacy mechanisms".
Sampler  s and t are integers of any size; where t > 2**52 the draws are Python integers.
Limits   rate <= 64 (more noise than asked beyond that). A draw needs fewer than 1024 geometric
         steps, or ends as InternalError: probability below e**-1000, whatever the data. Running
         time depends on the bits drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.core.codec import Stored
from dprelease.core.entropy import RandomBits, drawn_by_rejection, uniform_below
from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import exp_lower
from dprelease.intervals.noise import Laplace
from dprelease.mechanisms.arguments import FloatArray, IntArray, check_level
from dprelease.mechanisms.certificate import Certificate
from dprelease.mechanisms.kernels.sampling import AnyInts, bernoulli_exp, geometric_e

_NARROW = 2**52
"""Draws with t up to this, less than 1024 t, fit int64."""

_SATURATION = 2**62 + 2**60
"""Beyond it the sum with any hull answer saturates too, so that the sum alone decides."""
_SERIES = 1e-4
_RATE_LIMIT = 64


@dataclass(frozen=True, slots=True)
class DiscreteLaplaceNoise(Stored):
    """Symmetric geometric noise with the given exact rate, in nats per step."""

    rate: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.rate <= _RATE_LIMIT:
            raise ArgumentError(
                "this is not a rate of discrete Laplace noise",
                why=f"rates are p/q with 0 < p/q <= {_RATE_LIMIT}",
                fix="use the file unchanged",
                code="DPR624",
            )

    @classmethod
    def calibrate(cls, distance: int, epsilon: Fraction) -> DiscreteLaplaceNoise:
        """Return the noise whose loss at L1 distance `distance` is at most `epsilon`.

        The rate is epsilon / distance itself if its denominator is small, else a shorter fraction
        below it, by less than a relative 2**-50: short numbers are drawn faster.
        """
        wanted = min(epsilon / distance, Fraction(_RATE_LIMIT))
        if wanted.denominator > _NARROW:
            numerator = max(1, math.floor(wanted * _NARROW))
            # Keep the numerator and round the denominator up: precise for tiny rates, too.
            denominator = max(1, math.ceil(numerator / wanted))
            wanted = Fraction(numerator, denominator)
        return cls(wanted)

    @property
    def scale(self) -> Fraction:
        """1 / rate, in steps."""
        return 1 / self.rate

    @property
    def period(self) -> int:
        return 1

    @property
    def decay(self) -> float:
        return math.exp(-self.rate)

    @property
    def beyond(self) -> float:
        """r / (1 - r), r = e^-rate: how far noise that passed an end lies beyond it on average."""
        return float(mean_excess(1 / exp_lower(self.rate)))

    def certify(
        self, family: str, distance: int, claim: Fraction, *, splits: bool = False
    ) -> Certificate:
        """Return the exact loss at L1 distance `distance`: distance * rate. `claim` is not needed."""
        del claim, splits
        loss = distance * self.rate
        return Certificate(
            family,
            loss,
            None,
            "loss = distance * rate, linear in the L1 sensitivity",
            (("rate", str(self.rate)), ("distance", str(distance))),
        )

    def sample(self, count: int, bits: RandomBits) -> IntArray:
        """Return `count` independent draws, shape `(count,)`, saturated at +-(2**62 + 2**60)."""
        found: IntArray = np.clip(self.draws(count, bits), -_SATURATION, _SATURATION).astype(
            np.int64
        )
        return found

    def draws(self, count: int, bits: RandomBits) -> AnyInts:
        """Return `count` independent exact draws, shape `(count,)`: Python integers if t > 2**52."""
        s, t = self.rate.numerator, self.rate.denominator
        wide = t > _NARROW

        def attempt(todo: IntArray) -> tuple[IntArray, AnyInts]:
            u = uniform_below(t, todo.size, bits)
            accepted = np.flatnonzero(bernoulli_exp(u, t, bits))
            whole = geometric_e(accepted.size, bits).astype(
                object if wide else np.int64, copy=False
            )
            size = (u[accepted] + t * whole) // s
            minus = uniform_below(2, accepted.size, bits) == 1
            good = ~(minus & (size == 0))  # else zero would be drawn twice as often
            return accepted[good], np.where(minus, -size, size)[good]

        return drawn_by_rejection(count, attempt, wide=wide)

    def weights(self, count: int) -> FloatArray:
        """Return P(0), ..., P(count - 1)."""
        rate = float(self.rate)
        out: FloatArray = math.tanh(rate / 2) * np.exp(-rate * np.arange(count))
        return out

    def tails(self, k: npt.ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return, for k >= 0: P(D > k), E(D - k)+, E(D^2 - k^2; D > k)."""
        at = np.asarray(k, dtype=np.float64)
        rate = float(self.rate)
        q, rest = math.exp(-rate), -math.expm1(-rate)
        beyond: FloatArray = np.exp(-rate * (at + 1)) / (1 + q)
        return beyond, beyond / rest, beyond * ((2 * at + 1) / rest + 2 * q / rest**2)

    def between(self, start: npt.ArrayLike, stop: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return, for 0 <= start <= stop: the sums of P(D > x) and (2 x + 1) P(D > x), start <= x < stop.

        The differences of the last two `tails`, without their cancellation at tiny rates.
        """
        at = np.asarray(start, dtype=np.float64)
        n = np.asarray(stop, dtype=np.float64) - at
        rate = float(self.rate)
        q, rest = math.exp(-rate), -math.expm1(-rate)
        count = -np.expm1(-rate * n) / rest  # sum of q^i, i < n
        near = rate * n < _SERIES
        far = np.where(near, 1.0, n)
        ramp = q * (1 - far * q ** (far - 1) + (far - 1) * q**far) / rest**2  # sum of i q^i
        ramp = np.where(near, n * (n - 1) / 2 * (1 - rate * (2 * n - 1) / 3), ramp)
        head = np.exp(-rate * (at + 1)) / (1 + q)
        return head * count, head * ((2 * at + 1) * count + 2 * ramp)

    def quantile(self, level: float) -> int:
        """Return the smallest k (rounded up in doubt) with P(|D| <= k) >= level."""
        check_level(level)
        return self.fitted.quantile(level)

    def variance(self) -> float:
        """Return E D^2, in steps squared."""
        return 0.5 / math.sinh(float(self.rate) / 2) ** 2

    def mean_abs(self) -> float:
        """Return E |D|, in steps."""
        return 1 / math.sinh(float(self.rate))

    def log_ratio(self, d: int, k: int) -> Fraction:
        """Return log P(d) - log P(d + k), exact."""
        return self.rate * (abs(d + k) - abs(d))

    def block_weights(self, count: int) -> tuple[list[Any], list[Any]]:
        """Return weights of distances 0..count-1: of one point, and of all beyond it."""
        inner = self.weights(count).tolist()
        rest = -math.expm1(-float(self.rate))
        return inner, [w / rest for w in inner]

    @property
    def fitted(self) -> Laplace:
        """What it is for fits and intervals."""
        return Laplace(self.rate)

    def describe(self) -> str:
        return f"scale {float(self.scale):.6g} steps"


def mean_excess(ratio: Fraction) -> Fraction:
    """Return r / (1 - r): how far a geometric tail of this ratio reaches on average.

    >>> mean_excess(Fraction(1, 3))
    Fraction(1, 2)
    """
    return ratio / (1 - ratio)
