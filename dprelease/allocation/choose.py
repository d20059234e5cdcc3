"""Price every admissible way to draw a block and keep the best.

Which ways there are, and what each costs, a block's measurements say (`measurements.base`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

from dprelease.core.errors import ArgumentError, PlanError
from dprelease.core.numeric import ranking
from dprelease.measurements.base import family_of
from dprelease.measurements.candidate import Candidate, Option, Pricing
from dprelease.measurements.gaussian import NAME as NORMAL
from dprelease.measurements.members import BlockLayout, Loss, Member
from dprelease.measurements.of_scalar import scalar_of
from dprelease.measurements.scalar_grid import in_steps, rounded_error
from dprelease.mechanisms.law import Criterion
from dprelease.schema.release_spec import StatisticSpec
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import Sensitivity


def option(candidate: Candidate, member: int) -> Option:
    """Return what a plan lists of a priced way, for one member of its block."""
    mechanism, note = candidate.law.mechanism, candidate.note
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
    delta: Fraction = Fraction(0),
) -> list[Candidate]:
    """Return every admissible candidate of `block` at `epsilon`, best first.

    Args:
        size: public guess of rows per group (pricing only).
        sensitivities: of each measurement in `block.options`.
        judge: by the error averaged over answers, or at the worst one.
        only_as: price only the way that this candidate is drawn: its measurement and family.
        delta: of noise that ends, which is the only way then.

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
            pricing = Pricing(block, measurement, epsilon, loss, size, known, judge, only_as)
            kind = family_of(measurement)
            found += kind.ended(pricing, delta) if delta and kind.ending else kind.priced(pricing)
        except ArgumentError as refusal:  # counts only if no other measurement takes the block
            refusals.append(refusal)
    declared = False
    for member in block.members:
        spec = member.statistic.spec
        declared |= spec.step is not None or spec.max_error is not None
    for i, each in enumerate(found):
        if declared or family_of(each.measurement).placed:
            found[i] = as_stated(each, block, size, loss)
    ranked = sorted(found, key=lambda c: ranking(c.price(judge)))
    while ranked:
        try:
            ranked[0].law.check()
            break
        except ArgumentError as refusal:
            refusals.append(refusal)
            del ranked[0]
    if ranked:
        return ranked
    raise _refused(block.members[0].statistic.spec, refusals)


def as_stated(found: Candidate, block: BlockLayout, size: int, loss: Loss) -> Candidate:
    """Return `found` with the errors that a plan states: of likely answers, and of what is published.

    That is rounded to a declared step, where it is not drawn in it.
    """
    law, measurement = found.law, found.measurement
    kind = family_of(measurement)
    errors, stated, placed, anywhere, worst = [], [], [], [], []
    for i, member in enumerate(block.members):
        every, most = found.errors[i], found.worst[i]
        near = None if block.table else kind.near_errors(law, measurement, member, loss)
        rounded, spec = partial(_published, found, member, loss), member.statistic.spec
        of = near or (found.stated[i] if found.stated else (every,))
        stated.append(tuple(rounded(error)[0] for error in of))
        errors.append(rounded(max(near) if near else every)[0])
        anywhere.append(rounded(every)[0])
        own = scalar_of(member.kind, member.options) is None
        far = most if own and not member.domain.exact_gaps else None  # of those the plan says it
        if far is None and spec.max_error is not None:
            far = kind.farthest_error(law, measurement, member, size, loss)
        placed.append(rounded(max(every, far or 0.0))[1])
        if most and spec.step is not None and rounded(most)[1] != most:
            most = rounded_error(most, float(spec.step), squared=loss == "squared", worst=True)
        worst.append(most)
    return replace(
        found,
        errors=tuple(errors),
        worst=tuple(worst),
        stated=tuple(stated) if found.stated else (),
        placed=tuple(placed),
        anywhere=tuple(anywhere),
    )


def _published(found: Candidate, member: Member, loss: Loss, error: float) -> tuple[float, float]:
    """Return what `error` is of what is published: its mean, and at the worst place between two steps."""
    kind, step = family_of(found.measurement), member.statistic.spec.step
    if step is None or not kind.judged or kind.free:
        return error, error
    drawn = found.law.published_step(member)
    drawn = Fraction(1) if drawn is None and member.kind.whole else drawn
    if drawn is not None and drawn % step == 0:
        return error, error
    away = float(step / 2 if drawn is None else step / 2 // drawn * drawn)
    return in_steps(error, float(step), away, squared=loss == "squared")


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
