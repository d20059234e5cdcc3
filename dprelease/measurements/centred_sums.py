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
from dprelease.measurements.candidate import Pricing
from dprelease.measurements.cells import CellDraw, Moments
from dprelease.measurements.draw import Objects, floats
from dprelease.measurements.members import Member
from dprelease.measurements.of_weights import of_a_row
from dprelease.measurements.spread import Spread


@dataclass(frozen=True, slots=True)
class CentredDraw(CellDraw):
    """Integer cells of either sign with independent discrete Laplace noise, the first one a size."""

    tag: ClassVar[str] = "centred_cells"

    def _hull(self, values: Objects) -> Floats:
        return floats(values)

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.asarray(raw[:, 0] <= 0).astype(bool)


class CentredSums(Moments):
    """A size and a sum about the middle, whose quotient is a mean."""

    family = "centred_sums"
    counting = "first"
    draws = ("centred_cells",)
    mechanisms = ("discrete_laplace",)
    way = "rows, and their sum about the middle of the range"

    def serves(self, asked: Pricing) -> bool:
        """Return whether a unit may change inside a group (more moves than groups)."""
        return asked.sensitivity.chain_length > asked.sensitivity.changed_groups

    def drawn(self, measurement: Measurement) -> type[CellDraw]:
        return CentredDraw

    def exact(self, measurement: Measurement, size: int, mean: Floats, square: Floats) -> Floats:
        k = of_a_row(measurement)
        return size * k * np.stack([np.ones_like(mean), 2 * mean - 1], axis=1)

    def looked(self, member: Member) -> tuple[Spread, ...]:
        """Return one: the noise of a mean is the same for all rows of one mean."""
        return super().looked(member)[:1]
