"""One statistic of a release as a picture of its own: SVG for notebooks, slides and papers.

The geometry is the report's (`plots`); here positions are pixels and the colours are inside, so
that the picture stands alone. Released values only, every text escaped, nothing loaded.

Limits  The first `LIMIT` groups; a histogram is drawn for the first group.
"""

from __future__ import annotations

import html as escaping
from dataclasses import dataclass
from typing import Any

from dprelease.errors import ArgumentError
from dprelease.formats.plots import BAR_TOP, Bars, DotPlot, Point, bars, dot_plot
from dprelease.formats.words import heading
from dprelease.noised import TIDY, Noised
from dprelease.planning.model import PlannedStatistic
from dprelease.schema.naming import nearest

__all__ = ["LIMIT", "Picture", "dots", "histogram", "release_picture"]

LIMIT = 60
WIDTH = 480
LEFT = 150
RIGHT = 20
HEAD = 40

_WEAK = ("uninformative", "empty_signal")

_STYLE = (
    "text{font:12px system-ui,'Segoe UI',Roboto,'Liberation Sans',Arial,sans-serif;fill:#16202b}"
    ".soft{fill:#50606f}.title{font-weight:600;font-size:14px}"
    ".grid{stroke:#d7dee5}.axis{stroke:#50606f}.gap{fill:#d7dee5}"
    ".bar{stroke:#14588c;stroke-width:2}.dot{fill:#14588c;stroke:#fff;stroke-width:1.5}"
    ".weak .bar{stroke:#5f6a76;stroke-width:1;stroke-dasharray:3 4}"
    ".weak .dot{fill:#fff;stroke:#5f6a76}.column{fill:#c9dff0}"
)


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture: shows itself in a notebook; `svg` is its text, to be written to a file."""

    title: str
    svg: str

    def _repr_html_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<Picture of {self.title}; its `svg` is {len(self.svg):,} characters>"


def dots(
    title: str,
    note: str,
    names: list[str],
    points: list[Point],
    hull: tuple[float, float],
    gaps: list[tuple[float, float]],
) -> Picture:
    """Return a dot with its interval per group.

    Args:
        title, note: shown above: what it is, and its unit or error.
        names: one per group; points: the values; both in the same order.
        hull, gaps: of the statistic's domain.
    """
    plot = dot_plot(points[:LIMIT], hull, gaps, ("", ""))
    parts = [*_frame(plot), *_marks(plot, names[:LIMIT])]
    height = HEAD + plot.base + 30
    described = f"{title}, a dot with its 95 % interval for each of {len(plot.marks)} groups"
    return Picture(title, _svg(title, note, described, parts, height))


def _x(percent: float) -> float:
    return round(LEFT + WIDTH * percent / 100, 2)


def _frame(plot: DotPlot) -> list[str]:
    base = HEAD + plot.base
    out = [
        f'<rect class="gap" x="{_x(g.at)}" y="{HEAD}" width="{round(WIDTH * g.width / 100, 2)}" height="{plot.base}"/>'
        for g in plot.gaps
    ]
    for tick in plot.ticks:
        out += [
            f'<line class="grid" x1="{_x(tick.at)}" x2="{_x(tick.at)}" y1="{HEAD}" y2="{base}"/>',
            f'<text class="soft" x="{_x(tick.at)}" y="{base + 18}" text-anchor="middle">{_text(tick.label)}</text>',
        ]
    out.append(f'<line class="axis" x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{base}" y2="{base}"/>')
    return out


def _marks(plot: DotPlot, names: list[str]) -> list[str]:
    out = []
    for name, mark in zip(names, plot.marks, strict=True):
        y = HEAD + mark.y
        shown = name if len(name) <= 22 else name[:21] + "…"
        dot = "" if mark.outside else f'<circle class="dot" cx="{_x(mark.at)}" cy="{y}" r="5"/>'
        out += [
            f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{_text(shown)}</text>',
            f'<g class="{"weak" if mark.weak else "clear"}">',
            f'<line class="bar" x1="{_x(mark.low)}" x2="{_x(mark.high)}" y1="{y}" y2="{y}"/>',
            _cut(_x(mark.low), y, 5) if mark.cut_low else "",
            _cut(_x(mark.high), y, -5) if mark.cut_high else "",
            f"{dot}</g>",
        ]
    return out


def _cut(x: float, y: int, back: int) -> str:
    """Return the arrow of an interval that goes on beyond the picture."""
    return f'<path class="bar" fill="none" d="M{x + back} {y - 5} L{x} {y} L{x + back} {y + 5}"/>'


def histogram(title: str, note: str, labels: list[str], points: list[Point]) -> Picture:
    """Return one group's bins; `labels` name them."""
    top = max((max(p.value, p.upper) for p in points if not p.weak), default=0.0)
    found: Bars = bars(points, top)
    base = HEAD + found.base
    parts = []
    for bar, label in zip(found.bars, labels, strict=True):
        parts += [
            f'<rect class="column" x="{_x(bar.at)}" y="{HEAD + bar.y}" width="{round(WIDTH * bar.width / 100, 2)}" height="{bar.height}">',
            f"<title>{_text(label)}</title></rect>",
            f'<line class="bar" x1="{_x(bar.middle)}" x2="{_x(bar.middle)}" y1="{HEAD + bar.low}" y2="{HEAD + bar.high}"/>',
        ]
    parts += [
        f'<line class="axis" x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{base}" y2="{base}"/>',
        f'<text class="soft" x="{LEFT}" y="{base + 18}">{_text(labels[0])}</text>',
        f'<text class="soft" x="{LEFT + WIDTH}" y="{base + 18}" text-anchor="end">{_text(labels[-1])}</text>',
        f'<text class="soft" x="{LEFT - 12}" y="{HEAD + BAR_TOP + 8}" text-anchor="end">{top:,.6g}</text>',
    ]
    described = f"{title}, {len(points)} bins with 95 % intervals"
    return Picture(title, _svg(title, note, described, parts, base + 30))


