"""Price every admissible way to draw a block and keep the best.

Which ways there are, and what each costs, a block's measurements say (`measurements.base`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from dprelease.core.errors import ArgumentError, PlanError
from dprelease.core.numeric import ranking
from dprelease.measurements.base import family_of
from dprelease.measurements.candidate import Candidate, Option, Pricing
from dprelease.measurements.gaussian import NAME as NORMAL
from dprelease.measurements.members import BlockLayout, Loss, Member
from dprelease.measurements.scalar_grid import in_steps, rounded_error
from dprelease.mechanisms.law import Criterion
from dprelease.schema.table import StatisticSpec
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import Sensitivity


def option(candidate: Candidate, member: int) -> Option:
    """Return what a plan lists of a priced way, for one member of its block."""
    mechanism, note = candidate.draw.mechanism, candidate.note
    if not family_of(candidate.measurement).judged:  # its errors rank the ways, for no data
        return Option(mechanism, None, None, note)
    return Option(mechanism, candidate.errors[member], candidate.worst[member], note)


def candidates(
    block: BlockLayout,
    epsilon: Fraction,
    loss: Loss,
    size: int,
    sensitivities: dict[Measurement, Sensitivity],
    judge: Criterion = "average",
    only_as: Candidate | None = None,
) -> list[Candidate]:
    """Return every admissible candidate of `block` at `epsilon`, best first.

    Args:
        size: public guess of rows per group (pricing only).
        sensitivities: of each measurement in `block.options`.
        judge: by the error averaged over answers, or at the worst one.
        only_as: price only the way that this candidate is drawn: its measurement and family.

    Raises:
        PlanError: none is admissible (DPR212), or the grid is too fine or misses the domain
            (DPR213).
    """
    found: list[Candidate] = []
    refusals: list[ArgumentError] = []
    for measurement in block.options:
        if only_as is not None and not only_as.measures_as(measurement):
            continue
        try:
            known = sensitivities[measurement]
            asked = Pricing(block, measurement, epsilon, loss, size, known, judge, only_as)
            found += family_of(measurement).priced(asked)
        except ArgumentError as refusal:  # counts only if no other measurement takes the block
            refusals.append(refusal)
    for member in block.members:
        if member.statistic.spec.step is not None:
            found = [as_published(c, block.members, loss) for c in found]
            break
    ranked = sorted(found, key=lambda c: ranking(c.price(judge)))
    while ranked:
        try:
            ranked[0].draw.check()
            break
        except ArgumentError as refusal:
            refusals.append(refusal)
            del ranked[0]
    if ranked:
        return ranked
    raise _refused(block.members[0].statistic.spec, refusals)


def as_published(found: Candidate, members: Sequence[Member], loss: Loss) -> Candidate:
    """Return `found` with the errors of what is published: rounded to a declared step, where it is not drawn in it."""
    kind, squared = family_of(found.measurement), loss == "squared"
    stated, placed, worst = [], [], []
    for i, member in enumerate(members):
        errors, most = found.stated[i] if found.stated else (found.errors[i],), found.worst[i]
        step, drawn = member.statistic.spec.step, found.draw.published_step(member)
        drawn = Fraction(1) if drawn is None and member.kind.whole else drawn
        if (
            step is None
            or not kind.judged
            or kind.free
            or (drawn is not None and drawn % step == 0)
        ):
            both = [(error, error) for error in errors]
        else:
            away = float(step / 2 if drawn is None else step / 2 // drawn * drawn)
            both = [in_steps(error, float(step), away, squared=squared) for error in errors]
            most = most and rounded_error(most, float(step), squared=squared, worst=True)
        stated.append(tuple(mean for mean, _ in both))
        placed.append(max(far for _, far in both))
        worst.append(most)
    return replace(
        found,
        errors=tuple(map(max, stated)),
        worst=tuple(worst),
        stated=tuple(stated) if found.stated else (),
        placed=tuple(placed),
    )


def _refused(spec: StatisticSpec, refusals: Sequence[ArgumentError]) -> PlanError:
    """Return why a block cannot be drawn: the first refusal, or what the request asks for."""
    if refusals:
        return PlanError(
            f"cannot build a law for {spec.text}: {refusals[0].what}",
            where=spec.origin,
            why=refusals[0].why,
            fix=refusals[0].fix,
            code="DPR213",
        )
    said = [f"`mechanism: {spec.mechanism}`"] if spec.mechanism is not None else []
    said += [] if spec.spikes else ["`spikes: forbid`"]
    why = "no mechanism has a proved law on this grid at this epsilon"
    if said:
        why = f"with {' and '.join(said)} there is no proved law on this grid at this epsilon"
    return PlanError(
        f"no admissible mechanism for {spec.text}",
        where=spec.origin,
        why=why,
        fix=f"remove {' or '.join(said) or 'what limits its values'}"
        if spec.mechanism != NORMAL
        else "normal noise has no pure loss: declare e.g. `delta: 0.000001`, or remove the pin",
        code="DPR212",
    )
