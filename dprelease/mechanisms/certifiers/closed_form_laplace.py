"""Bounded Laplace noise on grids too wide for a table: closed-form masses, exact draws.

For a clamped answer q and allowed runs of integers D, with an exact rational rate,

    P(y | q) = e^(-rate |y - q|) / Z(q),   y in D,   Z(q) = sum over D,

drawn exactly: discrete Laplace noise is added to q, or where the noise is wider than the hull a point of
the hull is kept with probability e^(-rate |y - q|), until it lies in D (rejection conditions). What a few
rounds left over is drawn by inversion (`kernels/laplace_inversion.py`), by the same law: no answer, however
unlikely noise is to land in D from there, is given up.

Privacy. For k = |q - q'| the largest likelihood ratio is exactly e^(rate k) max(Z(q')/Z(q), its
inverse): both hull ends are allowed, and one of them attains either sign. The bound grows along
chains (Z(q + 1) >= e^-rate Z(q)), so only pairs at distance reach = min(shift, hull) count. Every
hull answer counts, gaps included. Y = (1 - e^-rate) Z is a sum of powers of e^-rate, bounded here
in outward-rounded rationals, and over a whole stretch of answers by monotone parts (a power
either rises or falls in q). The supremum of |log Y(q + reach) - log Y(q)| over all pairs is then
bounded by branch and bound on stretches that no run edge crosses, each by the smaller of two
bounds: of both masses apart, and of their difference, a sum of monotone powers too; a finite number
of exact comparisons, whatever the size of the domain. One run needs one pair: Z is concave there, so the
end pair (low, low + reach) is the worst.

Support is D for every answer. No atoms are added.

Units    grid steps; epsilon in nats.
Sources  Holohan et al., "The Bounded Laplace Mechanism in Differential Privacy"; exact loss over
         all hull pairs: `docs/theory/certificates.md#wide-laplace`; sampler: Canonne, Kamath & Steinke,
         arXiv:2004.00010.
Limits   hulls within +-2**60 steps. A draw takes at most 32 rounds, in which on one run at least three
         attempts in ten succeed, and then some milliseconds. The time depends on the answer; what is
         released does not show it. Gaps in whose middle noise lands in D with probability below 1/8
         are refused (DPR627): their proof by branch and bound would take minutes.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from dprelease.entropy import RandomBits, drawn_by_rejection, uniform_below
from dprelease.errors import ArgumentError
from dprelease.mechanisms.arguments import FloatArray
from dprelease.mechanisms.calibration.roots import inside_root
from dprelease.mechanisms.forms.hull_interval import likely_answers
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.kernels.laplace_inversion import inverse_draw
from dprelease.mechanisms.kernels.sampling import BoolArray, bernoulli, exp_coin
from dprelease.mechanisms.law import (
    Certificate,
    ExpectedError,
    GridRequest,
    IntArray,
    Loss,
    certify_ratio,
    choose_answers,
    law_fields,
    read_fields,
)
from dprelease.numeric import exp_lower, exp_upper, fraction_from_json, fraction_to_json
from dprelease.schema.domain import GridSet

__all__ = ["BoundedLaplaceWideLaw", "accepts", "gaps_too_wide"]

_FAR = 300
"""Powers below e**-300 are bounded by [0, e**-300]."""
_LEAST_ACCEPTANCE = 1 / 8
_MOST_SPLITS = 4000
_ROOM = Fraction(1, 2**30)
"""Part of epsilon that calibration leaves for outward rounding and for branch and bound."""


@dataclass(frozen=True, slots=True)
class BoundedLaplaceWideLaw:
    """Truncated discrete Laplace law with an exact rate. Satisfies `GridLaw`."""

    allowed: GridSet
    shift: int
    epsilon: Fraction
    loss: Loss
    rate: Fraction

    @property
    def family(self) -> str:
        return "bounded_laplace"

    @classmethod
    def calibrate(cls, request: GridRequest) -> BoundedLaplaceWideLaw:
        """Return the law of (nearly) largest rate whose exact certificate is within epsilon.

        Raises:
            ArgumentError: the gaps are too wide (DPR627).
        """
        goal = float(request.epsilon * (1 - _ROOM))
        rate = _largest_rate(request.allowed, request.reach, goal)
        shrink = 2.0**-32
        while True:
            noise = DiscreteLaplaceNoise.calibrate(1, Fraction(rate))
            if not accepts(request.allowed, float(noise.rate)):  # first: it costs next to nothing
                raise gaps_too_wide()
            law = cls(request.allowed, request.shift, request.epsilon, request.loss, noise.rate)
            excess = law.certificate.epsilon_upper / request.epsilon - 1
            if excess <= 0:
                return law
            # a bound that took all its splits costs seconds: go as far down as it is above
            rate *= 1 - max(shrink, min(float(excess), 0.25))
            shrink = min(2 * shrink, 0.25)

    @property
    def certificate(self) -> Certificate:
        return _certificate(self)

    @property
    def rho_upper(self) -> Fraction:
        """The law is rho-zCDP for this rho: losses of a pair span 2 rate reach, squared over 8."""
        reach = GridRequest(self.allowed, self.shift, self.epsilon).reach
        return (self.rate * reach) ** 2 / 2

    def certify(self) -> Certificate:
        """Recompute the proof from the runs, the rate and the shift alone."""
        reach = GridRequest(self.allowed, self.shift, self.epsilon).reach
        if self.allowed.hull_steps == 0:
            ratio = Fraction(1)
        else:
            allowance = exp_lower(self.epsilon) / exp_upper(reach * self.rate)
            worst = _Masses(self.allowed, self.rate).worst_ratio(reach, allowance)
            ratio = worst * exp_upper(reach * self.rate)
        return certify_ratio(
            self.family,
            ratio,
            self.epsilon,
            "e**(rate reach) times the largest Z ratio over all hull pairs, by branch and bound",
            rate=self.rate,
            reach=reach,
        )

    def draw_raw(self, answers: IntArray, bits: RandomBits) -> IntArray:
        """Return one exact draw per clamped answer, an allowed point; shape `(groups,)`."""
        low, span = self.allowed.lower, self.allowed.hull_steps
        q = np.clip(answers, low, self.allowed.upper)
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

        def otherwise(place: int) -> int:
            return inverse_draw(self.allowed, self.rate, int(q[place]), bits)

        return drawn_by_rejection(q.size, attempt, otherwise=otherwise)

    def finish(self, raw: IntArray) -> IntArray:
        """Return `raw`: every draw is allowed already."""
        return raw

    def interval(self, raw: IntArray, level: float = 0.95) -> tuple[IntArray, IntArray]:
        """Return {q in hull: P_q(Y >= y) and P_q(Y <= y) are both at least (1 - level) / 2}."""
        y = np.clip(raw, self.allowed.lower, self.allowed.upper)
        return likely_answers(self.allowed, y, level, self._below)

    def _below(self, q: IntArray, y: IntArray) -> FloatArray:
        """Return P_q(Y <= y)."""
        rate = float(self.rate)
        part = _float_mass(self.allowed, rate, q, y)
        whole = _float_mass(self.allowed, rate, q, np.full_like(q, self.allowed.upper))
        out: FloatArray = part / whole
        return out

    def expected_error(self) -> ExpectedError:
        """Return the error over answers uniform on the hull (a subset of them)."""
        return _expected_error(self)

    def pmf(self, answer: int) -> dict[int, Any]:
        """Return {output: probability} for one answer, floats; for small hulls."""
        q = min(max(answer, self.allowed.lower), self.allowed.upper)
        points = self.allowed.points()
        weight = np.exp(-float(self.rate) * np.abs(points - q))
        return dict(zip(points.tolist(), (weight / weight.sum()).tolist(), strict=True))

    def to_json(self) -> dict[str, Any]:
        """Return all exact numbers of the law."""
        return law_fields(self, self.loss, wide=True) | {"rate": fraction_to_json(self.rate)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> BoundedLaplaceWideLaw:
        """Rebuild the law; KeyError, TypeError or ValueError if a number is missing or wrong."""
        rate = fraction_from_json(value["rate"])
        DiscreteLaplaceNoise(rate)
        return cls(*read_fields(value), rate)

    def describe(self) -> str:
        """Return one line for a plan."""
        scale = float(1 / self.rate)
        return f"{self.family} (scale {scale:.6g} steps), truncated to the allowed values"


class _Masses:
    """Outward bounds of Y(q) = (1 - e^-rate) Z(q), and of its largest ratio."""

    def __init__(self, allowed: GridSet, rate: Fraction) -> None:
        self.runs = allowed.runs
        self.low, self.high = allowed.lower, allowed.upper
        self.rate = rate

    def power(self, n: int) -> tuple[Fraction, Fraction]:
        """Return (lower, upper) bounds of e^(-rate n), n >= 0."""
        return _power(self.rate, n)

    def bounds(self, first: int, last: int) -> tuple[Fraction, Fraction]:
        """Return bounds of Y over the answers first..last, none of which crosses a run edge."""
        down = up = Fraction(0)
        r = self.power(1)
        for a, b in self.runs:
            if last < a:  # the run lies right: rises with q
                some = self._outside(a - first, a - last, b - a + 1)
            elif first > b:
                some = self._outside(last - b, first - b, b - a + 1)
            else:  # inside: 1 + r - r^(q-a+1) - r^(b-q+1)
                left = self.power(first - a + 1), self.power(last - a + 1)
                right = self.power(b - last + 1), self.power(b - first + 1)
                low = 1 + r[0] - left[0][1] - right[0][1]
                high = 1 + r[1] - left[1][0] - right[1][0]
                some = max(low, Fraction(0)), high
            down, up = down + some[0], up + some[1]
        return down, up

    def _outside(self, far: int, near: int, length: int) -> tuple[Fraction, Fraction]:
        """Return bounds of r^d (1 - r^length) for d between near and far."""
        size = self.power(length)
        return (
            self.power(far)[0] * max(1 - size[1], Fraction(0)),
            self.power(near)[1] * (1 - size[0]),
        )

    def worst_ratio(self, reach: int, enough: Fraction) -> Fraction:
        """Return an upper bound of max(Y(q + reach) / Y(q), inverse) over all hull pairs.

        Branch and bound stops as soon as the bound is at most `enough`, or after a fixed number
        of splits; the bound that is returned holds in either case.
        """
        last = self.high - reach
        if len(self.runs) == 1:  # Y is concave: the ratio falls along the run, symmetrically
            stretches = [(self.low, self.low)]
        else:
            edges = {self.low, last + 1}
            for a, b in self.runs:
                for edge in (a, b + 1, a - reach, b + 1 - reach):
                    if self.low < edge <= last:
                        edges.add(edge)
            cuts = sorted(edges)
            stretches = [(x, y - 1) for x, y in pairwise(cuts)]
        heap = [(-self._ratio(x, y, reach), x, y) for x, y in stretches]
        heapq.heapify(heap)
        for _ in range(_MOST_SPLITS):
            bound, x, y = heap[0]
            if -bound <= enough or x == y:
                break
            middle = (x + y) // 2
            heapq.heapreplace(heap, (-self._ratio(x, middle, reach), x, middle))
            heapq.heappush(heap, (-self._ratio(middle + 1, y, reach), middle + 1, y))
        return -heap[0][0]

    def _ratio(self, first: int, last: int, reach: int) -> Fraction:
        here, there = self.bounds(first, last), self.bounds(first + reach, last + reach)
        if min(here[0], there[0]) <= 0:
            return Fraction(10**400)
        apart = max(there[1] / here[0], here[1] / there[0])
        change = self._change(first, last, reach)
        if change is None:
            return apart
        # Y(q + reach) / Y(q) = 1 + change / Y(q), and the inverse is 1 - change / Y(q + reach).
        together = 1 + max(change[1] / here[0], -change[0] / there[0], Fraction(0))
        return min(apart, together)

    def _change(self, first: int, last: int, reach: int) -> tuple[Fraction, Fraction] | None:
        """Return bounds of Y(q + reach) - Y(q) over first..last; None where a run edge lies between.

        Term by term: the masses themselves move far more over a stretch than their difference does,
        so bounding them apart would take a stretch per few answers.
        """
        down = up = Fraction(0)
        step = self.power(reach)
        lost = 1 - step[1], 1 - step[0]
        for a, b in self.runs:
            size = self.power(b - a + 1)
            part = lost[0] * max(1 - size[1], Fraction(0)), lost[1] * (1 - size[0])
            if last + reach < a:  # right of both: r^(a - q - reach) (1 - r^reach) (1 - r^length)
                down += self.power(a - first - reach)[0] * part[0]
                up += self.power(a - last - reach)[1] * part[1]
            elif first > b:  # left of both: -r^(q - b) (1 - r^reach) (1 - r^length)
                down -= self.power(first - b)[1] * part[1]
                up -= self.power(last - b)[0] * part[0]
            elif first >= a and last + reach <= b:
                # around both: (1 - r^reach) (r^(q - a + 1) - r^(b - q - reach + 1)), falling in q
                low = (
                    self.power(last - a + 1)[0] * lost[0]
                    - self.power(b - last - reach + 1)[1] * lost[1]
                )
                high = (
                    self.power(first - a + 1)[1] * lost[1]
                    - self.power(b - first - reach + 1)[0] * lost[0]
                )
                down, up = down + low, up + high
            else:
                return None
        return down, up


@lru_cache(maxsize=65536)
def _power(rate: Fraction, n: int) -> tuple[Fraction, Fraction]:
    x = rate * n
    if x > _FAR:
        return Fraction(0), 1 / exp_lower(Fraction(_FAR))
    if x == 0:
        return Fraction(1), Fraction(1)
    return _round(1 / exp_upper(x), up=False), _round(1 / exp_lower(x), up=True)


def _round(value: Fraction, *, up: bool) -> Fraction:
    """Round outward to 600 binary digits, so that sums of powers stay small numbers."""
    scaled = value.numerator << 600
    whole = -(-scaled // value.denominator) if up else scaled // value.denominator
    return Fraction(whole, 1 << 600)


def _float_mass(allowed: GridSet, rate: float, q: IntArray, top: IntArray) -> FloatArray:
    """Return the mass of allowed points at most `top`, relative to the nearest allowed point."""
    near = np.full(q.shape, np.inf)
    for a, b in allowed.runs:
        near = np.minimum(near, np.maximum(np.maximum(a - q, q - b), 0).astype(np.float64))
    total = np.zeros(q.shape)
    for a, b in allowed.runs:
        end = np.minimum(top, b)
        for start, length in (
            (np.maximum(a - q, 0), end - np.maximum(q, a) + 1),
            (np.maximum(q - end, 1), np.minimum(q - 1, end) - a + 1),
        ):
            n = np.maximum(length, 0).astype(np.float64)
            total += np.where(
                n > 0,
                np.exp(-rate * np.maximum(start.astype(np.float64) - near, 0.0))
                * -np.expm1(-rate * n),
                0.0,
            )
    return total


def gaps_too_wide() -> ArgumentError:
    """Return the refusal of a domain whose gaps are wide against the noise."""
    return ArgumentError(
        "the forbidden intervals are too wide for this law at this size of domain",
        why="an answer in the middle of a gap would almost never land on an allowed value",
        fix="use a coarser step, or allow spikes at the borders",
        code="DPR627",
    )


def accepts(allowed: GridSet, rate: float) -> bool:
    """Return whether noise lands in the allowed set often enough from everywhere in the hull."""
    for (_, left), (right, _) in pairwise(allowed.runs):
        # Least in the gap where the two sides weigh alike; the middle within a factor of 2.
        q = np.linspace(left, right, 65).astype(np.int64)
        full = np.full_like(q, allowed.upper)
        near = np.minimum(q - left, right - q).astype(np.float64)
        mass = _float_mass(allowed, rate, q, full) * np.exp(-rate * near)
        if float(mass.min()) / (1 + math.exp(-rate)) < _LEAST_ACCEPTANCE:
            return False
    return True


def _largest_rate(allowed: GridSet, reach: int, epsilon: float) -> float:
    """Return about the largest rate of loss epsilon, on a float view of the loss."""

    def excess(rate: float) -> float:
        return _float_loss(allowed, reach, rate) - epsilon

    low, high = epsilon / (2 * reach), epsilon / reach
    if excess(high) <= 0:
        return high
    return low if excess(low) >= 0 else inside_root(excess, high, low, epsilon * 2.0**-46)


def _float_loss(allowed: GridSet, reach: int, rate: float) -> float:
    """Return the loss over a dense choice of hull pairs; the certificate is the judge."""
    if allowed.hull_steps == 0:
        return 0.0
    last = allowed.upper - reach
    q = np.array([allowed.lower], dtype=np.int64)
    if len(allowed.runs) > 1:
        marks = {allowed.lower, last}
        for a, b in allowed.runs:
            marks |= {min(max(e, allowed.lower), last) for e in (a, b, a - reach, b - reach)}
        cuts = sorted(marks)
        parts = [np.linspace(x, y, 129).astype(np.int64) for x, y in pairwise(cuts)]
        q = np.unique(np.concatenate([*parts, np.array(cuts, dtype=np.int64)]))
    full = np.full_like(q, allowed.upper)

    def log_mass(at: IntArray) -> FloatArray:
        near = np.full(at.shape, np.inf)
        for a, b in allowed.runs:
            near = np.minimum(near, np.maximum(np.maximum(a - at, at - b), 0).astype(np.float64))
        out: FloatArray = np.log(_float_mass(allowed, rate, at, full)) - rate * near
        return out

    return rate * reach + float(np.max(np.abs(log_mass(q + reach) - log_mass(q))))


@lru_cache(maxsize=64)
def _certificate(law: BoundedLaplaceWideLaw) -> Certificate:
    return law.certify()


@lru_cache(maxsize=64)
def _expected_error(law: BoundedLaplaceWideLaw) -> ExpectedError:
    """Integrate P(|Y - q| > d) numerically on a geometric grid of distances."""
    answers, share = choose_answers(law.allowed, 33)
    rate = float(law.rate)
    span = law.allowed.hull_steps
    steps = np.unique(np.concatenate([[0.0], np.geomspace(1, max(2, span), 400)]).astype(np.int64))
    errors = np.empty(answers.size)
    for i, q in enumerate(answers):
        at = np.full(steps.shape, q, dtype=np.int64)
        whole = _float_mass(law.allowed, rate, at, np.full_like(at, law.allowed.upper))
        inside = _float_mass(law.allowed, rate, at, at + steps) - _float_mass(
            law.allowed, rate, at, at - steps - 1
        )
        outside = np.clip(1 - inside / whole, 0.0, 1.0)
        d = steps.astype(np.float64)
        if law.loss == "squared":
            errors[i] = float(np.trapezoid(2 * d * outside, d))
        else:
            errors[i] = float(np.trapezoid(outside, d)) + 0.5 * float(outside[0])
    return ExpectedError(float((errors * share).sum()), float(errors.max()))
