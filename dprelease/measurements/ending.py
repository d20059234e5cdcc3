"""The draw of cells with noise that ends, of which the exact value is certain within a bound.

Every cell gets independent discrete Laplace noise of at most `bound` steps; afterwards values are moved into the cells'
public range. So the exact cell lies within the bound of the noisy integer, whatever the rows are. What that costs beside epsilon is
a delta: with that probability a draw lies where one of two neighbouring tables alone can have led.

Units: grid steps; epsilon in nats. Shapes: exact and raw `(groups, cells)`, Python integers.
Source: `docs/theory/certain-intervals.md#the-loss`, `#the-interval`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar

import numpy as np

from dprelease.budget.composition import Proof
from dprelease.core.codec_notes import AtLeast, Digits, StoredAs
from dprelease.measurements.candidate import Candidate, Pricing
from dprelease.measurements.law import AddedNoise, AddsNoise, Law, Objects, underclaimed
from dprelease.measurements.members import Member
from dprelease.mechanisms.kernels.ending_laplace import EndingLaplaceNoise
from dprelease.statistics.sensitivity import Sensitivity

_SHORT = 10**24


@dataclass(frozen=True, slots=True)
class EndingLaw(AddsNoise):
    """Integer cells with noise of at most a bound for one unit's moves of so many steps, moved into [lower, upper] after.

    A cell c stands for `offset + step_size * c` (0 and 1 where statistics read the cells themselves).
    """

    tag: ClassVar[str] = "ending"
    mechanism: ClassVar[str] = "discrete_laplace"

    noise: Annotated[EndingLaplaceNoise, StoredAs("law")]
    in_a_cell: Digits
    l1_over_groups: Digits
    count: Annotated[int, AtLeast(1)]
    lower: Digits
    upper: Digits
    step_size: Fraction
    offset: Fraction

    @classmethod
    def candidates(cls, pricing: Pricing, delta: Fraction) -> list[Candidate]:
        """Return the least noise that ends, of the loss (epsilon, delta), whatever the statistic's domain cuts."""
        measurement, s = pricing.measurement, pricing.sensitivity
        assert measurement.upper is not None
        steps, total = s.in_a_cell or s.l1_per_group, s.l1_over_groups
        noise = EndingLaplaceNoise.calibrate(steps, total, pricing.epsilon, delta)
        law = cls(
            noise,
            steps,
            total,
            len(measurement.cells),
            measurement.lower,
            measurement.upper,
            measurement.step_size,
            measurement.offset,
        )
        step, plain = float(measurement.step_size), noise.noise
        squared = pricing.loss == "squared"
        error = plain.variance() * step**2 if squared else plain.mean_abs() * step
        each = (error,) * len(pricing.block.members)
        return [Candidate(measurement, law, each, each, tuple((e,) for e in each))]

    @property
    def bound(self) -> int:  # type: ignore[override]
        return self.noise.bound

    @property
    def slope(self) -> Fraction:
        return self.noise.rate

    @property
    def added(self) -> AddedNoise:
        """Noise without an end, which is nowhere less spread, nor is any sum of such draws."""
        return AddedNoise(self.noise.noise.fitted, self.step_size, self.offset)

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        steps = sensitivity.in_a_cell or sensitivity.l1_per_group
        claimed = self.in_a_cell, self.l1_over_groups
        if claimed[0] < steps or claimed[1] < sensitivity.l1_over_groups:
            raise underclaimed("sensitivity")
        if self.step_size <= 0 or self.lower > self.upper:
            raise underclaimed("step")
        return self.noise.rate * self.l1_over_groups

    def proof(self, sensitivity: Sensitivity) -> Proof:
        """Return the loss, and with what probability more is said."""
        found = Law.proof(self, sensitivity)
        return replace(found, delta=self.noise.delta(self.in_a_cell, self.l1_over_groups))

    def certain(self, raw: Objects) -> tuple[Objects, Objects]:
        low, high = raw - self.bound, raw + self.bound
        return (np.maximum(low, 0) if self.lower == 0 else low), high  # no row makes it negative

    def reach(self, level: float) -> int:
        return min(self.bound, self.noise.noise.quantile(level))

    def published_step(self, member: Member) -> Fraction | None:
        return self.step_size if self.offset == 0 and member.kind.additive else None

    def evidence(self) -> dict[str, Any]:
        delta = self.noise.delta(self.in_a_cell, self.l1_over_groups)
        short = Fraction(-(-delta.numerator * _SHORT // delta.denominator), _SHORT)
        return {"delta_upper": str(short), "bound": str(self.bound), "groups_charged": 1}
