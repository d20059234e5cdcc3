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
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.core.codec import Stored
from dprelease.core.entropy import RandomBits, SystemBits
from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import Number, exact, figure, positive
from dprelease.mechanisms.arguments import FloatArray, check_locations
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
        values = self.draw_with(answer, SystemBits())
        return float(values) if values.ndim == 0 else values

    def draw_with(self, answer: npt.ArrayLike, bits: RandomBits) -> FloatArray:
        """Release one value per answer from `bits`, in the shape of `answer`."""
        array = np.asarray(answer)
        steps = np.array([self.rounded(v) for v in array.ravel().tolist()], dtype=np.int64)
        drawn = self.law.finish(self.law.draw_raw(steps, bits))
        return np.array([float(int(k) * self.step) for k in drawn]).reshape(array.shape)

    def pmf(self, answer: Number) -> dict[float, Any]:
        """Return {output: probability} for one answer, in the domain's unit."""
        return {float(k * self.step): p for k, p in self.law.pmf(self.rounded(answer)).items()}

    def rounded(self, value: object) -> int:
        """Return the answer's grid point, rounded half up, inside the hull."""
        return grid_point(value, self.step, self.law.allowed.lower, self.law.allowed.upper)


def grid_point(
    value: object, step: Fraction, low: int, high: int, rounding: Fraction = Fraction(1, 2)
) -> int:
    """Return floor(value / step + rounding) in exact rationals, clamped to [low, high].

    Raises:
        ArgumentError: the value is NaN or not a number (DPR605); the message does not show it.
    """
    number = exact(value, "the answer")
    if not isinstance(number, Fraction):
        return high if number > 0 else low
    return min(max(math.floor(number / step + rounding), low), high)


class GridCurves(ABC):
    """The curves of a mechanism whose law is one on a grid."""

    __slots__ = ()

    domain: Domain

    @property
    @abstractmethod
    def _grid_law(self) -> UnitLaw:
        """The law, in the domain's unit."""

    def pmf(self, x: npt.ArrayLike, location: npt.ArrayLike) -> FloatArray:
        """Return P(Y = x), vectorised over `x` and `location` (broadcast); 0 off the grid."""
        return self._per_location(x, location, lambda v, law: law.get(v, 0))

    def cdf(self, x: npt.ArrayLike, location: npt.ArrayLike) -> FloatArray:
        """Return P(Y <= x), vectorised over `x` and `location`."""
        return self._per_location(
            x, location, lambda v, law: sum(p for y, p in law.items() if y <= v)
        )

    def mean(self, location: npt.ArrayLike) -> FloatArray:
        """Return the mean of the released value per location."""
        return self._per_location(0.0, location, lambda _, law: _mean(law))

    def variance(self, location: npt.ArrayLike) -> FloatArray:
        """Return the variance of the released value per location (unit squared)."""

        def variance(_: float, law: Mapping[float, Any]) -> Any:
            centre = _mean(law)
            return sum((Fraction(y) - centre) ** 2 * p for y, p in law.items())

        return self._per_location(0.0, location, variance)

    def _per_location(
        self,
        x: npt.ArrayLike,
        location: npt.ArrayLike,
        value: Callable[[float, Mapping[float, Any]], Any],
    ) -> FloatArray:
        unit, q = self._grid_law, check_locations(self.domain, location)
        points, at = np.broadcast_arrays(np.asarray(x, dtype=np.float64), q)
        laws = map(unit.pmf, at.ravel().tolist())
        found = [float(value(v, law)) for v, law in zip(points.ravel().tolist(), laws, strict=True)]
        return np.array(found).reshape(points.shape)


def _mean(law: Mapping[float, Any]) -> Any:
    return sum(Fraction(y) * p for y, p in law.items())


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
        ArgumentError: no sensitivity or epsilon is known (DPR686), the domain is infinite
            (DPR603), no grid point is allowed (DPR604), no law is admissible (DPR628), or the loss
            is unknown (DPR682).
    """
    size = positive(step, "step")
    if loss not in ("absolute", "squared"):
        raise ArgumentError(
            "loss is absolute or squared", fix='write loss="absolute"', code="DPR682"
        )
    if sensitivity is None or epsilon is None:
        raise built_from_scale()
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


def built_from_scale() -> ArgumentError:
    """Return the refusal of a grid law for a mechanism of which no loss is known."""
    return ArgumentError(
        "a grid law needs a sensitivity and an epsilon",
        why="this mechanism was built from its scale alone",
        fix="use .calibrate(...), or pass on_grid(step=..., sensitivity=...)",
        code="DPR686",
    )


def calibrated_with_delta() -> ArgumentError:
    """Return the refusal of a grid law for a mechanism whose loss is not pure."""
    return ArgumentError(
        "a grid law is purely private",
        why="this mechanism was calibrated with delta above 0",
        fix="calibrate with delta=0",
        code="DPR634",
    )


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
