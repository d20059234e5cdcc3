"""Discrete Laplace (two-sided geometric) noise on a grid: for scalars with a remap, for cells bare.

On multiples of `step`, P(d) is proportional to exp(-|d| step / scale), drawn exactly.

* scalars: the noisy integer is mapped into the allowed set by a posterior median or mean
  (`on_grid`); for counts this is the optimal geometric mechanism up to a permille;
* cells: `CellNoise.calibrate(l1_sensitivity, epsilon)` of `forms/vector.py` is bare noise for a vector with that L1 sensitivity.

Privacy. The loss is sensitivity / scale, linear in the sensitivity and exactly rational; remaps are
post-processing. See `kernels/laplace.py`.

Place    Laplace kernel, boundary remapped; forms `forms/additive.py`, `forms/vector.py`.
Theorem  `docs/theory/kernels-and-boundaries.md#discrete-laplace`, `#remaps`;
         `docs/theory/certificates.md#additive-noise`.
Erratum  none known.
Units    scale, step, sensitivity: the domain's unit; cells: grid steps; epsilon in nats.
Sources  Ghosh, Roughgarden & Sundararajan, "Universally utility-maximizing privacy mechanisms";
         [CKS20] Canonne, Kamath & Steinke, arXiv:2004.00010 (sampler).
Limits   `pmf`, `cdf`, `mean`, `variance` describe the nearest map, on at most 2**16 grid points.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dprelease.core.numeric import Number, positive
from dprelease.mechanisms.arguments import (
    check_domain,
    least_scale,
)
from dprelease.mechanisms.forms.additive import AdditiveLaw
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.law import GridLaw, GridRequest, Loss
from dprelease.mechanisms.scaled import Scaled
from dprelease.mechanisms.unit_law import GridCurves, UnitLaw, on_grid
from dprelease.schema.domain import Domain


@dataclass(frozen=True, slots=True, init=False)
class DiscreteLaplace(GridCurves, Scaled):
    """Discrete Laplace noise of `scale` on multiples of `step`, mapped to the nearest point."""

    step: Fraction

    def __init__(
        self,
        domain: Domain,
        *,
        scale: Number,
        step: Number = 1,
        sensitivity: Number | None = None,
        epsilon: Number | None = None,
    ) -> None:
        """Build the mechanism from its scale.

        Raises:
            ArgumentError: not a Domain (DPR629), or a scale or step not above 0 (DPR606).
        """
        Scaled.__init__(self, domain, scale=scale, sensitivity=sensitivity, epsilon=epsilon)
        object.__setattr__(self, "step", positive(step, "step"))

    @classmethod
    def calibrate(
        cls, domain: Domain, *, sensitivity: Number, epsilon: Number, step: Number = 1
    ) -> DiscreteLaplace:
        """Return the mechanism with loss at most `epsilon`: the sensitivity counts whole steps.

        Raises:
            ArgumentError: invalid numbers (DPR605, DPR606) or not a Domain (DPR629).
        """
        check_domain(domain)
        distance, budget = positive(sensitivity, "sensitivity"), positive(epsilon, "epsilon")
        size = positive(step, "step")
        on_grid = -(-distance // size) * size
        scale = least_scale(on_grid, budget)
        return cls(domain, scale=scale, step=size, sensitivity=distance, epsilon=budget)

    def loss(self, *, sensitivity: Number) -> float:
        """Return ceil(sensitivity / step) * step / scale, in nats."""
        distance = positive(sensitivity, "sensitivity")
        return float(-(-distance // self.step) * self.step / Fraction(self.scale))

    @property
    def _grid_law(self) -> UnitLaw:
        noise = DiscreteLaplaceNoise.calibrate(1, self.step / Fraction(self.scale))
        request = GridRequest(self.domain.on_grid(self.step), 1, Fraction(1))
        law = AdditiveLaw.build("discrete_laplace", request, noise, nearest=True)
        return UnitLaw(law, self.step)

    def on_grid(
        self,
        step: Number | None = None,
        *,
        sensitivity: Number | None = None,
        loss: Loss = "absolute",
    ) -> UnitLaw:
        """Return the certified law, with the posterior remap for `loss` (absolute or squared).

        `step` defaults to the mechanism's own. See `unit_law.on_grid` for errors.
        """
        distance, budget = self._sensitivity_and_loss(sensitivity)
        size = self.step if step is None else step
        return on_grid(self.domain, size, distance, budget, self.grid_laws, loss=loss)

    @classmethod
    def grid_laws(cls, request: GridRequest) -> list[GridLaw]:
        """Return the noise with the best remap, unless point masses are forbidden."""
        if not request.point_masses:
            return []
        noise = DiscreteLaplaceNoise.calibrate(request.capped_sensitivity, request.epsilon)
        return [AdditiveLaw.build("discrete_laplace", request, noise)]

    @classmethod
    def grid_law_from_json(cls, value: dict[str, Any]) -> GridLaw:
        """Rebuild the grid law."""
        return AdditiveLaw.with_noise(value, DiscreteLaplaceNoise)
