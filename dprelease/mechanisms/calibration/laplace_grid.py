"""Proposals of a scale for Laplace noise on a grid: float views of the loss, and where it is epsilon.

The certificate judges what is proposed here; on unions the loss is not monotone in the scale, so the
member that is returned is the one that was certified.

Units    grid steps; epsilon in nats.
Sources  `docs/theory/kernels-and-boundaries.md#bounded-laplace`.
Limits   float64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

import numpy as np

from dprelease.mechanisms.calibration.roots import inside_root
from dprelease.mechanisms.forms.table import masses
from dprelease.mechanisms.kernels.laplace_sums import log_mass
from dprelease.schema.domain import GridSet

_MANY_RUNS = 64
"""From so many runs on, all masses are one convolution, whose time does not grow with their number."""


def table_loss(allowed: GridSet, distance: int) -> Callable[[float], float]:
    """Return a float view of the loss as a function of the scale (steps), to propose a calibration."""
    size, many = allowed.hull_steps + 1, len(allowed.runs) >= _MANY_RUNS
    apart = np.arange(size, dtype=np.float64)
    if many:  # around a circle so long that nothing meets
        around = np.arange(1 << (2 * size - 1).bit_length())
        apart = np.minimum(around, around.size - around).astype(np.float64)
        held = np.fft.rfft(np.bincount(allowed.points() - allowed.lower), around.size)

    def loss(scale: float) -> float:
        if size == 1:
            return 0.0
        weights = np.exp(-apart / scale)
        if many:
            mass = np.fft.irfft(np.fft.rfft(weights) * held)[:size]
        else:
            mass = masses(allowed, np.concatenate([[0.0], np.cumsum(weights)]))
        z = np.log(np.maximum(mass, 1e-300))
        return distance / scale + float(np.max(np.abs(z[distance:] - z[:-distance])))

    return loss


@lru_cache(maxsize=64)
def smallest_scale(allowed: GridSet, distance: int, epsilon: float) -> float:
    """Return about the smallest scale of loss epsilon within [distance/eps, 2 distance/eps]."""
    loss = table_loss(allowed, distance)
    narrow, wide = epsilon / distance, epsilon / (2 * distance)

    def excess(rate: float) -> float:  # nearly linear in the rate
        return loss(1 / rate) - epsilon

    if excess(narrow) <= 0:
        return 1 / narrow
    if excess(wide) >= 0:
        return 1 / wide
    return 1 / inside_root(excess, narrow, wide, epsilon * 2.0**-43)


def largest_rate(allowed: GridSet, distance: int, epsilon: float) -> float:
    """Return about the largest rate of loss epsilon, on a float view of the loss."""

    def excess(rate: float) -> float:
        return _float_loss(allowed, distance, rate) - epsilon

    low, high = epsilon / (2 * distance), epsilon / distance
    if excess(high) <= 0:
        return high
    return low if excess(low) >= 0 else inside_root(excess, high, low, epsilon * 2.0**-46)


def _float_loss(allowed: GridSet, distance: int, rate: float) -> float:
    """Return the loss over a dense choice of hull pairs; the certificate is the judge."""
    if allowed.hull_steps == 0:
        return 0.0
    last = allowed.upper - distance
    q = np.array([allowed.lower], dtype=np.int64)
    if len(allowed.runs) > 1:
        marks = {allowed.lower, last}
        for a, b in allowed.runs:
            marks |= {min(max(e, allowed.lower), last) for e in (a, b, a - distance, b - distance)}
        cuts = sorted(marks)
        parts = [np.linspace(x, y, 129).astype(np.int64) for x, y in pairwise(cuts)]
        q = np.unique(np.concatenate([*parts, np.array(cuts, dtype=np.int64)]))
    apart = log_mass(allowed, rate, q + distance) - log_mass(allowed, rate, q)
    return rate * distance + float(np.max(np.abs(apart)))
