"""The draw of several bounded cells by one bounded Gaussian law over their box.

lambda_2 of a graph and degrees of its nodes move together when an edge appears, so nothing is gained
by looking at them apart: the loss of the block is at most the sum over the cells of their own
certified losses, each at the most that its cell can move (`mechanisms.certifiers.box_gaussian`). All
cells have one common scale in the box's unit. Outputs lie in the box and have no atoms.

Units: grid steps of each cell, cell i stands for steps[i] times itself. Shapes: `(1, cells)`.
Sources: Chen & Hale, "The Bounded Gaussian Mechanism for Differential Privacy" (their Table 1);
certificate: `docs/theory/certificates.md#boxes`;
sensitivities: `docs/theory/graphs-and-spectra.md#laplacian-eigenvalues`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.aggregates.base import Floats
from dprelease.entropy import RandomBits
from dprelease.errors import ArgumentError
from dprelease.measurements.draw import Draw, Objects, underclaimed
from dprelease.mechanisms.certifiers.box_gaussian import BoundedGaussianBoxLaw
from dprelease.schema.domain import Box, Domain
from dprelease.sensitivity import Sensitivity

__all__ = ["BoxDraw", "box_errors"]


@dataclass(frozen=True, slots=True)
class BoxDraw(Draw):
    """One point of a box per group; `law.steps[i]` is the pitch of cell i."""

    tag: ClassVar[str] = "box"

    law: BoundedGaussianBoxLaw
    mechanism: str = "bounded_gaussian"

    @classmethod
    def calibrate(
        cls,
        domains: Sequence[Domain],
        pitches: Sequence[Fraction],
        each: Sequence[int],
        epsilon: Fraction,
    ) -> BoxDraw:
        """Return the draw of (nearly) smallest common scale whose certificate is within `epsilon`.

        Args:
            domains: of the cells, in their units; pitches: unit of one grid step.
            each: the most grid steps that every cell moves.

        Raises:
            ArgumentError: a grid that is too fine (DPR622) or without points (DPR604).
        """
        box, steps = Box(list(domains)), tuple(pitches)
        moves = tuple(k * g for k, g in zip(each, steps, strict=True))
        start = 0.3 * _scale(domains, moves, epsilon)  # too narrow: it is widened until proved
        law = BoundedGaussianBoxLaw.calibrate(box, steps, moves, epsilon, (start,) * len(steps))
        return cls(law)

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        law, each = self.law, sensitivity.each
        if law.radius is not None or not each or len(each) != len(law.laws):
            raise underclaimed("sensitivity")
        if min(law.steps) <= 0:
            raise underclaimed("step")
        for moved, needed, part in zip(law.moved, each, law.laws, strict=True):
            if moved < min(needed, part.allowed.hull_steps):
                raise underclaimed("sensitivity")
        return law.certify().epsilon_upper

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        out = np.empty(exact.shape, dtype=object)
        for i, law in enumerate(self.law.laws):
            low, high = law.allowed.lower, law.allowed.upper
            answers = np.array([min(max(int(c), low), high) for c in exact[:, i]], dtype=np.int64)
            out[:, i] = law.draw_raw(answers, bits).astype(object)
        return out

    def _values(self, steps: npt.NDArray[np.int64], i: int) -> Floats:
        num, den = self.law.steps[i].as_integer_ratio()
        return np.asarray(steps.astype(np.float64) * num / den)

    def cells(self, raw: Objects) -> Floats:
        parts = [self._values(raw[:, i].astype(np.int64), i) for i in range(raw.shape[1])]
        return np.stack(parts, axis=1)

    def box(self, raw: Objects, level: float) -> tuple[Floats, Floats]:
        low, high = np.empty(raw.shape), np.empty(raw.shape)
        for i, law in enumerate(self.law.laws):
            ends = law.interval(raw[:, i].astype(np.int64), level)
            # half a step more: an eigenvalue was rounded to the grid before the draw
            half = 0.0 if self.law.steps[i] == 1 else float(self.law.steps[i]) / 2
            low[:, i] = self._values(ends[0], i) - half
            high[:, i] = self._values(ends[1], i) + half
        return low, high

    def drawable(self, raw: Objects) -> npt.NDArray[np.bool_]:
        inside = np.ones(raw.shape[0], dtype=bool)
        for i, law in enumerate(self.law.laws):
            inside &= law.allowed.contains(raw[:, i].astype(np.int64))
        return inside

    def evidence(self) -> dict[str, Any]:
        return {"law": self.law.certificate.to_json(), "groups_charged": 1}

    def to_json(self) -> dict[str, Any]:
        return {"draw": self.tag, "law": self.law.to_json()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> BoxDraw:
        return cls(BoundedGaussianBoxLaw.from_json(value["law"]))


def _scale(domains: Sequence[Domain], moves: Sequence[Fraction], epsilon: Fraction) -> float:
    """Return a scale that is enough: the sum of the sides' c w / scale^2 is epsilon."""
    total = 0.0
    for domain, move in zip(domains, moves, strict=True):
        if not domain.is_finite:
            raise ArgumentError(
                "a box has finite sides", fix="declare finite domains", code="DPR604"
            )
        width = float(domain.width)
        total += width * min(float(move), width)
    return math.sqrt(max(total, 2.0**-40) / float(epsilon))


def box_errors(draw: BoxDraw, loss: str) -> tuple[tuple[float, float], ...]:
    """Return the (average, worst) expected error per cell, in its unit (or its square)."""
    out = []
    for law, step in zip(draw.law.laws, draw.law.steps, strict=True):
        error = law.table.expected_error(loss)  # type: ignore[arg-type]
        unit = float(step) if loss == "absolute" else float(step) ** 2
        out.append((error.average * unit, error.worst * unit))
    return tuple(out)
