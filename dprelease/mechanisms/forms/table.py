"""Form: a truncated symmetric integer table, P(y | q) = W[|y - q|] / Z(q) on an allowed grid set.

W is a non-increasing integer vector over distances 0 .. hull; Z(q), the sum of W over the allowed
points seen from q, is an exact int64 vector, built from prefix sums. Draws are exact: a uniform
integer below Z(q), located by binary search in the prefix sums, run by run. All weights are at least
1, so every answer has the same support, and no point masses are added anywhere.

A kernel of noise brings its weights and its proof (`certifiers/table_laplace.py`,
`certifiers/table_gaussian.py`; `certifiers/table.py` proves any weights): the law *is* its kernel's
one integer p and the allowed set.

Rounded weights end on a floor, where the real ones go on falling. `TableLaw.off` bounds how far the law may
be from that of the real weights, which is log-concave; intervals are wider by twice as much. Where a gap is so
wide that the floor outweighs its edges, that is far: such a table is not offered (`boundaries/truncate.py`).

Units    grid steps; losses and rho in nats.
Sources  `docs/theory/certificates.md#symmetric-tables`, `docs/theory/intervals.md#inversion`.
Limits   at most `POINT_LIMIT` hull points. Running time depends on the bits drawn, and through Z(q)
         faintly on the answer.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt

from dprelease.core.entropy import RandomBits
from dprelease.core.errors import ArgumentError, InternalError
from dprelease.mechanisms.arguments import FloatArray, IntArray
from dprelease.mechanisms.forms.base import ScalarLaw
from dprelease.mechanisms.forms.hull_interval import likely_answers
from dprelease.mechanisms.kernels.sampling import uniform_each
from dprelease.mechanisms.law import Ends, ExpectedError, Loss, choose_answers
from dprelease.schema.domain import GridSet

POINT_LIMIT = 2**18
EPSILON_FLOOR = Fraction(1, 2**40)
"""Below it the slack of a table's certificate would show."""

Number = TypeVar("Number", np.int64, np.float64)


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
    def from_weights(cls, allowed: GridSet, weights: IntArray) -> SymmetricTable:
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

    def interval(self, raw: IntArray, level: float, off: float = 0.0) -> tuple[IntArray, IntArray]:
        """Return {q in hull: P_q(Y >= y) and P_q(Y <= y) are both at least (1 - level) / 2 - 2 off}.

        By bisection over q, for all groups at once; empty sets become the nearer end.

        Args:
            off: how far P_q may be, in total variation, from laws for which P_q(Y <= y) falls in q.

        Raises:
            ArgumentError: a level outside (0, 1) (DPR625).
        """
        return likely_answers(self.allowed, self.clamp(raw), level, self.below, off=off)

    def expected_error(self, loss: Loss, near: Ends | None = None) -> ExpectedError:
        """Return the error over answers uniform on the hull, or `near` in it (a subset of them if it is large)."""
        answers, share = choose_answers(self.allowed, 65 if self.mass.size < 2**14 else 17, near)
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
    size = allowed.hull_steps + 1
    total, falling = np.zeros(size, dtype=head.dtype), head[::-1].copy()
    for first, last in allowed.runs:
        a, end = first - allowed.lower, last - allowed.lower + 1
        total[:a] += falling[size - end : size - end + a] - falling[size - a : size]
        total[a:end] += falling[size - end + a : size] + (head[1 : end - a + 1] - head[1])
        total[end:] += head[end - a + 1 : size - a + 1] - head[1 : size - end + 1]
    return total


def _run_mass(
    head: npt.NDArray[Number], q: IntArray, a: np.int64, b: IntArray
) -> npt.NDArray[Number]:
    """Return the sum of W[|y - q|] over y = a .. b, per q."""
    right = head[np.maximum(b - q, -1) + 1] - head[np.maximum(a - q, 0)]
    left = head[np.maximum(q - a, 0) + 1] - head[np.maximum(q - b, 1)]
    out: npt.NDArray[Number] = np.where(b >= q, right, 0) + np.where(a < q, left, 0)
    return out


@dataclass(frozen=True, slots=True)
class TableLaw(ScalarLaw):
    """A table that one integer makes. Satisfies `GridLaw` once a kernel has `weights` and a proof.

    Attributes:
        p: of 1 .. 2**bits; what it means is the kernel's.
    """

    family: ClassVar[str]
    bits: ClassVar[int]
    constants: ClassVar[Mapping[str, str]] = {"family": "family"}

    p: int

    @staticmethod
    @abstractmethod
    def weights(allowed: GridSet, p: int) -> list[int]:
        """Return W[0], W[1], ... as long as they are above 1; the rest of the hull weighs 1."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """The kernel's scale, in steps."""

    @property
    def table(self) -> SymmetricTable:
        """The weights, rebuilt from `p`."""
        return _table(type(self).weights, self.allowed, self.p)

    @property
    def off(self) -> float:
        """How far the law of any hull answer may be, in total variation, from that of the real weights.

        Rounding up adds less than 1 per weight, and the next weights shrink what was added before: by
        1 / (1 - r) <= scale + 1 at most where they fall by r, by 1 + 1.26 scale where they are Gaussian.
        """
        added = min(1.3 * self.scale + 2, self.allowed.hull_steps + 1)
        return float(len(self.allowed) * added / self.table.mass.min())

    def draw_raw(self, answers: IntArray, bits: RandomBits) -> IntArray:
        """Return one exact draw per clamped answer, an allowed point; shape `(groups,)`."""
        return self.table.draw(answers, bits)

    def interval(self, raw: IntArray, level: float = 0.95) -> tuple[IntArray, IntArray]:
        """Return a confidence interval per clamped answer (DPR625 for a bad level)."""
        return self.table.interval(raw, level, self.off)

    def price(self, near: Ends | None) -> ExpectedError:
        return self.table.expected_error(self.loss, near)

    def pmf(self, answer: int) -> dict[int, Any]:
        """Return {output: exact probability}, Fractions that sum to 1."""
        return dict(self.table.pmf(answer))

    def completed(self) -> Self:
        if not 0 < self.p <= 2**self.bits:
            raise ValueError("p")
        check_size(self.allowed)
        return self

    def describe(self) -> str:
        """Return one line for a plan."""
        return f"{self.family} (scale {self.scale:.6g} steps), truncated to the allowed values"


@lru_cache(maxsize=16)
def _table(
    weights: Callable[[GridSet, int], list[int]], allowed: GridSet, p: int
) -> SymmetricTable:
    out = np.ones(allowed.hull_steps + 1, dtype=np.int64)
    above = weights(allowed, p)
    out[: len(above)] = above
    return SymmetricTable.from_weights(allowed, out)


def check_epsilon(epsilon: Fraction, why: str | None = None) -> None:
    """Raise DPR626 if epsilon is below 2**-40, where a truncated law's certificate is too coarse."""
    if epsilon < EPSILON_FLOOR:
        raise ArgumentError(
            "epsilon is too small for a truncated law",
            why=why,
            fix="use an epsilon of at least 1e-12",
            code="DPR626",
        )


def check_size(allowed: GridSet) -> None:
    """Raise DPR622 if the hull has more than `POINT_LIMIT` points."""
    if allowed.hull_steps >= POINT_LIMIT:
        raise ArgumentError(
            "the grid is too fine for a truncated law",
            why=f"its weight table would pass {POINT_LIMIT} points",
            fix="use a coarser step, or remove `spikes: forbid`",
            code="DPR622",
        )
