"""S(code) and S(K - code): two non-negative sums to which one row adds exactly K, or its weight times that.

Source: `docs/theory/sensitivities-and-contribution-bounding.md#partitions-of-unity`, `#weighted-sums`.
"""

from __future__ import annotations

import numpy as np

from dprelease.aggregates.base import Floats
from dprelease.aggregates.measurement import Measurement
from dprelease.measurements.cells import Partition
from dprelease.measurements.members import Member
from dprelease.measurements.of_weights import of_a_row
from dprelease.measurements.spread import Spread


class TwoSums(Partition):
    """Two sums, whose shares are a mean."""

    family = "two_sums"

    def exact(self, measurement: Measurement, size: int, mean: Floats, square: Floats) -> Floats:
        k = of_a_row(measurement)
        return np.stack([size * mean * k, size * (1 - mean) * k], axis=1)

    def looked(self, member: Member) -> tuple[Spread, ...]:
        return super().looked(member)[
            :1
        ]  # the noise of a mean is the same for all rows of one mean
