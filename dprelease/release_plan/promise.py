"""What one release promises over time: the window that its loss counts in, and in words.

A release of a window costs only the units that the window meets (`budget.timeline`). Said of it: what
one unit loses, and what a whole person can lose at most, who may be in every interval that it meets
(the group rule: k intervals, k times epsilon).

Units    epsilon in nats; windows in stored instants, UTC.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from dprelease.budget.person import PersonLoss, group_rule, person_of
from dprelease.budget.record import OPEN, Declaration
from dprelease.budget.timeline import Timeline, timeline, window_of_texts
from dprelease.core.numeric import counted, plain
from dprelease.core.periods import instant_text
from dprelease.core.strict_json import canonical_json
from dprelease.query.calendar import Calendar
from dprelease.query.spec import Query
from dprelease.release_plan.plan import ReleasePlan
from dprelease.schema.table import TableSchema, declared_time
from dprelease.schema.time import time_words
from dprelease.schema.unit import Adjacency, RowUnit, UserUnit, unit_to_json

_YEAR = {"day": 365, "week": 52, "month": 12, "quarter": 4}


def ledger_window(plan: ReleasePlan) -> tuple[str | None, str | None]:
    """Return the window that the plan's loss counts in: that of the rows its engine reads.

    Open where no time is declared, no window cuts the time column, or an unproven view makes the rows:
    then the loss counts for every unit.
    """
    window, view = plan.query.window, plan.query.view
    declared = plan.time is not None and declared_time(plan.unit, plan.time) is not None
    if not declared or window is None or (view is not None and not view.proven):
        return OPEN
    if plan.time is None or window.column != plan.time.column:
        return OPEN
    return instant_text(window.start), instant_text(window.end)


def counted_for(plan: ReleasePlan, period: str) -> str:
    """Return which units a receipt's figure of what is spent is of, in words behind the dataset's name.

    "" where the losses of all releases add up: then it is the dataset's.
    """
    if not timeline_of(plan).apart:
        return ""
    return " by the most charged unit" if ledger_window(plan) == OPEN else f" in {period}"


def timeline_of(plan: ReleasePlan) -> Timeline:
    """Return how the losses of the plan's dataset lie in time."""
    return timeline(*declaration_in(plan))


def declaration_in(of: ReleasePlan | TableSchema) -> Declaration:
    """Return what a ledger declares the dataset of a plan or schema as."""
    unit = canonical_json(unit_to_json(of.unit))
    return of.adjacency.value, unit, declared_time(of.unit, of.time)


def declared_by(of: ReleasePlan | TableSchema) -> dict[str, Any]:
    """Return the same by the names that a ledger and its entries have for it."""
    return dict(zip(("adjacency", "unit", "time"), declaration_in(of), strict=True))


def person_in_plan(plan: ReleasePlan) -> PersonLoss | None:
    """Return what a whole person loses at most by this release alone; None for no bound."""
    window = window_of_texts(ledger_window(plan))
    return person_of([(window, plan.epsilon, plan.delta)], timeline_of(plan))


def certain_notes(
    names: Sequence[str], epsilon: Fraction, delta: Fraction, others: str
) -> tuple[str, str]:
    """Return what is promised where noise ends, of these blocks, and how all losses add up; `others`: those of other blocks."""
    persons = f"of {math.floor(1 / delta):,} persons that is one, on average and at most"
    more = "ends at its bound, and the number then says more about one person than epsilon allows"
    return (
        f"for certain: {', '.join(names)}. With probability at most {float(delta):.3g} ({persons}) the noise {more}",
        f"the losses add up to epsilon {plain(epsilon)} at delta={float(delta):.3g}{others}",
    )


def time_notes(query: Query, epsilon: Fraction, delta: Fraction = Fraction(0)) -> list[str]:
    """Return what a plan says of its promise over time; nothing for units that no time splits."""
    schema = query.schema
    unit, time = schema.unit, schema.time
    person = isinstance(unit, UserUnit) and unit.per is not None
    if not (person or isinstance(unit, RowUnit)):
        return []
    line = Timeline() if time is None else timeline(*declaration_in(schema))
    out = [_person_words(query, unit, line, (epsilon, delta))] if isinstance(unit, UserUnit) else []
    if line.apart and time is not None:
        out.append(
            f"declared, not checked: the time of a row ({time_words(time)}), and every value used is of"
            f" its own row, or of rows of the same unit; {_over_periods(query, line)}"
        )
    elif query.calendar is not None:
        out.append(_saving(query.calendar, schema.adjacency, epsilon, rows=not person))
    return out


def _person_words(
    query: Query, unit: UserUnit, line: Timeline, loss: tuple[Fraction, Fraction]
) -> str:
    """Return the loss of one unit of a person and an interval, and of the whole person."""
    epsilon, delta = loss
    one = f"one {unit.column}'s rows of one {unit.per}: epsilon {plain(epsilon)}"
    one += f", delta {float(delta):.3g}" if delta else ""
    intervals = None
    if query.window is not None and (query.view is None or query.view.proven):
        intervals = line.met((query.window.start, query.window.end))
    if intervals is None:
        return f"{one}; one {unit.column} over all {unit.per}s: no bound, as this release reads them all"
    most, probability = group_rule(epsilon, delta, intervals)
    apart = f", apart from delta {float(probability):.3g}" if probability else ""
    spans = counted(intervals, str(unit.per))
    return f"{one}; one {unit.column} over all of this release, which meets {spans}: at most {plain(most)}{apart}"


def _over_periods(query: Query, line: Timeline) -> str:
    """Return how the loss of this release adds up with those of releases of other periods."""
    if query.view is not None and not query.view.proven:
        return "but an unproven view makes the rows, so this loss adds up with that of every other release"
    if line.pairs:
        return (
            "so releases of disjoint periods cost together at most the two largest of their losses: a"
            " replaced row may be of another period"
        )
    return "so losses of releases of disjoint periods do not add up"


def _saving(calendar: Calendar, adjacency: Adjacency, epsilon: Fraction, *, rows: bool) -> str:
    """Return what declaring the time immutable would save."""
    count = _YEAR.get(calendar.every, 10)
    whole = ", a year," * (calendar.every in _YEAR)
    pair = 2 if rows and adjacency is Adjacency.substitution else 1
    return (
        f"losses of all releases add up: {counted(count, calendar.every)} of them{whole}"
        f" cost epsilon {plain(count * epsilon)}; `time: {{column: {calendar.column}, immutable:"
        f" true}}` in the schema, if it is true, would make that {plain(pair * epsilon)}"
    )
