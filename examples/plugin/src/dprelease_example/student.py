"""Student noise on a bounded grid: polynomial tails, for answers that may be far off.

For a clamped answer q and allowed points D, P(y | q) = W[|y - q|] / Z(q), Z(q) = sum over D, with

    W[d] = floor(2**top / (1 + (d / s)^2)),   at least 1,   s = p / 2**20.

Privacy. W does not increase, so the largest likelihood ratio over *all* pairs of hull answers at
most `distance` apart, gaps included, is bounded by `certifiers.table.worst_ratio` from the integers
alone. The scale s is searched in floats; what is returned is a table whose certificate holds.

Units    grid steps; epsilon in nats.
Sources  the density is Student's t with one degree of freedom (Cauchy), truncated to the domain.
Limits   at most `POINTS` hull points. Worse than Laplace noise on average: pinned, never chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dprelease.errors import ArgumentError
from dprelease.mechanisms.certifiers.table import CertifiedTableLaw
from dprelease.mechanisms.forms.table import top_bits
from dprelease.mechanisms.law import GridLaw, GridRequest
from dprelease.schema.domain import GridSet

POINTS = 2**16
_UNIT = 2**20


@dataclass(frozen=True, slots=True)
class StudentLaw(CertifiedTableLaw):
    """The truncated table of scale p / 2**20 steps: sampler, intervals, proof and JSON are inherited."""

    family: ClassVar[str] = "student"
    bits: ClassVar[int] = 96

    @staticmethod
    def weights(allowed: GridSet, p: int) -> list[int]:
        """Return the weights by distance; the library keeps them at 1 or more."""
        distance = np.arange(allowed.hull_steps + 1) * (_UNIT / p)
        found = np.floor(2.0 ** top_bits(allowed) / (1 + distance**2)).astype(np.int64)
        kept: list[int] = np.maximum(found, 1).tolist()
        return kept

    @property
    def scale(self) -> float:
        """In steps."""
        return self.p / _UNIT


class Student:
    """The family that `mechanism: student` names."""

    @classmethod
    def grid_laws(cls, request: GridRequest) -> list[GridLaw]:
        """Return the narrowest certified law, or nothing where the family has no proof.

        Coordinates that add up (`splits`) would need a loss that is linear in the sensitivity.

        Raises:
            ArgumentError: more than `POINTS` hull points (EXA001).
        """
        if request.splits:
            return []
        if request.allowed.hull_steps >= POINTS:
            raise ArgumentError(
                "the grid is too fine for a table", fix="use a coarser step", code="EXA001"
            )
        low = high = _UNIT // 64
        while not _holds(request, high):
            if high > 2**82:
                return []  # integers cannot tell the points apart less than this
            low, high = high, 2 * high
        for _ in range(20):
            middle = (low + high) // 2
            low, high = (low, middle) if _holds(request, middle) else (middle, high)
        return [_law(request, high)]

    @classmethod
    def grid_law_from_json(cls, value: dict[str, Any]) -> GridLaw:
        """Rebuild the law that a manifest holds."""
        return StudentLaw.from_json(value)


def _law(request: GridRequest, p: int) -> StudentLaw:
    return StudentLaw(request.allowed, request.sensitivity, request.epsilon, request.loss, p)


def _holds(request: GridRequest, p: int) -> bool:
    return _law(request, p).certificate.epsilon_upper <= request.epsilon
