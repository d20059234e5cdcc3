"""The interval of a ratio of linear forms by Fieller's pivot, with quantiles of the convolved law.

At the true theta = top / bottom the form top - theta bottom is exactly 0, so its noisy value is
noise alone, of a known law, whatever the cells are. Every theta at which that value is not too far
out belongs to the interval; its coverage is the level, for tiny denominators too. Where the noise
of the denominator outweighs it, the interval is unbounded, which is the truth.

theta runs over a projective line: theta = unit * tan(angle). The form at an angle,

    cos(angle) top - sin(angle) unit bottom,

has its zero at the angle of the observed ratio, `middle`, and grows with the sine of the distance to
it, so in a cell of angles with quantile q the accepted angles lie within asin(q / length) of
`middle`. A cell's q is taken at the largest weights in the cell: symmetric unimodal noise spreads
with its weights (Birnbaum's peakedness, for the noise plus a uniform of one step; so one step per
term is added). Of more than a few different terms the law is bracketed at the middle of a cell instead,
and what the form turns by within the cell is added (`reading.ratio_of_many`).

Sources: Fieller 1954; Birnbaum 1948; `docs/theory/intervals.md#derived-values`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dprelease.intervals.few import few_quantile
from dprelease.intervals.noise import IntegerNoise, Term
from dprelease.mechanisms.arguments import check_level
from dprelease.reading.forms import RatioForm
from dprelease.reading.joint import Joint, joint
from dprelease.reading.linear_interval import beside, linear_chance, linear_ends
from dprelease.reading.ratio_of_many import Shape, cells_of_many

_CELLS = 256
_EDGES = np.linspace(-math.pi / 2, math.pi / 2, _CELLS + 1)
_ROOM = 1e-9
_FEW = 6
"""Of so many different terms the laws of all cells are made, once for all ratios of one shape."""

Floats = npt.NDArray[np.float64]


def ratio_ends(ratio: RatioForm, level: float, domain: tuple[float, float]) -> tuple[float, float]:
    """Return the ends of the interval at `level`, inside `domain`; infinite where nothing bounds it.

    Of a ratio that is cut to its domain all quotients are looked at first: what is accepted in the domain
    alone may have come round by infinity, and need not hold the value nearest to the quotient.

    Args:
        domain: the values that the ratio can have.
    """
    check_level(level)
    if ratio.cut:
        least, most = ratio_ends(replace(ratio, cut=False), level, (-math.inf, math.inf))
        low, high = domain
        return min(max(least, low), high), max(min(most, high), low)
    both = joint(ratio.top, ratio.bottom)
    if _sure(both):
        ends = linear_ends(ratio.top.times(1 / both.observed[1]), level)
        least, most = beside(ratio.top, ends, domain)
        room = _ROOM * max(abs(least), abs(most))
        return max(least - room, domain[0]), min(most + room, domain[1])
    shape, unit, scale = _normal(both)
    if not shape:
        return domain
    middle, length = _observed(both, unit)
    moved = float(both.moved[0]) + unit * float(both.moved[1])
    within = math.atan(domain[0] / unit), math.atan(domain[1] / unit)
    if len(shape) <= _FEW:
        edges, critical = _EDGES, np.array(_critical_values(shape, level)) * scale + moved
        first, last = edges[:-1], edges[1:]
    else:

        def out(cell: tuple[float, float], bound: float) -> bool:
            return bound * scale + moved < length * _nearest(cell, middle) * (1 - _ROOM)

        cells = cells_of_many(shape, level, within, out)
        first, last = (np.array([cell[k] for cell, _ in cells]) for k in (0, 1))
        critical = np.array([bound for _, bound in cells]) * scale + moved
    return _hull(_Pivot(middle, length, unit), (first, last, critical), within, domain)


@dataclass(frozen=True, slots=True)
class _Pivot:
    """The noisy form over the angles: its zero, its largest size, and the unit of theta."""

    middle: float
    length: float
    unit: float


def _hull(
    pivot: _Pivot,
    cells: tuple[Floats, Floats, Floats],
    within: tuple[float, float],
    domain: tuple[float, float],
) -> tuple[float, float]:
    """Return the ends of all that is accepted; `cells` are their edges, and the critical value in each."""
    first, last, critical = cells
    spread = np.full(critical.shape, math.pi)
    inside = critical < pivot.length
    spread[inside] = np.arcsin(critical[inside] / pivot.length) + _ROOM
    first, last = np.maximum(first, within[0]), np.minimum(last, within[1])
    ends: list[float] = []
    for centre in (pivot.middle - math.pi, pivot.middle, pivot.middle + math.pi):
        a, b = np.maximum(first, centre - spread), np.minimum(last, centre + spread)
        some = a <= b
        if some.any():
            ends += [float(a[some].min()), float(b[some].max())]
    if not ends:  # the noise leaves no possible value: the nearest end of the domain
        ends = [min(within, key=lambda angle: abs(math.sin(angle - pivot.middle)))]
    return _ratio_at(min(ends), pivot.unit, domain), _ratio_at(max(ends), pivot.unit, domain)


def ratio_chance(ratio: RatioForm, value: float) -> float:
    """Return an upper bound of the chance of noise as large as seen if the ratio were `value`."""
    return linear_chance(ratio.top.plus(ratio.bottom, -Fraction(value)))


def _ratio_at(angle: float, unit: float, domain: tuple[float, float]) -> float:
    if abs(angle) >= math.pi / 2 - 2 * _ROOM:
        return (
            math.copysign(math.inf, angle) if math.isinf(domain[angle > 0]) else domain[angle > 0]
        )
    return min(max(math.tan(angle) * unit, domain[0]), domain[1])


def _sure(both: Joint) -> bool:
    """Whether the denominator is public, but for traces that `_ROOM` covers, and not 0."""
    noisy = any(weights[1] for _, weights in both.draws)
    return not noisy and both.moved[1] < abs(both.observed[1]) * Fraction(_ROOM) / 4


def _nearest(cell: tuple[float, float], middle: float) -> float:
    """Return the least |sin(angle - middle)| of a cell of angles."""
    a, b = math.sin(cell[0] - middle), math.sin(cell[1] - middle)
    return 0.0 if a * b <= 0 else min(abs(a), abs(b))


def _norm(both: Joint, form: int) -> float:
    return math.sqrt(
        sum(
            n * float(w[form]) ** 2 * float(noise.variance())
            for (noise, w), n in both.draws.items()
        )
    )


def _normal(both: Joint) -> tuple[Shape, float, float]:
    """Return (shape, unit of theta, scale): theta = unit tan(angle), weights = scale * the shape's."""
    top, bottom = _norm(both, 0), _norm(both, 1)
    scale = top or 1.0
    unit = scale / bottom if bottom else abs(float(both.observed[0])) or 1.0
    counted: dict[tuple[IntegerNoise, float, float], int] = {}
    for (noise, weights), count in both.draws.items():
        t, b = float(weights[0]) / scale, float(weights[1]) * unit / scale
        key = (noise, _short(t), _short(b))
        counted[key] = counted.get(key, 0) + count
    ordered = sorted(counted.items(), key=lambda item: (item[0][1], item[0][2], repr(item[0][0])))
    return tuple((noise, m, t, b) for (noise, t, b), m in ordered), unit, scale


