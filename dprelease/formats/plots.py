"""Geometry of the report's pictures: numbers to positions, no markup.

Horizontal positions are percentages of the plot's width, so that text keeps its size when a page
gets narrow; vertical ones are pixels. The visible window is a function of released values only.

A dot plot shows one statistic over groups. Its window holds every informative value and every
interval that is not far wider than the others (more than 4 times the median): one vague group
must not flatten the rest, so its interval is cut at the window's edge and marked as cut.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from dprelease.formats.numbers import reading_text

__all__ = ["Bars", "DotPlot", "Point", "bars", "dot_plot", "nice_ticks"]

ROW = 26
TOP = 6
AXIS = 26
STRIP = 40
BAR_TOP = 8
BAR_HEIGHT = 84
VAGUE = 4.0


@dataclass(frozen=True, slots=True)
class Tick:
    at: float
    label: str
    anchor: str = "middle"


@dataclass(frozen=True, slots=True)
class Band:
    at: float
    width: float


@dataclass(frozen=True, slots=True)
class Mark:
    """A dot at (`at`, `y`) with an error bar from `low` to `high`; cut ends leave the window.

    Only a weak value can lie outside the window; then there is no dot.
    """

    at: float
    low: float
    high: float
    y: int
    cut_low: bool
    cut_high: bool
    weak: bool
    outside: bool


@dataclass(frozen=True, slots=True)
class Strip:
    """The whole allowed range, with its gaps and the window that the plot shows."""

    y: int
    gaps: tuple[Band, ...]
    window: Band
    low: str
    high: str


@dataclass(frozen=True, slots=True)
class DotPlot:
    height: int
    base: int
    ticks: tuple[Tick, ...]
    gaps: tuple[Band, ...]
    walls: tuple[float, ...]
    marks: tuple[Mark, ...]
    strip: Strip | None
    row: int = ROW
    top: int = TOP


@dataclass(frozen=True, slots=True)
class Bar:
    at: float
    width: float
    y: float
    height: float
    low: float
    high: float
    middle: float


@dataclass(frozen=True, slots=True)
class Bars:
    height: int
    base: int
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """One released value with its interval; `weak` values say nothing and never set the window."""

    value: float
    lower: float
    upper: float
    weak: bool


def nice_ticks(low: float, high: float, about: int = 5) -> tuple[list[float], int]:
    """Return multiples of 1, 2 or 5 times a power of ten in [low, high], and their decimals."""
    span = high - low
    if not _has_width(low, high):
        return [low], 0 if float(low).is_integer() else 2
    raw = span / about
    power = 10.0 ** math.floor(math.log10(raw))
    pitch = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / pitch - 1e-9)
    last = math.floor(high / pitch + 1e-9)
    decimals = max(0, -math.floor(math.log10(pitch) + 1e-9))
    return [round(k * pitch, decimals) + 0.0 for k in range(first, last + 1)], decimals


def dot_plot(
    points: Sequence[Point],
    hull: tuple[float, float],
    gaps: Sequence[tuple[float, float]],
    ends: tuple[str, str],
) -> DotPlot:
    """Return the picture of one statistic; `points` in row order, `ends` name the hull's ends."""
    low, high = _window(points, hull)

    def at(x: float) -> float:
        return round(100 * (x - low) / (high - low), 3)

    def inside(x: float) -> float:
        return at(min(max(x, low), high))

    marks = tuple(
        Mark(
            at=inside(p.value),
            low=inside(p.lower),
            high=inside(p.upper),
            y=TOP + ROW * i + ROW // 2,
            cut_low=p.lower < low,
            cut_high=p.upper > high,
            weak=p.weak,
            outside=not low <= p.value <= high,
        )
        for i, p in enumerate(points)
    )
    base = TOP + ROW * len(points)
    ticks, decimals = nice_ticks(low, high)
    shown = tuple(
        Band(inside(a), round(inside(b) - inside(a), 3)) for a, b in gaps if b > low and a < high
    )
    strip = None
    whole = hull[1] - hull[0]
    if math.isfinite(whole) and high - low < 0.97 * whole:  # else the plot shows the range itself
        strip = _strip(base, hull, gaps, (low, high), ends)
    return DotPlot(
        height=base + AXIS + (STRIP if strip else 0),
        base=base,
        ticks=tuple(Tick(at(t), reading_text(t, decimals)) for t in ticks),
        gaps=shown,
        walls=tuple(at(x) for x in hull if low <= x <= high),
        marks=marks,
        strip=strip,
    )


def _has_width(low: float, high: float) -> bool:
    """Return whether doubles between the ends are plenty: ticks and percentages need them."""
    return high - low > max(1e-300, 1e-12 * max(abs(low), abs(high)))


def _window(points: Sequence[Point], hull: tuple[float, float]) -> tuple[float, float]:
    clear = [p for p in points if not p.weak]
    if not clear:
        low, high = hull
    else:
        usual = median(p.upper - p.lower for p in clear)
        near = [p for p in clear if p.upper - p.lower <= VAGUE * usual]
        low = min([p.value for p in clear] + [p.lower for p in near])
        high = max([p.value for p in clear] + [p.upper for p in near])
        # A window close to an end of the range may as well show that end.
        pad = (high - low) * 0.06
        low, high = max(low - pad, hull[0]), min(high + pad, hull[1])
        if 0 < low < 0.25 * high and hull[0] <= 0:
            low = 0.0
    if not _has_width(low, high):
        half = max(abs(low), 1.0) * 0.5
        wide = low - half, high + half
        low, high = max(wide[0], hull[0]), min(wide[1], hull[1])
        if not _has_width(low, high):  # a range of one value, or a value outside it
            low, high = wide
    return low, high


def _strip(
    base: int,
    hull: tuple[float, float],
    gaps: Sequence[tuple[float, float]],
    window: tuple[float, float],
    ends: tuple[str, str],
) -> Strip:
    width = hull[1] - hull[0]

    def band(a: float, b: float) -> Band:
        left = min(max((a - hull[0]) / width, 0.0), 1.0)
        right = min(max((b - hull[0]) / width, 0.0), 1.0)
        return Band(round(100 * left, 3), round(100 * max(right - left, 0.004), 3))

    return Strip(
        y=base + AXIS + 10,
        gaps=tuple(band(a, b) for a, b in gaps),
        window=band(*window),
        low=ends[0],
        high=ends[1],
    )


def bars(points: Sequence[Point], top: float) -> Bars:
    """Return one group's histogram; `top` is the value at the picture's upper edge."""
    pitch = 100 / max(len(points), 1)
    base = BAR_TOP + BAR_HEIGHT

    def y(value: float) -> float:
        share = 0.0 if top <= 0 else min(max(value / top, 0.0), 1.0)
        return round(base - BAR_HEIGHT * share, 2)

    return Bars(
        height=base + 4,
        base=base,
        bars=tuple(
            Bar(
                at=round(pitch * (i + 0.09), 3),
                width=round(pitch * 0.82, 3),
                y=y(p.value),
                height=round(base - y(p.value), 2),
                low=y(p.lower),
                high=y(p.upper),
                middle=round(pitch * (i + 0.5), 3),
            )
            for i, p in enumerate(points)
        ),
    )
