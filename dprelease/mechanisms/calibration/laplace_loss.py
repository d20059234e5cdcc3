"""Losses of bounded Laplace noise, and the scales that keep them within a budget.

See `bounded_laplace.py` for the law and the argument. Here: the closed form and its Newton
inverse for one interval (vectorised), the exact hockey-stick divergence, and Croft's fixed point.
Hull pairs of a union: `calibration/laplace_hull.py`; log C at both without cancellation:
`calibration/laplace_pairs.py`. The search over scales: `calibration/search.py`.

Newton runs in t = 1/b from t = epsilon / (2 sensitivity): the loss is increasing and concave in
t, so the iterates rise towards the root and never pass it. The target is epsilon (1 - 2**-43);
the result is then verified and widened while the evaluated loss exceeds epsilon.

Units    the domain's unit; nats.
Sources  `docs/theory/kernels-and-boundaries.md#bounded-laplace` (proofs); [BL], [TNL] as in the parent.
Limits   float64. Hull pairs are found by search (`calibration/laplace_hull.py`), places of delta in
         `calibration/laplace_delta.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.core.errors import ArgumentError
from dprelease.mechanisms.arguments import FloatArray
from dprelease.mechanisms.calibration.laplace_delta import hockey
from dprelease.mechanisms.calibration.laplace_hull import hull_scale, pair_losses, worst_pair
from dprelease.mechanisms.calibration.laplace_pairs import Ends, domain_runs
from dprelease.mechanisms.calibration.search import (
    maximum,
    smallest_scale,
    stretch_nodes,
    widen,
)
from dprelease.mechanisms.kernels.laplace_pieces import segments
from dprelease.schema.domain import Domain

_TARGET = 1 - 2.0**-43
_WORST_PLACES = 12


def interval_loss(rate: FloatArray, distance: FloatArray, width: FloatArray) -> FloatArray:
    """Return the exact loss for scale 1 / rate on one interval; arrays broadcast.

    `distance` is at most `width`, which may be infinite.
    """
    a = -np.expm1(-rate * distance)
    rest = np.where(np.isinf(width), np.inf, width - distance)
    b, c = -np.expm1(-rate * rest), -np.expm1(-rate * width)
    out: FloatArray = rate * distance + np.log1p(a * b / c)
    return out


def _slope(rate: FloatArray, distance: FloatArray, width: FloatArray) -> FloatArray:
    """Return d loss / d rate."""
    # Of an infinite width every term below vanishes; a huge number in its place would overflow.
    finite = np.where(np.isinf(width), distance, width)
    rest = finite - distance
    ea, eb, ec = np.exp(-rate * distance), np.exp(-rate * (width - distance)), np.exp(-rate * width)
    a, c = -np.expm1(-rate * distance), -np.expm1(-rate * width)
    b = -np.expm1(-rate * (width - distance))
    h = a * b / c
    change = (distance * ea * b + a * rest * eb) / c - h * finite * ec / c
    out: FloatArray = distance + change / (1 + h)
    return out


def bounded_laplace_scale(
    lower: npt.ArrayLike, upper: npt.ArrayLike, sensitivity: npt.ArrayLike, epsilon: npt.ArrayLike
) -> FloatArray:
    """Return the smallest verified scale per interval; arrays in (broadcast), array out.

    Ends may be infinite. 10**5 intervals take well under a second.

    Raises:
        ArgumentError: NaN, lower >= upper, or a sensitivity or epsilon not above 0 (DPR635).
    """
    low, high, distance, budget = np.broadcast_arrays(
        *(np.asarray(v, dtype=np.float64) for v in (lower, upper, sensitivity, epsilon))
    )
    valid = (
        (low < high) & (distance > 0) & (budget > 0) & np.isfinite(distance) & np.isfinite(budget)
    )
    if not valid.all():
        raise ArgumentError(
            "an interval cannot be calibrated",
            why="it needs lower < upper, and a finite sensitivity and epsilon above 0",
            fix="check the arrays for NaN, swapped ends and zeros",
            code="DPR635",
        )
    width = high - low
    distance = np.minimum(distance, width)
    free = np.isinf(low) & np.isinf(high)  # nothing is truncated: plain Laplace noise
    goal = budget * _TARGET
    rate = goal / (2 * distance)
    for _ in range(60):
        step = (goal - interval_loss(rate, distance, width)) / _slope(rate, distance, width)
        following = np.clip(rate + step, rate, goal / distance)
        if np.all(following - rate <= 1e-16 * rate):
            break
        rate = following
    scale = np.where(free, distance / goal, 1 / rate)
    for k in range(40):
        loss = np.where(free, distance / scale, interval_loss(1 / scale, distance, width))
        if (loss <= budget).all():
            break
        scale = np.where(loss > budget, scale * (1 + 2.0 ** (k - 52)), scale)
    out: FloatArray = scale
    return out


def piece_mass(
    q: FloatArray, near: FloatArray, a: float, end: FloatArray, scale: float
) -> FloatArray:
    """Return the integral over [a, end] of e^(-(|x - q| - near) / b) / b, per location."""
    out = np.zeros(q.size)
    for start, length in (
        (np.maximum(a - q, 0.0), end - np.maximum(a, q)),
        (np.maximum(q - end, 0.0), np.minimum(end, q) - a),
    ):
        apart = np.where(length > 0, start - near, 0.0) / scale
        out += np.where(length > 0, np.exp(-apart) * -np.expm1(-np.maximum(length, 0) / scale), 0.0)
    return out


@dataclass(frozen=True, slots=True)
class LossView:
    """Losses of one domain as functions of the scale."""

    domain: Domain
    answers: str

    def _one_interval(self) -> bool:
        return len(self.domain.exact_pieces) == 1

    def _capped(self, distance: float | Fraction) -> Fraction:
        width, exact = self.domain.width, Fraction(distance)
        return min(exact, width) if isinstance(width, Fraction) else exact

    def loss(self, scale: float, distance: float | Fraction) -> float:
        """Return the worst loss for answers at most `distance` apart."""
        low, high = self.domain.hull
        capped = self._capped(distance)
        if math.isinf(low) and math.isinf(high) and self._one_interval():
            return float(distance) / scale
        if self._one_interval():
            width = float(self.domain.width)  # not high - low: the ends are rounded
            value = interval_loss(np.array(1 / scale), np.array(float(capped)), np.array(width))
            return float(value)
        ends = Ends.from_domain(self.domain)
        if self.answers == "domain":
            pairs = ends.inside(Fraction(distance))
            worst = float(pair_losses(ends, pairs, scale).max())
            return worst if self.domain.is_finite else max(worst, float(distance) / scale)
        return worst_pair(ends, ends.stretches(capped, scale), scale)[0]

    def _starts(self, distance: float, scale: float) -> FloatArray:
        """Return the ends of the smooth stretches of q -> (q, q + distance), for `delta`."""
        ends = [e for piece in self.domain.pieces for e in piece if math.isfinite(e)]
        low, high = self.domain.hull
        low = low if math.isfinite(low) else min(ends) - distance - 40 * scale
        high = high if math.isfinite(high) else max(ends) + distance + 40 * scale
        marks = {low, high - distance, *ends, *(e - distance for e in ends)}
        return np.array(sorted(m for m in marks if low <= m <= high - distance))

    def pure_scale(self, distance: float | Fraction, epsilon: float) -> float:
        """Return the smallest verified scale with loss at most `epsilon`."""
        low, high = self.domain.hull
        if self._one_interval():
            if self.domain.is_finite:
                low, high = 0.0, float(self.domain.width)
            return float(bounded_laplace_scale(low, high, float(distance), epsilon))
        ends = Ends.from_domain(self.domain)
        if self.answers == "domain":
            pairs = ends.inside(Fraction(distance))
            capped = float(np.max(pairs.distance) if self.domain.is_finite else distance)
            least = 0.0 if self.domain.is_finite else capped

            def inside(scale: FloatArray) -> FloatArray:
                worst: FloatArray = pair_losses(ends, pairs, scale).max(axis=-1)
                return np.asarray(np.maximum(worst, least / scale))

            scale = smallest_scale(inside, capped / epsilon, epsilon)
            return widen(lambda b: self.loss(b, distance) <= epsilon, scale)
        return hull_scale(ends, self._capped(distance), epsilon)

    def croft_scale(self, distance: float, epsilon: float) -> float:
        """Return the scale of the metric guarantee, at most 2 distance / epsilon."""
        low, high = self.domain.hull
        full = math.nextafter(2 * distance / epsilon, math.inf)
        if math.isfinite(low) or math.isfinite(high):
            return full
        ends = np.array([e for piece in self.domain.pieces for e in piece if math.isfinite(e)])
        if not ends.size:
            return math.nextafter(distance / epsilon, math.inf)

        def needed(scales: FloatArray) -> FloatArray:
            """Return, per scale, the scale it asks for divided by itself."""
            shares = []
            for scale in scales.tolist():
                parts = segments(self.domain, ends, scale)
                mass = parts.masses()
                right = np.where(parts.sign > 0, mass, 0.0).sum(axis=0) / mass.sum(axis=0)
                shares.append(float(np.max(np.maximum(right, 1 - right))))
            return full * np.array(shares) / scales

        return min(full, smallest_scale(needed, full / 2, 1.0))

    def delta(self, scale: float, distance: float, epsilon: float, most: float = math.inf) -> float:
        """Return the worst hockey-stick divergence over pairs `distance` apart, both directions.

        Above `most` it may be any divergence above `most`: the search for the worst ends there.
        """
        capped = float(self._capped(distance))
        if self.answers == "domain" and not self._one_interval():
            ends = Ends.from_domain(self.domain)
            first, second = ends.floats(ends.inside(Fraction(distance)))
            worst = float(np.max(self._hockey(first, second, scale, epsilon)))
            # Inside a run of pairs at full distance the worst place is often no end.
            kinks = self._starts(float(distance), scale)
            for first_start, last_start in domain_runs(
                self.domain.exact_pieces, Fraction(distance)
            ):
                low = max(first_start, float(kinks[0]))
                high = min(last_start, float(kinks[-1]))
                inner = {low, high, *(m for m in kinks.tolist() if low < m < high)}
                if worst > most:
                    return worst
                curve = self._curve(float(distance), scale, epsilon)
                worst = max(worst, maximum(curve, np.array(sorted(inner)), most)[0])
            return worst
        if self._one_interval() and self.domain.hull == (-math.inf, math.inf):
            return max(0.0, -math.expm1((epsilon - distance / scale) / 2))
        return self._worst_place(capped, scale, epsilon)[0]

    def _worst_place(self, distance: float, scale: float, epsilon: float) -> tuple[float, float]:
        """Return the largest divergence of answers in the hull `distance` apart, and the lower of the two."""
        return maximum(self._curve(distance, scale, epsilon), self._starts(distance, scale))

    def _log_ratio(self, q: FloatArray, other: FloatArray, scale: float) -> FloatArray:
        first = segments(self.domain, q, scale).log_mass()
        return segments(self.domain, other, scale).log_mass() - first

    def _curve(
        self, distance: float, scale: float, epsilon: float
    ) -> Callable[[FloatArray], FloatArray]:
        top = self.domain.hull[1]

        def curve(q: FloatArray) -> FloatArray:
            return self._hockey(q, np.minimum(q + distance, top), scale, epsilon)

        return curve

    def _hockey(self, q: FloatArray, other: FloatArray, scale: float, epsilon: float) -> FloatArray:
        """Return the divergence of each pair, the larger of its two directions; q <= other."""
        return hockey(self.domain, q, other, scale, epsilon, self._log_ratio(q, other, scale))

    def delta_scale(self, distance: float, epsilon: float, delta: float, pure: float) -> float:
        """Return a verified scale below `pure` with divergence at most `delta`, within 1e-6 of the least.

        Of answers in the hull the scale is searched on few pairs; the worst of all pairs at the result
        is added while it is too much.
        """
        capped, goal = float(self._capped(distance)), delta * (1 - 1e-9)
        free = self._one_interval() and self.domain.hull == (-math.inf, math.inf)
        if self.answers == "domain" or free:
            return min(pure, _least(lambda b: self.delta(b, distance, epsilon, goal) <= goal, pure))
        places = stretch_nodes(self._starts(capped, pure))
        scale = pure
        for _ in range(_WORST_PLACES):

            def holds(scale: float, places: FloatArray = places) -> bool:
                return float(self._curve(capped, scale, epsilon)(places).max()) <= goal

            scale = _least(holds, pure)
            worst, place = self._worst_place(capped, scale, epsilon)
            if worst <= delta:
                return min(pure, scale)
            places = np.append(places, place)
        return min(pure, widen(lambda b: self.delta(b, distance, epsilon) <= delta, scale))


def _least(holds: Callable[[float], bool], high: float) -> float:
    """Return a scale up to `high` for which it holds, by halving; `high` itself where none does."""
    low = 0.0
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
