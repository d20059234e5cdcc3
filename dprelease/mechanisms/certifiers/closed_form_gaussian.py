"""Certifier of Gaussian noise in closed form: two ratios, one at each end, prove all pairs.

For a clamped answer q and allowed runs of integers D, with an exact rate = p / 2**m,

    P(y | q) = e^(-rate (y - q)^2) / Z(q),   y in D,   Z(q) = sum over D.

Privacy. The laws of real locations t are one exponential family with statistic y and parameter
2 rate t, so for s = s' + k the log ratio rises in y and at the top of D it is

    2 rate * integral over t in [s', s] of (top - E_t Y) dt.

E_t Y rises in t: the worst pair of hull answers at most `distance` apart is exactly (lowest, lowest +
distance), or its mirror image at the other end; gaps change nothing. Two ratios

    e^(rate k (2 hull - k)) Z(low) / Z(low + k)

are therefore the whole proof, in outward-rounded rationals (`kernels/gaussian_sums.py`).

zCDP. D_alpha is at most (alpha / 2) (2 rate k)^2 times the largest variance over *all* real locations.
It is at most hull^2 / 4 for any D. On one run it is at most e^rate / (2 rate) as well. Proof: with
u = y - t, sinh(2 rate u) - 2 rate u rises in u, so 2 rate Var <= Cov(u, sinh(2 rate u)); and sums of
2 sinh(2 rate u) f(u) telescope into e^rate (f(x) + f(x + 1)) minus terms at the ends of the run that
only lower the covariance, which leaves at most e^rate. (Across a gap this fails by orders of magnitude.)
A purely epsilon-DP law is also epsilon^2 / 2 zCDP; the least of the three is stated.

Support is D for every answer, without a floor: weights are real numbers, drawn exactly. No point masses.

Units    grid steps; epsilon and rho in nats.
Sources  Chen & Hale, "The Bounded Gaussian Mechanism for Differential Privacy"; worst pair and zCDP:
         `docs/theory/certificates.md#wide-gaussian`, `#zcdp-of-truncated-laws`.
Limits   hulls within +-2**60 steps, scales of at least 5.7 steps. Gaps so wide that an answer in them
         would be drawn with probability below 1/16 per attempt are refused (DPR627); a draw is never
         given up, and takes at most 16 attempts on average. Intervals and
         expected errors are float views of the continuous law, within about scale^-2.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Annotated, ClassVar, Self

import numpy as np

from dprelease.core.codec_notes import Note
from dprelease.core.entropy import RandomBits, uniform_below
from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import exp_upper
from dprelease.mechanisms.arguments import FloatArray, IntArray
from dprelease.mechanisms.calibration.roots import last_within
from dprelease.mechanisms.certificate import Certificate, certify_ratio
from dprelease.mechanisms.forms.closed_form import Attempt, ClosedFormLaw, gaps_too_wide
from dprelease.mechanisms.forms.table import check_epsilon
from dprelease.mechanisms.kernels.gaussian_sums import gaussian_sum
from dprelease.mechanisms.kernels.gaussian_wide import LEAST_SHIFT, P_BITS, WideGaussianNoise
from dprelease.mechanisms.kernels.normal_pieces import normal_nodes
from dprelease.mechanisms.law import GridRequest
from dprelease.schema.domain import GridSet

_LEAST_ACCEPTANCE = 1 / 16


@dataclass(frozen=True, slots=True)
class BoundedGaussianWideLaw(ClosedFormLaw):
    """Truncated discrete Gaussian law of an exact rate."""

    family: ClassVar[str] = "bounded_gaussian"
    room: ClassVar[float] = 1e-3

    noise: Annotated[WideGaussianNoise, Note.inline]

    @classmethod
    def calibrate(cls, request: GridRequest) -> Self:
        """Return the law of (nearly) largest rate whose exact certificate is within epsilon.

        Raises:
            ArgumentError: epsilon is below 2**-40 (DPR626), or so large that the scale would pass
                below 6 steps, or the domain is one value (DPR624); the gaps are too wide for rejection (DPR627).
        """
        check_epsilon(request.epsilon)
        if request.allowed.hull_steps == 0:
            raise ArgumentError(
                "a domain of one value leaves nothing to draw",
                fix="widen the domain, or leave the statistic out",
                code="DPR624",
            )
        law = cls(
            request.allowed,
            request.sensitivity,
            request.epsilon,
            request.loss,
            largest_noise(request),
        )
        if not accepts(law.allowed, law.noise):
            raise gaps_too_wide()
        return law

    @property
    def scale(self) -> float:
        return _scale(self.noise)

    def certify(self) -> Certificate:
        """Recompute the proof from the runs, the rate and the sensitivity alone."""
        return certify_ratio(
            self.family,
            worst_ratio(self.allowed, self.capped_sensitivity, self.noise.rate),
            self.epsilon,
            "e**(rate distance (2 hull - distance)) times Z(end) / Z(end +- distance), both ends",
            rate=self.noise.rate,
            distance=self.capped_sensitivity,
        )

    @property
    def rho_upper(self) -> Fraction:
        """The law is rho-zCDP for this rho, exact and rounded up."""
        rate, k, hull = self.noise.rate, self.capped_sensitivity, self.allowed.hull_steps
        bounds = [self.certificate.epsilon_upper**2 / 2, (rate * k * hull) ** 2 / 2]
        if len(self.allowed.runs) == 1:
            bounds.append(rate * k * k * exp_upper(rate))
        return min(bounds)

    def attempt(self, q: IntArray, bits: RandomBits) -> Attempt:
        """Add noise to q in blocks, or keep hull points where the noise is as wide as the hull."""
        low, span = self.allowed.lower, self.allowed.hull_steps
        flat = self.noise.uniform_fits(span)

        def attempt(todo: IntArray) -> tuple[IntArray, IntArray]:
            if flat:
                drawn = low + uniform_below(span + 1, todo.size, bits)
                at = np.flatnonzero(self.allowed.contains(drawn))
                drawn = drawn[at]
                accepted = self.noise.keep_uniform(np.abs(drawn - q[todo[at]]), span, bits)
                return at[accepted], drawn[accepted]
            at, away = self.noise.attempt_block(todo.size, span, bits)
            drawn = q[todo[at]] + away
            good = self.allowed.contains(drawn)
            return at[good], drawn[good]

        return attempt

    def log_weight(self, distance: IntArray) -> FloatArray:
        out: FloatArray = -float(self.noise.rate) * distance.astype(np.float64) ** 2
        return out

    def below(self, q: IntArray, y: IntArray) -> FloatArray:
        low, high = _pieces(self.allowed, q)
        whole = normal_nodes(low, high, np.zeros(q.size), self.scale)
        end = np.minimum(np.maximum(low, (y - q) + 0.5), high)
        part = normal_nodes(low, end, np.zeros(q.size), self.scale)
        front = np.exp(-(part.near - whole.near) * (part.near + whole.near) / 2)
        out: FloatArray = part.sum() / whole.sum() * front
        return out

    def errors(self, answers: IntArray) -> FloatArray:
        low, high = _pieces(self.allowed, answers)
        # Cut at the answer, where |y - q| has its kink.
        sides = [
            (np.maximum(low, 0.0), np.maximum(high, 0.0)),
            (np.minimum(low, 0.0), np.minimum(high, 0.0)),
        ]
        starts, ends = (np.concatenate(v) for v in zip(*sides, strict=True))
        nodes = normal_nodes(starts, ends, np.zeros(answers.size), self.scale)
        away = np.abs(nodes.from_location())
        out: FloatArray = nodes.sum(away if self.loss == "absolute" else away**2) / nodes.sum()
        return out

    def completed(self) -> Self:
        if self.allowed.hull_steps == 0:
            raise ValueError("allowed")
        return self


def _scale(noise: WideGaussianNoise) -> float:
    return 1 / math.sqrt(2 * float(noise.rate))


def worst_ratio(allowed: GridSet, distance: int, rate: Fraction) -> Fraction:
    """Return a rational upper bound of the largest likelihood ratio."""
    hull, worst = allowed.hull_steps, Fraction(0)
    ends = [(allowed.lower, allowed.lower + distance)]
    if len(allowed.runs) > 1:  # one run is its own mirror image
        ends.append((allowed.upper, allowed.upper - distance))
    for end, inner in ends:
        first = gaussian_sum(allowed.runs, end, rate)
        second = gaussian_sum(allowed.runs, inner, rate)
        if second.low <= 0:
            return Fraction(10**400)
        worst = max(worst, first.high / second.low)
    return worst * exp_upper(rate * distance * (2 * hull - distance))


def largest_noise(request: GridRequest) -> WideGaussianNoise:
    """Return the noise of about the largest rate whose worst ratio is within epsilon.

    rate lies in [epsilon / (2 k hull), epsilon / (k hull)]. On unions the ratio is not proved to rise
    with the rate: a scan from above brackets the first rate within epsilon. What is returned was
    evaluated.
    """
    allowed, k, budget = request.allowed, request.capped_sensitivity, request.epsilon
    high = budget / (k * allowed.hull_steps)
    m = P_BITS - math.floor(math.log2(high.numerator) - math.log2(high.denominator)) + 1

    @cache
    def excess(scaled: int) -> float:
        """How far the loss is beyond epsilon; its sign is the certificate's own verdict."""
        ratio = worst_ratio(allowed, k, _noise(scaled, m).rate)
        loss = math.log(ratio.numerator) - math.log(ratio.denominator)
        if certify_ratio("", ratio, budget, "").epsilon_upper <= budget:
            return min(loss - float(budget), 0.0)
        return max(loss - float(budget), sys.float_info.min)

    bad = math.ceil(high * (1 << m)) + 1
    good = bad // 2 - 2  # a rate of epsilon / (2 k hull) is within epsilon, rounding included
    if len(allowed.runs) > 1:
        nodes = np.linspace(bad, good, 17).astype(np.int64).tolist()
        first = next((i for i, n in enumerate(nodes) if excess(n) <= 0), len(nodes) - 1)
        bad, good = nodes[max(first - 1, 0)], nodes[first]
    while excess(good) > 0:
        bad, good = good, good - max(1, good >> 20)
    return _noise(bad if excess(bad) <= 0 else last_within(excess, good, bad), m)


