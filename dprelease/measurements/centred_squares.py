"""Rows, their sum and their squares about the middle of the range: variances where units are replaced.

A row that is exchanged moves the sum most where it crosses the range, and the squares least there; both
together move by 9/4 and not by 2 + 1. The noise of a variance about a mean in the middle is that of the squares
alone. So its error is about a quarter less than from Bernstein cells, and of a public number of rows often less
than from the scatter itself, whose one number moves by the whole range squared wherever the rows are.
Where units are only added or removed Bernstein cells are better, and this is not offered.

Units: grid steps; epsilon in nats. Shapes: exact and raw `(groups, 3)`, `(groups, 2)` of a public number of
rows; Python integers of either sign.
Source: `docs/theory/sensitivities-and-contribution-bounding.md#centred-squares`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.aggregates.base import Floats
from dprelease.aggregates.measurement import Measurement
from dprelease.measurements.candidate import Pricing
from dprelease.measurements.cells import CellDraw, Moments
from dprelease.measurements.centred_sums import CentredDraw
from dprelease.measurements.draw import Objects


@dataclass(frozen=True, slots=True)
class PublicDraw(CentredDraw):
    """Integer cells of either sign beside a public number of rows: none of them is a size."""

    tag: ClassVar[str] = "centred_cells_of_n"

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.zeros(raw.shape[0], dtype=bool)


class CentredSquares(Moments):
    """A size, a sum and a sum of squares about the middle, of which mean and variance are functions."""

    family = "centred_squares"
    counting = "first"
    draws = ("centred_cells", "centred_cells_of_n")
    mechanisms = ("discrete_laplace",)
    shared = True
    way = "sums and squares about the middle of the range"

    def serves(self, asked: Pricing) -> bool:
        """Return whether it may measure a variance best (module docstring)."""
        s, public = asked.sensitivity, asked.measurement.public_rows is not None
        asks = any(m.aggregate.moment == 2 for m in asked.block.members)
        # at the worst answer, all rows at one end, a scatter has less error
        late = public and asked.judge == "worst"
        return (s.chain_length > s.changed_groups or public) and asks and not late

    def drawn(self, measurement: Measurement) -> type[CellDraw]:
        return CentredDraw if measurement.public_rows is None else PublicDraw

    def exact(self, measurement: Measurement, size: int, mean: Floats, square: Floats) -> Floats:
        unit = (measurement.public_rows or size) * float(measurement.scale) ** 2
        sums, squares = 2 * mean - 1, 4 * square - 4 * mean + 1
        if measurement.public_rows is not None:
            return unit * np.stack([sums, squares], axis=1)
        return unit * np.stack([np.full_like(mean, 3.0), 4 * sums, 2 * (2 * squares - 1)], axis=1)
