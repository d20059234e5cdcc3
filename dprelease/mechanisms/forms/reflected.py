"""The grid law of reflected Laplace noise: an exact discrete Laplace draw, folded into the hull.

The raw integer q + D is reflected at l - 1/2 and u + 1/2 until it lies in l..u. With rate r per
step, i = q - l, n = u - l and C(m) = cosh((m + 1/2) r), summing over all mirror images gives

    P(x | q) = c C(min(x, q) - l) C(u - max(x, q)),   c = 2 tanh(r / 2) / sinh((n + 1) r),

where c does not depend on q. Folding twice the hull is exact integer arithmetic on the exact
draw, so this *is* the law, for hulls of any size; no table is stored.

Privacy. For q < q' = q + s the ratio is C(u - q) / C(u - q') left of q, its mirror image right of
q', and in between lies between the two. log C is convex and increasing, so over *all* hull pairs
at most s apart the largest ratio is, at an end,

    C(n) / C(n - s) = e^(s r) (1 + e^(-(2n + 1) r)) / (1 + e^(-(2(n - s) + 1) r)).

The certificate bounds this from above in rationals (`exp_lower`, `exp_upper`), term by term. The
plain bound e^(s r) for post-processed noise would waste up to log 2 of loss.

Units    grid steps; rate in nats per step.
Sources  `docs/theory/certificates.md#reflected-noise`; noise: `kernels/laplace.py`.
Limits   one run of grid points; rates as for discrete Laplace noise. `pmf` up to 2**16 points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dprelease.core.entropy import RandomBits
from dprelease.core.numeric import exp_lower, exp_upper
from dprelease.mechanisms.arguments import FloatArray, IntArray
from dprelease.mechanisms.certificate import Certificate, certify_ratio
from dprelease.mechanisms.forms.base import PMF_LIMIT, ScalarLaw, too_many_outputs
from dprelease.mechanisms.forms.hull_interval import likely_answers
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.law import Ends, ExpectedError, GridRequest, choose_answers

_EPSILON_FLOOR = Fraction(1, 2**40)
_FAR = 256
"""e^-256 counts as 0 in a lower bound and as itself in an upper one."""


def drawable(request: GridRequest) -> bool:
    """Return whether the folded noise can be drawn exactly for the request."""
    return request.epsilon >= _EPSILON_FLOOR


@dataclass(frozen=True, slots=True)
class ReflectedLaplaceLaw(ScalarLaw):
    """Discrete Laplace noise reflected into one run of grid points. Satisfies `GridLaw`."""

    family: ClassVar[str] = "reflected_laplace"
    constants: ClassVar[Mapping[str, str]] = {"family": "family"}

    noise: DiscreteLaplaceNoise

    @classmethod
    def calibrate(cls, request: GridRequest) -> ReflectedLaplaceLaw:
        """Return the law of (nearly) largest rate whose exact certificate is within epsilon.

        The float search only proposes; the rate shrinks until the certificate holds.
        """
        n, s, goal = request.allowed.hull_steps, request.capped_sensitivity, float(request.epsilon)
        low, high = goal / s, (goal + math.log(2)) / s
        for _ in range(100 if n else 0):
            middle = (low + high) / 2
            if not low < middle < high:
                break
            if _float_loss(n, s, middle) <= goal:
                low = middle
            else:
                high = middle
        wanted, shrink = Fraction(low), Fraction(1, 2**48)
        while True:  # ends: at rate epsilon / s the loss is at most epsilon, and strictly below
            noise = DiscreteLaplaceNoise.calibrate(1, wanted)
            law = cls(request.allowed, request.sensitivity, request.epsilon, request.loss, noise)
            if law.certificate.epsilon_upper <= request.epsilon:
                return law
            wanted *= 1 - shrink
            shrink *= 2

    def certify(self) -> Certificate:
        """Recompute the proof from the rate, in outward-rounded rationals."""
        n = self.allowed.hull_steps
        distance, rate = self.capped_sensitivity, self.noise.rate
        ratio = Fraction(1)
        if n:  # else one possible answer and one output: nothing can be told apart
            ratio = exp_upper(distance * rate)
            ratio *= 1 + 1 / exp_lower(min((2 * n + 1) * rate, Fraction(_FAR)))
            tail = (2 * (n - distance) + 1) * rate
            ratio /= 1 + (1 / exp_upper(tail) if tail <= _FAR else 0)
        return certify_ratio(
            self.family, ratio, self.epsilon,
            "cosh((n + 1/2) rate) / cosh((n - distance + 1/2) rate), rounded up: the worst hull pair",
            rate=rate, distance=distance, points=n + 1,
        )  # fmt: skip

    def draw_raw(self, answers: IntArray, bits: RandomBits) -> IntArray:
        """Return one exact draw per clamped answer, a hull point; shape `(groups,)`."""
        low, n = self.allowed.lower, self.allowed.hull_steps
        start = self.clamp(answers) - low
        # Not saturated: a fold needs every digit. |start + noise| < 2**63 where it is int64.
        turn = ((start + self.noise.draws(start.size, bits)) % (2 * (n + 1))).astype(np.int64)
        out: IntArray = low + np.where(turn > n, 2 * n + 1 - turn, turn)
        return out

    def interval(self, raw: IntArray, level: float = 0.95) -> tuple[IntArray, IntArray]:
        """Return {q in hull: P_q(Y >= y) and P_q(Y <= y) are both at least (1 - level) / 2}.

        By bisection over q, for all groups at once: P_q(Y <= y) falls in q.
        """
        y = self.clamp(raw)
        return likely_answers(self.allowed, y, level, lambda q, y: 1 - self._upper_tail(q, y + 1))

    def _upper_tail(self, q: IntArray, y: IntArray) -> FloatArray:
        """Return P_q(Y >= y), closed form: sums of cosh are ratios of sinh."""
        n, r = self.allowed.hull_steps, float(self.noise.rate)
        i = (q - self.allowed.lower).astype(np.float64)
        x = (y - self.allowed.lower).astype(np.float64)
        norm = -np.expm1(-2 * (n + 1) * r) * (1 + math.exp(-r))
        # Above q: cosh((i + 1/2) r) sinh((n + 1 - x) r) / (sinh((n + 1) r) cosh(r / 2)).
        above = np.exp(-np.maximum(x - i - 1, 0) * r - np.where(x > i, r, 0.0))
        above = above * (1 + np.exp(-(2 * i + 1) * r)) * -np.expm1(-2 * (n + 1 - x) * r)
        below = np.exp(-np.maximum(i - x + 1, 0) * r)
        below = below * (1 + np.exp(-(2 * (n - i) + 1) * r)) * -np.expm1(-2 * x * r)
        out: FloatArray = np.where(x > i, above, norm - below) / norm
        return out

    def price(self, near: Ends | None) -> ExpectedError:
        answers, share = choose_answers(self.allowed, near=near)
        i = (answers - self.allowed.lower).astype(np.float64)
        far = self.allowed.hull_steps - i
        errors = self._upper_error(i, far) + self._upper_error(far, i)
        return ExpectedError(float(errors @ share), float(errors.max()))

    def _upper_error(self, i: FloatArray, m: FloatArray) -> FloatArray:
        """Return E(Y - q)+ or E((Y - q)+)^2 for an answer i steps above one end, m below the other.

        E(Y - q)+ = cosh((i + 1/2) r) (cosh((m + 1/2) r) - cosh(r / 2)) / (sinh((n + 1) r) sinh r).
        """
        r = float(self.noise.rate)
        factor = (1 + np.exp(-(2 * i + 1) * r)) / -np.expm1(-2 * (i + m + 1) * r)
        rise = np.expm1(-(m + 1) * r) * np.expm1(-m * r)
        first: FloatArray = factor * rise / 2 / math.sinh(min(r, 700.0))
        if self.loss == "absolute":
            return first
        # sum over k <= m of (m - k) sinh(k r), times e^(-(m + 1/2) r)
        t = m * r
        power = r * (m**3 - m) / 6 + r**3 * m**5 / 120
        rest = -np.expm1(-2 * t) / 2 - m * math.sinh(min(r, 700.0)) * np.exp(-t)
        closed = rest * math.exp(-r / 2) / (4 * math.sinh(min(r, 700.0) / 2) ** 2)
        tail = np.where(t < 0.01, power * np.exp(-(m + 0.5) * r), closed)
        out: FloatArray = first + 2 * factor * tail / math.cosh(min(r, 700.0) / 2)
        return out

    def pmf(self, answer: int) -> dict[int, Any]:
        """Return {output: probability}, floats that sum to 1.

        Raises:
            ArgumentError: the hull has too many points to enumerate (DPR623).
        """
        low, n = self.allowed.lower, self.allowed.hull_steps
        if n >= PMF_LIMIT:
            raise too_many_outputs()
        q = min(max(answer, low), self.allowed.upper) - low
        r, x = float(self.noise.rate), np.arange(n + 1, dtype=np.float64)
        weight = np.exp(-np.abs(x - q) * r)
        weight *= 1 + np.exp(-(2 * np.minimum(x, q) + 1) * r)
        weight *= 1 + np.exp(-(2 * (n - np.maximum(x, q)) + 1) * r)
        weight /= weight.sum()
        return {low + k: p for k, p in enumerate(weight.tolist())}

    def completed(self) -> ReflectedLaplaceLaw:
        if len(self.allowed.runs) > 1:
            raise ValueError("runs")
        return self

    def describe(self) -> str:
        """Return one line for a plan."""
        return f"{self.family} ({self.noise.describe()}), reflected at the ends"


def _float_loss(n: int, s: int, rate: float) -> float:
    top = math.log1p(math.exp(-(2 * n + 1) * rate))
    return s * rate + top - math.log1p(math.exp(-(2 * (n - s) + 1) * rate))
