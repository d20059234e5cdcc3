"""One count per bin of a histogram: one row adds 1 to at most one of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dprelease.aggregates.base import Floats
from dprelease.aggregates.encoding import Encoding
from dprelease.measurements.base import Normal
from dprelease.measurements.candidate import Candidate, Pricing
from dprelease.measurements.cells import CellDraw, Cells
from dprelease.measurements.draw import Draw
from dprelease.measurements.gaussian import GaussianDraw, gaussian_text, rectified_errors
from dprelease.measurements.members import Loss, Member
from dprelease.mechanisms.forms.vector import GaussianCells
from dprelease.sensitivity import Sensitivity

__all__ = ["Bins", "Topped"]


class Topped(Cells):
    """Cells that are read one by one, each between 0 and a public top."""

    def upper(self, encoding: Encoding) -> int | None:
        return encoding.upper

    def errors(self, member: Member, draw: CellDraw, asked: Pricing) -> tuple[float, ...]:
        pitch = asked.encoding.pitch
        if asked.loss == "absolute":
            return (draw.noise.mean_abs() * float(pitch),)
        return (draw.noise.variance() * float(pitch**2),)


class Bins(Topped, Normal):
    """Counts of bins."""

    family = "bins"
    draws = ("cells", "gaussian")
    counts = True
    direct = True
    nowhere_negative = True

    def gaussian(self, encoding: Encoding, noise: GaussianCells) -> GaussianDraw:
        one, zero = Fraction(1), Fraction(0)
        return GaussianDraw(noise, len(encoding.cells), 0, encoding.upper, one, zero, joint=False)

    def gaussian_errors(
        self, member: Member, encoding: Encoding, draw: Draw, size: int, loss: Loss
    ) -> tuple[tuple[float, ...], float | None]:
        return rectified_errors(member, encoding, draw, loss)

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        if best.draw.gaussian:
            return gaussian_text(best.draw, s, member)
        return f"{s.total} over all bins"

    def typical(self, best: Candidate, member: Member, size: int, *, narrow: bool) -> Floats:
        count = len(best.encoding.cells)
        return np.full(count, size / count)
