"""Geometry of the pictures over time: one small picture per group and statistic, no markup.

A picture is drawn in a box `WIDTH` wide and `HEIGHT` high that the page stretches to its place;
strokes do not stretch, so dots stay round. Vertical ends are ticks at equal distances, which lets
the page set their labels beside the box without measuring anything.

The window holds every informative value and every interval that is not far wider than the others
(`VAGUE` times the median); wider ones are cut at its edge. Values that say nothing (their interval
is the whole domain) and values of withdrawn periods never set it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from dprelease.formats.numbers import reading_text
from dprelease.formats.plots import VAGUE, Point, nice_ticks

__all__ = ["HEIGHT", "WIDTH", "Picture", "picture"]

WIDTH = 1000
HEIGHT = 100


@dataclass(frozen=True, slots=True)
class Picture:
    """SVG path data and labels.

    Attributes:
        ticks: labels from top to bottom, at equal distances; the first and last are the ends.
        grid: one horizontal line per tick.
        bars, dots: intervals and values that stand.
        weak: values that say nothing; their interval is the whole range and is not drawn.
        gone: marks of withdrawn or superseded periods.
        bands: (y, height) of forbidden intervals inside the window.
    """

    ticks: tuple[str, ...]
    grid: str
    bars: str
    dots: str
    weak: str
    gone: str
    bands: tuple[tuple[float, float], ...]


def picture(
    points: Sequence[Point | None],
    gone: Sequence[bool],
    hull: tuple[float, float],
    gaps: Sequence[tuple[float, float]],
) -> Picture:
    """Return the picture of one group; `points` and `gone` in the order of the periods."""
    pairs = list(zip(points, gone, strict=True))
    standing = [p for p, away in pairs if p is not None and not away]
    low, high, labels = _window(standing, hull)

    def y(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low)
        return round(HEIGHT * (1 - share), 1) + 0.0

    pitch = WIDTH / max(len(points), 1)
    paths: dict[str, list[str]] = {name: [] for name in ("bars", "dots", "weak", "gone")}
    for i, (p, away) in enumerate(pairs):
        x = f"{pitch * (i + 0.5):.5g}"
        if away:
            paths["gone"].append(f"M{x} 0V{HEIGHT}")
        elif p is not None:
            if not p.weak:
                paths["bars"].append(f"M{x} {y(p.lower):g}V{y(p.upper):g}")
            if not p.weak or low <= p.value <= high:  # clear values are inside, up to rounding
                paths["weak" if p.weak else "dots"].append(f"M{x} {y(p.value):g}h0")
    steps = len(labels) - 1
    return Picture(
        ticks=labels,
        grid="".join(f"M0 {HEIGHT * i / steps:g}H{WIDTH}" for i in range(steps + 1)),
        bands=tuple(
            (y(b), round(y(a) - y(b), 1)) for a, b in gaps if b > low and a < high and y(a) > y(b)
        ),
        **{name: "".join(parts) for name, parts in paths.items()},
    )


def _window(
    points: Sequence[Point], hull: tuple[float, float]
) -> tuple[float, float, tuple[str, ...]]:
    """Return the ends, both ticks, and the labels from top to bottom."""
    clear = [p for p in points if not p.weak]
    if clear:
        usual = median(p.upper - p.lower for p in clear)
        near = [p for p in clear if p.upper - p.lower <= VAGUE * usual]
        low = min([p.value for p in clear] + [p.lower for p in near])
        high = max([p.value for p in clear] + [p.upper for p in near])
    elif all(map(math.isfinite, hull)):
        low, high = hull
    else:
        low, high = 0.0, 1.0
    if 0 < low < 0.25 * high and hull[0] <= 0:
        low = 0.0
    if not high - low > max(1e-12, 1e-9 * max(abs(low), abs(high))):
        half = max(abs(low), 1.0) * 0.5
        low, high = low - half, high + half
    ticks, decimals = nice_ticks(low, high, 3)
    if len(ticks) < 2:  # an awkward window can hold one multiple only; half the pitch gives two
        ticks, decimals = nice_ticks(low, high, 6)
    pitch = ticks[1] - ticks[0]
    first, last = math.floor(low / pitch + 1e-9), math.ceil(high / pitch - 1e-9)
    values = [round(k * pitch, decimals) + 0.0 for k in range(first, max(last, first + 1) + 1)]
    return values[0], values[-1], tuple(reading_text(v, decimals) for v in reversed(values))
