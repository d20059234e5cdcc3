"""S((K - code)^2), S(2 code (K - code)) and S(code^2): one row adds exactly K^2.

Mean, variance and standard deviation of one column are computed from the same cells.
Source: `docs/theory/sensitivities-and-contribution-bounding.md#partitions-of-unity`.
"""

from __future__ import annotations

import numpy as np

from dprelease.aggregates.base import Floats
from dprelease.aggregates.measurement import Measurement
from dprelease.measurements.cells import Partition


class Bernstein2(Partition):
    """Three cells of one column."""

    family = "bernstein2"
    shared = True

    def exact(self, measurement: Measurement, size: int, mean: Floats, square: Floats) -> Floats:
        k = float(measurement.scale)
        cells = [1 - 2 * mean + square, 2 * (mean - square), square]
        return size * k * k * np.stack(cells, axis=1)
