"""What bounded Gaussian noise costs under zCDP, Gaussian DP and (epsilon, delta).

For a direction c, independent sides add up: rho = sum rate_i c_i^2 and mu^2 = sum c_i^2 / scale_i^2,
maximised over the sensitivities (greedily: the side with the highest rate first, each up to its own).

* zCDP, every side: D_alpha is at most (alpha / 2) (c / scale^2)^2 sup Var, Var <= width^2 / 4;
* intervals only: Var <= scale^2 as well (the law is log-concave), and (c / scale)-GDP.

Units    the domain's unit; rho, epsilon in nats.
Sources  `docs/theory/certificates.md#zcdp-of-truncated-laws`,
         `docs/theory/kernels-and-boundaries.md#bounded-gaussian-with-delta`.
Limits   float64, rounded up by 2**-50. The delta of a box is an upper bound: that of its mu, or of its rho.
"""

from __future__ import annotations

import math

from dprelease.core.errors import ArgumentError
from dprelease.mechanisms.calibration.gaussian_scale import SensitivitySet, SideList, delta_scale
from dprelease.mechanisms.kernels.normal_pieces import gaussian_delta

_UP = 1 + 2.0**-50


def zcdp_cost(sides: SideList, scales: tuple[float, ...], sensitivities: SensitivitySet) -> float:
    """Return rho, rounded up."""
    rates = []
    for side, s in zip(sides, scales, strict=True):
        flat = side.span**2 / (8 * s**4)
        rates.append(min(1 / (2 * s * s), flat) if side.is_interval else flat)
    return _quadratic(sides, rates, sensitivities) * _UP


def _distance(sensitivities: SensitivitySet, sides: SideList) -> float:
    """Return the largest distance of one coordinate."""
    if sensitivities.pairs is not None:
        return max(c for _, c in sensitivities.pairs)
    return sensitivities.distances(sides)[0]


def _quadratic(sides: SideList, rates: list[float], sensitivities: SensitivitySet) -> float:
    """Return the largest sum of rate_i c_i^2 over distances that keep the sensitivities."""
    if len(sides) == 1:
        return rates[0] * _distance(sensitivities, sides) ** 2
    caps = sensitivities.distances(sides)
    if sensitivities.l2 is None:
        return sum(r * c * c for r, c in zip(rates, caps, strict=True))
    left, total = sensitivities.l2**2, 0.0
    for rate, cap in sorted(zip(rates, caps, strict=True), key=lambda part: -part[0]):
        used = min(left, cap**2)
        total, left = total + rate * used, left - used
    return total


def gdp_cost(sides: SideList, scales: tuple[float, ...], sensitivities: SensitivitySet) -> float:
    """Return mu, rounded up; DPR634 where a side has a gap."""
    if not all(side.is_interval for side in sides):
        raise ArgumentError(
            "Gaussian DP is proved on intervals only",
            why="across a gap the truncated law is not log-concave",
            fix="use zcdp(sensitivity), which holds on unions too",
            code="DPR634",
        )
    return math.sqrt(_quadratic(sides, [s**-2.0 for s in scales], sensitivities)) * _UP


def worst_delta(
    sides: SideList, scales: tuple[float, ...], sensitivities: SensitivitySet, epsilon: float
) -> float:
    """Return the divergence at `epsilon`; on a box an upper bound of it."""
    if sensitivities.pairs is not None:
        return sides[0].domain_hockey(sensitivities.pairs, sensitivities.runs, scales[0], epsilon)
    if len(sides) == 1:
        return sides[0].worst_hockey(_distance(sensitivities, sides), scales[0], epsilon)
    if sensitivities.loss(sides, scales) <= epsilon:
        return 0.0
    rho = zcdp_cost(sides, scales, sensitivities)
    found = math.exp(-(max(0.0, epsilon - rho) ** 2) / (4 * rho)) * _UP
    if all(side.is_interval for side in sides):
        found = min(found, gaussian_delta(gdp_cost(sides, scales, sensitivities), epsilon))
    return min(1.0, found)


def relaxed_scale(
    sides: SideList,
    ratios: tuple[float, ...],
    sensitivities: SensitivitySet,
    epsilon: float,
    delta: float,
    pure: float,
) -> float:
    """Return the scale for (epsilon, delta), at most `pure`."""
    plain = math.sqrt(_quadratic(sides, [r**-2.0 for r in ratios], sensitivities))
    distance = _distance(sensitivities, sides) if len(sides) == 1 else plain
    goal = delta * (1 - 1e-9)

    def holds(scale: float) -> bool:
        return worst_delta(sides, tuple(scale * r for r in ratios), sensitivities, epsilon) <= goal

    return delta_scale(holds, distance, epsilon, delta, pure)
