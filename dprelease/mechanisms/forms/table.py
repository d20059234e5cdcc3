"""A truncated symmetric integer table: P(y | q) = W[|y - q|] / Z(q) on an allowed grid set.

W is a non-increasing integer vector over distances 0 .. hull; Z(q), the sum of W over the allowed
points seen from q, is an exact int64 vector, built from prefix sums. Draws are exact: a uniform
integer below Z(q), located by binary search in the prefix sums, run by run.

`worst_ratio` bounds every likelihood ratio of two answers at most `reach` steps apart, whatever
the shape of W. For q < q' = q + k and y = q - m (or q' > y > q, or y beyond q'):

    W[|y - q|] / W[|y - q'|]  <=  A_k(q) = max over 0 <= m <= q - lowest of W[m] / W[m + k],

since W does not increase; and the ratio of the normalisers is Z(q') / Z(q). The other direction is
the mirror image. All k <= reach are covered, in blocks [k1, k2] of growing size below reach: A_k <=
A_k2, and Z(q + k) <= its maximum over the block. k = reach is a block of its own, so the bound is
exact where the loss is largest.

A pair whose losses span a range of at most r is r^2 / 8 zCDP (`range_rho`): the second derivative
in alpha of (alpha - 1) D_alpha is a variance of the loss, at most r^2 / 4, and it vanishes at 0 and 1.

Units    grid steps; losses and rho in nats.
Sources  elementary; certificate over all hull pairs: `docs/theory/certificates.md#symmetric-tables`.
Limits   float64 quotients, widened by 2**-48: more than their seven roundings can err.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dprelease.entropy import RandomBits
from dprelease.errors import InternalError
from dprelease.mechanisms.arguments import FloatArray
from dprelease.mechanisms.forms.hull_interval import likely_answers
from dprelease.mechanisms.kernels.sampling import uniform_each
from dprelease.mechanisms.law import ExpectedError, IntArray, Loss, choose_answers
from dprelease.schema.domain import GridSet

__all__ = ["SymmetricTable", "loss_curve", "masses", "range_rho", "top_bits", "worst_ratio"]

Number = TypeVar("Number", np.int64, np.float64)
_SLACK = 1 + Fraction(1, 2**48)


def top_bits(allowed: GridSet) -> int:
    """Return T such that sums of weights up to 2**T over the hull stay below 2**62."""
    return 61 - (allowed.hull_steps + 1).bit_length()


@dataclass(frozen=True, slots=True, eq=False)
class SymmetricTable:
    """Weights by distance, their prefix sums (`head[k]` = W[0] + ... + W[k - 1]) and Z."""

    allowed: GridSet
    weights: IntArray
    head: IntArray
    mass: IntArray

    @classmethod
    def of(cls, allowed: GridSet, weights: IntArray) -> SymmetricTable:
        """Return the table; `weights` has shape `(hull_steps + 1,)`, positive, not increasing."""
        if (
            weights.size != allowed.hull_steps + 1
            or weights[-1] < 1
            or (np.diff(weights) > 0).any()
        ):
            raise InternalError("a weight table is malformed")
        head = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(weights)])
        mass = masses(allowed, head)
        for array in (weights, head, mass):
            array.setflags(write=False)
        return cls(allowed, weights, head, mass)

    def clamp(self, answers: IntArray) -> IntArray:
        out: IntArray = np.clip(answers, self.allowed.lower, self.allowed.upper)
        return out

    def draw(self, answers: IntArray, bits: RandomBits) -> IntArray:
        """Return one exact draw per clamped answer, an allowed point; shape `(groups,)`."""
        q, head = self.clamp(answers), self.head
        left = uniform_each(self.mass[q - self.allowed.lower], bits)
        out = np.full(q.size, self.allowed.lower, dtype=np.int64)
        todo = np.ones(q.size, dtype=bool)
        # Allowed points in a fixed order: per run, those right of q, then those left of it.
        for a, b in self.allowed.runs:
            for sign in (1, -1):
                near = np.maximum(a - q, 0) if sign > 0 else np.maximum(q - b, 1)
                far = np.maximum((b - q if sign > 0 else q - a) + 1, near)
                here = np.flatnonzero(todo & (left < head[far] - head[near]))
                goal = left[here] + head[near[here]]
                out[here] = q[here] + sign * (np.searchsorted(head, goal, side="right") - 1)
                todo[here] = False
                left = left - (head[far] - head[near])
        return out

    def below(self, q: IntArray, y: IntArray) -> FloatArray:
        """Return P(Y <= y) per clamped answer q."""
        total = np.zeros(q.shape, dtype=np.int64)
        for a, b in self.allowed.runs:
            end = np.minimum(y, b)
            part = _run_mass(self.head, q, np.int64(a), np.maximum(end, a))
            total += np.where(end >= a, part, 0)
        out: FloatArray = total / self.mass[q - self.allowed.lower]
        return out

    def interval(self, raw: IntArray, level: float) -> tuple[IntArray, IntArray]:
        """Return {q in hull: P_q(Y >= y) and P_q(Y <= y) are both at least (1 - level) / 2}.

        By bisection over q, for all groups at once; empty sets become the nearer end.

        Raises:
            ArgumentError: a level outside (0, 1) (DPR625).
        """
        return likely_answers(self.allowed, self.clamp(raw), level, self.below)

    def expected_error(self, loss: Loss) -> ExpectedError:
        """Return the error over answers uniform on the hull (a subset of them if it is large)."""
        answers, share = choose_answers(self.allowed, 65 if self.mass.size < 2**14 else 17)
        points, errors = self.allowed.points(), np.empty(answers.size)
        for i, q in enumerate(answers):
            gap = np.abs(points - q)
            chance = self.weights[gap].astype(np.float64)
            cost = gap.astype(np.float64) if loss == "absolute" else gap.astype(np.float64) ** 2
            errors[i] = float((cost * chance).sum() / chance.sum())
        return ExpectedError(float(errors @ share), float(errors.max()))

    def pmf(self, answer: int) -> dict[int, Fraction]:
        """Return {output: exact probability}, summing to 1."""
        q = min(max(answer, self.allowed.lower), self.allowed.upper)
        total = int(self.mass[q - self.allowed.lower])
        points = self.allowed.points().tolist()
        return {y: Fraction(int(self.weights[abs(y - q)]), total) for y in points}


def masses(allowed: GridSet, head: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Return Z(q) for every hull point q from prefix sums, of integers (exact) or of floats."""
    q = np.arange(allowed.lower, allowed.upper + 1, dtype=np.int64)
    total = np.zeros(q.size, dtype=head.dtype)
    for a, b in allowed.runs:
        total += _run_mass(head, q, np.int64(a), np.full(q.size, b))
    return total


