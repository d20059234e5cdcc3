"""Student noise on a bounded grid: polynomial tails, for answers that may be far off.

For a clamped answer q and allowed points D, P(y | q) = W[|y - q|] / Z(q), Z(q) = sum over D, with

    W[d] = floor(2**top / (1 + (d / s)^2)),   at least 1.

Privacy. W does not increase, so the largest likelihood ratio over *all* pairs of hull answers at
most `reach` apart, gaps included, is bounded by `forms.table.worst_ratio` from the integers
alone. The scale s is searched in floats; what is returned is a table whose certificate holds.

Units    grid steps; epsilon in nats.
Sources  the density is Student's t with one degree of freedom (Cauchy), truncated to the domain.
Limits   at most `POINTS` hull points. Worse than Laplace noise on average: pinned, never chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dprelease.entropy import RandomBits
from dprelease.errors import ArgumentError
from dprelease.mechanisms.forms.table import SymmetricTable, top_bits, worst_ratio
from dprelease.mechanisms.law import (
    Certificate,
    ExpectedError,
    GridLaw,
    GridRequest,
    IntArray,
    Loss,
    certify_ratio,
    law_fields,
    read_fields,
)
from dprelease.numeric import fraction_from_json, fraction_to_json
from dprelease.schema.domain import GridSet

POINTS = 2**16


@dataclass(frozen=True, slots=True)
class StudentLaw:
    """The truncated table at `scale` (s, in steps). Satisfies `GridLaw`."""

    allowed: GridSet
    shift: int
    epsilon: Fraction
    loss: Loss
    scale: Fraction

    @property
    def family(self) -> str:
        return "student"

    @property
    def table(self) -> SymmetricTable:
        return _table(self.allowed, self.scale)

    @property
    def certificate(self) -> Certificate:
        return self.certify()

    def certify(self) -> Certificate:
        """Recompute the proof from the table's integers."""
        reach = GridRequest(self.allowed, self.shift, self.epsilon).reach
        return certify_ratio(
            self.family,
            worst_ratio(self.table, reach),
            self.epsilon,
            "largest ratio of an integer table over all hull pairs within the sensitivity",
            reach=reach,
            scale=self.scale,
        )

    def draw_raw(self, answers: IntArray, bits: RandomBits) -> IntArray:
        return self.table.draw(answers, bits)

    def finish(self, raw: IntArray) -> IntArray:
        return raw  # a draw is an allowed point already

    def interval(self, raw: IntArray, level: float = 0.95) -> tuple[IntArray, IntArray]:
        return self.table.interval(raw, level)

    def expected_error(self) -> ExpectedError:
        return self.table.expected_error(self.loss)

    def pmf(self, answer: int) -> dict[int, Any]:
        return self.table.pmf(answer)

    def to_json(self) -> dict[str, Any]:
        return law_fields(self, self.loss) | {"scale": fraction_to_json(self.scale)}

    def describe(self) -> str:
        return f"Student noise of scale {float(self.scale):.4g} steps on the allowed values"


class Student:
    """The family that `mechanism: student` names."""

    @classmethod
    def grid_laws(cls, request: GridRequest) -> list[GridLaw]:
        """Return the narrowest certified law, or nothing where the family has no proof.

        Coordinates that add up (`splits`) would need a loss that is linear in the shift.

        Raises:
            ArgumentError: more than `POINTS` hull points (EXA001).
        """
        if request.splits:
            return []
        if request.allowed.hull_steps >= POINTS:
            raise ArgumentError(
                "the grid is too fine for a table", fix="use a coarser step", code="EXA001"
            )
        low, high = Fraction(1, 64), Fraction(1, 64)
        while not _holds(request, high):
            if high > 2**62:
                return []  # integers cannot tell the points apart less than this
            low, high = high, 2 * high
        for _ in range(20):
            middle = (low + high) / 2
            low, high = (low, middle) if _holds(request, middle) else (middle, high)
        return [_law(request, high)]

    @classmethod
    def grid_law_from_json(cls, value: dict[str, Any]) -> GridLaw:
        """Rebuild the law that a manifest holds."""
        return StudentLaw(*read_fields(value), fraction_from_json(value["scale"]))


def _law(request: GridRequest, scale: Fraction) -> StudentLaw:
    return StudentLaw(request.allowed, request.shift, request.epsilon, request.loss, scale)


def _holds(request: GridRequest, scale: Fraction) -> bool:
    return _law(request, scale).certificate.epsilon_upper <= request.epsilon


@lru_cache(maxsize=64)
def _table(allowed: GridSet, scale: Fraction) -> SymmetricTable:
    distance = np.arange(allowed.hull_steps + 1) / float(scale)
    weights = np.floor(2.0 ** top_bits(allowed) / (1 + distance**2)).astype(np.int64)
    return SymmetricTable.of(allowed, np.maximum(weights, 1))
