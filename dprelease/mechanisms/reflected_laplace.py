"""Reflected (folded) Laplace: noise that bounces off the ends of an interval. No point masses.

    p_q(x) = cosh((min(x, q) - l) / b) cosh((u - max(x, q)) / b) / (b sinh((u - l) / b)),

the sum of the Laplace density over all mirror images of x at the ends. On a half-line it is |Lap|
around the end. Among laws without point masses it is the most accurate for sensitivities up to about a
fifth of the width; unlike a truncated law its normaliser does not depend on q.

Privacy. Folding is post-processing, so sensitivity / b is an upper bound; the exact loss is

    log cosh(w / b) - log cosh((w - sensitivity) / b)  <=  sensitivity / b,       w = u - l:

for q < q' the ratio is cosh((u-q)/b) / cosh((u-q')/b) left of q, its mirror image right of q', and
in between between the two; log cosh is convex, so the worst pair starts at an end. The scale is
calibrated on this exact loss, which increases in 1/b.

Place    Laplace kernel, reflecting boundary; form `forms/reflected.py`.
Theorem  `docs/theory/kernels-and-boundaries.md#reflected-laplace`;
         `docs/theory/certificates.md#reflected-noise`.
Erratum  none known.
Units    scale, sensitivity, locations: the domain's unit; epsilon in nats.
Sources  `docs/theory/kernels-and-boundaries.md#reflected-laplace`; method of images, elementary.
Limits   one interval, finite or not. Curves are float64; `on_grid(step)` is what is drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import Number, positive
from dprelease.mechanisms.arguments import (
    FloatArray,
    as_float,
    check_domain,
    check_locations,
)
from dprelease.mechanisms.forms.reflected import ReflectedLaplaceLaw, drawable
from dprelease.mechanisms.law import GridLaw, GridRequest
from dprelease.mechanisms.scaled import Scaled
from dprelease.schema.domain import Domain


@dataclass(frozen=True, slots=True, init=False)
class ReflectedLaplace(Scaled):
    """Laplace noise of `scale`, reflected at the ends of `domain` (one interval)."""

    @staticmethod
    def _taken(domain: object) -> Domain:
        found = check_domain(domain)
        if len(found.exact_pieces) > 1 or found.width == 0:
            raise ArgumentError(
                "reflected Laplace needs one interval of positive width",
                why="a reflected draw would land inside a forbidden interval",
                fix="use bounded_laplace for domains with gaps",
                code="DPR680",
            )
        return found

    def _loss_of(self, sensitivity: Fraction) -> Fraction:
        return Fraction(self.loss(sensitivity=sensitivity))

    @classmethod
    def calibrate(cls, domain: Domain, *, sensitivity: Number, epsilon: Number) -> ReflectedLaplace:
        """Return the mechanism of smallest scale whose loss is verified to be within epsilon.

        Raises:
            ArgumentError: invalid numbers (DPR605, DPR606), not a Domain (DPR629), or not one
                interval (DPR680).
        """
        probe = cls(domain, scale=1)
        distance, budget = positive(sensitivity, "sensitivity"), positive(epsilon, "epsilon")
        goal = as_float(budget, "epsilon")
        width = probe._width
        capped = min(as_float(distance, "sensitivity"), width)
        # In 1/b: loss <= capped / b and loss >= capped / b - log 2.
        low, high = goal / capped, (goal + math.log(2)) / capped
        target = goal * (1 - 2.0**-43)  # leaves room for the float evaluation of the loss
        if _loss(width, capped, high) <= target:
            low = high
        for _ in range(200):
            middle = (low + high) / 2
            if not low < middle < high:
                break
            if _loss(width, capped, middle) <= target:
                low = middle
            else:
                high = middle
        low = min(low, high)
        while _loss(width, capped, low) > target:
            low *= 1 - 2.0**-44
        return cls(domain, scale=1 / low, sensitivity=distance, epsilon=budget)

    @property
    def _width(self) -> float:
        return float(self.domain.width)

    def loss(self, *, sensitivity: Number) -> float:
        """Return the exact worst-case loss, in nats (float64 evaluation)."""
        distance = as_float(positive(sensitivity, "sensitivity"), "sensitivity")
        return _loss(self._width, min(distance, self._width), 1 / self.scale)

    def _parts(self, q: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Return distances to the lower and upper end, and the width, in scales."""
        low, high = self.domain.hull
        return (q - low) / self.scale, (high - q) / self.scale, self._width / self.scale

    def pdf(self, x: npt.ArrayLike, location: npt.ArrayLike) -> FloatArray:
        """Return the density, vectorised over `x` and `location` (broadcast); 0 outside.

        Raises:
            ArgumentError: a location outside the domain (DPR630).
        """
        q = check_locations(self.domain, location)
        points, q = np.broadcast_arrays(np.asarray(x, dtype=np.float64), q)
        inside = self.domain.contains(points)
        at = np.where(inside, points, q)
        left = self._parts(np.minimum(at, q))[0]
        _, right, width = self._parts(np.maximum(at, q))
        direct = np.exp(-np.abs(at - q) / self.scale) / (2 * self.scale)
        images = (1 + np.exp(-2 * left)) * (1 + np.exp(-2 * right)) / -math.expm1(-2 * width)
        return np.where(inside, direct * images, 0.0)

    def cdf(self, x: npt.ArrayLike, location: npt.ArrayLike) -> FloatArray:
        """Return P(Y <= x), vectorised over `x` and `location`."""
        q = check_locations(self.domain, location)
        points, q = np.broadcast_arrays(np.asarray(x, dtype=np.float64), q)
        low, high = self.domain.hull
        at = np.clip(points, low, high)
        finite = np.where(np.isfinite(at), at, q)
        q_left, q_right, width = self._parts(q)
        x_left, x_right, _ = self._parts(finite)
        decay = np.exp(-np.abs(finite - q) / self.scale) / (2 * -math.expm1(-2 * width))
        below = decay * -np.expm1(-2 * x_left) * (1 + np.exp(-2 * q_right))
        above = decay * -np.expm1(-2 * x_right) * (1 + np.exp(-2 * q_left))
        inner = np.where(finite < q, below, 1 - above)
        return np.where(points >= high, 1.0, np.where(points < low, 0.0, inner))

    def mean(self, location: npt.ArrayLike) -> FloatArray:
        """Return the mean of the released value per location."""
        q = check_locations(self.domain, location)
        up, down = self._sides(q)[0]
        return q + up - down

    def variance(self, location: npt.ArrayLike) -> FloatArray:
        """Return the variance of the released value per location (unit squared)."""
        (up, down), (up2, down2) = self._sides(check_locations(self.domain, location))
        return up2 + down2 - (up - down) ** 2

    def mass(self, location: npt.ArrayLike) -> FloatArray:
        """Return the chance that the noisy value needs no reflection."""
        left, right, _ = self._parts(check_locations(self.domain, location))
        out: FloatArray = 1 - np.exp(-left) / 2 - np.exp(-right) / 2
        return out

    def _sides(
        self, q: FloatArray
    ) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
        """Return E(Y - q)+, E(q - Y)+ and the same with squares."""
        left, right, width = self._parts(q)
        first, second = [], []
        for near, far in ((left, right), (right, left)):
            factor = (1 + np.exp(-2 * near)) / -math.expm1(-2 * width)
            first.append(self.scale * factor * np.expm1(-far) ** 2 / 2)
            second.append(2 * self.scale**2 * factor * _sinh_excess(far))
        return (first[0], first[1]), (second[0], second[1])

    @classmethod
    def grid_laws(cls, request: GridRequest) -> list[GridLaw]:
        """Return the folded noise for one interval; any size, with or without point masses allowed."""
        # The loss is concave in the distance: splits over coordinates would add up to more.
        if request.splits or len(request.allowed.runs) > 1 or not drawable(request):
            return []
        return [ReflectedLaplaceLaw.calibrate(request)]

    @classmethod
    def grid_law_from_json(cls, value: dict[str, Any]) -> GridLaw:
        """Rebuild the grid law."""
        return ReflectedLaplaceLaw.from_json(value)


def _loss(width: float, distance: float, rate: float) -> float:
    """Return log cosh(width rate) - log cosh((width - distance) rate), free of cancellation."""
    k, d = width * rate, distance * rate
    if k < 20:
        rise = 2 * math.sinh(k - d / 2) * math.sinh(d / 2)
        return math.log1p(rise / math.cosh(k - d))
    return d + math.log1p(math.exp(-2 * k)) - math.log1p(math.exp(-2 * (k - d)))


def _sinh_excess(t: FloatArray) -> FloatArray:
    """Return (sinh t - t) e^-t; t may be infinite."""
    small = np.minimum(t, 0.5)
    series = small**3 / 6 * (1 + small**2 / 20 * (1 + small**2 / 42 * (1 + small**2 / 72)))
    big = np.where(np.isfinite(t), np.maximum(t, 0.5), 800.0)
    closed = -np.expm1(-2 * big) / 2 - big * np.exp(-big)
    return np.where(t < 0.5, series * np.exp(-small), closed)
