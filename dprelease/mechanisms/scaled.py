"""What the mechanisms of Laplace noise share: a domain, a scale, and what the scale was chosen for.

Units    scale and sensitivity in the domain's unit; epsilon in nats.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dprelease.core.numeric import Number
from dprelease.mechanisms.arguments import check_domain, float_scale, optional
from dprelease.mechanisms.law import Unpriced
from dprelease.mechanisms.unit_law import UnitLaw, on_grid
from dprelease.schema.domain import Domain


@dataclass(frozen=True, slots=True, init=False)
class Scaled(Unpriced):
    """Noise of `scale` in `domain`; sensitivity and epsilon where they are known."""

    domain: Domain
    scale: float
    sensitivity: Fraction | None
    epsilon: Fraction | None

    def __init__(
        self,
        domain: Domain,
        *,
        scale: Number,
        sensitivity: Number | None = None,
        epsilon: Number | None = None,
    ) -> None:
        """Build the mechanism from its scale.

        Raises:
            ArgumentError: not a Domain (DPR629), one that this mechanism does not take (DPR632, DPR680), or
                a scale, sensitivity or epsilon that is not above 0 (DPR606).
        """
        object.__setattr__(self, "domain", self._taken(domain))
        object.__setattr__(self, "scale", float_scale(scale))
        object.__setattr__(self, "sensitivity", optional(sensitivity, "sensitivity"))
        object.__setattr__(self, "epsilon", optional(epsilon, "epsilon"))

    @staticmethod
    def _taken(domain: object) -> Domain:
        """Return the domain, or refuse it."""
        return check_domain(domain)

    def _loss_of(self, sensitivity: Fraction) -> Fraction:
        """Return the loss that a grid law may have for this sensitivity: linear, unless a proof says less."""
        return sensitivity / Fraction(self.scale)

    def _sensitivity_and_loss(
        self, sensitivity: Number | None
    ) -> tuple[Fraction | None, Fraction | None]:
        """Return the sensitivity and the loss of a grid law: those it was made for, or of a given sensitivity."""
        distance = optional(sensitivity, "sensitivity") or self.sensitivity
        if distance is not None and (self.epsilon is None or sensitivity is not None):
            return distance, self._loss_of(distance)
        return distance, self.epsilon

    def on_grid(self, step: Number, *, sensitivity: Number | None = None) -> UnitLaw:
        """Return the certified integer law on multiples of `step` (see `unit_law.on_grid`)."""
        return on_grid(self.domain, step, *self._sensitivity_and_loss(sensitivity), self.grid_laws)
