"""The pictures over time as positions (`formats.chart`): one small picture per group and statistic.

A picture is drawn in a box `WIDTH` wide and `HEIGHT` high that the page stretches to its place;
strokes do not stretch, so dots stay round. Vertical ends are ticks at equal distances, which lets
the page set their labels beside the box without measuring anything.

Periods stand where they lie in time, if their names say so: one that is missing leaves its room.

Values that say nothing (their interval is the whole domain) and values of withdrawn periods never
set the window.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from dprelease.core.errors import ArgumentError
from dprelease.core.periods import every_of, parse_period
from dprelease.results.formats.chart import Point, Scale, ticks, window
from dprelease.results.formats.numbers import reading_text

WIDTH = 1000
HEIGHT = 100


@dataclass(frozen=True, slots=True)
class LinePlot:
    """SVG path data and labels.

    Attributes:
        ticks: labels from top to bottom, at equal distances; the first and last are the ends.
        grid: one horizontal line per tick.
        bars, dots: intervals and values that stand.
        weak: values that say nothing; their interval is the whole range and is not drawn.
        hollow: the dots that are drawn hollow: those, and of periods that were released before they closed.
        gone: marks of withdrawn or superseded periods.
        bands: (y, height) of forbidden intervals inside the window.
    """

    ticks: tuple[str, ...]
    grid: str
    bars: str
    dots: str
    weak: str
    hollow: str
    gone: str
    bands: tuple[tuple[float, float], ...]


def picture(
    points: Sequence[Point | None],
    standing: Sequence[str],
    hull: tuple[float, float],
    gaps: Sequence[tuple[float, float]],
    places: Sequence[float],
) -> LinePlot:
    """Return the picture of one group; `points`, `standing` (`Period.word`) and `places` in the order of the periods."""
    gone = [word not in ("", "early") for word in standing]
    current = [p for p, away in zip(points, gone, strict=True) if p is not None and not away]
    low, high, labels = _ends(current, hull)
    scale = Scale(low, high, HEIGHT, 0.0, digits=1)
    y = scale.inside

    paths: dict[str, list[str]] = {name: [] for name in ("bars", "dots", "weak", "hollow", "gone")}
    for p, away, word, place in zip(points, gone, standing, places, strict=True):
        x = f"{WIDTH * place:.5g}"
        if away:
            paths["gone"].append(f"M{x} 0V{HEIGHT}")
        elif p is not None:
            if not p.weak:
                paths["bars"].append(f"M{x} {y(p.lower):g}V{y(p.upper):g}")
            if not p.weak or low <= p.value <= high:  # clear values are inside, up to rounding
                for kind in ("weak" if p.weak else "dots", *(["hollow"] if p.weak or word else [])):
                    paths[kind].append(f"M{x} {y(p.value):g}h0")
    steps = len(labels) - 1
    return LinePlot(
        ticks=labels,
        grid="".join(f"M0 {HEIGHT * i / steps:g}H{WIDTH}" for i in range(steps + 1)),
        bands=tuple((band.at, band.width) for band in scale.bands(gaps) if band.width > 0),
        **{name: "".join(parts) for name, parts in paths.items()},
    )


@lru_cache(maxsize=4)
def places_of(names: tuple[str, ...]) -> Sequence[float]:
    """Return where periods stand between 0 and 1: their middles on the axis of time, or in equal steps without one."""
    try:
        spans = [parse_period(name, every_of(name)) for name in names]
    except ArgumentError:
        return [(i + 0.5) / len(names) for i in range(len(names))]
    first = min((start for start, _ in spans), default=None)
    whole = first and max(end for _, end in spans) - first
    return [(start + (end - start) / 2 - first) / whole for start, end in spans if first and whole]


def _ends(
    points: Sequence[Point], hull: tuple[float, float]
) -> tuple[float, float, tuple[str, ...]]:
    """Return the ends, both ticks, and the labels from top to bottom."""
    low, high = window(points, hull)
    marked, decimals = ticks(low, high, 3)
    if (
        len(marked) < 2
    ):  # an awkward window can hold one multiple only; half the step size gives two
        marked, decimals = ticks(low, high, 6)
    step_size = marked[1] - marked[0]
    first, last = math.floor(low / step_size + 1e-9), math.ceil(high / step_size - 1e-9)
    values = [round(k * step_size, decimals) + 0.0 for k in range(first, max(last, first + 1) + 1)]
    return values[0], values[-1], tuple(reading_text(v, decimals) for v in reversed(values))
