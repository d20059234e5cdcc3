"""Steps: decimal ones that meet a domain's edges, and those in which a statistic is published.

Units: a step in the statistic's unit, exact; every published number is a multiple of it.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dprelease.core.errors import ArgumentError, PlanError
from dprelease.core.numeric import plain
from dprelease.measurements.law import Law
from dprelease.measurements.members import Member
from dprelease.schema.domain import Domain

_EXACT_DOUBLE = 2**53


def best_step(target: Fraction, domain: Domain, least: Fraction = Fraction(0)) -> Fraction:
    """Return the largest 1, 2 or 5 times a power of ten that is at most `target`.

    It is made finer until every decimal edge of `domain` is a multiple of it (nine decimals), unless
    that takes less than `least`: then the allowed values end a step before an edge.
    """
    if target <= 0:
        target = Fraction(1)
    power = math.floor(math.log10(target))
    step = max(
        (
            m * Fraction(10) ** p
            for p in (power - 1, power, power + 1)
            for m in (1, 2, 5)
            if m * Fraction(10) ** p <= target
        ),
    )
    edges = [
        edge
        for piece in domain.exact_pieces
        for edge in piece
        if isinstance(edge, Fraction) and 10**9 % edge.denominator == 0
    ]
    # All edges again after each refinement: from 5 to 2 a step may leave one that it met.
    finer = step
    while any(edge % finer for edge in edges):
        finer = _finer(finer)
        if finer < least:
            return step
    return finer


def _finer(step: Fraction) -> Fraction:
    """Return the next smaller 1, 2 or 5 times a power of ten."""
    lead = step / Fraction(10) ** math.floor(math.log10(step) + 1e-9)
    return step * (Fraction(2, 5) if lead == 5 else Fraction(1, 2))


def publish_step(law: Law, member: Member, error: float) -> Fraction:
    """Return the output step when none is declared: fine against the error, decimal, exact."""
    drawn = law.published_step(member)
    return fine_step(member, error) if drawn is None else drawn


def fine_step(member: Member, error: float) -> Fraction:
    """Return a decimal step that is fine against the error."""
    if member.kind.whole:
        return Fraction(1)
    width = Fraction(member.domain.width)
    if width == 0:
        return Fraction(1)
    target = width / 10_000
    if error > 0:
        target = min(target, Fraction(error / 10).limit_denominator(10**12) or target)
    ends = member.domain.lower, member.domain.upper
    least = max(abs(Fraction(end)) for end in ends) / _EXACT_DOUBLE
    return best_step(max(target, 10 * least), member.domain, least)


def check_step(member: Member, step: Fraction, *, public: bool) -> None:
    """What is published is a multiple of `step`: found out now, not after the charge.

    Args:
        public: it is a public number, for which nothing is charged.

    Raises:
        PlanError: no multiple lies in the domain, or they are too fine (DPR213); one alone does, and
            would be charged for (DPR208).
    """
    spec, domain = member.statistic.spec, member.domain
    try:
        points = None if domain.width == 0 else domain.on_grid(step)
        if not public and (points is None or points.hull_steps == 0):
            raise PlanError(
                f"{spec.text} would be one number whatever the rows are",
                where=spec.origin,
                why=f"its domain is {domain}, in steps of {plain(step)}; it would be charged all the same",
                fix="leave it out, widen its `domain`, or declare a finer `step`",
                code="DPR208",
            )
        points = domain.on_grid(step) if points is None else points
    except ArgumentError as problem:
        raise PlanError(
            f"cannot publish {spec.text} in steps of {plain(step)}: {problem.what}",
            where=spec.origin,
            why=problem.why,
            fix=problem.fix,
            code="DPR213",
        ) from None
    if max(abs(points.lower), abs(points.upper)) > _EXACT_DOUBLE:
        raise PlanError(
            f"cannot publish {spec.text} in steps of {plain(step)}: they are too fine",
            where=spec.origin,
            why=f"an end of {domain} is more than 2**53 steps from 0, where doubles skip steps",
            fix="declare a coarser `step`",
            code="DPR213",
        )
