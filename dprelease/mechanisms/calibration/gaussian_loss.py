"""Losses of Gaussian noise truncated to one side of a box: an interval or a union.

For locations s' < s = s' + c and k = c / scale^2, log p_s(x) - log p_s'(x) = k x + constant rises
in x, so it is largest at top = max D, where it equals

    -log E_s'[e^(-k (top - X))]  =  scale^-2 * integral over t in [s', s] of (top - E_t X) dt.

E_t X rises in t, so the integral is largest for the lowest s' and grows with c: the worst pair of
hull answers is (lowest, lowest + min(sensitivity, width)), or its mirror image at the other end,
and the loss is concave in c. The expectation form has one sign only, hence no cancellation.

Both ends add up to c (top - bottom) / scale^2 for the same pair, so for v = top - bottom

    c v / (2 epsilon)  <=  scale^2  <=  c v / epsilon.

(epsilon, delta). {loss > epsilon} is a half-line x > cut and the family has monotone likelihood
ratios, so pairs at full distance c decide; their location is searched over the hull.

Units    the domain's unit; nats.
Sources  Chen & Hale, "The Bounded Gaussian Mechanism for Differential Privacy", Theorem 2.4,
         bounds normaliser and exponent separately and adds what must be subtracted; exact forms:
         `docs/theory/kernels-and-boundaries.md#bounded-gaussian`.
Limits   float64 with a relative error below 2**-46; callers keep a margin of 2**-43.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dprelease.core.errors import ArgumentError
from dprelease.mechanisms.arguments import FloatArray
from dprelease.mechanisms.calibration.search import maximum
from dprelease.mechanisms.kernels.normal_pieces import NormalNodes, normal_nodes
from dprelease.schema.domain import Domain

_DIRECT = 1.5  # largest k (top - bottom) for the expm1 form; beyond it, logarithms are exact enough


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One coordinate: pieces of positive width, shape `(pieces, 1)`, and the hull of answers."""

    low: FloatArray
    high: FloatArray
    lowest: float
    highest: float
    width: float

    @classmethod
    def from_domain(cls, domain: Domain) -> Side:
        """Return the side of a finite domain.

        Raises:
            ArgumentError: an infinite end (DPR603), or single points only (DPR632).
        """
        if not domain.is_finite:
            raise ArgumentError(
                "the bounded Gaussian needs a finite domain",
                why="its loss grows without bound towards an infinite end",
                fix="declare both ends, or use bounded_laplace",
                code="DPR603",
            )
        solid = [(a, b) for a, b in domain.exact_pieces if a < b]
        if not solid:
            raise ArgumentError(
                "the bounded Gaussian needs an interval of positive width",
                why="the domain consists of single points",
                fix="use `staircase` on a grid of those points",
                code="DPR632",
            )
        low, high = np.array([[float(a), float(b)] for a, b in solid]).T
        ends = domain.hull
        return cls(low[:, None], high[:, None], *ends, float(domain.width))

    @property
    def mirror(self) -> Side:
        """The side seen from the other end."""
        low, high = -self.high[::-1], -self.low[::-1]
        return Side(low, high, -self.highest, -self.lowest, self.width)

    @property
    def is_interval(self) -> bool:
        """Whether the hull has no gap and the answers' hull is the support."""
        return self.low.size == 1 and self.span == self.width

    @property
    def top(self) -> float:
        return float(self.high[-1, 0])

    @property
    def span(self) -> float:
        """Width of the support."""
        return float(self.high[-1, 0] - self.low[0, 0])

    def nodes(self, location: FloatArray, scale: float | FloatArray) -> NormalNodes:
        return normal_nodes(self.low, self.high, location, scale)

    def pair_loss(self, start: FloatArray, distance: FloatArray, scale: float) -> FloatArray:
        """Return log p_(start + distance)(top) - log p_start(top) per pair, shape `(pairs,)`."""
        first = self.nodes(start, scale)
        rate = distance / scale**2
        total = first.sum()
        if (rate * self.span < _DIRECT).all():
            gone = first.sum(-np.expm1(-first.below(self.top) * rate[:, None]))
            out: FloatArray = -np.log1p(-gone / total)
            return out
        second = self.nodes(start + distance, scale)
        lead = rate * (2 * (self.top - start) - distance) / 2
        nearness = (second.near - first.near) * (second.near + first.near) / 2
        return lead + nearness + np.log(total / second.sum())

    def upward(self, distance: float, scale: float) -> float:
        """Return the worst loss at the top for hull answers `distance` apart."""
        return float(self.pair_loss(np.array([self.lowest]), np.array([distance]), scale)[0])

    def worst(self, distance: float, scale: float) -> float:
        """Return the worst loss for hull answers at most `distance` <= width apart, both ends."""
        up = self.upward(distance, scale)
        return up if self.is_interval else max(up, self.mirror.upward(distance, scale))

    def pull(self, distance: float, scale: float) -> tuple[float, float]:
        """Return d(upward) / d(distance) and its own derivative (<= 0)."""
        nodes = self.nodes(np.array([self.lowest + distance]), scale)
        total = nodes.sum()
        gap = nodes.below(self.top)
        mean = nodes.sum(gap) / total
        spread = nodes.sum((gap - mean[:, None]) ** 2) / total
        return float(mean[0]) / scale**2, -float(spread[0]) / scale**4

    def hockey(
        self, start: FloatArray, distance: float, scale: float, epsilon: float
    ) -> FloatArray:
        """Return the divergence of p_(start + distance) from p_start at `epsilon`, per start.

        The integral over x > cut of p_s(x) (1 - e^(-k (x - cut))): positive terms only.
        """
        rate = distance / scale**2
        excess = self.pair_loss(start, np.full(start.size, distance), scale) - epsilon
        cut = self.top - np.maximum(excess, 0.0) / rate
        other = start + distance
        whole = self.nodes(other, scale)
        low = np.minimum(np.maximum(self.low, cut), self.high)
        part = normal_nodes(low, np.broadcast_to(self.high, low.shape), other, scale)
        gain = -np.expm1(-rate * ((part.anchor - cut)[..., None] + part.offset))
        front = np.exp(-(part.near - whole.near) * (part.near + whole.near) / 2)
        return np.where(excess > 0, part.sum(gain) / whole.sum() * front, 0.0)

    def worst_hockey(self, distance: float, scale: float, epsilon: float) -> float:
        """Return the worst divergence over hull answers at most `distance` <= width apart."""
        last = max(self.highest - distance, self.lowest)
        best = self.highest_hockey(self.lowest, last, distance, scale, epsilon)
        if self.is_interval:
            return best
        other = self.mirror.highest_hockey(
            -self.highest, -distance - self.lowest, distance, scale, epsilon
        )
        return max(best, other)

    def domain_hockey(
        self,
        pairs: tuple[tuple[float, float], ...],
        runs: tuple[tuple[float, float], ...],
        scale: float,
        epsilon: float,
    ) -> float:
        """Return the worst divergence over answers inside the domain, in both directions.

        `pairs` are (start, distance); `runs` are (first start, last start) of pairs that are both
        allowed, apart by the largest distance of `pairs`.
        """
        best, full = 0.0, max(c for _, c in pairs)
        for side, sign in ((self, 1), (self.mirror, -1)):
            for start, distance in pairs:
                at = start if sign > 0 else -start - distance
                found = side.hockey(np.array([at]), distance, scale, epsilon)
                best = max(best, float(found[0]))
            for first, last in runs:
                ends = (first, last) if sign > 0 else (-last - full, -first - full)
                best = max(best, side.highest_hockey(*ends, full, scale, epsilon))
        return best

    def highest_hockey(
        self, first: float, last: float, distance: float, scale: float, epsilon: float
    ) -> float:
        """Return the largest divergence for starts in [first, last]."""
        ends = [*self.low[:, 0].tolist(), *self.high[:, 0].tolist()]
        marks = {first, max(first, last), *ends, *(e - distance for e in ends)}

        def curve(start: FloatArray) -> FloatArray:
            return self.hockey(start, distance, scale, epsilon)

        inside = sorted(m for m in marks if first <= m <= max(first, last))
        return maximum(curve, np.array(inside))[0]