def _run_mass(
    head: npt.NDArray[Number], q: IntArray, a: np.int64, b: IntArray
) -> npt.NDArray[Number]:
    """Return the sum of W[|y - q|] over y = a .. b, per q."""
    right = head[np.maximum(b - q, -1) + 1] - head[np.maximum(a - q, 0)]
    left = head[np.maximum(q - a, 0) + 1] - head[np.maximum(q - b, 1)]
    out: npt.NDArray[Number] = np.where(b >= q, right, 0) + np.where(a < q, left, 0)
    return out


def worst_ratio(table: SymmetricTable, reach: int) -> Fraction:
    """Return a rational upper bound of all likelihood ratios within `reach` >= 1 steps."""
    hull = table.weights.size - 1
    if hull == 0:
        return Fraction(1)  # one possible answer and one output: nothing can be told apart
    if not 1 <= reach <= hull:
        raise InternalError("a table was certified over no pairs")
    mass = table.mass.astype(np.float64)
    weights = table.weights.astype(np.float64)
    worst = max(_one_way(weights, z, reach) for z in (mass, mass[::-1]))
    return Fraction(worst) * _SLACK


def _one_way(weights: FloatArray, mass: FloatArray, reach: int) -> float:
    hull, worst = weights.size - 1, 0.0
    # Nothing lies beyond the hull: zeros there never win a maximum.
    window, size, last = np.concatenate([mass, np.zeros(reach)]), 1, reach
    while last >= 1:
        while 2 * size <= min(last, reach - last):
            window, size = np.maximum(window[:-size], window[size:]), 2 * size
        if size > last:  # the few distances left, one by one or in halves
            size //= 2
            window = _window(np.concatenate([mass, np.zeros(reach)]), size)
            continue
        first = last - size + 1
        starts = np.arange(hull - first + 1)
        ratio = np.maximum.accumulate(weights[starts] / weights[np.minimum(starts + last, hull)])
        worst = max(worst, float((ratio * window[starts + first] / mass[starts]).max()))
        last = first - 1
    return worst


def _window(mass: FloatArray, size: int) -> FloatArray:
    """Return the maximum of mass[i .. i + size - 1] per i; `size` a power of two."""
    window, width = mass, 1
    while width < size:
        window, width = np.maximum(window[:-width], window[width:]), 2 * width
    return window


def range_rho(table: SymmetricTable, reach: int) -> Fraction:
    """Return eighth of the square of the widest range of losses within `reach`, rounded up.

    The largest loss of a pair plus the largest of the pair reversed; normalisers cancel. Distances
    go in blocks as in `worst_ratio`.
    """
    hull = table.weights.size - 1
    log = np.log(table.weights.astype(np.float64))
    last, size, widest = min(reach, hull), 1, 0.0
    while last >= 1:
        first = last - size + 1
        starts = np.arange(hull - first + 1)
        up = np.maximum.accumulate(log[starts] - log[np.minimum(starts + last, hull)])
        widest = max(widest, float((up + up[::-1]).max()))
        last = first - 1
        size = min(2 * size, max(last, 1))
    # Four logarithms of at most log 2**61 < 64, each within an ulp (2**-47), and three differences.
    return (Fraction(widest) + Fraction(1, 2**43)) ** 2 / 8


def loss_curve(table: SymmetricTable, reach: int) -> FloatArray:
    """Return, for k = 0 .. reach, an upper bound of the loss at distances up to k, in nats."""
    hull = table.weights.size - 1
    mass, weights = table.mass.astype(np.float64), table.weights.astype(np.float64)
    worst = np.ones(reach + 1)
    for k in range(1, reach + 1):
        steepest = np.maximum.accumulate(weights[: hull + 1 - k] / weights[k:])
        for z in (mass, mass[::-1]):
            worst[k] = max(worst[k], float((steepest * z[k:] / z[: hull + 1 - k]).max()))
    out: FloatArray = np.maximum.accumulate(np.log(worst)) + 2.0**-47 * np.sign(
        np.arange(reach + 1)
    )
    return out
