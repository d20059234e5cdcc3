"""How the mean and the variance of a column are read from its cells, and a ratio of two columns from its own.

A mean or a ratio is offset + width t with t = S(u_i a_i) / S(v_i a_i) over cells a_i, public scores u_i and parts
v_i. A mean has t in [0, 1]; a ratio's domain is another stretch of that scale, which its measurement holds. One
object per family of cells says so. A family without one has the statistic itself as its last cell.

Shapes: cells `(groups, cells)`; results `(groups, 1)`, variances and t `(groups,)`.
Sources: `docs/theory/intervals.md#ratios`, `docs/theory/sensitivities-and-contribution-bounding.md#ratios-of-sums`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import cast

import numpy as np

from dprelease.core import registry
from dprelease.intervals.quotient import Ends, middle, ratio_interval
from dprelease.statistics import cells as read
from dprelease.statistics.base import Floats, Form, Reading, StatisticKind
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.pair_pivot import variance_interval as margin_interval
from dprelease.statistics.variance_pivot import mixed_interval, variance_interval


@dataclass(frozen=True, slots=True)
class QuotientCells:
    """Cells of which a quotient t of two sums is the mean of a column, in [0, 1].

    Attributes:
        scores, parts: what each cell adds to the quotient's numerator, and to its denominator.
    """

    scores: tuple[float, ...]
    parts: tuple[float, ...]

    def span(self, measurement: Measurement) -> tuple[float, float]:
        """Return where t lies."""
        del measurement
        return 0.0, 1.0

    def share(self, cells: Floats, span: Ends) -> Floats:
        """Return t within its span; the middle where no denominator is left."""
        # Column by column: numpy is slow at short rows, and BLAS rounds as its processor does.
        (low, high), columns = span, np.maximum(cells, self.least()).T
        top = np.asarray(sum(map(np.multiply, self.scores, columns)))
        total = np.asarray(sum(map(np.multiply, self.parts, columns)))
        t = np.divide(top, total, out=np.full_like(top, (low + high) / 2), where=total > 0)
        return np.asarray(np.clip(t, low, high))

    def interval(self, measurement: Measurement, reading: Reading) -> tuple[Floats, Floats]:
        """Return the interval of t, of the value of its span that is nearest to the exact quotient."""
        assert reading.scale is not None
        both = np.array([self.scores, self.parts])
        scores, parts = map(tuple, (both @ np.array(reading.mix) if reading.mix else both).tolist())
        return ratio_interval(
            reading.raw,
            scores,
            reading.scale,
            reading.level,
            parts=parts,
            copies=reading.copies,
            gaussian=reading.gaussian,
            span=self.span(measurement),
        )

    def least(self) -> Floats:
        """Return where each cell begins: one that is not part of the size may be negative."""
        return np.where(np.asarray(self.parts) > 0, 0.0, -np.inf)


class RatioCells(QuotientCells):
    """Cells that may all be negative, and whose quotient may lie beyond [0, 1]."""

    def span(self, measurement: Measurement) -> tuple[float, float]:
        domain = measurement.axes[1]
        width = measurement.scale * measurement.step_size
        low = (domain.offset - measurement.offset) / width
        return float(low), float(low + domain.width / width)

    def least(self) -> Floats:
        return np.full(len(self.parts), -np.inf)


class SquareCells(QuotientCells):
    """Three cells of a quadratic partition of unity: of one column, or margins of two columns' cells."""

    def variance(self, measurement: Measurement, cells: Floats) -> Floats:
        """Return the variance of t."""
        del measurement
        return read.bernstein_variance(cells)

    def variance_interval(
        self, measurement: Measurement, reading: Reading
    ) -> tuple[Floats, Floats]:
        del measurement
        raw, scale, level = reading.raw, reading.scale, reading.level
        assert scale is not None
        if reading.copies > 1:  # margins, which are never drawn with normal noise
            return margin_interval(raw, scale, level, reading.copies)
        return variance_interval(raw, scale, level, gaussian=reading.gaussian, own=reading.mix)

    def variance_box(
        self, measurement: Measurement, low: Floats, high: Floats
    ) -> tuple[Floats, Floats]:
        """Return the range of the variance over a box of cells."""
        del measurement
        return read.bernstein_variance_box(low, high)


class CentredSquareCells(SquareCells):
    """A size, a sum and a sum of squares about the middle of the range; the size may be public."""

    def _sums(self, measurement: Measurement, cells: Floats) -> Floats:
        return read.centred_squares_of(cells, _rows(measurement))

    def variance(self, measurement: Measurement, cells: Floats) -> Floats:
        return read.centred_variance(self._sums(measurement, cells))

    def variance_interval(
        self, measurement: Measurement, reading: Reading
    ) -> tuple[Floats, Floats]:
        assert reading.scale is not None
        return mixed_interval(reading.raw, reading.scale, reading.level, _rows(measurement))

    def variance_box(
        self, measurement: Measurement, low: Floats, high: Floats
    ) -> tuple[Floats, Floats]:
        return read.centred_variance_box(*(self._sums(measurement, c) for c in (low, high)))


