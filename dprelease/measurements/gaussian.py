"""The draw of cells with discrete Gaussian noise, for releases with a delta.

Every cell of a block gets independent discrete Gaussian noise; afterwards values are raised into
the cells' public range (rectified: post-processing). One unit's L2 move over all cells and groups
together is `Sensitivity.square`, so one rho covers every way a unit can spread its rows
(`mechanisms.forms.vector`).

Units: grid steps; rho in nats. Shapes: exact and raw `(groups, cells)`, Python integers.
Sources: `docs/theory/sensitivities-and-contribution-bounding.md#l2-norms`,
`docs/theory/kernels-and-boundaries.md#discrete-gaussian`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.aggregates.base import Floats
from dprelease.budget.composition import Proof
from dprelease.entropy import RandomBits
from dprelease.measurements.draw import (
    RAW_LIMIT,
    AddedNoise,
    Draw,
    Objects,
    floats,
    placed,
    underclaimed,
)
from dprelease.mechanisms.forms.vector import GaussianCells
from dprelease.numeric import fraction_from_json, whole_from_json
from dprelease.sensitivity import Sensitivity

__all__ = ["GaussianDraw"]


@dataclass(frozen=True, slots=True)
class GaussianDraw(Draw):
    """Integer cells with discrete Gaussian noise, raised into [lower, upper] after.

    A cell c stands for `offset + pitch * c` (0 and 1 where aggregates read the cells themselves).
    `joint`: the cells are read together (two sums, Bernstein), so their box is simultaneous.
    """

    tag: ClassVar[str] = "gaussian"
    gaussian: ClassVar[bool] = True

    noise: GaussianCells
    count: int
    lower: int
    upper: int | None
    pitch: Fraction
    offset: Fraction
    joint: bool
    mechanism: str = "rectified_gaussian"

    @property
    def noise_scale(self) -> float | None:
        return self.noise.scale

    @property
    def added(self) -> AddedNoise:
        return AddedNoise(self.noise, self.pitch, self.offset)

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        """Refuse: normal noise has no pure loss; its cost is `rho`."""
        del sensitivity
        raise underclaimed("kind of loss")

    def rho(self, sensitivity: Sensitivity) -> Fraction:
        """Return the proved zCDP cost of the block; InternalError if it claims too little."""
        if sensitivity.square is None or self.noise.l2_square < sensitivity.square:
            raise underclaimed("sensitivity")
        if self.pitch <= 0:
            raise underclaimed("step")
        return self.noise.rho

    def proof(self, sensitivity: Sensitivity) -> Proof:
        return Proof(rho=self.rho(sensitivity))

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        noise = self.noise.sample(exact.size, bits).astype(object).reshape(exact.shape)
        return np.asarray(np.clip(exact + noise, -RAW_LIMIT, RAW_LIMIT))

    def _values(self, steps: Objects) -> Floats:
        upper = RAW_LIMIT if self.upper is None else self.upper
        values = floats(np.clip(steps, self.lower, upper))
        if self.pitch == 1 and self.offset == 0:
            return values
        return placed(values, self.pitch, self.offset)

    def cells(self, raw: Objects) -> Floats:
        return self._values(raw)

    def box(self, raw: Objects, level: float) -> tuple[Floats, Floats]:
        share = self.count if self.joint else 1
        reach = self.noise.quantile(1 - (1 - level) / share)
        return self._values(raw - reach), self._values(raw + reach)

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.asarray((raw <= 0).all(axis=1)).astype(bool) & self.joint

    def drawable(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.ones(raw.shape[0], dtype=bool)  # noise reaches every integer

    @property
    def variance(self) -> float:
        return float(self.noise.variance())

    def companions(self, raw: Objects) -> tuple[Floats, Floats]:
        """Return, of cells that are read one by one, the raw value clipped, and as it is."""
        if self.joint:
            return Draw.companions(self, raw)
        return self.cells(raw), placed(raw.astype(np.float64), self.pitch, self.offset)

    def evidence(self) -> dict[str, Any]:
        return {"law": self.noise.evidence(), "groups_charged": 1}

    def to_json(self) -> dict[str, Any]:
        return {
            "draw": self.tag,
            "law": self.noise.to_json(),
            "count": self.count,
            "lower": str(self.lower),
            "upper": None if self.upper is None else str(self.upper),
            "pitch": str(self.pitch),
            "offset": str(self.offset),
            "joint": self.joint,
            "mechanism": self.mechanism,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> GaussianDraw:
        upper = value["upper"]
        return cls(
            GaussianCells.from_json(value["law"]),
            whole_from_json(value["count"], least=1),
            whole_from_json(value["lower"]),
            None if upper is None else whole_from_json(upper),
            fraction_from_json(value["pitch"]),
            fraction_from_json(value["offset"]),
            bool(value["joint"]),
            value["mechanism"],
        )
