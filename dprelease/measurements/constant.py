"""A public number: nothing is drawn, nothing is charged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.aggregates.base import Floats
from dprelease.entropy import RandomBits
from dprelease.measurements.draw import AddedNoise, Draw, Objects, floats, underclaimed
from dprelease.numeric import whole_from_json
from dprelease.sensitivity import Sensitivity

__all__ = ["ConstantDraw"]


@dataclass(frozen=True, slots=True)
class ConstantDraw(Draw):
    """A public number; nothing is drawn."""

    tag: ClassVar[str] = "constant"

    value: int
    mechanism: str = "public_constant"

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        if sensitivity.total != 0:
            raise underclaimed("sensitivity")
        return Fraction(0)

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        del bits  # nothing is drawn
        return np.full((exact.shape[0], 1), self.value, dtype=object)

    def cells(self, raw: Objects) -> Floats:
        return floats(raw)

    def box(self, raw: Objects, level: float) -> tuple[Floats, Floats]:
        del level  # it is exact
        return floats(raw), floats(raw)

    def drawable(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.asarray(raw[:, 0] == self.value, dtype=bool)

    @property
    def added(self) -> AddedNoise:
        return AddedNoise(None)

    @property
    def variance(self) -> float:
        return 0.0

    def companions(self, raw: Objects) -> tuple[Floats, Floats]:
        return self.cells(raw), self.cells(raw)

    def evidence(self) -> dict[str, Any]:
        return {"method": "a public constant"}

    def to_json(self) -> dict[str, Any]:
        return {"draw": self.tag, "value": self.value}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ConstantDraw:
        return cls(whole_from_json(value["value"]))
