"""The (epsilon, delta) of bounded Gaussian noise on a box: the joint hockey-stick divergence.

For neighbours q' and q = q' + c the sides are drawn independently, so the loss of an output x is a
sum of independent terms, each linear in its own coordinate:

    L(x) = sum k_i x_i + constant,  k_i = c_i / scale_i^2,   delta = E_q[(1 - e^(epsilon - L))+].

Which pairs decide. After mirroring sides every c_i >= 0, {L > epsilon} is an upper set, and raising
a location raises the chance of every upper set. So lengthening any c_i, upwards or downwards, raises
delta: only full distances count. What is left is where each pair lies (the worst place is often
interior, and differs with epsilon), both ends of a side with gaps, and, for an l2 ball, the
direction.

Quadrature. Losses are collected on a grid of step size h: the mass of a cell is split between its two
ends such that the mass under q and under q' both stay what they are. (1 - e^(epsilon - L))+ is
convex in e^-L, so every split can only raise delta: an upper bound, within O(h^2), side by side. All
terms are positive: small deltas keep their relative precision.

Places. With two sides every pair of nodes is compared. With more, the largest hockey-stick over a
stretch of places is itself the curve of a pair, so stretches are bounded as a whole and split,
largest bound first, until the bound is within `GAP` of its own largest single place. What a maximum
between nodes can add is estimated from second differences and added.

Units    the domain's unit; nats.
Sources  `docs/theory/kernels-and-boundaries.md#bounded-gaussian-with-delta`;
         discretisation: Doroshenko, Ghazi, Kamath, Kumar & Manurangsi, "Connect the Dots: Tighter
         Discrete Approximations of Privacy Loss Distributions", arXiv:2207.04380. Monotone likelihood
         ratios: elementary.
Limits   float64; places are nodes, not a proof between them. Checked against mpmath in
         `tests/reference/gaussian.py`. l2 balls: two sides only.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dprelease.mechanisms.arguments import FloatArray
from dprelease.mechanisms.calibration.gaussian_loss import Side

GAP = 2.0**-10
"""Relative room between the bound that is returned and the largest pair of places found."""

_FINE = (600, 33)
_COARSE = (120, 9)
"""(loss cells, places); the coarse one only picks a direction."""
_DIRECTIONS = 17
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(5)
_SHARE, _HALF = (_POINTS + 1) / 2, _WEIGHTS / 2
_DEPTH = 90.0  # twice the exponent at which the kernel is cut
_CUT = 2.0**-62  # what lies beyond the cut, per side
_MOST_SPLITS = 400
_MARGIN = 1 + 2.0**-30


@dataclass(frozen=True, slots=True)
class _Place:
    """Pairs (start, start + distance) of one side, as seen along increasing coordinates."""

    side: Side
    starts: FloatArray


def _places(side: Side, distance: float, count: int) -> list[_Place]:
    """Return where a pair can lie: nodes over the hull, from both ends if the side has gaps."""
    out = []
    for seen in (side,) if side.is_interval else (side, side.mirror):
        last = max(seen.highest - distance, seen.lowest)
        ends = [*seen.low[:, 0].tolist(), *seen.high[:, 0].tolist()]
        inner = {m for e in ends for m in (e, e - distance) if seen.lowest < m < last}
        marks = sorted({seen.lowest, last, *inner})
        each = max(5, (count - 1) // max(1, len(marks) - 1) + 1)
        parts = [np.linspace(a, b, each) for a, b in pairwise(marks)] or [np.array(marks)]
        out.append(_Place(seen, np.unique(np.concatenate(parts))))
    return out


def _span(places: list[_Place], distance: float, scale: float) -> float:
    """Return about the width of the losses that matter, to choose a step size."""
    rate = distance / scale**2
    return rate * min(places[0].side.span, 2 * math.sqrt(_DEPTH) * scale)


@dataclass(frozen=True, slots=True)
class _Losses:
    """Masses of the loss under q per place, on multiples first, first + 1, ... of the step size."""

    first: int
    masses: FloatArray

    def curves(self, step_size: float) -> FloatArray:
        """Return the hockey-stick at every grid loss, shape of `masses`; positive terms only."""
        after = np.cumsum(self.masses[:, ::-1], axis=1)[:, ::-1]
        out = np.zeros_like(self.masses)
        fall, gain = math.exp(-step_size), -math.expm1(-step_size)
        for j in range(out.shape[1] - 2, -1, -1):
            out[:, j] = fall * out[:, j + 1] + gain * after[:, j + 1]
        return out

    def trimmed(self) -> _Losses:
        """Return the losses without empty columns at either end."""
        used = np.flatnonzero(self.masses.any(axis=0))
        return _Losses(self.first + int(used[0]), self.masses[:, used[0] : used[-1] + 1])


def _losses(place: _Place, distance: float, scale: float, step_size: float, less: float) -> _Losses:
    """Return the masses of (loss - less), split between the ends of grid cells."""
    if distance == 0.0:
        low = math.floor(-less / step_size)
        up = -math.expm1(less + low * step_size) / -math.expm1(-step_size)
        mass = np.tile([1 - up, up], (place.starts.size, 1))
        return _Losses(low, np.clip(mass, 0.0, 1.0))
    side, start, rate = place.side, place.starts, distance / scale**2
    end = start + distance
    here, there = side.nodes(end, scale), side.nodes(start, scale)
    constant = there.log_mass() - here.log_mass() - rate * (start + end) / 2 - less
    wide = np.sqrt(here.near**2 + _DEPTH) * scale
    lows, highs = np.maximum(side.low, end - wide), np.minimum(side.high, end + wide)
    solid = lows < highs
    first = math.floor(float((rate * lows + constant)[solid].min()) / step_size)
    last = math.ceil(float((rate * highs + constant)[solid].max()) / step_size) + 1
    losses = np.arange(first, last + 1) * step_size
    raw = (losses - constant[:, None]) / rate
    masses = np.zeros(raw.shape)
    parts = max(1, math.ceil(step_size / rate / (0.5 * scale)))
    share = ((np.arange(parts)[:, None] + _SHARE) / parts).ravel()
    weight = np.tile(_HALF / parts, parts)
    total = here.sum()
    for low, high in zip(lows, highs, strict=True):
        z = np.clip(raw, low[:, None], np.maximum(low, high)[:, None])
        left, width = z[:, :-1], np.diff(z, axis=1)
        x = left[..., None] + width[..., None] * share
        away = (x - end[:, None, None]) / scale
        near = here.near[:, None, None]
        mass = np.exp(-(away - near) * (away + near) / 2) * (weight * width[..., None])
        over = rate * (x - raw[:, :-1, None])
        rise = (mass * -np.expm1(-over)).sum(axis=2)
        # The rest of the cell's mass, in a form that does not cancel.
        rest = (mass * -np.expm1(over - step_size) * np.exp(-over)).sum(axis=2)
        masses[:, 1:] += rise
        masses[:, :-1] += rest
    masses /= -math.expm1(-step_size) * total[:, None]
    return _Losses(first, masses)


def _merged(parts: list[_Losses]) -> _Losses:
    """Return one list of places on a shared grid."""
    first = min(p.first for p in parts)
    last = max(p.first + p.masses.shape[1] for p in parts)
    rows = [
        np.pad(p.masses, ((0, 0), (p.first - first, last - p.first - p.masses.shape[1])))
        for p in parts
    ]
    return _Losses(first, np.concatenate(rows))


def _excess(first: int, mass: FloatArray, step_size: float) -> float:
    """Return E[(1 - e^-L)+] of losses on the grid."""
    loss = np.arange(first, first + mass.size) * step_size
    return float(mass @ -np.expm1(-np.maximum(loss, 0.0)))


def _tables(
    sides: tuple[Side, ...],
    distances: tuple[float, ...],
    scales: tuple[float, ...],
    epsilon: float,
    detail: tuple[int, int],
) -> tuple[list[_Losses], float]:
    """Return per side its losses at all places (epsilon taken off the first side's)."""
    places = [_places(side, c, detail[1]) for side, c in zip(sides, distances, strict=True)]
    spans = [_span(p, c, s) for p, c, s in zip(places, distances, scales, strict=True)]
    step_size = max(spans) / detail[0]
    out = []
    for i, (some, c, s) in enumerate(zip(places, distances, scales, strict=True)):
        less = epsilon if i == 0 else 0.0
        out.append(_merged([_losses(p, c, s, step_size, less) for p in some]).trimmed())
    return out, step_size


def _bend(values: FloatArray) -> float:
    """Return what a smooth maximum between neighbouring nodes can add, at most."""
    return float(np.abs(np.diff(values, 2)).max()) / 8 if values.size > 2 else 0.0


def box_delta(
    sides: tuple[Side, ...],
    distances: tuple[float, ...],
    scales: tuple[float, ...],
    epsilon: float,
    detail: tuple[int, int] = _FINE,
) -> float:
    """Return the divergence at `epsilon` for sides moving by `distances`, worst over places.

    An upper bound for every pair of places at nodes, at most a relative `GAP` and the
    discretisation (about 1e-4) above the largest of them.
    """
    moving = [i for i, c in enumerate(distances) if c > 0]
    sides = tuple(sides[i] for i in moving)
    distances, scales = tuple(distances[i] for i in moving), tuple(scales[i] for i in moving)
    if len(sides) == 1:
        return sides[0].worst_hockey(distances[0], scales[0], epsilon)
    tables, step_size = _tables(sides, distances, scales, epsilon, detail)
    found = _pair(tables, step_size) if len(tables) == 2 else _many(tables, step_size)
    return min(1.0, found * _MARGIN + len(sides) * _CUT)


def _pair(tables: list[_Losses], step_size: float) -> float:
    one, two = tables
    curves, index = two.curves(step_size), np.arange(one.masses.shape[1])
    # Needed at -(loss of side one): below the grid it is 1 - e^x, above it 0.
    at = -(one.first + index) - two.first
    inside = curves[:, np.clip(at, 0, curves.shape[1] - 1)]
    low = -np.expm1(np.minimum(-(one.first + index) * step_size, 0.0))
    wanted = np.where(at < 0, low, np.where(at >= curves.shape[1], 0.0, inside))
    values = one.masses @ wanted.T
    i, j = np.unravel_index(int(values.argmax()), values.shape)
    near = [_around(values[:, j], int(i)), _around(values[i, :], int(j))]
    return float(values[i, j]) + sum(_bend(v) for v in near)


def _around(values: FloatArray, i: int) -> FloatArray:
    first = min(max(i - 1, 0), max(values.size - 3, 0))
    out: FloatArray = values[first : first + 3]
    return out


class _Stretches:
    """Bounds over boxes of places: per side a range of nodes."""

    def __init__(self, tables: list[_Losses], step_size: float) -> None:
        self.tables, self.step_size = tables, step_size
        self.curves = [t.curves(step_size) for t in tables]
        self.kept: dict[tuple[int, int, int], FloatArray] = {}

    def masses(self, side: int, first: int, last: int) -> FloatArray:
        """Return masses whose curve is the largest one over the nodes first..last."""
        if first == last:
            alone: FloatArray = self.tables[side].masses[first]
            return alone
        key = (side, first, last)
        if key not in self.kept:
            curve = self.curves[side][first : last + 1].max(axis=0)
            # curve is convex in y = e^loss; a mass is y times the change of its slope.
            grow, step = -math.expm1(-self.step_size), math.expm1(self.step_size)
            fall = np.append(curve[:-1] - curve[1:], 0.0)
            mass = np.empty(curve.size)
            mass[1:] = fall[:-1] / grow - fall[1:] / step
            mass = np.maximum(mass, 0.0)
            mass[0] = max(0.0, 1.0 - float(mass[1:].sum()))
            self.kept[key] = mass
        return self.kept[key]

    def bound(self, box: tuple[tuple[int, int], ...]) -> float:
        total = np.ones(1)
        for side, (first, last) in enumerate(box):
            total = np.convolve(total, self.masses(side, first, last))
        return _excess(sum(t.first for t in self.tables), total, self.step_size)


def _many(tables: list[_Losses], step_size: float) -> float:
    work = _Stretches(tables, step_size)
    whole = tuple((0, t.masses.shape[0] - 1) for t in tables)
    heap = [(-work.bound(whole), whole)]
    best, at = 0.0, tuple(b[0] for b in whole)
    for _ in range(_MOST_SPLITS):
        bound, box = heap[0]
        middle = tuple((a + b) // 2 for a, b in box)
        here = work.bound(tuple((m, m) for m in middle))
        if here > best:
            best, at = here, middle
        side = max(range(len(box)), key=lambda i: box[i][1] - box[i][0])
        first, last = box[side]
        if -bound <= best * (1 + GAP) or first == last:
            break
        cut = (first + last) // 2
        for k, part in enumerate(((first, cut), (cut + 1, last))):
            child = (*box[:side], part, *box[side + 1 :])
            entry = (-work.bound(child), child)
            if k == 0:
                heapq.heapreplace(heap, entry)
            else:
                heapq.heappush(heap, entry)
    room = 0.0
    for side, table in enumerate(tables):
        nodes = np.arange(table.masses.shape[0])
        line = [work.bound(tuple((n, n) for n in (*at[:side], int(m), *at[side + 1 :])))
                for m in _around(nodes.astype(np.float64), at[side])]  # fmt: skip
        room += _bend(np.array(line))
    return max(-heap[0][0], best) + room


def ball_delta(
    sides: tuple[Side, ...],
    caps: tuple[float, float],
    scales: tuple[float, ...],
    radius: float,
    epsilon: float,
) -> float:
    """Return the divergence at `epsilon` over an l2 ball of distances of two sides, each at most its cap.

    Full distances decide, so directions run over the arc that both caps admit.
    """
    first, second = caps
    if radius * radius >= first * first + second * second:
        return box_delta(sides, (first, second), scales, epsilon)
    low = math.acos(min(1.0, first / radius))
    high = math.asin(min(1.0, second / radius))

    def delta_at(angle: float, detail: tuple[int, int]) -> float:
        distances = (min(first, radius * math.cos(angle)), min(second, radius * math.sin(angle)))
        tiny = 1e-12 * radius  # cos(pi / 2) is not quite 0
        kept = tuple(c if c > tiny else 0.0 for c in distances)
        return box_delta(sides, kept, scales, epsilon, detail)

    nodes = np.linspace(low, high, _DIRECTIONS)
    rough = np.array([delta_at(angle, _COARSE) for angle in nodes.tolist()])
    values = np.array([delta_at(a, _FINE) for a in _around(nodes, int(rough.argmax())).tolist()])
    return min(1.0, float(values.max()) + _bend(values))
