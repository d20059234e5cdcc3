"""Expected errors of statistics of several columns, from a public simulation.

As in `price`, nothing private is known, so the error is computed at a public guess of the group's
size, at given spreads and correlations. The simulated columns are s_j = clip(m + spread_j z_j, 0, 1)
as shares of their ranges, with normal z of equal correlation between any two columns, m in {0.2, 0.5}.
Their cells are means over a fixed low-discrepancy sequence; noise is drawn from another one. It is
repeatable, informs only, and is never what a release draws from.

Units: the statistic's own unit (or its square, for squared loss).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from dprelease.measurements.members import Loss, Member
from dprelease.measurements.price import uniform_points, unit_noise
from dprelease.statistics.base import Floats, Reading
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.pair_cells import one_column

_ROWS = 512
_DRAWS = 256
_WIDE = 6
"""Beyond so many columns fewer scenarios and draws tell as much: there are many eigenvalues."""
_FEW = 8
_MEANS = (0.2, 0.5)


def pair_error(
    member: Member,
    measurement: Measurement,
    exact: Callable[[tuple[float, ...], float, float], Floats],
    scale: float,
    loss: Loss,
    spread: tuple[float, ...],
    noises: Floats | None = None,
) -> float:
    """Return the expected error of `member` from cells with Laplace noise of `scale` steps.

    Args:
        exact: the cells of rows whose columns are `simulated_columns` of these.
        spread: standard deviation of each column, as a share of its range.
        noises: of the cells, at scale 1, where it is not independent.
    """
    total, wide = 0.0, len(measurement.axes) > _WIDE
    correlations = member.kind.correlations(member.statistic)[-1 if wide else 0 :]
    scenarios = [(m, c) for m in _MEANS for c in correlations]
    for mean, correlation in scenarios:
        cells = exact(spread, mean, correlation)
        noise = _noise(cells.size)[: _FEW if wide else _DRAWS] if noises is None else noises
        noisy = cells + scale * noise
        found = _finish(member, measurement, np.vstack([cells[None, :], noisy]))
        error = found[1:] - found[:1]
        total += float(np.mean(error**2 if loss == "squared" else np.abs(error)))
    out = total / len(scenarios)
    return out if math.isfinite(out) else math.inf


def _finish(member: Member, measurement: Measurement, cells: Floats) -> Floats:
    if member.view is None:
        return member.kind.finish(measurement, cells)
    reading = Reading(cells, cells, cells, 1.0, 0.95)
    seen, margins, _ = one_column(measurement, cells, reading, member.view)
    return member.kind.finish(seen, margins)


@lru_cache(maxsize=64)
def simulated_columns(spread: tuple[float, ...], mean: float, correlation: float) -> Floats:
    """Return shares of the ranges, `(rows, columns)`; of a negative correlation, every other falls."""
    z = unit_noise(uniform_points(_ROWS, len(spread) + 1), gaussian=True)
    size = abs(correlation)
    together = math.sqrt(size) * z[:, :1] + math.sqrt(1 - size) * z[:, 1:]
    sign = np.where(np.arange(len(spread)) % 2, math.copysign(1.0, correlation), 1.0)
    return np.asarray(np.clip(mean + sign * np.array(spread) * together, 0.0, 1.0))


@lru_cache(maxsize=16)
def _noise(cells: int) -> Floats:
    """Return unit Laplace noise, `(draws, cells)`.

    A lattice in many dimensions needs more points than that to look independent, so every cell gets
    the same evenly spaced quantiles, in an order of its own that multiplications modulo a prime
    make: public constants.
    """
    prime = 1_000_003
    place = (
        np.arange(1, _DRAWS + 1)[:, None] * 7919 + np.arange(1, cells + 1)[None, :] * 104_729
    ) % prime
    mixed = (place * place % prime * place + 12_345) % prime
    u = (mixed.argsort(axis=0).argsort(axis=0) + 0.5) / _DRAWS
    return unit_noise(u)
