"""Which statistics are expected to say nothing, and what would change that; decided before paying.

A statistic says nothing where its 95 % interval is its whole domain, a choice by rank where its 95 %
range of ranks is all rows. What a typical draw would give
is read from noisy integers that are the exact ones of a group of the declared size, without noise:
a count of that many rows, rows around the middle of their range and as close together as
`measurements.spread` has it, any other scalar in the middle of its domain. The same reading as in a release then makes the
interval. A public guess, as all prices are; nothing drawn depends on it.

Units: epsilon in nats; sizes in rows per group.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dprelease.core.errors import DpreleaseError, VerificationError
from dprelease.measurements.base import family_of, seen_by
from dprelease.measurements.candidate import Candidate
from dprelease.measurements.members import Member

LEVEL = 0.95
_LARGEST = 2**40
_MOST_FACTOR = 1024.0
_MOST_EPSILON = 100
_SOLVED = 8

Near = list[float]
"""Two factors, of which the first did not and the second did, for the statistic before; empty where none was found."""


def says_nothing(candidate: Candidate, member: Member, size: int, *, narrow: bool = True) -> bool:
    """Return whether a typical interval in a group of `size` rows is the whole domain.

    Args:
        narrow: at the narrow end of the spreads, where no guess says how far rows lie apart; False:
            where they fill their range.
    """
    law, measurement = candidate.law, candidate.measurement
    low_end, high_end = member.domain.hull
    if low_end >= high_end:
        return False
    kind = family_of(measurement)
    known = kind.mute(law, measurement, size, view=member.view)
    if known is not None:
        return known
    typical = kind.typical(candidate, member, size, narrow=narrow)
    raw = np.array([[math.floor(c + 0.5) for c in typical]], dtype=object)
    reading = law.reading(raw, LEVEL)
    seen, _, own = seen_by(member.view, measurement, law.cells(raw), reading)
    lower, upper = member.kind.interval(seen, own)
    return bool(np.all(lower <= low_end) and np.all(upper >= high_end))


def least_size(candidate: Candidate, member: Member, size: int, near: Near) -> int | None:
    """Return about how many rows per group would say something at the same draw, to two digits.

    Args:
        size: rows that say nothing.
        near: as in `least_factor`.
    """

    def holds(factor: float) -> bool:
        return not says_nothing(candidate, member, math.ceil(size * factor))

    says, factor = _known_once(holds, near), 1.0
    if not says(2.0 ** math.floor(math.log2(_LARGEST / size))):
        return None
    while not says(factor):
        factor *= 2
    near[:] = _between(says, factor / 2, factor)
    return math.ceil(two_digits(Fraction(size * near[1])))


def two_digits(value: Fraction) -> Fraction:
    """Return a number above 0 to two digits, rounded up: what is asked for must be enough."""
    unit = Fraction(10) ** (math.floor(math.log10(value)) - 1)
    return math.ceil(value / unit) * unit


def least_factor(says: Callable[[Fraction], bool], total: Fraction, near: Near) -> Fraction | None:
    """Return about the least factor of the budget `total` at which `says` holds, to 3 %.

    None where neither 1,024 times it nor an epsilon of 100 would do: more is not advice.

    Args:
        says: prices the statistic at that multiple; a DpreleaseError counts as no.
        near: what was found for another statistic, which is tried first; then what is found.
    """

    def holds(factor: float) -> bool:
        try:
            return says(Fraction(factor))
        except VerificationError:  # a verifier's time is over: that says nothing of the price
            raise
        except DpreleaseError:
            return False

    most = min(_MOST_FACTOR, float(_MOST_EPSILON / total))
    if most <= 1 or not holds(most):
        return None
    near[:] = _between(_known_once(holds, near), 1.0, most, steps=_SOLVED)
    return Fraction(near[1])


def _known_once(says: Callable[[float], bool], near: Near) -> Callable[[float], bool]:
    """Return `says`, which holds from some factor above 1 on, and so is asked only between what is known, first `near`."""
    known = [1.0, math.inf]

    def answer(factor: float) -> bool:
        if known[0] < factor < known[1]:
            known[says(factor)] = factor
        return factor >= known[1]

    for factor in reversed(near):
        answer(factor)
    return answer


def _between(says: Callable[[float], bool], low: float, high: float, *, steps: int = 3) -> Near:
    """Return two factors, close together: the first does not, the second does, as `low` and `high`."""
    for _ in range(steps):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if says(middle) else (middle, high)
    return [low, high]
