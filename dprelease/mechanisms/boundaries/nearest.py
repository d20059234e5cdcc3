"""Continuous noise followed by the nearest-point map: curves and moments of the published value.

Y = nearest allowed point of q + N, N symmetric. Inside an allowed interval Y has N's density; its
ends collect point masses (half a gap each, or a whole tail at the border). With the tails of N,

    E|Y - q|, E Y, E (Y - q)^2  are sums of  integral P(Y > x) dx  over runs and gaps above q,
                                       and of  P(Y <= x)           below q,

closed forms per run and gap. A NOISY value is mapped here, which is post-processing; mapping the
exact answer would not be private.

Units    the domain's unit.
Sources  elementary; the layer-cake formula for moments.
Limits   float64: quotes and plots, never a draw.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dprelease.mechanisms.arguments import FloatArray, check_locations
from dprelease.schema.domain import Domain


class Tails(Protocol):
    """Symmetric continuous noise."""

    def density(self, distance: FloatArray) -> FloatArray:
        """Return the density at a distance >= 0."""

    def tails(self, t: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return, for t >= 0: P(N > t), E(N - t)+, E(N^2 - t^2; N > t)."""


def _noise_cdf(noise: Tails, t: FloatArray) -> FloatArray:
    tail = noise.tails(np.abs(t))[0]
    return np.where(t >= 0, 1 - tail, tail)


def _one_side(
    noise: Tails, q: FloatArray, a: float, b: float, middle: float | None, order: int
) -> FloatArray:
    start = np.maximum(a, q) - q
    stop = np.maximum(b - q, start)
    if middle is None:
        end = noise.tails(np.where(np.isfinite(stop), stop, 0.0))[order]
        end = np.where(np.isfinite(stop), end, 0.0)
        return np.where(stop > start, noise.tails(start)[order] - end, 0.0)
    chance = 1 - _noise_cdf(noise, middle - q)
    out: FloatArray = chance * (stop**order - start**order)
    return out


class Clamped(ABC):
    """A mechanism whose symmetric noise is mapped to the nearest point: the curves of what it publishes."""

    __slots__ = ()

    domain: Domain

    @property
    @abstractmethod
    def _noise(self) -> Tails:
        """The noise before the map."""

    def pdf(self, x: npt.ArrayLike, location: npt.ArrayLike) -> FloatArray:
        """Return the density of the continuous part, broadcast; the point masses show in `cdf`."""
        q = check_locations(self.domain, location)
        points, at = np.broadcast_arrays(np.asarray(x, dtype=np.float64), q)
        density = self._noise.density(np.abs(points - at))
        out: FloatArray = np.where(self.domain.contains(points), density, 0.0)
        return out

    def cdf(self, x: npt.ArrayLike, location: npt.ArrayLike) -> FloatArray:
        """Return P(Y <= x), point masses included, broadcast."""
        q = check_locations(self.domain, location)
        points, at = np.broadcast_arrays(np.asarray(x, dtype=np.float64), q)
        low, high = self.domain.hull
        edge = points.astype(np.float64)
        for left, right in self.domain.forbidden:
            gap = (points >= left) & (points < right)
            edge = np.where(gap, (left + right) / 2, edge)
        inner = _noise_cdf(self._noise, edge - at)
        return np.where(points >= high, 1.0, np.where(points < low, 0.0, inner))

    def mean(self, location: npt.ArrayLike) -> FloatArray:
        """Return the mean of the released value per location."""
        q = check_locations(self.domain, location)
        up, down = self._errors(q, 1)
        out: FloatArray = q + up - down
        return out

    def variance(self, location: npt.ArrayLike) -> FloatArray:
        """Return the variance of the released value per location (unit squared)."""
        q = check_locations(self.domain, location)
        up, down = self._errors(q, 1)
        up2, down2 = self._errors(q, 2)
        out: FloatArray = up2 + down2 - (up - down) ** 2
        return out

    def mass(self, location: npt.ArrayLike) -> FloatArray:
        """Return the chance that the noisy value needs no mapping."""
        q = check_locations(self.domain, location)
        out = np.zeros(q.shape)
        for a, b in self.domain.pieces:
            for edge, sign in ((b, 1.0), (a, -1.0)):
                if np.isfinite(edge):
                    out = out + sign * _noise_cdf(self._noise, edge - q)
                elif edge > 0:
                    out = out + 1.0
        return out

    def _errors(self, q: FloatArray, order: int) -> tuple[FloatArray, FloatArray]:
        """Return E((Y - q)+)^order and E((q - Y)+)^order, order 1 or 2; shape of `q`."""
        noise, domain = self._noise, self.domain
        segments: list[tuple[float, float, float | None]] = [(a, b, None) for a, b in domain.pieces]
        segments += [(a, b, (a + b) / 2) for a, b in domain.forbidden]
        up, down = np.zeros(q.shape), np.zeros(q.shape)
        for a, b, middle in segments:
            up += _one_side(noise, q, a, b, middle, order)
            down += _one_side(noise, -q, -b, -a, None if middle is None else -middle, order)
        return up, down
