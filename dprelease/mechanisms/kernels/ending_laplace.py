"""Discrete Laplace noise that ends: on the integers from -bound to bound, exact.

    P(d) = e^(-rate |d|) / Z,    |d| <= bound

Privacy. Where one unit moves cells by k_1, k_2, ..., each at most the bound, no two answers that both tables can
give differ by more than rate * S k_i; a draw that one of them alone can give has the probability
1 - (1 - p(k_1)) (1 - p(k_2)) ..., where p(k) is the mass of the k outermost points of one side. So the loss is
(rate * S k_i, that probability), attained, for every total S k_i. p grows faster than k, so of moves that are each at
most k, K in all, floor(K / k) whole ones and the rest of K cost most.

Units    grid steps; rate in nats per step.
Sources  `docs/theory/certain-intervals.md#the-loss`.
Limits   as `kernels/laplace.py`, from which draws beyond the bound are drawn again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar

from dprelease.core.codec import Stored
from dprelease.core.codec_notes import AtLeast, Digits
from dprelease.core.entropy import RandomBits, drawn_by_rejection
from dprelease.core.numeric import exp_lower, exp_upper, first_holding
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.kernels.sampling import AnyInts

_NARROW = 2**62


@dataclass(frozen=True, slots=True)
class EndingLaplaceNoise(Stored):
    """Symmetric geometric noise of an exact rate, in nats per step, of at most `bound` steps."""

    family: ClassVar[str] = "discrete_laplace"
    kind: ClassVar[str] = "ending"
    constants: ClassVar[Mapping[str, str]] = {"family": "family", "kind": "kind"}

    rate: Fraction
    bound: Annotated[Digits, AtLeast(1)]

    @classmethod
    def calibrate(
        cls, steps: int, total: int, epsilon: Fraction, delta: Fraction
    ) -> EndingLaplaceNoise:
        """Return the noise with the least bound that has the loss (epsilon, delta).

        Args:
            steps: that one unit moves a cell at most; total: all cells together.
        """
        rate = DiscreteLaplaceNoise.calibrate(total, epsilon).rate
        low, high = 0, steps
        while cls(rate, high).delta(steps, total) > delta:
            low, high = high, 2 * high
        least = first_holding(lambda n: cls(rate, n).delta(steps, total) <= delta, low, high)
        return cls(rate, least)

    @property
    def noise(self) -> DiscreteLaplaceNoise:
        """The noise without an end: less certain to be small at every distance."""
        return DiscreteLaplaceNoise(self.rate)

    def outermost(self, count: int) -> Fraction:
        """Return the mass of the `count` outermost points of one side, rounded up by less than a relative 2**-64.

        It is (r^(bound + 1 - count) - r^(bound + 1)) / (1 + r - 2 r^(bound + 1)), r = e^-rate.
        """
        if count > self.bound:  # more than half of all
            return Fraction(1)
        far, near = self.rate * (self.bound + 1), self.rate * (self.bound + 1 - count)
        above = 1 / exp_lower(near, _BITS) - 1 / exp_upper(far, _BITS)
        below = 1 + 1 / exp_upper(self.rate, _BITS) - 2 / exp_lower(far, _BITS)
        return min(Fraction(1), above / below)

    def delta(self, steps: int, total: int) -> Fraction:
        """Return the probability, rounded up, of a draw that says more: cells move `total` steps, each `steps` at most."""
        whole, rest = divmod(total, steps)
        stays = (1 - self.outermost(steps)) ** whole
        return 1 - (stays * (1 - self.outermost(rest)) if rest else stays)

    @property
    def scale(self) -> Fraction:
        return self.noise.scale

    def variance(self) -> float:
        return self.noise.variance()

    def sample(self, count: int, bits: RandomBits) -> AnyInts:
        """Return `count` independent exact draws, shape `(count,)`: Python integers if they are wide."""
        noise, wide = self.noise, self.bound >= _NARROW or self.rate.denominator >= _NARROW >> 10

        def attempt(todo: AnyInts) -> tuple[AnyInts, AnyInts]:
            drawn = noise.draws(todo.size, bits)
            inside = abs(drawn) <= self.bound
            return inside, drawn[inside]

        return drawn_by_rejection(count, attempt, wide=wide)


_BITS = 192
