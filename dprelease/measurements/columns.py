"""Cells of several columns: what their measurements share, from errors to words."""

from __future__ import annotations

from dprelease.aggregates.base import Floats
from dprelease.aggregates.sensitivity import Sensitivity
from dprelease.aggregates.simulated import simulated_cells
from dprelease.aggregates.spectrum import square_width
from dprelease.core.numeric import counted
from dprelease.measurements.candidate import Candidate, Pricing
from dprelease.measurements.cells import CellDraw, Cells
from dprelease.measurements.members import Member
from dprelease.measurements.pair_price import pair_error, simulated_columns
from dprelease.measurements.spread import spreads


class Columns(Cells):
    """Cells to which one row adds what lies in the box of its columns."""

    sized = True

    def errors(self, member: Member, draw: CellDraw, asked: Pricing) -> tuple[float, ...]:
        measurement, scale = asked.measurement, draw.simulated_scale(asked.loss)
        correlations = member.aggregate.correlations(member.statistic)
        return tuple(
            pair_error(member, measurement, scale, asked.size, asked.loss, spread, correlations)
            for spread in spreads(member, len(measurement.axes))
        )

    def typical(self, best: Candidate, member: Member, size: int, *, narrow: bool) -> Floats:
        measurement = best.measurement
        spread = spreads(member, len(measurement.axes))[-1 if narrow else 0]
        return simulated_cells(measurement, simulated_columns(spread, 0.5, 0.0), size)

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        """Return the sensitivity of cells in words: rows of the columns' boxes."""
        measurement = best.measurement
        rows = s.l1_over_groups // measurement.l1_added_row
        measures = [c.measure for c in member.statistic.columns] or [None] * len(measurement.axes)
        spans = []
        for axis, measure in zip(measurement.axes, measures, strict=True):
            low, high = float(axis.offset), float(axis.offset + axis.width)
            spans.append(f"[{low:g}, {high:g}]" + (f" {measure}" if measure else ""))
        shown = spans if len(spans) <= 3 else [*spans[:2], "…"]
        return f"{counted(rows, 'row')} in {' × '.join(shown)}"


def moved_text(best: Candidate, s: Sensitivity, member: Member, where: str) -> str:
    """Return the sensitivity of a covariance matrix in words, in the squared unit."""
    measurement = best.measurement
    move = float(s.l1_over_groups * measurement.step_size * square_width(measurement.axes))
    unit = f" {member.measure}" if member.measure else ""
    return f"{move:.4g}{unit} over {where}"
