"""Certifier of Laplace noise in closed form: branch and bound over all hull pairs.

For a clamped answer q and allowed runs of integers D, with an exact rational rate,

    P(y | q) = e^(-rate |y - q|) / Z(q),   y in D,   Z(q) = sum over D,

drawn exactly: discrete Laplace noise is added to q, or where the noise is wider than the hull a point of
the hull is kept with probability e^(-rate |y - q|), until it lies in D (rejection conditions). What a few
rounds left over is drawn by inversion (`kernels/laplace_inversion.py`), by the same law: no answer, however
unlikely noise is to land in D from there, is given up.

Privacy. For k = |q - q'| the largest likelihood ratio is exactly e^(rate k) max(Z(q')/Z(q), its
inverse): both hull ends are allowed, and one of them attains either sign. The bound grows along
chains (Z(q + 1) >= e^-rate Z(q)), so only pairs at distance s = min(sensitivity, hull) count. Every
hull answer counts, gaps included. Y = (1 - e^-rate) Z is a sum of powers of e^-rate, bounded here
in outward-rounded rationals, and over a whole stretch of answers by monotone parts (a power
either rises or falls in q). The supremum of |log Y(q + s) - log Y(q)| over all pairs is then
bounded by branch and bound on stretches that no run edge crosses, each by the smaller of two
bounds: of both masses apart, and of their difference, a sum of monotone powers too; a finite number
of exact comparisons, whatever the size of the domain. One run needs one pair: Z is concave there, so the
end pair (low, low + s) is the worst. A stretch inside one gap needs its two ends: log Z is convex there. And
as a step changes Z by at most e^rate, the loss is never above 2 rate s, the value in the midst of a wide gap.

Support is D for every answer. No point masses are added.

Units    grid steps; epsilon in nats.
Sources  Holohan et al., "The Bounded Laplace Mechanism in Differential Privacy"; exact loss over
         all hull pairs: `docs/theory/certificates.md#wide-laplace`; sampler: Canonne, Kamath & Steinke,
         arXiv:2004.00010.
Limits   hulls within +-2**60 steps. A draw takes at most 32 rounds, in which on one run at least three
         attempts in ten succeed, and then some milliseconds. The time depends on the answer; what is
         released does not show it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar, Self

import numpy as np

from dprelease.core.entropy import RandomBits, uniform_below
from dprelease.core.numeric import exp_lower, exp_upper
from dprelease.mechanisms.arguments import FloatArray, IntArray
from dprelease.mechanisms.calibration.laplace_grid import largest_rate
from dprelease.mechanisms.certificate import Certificate, certify_ratio
from dprelease.mechanisms.forms.closed_form import Attempt, ClosedFormLaw
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.kernels.laplace_inversion import inverse_draw, powers
from dprelease.mechanisms.kernels.laplace_sums import (
    UNBOUNDED,
    LaplaceSums,
    mean_distance,
    relative_mass,
)
from dprelease.mechanisms.kernels.sampling import BoolArray, bernoulli, exp_coin
from dprelease.mechanisms.law import GridRequest

_MOST_SPLITS = 4000
_ROOM = Fraction(1, 2**30)
"""Part of epsilon that calibration leaves for outward rounding and for branch and bound."""
_NEARLY = 2.0**-24
"""A rate that is no more than this above epsilon / 2 s is that: it needs no search for the worst pair."""


@dataclass(frozen=True, slots=True)
class BoundedLaplaceWideLaw(ClosedFormLaw):
    """Truncated discrete Laplace law with an exact rate."""

    family: ClassVar[str] = "bounded_laplace"
    room: ClassVar[float] = 1e-6

    rate: Fraction

    @classmethod
    def calibrate(cls, request: GridRequest) -> Self:
        """Return the law of (nearly) largest rate whose exact certificate is within epsilon."""
        goal = float(request.epsilon * (1 - _ROOM))
        rate = largest_rate(request.allowed, request.capped_sensitivity, goal)
        least = goal / (2 * request.capped_sensitivity)
        if rate <= least * (1 + _NEARLY):
            rate = least
        shrink = 2.0**-32
        while True:
            noise = DiscreteLaplaceNoise.calibrate(1, Fraction(rate))
            law = cls(
                request.allowed, request.sensitivity, request.epsilon, request.loss, noise.rate
            )
            excess = law.certificate.epsilon_upper / request.epsilon - 1
            if excess <= 0:
                return law
            # a bound that took all its splits costs seconds: go as far down as it is above
            rate *= 1 - max(shrink, min(float(excess), 0.25))
            shrink = min(2 * shrink, 0.25)

    @property
    def rho_upper(self) -> Fraction:
        """The law is rho-zCDP for this rho: losses of a pair span 2 rate s, squared over 8."""
        return (self.rate * self.capped_sensitivity) ** 2 / 2

    def certify(self) -> Certificate:
        """Recompute the proof from the runs, the rate and the sensitivity alone."""
        distance = self.capped_sensitivity
        twice = 2 * self.rate * distance
        if self.allowed.hull_steps == 0:
            ratio = Fraction(1)
        elif twice <= self.epsilon:
            said = (("rate", str(self.rate)), ("distance", str(distance)))
            method = "2 rate distance: Z changes by at most e**rate per step"
            return Certificate(self.family, twice, None, method, said)
        else:
            allowance = exp_lower(self.epsilon) / exp_upper(distance * self.rate)
            worst = worst_ratio(LaplaceSums(self.allowed, self.rate), distance, allowance)
            ratio = worst * exp_upper(distance * self.rate)
        return certify_ratio(
            self.family,
            ratio,
            self.epsilon,
            "e**(rate distance) times the largest Z ratio over all hull pairs, by branch and bound",
            rate=self.rate,
            distance=distance,
        )

    @property
    def scale(self) -> float:
        return float(1 / self.rate)

    def attempt(self, q: IntArray, bits: RandomBits) -> Attempt:
        """Add noise to q, or keep hull points with probability e^(-rate |y - q|) if it is wide."""
        low, span = self.allowed.lower, self.allowed.hull_steps
        flat = self.rate * span
        noise = None if flat < 1 else DiscreteLaplaceNoise(self.rate)

        def near(at: IntArray, drawn: IntArray) -> BoolArray:
            """Flip coins of probability e^(-rate |drawn - q|)."""
            away = np.abs(drawn - q[at])

            def flip(some: IntArray) -> BoolArray:
                rare = bernoulli(flat.numerator, flat.denominator, some.size, bits)
                below: BoolArray = uniform_below(max(1, span), some.size, bits) < away[some]
                return rare & below

            return exp_coin(flip, at.size, bits)

        def attempt(todo: IntArray) -> tuple[BoolArray, IntArray]:
            if noise is None:
                drawn = low + uniform_below(span + 1, todo.size, bits)
                good = self.allowed.contains(drawn) & near(todo, drawn)
            else:
                drawn = q[todo] + noise.sample(todo.size, bits)
                good = self.allowed.contains(drawn)
            return good, drawn[good]

        return attempt

    def otherwise(self, q: IntArray, bits: RandomBits) -> Callable[[int], int]:
        power = powers(self.rate)
        return lambda place: inverse_draw(self.allowed, power, int(q[place]), bits)

    def log_weight(self, distance: IntArray) -> FloatArray:
        out: FloatArray = -float(self.rate) * distance.astype(np.float64)
        return out

    def below(self, q: IntArray, y: IntArray) -> FloatArray:
        rate = float(self.rate)
        part = relative_mass(self.allowed, rate, q, y)
        whole = relative_mass(self.allowed, rate, q, np.full_like(q, self.allowed.upper))
        out: FloatArray = part / whole
        return out

    def errors(self, answers: IntArray) -> FloatArray:
        power = 1 if self.loss == "absolute" else 2
        return mean_distance(self.allowed, float(self.rate), answers, power)

    def completed(self) -> Self:
        DiscreteLaplaceNoise(self.rate)
        return self


def worst_ratio(sums: LaplaceSums, distance: int, enough: Fraction) -> Fraction:
    """Return an upper bound of max(Y(q + distance) / Y(q), inverse) over all hull pairs.

    Branch and bound stops as soon as the bound is at most `enough`, or after a fixed number
    of splits; the bound that is returned holds in either case.
    """
    last = sums.high - distance
    if len(sums.runs) == 1:  # Y is concave: the ratio falls along the run, symmetrically
        stretches = [(sums.low, sums.low)]
    else:
        edges = {sums.low, last + 1}
        for a, b in sums.runs:
            for edge in (a, b + 1, a - distance, b + 1 - distance):
                if sums.low < edge <= last:
                    edges.add(edge)
        cuts = sorted(edges)
        stretches = [(x, y - 1) for x, y in pairwise(cuts)]
    heap = [(-_ratio(sums, x, y, distance), x, y) for x, y in stretches]
    heapq.heapify(heap)
    for _ in range(_MOST_SPLITS):
        bound, x, y = heap[0]
        if -bound <= enough or x == y:
            break
        middle = (x + y) // 2
        heapq.heapreplace(heap, (-_ratio(sums, x, middle, distance), x, middle))
        heapq.heappush(heap, (-_ratio(sums, middle + 1, y, distance), middle + 1, y))
    return -heap[0][0]


def _ratio(sums: LaplaceSums, first: int, last: int, distance: int) -> Fraction:
    for (_, left), (right, _) in pairwise(sums.runs):
        if left <= first and last + distance <= right:
            return max(sums.across(left, right, q, distance) for q in (first, last))
    here, there = sums.bounds(first, last), sums.bounds(first + distance, last + distance)
    if min(here[0], there[0]) <= 0:
        return UNBOUNDED
    apart = max(there[1] / here[0], here[1] / there[0])
    change = sums.change(first, last, distance)
    if change is None:
        return apart
    # Y(q + distance) / Y(q) = 1 + change / Y(q), and the inverse is 1 - change / Y(q + distance).
    together = 1 + max(change[1] / here[0], -change[0] / there[0], Fraction(0))
    return min(apart, together)
