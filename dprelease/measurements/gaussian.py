"""The draw of cells with rounded normal noise, for releases with a delta.

Every cell of a block gets independent rounded normal noise; afterwards values are raised into
the cells' public range (rectified: post-processing). One unit's L2 sensitivity over all cells and groups
together is `Sensitivity.l2_squared`, so one rho covers every way a unit can spread its rows
(`mechanisms.forms.vector`).

Units: grid steps; rho in nats. Shapes: exact and raw `(groups, cells)`, Python integers.
Sources: `docs/theory/sensitivities-and-contribution-bounding.md#l2-norms`,
`docs/theory/kernels-and-boundaries.md#rounded-normal-noise`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.budget.composition import Proof
from dprelease.core.codec_notes import AtLeast, Digits, Note, StoredAs
from dprelease.core.errors import ArgumentError
from dprelease.measurements.base import cell_hull, family_of
from dprelease.measurements.candidate import Candidate
from dprelease.measurements.law import RAW_LIMIT, AddedNoise, AddsNoise, Law, Objects, underclaimed
from dprelease.measurements.members import BlockLayout, Loss, Member
from dprelease.measurements.of_scalar import finished_errors, finished_worst, scalar_of
from dprelease.measurements.price import rectified_error
from dprelease.mechanisms.forms.vector import GaussianCells
from dprelease.statistics.base import Floats
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import Sensitivity

NAME = "rectified_gaussian"
_SMOOTH = 16


@dataclass(frozen=True, slots=True)
class GaussianLaw(AddsNoise):
    """Integer cells with rounded normal noise, raised into [lower, upper] after.

    A cell c stands for `offset + step_size * c` (0 and 1 where statistics read the cells themselves).
    `joint`: the cells are read together (two sums, Bernstein), so their box is simultaneous.
    """

    tag: ClassVar[str] = "gaussian"
    gaussian: ClassVar[bool] = True

    noise: Annotated[GaussianCells, StoredAs("law")]
    count: Annotated[int, AtLeast(1)]
    lower: Digits
    upper: Digits | None
    step_size: Fraction
    offset: Fraction
    joint: bool
    mechanism: Annotated[str, Note.always] = "rectified_gaussian"

    @property
    def added(self) -> AddedNoise:
        return AddedNoise(self.noise.fitted, self.step_size, self.offset)

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        """Refuse: normal noise has no pure loss; its cost is `rho`."""
        del sensitivity
        raise underclaimed("kind of loss")

    def rho(self, sensitivity: Sensitivity) -> Fraction:
        """Return the proved zCDP cost of the block; InternalError if it claims too little."""
        if sensitivity.l2_squared is None or self.noise.l2_square < sensitivity.l2_squared:
            raise underclaimed("sensitivity")
        if self.step_size <= 0:
            raise underclaimed("step")
        return self.noise.rho

    def proof(self, sensitivity: Sensitivity) -> Proof:
        cells = self.count * sensitivity.changed_groups
        return Proof(rho=self.rho(sensitivity), normal=self.noise.rounded(cells))

    def proved(self, sensitivity: Sensitivity) -> Proof:
        squares = (v for each in sensitivity.types for _, v in each)
        return replace(
            self.proof(sensitivity), types=tuple(v / (2 * self.noise.square) for v in squares)
        )

    def reach(self, level: float) -> int:
        return self.noise.quantile(1 - (1 - level) / (self.count if self.joint else 1))

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        sizes = raw[:, :1] if self.lower < 0 else raw  # cells of either sign begin with their size
        return np.asarray((sizes <= 0).all(axis=1)).astype(bool) & self.joint

    def companions(self, raw: Objects) -> tuple[Floats, Floats]:
        return (Law if self.joint else AddsNoise).companions(self, raw)

    def evidence(self) -> dict[str, Any]:
        return {"law": self.noise.evidence(), "groups_charged": 1}


def gaussian_candidates(
    block: BlockLayout,
    rho: Fraction,
    loss: Loss,
    size: int,
    sensitivities: dict[Measurement, Sensitivity],
) -> list[Candidate]:
    """Return the Gaussian candidates of `block` at `rho`, in the order of its measurements.

    Of the measurements that have such a form; the exact cells are integers, so nothing is rounded
    before the noise, and the squared L2 sensitivity must be known. Domains with gaps are mapped to afterwards:
    post-processing.

    Args:
        size: public guess of rows per group (pricing only).
        sensitivities: of each measurement in `block.options`.
    """
    spec = block.members[0].statistic.spec
    if spec.mechanism not in (None, NAME) or not all(
        m.statistic.spec.spikes for m in block.members
    ):
        return []
    found = []
    for measurement in block.options:
        square, kind = sensitivities[measurement].l2_squared, family_of(measurement)
        if not square:
            continue
        try:
            noise = GaussianCells.calibrate(square, rho)
        except ArgumentError:  # a scale that cannot be drawn exactly: other laws remain
            continue
        law = kind.gaussian(measurement, noise)
        if law is None:
            continue
        both = [kind.gaussian_errors(m, measurement, law, size, loss) for m in block.members]
        stated = tuple(b[0] for b in both)
        worst = tuple(b[1] for b in both)
        found.append(Candidate(measurement, law, tuple(map(max, stated)), worst, stated))
    return found


def read_apart(measurement: Measurement, noise: GaussianCells) -> GaussianLaw:
    """Return the law of cells that are read one by one, each within its measurement's range."""
    low, high, count = measurement.lower, measurement.upper, len(measurement.cells)
    step, start = measurement.step_size, measurement.offset
    return GaussianLaw(noise, count, low, high, step, start, joint=False)


