"""The report's pictures as positions (`chart`): a dot plot of one statistic over groups, and columns.

Horizontal positions are percentages of the plot's width, so that text keeps its size when a page
gets narrow; vertical ones are pixels. An interval that leaves the window is marked as cut.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dprelease.results.formats.chart import Band, Point, Scale, Tick, Window, slots, ticks, window
from dprelease.results.formats.numbers import reading_text

ROW = 26
TALL = 40
LONG = 44
"""Characters of a name that two lines of a phone hold; with a longer one rows are `TALL`."""
TOP = 6
AXIS = 26
STRIP = 40
BAR_TOP = 8
BAR_HEIGHT = 84


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

    @property
    def tall(self) -> bool:
        """Whether rows have room for three lines."""
        return self.row > ROW

    @property
    def crowded(self) -> bool:
        """Whether a phone has no room for every label of the axis."""
        return len(self.ticks) > 2 and sum(len(tick.label) + 2 for tick in self.ticks) > 26


class Bar(NamedTuple):
    at: float
    width: float
    y: float
    height: float
    low: float
    high: float
    middle: float
    weak: bool


@dataclass(frozen=True, slots=True)
class Bars:
    height: int
    base: int
    bars: tuple[Bar, ...]


def dot_plot(
    points: Sequence[Point],
    hull: tuple[float, float],
    gaps: Sequence[tuple[float, float]],
    ends: tuple[str, str],
    names: Sequence[str] = (),
    row: int = 0,
    beside: Sequence[Point] = (),
) -> DotPlot:
    """Return the picture of one statistic; `points` in row order, `ends` name the hull's ends.

    Args:
        names: of the rows, where the page sets them beside the picture: long ones need taller rows.
        row: how tall they are, where names do not say it.
        beside: the values of all pictures with one scale, of which this is one.
    """
    row = row or (TALL if max(map(len, names), default=0) > LONG else ROW)
    low, high = window(beside or points, hull, pad=0.06)
    scale = Scale(low, high)
    marks = tuple(
        Mark(
            at=scale.inside(p.value),
            low=scale.inside(p.lower),
            high=scale.inside(p.upper),
            y=TOP + row * i + row // 2,
            cut_low=p.lower < low,
            cut_high=p.upper > high and p.value < math.inf,  # without a value nothing goes on
            weak=p.weak,
            outside=not low <= p.value <= high,
        )
        for i, p in enumerate(points)
    )
    base = TOP + row * len(points)
    marked, decimals = ticks(low, high)
    strip = None
    whole = hull[1] - hull[0]
    if (
        not beside and math.isfinite(whole) and high - low < 0.97 * whole
    ):  # else it shows the range itself
        strip = _strip(base, hull, gaps, (low, high), ends)
    return DotPlot(
        height=base + AXIS + (STRIP if strip else 0),
        base=base,
        ticks=tuple(Tick(scale.position(t), reading_text(t, decimals)) for t in marked),
        gaps=scale.bands(gaps),
        walls=tuple(scale.position(x) for x in hull if low <= x <= high),
        marks=marks,
        strip=strip,
        row=row,
    )


def _strip(
    base: int,
    hull: Window,
    gaps: Sequence[tuple[float, float]],
    seen: Window,
    ends: tuple[str, str],
) -> Strip:
    scale = Scale(*hull)

    def band(a: float, b: float) -> Band:
        left, right = scale.inside(a), scale.inside(b)
        return Band(left, max(round(right - left, 3), 0.4))

    return Strip(
        y=base + AXIS + 10,
        gaps=tuple(band(a, b) for a, b in gaps),
        window=band(*seen),
        low=ends[0],
        high=ends[1],
    )


def bars(points: Sequence[Point], top: float) -> Bars:
    """Return one group's histogram; `top` is the value at the picture's upper edge."""
    base = BAR_TOP + BAR_HEIGHT
    scale = Scale(0.0, top if top > 0 else math.inf, base, BAR_TOP, digits=2)
    made = []
    for i, (p, place) in enumerate(zip(points, slots(len(points), 0.82), strict=True)):
        y, low, high = map(scale.inside, p[:3])
        middle = round(100 * (i + 0.5) / len(points), 3)
        made.append(Bar(*place, y, round(base - y, 2), low, high, middle, p.weak))
    return Bars(height=base + 4, base=base, bars=tuple(made))
