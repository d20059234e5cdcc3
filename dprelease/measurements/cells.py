"""Integer cells with independent discrete Laplace noise, nowhere negative or of either sign.

Units: grid steps; epsilon in nats. Shapes: exact and raw `(groups, cells)`, Python integers.
Source: `docs/theory/certificates.md#additive-noise`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.budget.composition import Proof
from dprelease.budget.exact_rho import rho_of_laplace
from dprelease.core.codec_notes import AtLeast, Digits, Note, StoredAs
from dprelease.measurements.law import (
    RAW_LIMIT,
    AddedNoise,
    AddsNoise,
    Law,
    Objects,
    floats,
    underclaimed,
)
from dprelease.measurements.members import Loss
from dprelease.mechanisms.companion import unclipped
from dprelease.mechanisms.forms.vector import CellNoise
from dprelease.statistics.base import Floats
from dprelease.statistics.sensitivity import Sensitivity


@dataclass(frozen=True, slots=True)
class CellLaw(AddsNoise):
    """Non-negative integer cells with independent discrete Laplace noise, raised to 0 after."""

    tag: ClassVar[str] = "cells"

    noise: Annotated[CellNoise, StoredAs("law")]
    count: Annotated[int, AtLeast(1)]
    upper: Annotated[Digits | None, Note.always] = None
    mechanism: Annotated[str, Note.always] = (
        "discrete_laplace"  # or "rectified_laplace": raised to 0, it is both
    )

    @property
    def slope(self) -> Fraction | None:
        return self.noise.noise.rate

    @property
    def added(self) -> AddedNoise | None:
        return AddedNoise(self.noise.noise.fitted)

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        if self.noise.l1_sensitivity < sensitivity.l1_over_groups:
            raise underclaimed("sensitivity")
        return self.noise.certify().epsilon_upper

    def proof(self, sensitivity: Sensitivity) -> Proof:
        """Return one loss, and the rho of moves that no unit can make all on one cell."""
        plain = Law.proof(self, sensitivity)
        # No cell moves by more than its group.
        square = sensitivity.l1_over_groups * sensitivity.l1_per_group
        if sensitivity.l2_squared is not None:
            square = min(square, sensitivity.l2_squared)
        return replace(
            plain, tight=rho_of_laplace(self.noise.noise.rate, sensitivity.l1_over_groups, square)
        )

    def _hull(self, values: Objects) -> Floats:
        upper = RAW_LIMIT if self.upper is None else self.upper
        return floats(np.clip(values, 0, upper))

    def cells(self, raw: Objects) -> Floats:
        return self._hull(raw)

    def box(self, raw: Objects, level: float) -> tuple[Floats, Floats]:
        share = 1 if self.upper is not None else self.count
        half = self.noise.quantile(1 - (1 - level) / share)
        raw = np.clip(raw, 0, self.upper)  # nearer to every answer, and never a point
        return self._hull(raw - half), self._hull(raw + half)

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.asarray((raw <= 0).all(axis=1)).astype(bool) & (self.upper is None)

    def simulated_scale(self, loss: Loss) -> float:
        """Return the scale of continuous noise with this one's mean error: prices simulate that."""
        if loss == "absolute":
            return self.noise.mean_abs()
        return math.sqrt(self.noise.variance() / 2)

    def companions(self, raw: Objects) -> tuple[Floats, Floats]:
        """Return, of counts with a public top, the raw one clipped and with its tails averaged."""
        if self.upper is None:
            return Law.companions(self, raw)
        rate = self.noise.noise.rate
        return self.cells(raw), unclipped(raw.astype(np.float64), 0, self.upper, rate)

    def evidence(self) -> dict[str, Any]:
        return {"law": self.noise.certificate.to_json(), "groups_charged": 1}


@dataclass(frozen=True, slots=True)
class CentredLaw(CellLaw):
    """Integer cells of either sign with independent discrete Laplace noise, the first one a size."""

    tag: ClassVar[str] = "centred_cells"

    def _hull(self, values: Objects) -> Floats:
        return floats(values)

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.asarray(raw[:, 0] <= 0).astype(bool)


@dataclass(frozen=True, slots=True)
class PublicLaw(CentredLaw):
    """Integer cells of either sign beside a public number of rows: none of them is a size."""

    tag: ClassVar[str] = "centred_cells_of_n"

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.zeros(raw.shape[0], dtype=bool)


@dataclass(frozen=True, slots=True)
class EndsLaw(CentredLaw):
    """Two integer cells of either sign with independent discrete Laplace noise, together a size."""

    tag: ClassVar[str] = "ratio_ends"

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.asarray(raw.sum(axis=1) <= 0).astype(bool)
