"""K S(1) and S(2 code - K): rows, and twice their sum about the middle of the range.

For means of a private number of rows where units are replaced: a row that is exchanged moves the second
cell only, by at most 2 K, and one that comes or goes moves both, by K and at most K. So both cells have the
noise of one that moves by 2 K, and the mean, half the quotient from the middle, has about a quarter less
error than the shares of two sums, whose cells are moved both at once. Where units are only added or removed
two sums are better, and this is not offered.

Units: grid steps; epsilon in nats. Shapes: exact and raw `(groups, 2)`, Python integers; the second cell may
be negative. Of weighted rows both cells have the weight as a factor, and move as far as the heaviest row.
Source: `docs/theory/sensitivities-and-contribution-bounding.md#centred-sums`, `#weighted-sums`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.aggregates.base import Floats
from dprelease.aggregates.measurement import Measurement
from dprelease.measurements.base import Moved
from dprelease.measurements.candidate import Candidate, Option, Pricing
from dprelease.measurements.cells import CellDraw, Cells, cells_text, ends_of_range
from dprelease.measurements.draw import Ends, Objects, floats
from dprelease.measurements.members import Member
from dprelease.measurements.of_weights import beside_weights, of_a_row
from dprelease.measurements.price import cell_error
from dprelease.mechanisms.forms.vector import CellNoise
from dprelease.sensitivity import Sensitivity


@dataclass(frozen=True, slots=True)
class CentredDraw(CellDraw):
    """Integer cells of either sign with independent discrete Laplace noise, the first one a size."""

    tag: ClassVar[str] = "centred_cells"

    def _hull(self, values: Objects) -> Floats:
        return floats(values)

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.asarray(raw[:, 0] <= 0).astype(bool)


class CentredSums(Cells):
    """A size and a sum about the middle, whose quotient is a mean."""

    family = "centred_sums"
    counting = "first"
    draws = ("centred_cells",)
    mechanisms = ("discrete_laplace",)
    sized = True
    way = "rows, and their sum about the middle of the range"

    def exact_ends(self, measurement: Measurement) -> Ends:
        return ends_of_range(measurement)

    def priced(self, asked: Pricing) -> list[Candidate]:
        """Return its noise where a unit may change inside a group (more moves than groups)."""
        if asked.sensitivity.chain_length <= asked.sensitivity.changed_groups or asked.pin not in (
            None,
            *self.mechanisms,
        ):
            return []
        measurement = asked.measurement
        noise = CellNoise.calibrate(asked.sensitivity.l1_over_groups, asked.epsilon)
        draw = CentredDraw(noise, len(measurement.cells), None, self.mechanisms[0])
        stated = tuple(self.errors(m, draw, asked) for m in asked.block.members)
        unknown = (None,) * len(stated)
        return [Candidate(measurement, draw, tuple(map(max, stated)), unknown, stated, self.way)]

    def errors(self, member: Member, draw: CellDraw, asked: Pricing) -> tuple[float, ...]:
        """Return one: the noise of a mean is the same for all rows of one mean."""
        measurement, size = asked.measurement, asked.size

        def exact(mean: Floats, square: Floats) -> Floats:
            del square
            return _exact(measurement, size, mean)

        scale = draw.simulated_scale(asked.loss)
        return (cell_error(member.aggregate, measurement, exact, scale, asked.loss),)

    def beside(self, member: Member, best: Candidate, asked: Pricing, moved: Moved) -> list[Option]:
        del moved
        return beside_weights(self, member, best, asked)

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        return cells_text(best, s, member)

    def typical(self, best: Candidate, member: Member, size: int, *, narrow: bool) -> Floats:
        del member, narrow
        return np.asarray(_exact(best.measurement, size, np.array([0.5]))[0])


def _exact(measurement: Measurement, size: int, mean: Floats) -> Floats:
    """Return the cells of `size` rows whose mean, as a share of the range, is this."""
    k = of_a_row(measurement)
    return size * k * np.stack([np.ones_like(mean), 2 * mean - 1], axis=1)
