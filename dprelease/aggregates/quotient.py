"""Statistics that are a quotient of noisy cells: value, interval, median-unbiased estimate, range over a box.

A statistic is offset + width t with t = S(u_i a_i) / S(v_i a_i) over cells a_i, public scores u_i and parts v_i. A
mean has t in [0, 1]; a ratio's domain is another stretch of that scale, which its measurement holds (`span_of`).

Shapes: cells `(groups, cells)`; results `(groups, 1)`.
Sources: `docs/theory/intervals.md#ratios`, `docs/theory/sensitivities-and-contribution-bounding.md#ratios-of-sums`.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dprelease.aggregates.base import Aggregate, Floats, Form, Reading
from dprelease.aggregates.measurement import Measurement
from dprelease.aggregates.pivot import ratio_interval
from dprelease.intervals.few import sum_quantile

RATIOS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "two_sums": ((1.0, 0.0), (1.0, 1.0)),
    "bernstein2": ((0.0, 0.5, 1.0), (1.0, 1.0, 1.0)),
    "centred_sums": ((0.5, 0.5), (1.0, 0.0)),
    "centred_squares": ((0.5, 0.375, 0.0), (1.0, 0.0, 0.0)),
    "ratio_sums": ((0.5, 0.5), (1.0, 0.0)),
    "ratio_ends": ((1.0, 0.0), (1.0, 1.0)),
}
"""What each cell adds to the quotient's numerator, and to its denominator."""

_OF_RATIOS = ("ratio_sums", "ratio_ends")
"""Families whose cells may all be negative, and whose quotient may lie beyond [0, 1]."""


def span_of(measurement: Measurement) -> tuple[float, float]:
    """Return where t lies: [0, 1], or a ratio's domain on that scale."""
    if measurement.family not in _OF_RATIOS:
        return 0.0, 1.0
    domain = measurement.axes[1]
    width = measurement.scale * measurement.step_size
    low = (domain.offset - measurement.offset) / width
    return float(low), float(low + domain.width / width)


def quotient_value(measurement: Measurement, t: Floats) -> Floats:
    """Return the statistic's unit for t, shape `(groups, 1)`."""
    width = float(measurement.scale * measurement.step_size)
    return np.asarray(float(measurement.offset) + width * t)[:, None]


class Quotient(Aggregate):
    """A quotient of the cells of the families in `RATIOS`."""

    by_spread = False

    def finish(self, measurement: Measurement, cells: Floats) -> Floats:
        """Return the quotient within its span; its middle where no denominator is left."""
        top, total = (cells @ np.asarray(part) for part in RATIOS[measurement.family])
        low, high = span_of(measurement)
        t = np.divide(top, total, out=np.full_like(top, (low + high) / 2), where=total > 0)
        return quotient_value(measurement, np.clip(t, low, high))

    def interval(self, measurement: Measurement, reading: Reading) -> tuple[Floats, Floats]:
        scores, parts = RATIOS[measurement.family]
        assert reading.scale is not None
        used = len(scores) - (measurement.family == "centred_squares")  # no square is in it
        span = span_of(measurement)
        low, high = ratio_interval(
            reading.raw[:, :used],
            scores[:used],
            reading.scale,
            reading.level,
            parts=parts[:used],
            copies=reading.copies,
            gaussian=reading.gaussian,
            span=span,
        )
        if measurement.family in _OF_RATIOS:
            # Where the noise may have made up all of the denominator, values beyond a declared domain's
            # end are as possible as those within: only the whole domain is sure to hold the nearest one.
            half = reading.scale * sum_quantile(parts, reading.level) + sum(parts)
            unknown = np.abs(reading.raw @ np.asarray(parts)) <= half
            low, high = np.where(unknown, span[0], low), np.where(unknown, span[1], high)
        return quotient_value(measurement, low), quotient_value(measurement, high)

    def form(self, measurement: Measurement) -> tuple[Form, ...] | None:
        ratio = RATIOS.get(measurement.family)
        if ratio is None:
            return (Form((Fraction(1),)),) if measurement.family == "scalar" else None
        width, parts = measurement.scale * measurement.step_size, tuple(map(Fraction, ratio[1]))
        pairs = zip(ratio[0], parts, strict=True)
        top = tuple(measurement.offset * v + width * Fraction(u) for u, v in pairs)
        return (Form(top, parts),)

    def over_box(
        self, measurement: Measurement, low: Floats, high: Floats
    ) -> tuple[Floats, Floats]:
        """Return its range over a box of joint cells: at a corner, or everything at an empty one."""
        scores, parts = (np.asarray(part) for part in RATIOS[measurement.family])
        ends = span_of(measurement)
        if measurement.family in _OF_RATIOS:
            least_of = np.full(scores.size, -np.inf)
        else:
            signed = not parts.all()  # the cell that is not part of the size may be negative
            least_of = np.where(parts > 0, 0.0, -np.inf) if signed else np.zeros(scores.size)
        low, high = np.maximum(low, least_of), np.maximum(high, least_of)
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
        """Return the value that the noise leaves in the middle, NaN where no signal is left.

        The pivot of `pivot.ratio_interval`, Z(theta) = S((u_i - theta v_i) raw_i), is symmetric around
        0 at the true theta, so an estimate below theta exactly where Z(theta) < 0 is median-unbiased.
        Where Z falls from Z(low) >= 0 to Z(high) <= 0 that is its root; where Z has one sign on all of
        [low, high] it is the end, `high` for a positive Z, whatever the raw total. Only where Z rises from
        Z(low) <= 0 to Z(high) >= 0 there is none: every negative noise outweighs the rows. P(too low) and
        P(too high), of what is left, differ from 1/2 by no more than that chance.
        """
        ratio = RATIOS.get(measurement.family)
        if ratio is None:
            return np.full((reading.raw.shape[0], 1), np.nan)
        low, high = span_of(measurement)
        top, total = (reading.raw @ np.asarray(part) for part in ratio)
        first, last = top - low * total, top - high * total  # Z at both ends
        root = np.divide(top, total, out=np.full_like(top, np.nan), where=total > 0)
        root = np.where(
            (first > 0) & (last > 0), high, np.where((first < 0) & (last < 0), low, root)
        )
        return quotient_value(measurement, np.clip(root, low, high))
