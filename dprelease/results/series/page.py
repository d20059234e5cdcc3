"""`index.html`: every period of a pipeline on one self-contained page.

Statistics over time, one small picture per group with 95 % intervals, and the numbers behind every
picture; all periods with links; what is spent; what was withdrawn. As `report.html` it loads
nothing: style inline and pinned by its hash, pictures inline SVG, every text through Jinja2 with
autoescaping on.

Limits  The first `OPEN` groups of a statistic show at once, further ones unfold by name. Beyond
        `PICTURES` pictures, and beyond `ROWS` rows of numbers, the page shows fewer groups and the
        newest periods only, and says so; `index.json` holds all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dprelease.core.numeric import counted, short
from dprelease.query.bounded import MOST_FOUND
from dprelease.release_plan.detail import LEVEL_COLUMN
from dprelease.release_plan.weak import weak_promise
from dprelease.results.formats.html import FILE as REPORT
from dprelease.results.formats.numbers import reading_decimals, reading_text
from dprelease.results.formats.public_words import PublicWords
from dprelease.results.formats.report_sections import WEAK, Value
from dprelease.results.formats.templates import page_template
from dprelease.results.formats.words import inside, odds, period_words
from dprelease.results.series.collect import Period, PublishedSeries, Track
from dprelease.results.series.index_json import newest_entry, summary
from dprelease.results.series.lines import Key
from dprelease.results.series.over_time import series_loss
from dprelease.results.series.plots import HEIGHT, WIDTH, LinePlot, picture, places_of

OPEN = 24
PICTURES = 2000
ROWS = 30_000
LONGEST = 400
"""Periods in one picture: the newest ones."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the numbers behind a picture."""

    period: str
    value: str
    lower: str
    upper: str
    certain: str
    mark: str
    weak: bool


@dataclass(frozen=True, slots=True)
class Group:
    """One group's picture and numbers."""

    name: str
    picture: LinePlot
    summary: str
    newest: str
    rows: tuple[Row, ...]


def write(series: PublishedSeries) -> bytes:
    """Return the page, UTF-8."""
    styles = "report.css", "results/series/index.css"
    template = page_template("results/series/index.html.j2", *styles)
    return template.render(page=_page(series), box=(WIDTH, HEIGHT)).encode("utf-8")


