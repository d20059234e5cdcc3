"""From a budget to the scale of bounded Gaussian noise: boxes, directions, both rules.

A box's coordinates are independent, so the loss of a direction c is the sum of the sides' concave
losses H_i(c_i), and the worst direction maximises that sum:

* per-coordinate sensitivities: c_i = min(sensitivity_i, width_i);
* an l2 ball, with or without such caps: H_i'(c_i) = 2 multiplier c_i, clipped to [0, cap_i], cap_i the
  width or the smaller sensitivity_i. What is returned is the dual
  bound sum(H_i(c_i) - multiplier c_i^2) + multiplier radius^2, which is never below the maximum
  and within its square-small error. A side with a gap is tried at both ends.

`scale_ratios` r fix the shape of the noise: coordinate i has scale r_i * scale.

Rule chen_hale. scale^2 >= (||widths|| + D/2) D / (epsilon - ln DC(scale)). The printed theorems
lack the condition epsilon > ln DC: with a negative denominator they accept any scale. It holds from
scale^2 = (||widths|| + D/2) D / epsilon upwards, where the search starts. DC itself is not concave
in the direction (as printed); ln DC is, and is what is maximised. The upper end of the bracket is
returned.

On unions the loss is not proved to fall with the scale: a scan from below brackets the first scale
within the budget, and the scale that is returned is one that was evaluated.

Units    the domain's unit; nats.
Sources  Chen & Hale, "The Bounded Gaussian Mechanism for Differential Privacy", Theorems 2.4 and
         3.4 and Algorithm 2, corrected as above; `docs/theory/errata.md#chen-and-hale`.
         On a grid the worst pair is at an end: `docs/theory/kernels-and-boundaries.md#bounded-gaussian`.
Limits   at most 10 sides with gaps under an l2 sensitivity. On a grid float64; its certificate judges what is proposed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from dprelease.core.errors import ArgumentError
from dprelease.mechanisms.arguments import FloatArray
from dprelease.mechanisms.calibration.gaussian_loss import Side
from dprelease.mechanisms.calibration.roots import inside_root
from dprelease.mechanisms.kernels.normal_pieces import gaussian_delta
from dprelease.mechanisms.law import GridRequest

SideList = tuple[Side, ...]
Slope = Callable[[float], tuple[float, float]]
_TARGET = 1 - 2.0**-43
_GAP_SIDES = 10


@dataclass(frozen=True, slots=True)
class SensitivitySet:
    """The sensitivities that two neighbouring answers keep, in the domain's unit.

    Attributes:
        l2: an l2 sensitivity, or None.
        per_coordinate: one sensitivity per coordinate, or None. Where both are given, both hold.
        pairs: for one coordinate with answers inside the domain only: (start, distance) pairs.
        runs: with `pairs`: (first, last) starts of allowed pairs at the largest distance.
    """

    l2: float | None = None
    per_coordinate: tuple[float, ...] | None = None
    pairs: tuple[tuple[float, float], ...] | None = None
    runs: tuple[tuple[float, float], ...] = ()

    def distances(self, sides: SideList) -> tuple[float, ...]:
        """Return the most that each coordinate can move by itself: at most its width."""
        if self.per_coordinate is None:
            return tuple(side.width for side in sides)
        return tuple(min(s, side.width) for s, side in zip(self.per_coordinate, sides, strict=True))

    def loss(self, sides: SideList, scales: tuple[float, ...]) -> float:
        """Return the worst loss over all answers that keep them."""
        if self.pairs is not None:
            return _pair_loss(self.pairs, sides[0], scales[0])
        if self.l2 is not None:
            return _ball_loss(sides, scales, self.l2, self.distances(sides))
        parts = zip(sides, self.distances(sides), scales, strict=True)
        return sum(side.worst(c, s) for side, c, s in parts if c > 0)

    def bracket(self, sides: SideList, ratios: tuple[float, ...]) -> tuple[float, float]:
        """Return (low, high) with low / (2 epsilon) <= scale^2 <= high / epsilon."""
        pull = [side.span / r**2 for side, r in zip(sides, ratios, strict=True)]
        if self.pairs is not None:
            k = max(c for _, c in self.pairs) * pull[0]
            return k, k
        caps = self.distances(sides)
        k = sum(c * p for c, p in zip(caps, pull, strict=True))
        if self.l2 is None:
            return k, k
        norm = math.hypot(*pull)
        moves = [min(c, self.l2 * p / norm) for c, p in zip(caps, pull, strict=True)]
        low = sum(c * p for c, p in zip(moves, pull, strict=True))
        return low, min(k, self.l2 * norm)


def _pair_loss(pairs: tuple[tuple[float, float], ...], side: Side, scale: float) -> float:
    start, distance = np.array(pairs).T
    up = side.pair_loss(start, distance, scale)
    down = side.mirror.pair_loss(-(start + distance), distance, scale)
    return float(max(up.max(), down.max()))


def _ball_loss(
    sides: SideList, scales: tuple[float, ...], radius: float, caps: tuple[float, ...]
) -> float:
    ways = [(side,) if side.is_interval else (side, side.mirror) for side in sides]
    if sum(len(w) > 1 for w in ways) > _GAP_SIDES:
        raise ArgumentError(
            f"more than {_GAP_SIDES} sides of this box have gaps",
            why="an l2 sensitivity tries both ends of every such side",
            fix="give per-coordinate sensitivities",
            code="DPR634",
        )
    best = 0.0
    for chosen in product(*ways):
        slopes = [_pull(side, s) for side, s in zip(chosen, scales, strict=True)]
        distance, multiplier = ball_maximum(slopes, list(caps), radius)
        value = multiplier * radius**2
        for side, c, s in zip(chosen, distance, scales, strict=True):
            value += (side.upward(c, s) if c > 0 else 0.0) - multiplier * c * c
        best = max(best, value)
    return best


def _pull(side: Side, scale: float) -> Slope:
    return lambda c: side.pull(c, scale)


def ball_maximum(
    slopes: list[Slope], caps: list[float], radius: float
) -> tuple[list[float], float]:
    """Return (c, multiplier) maximising sum H_i(c_i) over |c|_2 <= radius, 0 <= c_i <= cap_i.

    `slopes[i](c)` returns H_i'(c) and H_i''(c) <= 0.
    """
    distance = [_stationary(s, cap, 0.0, cap) for s, cap in zip(slopes, caps, strict=True)]
    norm = math.hypot(*distance)
    if norm <= radius:
        return distance, 0.0
    distance = [c * radius / norm for c in distance]
    multiplier = math.hypot(*(s(c)[0] for s, c in zip(slopes, distance, strict=True))) / (
        2 * radius
    )
    low, high = 0.0, math.inf
    for _ in range(100):
        distance = [
            _stationary(s, cap, multiplier, c)
            for s, cap, c in zip(slopes, caps, distance, strict=True)
        ]
        norm = math.hypot(*distance)
        if abs(norm - radius) <= 1e-10 * radius:
            break
        if norm > radius:
            low = multiplier
        else:
            high = multiplier
        # |c| times the multiplier hardly depends on it: nearly a Newton step.
        proposal = multiplier * norm / radius
        if low < proposal < high:
            multiplier = proposal
        else:
            multiplier = (low + high) / 2 if math.isfinite(high) else 2 * low
    return distance, multiplier


def _stationary(slope: Slope, cap: float, multiplier: float, start: float) -> float:
    """Return the c in [0, cap] where slope(c) = 2 multiplier c; safeguarded Newton."""
    low, high, c = 0.0, cap, start
    value, bend = slope(cap)
    if value - 2 * multiplier * cap >= 0:
        return cap
    for _ in range(60):
        value, bend = slope(c)
        gap = value - 2 * multiplier * c
        if gap > 0:
            low = c
        else:
            high = c
        step = gap / (2 * multiplier - bend) if 2 * multiplier > bend else math.inf
        following = c + step
        if not low < following < high:
            following = (low + high) / 2
        if abs(following - c) <= 1e-13 * cap:
            return following
        c = following
    return c


def exact_scale(
    sides: SideList, ratios: tuple[float, ...], sensitivities: SensitivitySet, epsilon: float
) -> float:
    """Return the smallest verified scale with loss at most `epsilon`, up to 2**-40 relative."""
    low, high = sensitivities.bracket(sides, ratios)

    def loss(scale: float) -> float:
        return sensitivities.loss(sides, tuple(scale * r for r in ratios))

    low = math.sqrt(low / (2 * epsilon)) * (1 - 2.0**-42)
    high = math.sqrt(high / epsilon) * (1 + 2.0**-42)
    monotone = sensitivities.pairs is None and all(side.is_interval for side in sides)
    if not monotone:
        low, high = first_bracket(loss, low, high, epsilon)
    return scale_within(loss, low, high, epsilon)


def first_bracket(
    loss: Callable[[float], float], low: float, high: float, epsilon: float
) -> tuple[float, float]:
    """Return neighbours of a scan from `low` between which the loss first falls to epsilon."""
    last = low
    for scale in np.geomspace(low, high, 17).tolist():
        if loss(scale) <= epsilon * _TARGET:
            return last, scale
        last = scale
    return last, high


def scale_within(loss: Callable[[float], float], low: float, high: float, epsilon: float) -> float:
    """Return an evaluated scale in [low, high] within epsilon; `high` is within it.

    In t = scale^-2, in which the loss is nearly linear.
    """
    most = epsilon * _TARGET
    if loss(low) <= most:
        return low

    def excess(t: float) -> float:
        return loss(1 / math.sqrt(t)) - most

    return 1 / math.sqrt(inside_root(excess, low**-2, high**-2, epsilon * 2.0**-40))


def log_ratio(sides: SideList, scale: float, radius: float) -> float:
    """Return ln DC(scale): the largest ln(Z(a + c) / Z(a)) over |c|_2 <= radius; intervals."""

    def slope_of(side: Side) -> Slope:
        def slope(c: float) -> tuple[float, float]:
            value, bend = side.pull(c, scale)
            return (side.width - c) / scale**2 - value, -1 / scale**2 - bend

        return slope

    slopes = [slope_of(side) for side in sides]
    distance, _ = ball_maximum(slopes, [side.width for side in sides], radius)
    value = 0.0
    for side, c in zip(sides, distance, strict=True):
        if c > 0:
            value += c * (2 * side.width - c) / (2 * scale**2) - side.upward(c, scale)
    return value


def chen_hale_scale(sides: SideList, radius: float, epsilon: float) -> float:
    """Return the scale of Theorem 2.4 (one side) or 3.4, with epsilon > ln DC required."""
    radius = min(radius, math.hypot(*(side.width for side in sides)))
    k = (math.hypot(*(side.width for side in sides)) + radius / 2) * radius

    def need(square: float) -> float:
        return k / (epsilon - log_ratio(sides, math.sqrt(square), radius))

    low = k / epsilon  # from here on ln DC < epsilon: it is below k / square
    high = need(low)
    square = inside_root(lambda v: need(v) - v, low, high, high * 2.0**-42)
    return math.sqrt(square) * (1 + 2.0**-50)


def delta_scale(
    holds: Callable[[float], bool],
    distance: float,
    epsilon: float,
    delta: float,
    pure: float,
) -> float:
    """Return a verified scale, at most `pure`, for which `holds` (divergence within delta).

    `distance` is the largest distance in scales of 1: the Gaussian-DP scale starts the search.
    """
    high = min(pure, distance / gaussian_mu(epsilon, delta))
    while not holds(high) and high < pure:
        high = min(pure, high * 1.5)
    low = high / 2
    while low > 1e-12 * pure and holds(low):
        low, high = low / 2, low
    while high - low > 1e-11 * high:
        middle = math.sqrt(low * high)
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest verified mu whose Gaussian curve at `epsilon` is at most `delta`."""
    low, high = 0.0, 1.0
    while gaussian_delta(high, epsilon) <= delta:
        low, high = high, 2 * high
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        if gaussian_delta(middle, epsilon) <= delta * (1 - 2.0**-40):
            low = middle
        else:
            high = middle
    return low


