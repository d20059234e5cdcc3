"""Eigenvalues of a covariance matrix in steps of a public grid, over a public number of rows."""

from __future__ import annotations

from dprelease.aggregates.sensitivity import Sensitivity
from dprelease.measurements.candidate import Candidate
from dprelease.measurements.columns import Columns, moved_text
from dprelease.measurements.members import Member


class Spectrum(Columns):
    """All eigenvalues."""

    family = "spectrum"
    forms = ("spectrum",)
    sized = False
    way = "noise on the eigenvalues"

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        return moved_text(best, s, member, "all eigenvalues")
