"""Stochastic sign: the sign of a noisy number, one bit.

Y = +1 with probability Phi(q / scale), else -1.

Privacy. The sign is a function of the noisy value, so it costs at most what the normal noise
costs: D^2 / (2 scale^2)-zCDP and (D / scale)-GDP for sensitivity D. The ratio of the probabilities
is unbounded over all answers, so there is no pure guarantee.

Place    Gaussian kernel, mapped by its sign; form `forms/gaussian_release.py`.
Theorem  `docs/theory/kernels-and-boundaries.md#stochastic-sign`.
Erratum  `docs/theory/errata.md#hu-et-al`.
Units    scale, sensitivity, locations: the statistic's unit; rho in nats.
Sources  Jin et al., stochastic-sign SGD, as used in [BS] Hu et al. (per-instance accounting with
         bounded support).
Limits   curves are float64; `on_grid(step)` is what is drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import Number, positive
from dprelease.mechanisms.arguments import FloatArray, IntArray, float_scale
from dprelease.mechanisms.forms.gaussian_release import GaussianRelease, NoPureLaw
from dprelease.mechanisms.kernels.normal_pieces import gaussian_delta, normal_tails
from dprelease.mechanisms.rectified_gaussian import gaussian_rho


@dataclass(frozen=True, slots=True, init=False)
class StochasticSign(NoPureLaw):
    """The sign of the answer plus normal noise of `scale`."""

    family: ClassVar[str] = "stochastic_sign"

    scale: float

    def __init__(self, *, scale: Number) -> None:
        """Build the mechanism from its scale.

        Raises:
            ArgumentError: a scale that is not above 0 (DPR606).
        """
        object.__setattr__(self, "scale", float_scale(scale))

    def loss(self, *, sensitivity: Number) -> float:
        """Return infinity: far from zero, one bit's odds change without bound."""
        positive(sensitivity, "sensitivity")
        return math.inf

    def delta(self, *, epsilon: Number, sensitivity: Number) -> float:
        """Return the normal noise's hockey-stick divergence: attained by the sign at its worst."""
        budget = float(positive(epsilon, "epsilon", allow_zero=True))
        return gaussian_delta(self.gdp(sensitivity), budget)

    def gdp(self, sensitivity: Number) -> float:
        """Return mu = sensitivity / scale, rounded up."""
        return float(positive(sensitivity, "sensitivity")) / self.scale * (1 + 2.0**-50)

    def zcdp(self, sensitivity: Number) -> float:
        """Return rho = sensitivity^2 / (2 scale^2), rounded up."""
        return gaussian_rho(float(positive(sensitivity, "sensitivity")), self.scale)

    def point_masses(self, location: npt.ArrayLike) -> dict[float, FloatArray]:
        """Return {-1: P(Y = -1), 1: P(Y = 1)}, each to full relative precision."""
        q = _finite(location)
        tail = normal_tails(np.abs(q), self.scale)[0]
        positive_ = np.where(q >= 0, 1 - tail, tail)
        return {-1.0: np.where(q >= 0, tail, 1 - tail), 1.0: positive_}

    def pmf(self, x: npt.ArrayLike, location: npt.ArrayLike) -> FloatArray:
        """Return P(Y = x), broadcast; 0 unless x is -1 or 1."""
        points, q = np.broadcast_arrays(np.asarray(x, dtype=np.float64), _finite(location))
        both = self.point_masses(q)
        return np.where(points == 1, both[1.0], np.where(points == -1, both[-1.0], 0.0))

    def pdf(self, x: npt.ArrayLike, location: npt.ArrayLike) -> FloatArray:
        """Return the density of the continuous part: there is none; see `pmf`."""
        points, q = np.broadcast_arrays(np.asarray(x, dtype=np.float64), _finite(location))
        return np.zeros(np.broadcast_shapes(points.shape, q.shape))

    def cdf(self, x: npt.ArrayLike, location: npt.ArrayLike) -> FloatArray:
        """Return P(Y <= x), broadcast."""
        points, q = np.broadcast_arrays(np.asarray(x, dtype=np.float64), _finite(location))
        return np.where(points >= 1, 1.0, np.where(points >= -1, self.point_masses(q)[-1.0], 0.0))

    def mean(self, location: npt.ArrayLike) -> FloatArray:
        """Return P(Y = 1) - P(Y = -1) per location."""
        q = _finite(location)
        tail = normal_tails(np.abs(q), self.scale)[0]
        out: FloatArray = np.sign(q) * (1 - 2 * tail)
        return out

    def variance(self, location: npt.ArrayLike) -> FloatArray:
        """Return 4 P(Y = 1) P(Y = -1) per location."""
        both = self.point_masses(location)
        out: FloatArray = 4 * both[1.0] * both[-1.0]
        return out

    def on_grid(self, step: Number) -> GaussianRelease:
        """Return the exact release: the sign of a grid answer plus discrete Gaussian noise.

        The answer stands for the middle of its cell [k step, (k + 1) step), so that no noisy
        value is zero and -q is treated as q is: positive exactly when k + noise >= 0.

        Raises:
            ArgumentError: the step is below scale / 4096 (DPR624).
        """

        def finish(raw: IntArray, size: Fraction) -> npt.NDArray[np.float64]:
            del size
            return np.where(raw >= 0, 1.0, -1.0)

        return GaussianRelease.of_scale(
            self.scale, step, (-math.inf, math.inf), finish, rounding=Fraction(0)
        )


def _finite(location: npt.ArrayLike) -> FloatArray:
    q = np.asarray(location, dtype=np.float64)
    if not np.isfinite(q).all():
        raise ArgumentError(
            "a location is NaN or infinite", fix="give finite numbers", code="DPR630"
        )
    return q
