"""Integrals of e^(-|x - q| / b) over a union of intervals, free of cancellation.

Every allowed interval splits at q into at most two segments of distances [s, e]; each has closed
moments around its own near end s, written with expm1 and a series where they would cancel. All
weights are relative to the nearest segment, so nothing underflows for q deep inside a gap.

Units    those of the domain.
Sources  elementary integrals; checked against mpmath in `tests/reference/laplace.py`.
Limits   float64: for calibration proposals, quotes and plots, never for a draw.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dprelease.mechanisms.arguments import FloatArray
from dprelease.schema.domain import Domain


@dataclass(frozen=True, slots=True)
class Segments:
    """Distances start .. start + length from q on one side, `sign` +1 right or -1 left.

    Attributes:
        sign: shape `(2 * pieces, 1)`.
        start, length: shape `(2 * pieces, locations)`; length <= 0 marks an empty segment.
    """

    sign: FloatArray
    start: FloatArray
    length: FloatArray
    scale: float

    @property
    def nearest(self) -> FloatArray:
        """Distance from q to the nearest segment of positive length, per location."""
        out: FloatArray = np.min(np.where(self.length > 0, self.start, np.inf), axis=0)
        return out

    def _weighted(self) -> tuple[FloatArray, FloatArray]:
        """Return per segment e^(-(its start - nearest) / b) and its length in scales."""
        length = np.maximum(self.length, 0.0)
        near = np.where(length > 0, self.start, np.inf)
        weight = np.where(length > 0, np.exp(-(near - self.nearest) / self.scale), 0.0)
        return weight, length / self.scale

    def masses(self) -> FloatArray:
        """Return the mass of each segment, relative to e^(-nearest / b) b."""
        weight, k = self._weighted()
        out: FloatArray = weight * -np.expm1(-k)
        return out

    def moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return per segment, relative to e^(-nearest / b) b: mass, and E v, E v^2 times mass.

        v is the distance from the segment's near end.
        """
        weight, k = self._weighted()
        b = self.scale
        return weight * -np.expm1(-k), weight * b * _gamma(k, 1), weight * b * b * _gamma(k, 2)

    def log_mass(self) -> FloatArray:
        """Return log of the integral of e^(-|x - q| / b) / (2b), per location."""
        total = self.masses().sum(axis=0)
        out: FloatArray = np.log(total / 2) - self.nearest / self.scale
        return out


def segments(domain: Domain, location: FloatArray, scale: float) -> Segments:
    """Split the domain at every location; `location` has shape `(locations,)`."""
    signs, starts, lengths = [], [], []
    for a, c in domain.pieces:
        signs += [[1.0], [-1.0]]
        starts += [np.maximum(a - location, 0.0), np.maximum(location - c, 0.0)]
        # Not end - start of distances: far from a tiny interval that would cancel.
        lengths += [c - np.maximum(a, location), np.minimum(c, location) - a]
    return Segments(np.array(signs), np.array(starts), np.array(lengths), scale)


def _gamma(k: FloatArray, order: int) -> FloatArray:
    """Return the integral of v^order e^-v over [0, k], order 1 or 2."""
    small = np.minimum(k, 1.0)
    series = np.zeros_like(small)
    term = small ** (order + 1)
    for n in range(22):
        series += term / (n + order + 1)
        term = -term * small / (n + 1)
    big = np.where(np.isfinite(k), np.maximum(k, 1.0), 800.0)
    if order == 1:
        closed = 1 - (1 + big) * np.exp(-big)
    else:
        closed = 2 - (big * big + 2 * big + 2) * np.exp(-big)
    return np.where(k < 1.0, series, closed)
