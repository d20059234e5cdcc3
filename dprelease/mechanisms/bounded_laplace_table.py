"""The grid law of bounded Laplace noise: an integer weight table, truncated to the allowed set.

For a clamped answer q and allowed points D, P(y | q) = W[|y - q|] / Z(q), Z(q) = sum over D, with

    W[0] = 2**top,    W[d + 1] = ceil(W[d] * p / 2**60).

Privacy. W[d + 1] <= W[d] and W[d + 1] >= r W[d], r = p / 2**60, exactly. Hence for k = |q - q'|

    P(y | q) / P(y | q') <= r**-k * Z(q') / Z(q),

and Z(q + 1) >= r Z(q) makes the right side grow along any chain q, q + 1, ..., so only pairs at
distance reach = min(shift, hull) need checking: all of them, with answers inside gaps included.
(Checking only pairs inside D would understate the loss by up to 11 nats.) Z is an exact int64
vector; its largest ratio is found in float64, recomputed exactly, and widened by 2**-50, more
than the float comparison can err; r**-reach is computed in outward-rounded 256-bit integers.

The same support for every answer: all weights are at least 1. No atoms are added anywhere.

Units    grid steps; epsilon in nats.
Sources  Holohan et al., "The Bounded Laplace Mechanism in Differential Privacy", with the exact
         loss and the certificate of `mechanisms.md` sections 1 and 6 of the design.
Limits   at most `POINT_LIMIT` hull points. Far weights end at 1, not 0: a mass below 2**-24.
         Running time depends on the bits drawn, and through Z(q) faintly on the answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.entropy import RandomBits
from dprelease.errors import ArgumentError, InternalError
from dprelease.mechanisms.law import (
    Certificate,
    ExpectedError,
    GridRequest,
    IntArray,
    Loss,
    allowed_from_json,
    certify_ratio,
    choose_answers,
)
from dprelease.mechanisms.sampling import uniform_each
from dprelease.numeric import fraction_from_json, fraction_to_json
from dprelease.schema.domain import GridSet

__all__ = ["EPSILON_FLOOR", "POINT_LIMIT", "BoundedLaplaceLaw", "check_size", "tabulates"]

FloatArray = npt.NDArray[np.float64]
POINT_LIMIT = 2**18
_BITS = 60
_WORK = 256
EPSILON_FLOOR = Fraction(1, 2**40)
_SLACK = 1 + Fraction(1, 2**50)


@dataclass(frozen=True, slots=True)
class BoundedLaplaceLaw:
    """Truncated integer Laplace table with decay p / 2**60 per step. Satisfies `GridLaw`."""

    allowed: GridSet
    shift: int
    epsilon: Fraction
    loss: Loss
    p: int

    @property
    def family(self) -> str:
        return "bounded_laplace"

    @classmethod
    def calibrate(cls, request: GridRequest) -> BoundedLaplaceLaw:
        """Return the law of (nearly) smallest scale whose exact certificate is within epsilon.

        The float search only proposes; the integer table decides, and the proposal is widened
        until the table's own certificate holds. "Wider is safer" is never assumed: on unions the
        loss is not monotone in the scale, so the member that is returned is the one certified.

        Raises:
            ArgumentError: more than `POINT_LIMIT` hull points (DPR622), or epsilon below 2**-40,
                where the certificate's own slack would show (DPR626).
        """
        check_size(request.allowed)
        if request.epsilon < EPSILON_FLOOR:
            raise ArgumentError(
                "epsilon is too small for a truncated law",
                fix="use an epsilon of at least 1e-12",
                code="DPR626",
            )
        loss = FloatLoss(request.allowed, request.reach)
        scale = loss.smallest_scale(float(request.epsilon))
        widen = 2.0**-44
        while True:  # ends: the uniform table, p = 2**60, certifies at every epsilon admitted
            p = min(2**_BITS, math.ceil(2**_BITS * math.exp(-1 / scale)))
            law = cls(request.allowed, request.shift, request.epsilon, request.loss, p)
            # ratio <= e^epsilon was verified exactly if and only if the claim was accepted
            if law.certificate.epsilon_upper <= request.epsilon:
                return law
            scale *= 1 + widen
            widen = min(2 * widen, 0.25)

    @property
    def scale(self) -> float:
        """-1 / log(p / 2**60), in steps."""
        return _scale(self.p)

    @property
    def certificate(self) -> Certificate:
        return _certificate(self)

    def certify(self) -> Certificate:
        """Recompute the proof from scratch: build the table, check every pair."""
        reach = GridRequest(self.allowed, self.shift, self.epsilon).reach
        top, z = _top(self.allowed), _mass(self.allowed, self.p)
        if self.allowed.hull_steps == 0:
            # One possible answer and one output: nothing can be told apart.
            ratio = Fraction(1)
        else:
            pairs = z.size - reach
            if pairs < 1:
                raise InternalError("a table was certified over no pairs")
            forward = z[reach:] / z[:-reach]
            up, down = int(np.argmax(forward)), int(np.argmin(forward))
            worst = max(
                Fraction(int(z[up + reach]), int(z[up])),
                Fraction(int(z[down]), int(z[down + reach])),
            )
            ratio = worst * _SLACK * _decay_upper(self.p, reach)
        return certify_ratio(
            self.family, ratio, self.epsilon,
            "(2**60 / p)**reach times the largest Z ratio over all hull pairs at that distance",
            p=self.p, top=top, reach=reach, pairs=max(1, z.size - reach),
        )  # fmt: skip

    def draw_raw(self, answers: IntArray, bits: RandomBits) -> IntArray:
        """Return one exact draw per clamped answer, an allowed point; shape `(groups,)`."""
        low = self.allowed.lower
        q = np.clip(answers, low, self.allowed.upper)
        head = _head(self.allowed, self.p)
        left = uniform_each(_mass(self.allowed, self.p)[q - low], bits)
        out = np.full(q.size, self.allowed.lower, dtype=np.int64)
        todo = np.ones(q.size, dtype=bool)
        # Allowed points in a fixed order: per run, those right of q, then those left of it.
        for a, b in self.allowed.runs:
            for sign in (1, -1):
                near = np.maximum(a - q, 0) if sign > 0 else np.maximum(q - b, 1)
                far = (b - q if sign > 0 else q - a) + 1
                far = np.maximum(far, near)
                mass = head[far] - head[near]
                here = np.flatnonzero(todo & (left < mass))
                goal = left[here] + head[near[here]]
                out[here] = q[here] + sign * (np.searchsorted(head, goal, side="right") - 1)
                todo[here] = False
                left = left - mass
        return out

    def finish(self, raw: IntArray) -> IntArray:
        """Return `raw`: every draw is allowed already."""
        return raw

    def interval(self, raw: IntArray, level: float = 0.95) -> tuple[IntArray, IntArray]:
        """Return {q in hull: P_q(Y >= y) and P_q(Y <= y) are both at least (1 - level) / 2}.

        By bisection over q, for all groups at once; empty sets become the nearer end.
        """
        if not 0 < level < 1:
            raise ArgumentError(
                "a confidence level lies strictly between 0 and 1", fix="use 0.95", code="DPR625"
            )
        alpha = (1 - level) / 2 * (1 - 1e-6)
        y = np.clip(raw, self.allowed.lower, self.allowed.upper)
        lows = self._bisect(y, lambda q: 1 - self._below(q, y - 1) >= alpha)
        mirror = self._bisect(
            y, lambda q: self._below(self.allowed.lower + self.allowed.upper - q, y) >= alpha
        )
        highs = self.allowed.lower + self.allowed.upper - mirror
        return np.minimum(lows, highs), np.maximum(lows, highs)

    def _bisect(self, y: IntArray, holds: Any) -> IntArray:
        """Return the smallest hull point where `holds` (monotone in q), else the upper end."""
        low = np.full(y.shape, self.allowed.lower, dtype=np.int64)
        high = np.full(y.shape, self.allowed.upper, dtype=np.int64)
        for _ in range(self.allowed.hull_steps.bit_length()):
            middle = (low + high) // 2
            good = holds(middle)
            high = np.where(good, middle, high)
            low = np.where(good, low, np.minimum(middle + 1, high))
        return high

    def _below(self, q: IntArray, y: IntArray) -> FloatArray:
        """Return P_q(Y <= y)."""
        head = _head(self.allowed, self.p)
        total = np.zeros(q.shape, dtype=np.int64)
        for a, b in self.allowed.runs:
            end = np.minimum(y, b)
            part = _run_mass(head, q, a, np.maximum(end, a))
            total += np.where(end >= a, part, 0)
        out: FloatArray = total / _mass(self.allowed, self.p)[q - self.allowed.lower]
        return out

    def expected_error(self) -> ExpectedError:
        """Return the error over answers uniform on the hull (a subset of them if it is large)."""
        return _expected_error(self)

    def pmf(self, answer: int) -> dict[int, Any]:
        """Return {output: exact probability}, Fractions that sum to 1."""
        q = min(max(answer, self.allowed.lower), self.allowed.upper)
        weights = _weights(self.p, self.allowed.hull_steps, _top(self.allowed))
        total = int(_mass(self.allowed, self.p)[q - self.allowed.lower])
        points = self.allowed.points().tolist()
        return {y: Fraction(int(weights[abs(y - q)]), total) for y in points}

    def to_json(self) -> dict[str, Any]:
        """Return all integers of the law."""
        return {
            "family": self.family,
            "allowed": [list(run) for run in self.allowed.runs],
            "shift": self.shift,
            "epsilon": fraction_to_json(self.epsilon),
            "loss": self.loss,
            "p": self.p,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> BoundedLaplaceLaw:
        allowed = allowed_from_json(value["allowed"])
        p = int(value["p"])
        if not 0 < p <= 2**_BITS or value["loss"] not in ("absolute", "squared"):
            raise ValueError("p or loss")
        check_size(allowed)
        return cls(
            allowed, int(value["shift"]), fraction_from_json(value["epsilon"]), value["loss"], p
        )

    def describe(self) -> str:
        """Return one line for a plan."""
        return f"{self.family} (scale {self.scale:.6g} steps), truncated to the allowed values"


def check_size(allowed: GridSet) -> None:
    """Raise DPR622 if the hull has more than `POINT_LIMIT` points."""
    if allowed.hull_steps >= POINT_LIMIT:
        raise ArgumentError(
            "the grid is too fine for a truncated law",
            why=f"its weight table would pass {POINT_LIMIT} points",
            fix="use a coarser step, or allow spikes at the borders",
            code="DPR622",
        )


def tabulates(request: GridRequest) -> bool:
    """Return whether a table law exists for the request at all."""
    return request.allowed.hull_steps < POINT_LIMIT and request.epsilon >= EPSILON_FLOOR


def _scale(p: int) -> float:
    return math.inf if p == 2**_BITS else -1 / math.log(p / 2**_BITS)


def _top(allowed: GridSet) -> int:
    """Sums over the hull stay below 2**62."""
    return 61 - (allowed.hull_steps + 1).bit_length()


@lru_cache(maxsize=8)
def _weights(p: int, hull_steps: int, top: int) -> IntArray:
    out = np.ones(hull_steps + 1, dtype=np.int64)
    w, up = 1 << top, (1 << _BITS) - 1
    for d in range(hull_steps + 1):
        out[d] = w
        if w == 1:
            break
        w = (w * p + up) >> _BITS
    out.setflags(write=False)
    return out


@lru_cache(maxsize=8)
def _head(allowed: GridSet, p: int) -> IntArray:
    """head[k] = W[0] + ... + W[k - 1]."""
    weights = _weights(p, allowed.hull_steps, _top(allowed))
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(weights)])


def _run_mass(head: npt.NDArray[Any], q: IntArray, a: Any, b: Any) -> npt.NDArray[Any]:
    """Return the sum of W[|y - q|] over y = a .. b, per q."""
    right = head[np.maximum(b - q, -1) + 1] - head[np.maximum(a - q, 0)]
    left = head[np.maximum(q - a, 0) + 1] - head[np.maximum(q - b, 1)]
    return np.where(b >= q, right, 0) + np.where(a < q, left, 0)


@lru_cache(maxsize=8)
def _mass(allowed: GridSet, p: int) -> IntArray:
    """Return Z(q) for every hull point q, exact."""
    return _masses(allowed, _head(allowed, p)).astype(np.int64)


def _masses(allowed: GridSet, head: npt.NDArray[Any]) -> npt.NDArray[Any]:
    q = np.arange(allowed.lower, allowed.upper + 1, dtype=np.int64)
    total = np.zeros(q.size, dtype=head.dtype)
    for a, b in allowed.runs:
        total = total + _run_mass(head, q, a, b)
    return total


def _decay_upper(p: int, reach: int) -> Fraction:
    """Return a rational upper bound of (2**60 / p)**reach, by 256-bit lower bounds of r**n."""
    result, base = (1 << _WORK), (p << _WORK) >> _BITS
    exponent = 0  # powers are floating: value = mantissa * 2**exponent, rounded down
    base_exponent = 0
    n = reach
    while n:
        if n & 1:
            result, exponent = _times(result, exponent, base, base_exponent)
        base, base_exponent = _times(base, base_exponent, base, base_exponent)
        n >>= 1
    return Fraction(1 << (_WORK - exponent), result)


def _times(x: int, x_exponent: int, y: int, y_exponent: int) -> tuple[int, int]:
    product = x * y
    drop = max(0, product.bit_length() - _WORK - 1)
    return product >> drop, x_exponent + y_exponent + drop - _WORK


class FloatLoss:
    """Float view of the loss as a function of the scale (steps), to propose a calibration."""

    def __init__(self, allowed: GridSet, reach: int) -> None:
        self.allowed, self.reach = allowed, reach
        self._distances = np.arange(allowed.hull_steps + 1, dtype=np.float64)

    def __call__(self, scale: float) -> float:
        if self.allowed.hull_steps == 0:
            return 0.0
        weights = np.exp(-self._distances / scale)
        head = np.concatenate([[0.0], np.cumsum(weights)])
        z = np.log(np.maximum(_masses(self.allowed, head), 1e-300))
        return self.reach / scale + float(np.max(np.abs(z[self.reach :] - z[: -self.reach])))

    def smallest_scale(self, epsilon: float) -> float:
        """Return about the smallest scale of loss epsilon within [reach/eps, 2 reach/eps]."""
        low, high = self.reach / epsilon, 2 * self.reach / epsilon
        if self(low) <= epsilon:
            return low
        for _ in range(60):
            middle = (low + high) / 2
            if high - low <= 1e-13 * high:
                break
            if self(middle) > epsilon:
                low = middle
            else:
                high = middle
        return high


@lru_cache(maxsize=64)
def _certificate(law: BoundedLaplaceLaw) -> Certificate:
    return law.certify()


@lru_cache(maxsize=64)
def _expected_error(law: BoundedLaplaceLaw) -> ExpectedError:
    answers, share = choose_answers(law.allowed, 65 if law.allowed.hull_steps < 2**14 else 17)
    weights = _weights(law.p, law.allowed.hull_steps, _top(law.allowed))
    points = law.allowed.points()
    errors = np.empty(answers.size)
    for i, q in enumerate(answers):
        gap = np.abs(points - q)
        mass = weights[gap].astype(np.float64)
        cost = gap.astype(np.float64) if law.loss == "absolute" else gap.astype(np.float64) ** 2
        errors[i] = float((cost * mass).sum() / mass.sum())
    return ExpectedError(float(errors @ share), float(errors.max()))
