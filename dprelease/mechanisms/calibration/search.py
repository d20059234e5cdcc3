"""The smallest scale within epsilon where the loss need not fall as the scale grows, and the largest value of a curve.

On a union of intervals the valid scales can be several intervals. A scan brackets the first valid
one, dips between two points of the scan included; regula falsi (the Illinois variant) closes in on
the crossing, and the valid end of the bracket is returned: every result was itself evaluated.

Units    scales in the domain's unit; losses in nats.
Sources  Dowell & Jarratt, "A modified regula falsi method for computing the root of an equation".
Limits   a valid interval narrower than a step of the scan (1.1 %) is found only by its dip.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from dprelease.mechanisms.arguments import FloatArray

_ROOM = 1e-12  # by which the loss stays within epsilon, relative: a thousand times its rounding
_SCAN = 65
_NODES = 65


def widen(holds: Callable[[float], bool], scale: float) -> float:
    """Return the first of scale, scale (1 + 2**-40), ... that holds."""
    step = 2.0**-40
    while not holds(scale):
        scale, step = scale * (1 + step), 2 * step
    return scale


def smallest_scale(loss: Callable[[FloatArray], FloatArray], low: float, epsilon: float) -> float:
    """Return the smallest scale in [low, 2 low] with loss within `epsilon`, itself verified.

    `loss` maps an array of scales and need not be monotone: a scan brackets its first valid point,
    dips between two points of the scan included; then regula falsi (Illinois) finds the crossing,
    and the valid end of the bracket is returned.
    """

    def over(scale: float) -> float:
        return float(loss(np.array([scale]))[0]) / epsilon - 1

    scan = np.geomspace(low, 2 * low * (1 + 2.0**-40), _SCAN)
    excess = loss(scan) / epsilon - 1
    valid = np.flatnonzero(excess <= -_ROOM)
    first = int(valid[0]) if valid.size else _SCAN
    if first == 0:
        return float(scan[0])
    a, fa, b, fb = float(scan[first - 1]), float(excess[first - 1]), 0.0, 0.0
    if first < _SCAN:
        b, fb = float(scan[first]), float(excess[first])
    for i in range(1, min(first, _SCAN - 1)):
        if excess[i] < min(excess[i - 1], excess[i + 1]):
            dip = _dip(over, float(scan[i - 1]), float(scan[i + 1]))
            if dip is not None:
                a, fa, b = float(scan[i - 1]), float(excess[i - 1]), dip
                fb = over(b)
                break
    if b == 0:
        return widen(lambda scale: over(scale) <= -_ROOM, float(scan[-1]))
    return _crossing(over, (a, fa), (b, fb))


def next_scale(loss: Callable[[FloatArray], FloatArray], scale: float, epsilon: float) -> float:
    """Return a scale above `scale` with loss within `epsilon`, itself verified: the first, while the loss falls there.

    For a loss that is slightly too much at `scale`: steps are as long as that asks for, then twice as long.
    """

    def over(b: float) -> float:
        return float(loss(np.array([b]))[0]) / epsilon - 1

    a, fa = scale, over(scale)
    step = max(2 * fa, 4 * _ROOM)
    for _ in range(60):
        b = a * (1 + step)
        fb = over(b)
        if fb <= -_ROOM:
            return _crossing(over, (a, fa), (b, fb)) if fa > -_ROOM else a
        a, fa, step = b, fb, 2 * step
    return a


def _crossing(
    over: Callable[[float], float], bad: tuple[float, float], good: tuple[float, float]
) -> float:
    """Return the valid end of a bracket, closed in on the crossing."""
    (a, fa), (b, fb) = bad, good
    wa, wb, aim, side = fa, fb, -2 * _ROOM, 0
    for _ in range(100):
        if fb >= -4 * _ROOM or b - a <= 1e-14 * b:
            break
        c = a + (b - a) * (wa - aim) / (wa - wb)
        c = min(max(c, a + (b - a) * 1e-9), b - (b - a) * 1e-9)
        fc = over(c)
        if fc > -_ROOM:
            a, wa = c, fc
            wb = (wb + aim) / 2 if side < 0 else wb
            side = -1
        else:
            b, fb, wb = c, fc, fc
            wa = (wa + aim) / 2 if side > 0 else wa
            side = 1
    return b


def _dip(over: Callable[[float], float], low: float, high: float) -> float | None:
    """Return a valid scale near a local minimum of the loss, or None."""
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(40):
        x, y = high - ratio * (high - low), low + ratio * (high - low)
        at_x, at_y = over(x), over(y)
        for scale, value in ((x, at_x), (y, at_y)):
            if value <= -_ROOM:
                return scale
        low, high = (low, y) if at_x < at_y else (x, high)
    return None


def stretch_nodes(marks: FloatArray) -> FloatArray:
    """Return nodes on every stretch between sorted marks."""
    stretches = pairwise(marks)
    return np.unique(np.concatenate([marks, *(np.linspace(a, b, _NODES) for a, b in stretches)]))


def maximum(
    f: Callable[[FloatArray], FloatArray], marks: FloatArray, most: float = math.inf
) -> tuple[float, float]:
    """Return the maximum of f between sorted marks and where: nodes, then golden section.

    Where a node is above `most`, the largest of the nodes.
    """
    nodes = stretch_nodes(marks)
    values = f(nodes)
    top = int(np.argmax(values))
    best, where = float(values[top]), float(nodes[top])
    if best > most:
        return best, where
    tops = np.argsort(values)[-4:]
    left, right = nodes[np.maximum(tops - 1, 0)], nodes[np.minimum(tops + 1, nodes.size - 1)]
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(30):
        x, y = right - ratio * (right - left), left + ratio * (right - left)
        both = np.concatenate([x, y])
        found = f(both)
        top = int(np.argmax(found))
        if found[top] > best:
            best, where = float(found[top]), float(both[top])
        up = found[: x.size] > found[x.size :]
        left, right = np.where(up, left, x), np.where(up, y, right)
    return best, where
