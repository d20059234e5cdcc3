"""How far the pivot of a ratio may be from 0, where it has many different terms.

The pivot at an angle is F(angle) = cos(angle) T - sin(angle) B (`reading.ratio_interval`). In a cell of
angles of half width d about m,

    |F(angle)| <= |F(m)| + sin(d) |F(m + pi / 2)|,    |F(m + pi / 2)| <= |sin m| |T| + |cos m| |B|,

so a quantile of |F(m)| at level + e and two of |T| and |B| at 1 - e / 2 bound |F| in the cell at the level.
T and B, each at half the risk, bound F in every cell, too, without a law of its own. Cells are halved
only at the two ends of the interval: what lies outside has to be ruled out, what lies between them is taken in.

Source: `docs/theory/intervals.md#derived-values`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dprelease.intervals.law import quantile
from dprelease.intervals.noise import IntegerNoise, Term

Shape = tuple[tuple[IntegerNoise, int, float, float], ...]
"""Per term: law, how many, weight in the top, weight in the bottom; both of norm 1."""

_BESIDE = 1e-6
"""e, as a part of the risk 1 - level."""
_FIRST, _LAST = 16, 512
"""Cells that are looked at first, and the most that the half circle is cut into."""
_ROUND = 1 + 1e-12

Cell = tuple[float, float]


class CriticalValue:
    """Bounds of |F| for one shape and level; each law is made once, for all ratios of the shape."""

    def __init__(self, shape: Shape, level: float) -> None:
        self._shape, risk = shape, 1 - level
        self._level = level + _BESIDE * risk
        self._half = [self._quantile(a, 1 - risk / 2) for a in (0.0, math.pi / 2)]
        self._beside = [self._quantile(a, 1 - _BESIDE * risk / 2) for a in (0.0, math.pi / 2)]
        self._at: dict[float, float] = {}
        both = sum(m * float(noise.variance()) * t * b for noise, m, t, b in shape)
        self._covariance = float(both)

    def crude(self, cell: Cell) -> float:
        """Return a bound in a cell of angles, from the quantiles of T and B."""
        a, b = cell
        cosine = 1.0 if a <= 0 <= b else max(math.cos(a), math.cos(b))
        sine = max(abs(math.sin(a)), abs(math.sin(b)))
        return (cosine * self._half[0] + sine * self._half[1]) * _ROUND

    def fine(self, cell: Cell) -> float:
        """Return a bound in a cell, from the law of F in its middle."""
        middle, half = (cell[0] + cell[1]) / 2, (cell[1] - cell[0]) / 2
        if middle not in self._at:
            self._at[middle] = self._quantile(middle, self._level)
        return (self._at[middle] + math.sin(half) * self._turned(middle)) * _ROUND

    def hoped(self, cell: Cell) -> float:
        """Return what `fine` will hardly be less than: no bound, and no law is made for it."""
        middle, half = (cell[0] + cell[1]) / 2, (cell[1] - cell[0]) / 2
        spread = math.sqrt(max(0.0, 1 - math.sin(2 * middle) * self._covariance))
        return 0.8 * min(self._half) * spread + math.sin(half) * self._turned(middle)

    def _turned(self, middle: float) -> float:
        top, bottom = self._beside
        return abs(math.sin(middle)) * top + abs(math.cos(middle)) * bottom

    def _quantile(self, angle: float, level: float) -> float:
        cosine, sine = math.cos(angle), math.sin(angle)
        found = ((noise, m, abs(t * cosine - b * sine)) for noise, m, t, b in self._shape)
        return quantile(tuple(Term(noise, m, Fraction(w)) for noise, m, w in found if w), level)


@lru_cache(maxsize=4096)
def critical_of_many(shape: Shape, level: float) -> CriticalValue:
    """Return the bounds of a shape at a level."""
    return CriticalValue(shape, level)


@dataclass(frozen=True, slots=True)
class _Search:
    """The end of the interval that is nearest to one side."""

    critical: CriticalValue
    out: Callable[[Cell, float], bool]
    within: Cell
    from_left: bool

    def find(self, cell: Cell) -> tuple[Cell, float] | None:
        """Return the first cell that is not ruled out, and its bound; None if all are."""
        if cell[1] < self.within[0] or cell[0] > self.within[1]:
            return None
        crude = self.critical.crude(cell)
        if self.out(cell, crude):
            return None
        last = cell[1] - cell[0] <= math.pi / _LAST * 1.5
        if last or self.out(cell, self.critical.hoped(cell)):
            bound = min(crude, self.critical.fine(cell))
            if self.out(cell, bound):
                return None
            if last:
                return cell, bound
        middle = (cell[0] + cell[1]) / 2
        halves = [(cell[0], middle), (middle, cell[1])]
        for part in halves if self.from_left else halves[::-1]:
            found = self.find(part)
            if found is not None:
                return found
        return None


def cells_of_many(
    shape: Shape, level: float, within: Cell, out: Callable[[Cell, float], bool]
) -> list[tuple[Cell, float]]:
    """Return cells that hold every angle that is not ruled out, with a bound of |F| in each, right at `level`.

    Args:
        within: the angles that are possible.
        out: whether a bound rules out a cell.
    """
    critical = critical_of_many(shape, level)
    width = math.pi / _FIRST
    cells = [(-math.pi / 2 + i * width, -math.pi / 2 + (i + 1) * width) for i in range(_FIRST)]
    ends = []
    for from_left in (True, False):
        search = _Search(critical, out, within, from_left)
        found = (search.find(cell) for cell in (cells if from_left else cells[::-1]))
        ends.append(next((one for one in found if one is not None), None))
    first, last = ends
    if first is None or last is None:
        return []
    if first[0] == last[0]:
        return [first]
    between = (first[0][1], last[0][0])
    return [first, last] if between[0] >= between[1] else [first, (between, math.inf), last]
