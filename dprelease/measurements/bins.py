"""One count per bin of a histogram: one row adds 1 to at most one of them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from dprelease.aggregates.base import Floats
from dprelease.aggregates.bin_moves import hold_every_code
from dprelease.aggregates.measurement import Measurement
from dprelease.measurements.balanced import BalancedDraw
from dprelease.measurements.base import Normal
from dprelease.measurements.candidate import Candidate, Pricing
from dprelease.measurements.cells import CellDraw, Cells
from dprelease.measurements.draw import Draw
from dprelease.measurements.gaussian import GaussianDraw, gaussian_text, rectified_errors
from dprelease.measurements.members import Loss, Member
from dprelease.mechanisms.forms.balanced import MOST_CELLS, BalancedNoise
from dprelease.mechanisms.forms.vector import GaussianCells
from dprelease.query.bounded import Fixed
from dprelease.schema.unit import Adjacency
from dprelease.sensitivity import Bounds, Sensitivity

__all__ = ["Bins", "Topped"]


class Topped(Cells):
    """Cells that are read one by one, each between 0 and a public top."""

    def upper(self, measurement: Measurement) -> int | None:
        return measurement.upper

    def errors(self, member: Member, draw: CellDraw, asked: Pricing) -> tuple[float, ...]:
        step_size = asked.measurement.step_size
        if asked.loss == "absolute":
            return (draw.noise.mean_abs() * float(step_size),)
        return (draw.noise.variance() * float(step_size**2),)


class Bins(Topped, Normal):
    """Counts of bins."""

    family = "bins"
    draws = ("balanced_cells", "cells", "gaussian")
    counts = True
    direct = True
    nowhere_negative = True

    def priced(self, asked: Pricing) -> list[Candidate]:
        """Return independent noise, and noise that adds up to zero where rows are replaced."""
        found, measurement, moved = Topped.priced(self, asked), asked.measurement, asked.sensitivity
        count, rows = len(measurement.cells), measurement.public_rows if moved.kept else None
        cells = count + (rows is None)  # the rows in no bin make a cell that is not published
        proved = moved.halves if rows is None else moved.kept
        fitted = asked.block.table is not None  # least squares take cells for independent
        if not found or fitted or not (proved and count > 1 and cells <= MOST_CELLS):
            return found
        noise = BalancedNoise.keeping(cells, moved.total, asked.epsilon)
        plain = found[0].draw
        draw = BalancedDraw(noise, count, measurement.upper, plain.mechanism, rows)
        stated = tuple(self.errors(m, draw, asked) for m in asked.block.members)
        others = "other bins" if rows is not None else "other bins and a hidden one"
        note = f"with the {others}: the noise of all adds up to zero"
        unknown = (None,) * len(stated)
        return [
            *found,
            Candidate(measurement, draw, tuple(map(max, stated)), unknown, stated, note),
        ]

    def sensitivity(
        self, measurement: Measurement, bounds: Bounds, adjacency: Adjacency, groups: int
    ) -> Sensitivity:
        """Return the sensitivity, with whether the bins hold every row of a public number."""
        found = Topped.sensitivity(self, measurement, bounds, adjacency, groups)
        return replace(found, kept=measurement.public_rows is not None and _every_row(measurement))

    def gaussian(self, measurement: Measurement, noise: GaussianCells) -> GaussianDraw:
        one, zero = Fraction(1), Fraction(0)
        return GaussianDraw(
            noise, len(measurement.cells), 0, measurement.upper, one, zero, joint=False
        )

    def gaussian_errors(
        self, member: Member, measurement: Measurement, draw: Draw, size: int, loss: Loss
    ) -> tuple[tuple[float, ...], float | None]:
        return rectified_errors(member, measurement, draw, loss)

    def notes(self, draw: Draw, measurement: Measurement, view: int | None) -> tuple[str, ...]:
        if not isinstance(draw, BalancedDraw):
            return ()
        if draw.rows is None:
            return (
                "what enters a bin leaves the others, or the rows in none: one noise is drawn for all, adding up to zero",
            )
        return (
            "the bins hold every row of a public number, so one noise is drawn for all, which adds up to zero",
        )

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        if best.draw.gaussian:
            return gaussian_text(best.draw, s, member)
        return f"{s.total} over all bins"

    def typical(self, best: Candidate, member: Member, size: int, *, narrow: bool) -> Floats:
        count = len(best.measurement.cells)
        return np.full(count, size / count)


def _every_row(measurement: Measurement) -> bool:
    """Return whether every code of the column lies in one of its bins."""
    code = measurement.measures[0].code
    if not isinstance(code, Fixed) or code.default is None:
        return False
    ends = min(0, code.default), max(code.grid.hull_steps, code.default)
    return hold_every_code(((m.low, m.high) for m in measurement.measures), ends)
