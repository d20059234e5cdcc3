"""A derived table as one self-contained page: picture, numbers, how they were made.

Loads nothing; the style is the report's, pinned by its hash; every text through Jinja2 with
autoescaping on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dprelease.results.formats.chart import point
from dprelease.results.formats.numbers import reading_decimals, reading_text
from dprelease.results.formats.plots import DotPlot, dot_plot
from dprelease.results.formats.templates import page_template
from dprelease.results.rules import WEAK

if TYPE_CHECKING:
    from dprelease.reading.derived import Derived, Place

_SHOWN = 60
_EXTRA = ("before", "after", "confidence")
_STATUS = {
    "ok": "",
    "at_bound": "at the end of what is possible",
    "uninformative": "says nothing",
    "empty_signal": "says nothing",
    "no_interval": "near in rank; how near in this unit is not known",
    "within_noise": "within the noise",
    "changed": "changed",
}


def page(derived: Derived) -> str:
    """Return the page's HTML."""
    rows = derived.table.to_pylist()
    named = [k for k in derived.table.column_names if k not in derived.keys]
    compared = "p" in named
    apart = derived.apart()
    decimals = {place: _decimals(part) for place, part in apart.items()}
    template = page_template("reading/derived.html.j2", "report.css", "cross_tabs.css")
    return template.render(
        derived=derived,
        level=derived.said,
        sure=derived.said != "no",
        conservative=any(row["method"] == "conservative" for row in rows),
        unbounded=any(
            v is not None and math.isinf(v) for row in rows for v in (row["lower"], row["upper"])
        ),
        compared=compared,
        headers=[
            *map(derived.called.column, derived.keys),
            *(name for name in _EXTRA if name in named),
        ],
        rows=[_row(derived, row, decimals[derived.place(row)]) for row in rows],
        pictures=[_picture(derived, place, part, decimals[place]) for place, part in apart.items()],
    )


def _picture(
    derived: Derived, place: Place, rows: list[dict[str, Any]], decimals: int
) -> dict[str, Any]:
    """Return what a picture of one statistic of one table shows."""
    keys = derived.called.inner(derived.keys) if place[1] else derived.keys
    names = [derived.called.group(row, keys) for row in rows[:_SHOWN]]
    shown = [_row(derived, row, decimals) for row in rows[:_SHOWN]]
    plot = _plot(rows, names)
    return {
        "name": derived.called.heading(place) if place[1] else "",
        "measure": derived.called.measures.get(place, "") if place[1] else "",
        "plot": plot,
        "cut": plot is not None and any(m.cut_low or m.cut_high for m in plot.marks),
        "hollow": plot is not None and any(m.weak for m in plot.marks),
        "rows": [{**row, "name": name} for row, name in zip(shown, names, strict=True)],
        "count": len(rows),
    }


def _row(derived: Derived, row: dict[str, Any], decimals: int) -> dict[str, Any]:
    compared = "p" in row
    return {
        "key": [derived.called.label(row, k, compared=compared) for k in derived.keys],
        "extra": [_text(row[k], 4 if k == "confidence" else decimals) for k in _EXTRA if k in row],
        "value": _text(row["value"], decimals),
        "lower": _text(row["lower"], decimals, -1),
        "upper": _text(row["upper"], decimals, 1),
        "status": _STATUS.get(row["status"], row["status"]),
        "weak": row["status"] in WEAK or row["status"] == "within_noise",
    }


def _decimals(rows: list[dict[str, Any]]) -> int:
    """Return the decimals that the narrowest half of the intervals allow."""
    shown = [row[k] for row in rows for k in ("value", "lower", "upper") if row[k] is not None]
    if all(math.isinf(v) or float(v).is_integer() for v in shown):
        return 0  # ranks, differences of counts
    widths = sorted(
        row["upper"] - row["lower"]
        for row in rows
        if row["lower"] is not None and 0 < row["upper"] - row["lower"] < math.inf
    )
    if not widths:
        return 4
    from fractions import Fraction

    return reading_decimals(Fraction(1, 10**6), widths[len(widths) // 4] / 4)


def _text(value: float | None, decimals: int, outward: int = 0) -> str:
    """Return a number for readers; the end of an interval is rounded `outward`: -1 down, 1 up."""
    if value is None:
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "\u2212∞"
    if outward and abs(value) < 2**53:  # a larger one has no decimals
        value = outward * math.ceil(round(outward * value * 10**decimals, 6)) / 10**decimals
    return reading_text(value, decimals)


def _plot(rows: list[dict[str, Any]], names: Sequence[str]) -> DotPlot | None:
    points = [
        point(row["value"], row["lower"], row["upper"], weak=row["status"] in WEAK)
        for row in rows[:_SHOWN]
    ]
    ends = [v for p in points if not p.weak for v in p[:3] if math.isfinite(v)]
    if not ends or min(ends) == max(ends):
        return None
    room = (max(ends) - min(ends)) / 20
    return dot_plot(points, (min(ends) - room, max(ends) + room), (), ("", ""), names)
