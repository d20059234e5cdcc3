"""A law of integers, used in the unit of measurement (years, kg): what `mechanism.on_grid(step)` returns.

Answers are rounded to the grid before the draw, R(q) = floor(q / step + 1/2), in exact rationals
(a float through its shortest decimal form): R is monotone, so it moves by at most
ceil(sensitivity / step) steps. A float division here could move one step more.

Units    "unit" is a unit of measurement here, never the privacy unit: the domain's outside, grid steps inside.
Sources  `docs/theory/domains-and-grids.md#rounding-to-a-grid`.
Limits   scalars only: rounding every cell of a vector can move more steps than its L1 bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.core.codec import Stored
from dprelease.core.entropy import SystemBits
from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import Number, exact, figure, floor_half_up, positive
from dprelease.mechanisms.certificate import Certificate
from dprelease.mechanisms.law import GridLaw, GridRequest, Loss, WrittenLaw
from dprelease.schema.domain import Domain


@dataclass(frozen=True, slots=True)
class UnitLaw(Stored):
    """A certified integer law and the size of one step, in the domain's unit."""

    law: WrittenLaw
    step: Fraction

    @property
    def certificate(self) -> Certificate:
        """The exact proof; `epsilon_upper` is a Fraction, at most the requested epsilon."""
        return self.law.certificate

    def draw(self, answer: npt.ArrayLike) -> Any:
        """Release one value or an array of values, with the operating system's randomness.

        `answer`: a number or an array of any shape, in the domain's unit; infinities and values
        outside the hull are clamped to it. Returns floats of the same shape.

        Raises:
            ArgumentError: an answer is NaN or not a number (DPR605); the message does not
                show it.
        """
        array = np.asarray(answer)
        steps = np.array([self._round(v) for v in array.ravel().tolist()], dtype=np.int64)
        drawn = self.law.finish(self.law.draw_raw(steps, SystemBits()))
        values = np.array([float(int(k) * self.step) for k in drawn]).reshape(array.shape)
        return float(values) if array.ndim == 0 else values

    def pmf(self, answer: Number) -> dict[float, Any]:
        """Return {output: probability} for one answer, in the domain's unit."""
        return {float(k * self.step): p for k, p in self.law.pmf(self._round(answer)).items()}

    def _round(self, value: object) -> int:
        number = exact(value, "the answer")
        allowed = self.law.allowed
        if not isinstance(number, Fraction):
            return allowed.upper if number > 0 else allowed.lower
        return min(max(floor_half_up(number / self.step), allowed.lower), allowed.upper)


def on_grid(
    domain: Domain,
    step: object,
    sensitivity: Fraction | None,
    epsilon: Fraction | None,
    build: Callable[[GridRequest], list[GridLaw]],
    *,
    loss: Loss = "absolute",
) -> UnitLaw:
    """Return the first, which is the best, of the laws that `build` makes for `domain` on multiples of `step`.

    Raises:
        ArgumentError: no sensitivity or epsilon is known (DPR627), the domain is infinite
            (DPR603), no grid point is allowed (DPR604), no law is admissible (DPR628), or the loss
            is unknown (DPR682).
    """
    size = positive(step, "step")
    if loss not in ("absolute", "squared"):
        raise ArgumentError(
            "loss is absolute or squared", fix='write loss="absolute"', code="DPR682"
        )
    if sensitivity is None or epsilon is None:
        raise ArgumentError(
            "a grid law needs a sensitivity and an epsilon",
            why="this mechanism was built from its scale alone",
            fix="use .calibrate(...), or pass on_grid(step=..., sensitivity=...)",
            code="DPR627",
        )
    request = GridRequest(
        domain.on_grid(size),
        math.ceil(sensitivity / size),
        epsilon,
        loss,
    )
    laws = build(request)
    if not laws:
        raise _no_law(request)
    return UnitLaw(laws[0], size)


def _no_law(request: GridRequest) -> ArgumentError:
    steps = request.allowed.hull_steps
    one = steps == 0
    return ArgumentError(
        "this family has no law for the request",
        why="its grid has one allowed value, which is the answer whatever the rows are"
        if one
        else f"epsilon {figure(float(request.epsilon))} is too small for it, or a grid of {steps:,} steps too fine",
        fix="use a finer step" if one else "use discrete_laplace, or a coarser step",
        code="DPR628",
    )
