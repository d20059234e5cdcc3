"""Integrals of the normal kernel over a union of intervals, free of cancellation.

Every allowed interval is integrated from its point nearest to the location q, with 40 Gauss-
Legendre nodes over the part where the kernel is above e^-40 of its peak there (the truncated part
is below 2**-57 of the interval's mass; the rule is exact far below float64 on that range). All
weights are positive and relative to the nearest interval, so tails, narrow islands and wide gaps
keep their relative precision; a difference of two normal distribution functions would not.

Not scipy's log_ndtr: its differences cancel for narrow intervals, and importing it costs more than
a calibration does.

Units    those of the domain.
Sources  Gauss-Legendre quadrature; checked against mpmath in `tests/reference/gaussian.py`.
Limits   float64: for calibration, quotes and plots, never for a draw.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dprelease.mechanisms.arguments import FloatArray

_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(40)
_SHARE = (_POINTS + 1) / 2
_HALF = _WEIGHTS / 2
_LOG_ROOT = math.log(2 * math.pi) / 2
_DEPTH = 80.0  # twice the exponent at which the kernel is cut


@dataclass(frozen=True, slots=True)
class NormalNodes:
    """Quadrature nodes of e^(-(x - q)^2 / (2 scale^2)) per piece and location.

    Attributes:
        anchor: the piece's point nearest to q, shape `(pieces, locations)`.
        away: anchor - q, same shape.
        offset: x - anchor, shape `(pieces, locations, nodes)`.
        weight: kernel times node weight, relative to e^(-near^2 / 2), same shape as `offset`.
        near: distance from q to the nearest piece, in scales, shape `(locations,)`.
        scale: shape `(locations,)` or a scalar.
    """

    anchor: FloatArray
    away: FloatArray
    offset: FloatArray
    weight: FloatArray
    near: FloatArray
    scale: FloatArray

    def sum(self, values: FloatArray | None = None) -> FloatArray:
        """Return the relative integral of `values` (1 if None), per location."""
        terms = self.weight if values is None else self.weight * values
        out: FloatArray = terms.sum(axis=(0, 2))
        return out

    def log_mass(self) -> FloatArray:
        """Return log P(q + N(0, scale^2) lands in the pieces), -inf if they are empty."""
        with np.errstate(divide="ignore"):
            out: FloatArray = np.log(self.sum() / self.scale) - self.near**2 / 2 - _LOG_ROOT
        return out

    def from_location(self) -> FloatArray:
        """Return x - q per node."""
        out: FloatArray = self.away[..., None] + self.offset
        return out

    def below(self, top: FloatArray | float) -> FloatArray:
        """Return top - x per node; `top` broadcasts with `(pieces, locations)`."""
        out: FloatArray = (top - self.anchor)[..., None] - self.offset
        return out


def normal_nodes(
    low: FloatArray, high: FloatArray, location: FloatArray, scale: npt.ArrayLike
) -> NormalNodes:
    """Return the nodes for pieces [low, high], shapes `(pieces, 1 or locations)`.

    A piece with low >= high is empty. `location` has shape `(locations,)`; `scale` is a scalar or
    has that shape.
    """
    size = np.asarray(scale, dtype=np.float64)
    anchor = np.minimum(np.maximum(location, low), high)
    away = anchor - location
    distance = np.abs(away) / size
    cutoff = size * (_DEPTH / (distance + np.sqrt(distance * distance + _DEPTH)))
    left = np.minimum(anchor - low, cutoff)
    length = left + np.minimum(high - anchor, cutoff)
    solid = length > 0
    near = np.where(solid, distance, np.inf).min(axis=0)
    near = np.where(np.isfinite(near), near, 0.0)
    lead = np.where(solid, -(distance - near) * (distance + near) / 2, -np.inf)
    offset = length[..., None] * _SHARE - left[..., None]
    wide = size[..., None]
    steps = offset / wide
    exponent = lead[..., None] - steps * ((away / size)[..., None] + steps / 2)
    weight = np.maximum(length, 0.0)[..., None] * _HALF * np.exp(exponent)
    return NormalNodes(anchor, away, offset, weight, near, size)


def normal_tails(t: FloatArray, scale: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return, for t >= 0 and N normal: P(N > t), E(N - t)+, E(N^2 - t^2; N > t)."""
    flat = np.asarray(t, dtype=np.float64).ravel()
    start = flat[None, :]
    far = start + 40 * scale
    nodes = normal_nodes(start, far, np.zeros(flat.size), scale)
    front = np.exp(-(nodes.near**2) / 2) / (scale * math.sqrt(2 * math.pi))
    past = nodes.offset
    parts = (None, past, past * (past + 2 * start[..., None]))
    first, second, third = ((nodes.sum(p) * front).reshape(np.shape(t)) for p in parts)
    return first, second, third


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the hockey-stick divergence at `epsilon` between N(0, 1) and N(mu, 1)."""
    cut = epsilon / mu - mu / 2
    start = np.array([[cut]])
    nodes = normal_nodes(start, np.maximum(start, 0.0) + 40, np.zeros(1), 1.0)
    gain = -np.expm1(-mu * (nodes.anchor[..., None] - cut + nodes.offset))
    return float(nodes.sum(gain)[0] * math.exp(-(float(nodes.near[0]) ** 2) / 2 - _LOG_ROOT))
