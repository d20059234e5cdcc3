"""Tables on the terminal and line plots as plain SVG, for the scripts beside this file.

A figure is a row-wise grid of panels with one legend; equal labels share a colour. Lines leave
their panel's window cleanly: each is cut where it crosses the edge. No plotting library is
needed, and the same numbers always give the same bytes.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path

__all__ = ["Line", "Panel", "figure_folder", "print_table", "save"]

WIDTH, HEIGHT = 460, 320
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 34, 50
HEAD, LEGEND_ROW, LEGEND_COLUMN = 34, 20, 230
# Okabe and Ito's colours: told apart with every common colour vision.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#666666")


@dataclass(frozen=True, slots=True)
class Line:
    """Points (x, y) joined in order; `dots` draws points instead."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    dashed: bool = False
    dots: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes; the window is given, so that nothing depends on outliers."""

    title: str
    x_label: str
    y_label: str
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    lines: Sequence[Line]
    x_log: bool = False
    y_log: bool = False


def save(folder: Path, name: str, title: str, panels: Sequence[Panel]) -> Path:
    """Write `folder/name.svg` and return its path."""
    labels = list(dict.fromkeys(line.label for panel in panels for line in panel.lines))
    dashed = {line.label for panel in panels for line in panel.lines if line.dashed}
    dotted = {line.label for panel in panels for line in panel.lines if line.dots}
    columns = min(2, len(panels))
    l1_added_row = max(1, columns * WIDTH // LEGEND_COLUMN)
    head = HEAD + LEGEND_ROW * math.ceil(len(labels) / l1_added_row) + 6
    width, height = columns * WIDTH, head + HEIGHT * math.ceil(len(panels) / columns)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"',
        'font-family="system-ui, sans-serif" font-size="12" fill="#222">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="14" y="22" font-size="15" font-weight="600">{escape(title)}</text>',
    ]
    colours = {label: COLOURS[i % len(COLOURS)] for i, label in enumerate(labels)}
    for i, label in enumerate(labels):
        x, y = 14 + LEGEND_COLUMN * (i % l1_added_row), HEAD + LEGEND_ROW * (i // l1_added_row) + 8
        dash = ' stroke-dasharray="6 4"' if label in dashed else ""
        key = f'<path d="M{x} {y}h24" stroke="{colours[label]}" stroke-width="2.5"{dash}/>'
        if label in dotted:
            key = f'<circle cx="{x + 12}" cy="{y}" r="3.5" fill="{colours[label]}"/>'
        out.append(f'{key}<text x="{x + 30}" y="{y + 4}">{escape(label)}</text>')
    for i, panel in enumerate(panels):
        out.append(
            f'<g transform="translate({WIDTH * (i % columns)} {head + HEIGHT * (i // columns)})">'
        )
        out += _panel(panel, colours)
        out.append("</g>")
    out.append("</svg>")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.svg"
    path.write_text("\n".join(out) + "\n", encoding="utf-8")
    print(f"\nfigure  {path}")
    return path


def _panel(panel: Panel, colours: dict[str, str]) -> Iterable[str]:
    right, base = WIDTH - RIGHT, HEIGHT - BOTTOM
    x_at = _axis(panel.x_range, panel.x_log, LEFT, right)
    y_at = _axis(panel.y_range, panel.y_log, base, TOP)
    yield (
        f'<text x="{LEFT}" y="{TOP - 10}" font-weight="600">{escape(panel.title)}</text>'
        f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 12}" text-anchor="middle">'
        f"{escape(panel.x_label)}</text>"
        f'<text transform="translate(14 {(TOP + base) / 2}) rotate(-90)" text-anchor="middle">'
        f"{escape(panel.y_label)}</text>"
    )
    for tick in _ticks(panel.x_range, panel.x_log):
        x = x_at(tick)
        yield (
            f'<path d="M{x:.2f} {TOP}V{base}" stroke="#e6e6e6"/>'
            f'<text x="{x:.2f}" y="{base + 17}" text-anchor="middle">{tick:g}</text>'
        )
    for tick in _ticks(panel.y_range, panel.y_log):
        y = y_at(tick)
        yield (
            f'<path d="M{LEFT} {y:.2f}H{right}" stroke="#e6e6e6"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.2f}" text-anchor="end">{tick:g}</text>'
        )
    yield f'<path d="M{LEFT} {TOP}V{base}H{right}" fill="none" stroke="#888"/>'
    window = (LEFT, right, TOP, base)
    for line in panel.lines:
        points = [(x_at(x), y_at(y)) for x, y in zip(line.x, line.y, strict=True)]
        colour = colours[line.label]
        if line.dots:
            yield "".join(
                f'<circle cx="{x:.2f}" cy="{y:.2f}" r="3.5" fill="{colour}"/>'
                for x, y in points
                if _inside(x, y, window)
            )
        else:
            dash = ' stroke-dasharray="6 4"' if line.dashed else ""
            yield (
                f'<path d="{_path(points, window)}" fill="none" stroke="{colour}" '
                f'stroke-width="2"{dash}/>'
            )


def _axis(
    span: tuple[float, float], log: bool, start: float, end: float
) -> Callable[[float], float]:
    low, high = (math.log10(v) for v in span) if log else span

    def at(value: float) -> float:
        if log and value <= 0:
            return math.nan
        share = ((math.log10(value) if log else value) - low) / (high - low)
        return start + share * (end - start)

    return at


def _ticks(span: tuple[float, float], log: bool) -> list[float]:
    low, high = span
    if log:
        first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
        return [10.0**k for k in range(first, last + 1)]
    power = 10.0 ** math.floor(math.log10((high - low) / 5))
    step_size = next(m * power for m in (1, 2, 5, 10) if m * power >= (high - low) / 5.001)
    first, last = math.ceil(low / step_size - 1e-9), math.floor(high / step_size + 1e-9)
    return [round(k * step_size, 12) + 0.0 for k in range(first, last + 1)]


def _inside(x: float, y: float, window: tuple[float, float, float, float]) -> bool:
    left, right, top, base = window
    return left - 0.01 <= x <= right + 0.01 and top - 0.01 <= y <= base + 0.01


def _path(points: Sequence[tuple[float, float]], window: tuple[float, float, float, float]) -> str:
    """Return path data; segments are cut at the window's edges, NaN breaks a line."""
    left, right, top, base = window
    data: list[str] = []
    pen: tuple[float, float] | None = None
    for (x0, y0), (x1, y1) in pairwise(points):
        enter, leave = 0.0, 1.0
        visible = not any(math.isnan(v) for v in (x0, y0, x1, y1))
        for start, step, low, high in ((x0, x1 - x0, left, right), (y0, y1 - y0, top, base)):
            if not visible:
                break
            if step == 0:
                visible = low <= start <= high
                continue
            near, far = sorted(((low - start) / step, (high - start) / step))
            enter, leave = max(enter, near), min(leave, far)
        if not visible or enter > leave:
            pen = None
            continue
        first = (x0 + enter * (x1 - x0), y0 + enter * (y1 - y0))
        last = (x0 + leave * (x1 - x0), y0 + leave * (y1 - y0))
        if pen != first:
            data.append(f"M{first[0]:.2f} {first[1]:.2f}")
        data.append(f"L{last[0]:.2f} {last[1]:.2f}")
        pen = last
    return "".join(data)


def print_table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print right-aligned columns; floats to four significant digits."""
    cells = [[f"{c:.4g}" if isinstance(c, float) else str(c) for c in row] for row in rows]
    widths = [max(len(head[i]), *(len(row[i]) for row in cells)) for i in range(len(head))]
    print(f"\n{title}")
    for row in [list(head), *cells]:
        print("  " + "  ".join(text.rjust(w) for text, w in zip(row, widths, strict=True)))


def figure_folder(script: str, description: str) -> Path:
    """Return the folder named on the command line, else `figures` beside the script."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path(script).resolve().parent / "figures",
        help="where the SVG goes (default: figures beside the script)",
    )
    folder: Path = parser.parse_args().folder
    return folder
