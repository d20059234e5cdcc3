"""How far the rows of a column lie apart: what a price supposes of that, and errors at it.

The error of a standard deviation or a correlation depends on the rows themselves: noise on a small
variance moves its root far. Nothing private is known, so the error is stated as a function that a
reader can place, at two spreads: values that fill the range (a uniform column, `FILLS` of its range)
and values whose standard deviation is `NARROW` of it. A public guess, a column's `expected: {sd: …}`,
replaces both; a correlation is priced at 0, or at the `expected` of the statistic. What is planned
with is the guess, or the larger of the two errors: ordinary data are narrow.

Units: spreads are standard deviations as shares of the columns' ranges, one per column; errors in
the statistic's unit, squared under squared loss.
"""

from __future__ import annotations

import math

from dprelease.measurements.members import Member
from dprelease.schema.column import Column

FILLS = 1 / math.sqrt(12)
"""The standard deviation of values that fill their range evenly, as a share of it."""

NARROW = 0.05
"""The standard deviation, as a share of the range, down to which ordinary columns lie."""

SAME = 1.1
"""Errors within this factor are one figure for readers."""

Spread = tuple[float, ...]


def spreads(member: Member, columns: int = 1) -> tuple[Spread, ...]:
    """Return the spreads at which the error of `member` is stated, for `columns` columns.

    One where all of the member's own columns have a guess, else two: filled, narrow.
    """
    known = tuple(
        None
        if c.expected_sd is None or c.domain is None
        else float(c.expected_sd) / float(c.domain.width)
        for c in _columns(member)
    ) or (None,)
    if member.view is not None:  # the others of a shared block are not looked at
        own: list[float | None] = [None] * columns
        own[member.view] = known[0]
        full = known[0] is not None
    else:
        own, full = list(known), all(k is not None for k in known)
    ends = (NARROW,) if full else (FILLS, NARROW)
    return tuple(tuple(end if k is None else k for k in own) for end in ends)


def guessed(member: Member) -> tuple[Column, ...]:
    """Return the member's columns, if each has a guess of its standard deviation."""
    columns = _columns(member)
    return columns if columns and all(c.expected_sd is not None for c in columns) else ()


def _columns(member: Member) -> tuple[Column, ...]:
    context = member.statistic
    return context.columns or (() if context.column is None else (context.column,))
