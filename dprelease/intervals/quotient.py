"""The interval of a quotient of two linear forms by Fieller's pivot, for many rows of one law at once.

At the true s = T / B the form T - s B is 0, so its noisy value is noise alone, X_s, whatever the cells are. Every s at
which that value is not too far out belongs to the interval: it covers at the level, for tiny denominators too. For
any s and m

    |X_s| <= |X_m| + |s - m| |X_B|,

the first part at level + e, the second at 1 - e (union bound), so the quantile at one `m` bounds the form at every s,
and each s may take the least of these bounds. The `m` are rational, of one grid: weights of X_m then mostly lie on a
lattice. From the low end of the range the interval's end is climbed to: what the bound at the grid's point below a
place rules out next is left out, again and again (mirrored for the high end). Beyond [-1, 1] the form is B + v T with
v = -1 / s, so that a quotient may be infinite, where the noise may outweigh the denominator.

Units: s in units of the larger form (`_frame`). Shapes: rows. Sources: Fieller 1954; `docs/theory/intervals.md#derived-values`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dprelease.intervals.few import quantiles
from dprelease.intervals.law import quantile
from dprelease.intervals.noise import IntegerNoise, Laplace, Term

Floats = npt.NDArray[np.float64]
Ends = tuple[float, float]
Part = tuple[IntegerNoise, int, Fraction, Fraction]
"""A noise, how many draws of it, and their weight in the top and in the bottom."""

_GRID = 512
"""The m are whole multiples of 1 / _GRID, of forms in closed form; of others each law takes its time, and every fourth is one."""
_BESIDE = 0.01
"""e, as a part of the risk."""
_WIDE = 10
"""Laplace noise of so many steps is told by a closed form, a step wider per draw."""
_CLOSED = 3
"""Most draws of a closed form: it cancels where more weights are alike."""
_ROUNDS = 24
_POINTS = 2**13
ROOM = 1e-9


class _Frame(NamedTuple):
    """Units of a quotient: s = (quotient - centre) / unit, and the parts of T - centre B and unit B."""

    parts: tuple[Part, ...]
    centre: float
    unit: float


@lru_cache(maxsize=4096)
def _frame(parts: tuple[Part, ...], within: Ends) -> _Frame:
    """Return the units: a range becomes [-1, 1], if T errs about as much as B times its width; else they err alike."""
    found = [(noise, n, _short(t), _short(b)) for noise, n, t, b in parts]
    centre = unit = Fraction(0)
    if all(map(math.isfinite, within)) and within[0] < within[1]:
        low, high = map(Fraction, within)
        centre, unit = (low + high) / 2, (high - low) / 2
    top = _spread(found, lambda t, b: t - centre * b)
    natural, bottom = top, _spread(found, lambda _, b: b)
    if bottom:
        natural = top / bottom
    if not unit or (bottom and not 0.25 * float(unit) <= natural <= 4 * float(unit)):
        natural = _spread(found, lambda t, _: t) / bottom if bottom else 1.0
        centre, unit = Fraction(0), Fraction(2) ** (round(math.log2(natural)) if natural else 0)
    framed = [(noise, n, t - centre * b, b * unit) for noise, n, t, b in found]
    framed.sort(key=lambda part: (part[2], part[3], repr(part[0])))
    return _Frame(tuple(framed), float(centre), float(unit))


def _spread(parts: Sequence[Part], weight: Callable[[Fraction, Fraction], Fraction]) -> float:
    """Return the standard deviation of a form, from its weight of each part."""
    each = (n * float(noise.variance()) * float(weight(t, b)) ** 2 for noise, n, t, b in parts)
    return math.sqrt(sum(each))


def _short(weight: Fraction) -> Fraction:
    """Return the weight with 12 digits where it is long: forms that differ by rounding are one (`ROOM`)."""
    return weight if weight.denominator <= 2**32 else Fraction(f"{float(weight):.12g}")


class _Critical:
    """Critical values of one shape and level; each law is made once, for all quotients of the shape."""

    def __init__(self, parts: tuple[Part, ...], level: float) -> None:
        risk = 1 - level
        self._parts, self._level = parts, level + _BESIDE * risk
        self._wide = (
            all(isinstance(noise, Laplace) and noise.scale >= _WIDE for noise, _, _, _ in parts)
            and sum(p[1] for p in parts) <= _CLOSED
        )
        self.grid = _GRID if self._wide else _GRID // 4
        sides = [(Fraction(0), Fraction(1)), (Fraction(1), Fraction(0))]
        self.turns = self._quantiles(sides, 1 - _BESIDE * risk)
        self._known: tuple[dict[int, float], dict[int, float]] = ({}, {})

    def at(self, beyond: bool, places: npt.NDArray[np.int64]) -> Floats:
        """Return the critical values of T - m B, or (`beyond`) of B + m T, at the grid's points m."""
        known = self._known[beyond]
        wanted, back = np.unique(places, return_inverse=True)
        new = [k for k in wanted.tolist() if k not in known]
        points = [Fraction(k, self.grid) for k in new]
        sides = [(m, Fraction(1)) if beyond else (Fraction(1), -m) for m in points]
        known.update(zip(new, self._quantiles(sides, self._level), strict=True))
        return np.array([known[k] for k in wanted.tolist()])[back]

    def _quantiles(self, sides: Sequence[tuple[Fraction, Fraction]], level: float) -> list[float]:
        """Return the quantiles of x T + y B."""
        if self._wide and sides:
            return self._closed(np.array(sides, dtype=np.float64), level)
        out = []
        for x, y in sides:
            counted: Counter[tuple[IntegerNoise, Fraction]] = Counter()
            for noise, n, t, b in self._parts:
                counted[noise, abs(t * x + b * y)] += n
            terms = tuple(
                Term(noise, n, weight) for (noise, weight), n in counted.items() if weight
            )
            out.append(quantile(terms, level, points=_POINTS) * (1 + ROOM))
        return out

    def _closed(self, sides: Floats, level: float) -> list[float]:
        each = [
            (noise.scale, (float(t), float(b)))
            for noise, n, t, b in self._parts
            if isinstance(noise, Laplace)
            for _ in range(n)
        ]
        weights = np.abs(sides @ np.array([w for _, w in each]).T)
        scaled = weights * np.array([scale for scale, _ in each])
        nothing = np.zeros(len(sides))
        some = scaled.max(axis=1) > 0
        nothing[some] = quantiles(scaled[some], level) + weights[some].sum(axis=1)
        found: list[float] = (nothing * (1 + ROOM)).tolist()
        return found


