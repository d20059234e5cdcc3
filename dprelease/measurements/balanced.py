"""Bins whose rows are replaced: noise that adds up to zero.

Where they hold every row of a public number, neighbours have equally many rows in all bins together, so
their difference adds up to zero, and noise that does so too has the loss of independent noise with less
error in each bin. The wall sees that no unit changes the sum (`Sensitivity.sum_is_fixed`); the noisy bins add up
to the public number before they are raised into their domain.

Else a cell more, which is never published, takes what the bins of a group gain or lose. What enters them
and what leaves are each at most half of the L1 sensitivity (`Sensitivity.one_sided_half`, made again by the wall), so with
that cell the move is no longer; the noise of it and of the bins adds up to zero.

Units: rows; epsilon in nats. Shapes: exact and raw `(groups, cells)`, Python integers.
Source: `docs/theory/kernels-and-boundaries.md#noise-that-adds-up-to-zero`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.budget.composition import Proof
from dprelease.budget.exact_rho import rho_of_zero_sum
from dprelease.core.codec_notes import Digits, Note, StoredAs
from dprelease.core.entropy import RandomBits
from dprelease.measurements.cells import CellLaw
from dprelease.measurements.law import RAW_LIMIT, AddedNoise, Law, Objects, underclaimed
from dprelease.mechanisms.forms.balanced import MOST_CELLS, BalancedNoise
from dprelease.statistics.base import Floats
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import Sensitivity

_ONE_MOVE = 2
"""The L1 norm of a row that leaves one cell for another."""


@dataclass(frozen=True, slots=True)
class BalancedLaw(CellLaw):
    """Bins with discrete Laplace noise given that it adds up to zero.

    Attributes:
        rows: the public number of rows that the bins hold; None adds up with one hidden cell.
    """

    tag: ClassVar[str] = "balanced_cells"

    noise: Annotated[BalancedNoise, StoredAs("law")]
    rows: Annotated[Digits | None, Note.always] = None

    @property
    def noise_scale(self) -> float | None:
        return None  # no reader may take its cells for independent

    @property
    def slope(self) -> Fraction | None:
        return None  # a row that leaves moves the hidden cell, too

    @property
    def balanced(self) -> BalancedNoise:
        return self.noise

    @property
    def added(self) -> AddedNoise | None:
        return None

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        proved = sensitivity.one_sided_half if self.rows is None else sensitivity.sum_is_fixed
        if not proved or self.noise.cells != self.count + (self.rows is None):
            raise underclaimed("change of the sum of its cells")
        return CellLaw.certify(self, sensitivity)

    def proof(self, sensitivity: Sensitivity) -> Proof:
        """Return one loss, and where one row moves the rho of that: of more rows it is not proved."""
        plain = Law.proof(self, sensitivity)
        if sensitivity.l1_over_groups > _ONE_MOVE:
            return plain
        return replace(plain, tight=rho_of_zero_sum(self.noise.noise.rate, self.noise.cells))

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        noise = self.noise.vectors(exact.shape[0], bits)[:, : self.count]
        return np.asarray(np.clip(exact + noise, -RAW_LIMIT, RAW_LIMIT))

    def drawable(self, raw: Objects) -> npt.NDArray[np.bool_]:
        if self.rows is None:
            return CellLaw.drawable(self, raw)
        return np.asarray(raw.sum(axis=1) == self.rows, dtype=bool)

    def companions(self, raw: Objects) -> tuple[Floats, Floats]:
        """Return the bins within their domain, and as they were drawn: the noise is symmetric."""
        return self.cells(raw), raw.astype(np.float64)

    @property
    def described(self) -> str:
        """A report's sentence on the noise."""
        if self.rows is None:
            return "what enters a bin leaves the others, or the rows in none: one noise is drawn for all, adding up to zero"
        return "the bins hold every row of a public number, so one noise is drawn for all, which adds up to zero"


def balanced_noise(
    measurement: Measurement, sensitivity: Sensitivity, epsilon: Fraction
) -> BalancedNoise | None:
    """Return the noise of these bins that adds up to zero, with a hidden cell where they may lose a row; None where it may not."""
    bins = len(measurement.cells)
    known = measurement.public_rows is not None and sensitivity.sum_is_fixed
    cells = bins + (not known)
    if (
        not (sensitivity.sum_is_fixed if known else sensitivity.one_sided_half)
        or bins < 2
        or cells > MOST_CELLS
    ):
        return None
    return BalancedNoise.keeping(cells, sensitivity.l1_over_groups, epsilon)
