"""What rectified Gaussian and stochastic sign draw from: a grid answer plus discrete Gaussian noise.

The answer is clamped to the hull, rounded to a public grid (R(q) = floor(q / step + shift), shift a
constant, moves by at most ceil(sensitivity / step) steps), noised with an exact discrete Gaussian,
and mapped by a fixed function of the noisy integer: post-processing.

Privacy. rho-zCDP with rho = ceil(sensitivity / step)^2 / (2 square), a rational number; `square`
is scale^2 in steps squared, rounded up (a step coarser than the scale means more noise).

Units    the domain's unit outside, grid steps inside.
Sources  `kernels/gaussian.py`; `docs/theory/domains-and-grids.md#rounding-to-a-grid`.
Limits   scalars. No pure guarantee, hence no member of `grid_laws`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.core.entropy import RandomBits, SystemBits
from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import Number, positive
from dprelease.mechanisms.arguments import IntArray
from dprelease.mechanisms.kernels.gaussian import DiscreteGaussianNoise
from dprelease.mechanisms.law import GridLaw, Unpriced
from dprelease.mechanisms.unit_law import grid_point

_LIMIT = 2**61


@dataclass(frozen=True, slots=True)
class GaussianRelease:
    """`finish(clamped grid answer + discrete Gaussian noise)`.

    Attributes:
        step: size of a grid step, in the domain's unit.
        low, high: the answers' hull in steps; `_LIMIT` of them where there is no end.
        rounding: 1/2 for grid points, 0 for cells [k step, (k + 1) step).
        finish: fixed map of noisy integers (steps) to released values (the domain's unit).
    """

    noise: DiscreteGaussianNoise
    step: Fraction
    low: int
    high: int
    rounding: Fraction
    finish: Callable[[IntArray], npt.NDArray[np.float64]]

    @classmethod
    def of_scale(
        cls,
        scale: float,
        step: Number,
        ends: tuple[Fraction | float, Fraction | float],
        finish: Callable[[IntArray, Fraction], npt.NDArray[np.float64]],
        *,
        rounding: Fraction = Fraction(1, 2),
    ) -> GaussianRelease:
        """Return the release whose noise has at least this scale.

        Raises:
            ArgumentError: a step below scale / 4096 (DPR624).
        """
        size = positive(step, "step")
        noise = DiscreteGaussianNoise(math.ceil((Fraction(scale) / size) ** 2))
        low, high = (grid_point(end, size, -_LIMIT, _LIMIT) for end in ends)
        return cls(noise, size, low, high, rounding, lambda raw: finish(raw, size))

    def rho(self, sensitivity: Number) -> Fraction:
        """Return the exact zCDP cost."""
        return self.noise.rho(math.ceil(positive(sensitivity, "sensitivity") / self.step))

    def draw(self, answer: npt.ArrayLike) -> Any:
        """Release one value or an array of values, with the operating system's randomness.

        `answer`: a number or an array of any shape, in the domain's unit; values outside the hull
        are clamped to it. Returns floats of the same shape.

        Raises:
            ArgumentError: an answer is NaN, infinite where there is no end, or not a number
                (DPR605, DPR606); the message does not show it.
        """
        array = np.asarray(answer)
        values = self.draw_with(array.ravel(), SystemBits()).reshape(array.shape)
        return float(values) if array.ndim == 0 else values

    def draw_with(self, answers: npt.NDArray[Any], bits: RandomBits) -> npt.NDArray[np.float64]:
        """Release one value per answer, shape `(groups,)`, from `bits`."""
        place = partial(
            grid_point, step=self.step, low=self.low, high=self.high, rounding=self.rounding
        )
        steps = np.array([*map(place, answers.tolist())], dtype=np.int64)
        return self.finish(steps + self.noise.sample(steps.size, bits))


class NoPureLaw(Unpriced):
    """A mechanism of normal noise among those that are priced for a pure loss: it offers nothing there."""

    __slots__ = ()

    family: ClassVar[str]

    @classmethod
    def grid_law_from_json(cls, value: dict[str, Any]) -> GridLaw:
        """Refuse: no law of this family is ever stored (DPR628)."""
        del value
        raise ArgumentError(
            f"`{cls.family}` has no purely private grid law",
            why="normal noise bounds no likelihood ratio",
            fix="use bounded_gaussian",
            code="DPR628",
        )
