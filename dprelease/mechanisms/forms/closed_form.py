"""Form: truncated noise in closed form, drawn exactly: for grids too wide, or with gaps too deep, for a table.

For a clamped answer q and allowed runs of integers D, with an exact rational rate,

    P(y | q) = e^(-rate |y - q|^order) / Z(q),   y in D,   Z(q) = sum over D.

Noise is proposed and kept where it lands in D, which conditions on D. The support is D for every
answer, without a floor: weights are real numbers. No point masses are added. A kernel brings its attempts,
its distribution function, its errors and its proof (`certifiers/closed_form_laplace.py`,
`certifiers/closed_form_gaussian.py`).

Units    grid steps; epsilon in nats. Shapes: answers and draws `(groups,)`.
Sources  rejection conditions a law on the accepted set: `docs/theory/certificates.md#exact-sampling`.
Limits   hulls within +-2**60 steps. The number of attempts depends on the answer; what is released
         does not show it. `pmf`, intervals and errors are float views; `pmf` is for small hulls, where errors
         are summed from it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.core.codec_notes import Digits
from dprelease.core.entropy import RandomBits, drawn_by_rejection
from dprelease.core.errors import ArgumentError
from dprelease.mechanisms.arguments import FloatArray, IntArray
from dprelease.mechanisms.forms.base import ScalarLaw
from dprelease.mechanisms.forms.hull_interval import likely_answers
from dprelease.mechanisms.forms.table import POINT_LIMIT
from dprelease.mechanisms.law import Ends, ExpectedError, choose_answers
from dprelease.schema.domain import LongRuns

_TERMS = 2**19
"""Terms of the sums that price a small hull, if its points allow that few."""

Attempt = Callable[[IntArray], tuple[npt.NDArray[Any], IntArray]]
"""Given places, which of them got an allowed point (positions or a mask), and those points."""


@dataclass(frozen=True, slots=True)
class ClosedFormLaw(ScalarLaw):
    """A closed form. Satisfies `GridLaw` once a kernel has what raises here, and a proof.

    `room`: part of the tail chance by which intervals are widened, for the float view's error.
    """

    family: ClassVar[str]
    room: ClassVar[float]
    form: ClassVar[str] = "wide"
    constants: ClassVar[Mapping[str, str]] = {"family": "family", "form": "form"}

    allowed: LongRuns
    sensitivity: Digits

    @property
    @abstractmethod
    def scale(self) -> float:
        """The kernel's scale, in steps."""

    @abstractmethod
    def attempt(self, q: IntArray, bits: RandomBits) -> Attempt:
        """Return what proposes points for the clamped answers `q` and keeps allowed ones."""

    def otherwise(self, q: IntArray, bits: RandomBits) -> Callable[[int], int] | None:
        """Return what draws one place that many attempts left over, by the same law, if anything."""
        nothing: Callable[[int], int] | None = None
        del q, bits
        return nothing

    @abstractmethod
    def log_weight(self, distance: IntArray) -> FloatArray:
        """Return log P(y | q) + log Z(q) at a distance."""

    @abstractmethod
    def below(self, q: IntArray, y: IntArray) -> FloatArray:
        """Return P_q(Y <= y)."""

    @abstractmethod
    def errors(self, answers: IntArray) -> FloatArray:
        """Return the expected error per answer."""

    def draw_raw(self, answers: IntArray, bits: RandomBits) -> IntArray:
        """Return one exact draw per clamped answer, an allowed point; shape `(groups,)`."""
        q = self.clamp(answers)
        return drawn_by_rejection(
            q.size, self.attempt(q, bits), otherwise=self.otherwise(q, bits), bits=bits
        )

    def interval(self, raw: IntArray, level: float = 0.95) -> tuple[IntArray, IntArray]:
        """Return {q in hull: P_q(Y >= y) and P_q(Y <= y) are both at least (1 - level) / 2}.

        By bisection over q, for all groups at once.
        """
        return likely_answers(self.allowed, self.clamp(raw), level, self.below, room=self.room)

    def price(self, near: Ends | None) -> ExpectedError:
        small = self.allowed.hull_steps < POINT_LIMIT
        most = max(65, _TERMS // len(self.allowed)) if small else 33
        answers, share = choose_answers(self.allowed, most, near)
        errors = self._summed(answers) if small else self.errors(answers)
        return ExpectedError(float((errors * share).sum()), float(errors.max()))

    def _summed(self, answers: IntArray) -> FloatArray:
        """Return the expected error per answer, as a sum over all allowed points."""
        points, out = self.allowed.points(), np.empty(answers.size)
        for i, q in enumerate(answers):
            away, chance = self._seen(points, int(q))
            out[i] = float((away if self.loss == "absolute" else away**2) @ chance)
        return out

    def _seen(self, points: IntArray, q: int) -> tuple[FloatArray, FloatArray]:
        """Return how far from q the allowed points lie, and their probabilities."""
        away = np.abs(points - q)
        log = self.log_weight(away)
        weight = np.exp(log - log.max())  # in a deep gap all weights are next to nothing
        return away.astype(np.float64), weight / weight.sum()

    def pmf(self, answer: int) -> dict[int, Any]:
        """Return {output: probability} for one answer, floats; for small hulls."""
        q = min(max(answer, self.allowed.lower), self.allowed.upper)
        points = self.allowed.points()
        return dict(zip(points.tolist(), self._seen(points, q)[1].tolist(), strict=True))

    def describe(self) -> str:
        """Return one line for a plan."""
        return f"{self.family} (scale {self.scale:.6g} steps), truncated to the allowed values"


def gaps_too_wide() -> ArgumentError:
    """Return the refusal of a domain whose gaps are wide against the noise."""
    return ArgumentError(
        "the forbidden intervals are too wide for this law",
        why="an answer in the middle of a gap would almost never land on an allowed value",
        fix="use `mechanism: bounded_laplace`, or remove `spikes: forbid`",
        code="DPR627",
    )
