"""The law of a point in a box: an independent table per side, in the box's unit.

A coordinate is clamped to its side's hull, rounded to the side's grid, and drawn from the side's table. What
the draws cost together is proved elsewhere: each subclass adds its proof (`certifiers/box_gaussian.py`).

Units    the box's unit outside, grid steps inside.
Sources  `docs/theory/certificates.md#boxes`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.core.codec import Stored
from dprelease.core.entropy import RandomBits, SystemBits
from dprelease.mechanisms.arguments import coordinates
from dprelease.mechanisms.forms.table import TableLaw
from dprelease.mechanisms.unit_law import UnitLaw


@dataclass(frozen=True, slots=True)
class BoxLaw(Stored, ABC):
    """One point per row: its sampler, its variance and its JSON.

    Attributes:
        laws: one table per side.
        steps: size of a grid step per side.
    """

    kind: ClassVar[str] = "box"

    laws: Sequence[TableLaw]
    steps: tuple[Fraction, ...]

    @property
    def scales(self) -> tuple[float, ...]:
        """One scale per side, in the box's unit."""
        return tuple(law.scale * float(g) for law, g in zip(self.laws, self.steps, strict=True))

    def variance(self, answer: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the variance of each coordinate of one point's release, in the box's unit squared.

        Of the integers that are drawn from, rounding of the answer included: beside the continuous
        mechanism's `variance` it says what the grid costs.
        """
        out = []
        sides = zip(np.asarray(answer).tolist(), self.laws, self.steps, strict=True)
        for value, law, step in sides:
            chances = law.pmf(UnitLaw(law, step).rounded(value))
            k = np.array(list(chances), dtype=np.float64)
            weights = np.array([float(c) for c in chances.values()])
            weights /= weights.sum()
            mean = k @ weights
            out.append(float(step) ** 2 * float((k - mean) ** 2 @ weights))
        return np.array(out)

    def draw(self, answer: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Release points, with the operating system's randomness; shape `(..., sides)`.

        Raises:
            ArgumentError: the last axis is not the box's (DPR637), or an answer is NaN (DPR605).
        """
        return self.draw_with(answer, SystemBits())

    def draw_with(self, answer: npt.ArrayLike, bits: RandomBits) -> npt.NDArray[np.float64]:
        """Release points from `bits`; shape `(..., sides)`."""
        columns = coordinates(np.asarray(answer), len(self.laws))
        sides = zip(self.laws, self.steps, columns, strict=True)
        drawn = [UnitLaw(law, step).draw_with(column, bits) for law, step, column in sides]
        return np.stack(drawn, axis=-1)
