"""Mean of a clamped column, and the proportion of rows that meet a condition.

Private n: two sums (or the Bernstein cells that a variance of the same column pays for anyway, or, where
units are replaced, a size and a sum about the middle), post-processed to a ratio; a mean without atoms is drawn from a truncated law after the size has been
released. Public n: the sum itself, sensitivity w/n; of a share, whose condition is never null then
(`query.never_null`), the count, 1/n. Domain: the hull [l, u]; a forbidden interval of
the *column* does not forbid means. A proportion is the mean of a 0/1 code.

Sources: `docs/theory/sensitivities-and-contribution-bounding.md#partitions-of-unity`,
`#truncated-mean`, `#scalars`; `docs/theory/domains-and-grids.md#induced-domains`.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dprelease.aggregates.base import Aggregate, Floats, Form, Reading
from dprelease.aggregates.cells import bernstein_mean, centred_mean, two_sums_mean
from dprelease.aggregates.measurement import Context, Measurement
from dprelease.aggregates.pivot import ratio_interval
from dprelease.aggregates.scalar import (
    bernstein2,
    centred_squares,
    centred_sum,
    centred_sums,
    known_rows,
    public_mean,
    truncated_mean,
    two_sums,
)
from dprelease.query.arguments import RowCondition, Syntax
from dprelease.schema.domain import Domain

__all__ = ["Mean", "aggregate", "proportion"]


class Mean(Aggregate):
    by_spread = False
    sums = ("sum", "count")

    def __init__(
        self, name: str, syntax: Syntax | None = None, heading: str = "", *, moment: int = 0
    ) -> None:
        self.name = name
        self.syntax = syntax or Syntax(1, 1, f"{name}(column)")
        self.heading = heading
        self.moment = moment

    def domain(self, context: Context) -> Domain:
        return context.hull

    def measurements(self, context: Context) -> tuple[Measurement, ...]:
        if context.public_rows is not None:
            return (public_mean(context),)
        return (
            two_sums(context),
            bernstein2(context),
            truncated_mean(context),
            centred_sums(context),
            centred_squares(context),
        )

    def quotient(self, context: Context) -> tuple[Measurement, Measurement]:
        return centred_sum(context), known_rows(context)

    def finish(self, measurement: Measurement, cells: Floats) -> Floats:
        match measurement.family:
            case "two_sums":
                return _value(measurement, two_sums_mean(cells))
            case "bernstein2":
                return _value(measurement, bernstein_mean(cells))
            case "centred_sums":
                return _value(measurement, centred_mean(cells))
            case "centred_squares":
                return _value(measurement, centred_mean(cells[:, :2] / (3, 4)))
            case "truncated_mean":
                return cells[:, 1:]
            case _:
                return cells

    def interval(self, measurement: Measurement, reading: Reading) -> tuple[Floats, Floats]:
        ratio = _RATIOS.get(measurement.family)
        if ratio is not None:
            assert reading.scale is not None
            used = len(ratio[0]) - (measurement.family == "centred_squares")  # no square is in it
            low, high = ratio_interval(
                reading.raw[:, :used],
                ratio[0][:used],
                reading.scale,
                reading.level,
                parts=ratio[1][:used],
                copies=reading.copies,
                gaussian=reading.gaussian,
            )
            return _value(measurement, low), _value(measurement, high)
        if measurement.family == "truncated_mean":
            return reading.low[:, 1:], reading.high[:, 1:]
        return reading.low, reading.high

    def form(self, measurement: Measurement) -> tuple[Form, ...] | None:
        ratio = _RATIOS.get(measurement.family)
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
        scores, parts = (np.asarray(part) for part in _RATIOS[measurement.family])
        signed = not parts.all()  # the cell that is no part of the size may be negative
        least_of = np.where(parts > 0, 0.0, -np.inf) if signed else np.zeros(scores.size)
        low, high = np.maximum(low, least_of), np.maximum(high, least_of)
        most, least = np.zeros(low.shape[0]), np.ones(low.shape[0])
        for corner in np.ndindex(*(2,) * scores.size):
            cells = np.where(np.array(corner) == 1, high, low)
            total = cells @ parts
            t = np.divide(cells @ scores, total, out=np.zeros_like(total), where=total > 0)
            most, least = np.maximum(most, t), np.minimum(least, t)
        most, least = np.clip(most, 0.0, 1.0), np.clip(least, 0.0, 1.0)
        empty = low @ parts == 0
        low_end, high_end = np.where(empty, 0.0, least), np.where(empty, 1.0, most)
        return _value(measurement, low_end), _value(measurement, high_end)

    def estimate(self, measurement: Measurement, reading: Reading) -> Floats:
        """Return the mean that the noise leaves in the middle, NaN where no signal is left.

        The pivot of `pivot.ratio_interval`, Z(theta) = S((u_i - theta v_i) raw_i), is symmetric around
        0 at the true theta, so an estimate below theta exactly where Z(theta) < 0 is median-unbiased.
        Where Z falls from Z(0) >= 0 to Z(1) <= 0 that is its root; where Z has one sign on all of
        [0, 1] it is the end, 1 for a positive Z, whatever the raw total. Only where Z rises from
        Z(0) <= 0 to Z(1) >= 0 there is none: every negative noise outweighs the rows. P(too low) and
        P(too high), of what is left, differ from 1/2 by no more than that chance.
        """
        ratio = _RATIOS.get(measurement.family)
        if ratio is None:
            return np.full((reading.raw.shape[0], 1), np.nan)
        top, total = (reading.raw @ np.asarray(part) for part in ratio)  # Z(0); Z(1) is top - total
        root = np.divide(top, total, out=np.full_like(top, np.nan), where=total > 0)
        root = np.where(
            (top > 0) & (top > total), 1.0, np.where((top < 0) & (top < total), 0.0, root)
        )
        return _value(measurement, np.clip(root, 0.0, 1.0))


_RATIOS = {
    "two_sums": ((1.0, 0.0), (1.0, 1.0)),
    "bernstein2": ((0.0, 0.5, 1.0), (1.0, 1.0, 1.0)),
    "centred_sums": ((0.5, 0.5), (1.0, 0.0)),
    "centred_squares": ((0.5, 0.375, 0.0), (1.0, 0.0, 0.0)),
}
"""What each cell adds to the mean's numerator, and to its denominator."""


def _value(measurement: Measurement, t: Floats) -> Floats:
    """Return the column's unit for t in [0, 1], shape `(groups, 1)`."""
    width = float(measurement.scale * measurement.step_size)
    return np.asarray(float(measurement.offset) + width * t)[:, None]


aggregate = Mean(
    "mean",
    Syntax(1, 1, "mean(age)", sql=("AVG", "MEAN"), winsorised="winsorised_mean"),
    "Mean of {}",
    moment=1,
)
proportion = Mean(
    "proportion",
    Syntax(1, 1, "proportion(age > 65)", RowCondition(), ("PROPORTION",)),
    "Share of rows with {}",
)
