"""Proposals of a scale for Gaussian noise on a grid: a float view of the loss, and where it is epsilon.

The certificate judges what is proposed here.

Units    grid steps; epsilon in nats.
Sources  the worst pair is at an end: `docs/theory/kernels-and-boundaries.md#bounded-gaussian`.
Limits   float64.
"""

from __future__ import annotations

import math

import numpy as np

from dprelease.mechanisms.arguments import FloatArray
from dprelease.mechanisms.calibration.gaussian_scale import first_bracket, scale_within
from dprelease.mechanisms.law import GridRequest


def table_scale(request: GridRequest) -> float:
    """Return about the smallest scale whose exact discrete Gaussian is within epsilon."""
    allowed, distance, budget = request.allowed, request.capped_sensitivity, float(request.epsilon)
    if allowed.hull_steps == 0:
        return 1.0
    x = (allowed.points() - allowed.lower).astype(np.float64)
    ways = [x] if len(allowed.runs) == 1 else [x, (allowed.hull_steps - x)[::-1]]

    def loss(scale: float) -> float:
        return max(_upward(points, distance, scale) for points in ways)

    middle = math.sqrt(distance * allowed.hull_steps / budget)
    low, high = middle * math.sqrt(0.5), middle * (1 + 2.0**-40)
    if len(ways) > 1:
        low, high = first_bracket(loss, low, high, budget)
    return scale_within(loss, low, high, budget)


def _upward(x: FloatArray, distance: int, scale: float) -> float:
    """Return -log E_0[e^(-distance (top - X) / scale^2)] of the discrete Gaussian at 0."""
    plain = x * x / (-2 * scale * scale)
    tilted = plain - (x[-1] - x) * (distance / scale**2)
    peak = float(tilted.max())
    return math.log(np.exp(plain).sum() / np.exp(tilted - peak).sum()) - peak
