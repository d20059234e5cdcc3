"""Rectified Laplace: Laplace noise, then the nearest allowed point.

Y = nearest allowed point of q + Lap(b). Borders and gap edges carry point masses.

Privacy. Laplace noise loses sensitivity / b; the map acts on the noisy value, so it is
post-processing, for every allowed set, with no re-calibration: b = sensitivity / epsilon. The
loss is linear in the sensitivity, so the law also serves vectors and groups, whatever the split.

Place    Laplace kernel, boundary clamped to the nearest; form `forms/additive.py`.
Theorem  `docs/theory/kernels-and-boundaries.md#rectified-laws`;
         `docs/theory/certificates.md#additive-noise`.
Erratum  none known.
Units    scale, sensitivity, locations: the domain's unit; epsilon in nats.
Sources  Dwork, McSherry, Nissim & Smith, "Calibrating noise to sensitivity in private data
         analysis"; `docs/theory/kernels-and-boundaries.md#rectified-laws`.
Limits   needs point masses to be allowed. Curves are float64; `on_grid(step)` is what is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dprelease.core.numeric import Number, positive
from dprelease.mechanisms.arguments import (
    FloatArray,
    capped,
    check_domain,
    least_scale,
)
from dprelease.mechanisms.boundaries.nearest import Clamped
from dprelease.mechanisms.forms.additive import AdditiveLaw
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.law import GridLaw, GridRequest
from dprelease.mechanisms.scaled import Scaled
from dprelease.schema.domain import Domain


@dataclass(frozen=True, slots=True)
class _LaplaceTails:
    scale: float

    def density(self, distance: FloatArray) -> FloatArray:
        out: FloatArray = np.exp(-distance / self.scale) / (2 * self.scale)
        return out

    def tails(self, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        beyond: FloatArray = np.exp(-t / self.scale) / 2
        return beyond, self.scale * beyond, 2 * self.scale * (t + self.scale) * beyond


@dataclass(frozen=True, slots=True, init=False)
class RectifiedLaplace(Clamped, Scaled):
    """Laplace noise of `scale`, mapped to the nearest point of `domain`."""

    @classmethod
    def calibrate(cls, domain: Domain, *, sensitivity: Number, epsilon: Number) -> RectifiedLaplace:
        """Return the mechanism with scale min(sensitivity, width) / epsilon, rounded up.

        Raises:
            ArgumentError: invalid numbers (DPR605, DPR606) or not a Domain (DPR629).
        """
        check_domain(domain)
        distance, budget = positive(sensitivity, "sensitivity"), positive(epsilon, "epsilon")
        scale = least_scale(capped(domain, distance) or distance, budget)
        return cls(domain, scale=scale, sensitivity=distance, epsilon=budget)

    @property
    def _noise(self) -> _LaplaceTails:
        return _LaplaceTails(self.scale)

    def loss(self, *, sensitivity: Number) -> float:
        """Return min(sensitivity, width) / scale, in nats."""
        capped_sensitivity = capped(self.domain, positive(sensitivity, "sensitivity"))
        return float(capped_sensitivity / Fraction(self.scale))

    @classmethod
    def grid_laws(cls, request: GridRequest) -> list[GridLaw]:
        """Return discrete Laplace noise with the nearest map, unless point masses are forbidden."""
        if not request.point_masses:
            return []
        noise = DiscreteLaplaceNoise.calibrate(request.capped_sensitivity, request.epsilon)
        return [AdditiveLaw.build("rectified_laplace", request, noise, nearest=True)]

    @classmethod
    def grid_law_from_json(cls, value: dict[str, Any]) -> GridLaw:
        """Rebuild the grid law."""
        return AdditiveLaw.with_noise(value, DiscreteLaplaceNoise)
