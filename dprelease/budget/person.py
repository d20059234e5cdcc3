"""What a whole person can lose, where the unit is one person's rows of an interval.

Law      A person who is in k intervals of an entry's window is k units: the group rule bounds what that entry
         costs them by k epsilon (docs/theory/composition.md#over-time). Entries add up. k is at most the intervals that the window
         meets; an entry without a window has no bound, and then there is none.
Units    epsilon in nats, exact.
Limits   epsilon alone: an entry's delta grows faster than k times, by the factor that the theory states.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dprelease.budget.record import Entry
from dprelease.budget.timeline import Timeline, instant

__all__ = ["person_epsilon"]


def person_epsilon(entries: Sequence[Entry], line: Timeline) -> Fraction | None:
    """Return what one person in every interval loses at most over all entries, None for no bound."""
    if line.per is None:
        return None
    total = Fraction(0)
    for entry in entries:
        start, end = (None if text is None else instant(text) for text in entry.window)
        count = line.met((start, end))
        if count is None:
            return None
        total += count * entry.epsilon
    return total
