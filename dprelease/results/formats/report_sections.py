"""One statistic of one table as a section of the report: its picture, its numbers, how it was measured.

Limits  Pictures show the first 60 groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from statistics import median
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dprelease.core import registry
from dprelease.core.numeric import Exact, fraction_from_json, short
from dprelease.release_plan.block import Block
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.release_plan.tables import STATED
from dprelease.results.formats.chart import Point, point
from dprelease.results.formats.numbers import (
    decimals_of,
    figure_text,
    reading_decimals,
    reading_text,
)
from dprelease.results.formats.plain_words import group_name
from dprelease.results.formats.plots import Bars, bars, dot_plot
from dprelease.results.formats.public_words import PublicWords
from dprelease.results.formats.words import mechanism_words
from dprelease.results.rules import IMPOSSIBLE, SUPPRESSED
from dprelease.statistics.base import kind_named

PLOT_LIMIT = 60
MANY = 12
"""More rows than these, by several keys, are a picture per label of the first key."""
TABLE_LIMIT = 250
"""So many groups, and so many columns of one statistic, stand in a table."""
SAID = {"at_bound": "at bound", "adjusted": "adjusted", "gap": "gap", IMPOSSIBLE: IMPOSSIBLE}
WEAK = {"uninformative": "uninformative", "empty_signal": "no signal", SUPPRESSED: SUPPRESSED}


class Value(NamedTuple):
    """One released value with its 95 % interval, None for a choice by rank, its certain one, if noise ends, and companions."""

    value: float | None
    lower: float | None
    upper: float | None
    status: str
    certain_lower: float | None = None
    certain_upper: float | None = None
    estimate: float | None = None
    unbiased: float | None = None
    consistent: float | None = None

    @property
    def weak(self) -> bool:
        return self.status in WEAK

    @property
    def point(self) -> Point:
        return point(self.value, self.lower, self.upper, weak=self.weak)


Columns = Mapping[tuple[tuple[str, ...], str], Value]


def released_rows(table: pa.Table, listed: Sequence[tuple[str, ...]]) -> Columns:
    """Return the rows of the listed groups; a large table is thinned before it becomes Python."""
    keys = len(listed[0]) if listed else 0
    for i in range(keys):
        labels = pa.array(sorted({key[i] for key in listed}), pa.utf8())
        table = table.filter(pc.is_in(table.column(i), value_set=labels))
    names = table.schema.names[keys:]
    at = {name: keys + names.index(name) for name in names}
    at.setdefault("consistent", at["value"])  # where tables add up
    columns = [table.column(i).to_pylist() for i in range(keys)]
    groups = zip(*columns, strict=True) if keys else [()] * table.num_rows
    parts = [
        table.column(at[name]).to_pylist() if name in at else [None] * table.num_rows
        for name in ("statistic", *Value._fields)
    ]
    return {
        (tuple(group), name): Value(*own) for group, name, *own in zip(groups, *parts, strict=True)
    }


def section(
    number: int,
    statistic: PlannedStatistic,
    plan: ReleasePlan,
    keys: Sequence[tuple[str, ...]],
    names: Sequence[str],
    released: Columns,
    words: PublicWords,
    *,
    by_row: bool,
) -> dict[str, Any]:
    """Return a statistic's section; `plan`: of its table, `by_row`: each number rounded by its own noise."""
    block = plan.block(statistic.block)
    grid = [[released[key, column] for column in statistic.columns] for key in keys]
    flat = [r for row in grid for r in row]
    drawn = [r.point for r in flat]
    spread = [(p.upper - p.lower) / 4 for p in drawn if not p.weak and block.has_interval]
    # The plan's error is at a public guess of the group size; small groups are often worse.
    errors = [median(spread)] if spread else []
    if statistic.planned_error is not None and plan.loss == "absolute":
        errors.append(statistic.planned_error)
    error = max(errors, default=None)
    decimals = reading_decimals(statistic.step, error)
    domain = statistic.domain
    ends = (_end(domain.lower, statistic.step), _end(domain.upper, statistic.step))
    rows = [
        {"key": key, "name": name, "cells": _cells(row, statistic.step, decimals, by_row=by_row)}
        for key, name, row in zip(keys, names, grid, strict=True)
    ]
    many = len(statistic.columns) > 1
    plots = [] if many else _dots(rows, grid, statistic, ends, apart=by_row)
    return {
        "id": f"s{number}",
        **_called(statistic, words),
        "rows": rows,
        **_shown(keys, plots),
        "bars": _histograms(grid, names, decimals) if many else (),
        "error_words": "Error (root mean square)"
        if plan.loss == "squared" and block.has_interval
        else "Error",
        "interval": block.has_interval,
        "certain": block.certain(statistic.function),
        "mute": "" if block.has_interval else words.mute(statistic),
        **_planned(statistic, words),
        **_counted(flat),
        "low": ends[0],
        "high": ends[1],
        "gaps": [(_end(a, statistic.step), _end(b, statistic.step)) for a, b in domain.exact_gaps],
        "epsilon": block_loss(block),
        "shared": [
            s.text for s in plan.statistics if s.block == statistic.block and s != statistic
        ],
        "proved": proved(block),
        "counts": statistic.function in registry.names("aggregates")
        and kind_named(statistic.function).parts,
        "why": _why(statistic),
    }


