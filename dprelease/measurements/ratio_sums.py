"""Two sums of one row's columns whose quotient is a ratio: noise of one scale on both.

`ratio_sums` is a denominator and a numerator about a guess, `ratio_ends` their sum and their difference: the first is
better where a row that is heavy in one is heavy in both, the second where the columns move by themselves
(`aggregates.ratio_sums`). The cells may have either sign.

Units: grid steps; epsilon in nats. Shapes: exact and raw `(groups, 2)`, Python integers.
Source: `docs/theory/sensitivities-and-contribution-bounding.md#ratios-of-sums`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.aggregates.base import Floats
from dprelease.aggregates.measurement import Measurement
from dprelease.aggregates.quotient import span_of
from dprelease.aggregates.sensitivity import Sensitivity
from dprelease.core.numeric import counted
from dprelease.measurements.candidate import Candidate, Pricing
from dprelease.measurements.cells import CellDraw, Cells
from dprelease.measurements.centred_sums import CentredDraw
from dprelease.measurements.draw import Ends, Objects
from dprelease.measurements.members import Member
from dprelease.measurements.of_weights import of_a_row
from dprelease.measurements.price import cell_error
from dprelease.query.bounded import Fixed


@dataclass(frozen=True, slots=True)
class EndsDraw(CentredDraw):
    """Two integer cells of either sign with independent discrete Laplace noise, together a size."""

    tag: ClassVar[str] = "ratio_ends"

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.asarray(raw.sum(axis=1) <= 0).astype(bool)


class RatioSums(Cells):
    """A denominator, and a numerator about a guess of the ratio."""

    family = "ratio_sums"
    draws = ("centred_cells",)
    mechanisms = ("discrete_laplace",)
    sized = True
    way = "the denominator, and the numerator about a guess"

    def exact_ends(self, measurement: Measurement) -> Ends:
        """Return everything: a plan does not hold which quotients rows allow."""
        del measurement
        return -math.inf, math.inf

    def drawn(self, measurement: Measurement) -> type[CellDraw]:
        return CentredDraw

    def errors(self, member: Member, draw: CellDraw, asked: Pricing) -> tuple[float, ...]:
        """Return one, averaged over numerators anywhere in their range."""
        measurement, size = asked.measurement, asked.size

        def exact(share: Floats, square: Floats) -> Floats:
            del square
            return self.exact(measurement, member, size, share)

        scale = draw.simulated_scale(asked.loss)
        return (cell_error(member.aggregate, measurement, exact, scale, asked.loss, far=True),)

    def exact(self, measurement: Measurement, member: Member, size: int, share: Floats) -> Floats:
        """Return the cells of rows whose numerator is this share of its range, their denominator its middle."""
        top, bottom = member.context.codes
        assert isinstance(top, Fixed)
        assert isinstance(bottom, Fixed)
        middle = float(bottom.step) * (bottom.grid.lower + bottom.grid.upper) / 2
        mean = float(top.step) * (top.grid.lower + share * top.grid.hull_steps)
        width = float(measurement.scale * measurement.step_size)
        t = np.clip((mean / middle - float(measurement.offset)) / width, *span_of(measurement))
        return self.split(size * of_a_row(measurement), t)

    def split(self, total: float, t: Floats) -> Floats:
        """Return the cells of a denominator and a quotient."""
        return total * np.stack([np.ones_like(t), 2 * t - 1], axis=1)

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        rows = s.l1_over_groups // best.measurement.l1_added_row
        spans = [
            f"{c.name} in {c.domain or '[0, 1]'}{f' {c.measure}' if c.measure else ''}"
            for c in member.context.columns
        ]
        return f"{counted(rows, 'row')} with {' and '.join(spans)}"

    def typical(self, best: Candidate, member: Member, size: int, *, narrow: bool) -> Floats:
        del narrow
        return np.asarray(self.exact(best.measurement, member, size, np.array([0.5]))[0])


class RatioEnds(RatioSums):
    """Their sum and their difference."""

    family = "ratio_ends"
    draws = ("ratio_ends",)
    way = "two multiples of the denominator, less and more the numerator"

    def drawn(self, measurement: Measurement) -> type[CellDraw]:
        return EndsDraw

    def split(self, total: float, t: Floats) -> Floats:
        return total * np.stack([t, 1 - t], axis=1)
