"""What a plan says of one statistic: its error, its sensitivity, and how its rows are taken.

Sentences for readers, made of public numbers; nothing is computed from them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dprelease.aggregates.measurement import Measurement
from dprelease.allocation.share import Priced
from dprelease.measurements.base import family_of
from dprelease.measurements.members import Member
from dprelease.measurements.price import NARROW
from dprelease.measurements.spread import SAME, guessed
from dprelease.numeric import counted, figure, shown
from dprelease.query.spec import Query
from dprelease.schema.unit import UserUnit

__all__ = ["error_text", "sensitivity_text", "statistic_notes"]


def error_text(errors: Sequence[float], member: Member, size: int | None, *, public: bool) -> str:
    """Return "±2.5 years at n=1,000", as a function of the rows' spread where that matters.

    Args:
        errors: in the statistic's unit, one per spread (`measurements.spread.spreads`).
        size: rows per group; None: the error does not depend on it.
        public: nothing is drawn. An error of 0 is not proof of it: with a large epsilon the error is less than the least double.
    """
    if public:
        return "exact (public)"
    unit = f" {member.measure}" if member.measure else ""
    at = "" if size is None else f" at n={size:,}"
    known, multivariate = guessed(member), len(member.context.columns) > 1
    if max(errors) > SAME * min(errors):
        fills, narrow = (f"±{figure(e)}{unit}" for e in errors)
        part = f"{100 * NARROW:g} %"
        placed = (
            f"{fills} if values fill their ranges, {narrow} if each sd is {part} of its range"
            if multivariate
            else f"{fills} if values fill the range, {narrow} if sd is {part} of it"
        )
    else:
        placed = f"±{figure(max(errors))}{unit}"
        if known and member.aggregate.by_spread:
            guess = shown(known[0].expected_sd or Fraction(0))
            placed += " if the sds are as guessed" if multivariate else f" if sd is {guess}"
    known_for = member.aggregate.stated_for(member)
    if known_for:
        placed += f", {known_for}" if " if " in placed else f" {known_for}"
    return f"{placed},{at}" if at and (known_for or " if " in placed) else f"{placed}{at}"


def sensitivity_text(priced: Priced, member: Member) -> str:
    """Return how far one unit moves what the noise is added to, in the statistic's words."""
    kind = family_of(priced.best.measurement)
    return kind.sensitivity_text(priced.best, priced.sensitivity, member)


def statistic_notes(query: Query, member: Member, measurement: Measurement) -> tuple[str, ...]:
    """Return which rows enter a statistic, and in which form."""
    unit, notes = query.schema.unit, []
    if isinstance(unit, UserUnit):
        m = member.max_rows or unit.max_rows_per_group
        notes.append(
            f"over at most {counted(m, 'row')} per {unit.column} and group, "
            f"and at most {counted(unit.max_groups, 'group')} per {unit.column}"
        )
    return (*notes, *member.aggregate.notes(member, measurement))