def _shown(keys: Sequence[tuple[str, ...]], plots: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the pictures, and how much of the groups they and the tables show."""
    cut = any((m.cut_low or m.cut_high) and not m.weak for one in plots for m in one["plot"].marks)
    return {"shown": min(len(keys), PLOT_LIMIT), "listed": TABLE_LIMIT, "plots": plots, "cut": cut}


def _called(statistic: PlannedStatistic, words: PublicWords) -> dict[str, Any]:
    """Return what a statistic and its columns are called; given: whether by the publisher."""
    title, measure = words.titled(statistic)
    return {
        "title": title,
        "given": words.own_title(statistic) is not None,
        "table": statistic.table or "",
        "name": statistic.name,
        "text": statistic.text,
        "measure": measure,
        "columns": statistic.columns,
        "labels": [c.removeprefix(statistic.name) or c for c in statistic.columns],
    }


def _planned(statistic: PlannedStatistic, words: PublicWords) -> dict[str, Any]:
    """Return what the plan says of a statistic, whatever was drawn."""
    return {
        "error_text": words.error(statistic),
        "stated": statistic.error_text == STATED or statistic.error_text.startswith("exact"),
        "mechanism": mechanism_words(statistic.mechanism),
        "sensitivity": words.change(statistic),
        "step": _end(statistic.step, statistic.step),
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
        "notes": [words.sentence(note) for note in statistic.notes],
        "remark": statistic.remark,
    }


def _counted(values: Sequence[Value]) -> dict[str, Any]:
    """Return how many of the released values are of which status."""
    times = Counter(r.status for r in values)
    return {
        "unbiased": any(r.unbiased is not None for r in values),
        "weak": sum(times[status] for status in WEAK if status != SUPPRESSED),
        **{status: times[status] for status in (SUPPRESSED, "at_bound", "adjusted", "gap")},
        "moved": sum(r.consistent != r.value for r in values),
    }


def _dots(
    rows: Sequence[Mapping[str, Any]],
    grid: Sequence[Sequence[Value]],
    statistic: PlannedStatistic,
    ends: tuple[str, str],
    *,
    apart: bool,
) -> list[dict[str, Any]]:
    """Return the picture of all rows; `apart`: of many by several keys one per label of the first key, to one scale."""
    rows, points = rows[:PLOT_LIMIT], [row[0].point for row in grid[:PLOT_LIMIT]]
    found: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        plain = row["key"][1:] and row["name"] == group_name(row["key"])
        found.setdefault(row["key"][0] if plain else "", []).append(i)
    apart = apart and len(rows) > MANY and 1 < len(found) <= len(rows) / 2 and "" not in found
    plots = []
    for label, places in found.items() if apart else [("", range(len(rows)))]:
        mine = [rows[i] for i in places]
        if apart:
            mine = [{**row, "name": group_name(row["key"][1:])} for row in mine]
        plot = dot_plot(
            [points[i] for i in places],
            statistic.domain.hull,
            statistic.domain.forbidden,
            ends,
            [row["name"] for row in mine],
            beside=points if apart else (),
        )
        plots.append({"label": label, "rows": mine, "plot": plot})
    return plots


def _histograms(
    grid: Sequence[Sequence[Value]], names: Sequence[str], decimals: int
) -> tuple[tuple[str, Bars, str], ...]:
    """Return (group, picture, largest value) per group; each group has its own vertical scale."""
    pictures = []
    for row, name in zip(grid[:PLOT_LIMIT], names, strict=False):
        points = [r.point for r in row]
        top = max((max(p.value, p.upper) for p in points if not p.weak), default=0.0)
        known = [r.value for r in row if r.value is not None]
        largest = reading_text(max(known), decimals) if known else "–"
        pictures.append((name, bars(points, top), largest))
    return tuple(pictures)


def _cells(
    row: Sequence[Value], step: Fraction, decimals: int, *, by_row: bool
) -> list[dict[str, Any]]:
    return [
        _cell(r, _own_decimals(r, step, decimals) if by_row else decimals)
        for r in row[:TABLE_LIMIT]
    ]


def _cell(row: Value, decimals: int) -> dict[str, Any]:
    """Return one released value as text, with its companions, by the names of its parts; "–" where there is none."""
    numbers = {name: getattr(row, name) for name in Value._fields if name != "status"}
    texts = {n: "–" if x is None else reading_text(x, decimals) for n, x in numbers.items()}
    status = WEAK.get(row.status, SAID.get(row.status, ""))
    return {**texts, "status": status, "weak": row.weak}


def _own_decimals(row: Value, step: Fraction, usual: int) -> int:
    """Return the decimals that a row's own noise allows; the usual ones where its interval says nothing of it."""
    if row.weak or row.lower is None or row.upper is None:
        return usual
    return reading_decimals(step, (row.upper - row.lower) / 4)


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
    shown = f"{abs(more):,.0f}" if abs(more) >= 10 else f"{abs(more):.2g}"
    if more < -1:
        return f"{name} would have {shown} % less expected error near the declared size, and no less over the whole domain"
    if more < 0.05:
        return f"{name} would have done as well here"
    return f"the runner-up, {name}, would have had {shown} % more expected error"


def block_loss(block: Block, epsilon: Fraction | None = None) -> str:
    """Return the epsilon of a block, or the one given, with its own delta where its noise ends."""
    return short(epsilon or block.epsilon) + f", δ = {float(block.delta):.3g}" * bool(block.delta)


def proved(block: Block) -> str:
    upper = block.certificate.get("epsilon_upper")
    return "" if upper is None else block_loss(block, fraction_from_json(str(upper)))
