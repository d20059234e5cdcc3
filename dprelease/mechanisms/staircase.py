"""Staircase noise with an optimal remap: the most accurate pure-DP law for one scalar.

Continuous form: the noise density falls by e^-epsilon per `sensitivity`, in steps, the first
step ending at gamma * sensitivity; then the nearest allowed point. On a grid (`on_grid`, what is
drawn) the first step j is chosen by price and the remap is a posterior median or mean.

Privacy. Any distance up to the sensitivity crosses at most one step: loss exactly epsilon. The remap
acts on the noisy value. **Scalars only**: the loss is a full epsilon for *every* distance above 0,
so on a vector the coordinates add up to several epsilon (`grid_laws` refuses `splits`).

Place    staircase kernel, boundary remapped; form `forms/additive.py`.
Theorem  `docs/theory/kernels-and-boundaries.md#staircase`, `#remaps`;
         `docs/theory/certificates.md#additive-noise`.
Erratum  none known.
Units    sensitivity, locations: the domain's unit; epsilon in nats; gamma in (0, 1).
Sources  Geng & Viswanath, "The optimal mechanism in differential privacy": shape, and
         gamma = 1 / (1 + e^(epsilon / 2)) for absolute error; grid and remap:
         `docs/theory/kernels-and-boundaries.md#staircase`. Compared with the linear-programming
         optimum: `benchmarks/results/utility.md`.
Limits   curves are float64 and describe the nearest map. epsilon >= 2**-14 on a grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import Number, positive, ranking
from dprelease.mechanisms.arguments import FloatArray, as_float, capped, check_domain
from dprelease.mechanisms.boundaries.nearest import Clamped
from dprelease.mechanisms.forms.additive import AdditiveLaw
from dprelease.mechanisms.kernels.staircase import EPSILON_FLOOR, StaircaseNoise
from dprelease.mechanisms.law import GridLaw, GridRequest, Loss
from dprelease.mechanisms.unit_law import UnitLaw, on_grid
from dprelease.schema.domain import Domain


@dataclass(frozen=True, slots=True)
class _StaircaseTails:
    width: float
    epsilon: float
    gamma: float

    def _parts(self, t: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the density at t and the distance from t to the end of its step."""
        level = np.maximum(np.floor(t / self.width - self.gamma) + 1, 0.0)
        rest = -math.expm1(-self.epsilon)
        norm = 2 * self.width * (self.gamma + (1 - rest) / rest)
        gap = (self.gamma + level) * self.width - t
        return np.exp(-self.epsilon * level) / norm, gap

    def density(self, distance: FloatArray) -> FloatArray:
        return self._parts(distance)[0]

    def tails(self, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        here, n = self._parts(t)
        w, rho, rest = self.width, math.exp(-self.epsilon), -math.expm1(-self.epsilon)
        g0, g1, g2 = 1 / rest, rho / rest**2, rho * (1 + rho) / rest**3
        mass = here * (n + w * rho * g0)
        first = here * (n * n / 2 + rho * w * ((n + w / 2) * g0 + w * g1))
        start2 = n * n * g0 + 2 * n * w * g1 + w * w * g2
        second = here * (n**3 / 3 + rho * w * (start2 + w * (n * g0 + w * g1) + w * w / 3 * g0))
        return mass, first, second + 2 * t * first


@dataclass(frozen=True, slots=True, init=False)
class Staircase(Clamped):
    """Staircase noise for `sensitivity` at `epsilon`, mapped to the nearest point of `domain`."""

    domain: Domain
    sensitivity: Fraction
    epsilon: Fraction
    gamma: float

    def __init__(
        self,
        domain: Domain,
        *,
        sensitivity: Number | None = None,
        epsilon: Number | None = None,
        scale: Number | None = None,
        gamma: float | None = None,
    ) -> None:
        """Build from two of `sensitivity`, `epsilon` and `scale` = sensitivity / epsilon.

        `gamma` defaults to 1 / (1 + e^(epsilon / 2)), the best for absolute error.

        Raises:
            ArgumentError: not a Domain (DPR629), numbers not above 0 (DPR606), not exactly two
                of the three (DPR636), or gamma outside (0, 1] (DPR688).
        """
        check_domain(domain)
        if sum(v is not None for v in (sensitivity, epsilon, scale)) != 2:
            raise ArgumentError(
                "a staircase needs two of sensitivity, epsilon and scale",
                why="its steps are as wide as the sensitivity; scale = sensitivity / epsilon",
                fix="use Staircase.calibrate(domain, sensitivity=..., epsilon=...)",
                code="DPR636",
            )
        if sensitivity is None:
            distance = positive(epsilon, "epsilon") * positive(scale, "scale")
        else:
            distance = positive(sensitivity, "sensitivity")
        budget = (
            distance / positive(scale, "scale") if epsilon is None else positive(epsilon, "epsilon")
        )
        as_float(distance, "sensitivity")
        first = (
            1 / (1 + math.exp(min(as_float(budget, "epsilon") / 2, 700.0)))
            if gamma is None
            else gamma
        )
        if not 0 < first <= 1:
            raise ArgumentError("gamma lies in (0, 1]", fix="leave it out", code="DPR688")
        object.__setattr__(self, "domain", domain)
        object.__setattr__(self, "sensitivity", distance)
        object.__setattr__(self, "epsilon", budget)
        object.__setattr__(self, "gamma", first)

    @classmethod
    def calibrate(cls, domain: Domain, *, sensitivity: Number, epsilon: Number) -> Staircase:
        """Return the mechanism whose loss for `sensitivity` is `epsilon`.

        Raises:
            ArgumentError: invalid numbers (DPR605, DPR606) or not a Domain (DPR629).
        """
        distance, budget = positive(sensitivity, "sensitivity"), positive(epsilon, "epsilon")
        capped_sensitivity = capped(check_domain(domain), distance) or distance
        return cls(domain, sensitivity=capped_sensitivity, epsilon=budget)

    @property
    def scale(self) -> float:
        """sensitivity / epsilon, in the domain's unit."""
        return float(self.sensitivity / self.epsilon)

    @property
    def _noise(self) -> _StaircaseTails:
        return _StaircaseTails(float(self.sensitivity), float(self.epsilon), self.gamma)

    def loss(self, *, sensitivity: Number) -> float:
        """Return epsilon * ceil(min(sensitivity, width) / own sensitivity), in nats."""
        capped_sensitivity = capped(self.domain, positive(sensitivity, "sensitivity"))
        return float(self.epsilon * -(-capped_sensitivity // self.sensitivity))

    def on_grid(self, step: Number, *, loss: Loss = "absolute") -> UnitLaw:
        """Return the certified law: best first step, posterior remap for `loss`.

        `loss` is "absolute" or "squared". See `unit_law.on_grid` for errors.
        """
        return on_grid(self.domain, step, self.sensitivity, self.epsilon, self.grid_laws, loss=loss)

    @classmethod
    def grid_laws(cls, request: GridRequest) -> list[GridLaw]:
        """Return the best of a few first steps j, or nothing where it is not admissible."""
        if not request.point_masses or request.splits or request.epsilon < EPSILON_FLOOR:
            return []
        laws = [
            AdditiveLaw.build(
                "staircase",
                request,
                StaircaseNoise.calibrate(request.capped_sensitivity, request.epsilon, j),
            )
            for j in _first_steps(request.capped_sensitivity, float(request.epsilon))
        ]
        return [min(laws, key=lambda law: ranking(law.expected_error().by(request.criterion)))]

    @classmethod
    def grid_law_from_json(cls, value: dict[str, Any]) -> GridLaw:
        """Rebuild the grid law."""
        return AdditiveLaw.with_noise(value, StaircaseNoise)


def _first_steps(width: int, epsilon: float) -> list[int]:
    """Return the first steps worth pricing: around width / (1 + e^(epsilon/2)); 1, half, width."""
    if width <= 8:
        return list(range(1, width + 1))
    best = width / (1 + math.exp(min(epsilon / 2, 700.0)))
    tries = {1, width // 2, width, *(round(best * factor) for factor in (0.7, 0.85, 1.0, 1.2, 1.5))}
    return sorted({min(max(j, 1), width) for j in tries})