def _rows(measurement: Measurement) -> float | None:
    """Return the public number of rows in steps of the sum about the middle, K^2 each."""
    n = measurement.public_rows
    return None if n is None else float(n * measurement.scale**2)


two_sums = QuotientCells((1.0, 0.0), (1.0, 1.0))
centred_sums = QuotientCells((0.5, 0.5), (1.0, 0.0))
centred_squares = CentredSquareCells((0.5, 0.375, 0.0), (1.0, 0.0, 0.0))
bernstein2 = SquareCells((0.0, 0.5, 1.0), (1.0, 1.0, 1.0))
ratio_sums = RatioCells((0.5, 0.5), (1.0, 0.0))
ratio_ends = RatioCells((1.0, 0.0), (1.0, 1.0))


@lru_cache(maxsize=64)
def cells_of(family: str) -> QuotientCells | None:
    """Return how a family's cells are read; None: their last one is the statistic."""
    known = family in registry.names("column_cells")
    return cast("QuotientCells", registry.load("column_cells", family)) if known else None


def squares_of(family: str) -> SquareCells | None:
    """Return how a variance is read from a family's cells; None: their last one is it."""
    found = cells_of(family)
    return found if isinstance(found, SquareCells) else None


def quotient_value(measurement: Measurement, t: Floats) -> Floats:
    """Return the statistic's unit for t, shape `(groups, 1)`."""
    width = float(measurement.scale * measurement.step_size)
    return np.asarray(float(measurement.offset) + width * t)[:, None]


class Quotient(StatisticKind):
    """A mean, or a ratio of two columns."""

    by_spread = False

    def finish(self, measurement: Measurement, cells: Floats) -> Floats:
        of = cells_of(measurement.family)
        return (
            cells[:, -1:]
            if of is None
            else quotient_value(measurement, of.share(cells, of.span(measurement)))
        )

    def interval(self, measurement: Measurement, reading: Reading) -> tuple[Floats, Floats]:
        of = cells_of(measurement.family)
        if of is None:
            return reading.low[:, -1:], reading.high[:, -1:]
        low, high = of.interval(measurement, reading)
        return quotient_value(measurement, low), quotient_value(measurement, high)

    def form(self, measurement: Measurement) -> tuple[Form, ...] | None:
        of = cells_of(measurement.family)
        if of is None:
            return (Form((Fraction(1),)),) if len(measurement.cells) == 1 else None
        width, parts = measurement.scale * measurement.step_size, tuple(map(Fraction, of.parts))
        pairs = zip(of.scores, parts, strict=True)
        top = tuple(measurement.offset * v + width * Fraction(u) for u, v in pairs)
        return (Form(top, parts),)

    def over_box(
        self, measurement: Measurement, low: Floats, high: Floats
    ) -> tuple[Floats, Floats]:
        """Return its range over a box of joint cells: at a corner, or everything at an empty one."""
        of = cells_of(measurement.family)
        if of is None:
            return low[:, -1:], high[:, -1:]
        scores, parts, ends = np.asarray(of.scores), np.asarray(of.parts), of.span(measurement)
        low, high = np.maximum(low, of.least()), np.maximum(high, of.least())
        most, least = np.full(low.shape[0], ends[0]), np.full(low.shape[0], ends[1])
        for corner in np.ndindex(*(2,) * scores.size):
            cells = np.where(np.array(corner) == 1, high, low)
            total = cells @ parts
            t = np.divide(cells @ scores, total, out=np.full_like(total, ends[0]), where=total > 0)
            most, least = np.maximum(most, t), np.minimum(least, t)
        most, least = np.clip(most, *ends), np.clip(least, *ends)
        empty = low @ parts <= 0
        low_end, high_end = np.where(empty, ends[0], least), np.where(empty, ends[1], most)
        return quotient_value(measurement, low_end), quotient_value(measurement, high_end)

    def estimate(self, measurement: Measurement, reading: Reading) -> Floats:
        """Return the median-unbiased value, NaN where no signal is left."""
        of = cells_of(measurement.family)
        if of is None:
            return np.full((reading.raw.shape[0], 1), np.nan)
        both = np.array([of.scores, of.parts])
        top, total = (both @ np.array(reading.mix) if reading.mix else both) @ reading.raw.T
        return quotient_value(measurement, middle(top, total, of.span(measurement)))
