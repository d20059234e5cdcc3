"""The interval of a quotient of two least-squares estimates, by Fieller's pivot.

At the true quotient t = S / C the form S - t C is exactly 0, so its estimate is noise alone:
X_S - t X_C, two independent combinations of draws. The range that t may have is cut into short cells
[a, b] with the middle m, and in each

    |X_S - t X_C| <= |X_S - m X_C| + (b - a) / 2 |X_C|,

the first at level + e, the second at 1 - e. Those bounds, the *critical values* of a cell, are public and stand
in the plan. Where classes of cells are too many for a quantile per cell, the two parts are bounded
apart, each at half the risk. What is not ruled out in any cell is the interval: it covers at the level for
tiny denominators too. An estimate of S beyond what C and the domain allow is moved to the nearest that they do, which
is nearer to every t C of it: no noise, however large, leaves a single point. Where C is not above 0 nothing is said.

Units    of the two estimates: t in steps of the first per step of the second.
Sources  `docs/theory/publications-that-add-up.md#quotients-of-fitted-cells`; the pivot: Fieller 1954.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dprelease.core.errors import PlanError
from dprelease.fitting.estimate import ONE, Estimator, alike
from dprelease.fitting.structure import IntArray
from dprelease.intervals.law import SumLaw, quantile_of
from dprelease.intervals.quotient import middle

Floats = npt.NDArray[np.float64]

MOST = 4096
"""More classes of cells than that are refused."""
_JOINT = 256
"""For more classes the two parts are bounded apart."""
_REST_RISK = 0.02
"""e, as a part of the risk."""
_ROOM = 1e-12


@dataclass(frozen=True, slots=True)
class CriticalValues:
    """How far S - t C may be from 0.

    Attributes:
        low, high: the range of t, which is cut into cells.
        cells: per class of the table's cells, the critical value in every cell of the range, in steps.
        bend: 1 for cells of one length; more where they get finer towards `low`, for a range that is wider
            than its likely values.
    """

    low: int
    high: int
    cells: tuple[tuple[Fraction, ...], ...]
    bend: int = 1

    @property
    def edges(self) -> list[Fraction]:
        return _edges(self.low, self.high, len(self.cells[0]), self.bend)


def classes_of(top: Estimator, bottom: Estimator, table: str) -> IntArray:
    """Return the class of every cell of a table: within one, both errors have one law."""
    return alike(np.stack([top.classes(table), bottom.classes(table)], axis=1), axis=0)


def critical_values(
    top: Estimator,
    bottom: Estimator,
    table: str,
    low: int,
    high: int,
    level: float = 0.95,
    bend: int = 1,
) -> CriticalValues:
    """Return the critical values per class of a table's cells, for t in [low, high].

    Raises:
        PlanError: the table has too many classes of cells (DPR286).
    """
    _, first = np.unique(classes_of(top, bottom, table), return_index=True)
    if first.size > MOST:
        raise PlanError(
            f"quotients in table `{table}` need {first.size:,} different error laws",
            why="cells in branches of different sizes have errors of different laws; "
            f"at most {MOST:,} laws are supported",
            fix="publish the two sums, or a coarser table",
            code="DPR286",
        )
    if first.size > _JOINT:
        edges = _edges(low, high, 8, bend)
        return CriticalValues(low, high, _apart(top, bottom, table, first, edges, level), bend)
    pieces = 64 if first.size <= _JOINT // 4 else 32
    edges = _edges(low, high, pieces, bend)
    found = [
        _together(top.law(table, cell), bottom.law(table, cell), edges, level)
        for cell in first.tolist()
    ]
    return CriticalValues(low, high, tuple(found), bend)


def _edges(low: int, high: int, pieces: int, bend: int) -> list[Fraction]:
    return [low + Fraction(k, pieces) ** bend * (high - low) for k in range(pieces + 1)]


def _together(
    top: SumLaw, bottom: SumLaw, edges: Sequence[Fraction], level: float
) -> tuple[Fraction, ...]:
    risk = _REST_RISK * (1 - level)
    most = quantile_of(bottom, 1 - risk)
    known: dict[Fraction, Fraction] = {}
    out = []
    for a, b in pairwise(edges):
        middle = abs(a + b) / 2  # the law is symmetric in the sign of t
        if middle not in known:
            law = SumLaw.weighted_sum([(top, 1.0, 1), (bottom, float(middle), 1)])
            known[middle] = quantile_of(law, level + risk)
        out.append(known[middle] + most * (b - a) / 2)
    return tuple(out)


def _apart(
    top: Estimator,
    bottom: Estimator,
    table: str,
    first: IntArray,
    edges: Sequence[Fraction],
    level: float,
) -> tuple[tuple[Fraction, ...], ...]:
    half = 1 - (1 - level) / 2
    sizes = [max(abs(a), abs(b)) for a, b in pairwise(edges)]
    known: dict[tuple[bool, int], Fraction] = {}

    def quantile(each: Estimator, cell: int) -> Fraction:
        kind = each is top, int(kinds[each is top][cell])
        if kind not in known:
            known[kind] = quantile_of(each.law(table, cell), half)
        return known[kind]

    kinds = {True: top.classes(table), False: bottom.classes(table)}
    return tuple(
        tuple(quantile(top, cell) + size * quantile(bottom, cell) for size in sizes)
        for cell in first.tolist()
    )


def ends_of_quotient(
    critical: CriticalValues,
    classes: IntArray,
    top: Sequence[int],
    bottom: Sequence[int],
    slack: tuple[Fraction, Fraction],
    within: tuple[float, float] = (-np.inf, np.inf),
) -> tuple[Floats, Floats]:
    """Return the ends of every cell's interval, met with `within`. Sums, products and quotients of doubles: the same everywhere.

    Args:
        top, bottom: the estimates, in `ONE`ths of a step; slack: what rounding moved them by, in steps.
        within: the values of its domain, to which the quotient is cut.
    """
    s, c = _steps(top), _steps(bottom)
    first, last = max(within[0], critical.low), min(within[1], critical.high)
    s = np.clip(s, first * c, last * c)
    edges = [float(edge) for edge in critical.edges]
    own = np.array([[float(r) for r in cells] for cells in critical.cells])[classes]
    low, high = np.full(s.size, np.inf), np.full(s.size, -np.inf)
    for k, (a, b) in enumerate(pairwise(edges)):
        widest = max(abs(a), abs(b))
        far = own[:, k] + float(slack[0]) + widest * float(slack[1])
        far = far * (1 + _ROOM) + _ROOM * (np.abs(s) + widest * np.abs(c))
        least, most = _between(s, c, far, a, b)
        some = least <= most
        low = np.where(some, np.minimum(low, least), low)
        high = np.where(some, np.maximum(high, most), high)
    nothing = (c <= 0) | (low > high)
    low, high = np.where(nothing, first, low), np.where(nothing, last, high)
    return np.clip(low, first, last), np.clip(high, first, last)


def _between(s: Floats, c: Floats, far: Floats, a: float, b: float) -> tuple[Floats, Floats]:
    """Return the ends of all t in [a, b] with |s - t c| <= far, c > 0; crossed where there are none."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        least, most = (s - far) / c, (s + far) / c
    room = _ROOM * max(abs(a), abs(b))
    return np.maximum(least - room, a), np.minimum(most + room, b)


def middle_of_quotient(
    critical: CriticalValues, top: Sequence[int], bottom: Sequence[int]
) -> Floats:
    """Return the median-unbiased estimate, kept to the range; NaN where no signal is left."""
    return middle(_steps(top), _steps(bottom), (critical.low, critical.high))


def _steps(values: Sequence[int]) -> Floats:
    return np.array([value / ONE for value in values], dtype=np.float64)
