"""Non-negative integer cells with independent discrete Laplace noise.

Units: grid steps; epsilon in nats. Shapes: exact and raw `(groups, cells)`, Python integers.
Source: `docs/theory/certificates.md#additive-noise`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.aggregates.base import Floats
from dprelease.aggregates.measurement import Measurement
from dprelease.aggregates.sensitivity import Sensitivity
from dprelease.budget.composition import Proof
from dprelease.budget.exact_rho import rho_of_laplace
from dprelease.core.codec_notes import Always, AtLeast, Digits, StoredAs
from dprelease.core.entropy import RandomBits
from dprelease.core.numeric import counted, shown
from dprelease.measurements.base import Hull, MeasurementFamily, Moved, Normal
from dprelease.measurements.candidate import Candidate, Option, Pricing
from dprelease.measurements.draw import (
    RAW_LIMIT,
    AddedNoise,
    Draw,
    Ends,
    Objects,
    floats,
    underclaimed,
)
from dprelease.measurements.gaussian import NAME, GaussianDraw
from dprelease.measurements.members import Loss, Member
from dprelease.measurements.of_weights import beside_weights
from dprelease.measurements.price import cell_error
from dprelease.measurements.spread import Spread, spreads
from dprelease.mechanisms.companion import unclipped
from dprelease.mechanisms.forms.vector import CellNoise, GaussianCells


@dataclass(frozen=True, slots=True)
class CellDraw(Draw):
    """Non-negative integer cells with independent discrete Laplace noise, raised to 0 after."""

    tag: ClassVar[str] = "cells"

    noise: Annotated[CellNoise, StoredAs("law")]
    count: Annotated[int, AtLeast(1)]
    upper: Annotated[Digits | None, Always()] = None
    mechanism: Annotated[str, Always()] = (
        "discrete_laplace"  # or "rectified_laplace": raised to 0, it is both
    )

    @property
    def noise_scale(self) -> float | None:
        return float(self.noise.scale)

    @property
    def added(self) -> AddedNoise | None:
        return AddedNoise(self.noise.noise.fitted)

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        if self.noise.l1_sensitivity < sensitivity.l1_over_groups:
            raise underclaimed("sensitivity")
        return self.noise.certify().epsilon_upper

    def proof(self, sensitivity: Sensitivity) -> Proof:
        """Return one loss, and the rho of moves that no unit can make all on one cell."""
        plain = Draw.proof(self, sensitivity)
        # No cell moves by more than its group.
        square = sensitivity.l1_over_groups * sensitivity.l1_per_group
        if sensitivity.l2_squared is not None:
            square = min(square, sensitivity.l2_squared)
        return replace(
            plain, tight=rho_of_laplace(self.noise.noise.rate, sensitivity.l1_over_groups, square)
        )

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
        half = self.noise.noise.fitted.quantile(1 - (1 - level) / share)
        return self._hull(raw - half), self._hull(raw + half)

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.asarray((raw <= 0).all(axis=1)).astype(bool) & (self.upper is None)

    def drawable(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.ones(raw.shape[0], dtype=bool)  # noise reaches every integer

    @property
    def variance(self) -> float:
        return float(self.noise.variance())

    def simulated_scale(self, loss: Loss) -> float:
        """Return the scale of continuous noise with this one's mean error: prices simulate that."""
        if loss == "absolute":
            return self.noise.mean_abs()
        return math.sqrt(self.noise.variance() / 2)

    def companions(self, raw: Objects) -> tuple[Floats, Floats]:
        """Return, of counts with a public top, the raw one clipped and with its tails averaged."""
        if self.upper is None:
            return Draw.companions(self, raw)
        rate = self.noise.noise.rate
        return self.cells(raw), unclipped(raw.astype(np.float64), 0, self.upper, rate)

    def evidence(self) -> dict[str, Any]:
        return {"law": self.noise.certificate.to_json(), "groups_charged": 1}


