"""One statistic of a release as a picture of its own: SVG for notebooks, slides and papers.

The geometry is the report's (`plots`); here positions are pixels and the colours are inside, so
that the picture stands alone. Released values only, every text escaped, nothing loaded.

A statistic of several columns (a histogram, a spectrum) is a panel per group, side by side, each
with its own vertical scale: groups differ in size by far, and a common scale would flatten most.
Statistics of one column each over many groups stand side by side: they share the groups' names.

Limits  The first `LIMIT` groups, and the note says so; `group` picks any one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from textwrap import wrap

import pyarrow as pa
import pyarrow.compute as pc

from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import counted
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.results.draw import Draw
from dprelease.results.formats.chart import Point
from dprelease.results.formats.plain_words import group_name
from dprelease.results.formats.plots import BAR_TOP, DotPlot, bars, dot_plot
from dprelease.results.formats.public_words import planned_words
from dprelease.results.formats.report_sections import released_rows
from dprelease.schema.naming import did_you_mean, texts_given

LIMIT = 60
WIDTH = 480
LEFT = 150
RIGHT = 20
HEAD = 40
SCALE = 70
"""Where the panels start when they go two abreast: their scale's labels need less than names."""
BETWEEN = 60
LINE = 20
"""Characters of a row's name in one line."""
PANEL = 152
MANY = 12
"""Over more groups than these, statistics stand side by side: `ABREAST` at most, `NARROW` each, rows `THIN`, a bit more for names in two lines."""
ABREAST = 5
NARROW = 120
STEP = 146
THIN = 18
_SIZE = re.compile(r'width="(\d+)" height="(\d+)"')

