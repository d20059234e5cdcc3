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
from typing import Literal

import numpy as np

from dprelease.measurements.members import Member
from dprelease.measurements.price import FILLS, NARROW
from dprelease.schema.column import Column

__all__ = ["SAME", "guessed", "rooted", "rooted_worst", "spreads"]

SAME = 1.1
"""Errors within this factor are one figure for readers."""

Spread = tuple[float, ...]


def spreads(member: Member, columns: int = 1) -> tuple[Spread, ...]:
    """Return the spreads at which the error of `member` is stated, for `columns` columns.

    One where all of the member's own columns have a guess, else two: filled, narrow.
    """
    known = _guesses(member)
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


def rooted(member: Member, error: float, loss: Literal["absolute", "squared"]) -> tuple[float, ...]:
    """Return the errors of a statistic whose noisy variance has the expected `error`.

    One per spread for a standard deviation, the root of that variance: the mean of
    |sqrt(max(0, s^2 + N)) - s| for Laplace noise N of that error. `error` itself for all others.
    """
    if not member.aggregate.root:
        return (error,)
    u = (np.arange(256) + 0.5) / 256
    scale = error if loss == "absolute" else math.sqrt(error / 2)
    noise = scale * np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u)))
    width = float(member.context.hull.width)
    out = []
    for (spread,) in spreads(member):
        sd = spread * width
        off = np.minimum(np.sqrt(np.maximum(sd * sd + noise, 0.0)), width / 2) - sd
        out.append(float(np.mean(off**2 if loss == "squared" else np.abs(off))))
    return tuple(out)


def rooted_worst(member: Member, error: float) -> float:
    """A standard deviation from a noisy variance, at worst: |sqrt(a) - sqrt(b)| <= sqrt(|a - b|).

    Squared, that is |a - b|, whose mean is at most the root of its mean square: a root both ways.
    """
    return math.sqrt(error) if member.aggregate.root else error


def _columns(member: Member) -> tuple[Column, ...]:
    context = member.context
    return context.columns or (() if context.column is None else (context.column,))


def _guesses(member: Member) -> tuple[float | None, ...]:
    return tuple(
        None
        if c.expected_sd is None or c.domain is None
        else float(c.expected_sd) / float(c.domain.width)
        for c in _columns(member)
    ) or (None,)
