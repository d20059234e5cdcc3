"""Expected errors of post-processed cells, from a public simulation.

The price of a mean or a variance depends on the group's size, which nobody may know; it is
computed at a public guess. The simulated table has n rows whose mean t (as a share of the range)
takes 17 evenly spaced values and whose standard deviation is a given share of the range (`spread`),
or less where the mean is so near an end that uniform values would have less.
Noise is drawn by inverse transform from a fixed low-discrepancy sequence: pricing is repeatable,
informs only, and is never what a release draws from.

Units: the statistic's own unit (or its square, for squared loss). Shapes: `(scenarios,)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Literal

import numpy as np

from dprelease.aggregates.base import Aggregate, Floats
from dprelease.aggregates.measurement import Measurement
from dprelease.schema.domain import Domain

__all__ = ["FILLS", "NARROW", "REFERENCE_SIZE", "cell_error", "rectified_error", "uniform_points"]

REFERENCE_SIZE = 1_000
"""The group size at which errors are stated when the schema gives no public guess."""

FILLS = 1 / math.sqrt(12)
"""The standard deviation of values that fill their range evenly, as a share of it."""

NARROW = 0.05
"""The standard deviation, as a share of the range, down to which ordinary columns lie."""

_DRAWS = 128
_MEANS = 17


def uniform_points(count: int, dimensions: int) -> Floats:
    """Return an additive low-discrepancy sequence in the open unit cube, `(count, dimensions)`.

    Rank-1 lattice from the generalised golden ratio (Roberts 2018).
    """
    phi = 2.0
    for _ in range(40):
        phi = (1 + phi) ** (1 / (dimensions + 1))
    steps = np.array([1 / phi ** (j + 1) for j in range(dimensions)])
    points = (0.5 + np.outer(np.arange(1, count + 1), steps)) % 1.0
    return np.clip(points, 1e-9, 1 - 1e-9)


def cell_error(
    aggregate: Aggregate,
    measurement: Measurement,
    exact: Callable[[Floats, Floats], Floats],
    scale: float,
    loss: Literal["absolute", "squared"],
    *,
    spread: float = FILLS,
    gaussian: bool = False,
) -> float:
    """Return the expected error of `aggregate` from cells with Laplace noise of `scale` steps.

    Args:
        exact: the cells of rows whose mean and mean square, as shares of the range, are these.
        spread: the rows' standard deviation as a share of their range.
        gaussian: normal noise of that standard deviation instead.
    """
    t = np.repeat(np.linspace(0.02, 0.98, _MEANS), _DRAWS)
    variance = np.minimum(spread * spread, t * (1 - t) / (3 if spread <= FILLS else 1))
    cells = exact(t, t * t + variance)
    u = np.tile(uniform_points(_DRAWS, cells.shape[1]), (_MEANS, 1))
    if gaussian:
        from scipy.special import ndtri  # half a second, where it is needed

        noise = scale * ndtri(u)
    else:
        noise = scale * np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u)))
    error = aggregate.finish(measurement, cells + noise) - aggregate.finish(measurement, cells)
    if loss == "squared":
        return float(np.mean(error**2))
    result = float(np.mean(np.abs(error)))
    return result if math.isfinite(result) else math.inf


def rectified_error(
    scale: float, domain: Domain, loss: Literal["absolute", "squared"]
) -> tuple[float, float]:
    """Return the (average, worst) error of normal noise mapped to the nearest point of `domain`.

    Answers are uniform on the domain's hull, gaps included. Units: the domain's; squared for
    squared loss.
    """
    from scipy.special import ndtri

    low, high = domain.hull
    answers = low + (high - low) * (np.arange(_MEANS * 8) + 0.5) / (_MEANS * 8)
    noise = scale * ndtri((np.arange(2 * _DRAWS) + 0.5) / (2 * _DRAWS))
    values = np.clip(answers[:, None] + noise[None, :], low, high)
    pieces = domain.pieces
    for (_, left), (right, _) in pairwise(pieces):
        inside = (values > left) & (values < right)
        values = np.where(inside, np.where(values - left <= right - values, left, right), values)
    off = values - answers[:, None]
    each = np.mean(off**2 if loss == "squared" else np.abs(off), axis=1)
    return float(each.mean()), float(each.max())