_STYLE = (
    "text{font:12px system-ui,'Segoe UI',Roboto,'Liberation Sans',Arial,sans-serif;fill:#16202b}"
    ".soft{fill:#50606f}.title{font-weight:600;font-size:14px}.group{font-weight:600}"
    ".small{font-size:10px}.grid{stroke:#d7dee5}.axis{stroke:#50606f}.gap{fill:#d7dee5}"
    ".bar{stroke:#14588c;stroke-width:2}.dot{fill:#14588c;stroke:#fff;stroke-width:1.5}"
    ".weak .bar{stroke:#5f6a76;stroke-width:1;stroke-dasharray:3 4}.weak path.bar{stroke-dasharray:none}"
    ".weak .dot{fill:#fff;stroke:#5f6a76}.column{fill:#c9dff0}.weak .column{fill:#e8ebee}"
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
    described = f"{title}, dots with 95 % intervals of {counted(len(plot.marks), 'group')}"
    return Picture(title, _svg(title, note, described, parts, height))


def _x(percent: float, width: float = WIDTH) -> float:
    return round(LEFT + width * percent / 100, 2)


def _frame(plot: DotPlot, width: float = WIDTH) -> list[str]:
    base = HEAD + plot.base
    out = [
        f'<rect class="gap" x="{_x(g.at, width)}" y="{HEAD}" width="{round(width * g.width / 100, 2)}" height="{plot.base}"/>'
        for g in plot.gaps
    ]
    for tick in plot.ticks:
        x = _x(tick.at, width)
        anchor = "middle" if width == WIDTH else ("end", "start")[tick is plot.ticks[0]]
        out += [
            f'<line class="grid" x1="{x}" x2="{x}" y1="{HEAD}" y2="{base}"/>',
            f'<text class="soft" x="{x}" y="{base + 18}" text-anchor="{anchor}">{escape(tick.label)}</text>',
        ]
    out.append(f'<line class="axis" x1="{LEFT}" x2="{LEFT + width}" y1="{base}" y2="{base}"/>')
    return out


def _marks(plot: DotPlot, names: list[str], width: float = WIDTH) -> list[str]:
    out = []
    for name, mark in zip(names, plot.marks, strict=True):
        y, low, high = HEAD + mark.y, _x(mark.low, width), _x(mark.high, width)
        dot = f'<circle class="dot" cx="{_x(mark.at, width)}" cy="{y}" r="5"/>' * (not mark.outside)
        out += [
            *_name(name, y),
            f'<g class="{"weak" if mark.weak else "clear"}">',
            f'<line class="bar" x1="{low}" x2="{high}" y1="{y}" y2="{y}"/>',
            _cut(low, y, 5) if mark.cut_low else "",
            _cut(high, y, -5) if mark.cut_high else "",
            f"{dot}</g>",
        ]
    return out


def _name(name: str, y: int, x: float = LEFT - 12, anchor: str = "end", most: int = 2) -> list[str]:
    """Return a name, a long one in smaller letters and in `most` lines; its end tells it from others, so it stays."""
    if len(name) <= LINE:
        return [f'<text x="{x}" y="{y + 4}" text-anchor="{anchor}">{escape(name)}</text>']
    lines = wrap(name, LINE + 5)
    if len(lines) > most:
        lines[most - 2 :] = [lines[most - 2][: LINE + 4] + "…", name[-LINE - 5 :]]
    return [
        f'<text class="small" x="{x}" y="{y + 9 + 11 * i - 5 * len(lines)}" text-anchor="{anchor}">{escape(line)}</text>'
        for i, line in enumerate(lines)
    ]


def below(title: str, pictures: Sequence[Picture]) -> Picture:
    """Return pictures one below the other, each with its own scale."""
    parts, y, width = [], 0, 0
    for picture in pictures:
        across, down = map(int, _SIZE.findall(picture.svg)[0])
        parts.append(picture.svg.replace("<svg ", f'<svg y="{y}" ', 1))
        y, width = y + down, max(width, across)
    return Picture(
        title,
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" height="{y}">'
        + "".join(parts)
        + "</svg>",
    )


def side_by_side(noised: Draw, chosen: Sequence[PlannedStatistic]) -> Picture:
    """Return statistics of one column each side by side, over the first `LIMIT` groups."""
    plan, words = noised.plan, planned_words(noised.plan)
    parts = _name(" · ".join(map(words.column, plan.by)), HEAD + 22)
    keys, width = list(plan.keys[:LIMIT]), LEFT + len(chosen) * STEP
    names = [group_name(key, mixed=bool(noised.rows)) for key in keys]
    thin = THIN if max(map(len, names)) <= LINE else THIN + 4
    for i, one in enumerate(chosen):
        found, domain = _points(noised, one, keys), one.domain
        points = [found[key, one.columns[0]] for key in keys]
        plot = dot_plot(points, domain.hull, domain.forbidden, ("", ""), row=thin)
        plot = replace(plot, ticks=plot.ticks[:: max(len(plot.ticks) - 1, 1)])
        title, measure = words.titled(one)
        sure = "" if plan.block(one.block).has_interval else " (no interval)"
        parts += [
            f'<g transform="translate({i * STEP},{HEAD})">',
            *_name(title, 18, LEFT, "start", 2 if measure + sure else 4),
            f'<text class="soft small" x="{LEFT}" y="39">{escape(measure + sure)}</text>',
            *_frame(plot, NARROW),
            *_marks(plot, [""] * len(keys) if i else names, NARROW),
            "</g>",
        ]
    for i in range(1, len(keys)):
        if plan.by[1:] and keys[i][0] != keys[i - 1][0]:
            y = 2 * HEAD + plot.top + thin * i
            parts.append(f'<line class="axis" x1="0" x2="{width}" y1="{y}" y2="{y}"/>')
    note = f"dots with their 95 % intervals for the noise, hollow ones say nothing{_some(len(plan.keys))}"
    return Picture(
        words.title, _svg(words.title, note, note, parts, 2 * HEAD + plot.base + 30, width)
    )


def _cut(x: float, y: int, back: int) -> str:
    """Return the arrow of an interval that goes on beyond the picture."""
    return f'<path class="bar" fill="none" d="M{x + back} {y - 5} L{x} {y} L{x + back} {y + 5}"/>'


@dataclass(frozen=True, slots=True)
class Panel:
    """One group's values: `labels` name the columns, `points` hold them, both in the same order."""

    name: str
    labels: list[str]
    points: list[Point]


def panels(title: str, note: str, groups: list[Panel]) -> Picture:
    """Return a picture of columns per group; one group fills the width, several go two abreast.

    Args:
        title, note: shown above: what it is, and its unit or error.
        groups: in the order to be shown.
    """
    shown = groups[:LIMIT]
    abreast = 1 if len(shown) == 1 else 2
    parts: list[str] = []
    height = HEAD
    for i, panel in enumerate(shown):
        row, place = divmod(i, abreast)
        width = (WIDTH - (abreast - 1) * BETWEEN + (LEFT - SCALE) * (abreast > 1)) / abreast
        left = (LEFT if abreast == 1 else SCALE) + place * (width + BETWEEN)
        drawn, tall = _panel(panel, left, width, HEAD + row * PANEL)
        parts += drawn
        height = max(height, tall)
    columns, of = len(shown[0].points), counted(len(shown), "group")
    described = f"{title}, {columns} columns with 95 % intervals of {of}"
    return Picture(title, _svg(title, note, described, parts, height))


def _panel(panel: Panel, left: float, width: float, above: int) -> tuple[list[str], int]:
    top = max((max(p.value, p.upper) for p in panel.points if not p.weak), default=0.0)
    found = bars(panel.points, top)
    start = above + (18 if panel.name else 0)
    base = start + found.base
    right = round(left + width, 2)

    def x(percent: float) -> float:
        return round(left + width * percent / 100, 2)

    out = ['<g class="panel">']
    if panel.name:
        out.append(
            f'<text class="group" x="{round(left, 2)}" y="{above + 14}">{escape(_short(panel.name, 34))}</text>'
        )
    for bar, label, point in zip(found.bars, panel.labels, panel.points, strict=True):
        out += [
            f'<g class="{"weak" if point.weak else "clear"}"><rect class="column" x="{x(bar.at)}" y="{start + bar.y}" width="{round(width * bar.width / 100, 2)}" height="{bar.height}">',
            f"<title>{escape(label)}: {point.value:,.6g}</title></rect>",
            f'<line class="bar" x1="{x(bar.middle)}" x2="{x(bar.middle)}" y1="{start + bar.low}" y2="{start + bar.high}"/></g>',
        ]
    out += [
        f'<line class="axis" x1="{x(0)}" x2="{right}" y1="{base}" y2="{base}"/>',
        f'<text class="soft" x="{x(0)}" y="{base + 18}">{escape(_short(panel.labels[0], 20))}</text>',
        f'<text class="soft" x="{right}" y="{base + 18}" text-anchor="end">{escape(_short(panel.labels[-1], 20))}</text>',
        f'<text class="soft" x="{x(0) - 8}" y="{start + BAR_TOP + 8}" text-anchor="end">{top:,.4g}</text>',
        "</g>",
    ]
    return out, base + 30


def _short(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most // 2] + "…" + name[most // 2 + 1 - most :]


def _svg(
    title: str,
    note: str,
    described: str,
    parts: list[str],
    height: int,
    width: int = LEFT + WIDTH + RIGHT,
) -> str:
    heads = [("title", line) for line in wrap(title, (width - 24) // 9)]
    heads += [("soft", line) for line in wrap(note, (width - 24) * 4 // 25)]
    down = 16 * max(len(heads) - 2, 0)
    height += down
    shown = "".join(
        f'<text class="{kind}" x="12" y="{18 + 16 * i}">{escape(line)}</text>'
        for i, (kind, line) in enumerate(heads)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}"><title>{escape(described)}</title><style>{_STYLE}</style>'
        f'<rect width="{width}" height="{height}" fill="#fff"/>'
        f'{shown}<g transform="translate(0,{down})">{"".join(parts)}</g></svg>'
    )


def release_picture(
    noised: Draw, statistic: str | None, group: str | Sequence[str] | None = None
) -> Picture:
    """Return the picture of a released statistic; by default of all: one below the other, or `beside` over many groups.

    Args:
        statistic: its published name, or as it was asked for.
        group: one group alone: its label, or its labels in the order of `by`.

    Raises:
        ArgumentError: there is no such statistic (DPR613), or no such group (DPR618).
    """
    plan = noised.plan
    if statistic is None and len(plan.statistics) > 1:
        return below(", ".join(s.name for s in plan.statistics), _all(noised, group))
    chosen = _chosen(plan, statistic)
    if plan.by and not plan.keys:
        raise ArgumentError(
            "there is nothing to plot: every group is suppressed, or no key was found",
            fix="look at the plan: it says from which noisy number on",
            code="DPR618",
        )
    keys = [_group(noised, group)] if group is not None else list(plan.keys or ((),))
    found = _points(noised, chosen, keys[:LIMIT])
    words = planned_words(plan)
    title, said = words.heading(chosen), words.error(chosen)
    title = title if chosen.name in title else f"{title} ({chosen.name})"
    measure = words.titled(chosen)[1]
    unit = f"{measure}; " if measure and measure not in said else ""
    sure = plan.block(chosen.block).has_interval
    bars_say = "bars are 95 % intervals for the noise" if sure else "there is no interval for it"
    planned = "error expected beforehand " if said.startswith("±") else ""
    note = f"{unit}{planned}{said}; {bars_say}"
    if any(point.weak for point in found.values()):
        note += f", {'grey columns' if len(chosen.columns) > 1 else 'hollow dots'} say nothing"
    note += _some(len(keys))
    keys = keys[:LIMIT]
    names = [group_name(key, mixed=bool(noised.rows)) if key else "" for key in keys]
    if len(chosen.columns) > 1:
        labels = [c.removeprefix(chosen.name) or c for c in chosen.columns]
        made = [
            Panel(name, labels, [found[key, c] for c in chosen.columns])
            for name, key in zip(names, keys, strict=True)
        ]
        return panels(title, note, made)
    points = [found[key, chosen.columns[0]] for key in keys]
    named, domain = [name or "all rows" for name in names], chosen.domain
    return dots(title, note, named, points, domain.hull, list(domain.forbidden))


def _chosen(plan: ReleasePlan, statistic: str | None) -> PlannedStatistic:
    asked = plan.statistics[0].name if statistic is None else statistic
    text = asked if isinstance(asked, str) else ""
    chosen = next((s for s in plan.statistics if text in (s.name, s.text)), None)
    if chosen is None:
        names = [s.name for s in plan.statistics]
        listed = f"it has: {', '.join(names)}; name one, or none for all"
        raise ArgumentError(
            f"the release has no statistic `{', '.join(texts_given(asked))}`",
            where="plot(...)",
            fix=did_you_mean(text, names, listed),
            code="DPR613",
        )
    return chosen


def _all(noised: Draw, group: str | Sequence[str] | None) -> list[Picture]:
    plan = noised.plan
    single = [s for s in plan.statistics if len(s.columns) == 1]
    if group is not None or len(single) < 2 or len(plan.keys) <= MANY:
        single = []
    shown = [side_by_side(noised, single[i : i + ABREAST]) for i in range(0, len(single), ABREAST)]
    return shown + [
        release_picture(noised, s.name, group) for s in plan.statistics if s not in single
    ]


def _some(groups: int) -> str:
    return f"; the first {LIMIT} of {groups:,} groups" if groups > LIMIT else ""


def _group(noised: Draw, group: str | Sequence[str]) -> tuple[str, ...]:
    plan = noised.plan
    labels = texts_given(group)
    if labels in plan.keys:
        return labels
    shown = " · ".join(labels)
    names = [" · ".join(key) for key in plan.keys]
    instead = "leave `group` out, or give one label per column of `by`"
    raise ArgumentError(
        f"the release has no group `{shown}`",
        where="plot(...)",
        why=None if plan.by else "it has one group, of all rows",
        fix=did_you_mean(shown, names, instead),
        code="DPR618",
    )


def _points(
    noised: Draw, chosen: PlannedStatistic, listed: Sequence[tuple[str, ...]]
) -> dict[tuple[tuple[str, ...], str], Point]:
    """Return the listed groups' values; a large table is thinned before it becomes Python."""
    table, name = noised.table, len(noised.plan.by)
    wanted = pa.array(chosen.columns, pa.utf8())
    mine = table.filter(pc.is_in(table.column(name), value_set=wanted))
    return {place: row.point for place, row in released_rows(mine, listed).items()}
