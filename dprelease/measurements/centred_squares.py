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
from dprelease.measurements.base import Hull
from dprelease.measurements.candidate import Candidate, Pricing
from dprelease.measurements.cells import CellDraw, Cells, cells_text, ends_of_range
from dprelease.measurements.centred_sums import CentredDraw
from dprelease.measurements.draw import Ends, Objects
from dprelease.measurements.members import Member
from dprelease.measurements.price import cell_error
from dprelease.measurements.spread import spreads
from dprelease.mechanisms.forms.vector import CellNoise
from dprelease.sensitivity import Sensitivity


@dataclass(frozen=True, slots=True)
class PublicDraw(CentredDraw):
    """Integer cells of either sign beside a public number of rows: none of them is a size."""

    tag: ClassVar[str] = "centred_cells_of_n"

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.zeros(raw.shape[0], dtype=bool)


class CentredSquares(Cells):
    """A size, a sum and a sum of squares about the middle, of which mean and variance are functions."""

    family = "centred_squares"
    counting = "first"
    draws = ("centred_cells", "centred_cells_of_n")
    mechanisms = ("discrete_laplace",)
    sized = True
    shared = True
    way = "sums and squares about the middle of the range"

    def exact_ends(self, measurement: Measurement) -> Ends:
        return ends_of_range(measurement)

    def priced(self, asked: Pricing) -> list[Candidate]:
        """Return its noise for a variance that this may measure best (module docstring)."""
        measurement, s = asked.measurement, asked.sensitivity
        public = measurement.public_rows is not None
        inside = s.chain_length > s.changed_groups or public
        asks = any(m.aggregate.moment == 2 for m in asked.block.members)
        # at the worst answer, all rows at one end, a scatter has less error
        late = public and asked.judge == "worst"
        if not inside or not asks or late or asked.pin not in (None, *self.mechanisms):
            return []
        kind = PublicDraw if public else CentredDraw
        noise = CellNoise.calibrate(s.l1_over_groups, asked.epsilon)
        draw = kind(noise, len(measurement.cells), None, self.mechanisms[0])
        stated = tuple(self.errors(m, draw, asked) for m in asked.block.members)
        unknown = (None,) * len(stated)
        return [Candidate(measurement, draw, tuple(map(max, stated)), unknown, stated, self.way)]

    def errors(self, member: Member, draw: CellDraw, asked: Pricing) -> tuple[float, ...]:
        measurement = asked.measurement
        size = measurement.public_rows or asked.size

        def exact(mean: Floats, square: Floats) -> Floats:
            return _exact(measurement, size, mean, square)

        scale = draw.simulated_scale(asked.loss)
        return tuple(
            cell_error(member.aggregate, measurement, exact, scale, asked.loss, spread=spread)
            for (spread,) in spreads(member)
        )

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        return cells_text(best, s, member)

    def typical(self, best: Candidate, member: Member, size: int, *, narrow: bool) -> Floats:
        (spread,) = spreads(member)[-1 if narrow else 0]
        mean = np.array([0.5])
        size = best.measurement.public_rows or size
        return np.asarray(_exact(best.measurement, size, mean, mean * mean + spread**2)[0])

    def hulls(self, measurement: Measurement) -> tuple[Hull, ...]:
        low = measurement.offset
        return ((None, low, low + measurement.scale * measurement.step_size),)


def _exact(measurement: Measurement, size: int, mean: Floats, square: Floats) -> Floats:
    """Return the cells of `size` rows with this mean and mean square, as shares of the range."""
    unit = size * float(measurement.scale) ** 2
    sums, squares = 2 * mean - 1, 4 * square - 4 * mean + 1
    if measurement.public_rows is not None:
        return unit * np.stack([sums, squares], axis=1)
    return unit * np.stack([np.full_like(mean, 3.0), 4 * sums, 2 * (2 * squares - 1)], axis=1)
