"""What two drawn limits and the cells between them are worth, from public guesses.

The rows are supposed to have the standard deviation of `measurements.spread`, to begin at the value of the range
nearest to 0 and to have a long tail, exponential. At the public candidates that says how many ranks each lies from a
target, and so the law of both limits and the expected width between them, rare bad ones included: one in 500 that
lands in a range a hundred times the rows' is a fifth of the width. Where the outer rows lie between two candidates,
limits may be anywhere: the worst error is that of the whole range. Prices inform only.

Units: widths and spreads are shares of the declared range; errors in the statistic's unit (or its square).
Shapes: cells `(scenarios, degree + 1)`, in rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dprelease.measurements.members import Loss, Member
from dprelease.measurements.price import cell_error
from dprelease.measurements.spread import FILLS, spreads
from dprelease.statistics.base import Floats, StatisticKind
from dprelease.statistics.winsorised import Winsorised, unit_measurement

_PLACES = 5


def stretches_of(member: Member) -> tuple[float, ...]:
    """Return the standard deviations of the rows at which the error is stated."""
    return tuple(min(spread, FILLS) for (spread,) in spreads(member))


@dataclass(frozen=True, slots=True)
class LimitLaw:
    """The law of two limits, as far as a price knows it.

    Attributes:
        places: the candidates, rising, as shares of the range; zero: where the value nearest to 0 is.
        rate: nats per rank; share: of the rows that is clamped at each end.
    """

    places: Floats
    zero: float
    rate: float
    share: float

    def width(self, spread: float, size: int, power: int = 1) -> float:
        """Return (E width^power)^(1 / power) between the limits of `size` rows of this standard deviation; power 1 or even."""
        places = self.places if self.zero <= 1 / 2 else 1 - self.places[::-1]
        if spread >= FILLS:
            return self._width(places, size * places, size, power)
        start = min(self.zero, 1 - self.zero)
        below = size * -np.expm1(-np.maximum(places - start, 0.0) / spread)
        below[below > size - 0.5] = size  # less than a row is none
        return self._width(places, below, size, power)

    def _width(self, places: Floats, below: Floats, size: int, power: int) -> float:
        """Return it of two independent choices by the distance from a target, `below` rows lying up to each candidate."""
        chances = []
        for target in (self.share * size, (1 - self.share) * size):
            away = np.abs(below - target)
            weights = np.exp(-self.rate * (away - away.min()))
            chances.append(weights / weights.sum())
        gaps = np.diff(places)
        if power == 1:
            low, high = (1 - np.cumsum(c)[:-1] for c in chances)
            found = float((gaps * (high * (1 - low) + low * (1 - high))).sum())
        else:
            moments = [[float(c @ places**k) for k in range(power + 1)] for c in chances]
            signed = [(-1) ** k * math.comb(power, k) for k in range(power + 1)]
            found = sum(f * moments[0][k] * moments[1][-1 - k] for k, f in enumerate(signed))
        least = float(gaps.min()) ** power  # equal limits are moved apart
        return math.exp(math.log(max(found, least)) / power)


def cells_at(degree: int, size: int, mean: Floats, square: Floats | None = None) -> Floats:
    """Return the cells of `size` rows of this mean and mean square, as shares of the width between limits."""
    second = mean * mean + FILLS**2 if square is None else square
    if degree == 1:
        return np.asarray(size * np.stack([mean, 1 - mean], axis=1))
    return np.asarray(size * np.stack([1 - 2 * mean + second, 2 * (mean - second), second], axis=1))


def power_of(member: Member, loss: Loss) -> int:
    """Return the power of the width that the error of a statistic grows with."""
    squared = isinstance(member.kind, Winsorised) and member.kind.squared
    return (2 if squared else 1) * (2 if loss == "squared" else 1)


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
    statistic_kind = member.kind
    assert isinstance(statistic_kind, Winsorised)
    whole = float(member.statistic.hull.width)
    inner: StatisticKind = statistic_kind.inner
    if statistic_kind.linear:
        return _sum_error(member, degree, width * whole, scale, loss)

    def exact(mean: Floats, square: Floats) -> Floats:
        return cells_at(degree, size, mean, square)

    unit = cell_error(inner, unit_measurement(degree), exact, scale, loss, spread=spread)
    return unit * (width * whole) ** power_of(member, loss)


def _sum_error(member: Member, degree: int, width: float, scale: float, loss: Loss) -> float:
    """Return the error of a sum, averaged over places of the limits in the range."""
    low, high = map(float, member.statistic.hull.hull)
    shares = np.array((1.0, 0.0) if degree == 1 else (0.0, 0.5, 1.0))
    found = []
    for start in np.linspace(low, max(low, high - width), _PLACES):
        values = start + width * shares
        variance = 2 * scale**2 * float((values**2).sum())
        # of a sum of few Laplace draws: three quarters of its root mean square, within 6 %
        found.append(variance if loss == "squared" else 0.75 * math.sqrt(variance))
    most = float(member.domain.width)  # values end there
    return min(float(np.mean(found)), most * most if loss == "squared" else most)
