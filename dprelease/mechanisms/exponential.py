"""The exponential mechanism: choose an output with chance proportional to e^(-rate * score).

Two uses:

* `Exponential.for_scores(candidates, spread=..., epsilon=...)`: a finite set of candidates with
  integer scores, drawn exactly (`forms/scores.py`). Quantiles use it with ranks as scores.
* `Exponential.calibrate(domain, ...)`: a number, with score |y - q|: the density is proportional
  to e^(-|y - q| / b) on the domain, b = 2 sensitivity / epsilon.

Privacy. For a number the score moves by at most the sensitivity either way, and so does the log of
the normaliser: 2 sensitivity / b = epsilon, for every domain, gaps included, for all pairs.
Bounded Laplace is the same law at an exactly calibrated, always smaller scale; hence the planner
never needs this one for a number and `grid_laws` offers nothing.

Place    no noise: scores; form `forms/scores.py`.
Theorem  `docs/theory/kernels-and-boundaries.md#exponential-mechanism`;
         `docs/theory/certificates.md#scores`.
Erratum  none known.
Units    sensitivity, scale, locations: the domain's unit; epsilon in nats.
Sources  McSherry & Talwar, "Mechanism design via differential privacy".
Limits   a number's domain may be infinite; its grid must be finite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dprelease.core.numeric import Number, positive
from dprelease.mechanisms.arguments import capped, least_scale
from dprelease.mechanisms.bounded_laplace import TruncatedLaplace
from dprelease.mechanisms.certifiers.table_laplace import BoundedLaplaceLaw
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.mechanisms.law import GridLaw, GridRequest
from dprelease.mechanisms.unit_law import UnitLaw, on_grid
from dprelease.schema.domain import Domain


@dataclass(frozen=True, slots=True, init=False)
class Exponential(TruncatedLaplace):
    """Score |y - q| on `domain`, `scale` in the domain's unit."""

    def _loss_of(self, sensitivity: Fraction) -> Fraction:
        return 2 * sensitivity / Fraction(self.scale)

    @classmethod
    def calibrate(cls, domain: Domain, *, sensitivity: Number, epsilon: Number) -> Exponential:
        """Return the mechanism with scale 2 min(sensitivity, width) / epsilon, rounded up.

        Raises:
            ArgumentError: invalid numbers (DPR605, DPR606) or domain (DPR629, DPR632).
        """
        cls(domain, scale=1)
        distance, budget = positive(sensitivity, "sensitivity"), positive(epsilon, "epsilon")
        scale = least_scale(2 * capped(domain, distance), budget)
        return cls(domain, scale=scale, sensitivity=distance, epsilon=budget)

    @staticmethod
    def for_scores(candidates: int, *, spread: int, epsilon: Number) -> ScoreLaw:
        """Return the exact exponential mechanism over `candidates` with integer scores; see `ScoreLaw.calibrate`."""
        return ScoreLaw.calibrate(candidates, spread=spread, epsilon=epsilon)

    def on_grid(self, step: Number, *, sensitivity: Number | None = None) -> UnitLaw:
        """Return the certified integer law on multiples of `step` (see `unit_law.on_grid`).

        It is the table of bounded Laplace at this mechanism's wider scale.
        """
        distance, budget = self._sensitivity_and_loss(sensitivity)

        def build(request: GridRequest) -> list[GridLaw]:
            rate = float(request.epsilon) / (2 * request.capped_sensitivity)
            p = max(1, min(2**60, math.ceil(math.ldexp(math.exp(-rate), 60))))
            law = BoundedLaplaceLaw(
                request.allowed, request.sensitivity, request.epsilon, request.loss, p
            )
            return [law] if law.certificate.epsilon_upper <= request.epsilon else []

        return on_grid(self.domain, step, distance, budget, build)

    @classmethod
    def grid_law_from_json(cls, value: dict[str, Any]) -> ScoreLaw:
        """Rebuild the exponential mechanism over scores."""
        return ScoreLaw.from_json(value)