_critical = lru_cache(maxsize=4096)(_Critical)


def ends(
    parts: tuple[Part, ...],
    level: float,
    top: Floats,
    bottom: Floats,
    moved: Ends,
    within: Ends,
) -> tuple[Floats, Floats]:
    """Return the ends of the intervals of `top / bottom` at `level`, inside `within`; infinite where nothing bounds it.

    Args:
        parts: the noise of both forms.
        moved: how far the two forms may have been moved by rounding.
    """
    frame = _frame(parts, within)
    critical = _critical(frame.parts, level)
    top, bottom = top - frame.centre * bottom, bottom * frame.unit
    top, bottom = np.where(bottom < 0, -top, top), np.abs(bottom)
    low, high = ((end - frame.centre) / frame.unit for end in within)
    # An estimate beyond what is possible is moved to the nearest that is: nearer to every s B.
    if math.isfinite(low):
        top = np.maximum(top, low * bottom)
    if math.isfinite(high):
        top = np.minimum(top, high * bottom)
    slack = moved[0] + moved[1] * (abs(frame.centre) + frame.unit)
    least = frame.centre + frame.unit * _lowest(critical, 1, top, bottom, (low, high), slack)
    most = frame.centre - frame.unit * _lowest(critical, -1, -top, bottom, (-high, -low), slack)
    return np.maximum(least, within[0]), np.minimum(most, within[1])


def _lowest(
    critical: _Critical,
    sign: int,
    top: Floats,
    bottom: Floats,
    within: Ends,
    slack: float,
) -> Floats:
    """Return the least s that is not ruled out; `sign` -1: of the mirrored form, where `top` has the other sign."""
    low, high = within
    out = np.full(top.shape, high)
    rows = np.arange(top.size)

    def part(first: float, last: float, beyond: bool, t: Floats, b: Floats) -> None:
        nonlocal rows
        if not rows.size or first > last:
            return
        at = _climbed(critical, beyond, sign, (t[rows], b[rows]), (first, last), slack)
        found = (at < last) | (last == (_turned(high) if beyond else high))
        with np.errstate(divide="ignore"):
            out[rows[found]] = (-1 / at if beyond else at)[found]
        rows = rows[~found]

    if low < -1:
        part(_turned(low), min(1.0, _turned(high) if high < -1 else 1.0), True, bottom, -top)
    part(max(low, -1.0), min(high, 1.0), False, top, bottom)
    if high > 1:
        part(max(-1.0, _turned(low) if low > 1 else -1.0), _turned(high), True, -bottom, top)
    return out


def _turned(s: float) -> float:
    return -1 / s if s else -math.inf


def _climbed(
    critical: _Critical,
    beyond: bool,
    sign: int,
    forms: tuple[Floats, Floats],
    within: Ends,
    slack: float,
) -> Floats:
    """Return the least x in `within` that no bound rules out: t - x b <= q(m) + (x - m) r for the m below it."""
    (t, b), turn = forms, critical.turns[beyond]
    grid = critical.grid
    at, before = np.full(t.shape, within[0] + 0.0), np.full(t.shape, -2 * grid)
    for _ in range(_ROUNDS):
        place = np.floor(at * grid).astype(np.int64)
        if (place == before).all():
            break
        q = critical.at(beyond, sign * place) + slack
        rest = t - q + place / grid * turn - ROOM * (np.abs(t) + np.abs(b))
        with np.errstate(divide="ignore", invalid="ignore"):
            bound = np.where(b + turn > 0, rest / (b + turn), np.where(rest > 0, np.inf, -np.inf))
        at, before = np.clip(np.maximum(at, bound), None, within[1]), place
    return at
