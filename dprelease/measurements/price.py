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
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np

from dprelease.measurements.spread import FILLS
from dprelease.schema.domain import Domain
from dprelease.statistics.base import Floats, StatisticKind
from dprelease.statistics.measurement import Measurement

REFERENCE_SIZE = 1_000
"""The group size at which errors are stated when the schema gives no public guess."""


_DRAWS = 128
_MEANS = 17

_FAR_DRAWS = 512
_MIXED_DRAWS = 2048
_WIDER = 3.0
"""How many times wider than the noise its far draws lie; they weigh as much less."""


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
    statistic_kind: StatisticKind,
    measurement: Measurement,
    exact: Callable[[Floats, Floats], Floats],
    scale: float,
    loss: Literal["absolute", "squared"],
    *,
    spread: float = FILLS,
    gaussian: bool = False,
    far: bool = False,
    noises: Floats | None = None,
    farthest: bool = False,
) -> float:
    """Return the expected error of `statistic` from cells with Laplace noise of `scale` steps.

    Args:
        exact: the cells of rows whose mean and mean square, as shares of the range, are these.
        spread: the rows' standard deviation as a share of their range.
        gaussian: normal noise of that standard deviation instead.
        far: Laplace noise far from 0 is drawn more often than it occurs, and weighs less. It matters
            where the range is many times what is usual: a ratio whose denominator is lost in one of a thousand
            releases, and then a thousand times off, has half of its mean error there.
        noises: of the cells, at scale 1, where it is not independent (`mixed_noise`).
        farthest: at the mean with the largest error, not on average over means: of variances, of rows that lie
            as far apart as they are said to.
    """
    draws = _FAR_DRAWS if far else _DRAWS if noises is None else len(noises)
    t = np.linspace(0.02, 0.98, _MEANS)
    apart = np.minimum(spread * spread, t * (1 - t) / (3 if spread <= FILLS else 1))
    cells = exact(t, t * t + apart)
    weights = None
    if far:
        noise, weights = _far_noise(cells.shape[1])
    else:
        if noises is None:
            noises = unit_noise(uniform_points(draws, cells.shape[1]), gaussian=gaussian)
        noise = np.tile(noises, (_MEANS, 1))
    noisy = statistic_kind.finish(measurement, np.repeat(cells, draws, axis=0) + scale * noise)
    error = noisy[:, 0].reshape(_MEANS, -1) - statistic_kind.finish(measurement, cells)[:, :1]
    off = error**2 if loss == "squared" else np.abs(error)
    if farthest:
        each = np.average(
            off, axis=1, weights=None if weights is None else weights.reshape(off.shape)
        )
        relevant = each[apart > 0.99 * apart.max()] if statistic_kind.moment == 2 else each
        return float(relevant.max())
    result = float(np.average(off.ravel(), weights=weights))
    return result if math.isfinite(result) else math.inf


def mixed_noise(mix: Sequence[Sequence[Fraction]], *, gaussian: bool) -> Floats:
    """Return unit noise of sums of cells, `(draws, sums)`: of four cells only thousands of draws are within a hundredth."""
    of = np.array(mix, dtype=float)
    return np.asarray(
        unit_noise(uniform_points(_MIXED_DRAWS, of.shape[1]), gaussian=gaussian) @ of.T
    )


def unit_noise(u: Floats, *, gaussian: bool = False) -> Floats:
    """Return the quantiles of unit Laplace noise, or of normal noise."""
    if not gaussian:
        return np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u)))
    from scipy.special import ndtri  # half a second, where it is needed

    return np.asarray(ndtri(u))


@lru_cache(maxsize=4)
def _far_noise(dimensions: int) -> tuple[Floats, Floats]:
    """Return unit Laplace noise drawn `_WIDER`, other draws for each mean, and what each weighs."""
    noise = _WIDER * unit_noise(uniform_points(_MEANS * _FAR_DRAWS, dimensions))
    return noise, np.exp(-(1 - 1 / _WIDER) * np.abs(noise).sum(axis=1))


def rectified_error(
    scale: float,
    domain: Domain,
    loss: Literal["absolute", "squared"],
    near: tuple[float, float] | None = None,
) -> tuple[float, float]:
    """Return the (average, worst) error of normal noise mapped to the nearest point of `domain`.

    Answers are uniform on the domain's hull, or on what of it is `near`, gaps included. Units: the domain's;
    squared for squared loss.
    """
    low, high = domain.hull
    first, last = (low, high) if near is None else (min(max(end, low), high) for end in near)
    answers = first + (last - first) * (np.arange(_MEANS * 8) + 0.5) / (_MEANS * 8)
    u = (np.arange(2 * _DRAWS) + 0.5) / (2 * _DRAWS)
    noise = scale * unit_noise(u, gaussian=True)
    values = np.clip(answers[:, None] + noise[None, :], low, high)
    pieces = domain.pieces
    for (_, left), (right, _) in pairwise(pieces):
        inside = (values > left) & (values < right)
        values = np.where(inside, np.where(values - left <= right - values, left, right), values)
    off = values - answers[:, None]
    each = np.mean(off**2 if loss == "squared" else np.abs(off), axis=1)
    return float(each.mean()), float(each.max())