def _svg(title: str, note: str, described: str, parts: list[str], height: int) -> str:
    width = LEFT + WIDTH + RIGHT
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}"><title>{_text(described)}</title><style>{_STYLE}</style>'
        f'<rect width="{width}" height="{height}" fill="#fff"/>'
        f'<text class="title" x="12" y="18">{_text(title)}</text>'
        f'<text class="soft" x="12" y="34">{_text(note)}</text>' + "".join(parts) + "</svg>"
    )


def _text(value: str) -> str:
    return escaping.escape(value)


def release_picture(noised: Noised, statistic: str | None) -> Picture:
    """Return the picture of a released statistic, the first one by default.

    Args:
        statistic: its published name, or as it was asked for.

    Raises:
        ArgumentError: there is no such statistic (DPR613).
    """
    plan = noised.plan
    chosen = next((s for s in plan.statistics if statistic in (None, s.name, s.text)), None)
    if chosen is None:
        names = [s.name for s in plan.statistics]
        near = nearest(str(statistic), names)
        raise ArgumentError(
            f"the release has no statistic `{statistic}`",
            where="plot(...)",
            fix=f"did you mean `{near}`?" if near else f"it has: {', '.join(names)}",
            code="DPR613",
        )
    found = _points(noised, chosen)
    title = heading(chosen.text, chosen.function)
    title = title if chosen.name in title else f"{title} ({chosen.name})"
    unit = f" {chosen.measure}" if chosen.measure and chosen.measure not in chosen.error_text else ""
    note = f"{chosen.error_text}{unit} expected; bars are 95 % intervals for the noise"
    keys = plan.keys or ((),)
    if len(chosen.columns) > 1:
        labels = [c.removeprefix(chosen.name) or c for c in chosen.columns]
        group = f"; {' · '.join(keys[0])}" if keys[0] else ""
        return histogram(title, note + group, labels, [found[keys[0], c] for c in chosen.columns])
    names = [" · ".join(key) or "all rows" for key in keys]
    points = [found[key, chosen.columns[0]] for key in keys]
    domain = chosen.domain
    return dots(title, note, names, points, domain.hull, list(domain.forbidden))


def _points(noised: Noised, chosen: PlannedStatistic) -> dict[tuple[tuple[str, ...], str], Point]:
    table, keys = noised.table, len(noised.plan.by)

    def read(name: str) -> list[Any]:
        out: list[Any] = table.column(keys + TIDY.get_field_index(name)).to_pylist()
        return out

    labels = [table.column(i).to_pylist() for i in range(keys)]
    groups = zip(*labels, strict=True) if keys else [()] * table.num_rows
    parts = zip(
        groups, *(read(n) for n in ("statistic", "value", "lower", "upper", "status")), strict=True
    )
    out = {}
    for group, name, value, lower, upper, status in parts:
        if name in chosen.columns:
            ends = (value, value) if lower is None or upper is None else (lower, upper)
            out[tuple(group), name] = Point(value, *ends, weak=status in _WEAK)
    return out