def _short(weight: float) -> float:
    """Return the weight with 12 digits: shapes that differ by rounding are one (`_ROOM`)."""
    return float(f"{weight:.12g}")


def _observed(both: Joint, unit: float) -> tuple[float, float]:
    """Return the angle at which the noisy form is 0, and its largest size."""
    top, bottom = float(both.observed[0]), unit * float(both.observed[1])
    if bottom < 0:
        top, bottom = -top, -bottom
    return (math.atan2(top, bottom) if top or bottom else 0.0), math.hypot(top, bottom)


@lru_cache(maxsize=256)
def _critical_values(shape: Shape, level: float) -> tuple[float, ...]:
    return tuple(few_quantile(terms, level) * (1 + _ROOM) + room for terms, room in _laws(shape))


@lru_cache(maxsize=24)
def _laws(shape: Shape) -> tuple[tuple[list[Term], float], ...]:
    """Return per cell the law at the largest weights in it, and the room for the lattice."""
    out = []
    for a, b in pairwise(_EDGES.tolist()):
        weights = [_largest(t, u, a, b) for _, _, t, u in shape]
        terms = [
            Term(noise, m, Fraction(w)) for (noise, m, _, _), w in zip(shape, weights, strict=True)
        ]
        out.append((terms, float(sum(weights))))
    return tuple(out)


def _largest(t: float, b: float, start: float, stop: float) -> float:
    """Return the largest |t cos(angle) - b sin(angle)| for angles in [start, stop]."""
    ends = max(abs(t * math.cos(x) - b * math.sin(x)) for x in (start, stop))
    peak = math.atan2(-b, t)
    inside = any(start <= peak + k * math.pi <= stop for k in (-1, 0, 1))
    return math.hypot(t, b) if inside else ends
