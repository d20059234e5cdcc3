"""The plan page: expected error against epsilon, for people who must choose before spending.

One self-contained page made from plans alone; no row was read for it. It works without a script:
the table holds every number. The script, pinned by its hash as the style is, moves one choice of
epsilon along table and pictures and loads nothing. Every text reaches the page through Jinja2 with
autoescaping on; no markup is built in Python.

Both axes of a picture are logarithmic: an error that falls as 1 / epsilon is a straight line.
Horizontal positions are percentages of the picture's width, vertical ones pixels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dprelease.budget.approval import request_hash
from dprelease.core.numeric import counted, short
from dprelease.query.written import request_for_all_periods
from dprelease.release_plan.curve import Curve
from dprelease.release_plan.explain import HEADERS, rows, warning
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.release_plan.weak import weak_promise
from dprelease.release_plan.why_split import why_this_split
from dprelease.results.formats.chart import Scale, Tick, log_ticks
from dprelease.results.formats.promise_words import promise
from dprelease.results.formats.public_words import PublicWords, planned_words
from dprelease.results.formats.templates import page_template
from dprelease.results.formats.words import mechanism_words, odds
from dprelease.schema.unit import describe

HEIGHT = 150
TOP = 12
BASE = 122


@dataclass(frozen=True, slots=True)
class Dot:
    """A point of the curve; `place` is its index among all epsilons."""

    x: float
    y: float
    place: int
    label: str


@dataclass(frozen=True, slots=True)
class CurvePlot:
    dots: tuple[Dot, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    height: int = HEIGHT
    top: int = TOP
    base: int = BASE


def plan_page(name: str, plan: ReleasePlan, curve: Curve, budget: Mapping[str, str]) -> bytes:
    """Return the page, UTF-8.

    Args:
        name: the pipeline's.
        plan: the plan as it stands.
        curve: its statistics at other epsilons, in the plan's order.
        budget: `total`, `shared` behind it and, where losses add up, `releases` by epsilon as text; public texts.
    """
    styles = "report.css", "plan_page.css"
    template = page_template("plan_page.html.j2", *styles, script="plan_page.js")
    return template.render(page=_page(name, plan, curve, budget)).encode("utf-8")


def _page(name: str, plan: ReleasePlan, curve: Curve, budget: Mapping[str, str]) -> dict[str, Any]:
    words = planned_words(plan, name)
    return {
        "title": words.title,
        "epsilon": short(plan.epsilon),
        "weak_promise": weak_promise(plan.epsilon, words.data),
        "weak_budget": weak_promise(Fraction(budget.get("total") or 0), words.data),
        "delta": f"{float(plan.delta):.3g}" if plan.delta else "",
        "protects": describe(plan.adjacency, plan.unit)
        if words.about.unit_name is None
        else words.protected,
        "guarantee": words.statement(plan.guarantee),
        "factor": odds(plan.epsilon)[0],
        "one": words.one if words.about.unit_name else "one protected unit",
        "promise": promise(words, plan.adjacency.value),
        "groups": counted(len(plan.keys), "group"),
        "tables": plan.tables and counted(len(plan.tables.tables), "table"),
        "found": plan.query.groups.found,
        "by": [words.column(name) for name in plan.by],
        "where": plan.where,
        "counted": words.counted,
        "condition": words.condition(plan.where) if plan.where else None,
        "own": curve.own,
        "note": curve.note,
        "split": (why_this_split(plan) or "").removeprefix("why this split: "),
        "notes": [words.sentence(note) for note in plan.notes],
        "hash": plan.hash,
        "request": plan.request and request_hash(request_for_all_periods(plan.request)),
        "budget": {"shared": "", **budget},
        "points": [
            {
                "epsilon": short(p.epsilon),
                "factor": odds(p.epsilon)[0],
                "releases": budget.get(short(p.epsilon), ""),
                "refused": p.refused,
            }
            for p in curve.points
        ],
        "sections": [_section(i, s, curve, words) for i, s in enumerate(plan.statistics)],
        "mute": any(s.uninformative for p in curve.points for s in p.statistics),
        "headers": HEADERS,
        "rows": [_row(s, row, words) for s, row in zip(plan.statistics, rows(plan), strict=True)],
    }


def _row(statistic: PlannedStatistic, row: Sequence[str], words: PublicWords) -> list[str]:
    """Return a row of the plan's table (`HEADERS`) in the publisher's words."""
    name, domain, _, mechanism, others, epsilon, _ = row
    warned = warning(statistic).replace("see below", "see “Before you pay”")
    return [
        name, domain, words.change(statistic), mechanism_words(mechanism), mechanism_words(others), epsilon,
        words.error(statistic) + warned,
    ]  # fmt: skip


def _section(
    place: int, statistic: PlannedStatistic, curve: Curve, words: PublicWords
) -> dict[str, Any]:
    return {
        "id": f"s{place + 1}",
        "title": _title(statistic, words),
        "name": statistic.name,
        "table": statistic.table or "",
        "text": statistic.text,
        "measure": words.measure(statistic),
        "planned": words.error(statistic),
        "mute": words.mute(statistic),
        "cells": [
            {
                "error": "–" if p.refused else p.words[place],
                "mute": not p.refused and p.statistics[place].uninformative is not None,
                "mechanism": "" if p.refused else mechanism_words(p.mechanisms[place]),
            }
            for p in curve.points
        ],
        "picture": _picture(place, curve),
    }


def _title(statistic: PlannedStatistic, words: PublicWords) -> str:
    """Return a heading; of several tables with the table, where the publisher gave none."""
    title = words.heading(statistic)
    if statistic.table is None or words.own_title(statistic) is not None:
        return title
    return f"{title} in {statistic.table}"


def _picture(place: int, curve: Curve) -> CurvePlot | None:
    """Return a statistic's curve; None with fewer than two numbers above 0 to draw."""
    found = [
        (i, float(p.epsilon), error, p.words[place])
        for i, p in enumerate(curve.points)
        if not p.refused and (error := p.errors[place]) is not None and error > 0
    ]
    if len(found) < 2:
        return None
    left, right = (math.log(float(curve.points[i].epsilon)) for i in (0, -1))
    errors = [math.log10(error) for _, _, error, _ in found]
    low, high = min(errors), max(errors)
    pad = max(0.06 * (high - low), 0.05)
    low, high = low - pad, high + pad

    across, down = Scale(left, right), Scale(low, high, BASE, TOP, digits=2)

    def x(epsilon: float) -> float:
        return across.position(math.log(epsilon))

    dots = tuple(
        Dot(
            x(epsilon),
            down.position(math.log10(error)),
            i,
            f"ε = {short(curve.points[i].epsilon)}: {words}",
        )
        for i, epsilon, error, words in found
    )
    last = len(curve.points) - 1
    epsilons = tuple(
        Tick(
            x(float(p.epsilon)),
            short(p.epsilon),
            "start" if i == 0 else "end" if i == last else "middle",
        )
        for i, p in enumerate(curve.points)
    )
    errors_up = tuple(
        Tick(down.position(log), f"{number:,.6g}") for log, number in log_ticks(low, high)
    )
    return CurvePlot(dots, epsilons, errors_up)