def _noise(scaled: int, m: int) -> WideGaussianNoise:
    """Return the noise of rate scaled / 2**m, its last bits rounded off downwards."""
    move = scaled.bit_length() - P_BITS
    p = scaled >> move if move >= 0 else scaled << -move
    if m - move < LEAST_SHIFT:
        raise ArgumentError(
            "this Gaussian noise cannot be drawn exactly",
            why="its scale would be below 6 grid steps",
            fix="use a smaller epsilon, or a finer step",
            code="DPR624",
        )
    return WideGaussianNoise(p, m - move)


def _pieces(allowed: GridSet, q: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the runs seen from q, half a step wider at both ends, shape `(runs, answers)`."""
    runs = np.array(allowed.runs, dtype=np.int64)
    low, high = (runs[:, i : i + 1] - q for i in (0, 1))
    return low.astype(np.float64) - 0.5, high.astype(np.float64) + 0.5


def accepts(allowed: GridSet, noise: WideGaussianNoise) -> bool:
    """Return whether attempts land in the allowed set often enough from everywhere in the hull."""
    marks = [allowed.lower, allowed.upper]
    for (_, left), (right, _) in pairwise(allowed.runs):
        marks += np.linspace(left, right, 65).astype(np.int64).tolist()
    q = np.array(marks, dtype=np.int64)
    low, high = _pieces(allowed, q)
    mass = np.exp(normal_nodes(low, high, np.zeros(q.size), _scale(noise)).log_mass())
    if noise.uniform_fits(allowed.hull_steps):
        mass = mass * _scale(noise) * math.sqrt(2 * math.pi) / (allowed.hull_steps + 1)
    return float(mass.min()) >= _LEAST_ACCEPTANCE
