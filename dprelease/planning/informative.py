"""Which statistics are expected to say nothing, and what would change that; decided before paying.

A statistic says nothing where its 95 % interval is its whole domain, a choice by rank where its 95 %
range of ranks is all rows. What a typical draw would give
is read from noisy integers that are the exact ones of a group of the declared size, without noise:
a count of that many rows, rows around the middle of their range and as close together as
`planning.spread` has it, any other scalar in the middle of its domain. The same reading as in a release then makes the
interval. A public guess, as all prices are; nothing drawn depends on it.

Units: epsilon in nats; sizes in rows per group.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dprelease.aggregates.base import Floats
from dprelease.aggregates.encoding import Encoding
from dprelease.aggregates.ranks import target
from dprelease.aggregates.simulated import simulated_cells
from dprelease.errors import DpreleaseError, VerificationError
from dprelease.measurements.constant import ConstantDraw
from dprelease.measurements.graph_box import BoxDraw
from dprelease.measurements.ranks import ChoiceDraw
from dprelease.measurements.reading import reading_of, seen_by
from dprelease.measurements.scalar import ScalarDraw
from dprelease.measurements.truncated_mean import MeanDraw
from dprelease.planning.choose import Candidate
from dprelease.planning.layout import Member
from dprelease.planning.pair_price import simulated_columns
from dprelease.planning.spread import spreads

__all__ = ["any_rank", "least_factor", "least_size", "says_nothing", "two_digits"]

LEVEL = 0.95
_LARGEST = 2**40
_MOST_FACTOR = 1024.0
_MOST_EPSILON = 100
_SOLVED = 8


def says_nothing(candidate: Candidate, member: Member, size: int, *, narrow: bool = True) -> bool:
    """Return whether a typical interval in a group of `size` rows is the whole domain.

    Args:
        narrow: at the narrow end of the spreads, where no guess says how far rows lie apart; False:
            where they fill their range.
    """
    draw, encoding = candidate.draw, candidate.encoding
    low_end, high_end = member.domain.hull
    if isinstance(draw, ConstantDraw) or low_end >= high_end:
        return False
    if isinstance(draw, ChoiceDraw):
        return any_rank(draw, target(encoding, member.view), size)
    raw = np.array(
        [[math.floor(c + 0.5) for c in _typical(candidate, member, size, narrow=narrow)]],
        dtype=object,
    )
    reading = reading_of(draw, raw, LEVEL)
    seen, _, own = seen_by(member.view, encoding, draw.cells(raw), reading)
    lower, upper = member.aggregate.interval(seen, own)
    return bool(np.all(lower <= low_end) and np.all(upper >= high_end))


def any_rank(draw: ChoiceDraw, encoding: Encoding, size: int) -> bool:
    """Return whether the 95 % range of ranks of a choice is all of `size` rows."""
    a, b, shift = encoding.weights[0]
    reach = draw.rank_error(b, LEVEL)
    if reach is None:
        return True
    aimed = min(size, abs(shift) // 2) if a in (0, b) else size * min(a, b - a) / b
    return bool(reach >= max(aimed, size - aimed))


def least_size(candidate: Candidate, member: Member, size: int) -> int | None:
    """Return about how many rows per group would say something at the same draw, to two digits."""
    return _least(
        lambda factor: not says_nothing(candidate, member, math.ceil(size * factor)), size
    )


def _least(says: Callable[[float], bool], size: int) -> int | None:
    factor = 1.0
    while not says(factor):
        factor *= 2
        if size * factor > _LARGEST:
            return None
    return math.ceil(two_digits(Fraction(size * _between(says, factor / 2, factor))))


def two_digits(value: Fraction) -> Fraction:
    """Return a number above 0 to two digits, rounded up: what is asked for must be enough."""
    unit = Fraction(10) ** (math.floor(math.log10(value)) - 1)
    return math.ceil(value / unit) * unit


def least_factor(says: Callable[[Fraction], bool], total: Fraction) -> Fraction | None:
    """Return about the least factor of the budget `total` at which `says` holds, to 3 %.

    None where neither 1,024 times it nor an epsilon of 100 would do: more is no advice.

    Args:
        says: prices the statistic at that multiple; a DpreleaseError counts as no.
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
    return Fraction(_between(holds, 1.0, most, steps=_SOLVED))


def _between(says: Callable[[float], bool], low: float, high: float, *, steps: int = 3) -> float:
    """Return a factor that does, near the least one: `low` does not, `high` does."""
    for _ in range(steps):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if says(middle) else (middle, high)
    return high


def _typical(candidate: Candidate, member: Member, size: int, *, narrow: bool) -> Floats:
    """Return the noisy integers of a group of `size` rows as they would be without noise."""
    draw, encoding = candidate.draw, candidate.encoding
    if isinstance(draw, BoxDraw):
        hulls = [law.allowed for law in draw.law.laws]
        return np.array([(h.lower + h.upper) / 2 for h in hulls])
    if isinstance(draw, MeanDraw):
        return np.array([size, (draw.allowed.lower + draw.allowed.upper) / 2])
    if encoding.family == "scalar":
        low, high = member.domain.hull
        if member.aggregate.root:  # the cell holds its square
            low, high = low * low, high * high
        counted = member.statistic.code is None and member.context.graph is None
        value = min(max(float(size), low), high) if counted else (low + high) / 2
        if isinstance(draw, ScalarDraw):
            place = (value - float(draw.origin)) / float(draw.step)
            allowed = draw.law.allowed
            return np.array([min(max(place, allowed.lower), allowed.upper)])
        return np.array([(value - float(encoding.offset)) / float(encoding.pitch)])
    cells = len(encoding.cells)
    if encoding.family in ("bins", "laplacian"):
        return np.full(
            cells, size / cells if encoding.family == "bins" else (encoding.upper or 0) / 2
        )
    spread = spreads(member, max(1, len(encoding.axes)))[-1 if narrow else 0]
    if encoding.axes:
        return simulated_cells(encoding, simulated_columns(spread, 0.5, 0.0), size)
    k = float(encoding.scale)
    if encoding.family == "two_sums":
        return np.array([size * k / 2, size * k / 2])
    square = 0.25 + spread[0] ** 2
    return size * k * k * np.array([square, 1 - 2 * square, square])