# --- on a grid ------------------------------------------------------------------------------------


def table_scale(request: GridRequest) -> float:
    """Return about the smallest scale whose exact discrete Gaussian is within epsilon."""
    allowed, distance, budget = request.allowed, request.capped_sensitivity, float(request.epsilon)
    if allowed.hull_steps == 0:
        return 1.0
    x = (allowed.points() - allowed.lower).astype(np.float64)
    ways = [x] if len(allowed.runs) == 1 else [x, (allowed.hull_steps - x)[::-1]]

    def loss(scale: float) -> float:
        return max(_upward(points, distance, scale) for points in ways)

    middle = math.sqrt(distance * allowed.hull_steps / budget)
    low, high = middle * math.sqrt(0.5), middle * (1 + 2.0**-40)
    if len(ways) > 1:
        low, high = first_bracket(loss, low, high, budget)
    return scale_within(loss, low, high, budget)


def _upward(x: FloatArray, distance: int, scale: float) -> float:
    """Return -log E_0[e^(-distance (top - X) / scale^2)] of the discrete Gaussian at 0."""
    plain = x * x / (-2 * scale * scale)
    tilted = plain - (x[-1] - x) * (distance / scale**2)
    peak = float(tilted.max())
    return math.log(np.exp(plain).sum() / np.exp(tilted - peak).sum()) - peak
