"""`report.html`: one self-contained page that explains a release to people.

It is a function of the manifest and the tidy table alone, so it can be rebuilt from a published
folder, byte for byte. No script, no font, no picture is loaded: the style is inline and pinned by
its hash in a Content-Security-Policy, the plots are inline SVG. Every text reaches the page through
Jinja2 with autoescaping on; no markup is built in Python.

Limits  Pictures show the first 60 groups and tables the first 250; the data files hold all.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib import resources
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from dprelease import registry
from dprelease.aggregates.base import aggregate_named
from dprelease.formats.budget_figures import budget_figure, price_list
from dprelease.formats.chart import Point
from dprelease.formats.numbers import decimals_of, figure_text, reading_decimals, reading_text
from dprelease.formats.over_time import release_over_time
from dprelease.formats.plots import Bars, DotPlot, bars, dot_plot
from dprelease.formats.promise_words import promise
from dprelease.formats.public_words import PublicWords, public_words
from dprelease.formats.words import (
    inside,
    loss_text,
    mechanism_words,
    odds,
    period_words,
    short,
)
from dprelease.noised import TIDY, Noised
from dprelease.numeric import Exact, fraction_from_json
from dprelease.planning.model import PlannedBlock, PlannedStatistic
from dprelease.planning.weak import weak_promise

__all__ = ["FILE", "report_from_manifest", "write"]

FILE = "report.html"
PLOT_LIMIT = 60
TABLE_LIMIT = 250
COMPANIONS = ("lower", "upper", "status", "estimate", "unbiased", "consistent")
"""Columns of the tidy table that are read beside the value, in the order of `Released`."""
WEAK = {"uninformative": "uninformative", "empty_signal": "no signal"}


def write(noised: Noised, manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """Return `{"report.html": bytes}`."""
    return {FILE: report_from_manifest(manifest, noised.table)}


def report_from_manifest(manifest: Mapping[str, Any], table: pa.Table, *, gone: str = "") -> bytes:
    """Return the page for a manifest (`files` is not looked at) and its tidy table, UTF-8.

    Args:
        gone: what the record of corrections says of a release that no longer stands, for a page made
            after publication. The published page cannot know and must never change (`verify` makes
            it again byte for byte), so it names the record's place.
    """
    page = _template().render(page=_page(manifest, table), gone=gone)
    return page.encode("utf-8")


@cache
def _template() -> Template:
    folder = resources.files("dprelease.formats")
    style = folder.joinpath("report.css").read_text(encoding="utf-8")
    pin = base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    # The style sheet is ours and holds no data: the only text that skips escaping.
    environment.globals.update(style=Markup(style), pin=pin)  # noqa: S704
    return environment.from_string(folder.joinpath("report.html.j2").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Cell:
    """One released value as text, with its companions; "–" where there is none."""

    value: str
    lower: str
    upper: str
    estimate: str
    unbiased: str
    consistent: str
    status: str
    weak: bool


@dataclass(frozen=True, slots=True)
class Released:
    """One row of the tidy table."""

    value: float
    lower: float | None
    upper: float | None
    status: str
    estimate: float | None
    unbiased: float | None
    consistent: float

    @property
    def ends(self) -> tuple[float, float]:
        """The interval, or the value alone where there is none."""
        none = self.lower is None or self.upper is None
        return (self.value, self.value) if none else (self.lower or 0.0, self.upper or 0.0)

    @property
    def weak(self) -> bool:
        return self.status in WEAK

    @property
    def point(self) -> Point:
        return Point(self.value, *self.ends, self.weak)


Columns = Mapping[tuple[tuple[str, ...], str], Released]


def _released(table: pa.Table, listed: Sequence[tuple[str, ...]]) -> Columns:
    """Return the rows of the listed groups; a large table is thinned before it becomes Python."""
    keys = len(listed[0])
    for i in range(keys):
        labels = pa.array(sorted({key[i] for key in listed}), pa.utf8())
        table = table.filter(pc.is_in(table.column(i), value_set=labels))
    at = {name: keys + TIDY.get_field_index(name) for name in TIDY.names}
    columns = [table.column(i).to_pylist() for i in range(keys)]
    groups = zip(*columns, strict=True) if keys else [()] * table.num_rows
    parts = [table.column(at[name]).to_pylist() for name in ("statistic", "value", *COMPANIONS)]
    return {
        (tuple(group), name): Released(value, *others)
        for group, name, value, *others in zip(groups, *parts, strict=True)
    }


def _page(manifest: Mapping[str, Any], table: pa.Table) -> dict[str, Any]:
    plan = manifest["plan"]
    keys = [tuple(key) for key in plan["keys"]]
    listed = keys[:TABLE_LIMIT]
    released = _released(table, listed)
    statistics = [PlannedStatistic.from_json(s) for s in plan["statistics"]]
    blocks = {b["name"]: PlannedBlock.from_json(b) for b in plan["blocks"]}
    words = public_words(manifest)
    sections = [
        _section(i, s, blocks[s.block], statistics, listed, released, plan["loss"], words)
        for i, s in enumerate(statistics, start=1)
    ]
    epsilon, delta = (
        fraction_from_json(manifest["guarantee"][name]) for name in ("epsilon", "delta")
    )
    factor, certainty = odds(epsilon)
    name = manifest["pipeline"] or plan["schema"]
    when = period_words(manifest["period"] or "")
    single = [s for s in sections if len(s["columns"]) == 1]
    return {
        "title": words.title,
        "about": words.about,
        "when": when,
        "name": name,
        "period": manifest["period"],
        "published": manifest.get("published"),
        "window": plan["window"],
        "early": manifest.get("early"),
        "where": plan["where"],
        "statement": manifest["guarantee"]["statement"],
        "protects": manifest["guarantee"]["protects"],
        "protected": words.protected(tuple(plan["by"]), len(keys)),
        "over_time": release_over_time(manifest, words),
        "weak_promise": weak_promise(epsilon),
        "promise": promise(words, manifest["guarantee"]["adjacency"]),
        "epsilon": short(epsilon),
        "delta": f"{float(delta):.3g}" if delta else "",
        "factor": factor,
        "certainty": certainty,
        "by": [words.column(n) for n in plan["by"]],
        "grouped": [inside(words.column(n)) for n in plan["by"]],
        "groups": len(keys),
        "listed": len(listed),
        "hidden": max(0, len(keys) - TABLE_LIMIT),
        "single": single,
        "summary": [
            {"key": key, "cells": [s["rows"][i]["cells"][0] for s in single]}
            for i, key in enumerate(listed)
        ],
        "weak": any(c.weak for s in single for row in s["rows"] for c in row["cells"]),
        "at_bound": any(s["at_bound"] for s in single),
        "sections": sections,
        "several": [s for s in sections if len(s["columns"]) > 1],
        "blocks": [_accounting(b, statistics) for b in blocks.values()],
        "loss": loss_text(plan["loss"]),
        "public": [s.text for s in statistics if blocks[s.block].family == "constant"],
        "ranked": any(not blocks[s.block].has_interval for s in statistics),
        "notes": plan["notes"],
        "budget": budget_figure(
            manifest.get("budget"),
            epsilon,
            apart=bool(manifest["guarantee"].get("time", {}).get("immutable")),
        ),
        "prices": price_list(manifest, statistics, words.titled),
        "ledger": manifest["ledger"],
        "dataset": manifest["dataset"],
        "plan_hash": manifest["plan_hash"],
        "validation": manifest["validation"],
        "software": sorted(manifest["software"].items()),
        "version": manifest["dprelease"],
    }


def _section(
    number: int,
    statistic: PlannedStatistic,
    block: PlannedBlock,
    statistics: Sequence[PlannedStatistic],
    keys: Sequence[tuple[str, ...]],
    released: Columns,
    loss: str,
    words: PublicWords,
) -> dict[str, Any]:
    grid = [[released[key, column] for column in statistic.columns] for key in keys]
    flat = [r for row in grid for r in row]
    spread = [(r.ends[1] - r.ends[0]) / 4 for r in flat if not r.weak and block.has_interval]
    # The plan's error is at a public guess of the group size; small groups are often worse.
    errors = [median(spread)] if spread else []
    if statistic.planned_error is not None and loss == "absolute":
        errors.append(statistic.planned_error)
    error = max(errors, default=None)
    decimals = reading_decimals(statistic.step, error)
    domain = statistic.domain
    ends = (_end(domain.lower, statistic.step), _end(domain.upper, statistic.step))
    shared = [s.text for s in statistics if s.block == statistic.block and s != statistic]
    rows = [
        {"key": key, "cells": [_cell(r, decimals) for r in row]}
        for key, row in zip(keys, grid, strict=True)
    ]
    many = len(statistic.columns) > 1
    plot = None if many else _dots(grid, statistic, ends)
    title, measure = words.titled(statistic)
    return {
        "id": f"s{number}",
        "title": title,
        "name": statistic.name,
        "text": statistic.text,
        "measure": measure,
        "columns": statistic.columns,
        "labels": [c.removeprefix(statistic.name) or c for c in statistic.columns],
        "rows": rows,
        "unbiased": any(r.unbiased is not None for r in flat),
        "shown": min(len(keys), PLOT_LIMIT),
        "plot": plot,
        "legend": number
        == next((i for i, s in enumerate(statistics, start=1) if len(s.columns) == 1), 0),
        "cut": plot is not None and any(m.cut_low or m.cut_high for m in plot.marks if not m.weak),
        "bars": _histograms(grid, rows) if many else (),
        "error_text": statistic.error_text,
        "error_words": "error, as root mean square,"
        if loss == "squared" and block.has_interval
        else "error",
        "interval": block.has_interval,
        "mute": "" if block.has_interval else str(statistic.uninformative or ""),
        "mechanism": mechanism_words(statistic.mechanism),
        "sensitivity": statistic.sensitivity,
        "step": _end(statistic.step, statistic.step),
        "low": ends[0],
        "high": ends[1],
        "gaps": [(_end(a, statistic.step), _end(b, statistic.step)) for a, b in domain.exact_gaps],
        "epsilon": short(block.epsilon),
        "shared": shared,
        "proved": _proved(block),
        "options": [
            {
                "mechanism": mechanism_words(o.mechanism),
                "expected": "" if o.expected_error is None else figure_text(o.expected_error),
                "worst": "" if o.worst_error is None else figure_text(o.worst_error),
                "note": o.note,
            }
            for o in statistic.chosen
        ],
        "spikes": statistic.spikes,
        "notes": statistic.notes,
        "remark": statistic.remark,
        "weak": sum(r.weak for r in flat),
        "at_bound": sum(r.status == "at_bound" for r in flat),
        "moved": sum(r.consistent != r.value for r in flat),
        "counts": _parts(statistic.function),
        "why": _why(statistic),
    }


def _parts(function: str) -> bool:
    """Return whether the columns of a statistic are parts of one whole."""
    return function in registry.names("aggregates") and aggregate_named(function).parts


def _dots(
    grid: Sequence[Sequence[Released]], statistic: PlannedStatistic, ends: tuple[str, str]
) -> DotPlot:
    points = [row[0].point for row in grid[:PLOT_LIMIT]]
    return dot_plot(points, statistic.domain.hull, statistic.domain.forbidden, ends)


def _histograms(
    grid: Sequence[Sequence[Released]], rows: Sequence[Mapping[str, Any]]
) -> tuple[tuple[tuple[str, ...], Bars, str], ...]:
    """Return (key, picture, largest value) per group; each group has its own vertical scale."""
    pictures = []
    for row, texts in zip(grid[:PLOT_LIMIT], rows, strict=False):
        top = max((max(r.value, r.ends[1]) for r in row if not r.weak), default=0.0)
        largest = max(range(len(row)), key=lambda i: row[i].value)
        points = [r.point for r in row]
        pictures.append((texts["key"], bars(points, top), texts["cells"][largest].value))
    return tuple(pictures)


def _cell(row: Released, decimals: int) -> Cell:
    status = WEAK.get(row.status, "at bound" if row.status == "at_bound" else "")
    value = reading_text(row.value, decimals)

    def text(x: float | None) -> str:
        return "–" if x is None else reading_text(x, decimals)

    return Cell(
        value=value,
        lower=text(row.lower),
        upper=text(row.upper),
        estimate=text(row.estimate),
        unbiased=text(row.unbiased),
        consistent=text(row.consistent),
        status=status,
        weak=row.weak,
    )


def _end(value: Exact, step: Fraction) -> str:
    """Return a domain's end for readers: exact where it is a short decimal."""
    if not isinstance(value, Fraction):
        return "∞" if value > 0 else "\u2212∞"
    decimals = decimals_of(value)
    if decimals is None:
        decimals = decimals_of(step)
    return reading_text(float(value), 6 if decimals is None else decimals)


def _why(statistic: PlannedStatistic) -> str:
    """Return why the first priced mechanism was used, in one sentence; empty without a rival."""
    if not statistic.chosen:
        return ""
    first = statistic.chosen[0]
    rival = next((o for o in statistic.chosen if o.mechanism != first.mechanism), None)
    if rival is None or not first.expected_error or not rival.expected_error:
        return ""
    name = mechanism_words(rival.mechanism)
    more = 100 * (rival.expected_error / first.expected_error - 1)
    if more < 0.05:
        return f"{name} would have done as well here"
    shown = f"{more:,.0f}" if more >= 10 else f"{more:.2g}"
    return f"the runner-up, {name}, would have had {shown} % more expected error"


def _proved(block: PlannedBlock) -> str:
    upper = block.certificate.get("epsilon_upper")
    return "" if upper is None else short(fraction_from_json(str(upper)))


def _accounting(block: PlannedBlock, statistics: Sequence[PlannedStatistic]) -> dict[str, str]:
    return {
        "name": block.name,
        "statistics": ", ".join(s.text for s in statistics if s.block == block.name),
        "mechanism": mechanism_words(block.mechanism),
        "epsilon": short(block.epsilon),
        "proved": _proved(block),
    }
