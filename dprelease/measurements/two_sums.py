"""S(code) and S(K - code): two non-negative sums to which one row adds exactly K, or its weight times that.

Source: `docs/theory/sensitivities-and-contribution-bounding.md#partitions-of-unity`, `#weighted-sums`.
"""

from __future__ import annotations

import numpy as np

from dprelease.aggregates.base import Floats
from dprelease.aggregates.measurement import Measurement
from dprelease.measurements.base import Moved
from dprelease.measurements.candidate import Candidate, Option, Pricing
from dprelease.measurements.cells import Moments, ends_of_range
from dprelease.measurements.draw import Ends
from dprelease.measurements.members import Member
from dprelease.measurements.of_weights import beside_weights, of_a_row
from dprelease.measurements.spread import Spread


class TwoSums(Moments):
    """Two sums, whose shares are a mean."""

    family = "two_sums"
    counting = "all"

    def exact_ends(self, measurement: Measurement) -> Ends:
        return ends_of_range(measurement)

    def exact(self, measurement: Measurement, size: int, mean: Floats, square: Floats) -> Floats:
        k = of_a_row(measurement)
        return np.stack([size * mean * k, size * (1 - mean) * k], axis=1)

    def looked(self, member: Member) -> tuple[Spread, ...]:
        return super().looked(member)[
            :1
        ]  # the noise of a mean is the same for all rows of one mean

    def beside(self, member: Member, best: Candidate, asked: Pricing, moved: Moved) -> list[Option]:
        del moved
        return beside_weights(self, member, best, asked)
