"""What weights do to the price of a mean: a typical weight, and the figures that a plan names beside.

Nothing private is known, so rows are supposed to weigh as much as the middle of the weight's range. Noise is
for the heaviest row there may be, so the error is as many times that of the unweighted mean as the heaviest
weight is above the average one: the plan shows that, and what a narrower range of weights would make of it.

Units: cells in steps; errors in the statistic's unit, squared under squared loss.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dprelease.aggregates.measurement import Measurement
from dprelease.core.numeric import shown
from dprelease.measurements.candidate import Candidate, Option, Pricing
from dprelease.measurements.members import Member
from dprelease.mechanisms.forms.vector import CellNoise

if TYPE_CHECKING:
    from dprelease.measurements.cells import Cells

_LESS = Fraction(3, 4)
"""Of the heaviest weight: the narrower range whose error a plan names."""


def typical_weight(measurement: Measurement) -> Fraction:
    """Return the middle of a weight's range, in its steps; 1 where rows are counted."""
    if not measurement.axes:
        return Fraction(1)
    axis = measurement.axes[0]
    return axis.offset / axis.step_size + Fraction(axis.scale, 2)


def of_a_row(measurement: Measurement) -> float:
    """Return what a typical row adds to both of its cells together, or to its size."""
    return float(measurement.scale * typical_weight(measurement))


def beside_weights(kind: Cells, member: Member, best: Candidate, asked: Pricing) -> list[Option]:
    """Return the errors of the unweighted statistic, and of one with a narrower range of weights."""
    weight, measurement = member.statistic.weight, best.measurement
    draw: Any = best.draw
    if weight is None or not isinstance(getattr(draw, "noise", None), CellNoise):
        return []
    plain = replace(measurement, axes=())
    said = [(plain, Fraction(1, weight.most), "not weighted: another statistic")]
    if _LESS * weight.most >= typical_weight(measurement):
        note = f"if weights were clamped to {shown(_LESS * weight.most * weight.step)}, and their average stayed"
        said.append((measurement, _LESS, note))
    out = []
    for of, part, note in said:
        total = max(1, int(part * asked.sensitivity.l1_over_groups))
        noise = CellNoise.calibrate(total, asked.epsilon)
        error = kind.errors(member, replace(draw, noise=noise), replace(asked, measurement=of))[0]
        out.append(Option(draw.mechanism, error, None, note))
    return out
