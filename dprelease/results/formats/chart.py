"""The geometry that all charts share: windows, scales, ticks and bands; numbers to positions, no markup.

Report, plan page, series page and notebook draw with these. A chart differs in what it shows and
where (`plots`, `budget_figures`, `plan_page`, `series.plots`, `picture`), not in how a number
becomes a position.

A window is a function of released values only: it holds every value that says something and every
interval that is not far wider than the others (`VAGUE` times the median), so that one vague group
does not flatten the rest. What leaves it is cut at its edge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

VAGUE = 4.0

Window = tuple[float, float]
"""The least and the greatest number of a chart."""


class Point(NamedTuple):
    """One released value with its interval; `weak` values say nothing and never set the window."""

    value: float
    lower: float
    upper: float
    weak: bool


def point(value: float | None, lower: float | None, upper: float | None, *, weak: bool) -> Point:
    """Return what is drawn of a row: no dot where there is no value, no bar of what says nothing that does not end."""
    shown = math.inf if value is None else value
    if lower is None or upper is None:
        return Point(shown, shown, shown, weak or value is None)
    known = math.isfinite(lower) + math.isfinite(upper)
    bounded = known == 2 or (known == 1 and not weak and value is not None)
    ends = (lower, upper) if bounded else (shown, shown)
    return Point(shown, *ends, weak or value is None or not bounded)


@dataclass(frozen=True, slots=True)
class Tick:
    """A number beside an axis, at a position along it."""

    at: float
    label: str
    anchor: str = "middle"


class Band(NamedTuple):
    """A stretch along one axis, from `at` on."""

    at: float
    width: float


@dataclass(frozen=True, slots=True)
class Scale:
    """Where the numbers from `low` to `high` stand between the positions `first` and `last`.

    Positions are percentages across or pixels down, rounded to `digits`; down, `first` is below
    `last`.
    """

    low: float
    high: float
    first: float = 0.0
    last: float = 100.0
    digits: int = 3

    def position(self, number: float) -> float:
        """Return the position of a number, outside the window too."""
        share = (number - self.low) / (self.high - self.low)
        return round(self.first + (self.last - self.first) * share, self.digits) + 0.0

    def inside(self, number: float) -> float:
        """Return the position of a number, of one outside the window that of the nearer end."""
        return self.position(min(max(number, self.low), self.high))

    def bands(self, intervals: Sequence[tuple[float, float]]) -> tuple[Band, ...]:
        """Return the parts of the intervals that lie inside the window."""
        seen = [(a, b) for a, b in intervals if b > self.low and a < self.high]
        ends = [sorted((self.inside(a), self.inside(b))) for a, b in seen]
        return tuple(Band(a, round(b - a, self.digits)) for a, b in ends)


def has_width(low: float, high: float) -> bool:
    """Return whether doubles between the ends are plenty: ticks and positions need them."""
    return high - low > max(1e-300, 1e-12 * max(abs(low), abs(high)))


def window(points: Sequence[Point], hull: Window, *, pad: float = 0.0) -> Window:
    """Return the window of the points of a domain between the ends `hull`; it has a width.

    Args:
        pad: the share of its width that is added at both ends, as far as the domain goes.
    """
    clear = [p for p in points if not p.weak]
    low, high = hull if all(map(math.isfinite, hull)) else (0.0, 1.0)
    if clear:
        widths = [w for p in clear if math.isfinite(w := p.upper - p.lower)]
        usual = median(widths or [0.0])
        near = [p for p in clear if p.upper - p.lower <= VAGUE * usual]
        low = min([p.value for p in clear] + [p.lower for p in near])
        high = max([p.value for p in clear] + [p.upper for p in near])
        margin = (high - low) * pad
        low, high = max(low - margin, hull[0]), min(high + margin, hull[1])
        if 0 < low < 0.25 * high and hull[0] <= 0:  # as well show where the numbers begin
            low = 0.0
    return (low, high) if has_width(low, high) else _widened(low, hull)


def _widened(value: float, hull: Window) -> Window:
    """Return a window around one value, inside the domain where that has a width."""
    half = max(abs(value), 1.0) * 0.5
    wide = value - half, value + half
    low, high = max(wide[0], hull[0]), min(wide[1], hull[1])
    return (low, high) if has_width(low, high) else wide


def ticks(low: float, high: float, about: int = 5) -> tuple[list[float], int]:
    """Return multiples of 1, 2 or 5 times a power of ten in [low, high], and their decimals."""
    if not has_width(low, high):
        return [low], 0 if float(low).is_integer() else 2
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    spacing = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / spacing - 1e-9)
    last = math.floor(high / spacing + 1e-9)
    decimals = max(0, -math.floor(math.log10(spacing) + 1e-9))
    return [round(k * spacing, decimals) + 0.0 for k in range(first, last + 1)], decimals


def log_ticks(low: float, high: float, most: int = 5) -> list[tuple[float, float]]:
    """Return 1, 2 or 5 times powers of ten between 10^low and 10^high as (log10, number).

    Powers of ten alone where these are many, and of them about `most`.
    """
    inside: list[tuple[float, float]] = []
    for factors in ((1, 2, 5), (1, 3), (1,)):
        found = [
            (power + math.log10(f), f * 10.0**power)
            for power in range(math.floor(low) - 1, math.ceil(high) + 1)
            for f in factors
        ]
        inside = [(log, number) for log, number in found if low <= log <= high]
        if len(inside) <= most:
            break
    return inside[:: 1 + len(inside) // (most + 1)]


def slots(count: int, share: float, *, least: int = 1) -> tuple[Band, ...]:
    """Return `count` equal places side by side, of whose width a `share` in the middle is used.

    Positions are percentages. With fewer than `least` places the rest of the width stays empty.
    """
    each = 100 / max(count, least)
    aside = (1 - share) / 2
    return tuple(Band(round(each * (i + aside), 3), round(each * share, 3)) for i in range(count))