class Cells(MeasurementFamily):
    """Several integer cells with independent noise, from which statistics are computed."""

    draws: ClassVar[tuple[str, ...]] = ("cells",)
    mechanisms: ClassVar[tuple[str, ...]] = (
        "discrete_laplace",
        "rectified_gaussian",
        "rectified_laplace",
    )
    point_masses = True
    way: ClassVar[str] = ""

    def priced(self, asked: Pricing) -> list[Candidate]:
        """Return its noise; normal noise has no pure loss, and `measurements.gaussian` prices it."""
        if asked.pin == NAME or asked.pin not in (None, *self.mechanisms) or not self.serves(asked):
            return []
        noise = CellNoise.calibrate(asked.sensitivity.l1_over_groups, asked.epsilon)
        measurement, name = asked.measurement, asked.pin or self.mechanisms[0]
        kind = self.drawn(measurement)
        draw = kind(noise, len(measurement.cells), self.upper(measurement), name)
        stated = tuple(self.errors(m, draw, asked) for m in asked.block.members)
        unknown = (None,) * len(stated)
        return [Candidate(measurement, draw, tuple(map(max, stated)), unknown, stated, self.way)]

    def serves(self, asked: Pricing) -> bool:
        """Return whether it may be the best way to draw what is asked for."""
        del asked
        return True

    def drawn(self, measurement: Measurement) -> type[CellDraw]:
        """Return the class of its draws."""
        del measurement
        return CellDraw

    def upper(self, measurement: Measurement) -> int | None:
        """Return the public top of every cell, where cells are read one by one."""
        del measurement
        return None

    @abstractmethod
    def errors(self, member: Member, draw: CellDraw, asked: Pricing) -> tuple[float, ...]:
        """Return the expected errors of a statistic, one per spread of its rows that matters."""


class Moments(Cells):
    """Cells of one column that are read together, of which its mean and its variance are functions."""

    sized = True

    def exact_ends(self, measurement: Measurement) -> Ends:
        """Return where a statistic of one row's values lies: in the range of the values."""
        start = measurement.offset
        return start, start + measurement.step_size * measurement.scale

    @abstractmethod
    def exact(self, measurement: Measurement, size: int, mean: Floats, square: Floats) -> Floats:
        """Return the exact cells of `size` rows whose mean and mean square, as shares, are these."""

    def looked(self, member: Member) -> tuple[Spread, ...]:
        """Return the spreads at which the error is stated."""
        return spreads(member)

    def errors(self, member: Member, draw: CellDraw, asked: Pricing) -> tuple[float, ...]:
        scale = draw.simulated_scale(asked.loss)
        return self.simulated(member, asked.measurement, scale, asked.size, asked.loss)

    def simulated(
        self,
        member: Member,
        measurement: Measurement,
        scale: float,
        size: int,
        loss: Loss,
        *,
        gaussian: bool = False,
    ) -> tuple[float, ...]:
        """Return the expected errors under noise of `scale` steps, one per spread."""
        exact = partial(self.exact, measurement, size)
        return tuple(
            cell_error(
                member.aggregate, measurement, exact, scale, loss, spread=spread, gaussian=gaussian
            )
            for (spread,) in self.looked(member)
        )

    def beside(self, member: Member, best: Candidate, asked: Pricing, moved: Moved) -> list[Option]:
        del moved
        return beside_weights(self, member, best, asked)

    def hulls(self, measurement: Measurement) -> tuple[Hull, ...]:
        """Return its column, where it is shared: a mean and a variance are of the same rows then."""
        low = measurement.offset
        ends = low, low + measurement.scale * measurement.step_size
        return ((None, *ends),) if self.shared else ()

    def typical(self, best: Candidate, member: Member, size: int, *, narrow: bool) -> Floats:
        (spread,) = spreads(member)[-1 if narrow else 0]
        mean = np.array([0.5])
        cells = self.exact(best.measurement, size, mean, mean * mean + spread**2)
        return np.asarray(cells[0])

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        """Return the sensitivity in words: rows of the column's range."""
        rows = s.l1_over_groups // best.measurement.l1_added_row
        column, weight = member.statistic.column, member.statistic.weight
        unit = f" {column.measure}" if column and column.measure else ""
        heavy = "" if weight is None else f" of weight {shown(weight.most * weight.step)}"
        return f"{counted(rows, 'row')}{heavy} in {member.context.hull}{unit}"


class Partition(Moments, Normal):
    """Cells of one column that are nowhere negative: every row adds as much to all together."""

    draws = ("cells", "gaussian")
    nowhere_negative = True
    counting = "all"

    def gaussian(self, measurement: Measurement, noise: GaussianCells) -> GaussianDraw:
        one, zero = Fraction(1), Fraction(0)
        return GaussianDraw(noise, len(measurement.cells), 0, None, one, zero, joint=True)

    def gaussian_errors(
        self, member: Member, measurement: Measurement, draw: Draw, size: int, loss: Loss
    ) -> tuple[tuple[float, ...], float | None]:
        """Return them; the worst is unknown for ratios of cells."""
        assert isinstance(draw, GaussianDraw)
        scale = draw.noise.scale
        return self.simulated(member, measurement, scale, size, loss, gaussian=True), None
