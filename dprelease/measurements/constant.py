"""A public number: nothing is drawn, nothing is charged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.core.codec_notes import Note
from dprelease.core.entropy import RandomBits
from dprelease.measurements.base import MeasurementFamily
from dprelease.measurements.candidate import Candidate, Pricing
from dprelease.measurements.law import AddedNoise, Law, Objects, floats, underclaimed
from dprelease.measurements.members import Member
from dprelease.statistics.base import Floats
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import Sensitivity


@dataclass(frozen=True, slots=True)
class ConstantLaw(Law):
    """A public number; nothing is drawn."""

    tag: ClassVar[str] = "constant"

    value: int
    mechanism: Annotated[str, Note.unstored] = "public_constant"

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        if sensitivity.l1_over_groups != 0:
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


class Constant(MeasurementFamily):
    """A public number."""

    family = "constant"
    draws = ("constant",)
    free = True
    direct = True

    def takes(self, mechanism: str) -> bool:
        del mechanism  # nothing is drawn, so any pin is kept
        return True

    def priced(self, pricing: Pricing) -> list[Candidate]:
        exact = (0.0,) * len(pricing.block.members)
        return [
            Candidate(
                pricing.measurement, ConstantLaw(int(pricing.measurement.value)), exact, exact
            )
        ]

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        del best, s, member
        return "0: a public number"

    def typical(
        self, best: Candidate, member: Member, size: int, *, narrow: bool
    ) -> Sequence[float]:
        del member, size, narrow
        return (float(best.measurement.value),)

    def mute(self, law: Law, measurement: Measurement, size: int, *, view: int | None) -> bool:
        del law, measurement, size
        return False


family = Constant()
