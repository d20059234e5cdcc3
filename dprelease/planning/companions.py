"""Companions of a block's noisy cells: median-unbiased and unbiased cell values.

What each draw offers (the estimators are derived in `mechanisms.companion`):

    one integer through a grid law   both, or no unbiased one for truncated laws and tables
    counts of bins                   per bin: the raw count clipped; the raw count, tails averaged
    Gaussian scalars and bins        the raw value clipped; the raw value (symmetric noise)
    a mean after its size            a median at the released size; no unbiased one
    a public constant                itself
    joint cells, choices by rank     none per cell: means of joint cells have an estimate of their
                                     own (`aggregates.mean`), a choice has none

"Unbiased" means: for the statistic clamped to the range of the draw and rounded to its grid.

Units: those of `Draw.cells`. Shapes: raw and results `(groups, cells)`, NaN where there is none.
Functions of noisy integers alone: post-processing.
"""

from __future__ import annotations

import numpy as np

from dprelease.aggregates.base import Floats
from dprelease.mechanisms.companion import median_unbiased, unbiased, unclipped
from dprelease.planning.cell_draws import CellDraw, ConstantDraw, Draw, Objects, ScalarDraw
from dprelease.planning.gaussian_draw import GaussianDraw
from dprelease.planning.mean_draw import MeanDraw

__all__ = ["companion_cells"]


def companion_cells(draw: Draw, raw: Objects) -> tuple[Floats, Floats]:
    """Return (median-unbiased, unbiased) cell values."""
    none = np.full(raw.shape, np.nan)
    match draw:
        case ConstantDraw():
            return draw.cells(raw), draw.cells(raw)
        case ScalarDraw():
            steps = raw[:, 0].astype(np.int64)
            pair = median_unbiased(draw.law, steps), unbiased(draw.law, steps)
            num, den = draw.step.as_integer_ratio()
            middle, centre = (float(draw.origin) + k[:, None] * num / den for k in pair)
            return middle, centre
        case MeanDraw():
            return draw.median(raw), none
        case CellDraw(upper=int(top)):
            return draw.cells(raw), unclipped(raw.astype(np.float64), 0, top, draw.noise.noise.rate)
        case GaussianDraw(joint=False):
            num, den = draw.pitch.as_integer_ratio()
            return draw.cells(raw), float(draw.offset) + raw.astype(np.float64) * num / den
        case _:
            return none, none
