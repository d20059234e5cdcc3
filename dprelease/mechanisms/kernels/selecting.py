"""The noise of a number of persons that decides whether its key is published: optimal selection, exact.

A key of n persons is published with the probability p(n): p(0) = 0, p(n + 1) = min(e^epsilon p(n) + delta,
1 - e^-epsilon (1 - p(n) - delta), 1), which no rule of that loss exceeds. P(noise = bound + 1 - n) = p(n) - p(n - 1), and
n + noise is published if it exceeds the bound.

Privacy. Weights are whole numbers that add up to 2^62. Their loss at epsilon is counted over all numbers
that n and n + 1 persons may get, of which what is published is a function; rounding is part of it.

Units    persons; epsilon in nats, of one key.
Sources  `docs/theory/found-keys.md#the-law`.
Limits   at most 2^16 weights, and a delta of one key of more than some hundred units of 2^-62.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.core.codec import Stored
from dprelease.core.codec_notes import AtLeast, Digits
from dprelease.core.entropy import RandomBits
from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import exp_lower
from dprelease.mechanisms.arguments import IntArray
from dprelease.mechanisms.kernels.sampling import words

TOTAL = 1 << 62
_MOST = 1 << 16


@dataclass(frozen=True, slots=True)
class SelectingNoise(Stored):
    """Noise of one key: `weights[m - 1]` of 2^62 draws are `bound + 1 - m`."""

    family: ClassVar[str] = "discrete_laplace"
    kind: ClassVar[str] = "selecting"
    constants: ClassVar[Mapping[str, str]] = {"family": "family", "kind": "kind"}

    epsilon: Fraction
    bound: Annotated[int, AtLeast(0)]
    weights: tuple[Annotated[Digits, AtLeast(1)], ...]

    @classmethod
    def calibrate(cls, epsilon: Fraction, delta: Fraction) -> SelectingNoise:
        """Return the noise of the loss (epsilon, delta) that publishes any key as often as one can.

        Raises:
            ArgumentError: they are too small (DPR693).
        """
        units = int(delta * TOTAL)
        units -= 4 * len(_chances(epsilon, units))  # rounding costs less
        sums = _chances(epsilon, units)
        if sums[-1] < TOTAL:
            raise ArgumentError(
                "no list of keys has so small a loss",
                why=f"a key has epsilon {float(epsilon):.3g} and delta {float(delta):.3g} for itself",
                fix="raise epsilon or delta, or lower `max_keys`",
                code="DPR693",
            )
        weights = tuple(b - a for a, b in pairwise(sums))
        middle = sum(m * w for m, w in enumerate(weights))
        return cls(epsilon, (2 * middle + TOTAL) // (2 * TOTAL), weights)

    @property
    def sums(self) -> tuple[int, ...]:
        """The chances, in units of 2^-62, that keys of 0, 1, ... persons are published."""
        return tuple(accumulate(self.weights, initial=0))

    def delta(self) -> Fraction:
        """Return the least delta, rounded up, of one key that one person more or less holds."""
        e, one = exp_lower(self.epsilon).as_integer_ratio()
        pairs = list(pairwise((0, *self.weights, 0)))
        up = sum(max(0, b * one - a * e) for a, b in pairs)
        down = sum(max(0, a * one - b * e) for a, b in pairs)
        return Fraction(max(up, down), TOTAL * one)

    def draws(self, persons: IntArray, bits: RandomBits) -> IntArray:
        """Return the noisy numbers of keys of so many persons; 0 where the key stays unpublished."""
        chance = (words(persons.size, bits) >> np.uint64(2)).astype(np.int64)
        place = np.searchsorted(np.array(self.sums[1:]), chance, side="right") + 1
        return np.where(place <= persons, persons + self.bound + 1 - place, 0)

    def mean_abs(self, power: int = 1) -> float:
        """Return the mean of |noise|^power."""
        far = ((abs(self.bound - m) ** power) * w for m, w in enumerate(self.weights))
        return float(sum(far) / TOTAL)

    def ends(self, raw: IntArray, level: float) -> tuple[npt.NDArray[np.float64], ...]:
        """Return the interval of the persons of published keys: those that publish so much, or so little, often enough.

        Of the draws that are published: of a key of n persons a part W(n - t) / W(n) is at least t + bound + 1.
        """
        sums, last = np.array(self.sums, dtype=np.float64), len(self.weights)
        beyond, first = raw - self.bound - 1, np.arange(last)
        far = np.minimum(beyond, last)
        low, high = np.zeros((2, last + 1))
        for t in np.unique(far):
            all_shown = sums[np.minimum(first + t + 1, last)]
            few = (1 - level) / 2 * all_shown
            low[t] = np.argmax(sums[1:] > few) + 1
            high[t] = np.flatnonzero(all_shown - sums[:-1] > few)[-1] + 1
        return low[far] + beyond, high[far] + beyond


def _chances(epsilon: Fraction, delta: int) -> list[int]:
    """Return the chances of 0, 1, ... persons in units of 2^-62, rounded down; incomplete if they never end."""
    power, sums = exp_lower(epsilon), [0]
    e, one = power.numerator, power.denominator
    while delta > 0 and sums[-1] < TOTAL and len(sums) <= _MOST:
        rest = max(0, TOTAL - sums[-1] - delta)
        sums.append(min(sums[-1] * e // one + delta, TOTAL + -rest * one // e))
    return sums