def read_together(
    measurement: Measurement, noise: GaussianCells, least: int = -RAW_LIMIT, *, joint: bool = True
) -> GaussianLaw:
    """Return the law of cells as they are, of which statistics are computed together."""
    count, one, zero = len(measurement.cells), Fraction(1), Fraction(0)
    return GaussianLaw(noise, count, least, None, one, zero, joint=joint)


def narrow(candidate: Candidate, block: BlockLayout) -> bool:
    """Return whether Gaussian noise is so small that no pure law of the same rho can be better.

    Unbounded, E|N| = 0.56 D / sqrt(rho) for the L2 sensitivity D against 0.71 for Laplace noise, whose
    L1 sensitivity is no less. Only a domain about as wide as the noise turns that around, where pure laws
    map to the best guess; cells are far apart from their ends at the public guess of the size.
    """
    law = candidate.law
    assert isinstance(law, GaussianLaw)
    if law.noise.square < _SMOOTH:  # at a step or two of scale, lattices matter
        return False
    if law.joint:
        return True
    width = min(float(m.domain.width) for m in block.members)
    return law.noise.scale * float(law.step_size) < width / 8


def rectified_errors(
    member: Member,
    measurement: Measurement,
    law: Law,
    loss: Loss,
    cells: tuple[int, int] | None = None,
) -> tuple[tuple[float, ...], float | None]:
    """Return the (average per spread, worst) errors of a cell that is mapped into its domain, of answers among `cells`."""
    assert isinstance(law, GaussianLaw)
    scale = law.noise.scale * float(measurement.step_size)
    function = scalar_of(member.kind, member.options) is not None
    domain = cell_hull(measurement) if function else member.domain
    start, step = float(measurement.offset), float(measurement.step_size)
    near = None if cells is None else (start + step * cells[0], start + step * cells[1])
    average, worst = rectified_error(scale, domain, loss, near)
    stated = finished_errors(member, average, loss, gaussian=True)
    return stated, finished_worst(member, worst, loss)


def gaussian_text(law: Law, s: Sensitivity, member: Member) -> str:
    """Return the L2 sensitivity of cells that are read one by one, in the statistic's unit."""
    assert isinstance(law, GaussianLaw)
    unit = f" {member.measure}" if member.measure else ""
    l2 = math.sqrt(law.noise.l2_square) * float(law.step_size)
    return f"{l2:.6g}{unit} in L2" + (" over all groups" if s.changed_groups > 1 else "")
