"""How one statistic reads its block's noisy integers: cells, bounds, and its own view of them.

The same for a release (`noised`) and for what a plan expects of one (`measurements.informative`).
"""

from __future__ import annotations

from dprelease.aggregates.base import Floats, Reading
from dprelease.aggregates.measurement import Measurement
from dprelease.measurements.base import family_of
from dprelease.measurements.draw import Draw, Objects


def reading_of(draw: Draw, raw: Objects, level: float) -> Reading:
    """Return a block's noisy integers, `(groups, cells)`, read back for intervals at `level`."""
    low, high = draw.box(raw, level)
    return Reading(
        low,
        high,
        raw.astype(float),
        draw.noise_scale,
        level,
        gaussian=draw.gaussian,
        balanced=draw.balanced,
    )


def seen_by(
    view: int | None, measurement: Measurement, cells: Floats, reading: Reading
) -> tuple[Measurement, Floats, Reading]:
    """Return what a statistic sees: everything, or column `view` of a block of several."""
    if view is None:
        return measurement, cells, reading
    return family_of(measurement).seen(measurement, cells, reading, view)
