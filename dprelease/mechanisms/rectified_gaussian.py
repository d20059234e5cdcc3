"""Rectified Gaussian: normal noise, then the nearest allowed point. Borders and gaps carry point masses.

Privacy. The map acts on the noisy value, so it is post-processing for every allowed set: for
sensitivity D the mechanism is (D / scale)-GDP and D^2 / (2 scale^2)-zCDP, whatever the borders and
gaps. It has no pure guarantee, so it is not a member of `grid_laws`.

Place    Gaussian kernel, boundary clamped to the nearest; form `forms/gaussian_release.py`.
Theorem  `docs/theory/kernels-and-boundaries.md#rectified-laws`, `#discrete-gaussian`.
Erratum  `docs/theory/errata.md#hu-et-al`.
Units    scale, sensitivity, locations: the domain's unit; epsilon and rho in nats.
Sources  [BS] Hu, Mahloujifar, Smith, Chaudhuri & Guo on per-instance accounting with bounded support
         (its rectified mechanism); Gaussian DP: Dong, Roth & Su, "Gaussian Differential Privacy".
Limits   needs point masses to be allowed. Curves are float64; `on_grid(step)` is what is drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.core.numeric import Number, positive
from dprelease.mechanisms.arguments import (
    FloatArray,
    IntArray,
    capped,
    check_domain,
    check_locations,
    float_scale,
)
from dprelease.mechanisms.boundaries.nearest import Clamped
from dprelease.mechanisms.forms.gaussian_release import GaussianRelease, NoPureLaw
from dprelease.mechanisms.kernels.normal_pieces import gaussian_delta, normal_tails
from dprelease.schema.domain import Domain

_UP = 1 + 2.0**-50


@dataclass(frozen=True, slots=True)
class NormalTails:
    """Normal noise, as `nearest` wants it."""

    scale: float

    def density(self, distance: FloatArray) -> FloatArray:
        z = distance / self.scale
        out: FloatArray = np.exp(-z * z / 2) / (self.scale * math.sqrt(2 * math.pi))
        return out

    def tails(self, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        return normal_tails(t, self.scale)


@dataclass(frozen=True, slots=True, init=False)
class RectifiedGaussian(Clamped, NoPureLaw):
    """Normal noise of `scale`, mapped to the nearest point of `domain`."""

    family: ClassVar[str] = "rectified_gaussian"

    domain: Domain
    scale: float

    def __init__(self, domain: Domain, *, scale: Number) -> None:
        """Build the mechanism from its scale.

        Raises:
            ArgumentError: not a Domain (DPR629) or a scale that is not above 0 (DPR606).
        """
        object.__setattr__(self, "domain", check_domain(domain))
        object.__setattr__(self, "scale", float_scale(scale))

    @property
    def _noise(self) -> NormalTails:
        return NormalTails(self.scale)

    def _distance(self, sensitivity: Number) -> float:
        return float(capped(self.domain, positive(sensitivity, "sensitivity")))

    def loss(self, *, sensitivity: Number) -> float:
        """Return infinity: normal noise bounds no likelihood ratio (0 for a single point)."""
        return math.inf if self._distance(sensitivity) > 0 else 0.0

    def delta(self, *, epsilon: Number, sensitivity: Number) -> float:
        """Return the normal noise's hockey-stick divergence: an upper bound after the map."""
        mu = self.gdp(sensitivity)
        budget = float(positive(epsilon, "epsilon", allow_zero=True))
        return gaussian_delta(mu, budget) if mu > 0 else 0.0

    def gdp(self, sensitivity: Number) -> float:
        """Return mu = min(sensitivity, width) / scale, rounded up."""
        return self._distance(sensitivity) / self.scale * _UP

    def zcdp(self, sensitivity: Number) -> float:
        """Return rho = min(sensitivity, width)^2 / (2 scale^2), rounded up."""
        return gaussian_rho(self._distance(sensitivity), self.scale)

    def point_masses(self, location: npt.ArrayLike) -> dict[float, FloatArray]:
        """Return {point: probability of exactly that point}, vectorised over locations.

        The points are the finite ends of every allowed interval.
        """
        q = check_locations(self.domain, location)
        noise, pieces = self._noise, self.domain.pieces
        out: dict[float, FloatArray] = {}
        for i, (a, b) in enumerate(pieces):
            left = (pieces[i - 1][1] + a) / 2 if i else -math.inf
            right = (b + pieces[i + 1][0]) / 2 if i + 1 < len(pieces) else math.inf
            for point, low, high in ((a, left, a), (b, b, right)):
                if math.isfinite(point):
                    out[point] = out.get(point, np.zeros(q.shape)) + _between(noise, q, low, high)
        return out

    def on_grid(self, step: Number) -> GaussianRelease:
        """Return the exact integer release on multiples of `step`, with a rational zCDP cost.

        Raises:
            ArgumentError: the domain is infinite (DPR603), holds no grid point (DPR604), or the
                step is below scale / 4096 (DPR624).
        """
        allowed = self.domain.on_grid(positive(step, "step"))

        def finish(raw: IntArray, size: Fraction) -> npt.NDArray[np.float64]:
            return np.array([float(int(k) * size) for k in allowed.nearest(raw)])

        ends = self.domain.exact_pieces[0][0], self.domain.exact_pieces[-1][1]
        return GaussianRelease.of_scale(self.scale, step, ends, finish)


def gaussian_rho(distance: float, scale: float) -> float:
    """Return distance^2 / (2 scale^2), rounded up."""
    return (distance / scale) ** 2 / 2 * _UP


def _between(noise: NormalTails, q: FloatArray, low: float, high: float) -> FloatArray:
    """Return P(low <= q + N <= high), from the tail that does not cancel."""

    def beyond(edge: FloatArray) -> FloatArray:
        finite = np.where(np.isfinite(edge), edge, 0.0)
        inner = noise.tails(np.abs(finite))[0]
        tail = np.where(finite >= 0, inner, 1 - inner)
        return np.where(np.isfinite(edge), tail, np.where(edge > 0, 0.0, 1.0))

    a, b = low - q, high - q
    out: FloatArray = np.where(a >= 0, beyond(a) - beyond(b), beyond(-b) - beyond(-a))
    return out
