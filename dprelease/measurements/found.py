"""The draw of numbers of persons whose keys nobody declared: each key is published if its own noisy number is large enough.

Units: persons; epsilon in nats. Shapes: exact and raw `(keys, 1)`; raw is 0 where a key stays unpublished.
Source: `docs/theory/found-keys.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.budget.composition import Proof
from dprelease.core.codec_notes import AtLeast, Digits, StoredAs
from dprelease.core.entropy import RandomBits
from dprelease.measurements.candidate import Candidate, Pricing
from dprelease.measurements.law import Law, Objects, floats, underclaimed
from dprelease.measurements.members import Member
from dprelease.mechanisms.kernels.selecting import TOTAL, SelectingNoise
from dprelease.statistics.base import Floats
from dprelease.statistics.sensitivity import Sensitivity

_FINE = 1 << 128


@dataclass(frozen=True, slots=True)
class FoundLaw(Law):
    """Numbers of persons, of which one unit moves at most `keys`, each by one; published values are at most `upper`."""

    tag: ClassVar[str] = "found_keys"
    mechanism: ClassVar[str] = "discrete_laplace"
    of_keys: ClassVar[bool] = True

    noise: Annotated[SelectingNoise, StoredAs("law")]
    keys: Annotated[int, AtLeast(1)]
    upper: Digits

    @classmethod
    def candidates(cls, pricing: Pricing, delta: Fraction) -> list[Candidate]:
        """Return the optimal selection whose keys of one unit have the loss (epsilon, delta) together."""
        measurement, keys = pricing.measurement, pricing.sensitivity.l1_over_groups
        assert measurement.upper is not None
        noise = SelectingNoise.calibrate(pricing.epsilon / keys, each_of(delta, keys))
        error = noise.mean_abs(2 if pricing.loss == "squared" else 1)
        law = cls(noise, keys, measurement.upper)
        return [Candidate(measurement, law, (error,), (error,), ((error,),))]

    @property
    def bound(self) -> int:  # type: ignore[override]
        return max(self.noise.bound, len(self.noise.weights) - 1 - self.noise.bound)

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        steps = sensitivity.in_a_cell or sensitivity.l1_per_group
        whole = sum(self.noise.weights) == TOTAL
        if not whole or steps > 1 or self.keys < sensitivity.l1_over_groups:
            raise underclaimed("sensitivity")
        return self.noise.epsilon * self.keys

    def proof(self, sensitivity: Sensitivity) -> Proof:
        """Return the loss, and with what probability more is said, rounded up."""
        delta = 1 - (1 - self.of_a_key) ** self.keys
        return replace(Law.proof(self, sensitivity), delta=delta)

    @property
    def of_a_key(self) -> Fraction:
        """The delta of one key, rounded up."""
        return Fraction(math.ceil(self.noise.delta() * _FINE), _FINE)

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        drawn = self.noise.draws(exact.ravel().astype(np.int64), bits)
        return drawn.astype(object).reshape(exact.shape)

    def certain(self, raw: Objects) -> tuple[Objects, Objects]:
        high = raw - self.noise.bound
        return high, high + (len(self.noise.weights) - 1)

    def cells(self, raw: Objects) -> Floats:
        return floats(np.minimum(raw, self.upper))

    def box(self, raw: Objects, level: float) -> tuple[Floats, Floats]:
        low, high = self.noise.ends(raw.astype(np.int64), level)
        return np.minimum(low, self.upper), np.minimum(high, self.upper)

    def drawable(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.asarray(raw[:, 0] > self.noise.bound)

    def published_step(self, member: Member) -> Fraction | None:
        del member
        return Fraction(1)

    def evidence(self) -> dict[str, Any]:
        return {"delta_of_a_key": str(self.of_a_key), "groups_charged": self.keys}


def each_of(delta: Fraction, keys: int) -> Fraction:
    """Return 1 - (1 - delta)^(1 / keys), rounded down: decimal arithmetic is the same on every machine."""
    with localcontext(prec=60):
        missed = (Decimal(1) - Decimal(delta.numerator) / delta.denominator) ** (Decimal(1) / keys)
        return Fraction(int((1 - missed) * _FINE - 1), _FINE)
