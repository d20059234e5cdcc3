"""Statistics that are a function of one scalar: a standard deviation is the root of a drawn variance.

The law then works on the *cell*, in its own unit and on its whole range, and the statistic is
post-processing of it. So an error of the law says little by itself: it is taken through the statistic's
`finish` here, at public places. A variance is placed by how far its rows lie apart
(`measurements.spread`), any other cell evenly in its range.

The worst error is bounded by how far two cells a distance d apart can lie in the statistic: where that is
concave in d, the mean over the noise is at most its value at the mean distance (Jensen). It is measured
at distances in a ratio of sqrt(2) around d, from even places and from such distances off both ends.

Units: cells and errors in the statistic's unit once they went through `finish`, else in the cell's;
squared under squared loss. Limits: figures at places, for prices and readers; no law depends on them.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dprelease.measurements.base import cell_hull
from dprelease.measurements.members import Loss, Member
from dprelease.measurements.price import unit_noise
from dprelease.measurements.spread import spreads
from dprelease.statistics.base import Floats, StatisticKind
from dprelease.statistics.measurement import Measurement

_PLACES = 257
_DRAWS = 256
_RATIOS = 2.0 ** (np.arange(-8, 25) / 2)


def scalar_of(
    statistic_kind: StatisticKind, options: tuple[Measurement, ...]
) -> Measurement | None:
    """Return the scalar of which the statistic is a function; None where it is the scalar itself."""
    if type(statistic_kind).finish is StatisticKind.finish:
        return None
    return next((m for m in options if _is_function(statistic_kind, m)), None)


@lru_cache(maxsize=1024)
def _is_function(statistic_kind: StatisticKind, measurement: Measurement) -> bool:
    if len(measurement.cells) != 1 or measurement.upper is None:
        return False
    cells = _equal_steps(measurement)
    return not np.array_equal(_finished(statistic_kind, measurement, cells), cells)


def rises_or_falls(statistic_kind: StatisticKind, measurement: Measurement) -> bool:
    """Return whether different cells have different values: a law without point masses then stays one."""
    values = _finished(statistic_kind, measurement, _equal_steps(measurement))
    steps = np.diff(values)
    return bool(np.all(np.isfinite(values)) and (np.all(steps > 0) or np.all(steps < 0)))


def finished_errors(
    member: Member, error: float, loss: Loss, *, gaussian: bool = False
) -> tuple[float, ...]:
    """Return the expected errors of a statistic whose cell has the expected `error`.

    `error` itself where the statistic is the cell; else one per spread of a variance, one for all
    places of another cell, under Laplace (or normal) noise of that error.
    """
    measurement = scalar_of(member.kind, member.options)
    if measurement is None:
        return (error,)
    low, high = cell_hull(measurement).hull
    noise = _noise(error, loss, gaussian=gaussian)
    out = []
    for places in _places(member, measurement):
        exact = _values(member, measurement, places)[:, None]
        noisy = np.clip(places[:, None] + noise, low, high)
        off = _values(member, measurement, noisy.ravel()).reshape(noisy.shape) - exact
        out.append(float(np.mean(off**2 if loss == "squared" else np.abs(off))))
    return tuple(out)


def finished_worst(member: Member, error: float, loss: Loss) -> float:
    """Return the statistic's error where its cell has the expected `error` at worst.

    For a standard deviation |sqrt(a) - sqrt(b)| <= sqrt(|a - b|): the root of the error, both ways.
    """
    measurement = scalar_of(member.kind, member.options)
    if measurement is None or error <= 0:
        return error
    low, high = cell_hull(measurement).hull
    power = 2 if loss == "squared" else 1
    gaps = np.minimum(error ** (1 / power) * _RATIOS, high - low)
    starts = np.concatenate([_equal_steps(measurement), low + gaps, high - gaps])
    ends = np.minimum(starts[:, None] + gaps, high)
    shifted = _values(member, measurement, ends.ravel()).reshape(ends.shape)
    apart = np.abs(shifted - _values(member, measurement, starts)[:, None]).max(axis=0)
    return _concave(gaps**power, apart**power, error)


def typical_cell(member: Member, measurement: Measurement) -> float:
    """Return the middle of the cells whose values lie in the statistic's domain."""
    cells = _equal_steps(measurement)
    values = _finished(member.kind, measurement, cells)
    low, high = member.domain.hull
    inside = cells[np.abs(values - np.clip(values, low, high)) <= 1e-9 * (high - low)]
    if not inside.size:
        return float(cells[np.argmin(np.abs(values - (low + high) / 2))])
    return float((inside[0] + inside[-1]) / 2)


def _finished(statistic_kind: StatisticKind, measurement: Measurement, cells: Floats) -> Floats:
    with np.errstate(all="ignore"):
        return statistic_kind.finish(measurement, cells[:, None])[:, 0]


def _equal_steps(measurement: Measurement) -> Floats:
    low, high = cell_hull(measurement).hull
    return np.linspace(low, high, _PLACES)


def _places(member: Member, measurement: Measurement) -> list[Floats]:
    """Return where the cell may lie: one array per error that is stated."""
    if member.kind.moment == 2:
        width = float(member.statistic.hull.width)
        return [np.array([(spread * width) ** 2]) for (spread,) in spreads(member)]
    cells = _equal_steps(measurement)
    return [(cells[1:] + cells[:-1]) / 2]


def _values(member: Member, measurement: Measurement, cells: Floats) -> Floats:
    """Return published values but for gaps and steps, `(cells,)`."""
    return np.clip(_finished(member.kind, measurement, cells), *member.domain.hull)


def _noise(error: float, loss: Loss, *, gaussian: bool) -> Floats:
    """Return even quantiles of noise whose mean distance, or mean square, is `error`."""
    u = (np.arange(_DRAWS) + 0.5) / _DRAWS
    square, mean = (1.0, _MEAN) if gaussian else (2.0, 1.0)
    scale = error / mean if loss == "absolute" else math.sqrt(error / square)
    return np.asarray(scale * unit_noise(u, gaussian=gaussian))


_MEAN = math.sqrt(2 / math.pi)
"""The mean distance of standard normal noise from 0."""


def _concave(x: Floats, y: Floats, at: float) -> float:
    """Return the least concave function above the points (0, 0) and (x, y), at `at`."""
    x, y = np.append(x, 0.0), np.append(y, 0.0)
    left, right = x <= at, x >= at
    best = float(y[np.isclose(x, at)].max(initial=0.0))
    if not right.any():  # as far as cells can be apart
        return float(y.max())
    a, b = x[left][:, None], x[right][None, :]
    apart = np.where(b > a, b - a, 1.0)
    chords = y[left][:, None] + (y[right][None, :] - y[left][:, None]) * (at - a) / apart
    return max(best, float(np.where(b > a, chords, 0.0).max()))
