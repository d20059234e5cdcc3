"""What two drawn limits and the cells between them are worth, from public guesses.

The rows are supposed to lie evenly over a stretch in the middle of the declared range whose standard deviation is
that of `measurements.spread`. A limit is drawn among N candidates at rate r per rank: of those beyond the
stretch's end every one weighs e^(-r p n) for the share p of n rows, of those inside, spread over its ranks, one weighs
e^(-r k) at k rows from the target. What lands beyond is half way to the end of the range on average. Prices inform only.

Units: widths and spreads are shares of the declared range; errors in the statistic's unit (or its square).
Shapes: cells `(scenarios, degree + 1)`, in rows.
"""

from __future__ import annotations

import math

import numpy as np

from dprelease.aggregates.base import Aggregate, Floats
from dprelease.aggregates.winsorised import Winsorised, unit_measurement
from dprelease.measurements.members import Loss, Member
from dprelease.measurements.price import FILLS, cell_error
from dprelease.measurements.spread import spreads

__all__ = ["cells_at", "cells_error", "missed", "stretches_of", "width_at"]

_PLACES = 5


def stretches_of(member: Member) -> tuple[float, ...]:
    """Return the standard deviations of the rows at which the error is stated."""
    return tuple(min(spread, FILLS) for (spread,) in spreads(member))


def missed(held: float, share: float, rate: float, candidates: int, size: int) -> float:
    """Return the chance that a limit lands beyond the rows, which hold `held` of the range.

    Args:
        rate: nats per rank; size: rows.
    """
    aim = rate * share * size
    beyond = math.log(max(candidates * (1 - held) / 2, 1e-9)) - aim
    far = rate * (1 - share) * size
    ranks = (2 - math.exp(-min(aim, 700.0)) - math.exp(-min(far, 700.0))) / rate
    inside = math.log(max(candidates * held / max(size, 1) * ranks, 1.0))
    return 1 / (1 + math.exp(min(inside - beyond, 700.0)))


def width_at(spread: float, share: float, rate: float, candidates: int, size: int) -> float:
    """Return the expected width between the limits of rows of this standard deviation."""
    held = min(1.0, spread * math.sqrt(12))
    chance = missed(held, share, rate, candidates, size)
    least = 1 / max(1, candidates - 1)
    return max(least, held * (1 - 2 * share) * (1 - chance) + chance * (1 + held) / 2)


def cells_at(degree: int, size: int, mean: Floats, square: Floats | None = None) -> Floats:
    """Return the cells of `size` rows of this mean and mean square, as shares of the width between limits."""
    second = mean * mean + FILLS**2 if square is None else square
    if degree == 1:
        return np.asarray(size * np.stack([mean, 1 - mean], axis=1))
    return np.asarray(size * np.stack([1 - 2 * mean + second, 2 * (mean - second), second], axis=1))


def cells_error(
    member: Member,
    degree: int,
    width: float,
    size: int,
    scale: float,
    loss: Loss,
    *,
    spread: float = FILLS,
) -> float:
    """Return the expected error of a statistic of the rows between limits `width` of the range apart.

    Args:
        scale: of continuous Laplace noise on every cell, in rows; spread: of the rows between the limits.
    """
    aggregate = member.aggregate
    assert isinstance(aggregate, Winsorised)
    whole = float(member.context.hull.width)
    inner: Aggregate = aggregate.inner
    if aggregate.linear:
        return _sum_error(member, degree, width * whole, scale, loss)

    def exact(mean: Floats, square: Floats) -> Floats:
        return cells_at(degree, size, mean, square)

    unit = cell_error(inner, unit_measurement(degree), exact, scale, loss, spread=spread)
    power = (2 if aggregate.squared else 1) * (2 if loss == "squared" else 1)
    return unit * (width * whole) ** power


def _sum_error(member: Member, degree: int, width: float, scale: float, loss: Loss) -> float:
    """Return the error of a sum, averaged over places of the limits in the range."""
    low, high = map(float, member.context.hull.hull)
    shares = np.array((1.0, 0.0) if degree == 1 else (0.0, 0.5, 1.0))
    found = []
    for start in np.linspace(low, max(low, high - width), _PLACES):
        values = start + width * shares
        variance = 2 * scale**2 * float((values**2).sum())
        # of a sum of few Laplace draws: three quarters of its root mean square, within 6 %
        found.append(variance if loss == "squared" else 0.75 * math.sqrt(variance))
    most = float(member.domain.width)  # values end there
    return min(float(np.mean(found)), most * most if loss == "squared" else most)