def _page(series: PublishedSeries) -> dict[str, Any]:
    periods = series.periods
    said = summary(series)
    loss, newest = series_loss(periods), newest_entry(series)
    epsilon, delta = loss.epsilon, loss.delta
    words = PublicWords(series.pipeline) if newest is None else newest.words
    tracks = [t for t in series.tracks if t.lines]
    groups = max((len(t.lines) for t in tracks), default=0)
    listed = min(groups, max(1, PICTURES // max(1, len(tracks))))
    drawn = sum(min(len(t.lines), listed) for t in tracks)
    shown = max(4, ROWS // max(1, drawn))
    stands = [p for p in periods if p.stands]
    return {
        "title": words.title,
        "about": words.about,
        "name": series.pipeline,
        "dataset": said["dataset"],
        "windows": any(p.window for p in periods),
        "scheduled": any(p.scheduled for p in periods),
        "count": len(periods),
        "corrected": sum(p.correction is not None for p in periods),
        "early": any(p.word == "early" for p in periods),
        "first": _when(periods[0].name) if periods else "",
        "last": _when(periods[-1].name) if periods else "",
        "axis": [p.name for p in (periods[-LONGEST:][:1] + periods[-1:])] or ["", ""],
        "newest": _row(stands[-1]) if stands else None,
        "epsilon": short(epsilon),
        "delta": f"{float(delta):.3g}" if delta else "",
        "factor": odds(epsilon)[0] if epsilon else "",
        "each": _each(p.epsilon for p in periods),
        "found": any(p.words.groups == MOST_FOUND for p in periods),
        "protects": list(dict.fromkeys(_protected(p, series) for p in reversed(periods))),
        "over_time": newest.over_time if newest else "",
        "as_of": _when(newest.name) if newest else "",
        "apart": loss.apart,
        "whom": f"any {words.one if words.about.unit_name else 'one protected unit'}",
        "weak_promise": weak_promise(epsilon, words.data),
        "budget": _budget(newest, epsilon, adds=_adds(periods)),
        "sections": _sections(tracks, periods, listed, shown),
        "groups": groups,
        "listed": listed,
        "kept": shown if shown < len(periods) else 0,
        "shown": min(len(periods), LONGEST),
        "observed": list(dict.fromkeys(note for p in periods for note in p.observed)),
        "periods": [_row(p) for p in reversed(periods)],
        "corrections": [
            {"period": c.period, "says": c.says()} for c in reversed(series.corrections)
        ],
        "head": said["corrections_head"],
        "signed": said.get("keys", []),
        "unreadable": series.unreadable,
    }


def _sections(
    tracks: Sequence[Track], periods: Sequence[Period], listed: int, shown: int
) -> list[dict[str, Any]]:
    """Return one section per statistic; a statistic of several columns has one part per column."""
    made: dict[tuple[str | None, str, str], dict[str, Any]] = {}
    titles = Counter((t.title, t.table) for t in tracks)
    tables = Counter(title for title, _ in titles)
    for track in tracks:
        s = track.statistic
        section = made.setdefault(
            (track.table, s.name, s.text),
            {
                "id": f"s{len(made) + 1}",
                "title": f"{track.title} in {track.table}"
                if tables[track.title] > 1
                else track.title,
                "by": [
                    inside(periods[-1].words.column(n))
                    for n in track.by
                    if not (track.mixed and n == LEVEL_COLUMN)
                ],
                "text": s.text,
                "measure": track.measure,
                "parts": [],
            },
        )
        section["parts"].append(_part(track, periods, listed, shown))
    return list(made.values())


def _part(track: Track, periods: Sequence[Period], listed: int, shown: int) -> dict[str, Any]:
    s = track.statistic
    widths = track.lines.widths()
    error = float(np.median(widths / 4)) if len(widths) else None
    decimals = reading_decimals(s.step, error)
    lines = track.lines.first(listed)
    groups = [_group(key, line, track, periods, decimals, shown) for key, line in lines.items()]
    return {
        "label": track.column.removeprefix(s.name) or track.column,
        "ranked": any(v and v.lower is None for line in lines.values() for v in line),
        "open": groups[:OPEN],
        "folded": groups[OPEN:],
        "hidden": len(track.lines) - len(groups),
    }


def _group(
    key: Key,
    line: Sequence[Value | None],
    track: Track,
    periods: Sequence[Period],
    decimals: int,
    listed: int,
) -> Group:
    domain = track.statistic.domain
    known = [(value, p) for value, p in zip(line, periods, strict=True) if value is not None]
    rows = [_numbers(value, period, decimals) for value, period in known]
    current = [(value, period) for value, period in known if period.stands]
    summary = newest = "no current value"
    if current:
        value, period = current[-1]
        shown = _numbers(value, period, decimals)
        last = next(p for p in reversed(periods) if p.stands)  # it may have no value of this group
        when = "newest" if period is last else f"{shown.period}:"
        newest = f"{when} says nothing" if value.weak else f"{when} {shown.value}"
        summary = f"{counted(len(current), 'value')}; the newest, {shown.period}: {shown.value}"
        if value.lower is not None:
            summary += f", 95 % interval {shown.lower} to {shown.upper}"
    return Group(
        name=track.group(key),
        picture=picture(
            [None if v is None else v.point for v in line[-LONGEST:]],
            [p.word for p in periods[-LONGEST:]],
            domain.hull,
            domain.forbidden,
            places_of(tuple(p.name for p in periods[-LONGEST:])),
        ),
        summary=summary,
        newest=newest,
        rows=tuple(reversed(rows))[:listed],
    )


def _numbers(value: Value, period: Period, decimals: int) -> Row:
    mark = "at bound" if value.status == "at_bound" else WEAK.get(value.status, "")
    mark = period.word or mark
    value_text, lower, upper, least, most = (
        "–" if x is None else reading_text(x, decimals) for x in (*value[:3], *value[4:6])
    )
    certain = "" if value.certain_lower is None else f"{least} to {most}"
    weak = value.weak or bool(period.correction)
    return Row(period.name, value_text, lower, upper, certain, mark, weak)


def _row(period: Period) -> dict[str, Any]:
    correction = period.correction
    return {
        "name": period.name,
        "when": _when(period.name),
        "href": f"{period.name}/{REPORT}" if period.report else f"{period.name}/",
        "window": [t[:10] for t in period.window] if period.window else None,
        "scheduled": period.scheduled,
        "epsilon": short(period.epsilon),
        "delta": f"{float(period.delta):.3g}" if period.delta else "",
        "seq": period.ledger["seq"] if period.ledger else "",
        "word": period.word,
        "early": period.early,
        "says": "" if correction is None else correction.says(),
        "by": None if correction is None else correction.by,
    }


def _protected(period: Period, series: PublishedSeries) -> str:
    """Return the protected unit in plain words, with the groups that the newest period has."""
    verb = "replaced" if period.adjacency == "substitution" else "added or removed"
    newest = series.periods[-1].words
    return f"{replace(period.words, by=newest.by, groups=newest.groups).protected}, {verb}"


def _when(name: str) -> str:
    return period_words(name) or name


def _each(losses: Iterable[Fraction]) -> str:
    """Return the loss of one period: one number if all have the same, else the range."""
    found = sorted(set(losses))
    return " to ".join(short(loss) for loss in dict.fromkeys(found[:1] + found[-1:]))


def _adds(periods: Sequence[Period]) -> bool:
    """Return whether the periods' losses are parts of one dataset's sum in one ledger."""
    books = {(p.dataset, p.ledger["ledger_id"] if p.ledger else None) for p in periods}
    return len(books) == 1 and all(p.adds for p in periods)


def _budget(newest: Period | None, own: Fraction, *, adds: bool) -> dict[str, Any] | None:
    """Return the dataset's budget; `adds`: what of it `own`, the loss of these periods, is can be said."""
    if newest is None or newest.budget is None or newest.budget[1] <= 0:
        return None
    spent, total = newest.budget
    mine = min(own, spent) if adds else Fraction(0)
    return {
        "spent": short(spent),
        "total": short(total),
        "left": short(max(total - spent, Fraction(0))),
        "adds": adds,
        "others": short(spent - mine) if adds and spent > mine else "",
        "mine_share": round(float(min(mine / total, Fraction(1)) * 100), 3),
        "spent_share": round(float(min(spent / total, Fraction(1)) * 100), 3),
    }
