"""Rectified Laplace: Laplace noise, then the nearest allowed point.

Y = nearest allowed point of q + Lap(b). Borders and gap edges carry atoms.

Privacy. Laplace noise loses sensitivity / b; the map acts on the noisy value, so it is
post-processing, for every allowed set, with no re-calibration: b = sensitivity / epsilon. The
loss is linear in the shift, so the law also serves vectors and groups, whatever the split.

Place    Laplace kernel, boundary clamped to the nearest; form `forms/additive.py`.
Theorem  `docs/theory/kernels-and-boundaries.md#rectified-laws`;
         `docs/theory/certificates.md#additive-noise`.
Erratum  none known.
Units    scale, sensitivity, locations: the domain's unit; epsilon in nats.
Sources  Dwork, McSherry, Nissim & Smith, "Calibrating noise to sensitivity in private data
         analysis"; `docs/theory/kernels-and-boundaries.md#rectified-laws`.
Limits   needs spikes to be allowed. Curves are float64; `on_grid(step)` is what is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.mechanisms.arguments import (
    FloatArray,
    as_float,
    check_domain,
    check_locations,
    float_scale,
    optional,
)
from dprelease.mechanisms.boundaries import nearest
from dprelease.mechanisms.forms.additive import AdditiveLaw
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.law import GridLaw, GridRequest
from dprelease.mechanisms.unit_law import UnitLaw, on_grid
from dprelease.numeric import positive
from dprelease.schema.domain import Domain

__all__ = ["RectifiedLaplace"]


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
class RectifiedLaplace:
    """Laplace noise of `scale`, mapped to the nearest point of `domain`."""

    domain: Domain
    scale: float
    sensitivity: Fraction | None
    epsilon: Fraction | None

    def __init__(
        self, domain: Domain, *, scale: object, sensitivity: object = None, epsilon: object = None
    ) -> None:
        """Build the mechanism from its scale.

        Raises:
            ArgumentError: not a Domain (DPR629) or a scale that is not above 0 (DPR606).
        """
        object.__setattr__(self, "domain", check_domain(domain))
        object.__setattr__(self, "scale", float_scale(scale))
        object.__setattr__(self, "sensitivity", optional(sensitivity, "sensitivity"))
        object.__setattr__(self, "epsilon", optional(epsilon, "epsilon"))

    @classmethod
    def calibrate(cls, domain: Domain, *, sensitivity: object, epsilon: object) -> RectifiedLaplace:
        """Return the mechanism with scale min(sensitivity, width) / epsilon, rounded up.

        Raises:
            ArgumentError: invalid numbers (DPR605, DPR606) or not a Domain (DPR629).
        """
        check_domain(domain)
        shift, budget = positive(sensitivity, "sensitivity"), positive(epsilon, "epsilon")
        width = domain.width
        reach = min(shift, width) if isinstance(width, Fraction) and width > 0 else shift
        scale = as_float(reach / budget, "sensitivity / epsilon")
        while Fraction(scale) * budget < reach:
            scale = float(np.nextafter(scale, np.inf))
        return cls(domain, scale=scale, sensitivity=shift, epsilon=budget)

    @property
    def _noise(self) -> _LaplaceTails:
        return _LaplaceTails(self.scale)

    def loss(self, *, sensitivity: object) -> float:
        """Return min(sensitivity, width) / scale, in nats."""
        shift, width = positive(sensitivity, "sensitivity"), self.domain.width
        reach = min(shift, width) if isinstance(width, Fraction) else shift
        return float(reach / Fraction(self.scale))

    def pdf(self, x: npt.ArrayLike, location: npt.ArrayLike) -> FloatArray:
        """Return the density of the continuous part; the atoms show in `cdf`."""
        return nearest.pdf(self.domain, self._noise, x, check_locations(self.domain, location))

    def cdf(self, x: npt.ArrayLike, location: npt.ArrayLike) -> FloatArray:
        """Return P(Y <= x), atoms included."""
        return nearest.cdf(self.domain, self._noise, x, check_locations(self.domain, location))

    def mean(self, location: npt.ArrayLike) -> FloatArray:
        """Return the mean of the released value per location."""
        return nearest.mean(self.domain, self._noise, check_locations(self.domain, location))

    def variance(self, location: npt.ArrayLike) -> FloatArray:
        """Return the variance of the released value per location (unit squared)."""
        return nearest.variance(self.domain, self._noise, check_locations(self.domain, location))

    def mass(self, location: npt.ArrayLike) -> FloatArray:
        """Return the chance that the noisy value needs no mapping."""
        return nearest.mass(self.domain, self._noise, check_locations(self.domain, location))

    def on_grid(self, step: object, *, sensitivity: object = None) -> UnitLaw:
        """Return the certified integer law on multiples of `step` (see `unit_law.on_grid`)."""
        shift = optional(sensitivity, "sensitivity") or self.sensitivity
        budget = self.epsilon
        if shift is not None and (budget is None or sensitivity is not None):
            budget = shift / Fraction(self.scale)
        return on_grid(self.domain, step, shift, budget, self.grid_laws)

    @classmethod
    def grid_laws(cls, request: GridRequest) -> list[GridLaw]:
        """Return discrete Laplace noise with the nearest map, unless spikes are forbidden."""
        if not request.spikes:
            return []
        noise = DiscreteLaplaceNoise.calibrate(request.reach, request.epsilon)
        return [AdditiveLaw.build("rectified_laplace", request, noise, nearest=True)]

    @classmethod
    def grid_law_from_json(cls, value: dict[str, Any]) -> GridLaw:
        """Rebuild the grid law."""
        return AdditiveLaw.from_json(value, DiscreteLaplaceNoise.from_json(value["noise"]))
