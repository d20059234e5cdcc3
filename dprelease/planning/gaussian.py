"""Price a block with discrete Gaussian noise at a rho: what a release with a delta may also draw.

Counts, sums, statistics of a public number of rows, histograms, two sums and Bernstein cells: their
exact cells are integers, so nothing is rounded before the noise, and one unit's squared L2 move is
known (`Sensitivity.square`). Truncated laws and choices have no Gaussian form; a block without one
keeps its pure laws (`planning.spend`). Domains with gaps are mapped to afterwards: post-processing.

Units: rho in nats; errors in the statistic's unit (or its square).
Sources: `docs/theory/composition.md#zcdp`,
`docs/theory/sensitivities-and-contribution-bounding.md#l2-norms`.
"""

from __future__ import annotations

from fractions import Fraction

from dprelease.aggregates.encoding import Encoding
from dprelease.errors import ArgumentError
from dprelease.measurements.gaussian import GaussianDraw
from dprelease.mechanisms.forms.vector import GaussianCells
from dprelease.planning.choose import Candidate, Loss, rooted_worst
from dprelease.planning.layout import BlockLayout, Member
from dprelease.planning.price import rectified_error
from dprelease.planning.spread import cells_errors, rooted
from dprelease.schema.domain import Domain
from dprelease.sensitivity import Sensitivity

__all__ = ["NAME", "gaussian_candidates", "narrow"]

NAME = "rectified_gaussian"
_JOINT = ("two_sums", "bernstein2")
_FAMILIES = (*_JOINT, "bins", "scalar")
_SMOOTH = 16


def gaussian_candidates(
    block: BlockLayout,
    rho: Fraction,
    loss: Loss,
    size: int,
    sensitivities: dict[Encoding, Sensitivity],
) -> list[Candidate]:
    """Return the Gaussian candidates of `block` at `rho`, in the order of its encodings.

    Args:
        size: public guess of rows per group (pricing only).
        sensitivities: of each encoding in `block.options`.
    """
    spec = block.members[0].statistic.spec
    if spec.mechanism not in (None, NAME) or not all(
        m.statistic.spec.spikes for m in block.members
    ):
        return []
    found = []
    for encoding in block.options:
        square = sensitivities[encoding].square
        known = encoding.family in _FAMILIES and encoding.form in ("linear", "scatter")
        if not known or not square:
            continue
        try:
            noise = GaussianCells.calibrate(square, rho)
        except ArgumentError:  # a scale that cannot be drawn exactly: other laws remain
            continue
        joint, scalar = encoding.family in _JOINT, encoding.family == "scalar"
        draw = GaussianDraw(
            noise=noise,
            count=len(encoding.cells),
            lower=encoding.lower if scalar else 0,
            upper=None if joint else encoding.upper,
            pitch=encoding.pitch if scalar else Fraction(1),
            offset=encoding.offset if scalar else Fraction(0),
            joint=joint,
        )
        both = [_errors(m, encoding, draw, size, loss) for m in block.members]
        stated = tuple(b[0] for b in both)
        worst = tuple(b[1] for b in both)
        found.append(Candidate(encoding, draw, tuple(map(max, stated)), worst, stated))
    return found


def narrow(candidate: Candidate, block: BlockLayout) -> bool:
    """Return whether Gaussian noise is so small that no pure law of the same rho can be better.

    Unbounded, E|N| = 0.56 D / sqrt(rho) for the L2 move D against 0.71 for Laplace noise, whose
    L1 move is no less. Only a domain about as wide as the noise turns that around, where pure laws
    map to the best guess; cells are far apart from their ends at the public guess of the size.
    """
    draw = candidate.draw
    assert isinstance(draw, GaussianDraw)
    if draw.noise.square < _SMOOTH:  # at a step or two of scale, lattices matter
        return False
    if draw.joint:
        return True
    width = min(float(m.domain.width) for m in block.members)
    return draw.noise.scale * float(draw.pitch) < width / 8


def _errors(
    member: Member, encoding: Encoding, draw: GaussianDraw, size: int, loss: Loss
) -> tuple[tuple[float, ...], float | None]:
    """Return (average per spread, worst) expected errors; the worst is unknown for ratios of cells."""
    if encoding.family in _JOINT:
        return cells_errors(member, encoding, draw, size, loss), None
    domain, scale = member.domain, draw.noise.scale * float(encoding.pitch)
    if member.aggregate.root:  # drawn as a variance, on the cell's own hull
        low, high = encoding.lower, encoding.upper
        assert high is not None
        domain = Domain(
            encoding.offset + encoding.pitch * low, encoding.offset + encoding.pitch * high
        )
    average, worst = rectified_error(scale, domain, loss)
    return rooted(member, average, loss), rooted_worst(member, worst)
