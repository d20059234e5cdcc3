"""Gaussian integrals over unions of intervals, without cancellation in either tail.

Every interval is cut at the location, so that the density falls along each one-sided segment;
a segment is followed until the density has lost a factor e^-45 and integrated with 32
Gauss-Legendre nodes (relative error below 1e-15 for such an exponential). All weights are
positive, and positions are kept as offsets from the allowed point nearest to the location:
means and variances of a sliver or of a far tail keep their digits, where differences of the
normal distribution function have none left.

Units    offsets and tails in standard deviations; ends and locations in the domain's unit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from dprelease.diagnostics.support import FloatArray, Pieces

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
_FALL = 45.0


def legendre(count: int) -> tuple[FloatArray, FloatArray]:
    """Return Gauss-Legendre nodes and weights on [0, 1], both of shape `(count,)`."""
    x, w = np.polynomial.legendre.leggauss(count)
    return (x + 1) / 2, w / 2


_X, _W = legendre(32)


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes of the Gaussian around each of N locations, restricted to some intervals.

    Attributes:
        offset: standardised position minus the nearest allowed point's, shape `(nodes, N)`.
        weight: integration weight times e^((near^2 - z^2) / 2), same shape.
        near: standardised position of the nearest allowed point, signed, shape `(N,)`.
    """

    offset: FloatArray
    weight: FloatArray
    near: FloatArray

    def total(self) -> FloatArray:
        """Return the scaled mass per location."""
        out: FloatArray = self.weight.sum(axis=0)
        return out

    def log_mass(self) -> FloatArray:
        """Return the log of the Gaussian's mass in the intervals."""
        out: FloatArray = np.log(self.total()) - self.near**2 / 2 - HALF_LOG_TWO_PI
        return out

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return mean offset and variance of the conditioned law, standardised."""
        total = self.total()
        mean = (self.weight * self.offset).sum(axis=0) / total
        variance = (self.weight * (self.offset - mean) ** 2).sum(axis=0) / total
        return mean, variance


def nodes(pieces: Pieces, location: FloatArray, scale: float) -> Nodes:
    """Return the nodes for `location` of shape `(N,)`; intervals of positive width only."""
    low = np.array([a for a, _ in pieces])[:, None]
    high = np.array([b for _, b in pieces])[:, None]
    # Right of the location (sign +1), then left of it (sign -1).
    start = np.concatenate([np.maximum(low - location, 0.0), np.maximum(location - high, 0.0)])
    length = np.concatenate([high - np.maximum(low, location), np.minimum(high, location) - low])
    sign = np.repeat([1.0, -1.0], len(pieces))[:, None]
    empty = length <= 0
    start, length = start / scale, np.where(empty, 0.0, length / scale)
    cutoff = _FALL * 2 / (np.sqrt(start**2 + 2 * _FALL) + start)
    length = np.minimum(length, cutoff)
    order = np.where(empty, np.inf, start)
    first = order.argmin(axis=0)[None]
    distance = np.take_along_axis(start, first, axis=0)[0]
    start = np.where(empty, distance, start)  # no node there has weight
    near = sign[first[0], 0] * distance
    y = length[:, None, :] * _X[None, :, None]
    fall = ((start - distance) * (start + distance) / 2)[:, None, :] + y * (
        start[:, None, :] + y / 2
    )
    weight = length[:, None, :] * _W[None, :, None] * np.exp(-fall)
    offset = sign[:, None] * y + (sign * start - near)[:, None, :]
    count = location.shape[0]
    return Nodes(offset.reshape(-1, count), weight.reshape(-1, count), near)


def log_mass(interval: tuple[float, float], location: FloatArray, scale: float) -> FloatArray:
    """Return log P(location + scale N(0, 1) lies in `interval`)."""
    low, high = interval
    if math.isinf(low) and math.isinf(high):
        return np.zeros_like(location)
    if math.isinf(low):
        out: FloatArray = log_ndtr((high - location) / scale)
    elif math.isinf(high):
        out = log_ndtr((location - low) / scale)
    else:
        out = nodes((interval,), location, scale).log_mass()
    return out


def score(interval: tuple[float, float], location: FloatArray, scale: float) -> FloatArray:
    """Return the derivative of `log_mass` in the location, times `scale`."""
    low, high = ((end - location) / scale for end in interval)
    mass = log_mass(interval, location, scale)
    # (phi(low) - phi(high)) / mass, with the larger density taken out of the difference.
    from_low = np.abs(low) <= np.abs(high)
    peak, other = np.where(from_low, low, high), np.where(from_low, high, low)
    with np.errstate(invalid="ignore"):
        gap = np.where(np.isinf(other), -np.inf, (peak - other) * (peak + other) / 2)
    ratio = np.exp(-(peak**2) / 2 - HALF_LOG_TWO_PI - mass) * -np.expm1(gap)
    out: FloatArray = np.where(np.isinf(peak), 0.0, np.where(from_low, ratio, -ratio))
    return out
