"""Non-negative integer cells with independent discrete Laplace noise.

Units: grid steps; epsilon in nats. Shapes: exact and raw `(groups, cells)`, Python integers.
Source: `docs/theory/certificates.md#additive-noise`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.aggregates.base import Floats
from dprelease.entropy import RandomBits
from dprelease.measurements.draw import RAW_LIMIT, AddedNoise, Draw, Objects, floats, underclaimed
from dprelease.mechanisms.companion import unclipped
from dprelease.mechanisms.forms.vector import CellNoise
from dprelease.numeric import whole_from_json
from dprelease.sensitivity import Sensitivity

__all__ = ["CellDraw"]


@dataclass(frozen=True, slots=True)
class CellDraw(Draw):
    """Non-negative integer cells with independent discrete Laplace noise, raised to 0 after."""

    tag: ClassVar[str] = "cells"

    noise: CellNoise
    count: int
    upper: int | None = None
    mechanism: str = "discrete_laplace"  # or "rectified_laplace": raised to 0, it is both

    @property
    def noise_scale(self) -> float | None:
        return float(self.noise.scale)

    @property
    def added(self) -> AddedNoise:
        return AddedNoise(self.noise.noise)

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        if self.noise.l1_shift < sensitivity.total:
            raise underclaimed("sensitivity")
        return self.noise.certify().epsilon_upper

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        noise = self.noise.sample(exact.size, bits).astype(object).reshape(exact.shape)
        return np.asarray(np.clip(exact + noise, -RAW_LIMIT, RAW_LIMIT))

    def _hull(self, values: Objects) -> Floats:
        upper = RAW_LIMIT if self.upper is None else self.upper
        return floats(np.clip(values, 0, upper))

    def cells(self, raw: Objects) -> Floats:
        return self._hull(raw)

    def box(self, raw: Objects, level: float) -> tuple[Floats, Floats]:
        share = 1 if self.upper is not None else self.count
        reach = self.noise.quantile(1 - (1 - level) / share)
        return self._hull(raw - reach), self._hull(raw + reach)

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.asarray((raw <= 0).all(axis=1)).astype(bool) & (self.upper is None)

    def drawable(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.ones(raw.shape[0], dtype=bool)  # noise reaches every integer

    @property
    def variance(self) -> float:
        return float(self.noise.variance())

    def companions(self, raw: Objects) -> tuple[Floats, Floats]:
        """Return, of counts with a public top, the raw one clipped and with its tails averaged."""
        if self.upper is None:
            return Draw.companions(self, raw)
        rate = self.noise.noise.rate
        return self.cells(raw), unclipped(raw.astype(np.float64), 0, self.upper, rate)

    def evidence(self) -> dict[str, Any]:
        return {"law": self.noise.certificate.to_json(), "groups_charged": 1}

    def to_json(self) -> dict[str, Any]:
        upper = None if self.upper is None else str(self.upper)
        return {
            "draw": self.tag,
            "law": self.noise.to_json(),
            "count": self.count,
            "upper": upper,
            "mechanism": self.mechanism,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> CellDraw:
        upper = value["upper"]
        return cls(
            CellNoise.from_json(value["law"]),
            whole_from_json(value["count"], least=1),
            None if upper is None else whole_from_json(upper),
            value["mechanism"],
        )
