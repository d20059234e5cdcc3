"""Eigenvalues of a graph's Laplacian, in steps of a public grid."""

from __future__ import annotations

import numpy as np

from dprelease.core.numeric import shown
from dprelease.measurements.bins import Topped
from dprelease.measurements.candidate import Candidate
from dprelease.measurements.members import Member
from dprelease.statistics.base import Floats
from dprelease.statistics.sensitivity import Sensitivity


class Laplacian(Topped):
    """All eigenvalues, which move together when an edge appears."""

    forms = ("laplacian",)

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        return f"{shown(s.l1_over_groups * best.measurement.step_size)} over the whole spectrum"

    def typical(self, best: Candidate, member: Member, size: int, *, narrow: bool) -> Floats:
        return np.full(len(best.measurement.cells), (best.measurement.upper or 0) / 2)


family = Laplacian("laplacian")
