"""`report.html`: one self-contained page that explains a release to people.

It is a function of the manifest and of the release that is made again from it, so it can be rebuilt from a
published folder, byte for byte. No script, no font, no picture is loaded: the style is inline and pinned by
its hash in a Content-Security-Policy, the plots are inline SVG. Every text reaches the page through
Jinja2 with autoescaping on; no markup is built in Python.

Limits  Pictures show the first 60 groups and tables the first 250; the data files hold all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from dprelease.core.numeric import fraction_from_json, short
from dprelease.release_plan.block import Block
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.release_plan.weak import weak_promise
from dprelease.results.draw import Draw
from dprelease.results.formats.budget_figures import budget_figure, price_list
from dprelease.results.formats.cross_tabs import cross_tab, keys_above
from dprelease.results.formats.format import of_today, several_tables
from dprelease.results.formats.hierarchy import layers, not_adding_up
from dprelease.results.formats.levels_of_detail import detail_section
from dprelease.results.formats.plain_words import group_name
from dprelease.results.formats.privacy_label import privacy_label
from dprelease.results.formats.promise_words import guesses, promise
from dprelease.results.formats.public_words import PublicWords, public_words
from dprelease.results.formats.report_sections import (
    TABLE_LIMIT,
    WEAK,
    block_loss,
    proved,
    released_rows,
    section,
)
from dprelease.results.formats.templates import page_template
from dprelease.results.formats.words import inside, loss_text, mechanism_words, odds, period_words
from dprelease.results.rules import IMPOSSIBLE, SUPPRESSED

FILE = "report.html"


@several_tables("all")
def write(noised: Draw, manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """Return `{"report.html": bytes}`."""
    return {FILE: report(noised, manifest)}


def report(noised: Draw, manifest: Mapping[str, Any], *, gone: str = "") -> bytes:
    """Return the page for a release and its manifest (`files` is not looked at), UTF-8.

    Args:
        gone: what the record of corrections says of a release that no longer stands, for a page made
            after publication. The published page cannot know and must never change (`verify` makes
            it again byte for byte), so it names the record's place.
    """
    labelled = of_today(manifest)
    page = page_of(noised, manifest, labelled=labelled)
    styles = ("report.css", "cross_tabs.css") if labelled else ("report.css",)
    template = page_template("report.html.j2", *styles)
    return template.render(page=page, gone=gone).encode("utf-8")


def page_of(noised: Draw, manifest: Mapping[str, Any], *, labelled: bool) -> dict[str, Any]:
    """Return everything that pages about one release show, by name; labelled: as today's do."""
    plan, words = noised.plan, public_words(manifest)
    tables = _tables(noised, words, len(manifest["plan"]["keys"]), labelled=labelled)
    epsilon, delta = (
        fraction_from_json(manifest["guarantee"][name]) for name in ("epsilon", "delta")
    )
    factor, certainty = odds(epsilon)
    return {
        "title": words.title,
        "about": words.about,
        "when": period_words(manifest["period"] or ""),
        "name": manifest["pipeline"] or plan.schema,
        "period": manifest["period"],
        "published": manifest.get("published"),
        "window": manifest["plan"]["window"],
        "early": manifest.get("early"),
        **_said(manifest, words),
        "guesses": guesses(epsilon, delta),
        "label": privacy_label(manifest, words) if labelled else [],
        "over_time": manifest["over_time"],
        "weak_promise": weak_promise(epsilon, words.data),
        "promise": promise(words, manifest["guarantee"]["adjacency"]),
        "epsilon": short(epsilon),
        "delta": f"{float(delta):.3g}" if delta else "",
        "factor": factor,
        "certainty": certainty,
        "tables": tables,
        "found": plan.query.groups.found,
        "layers": [] if plan.tables is None else layers(plan.tables, words),
        "beside": not_adding_up(plan),
        "sections": _placed(tables),
        "blocks": [_accounting(b, plan.statistics) for b in plan.blocks],
        "loss": loss_text(plan.loss),
        "public": [s.text for s in plan.statistics if plan.block(s.block).public],
        "ranked": any(not plan.block(s.block).has_interval for s in plan.statistics),
        "notes": [words.sentence(note) for note in plan.notes],
        "budget": budget_figure(
            manifest.get("budget"),
            epsilon,
            apart=bool(manifest["guarantee"].get("time", {}).get("immutable")),
        ),
        "prices": None
        if tables[0]["name"]
        else price_list(manifest, plan.statistics, words.titled),
        "ledger": manifest["ledger"],
        "dataset": manifest["dataset"],
        "plan_hash": manifest["plan_hash"],
        "validation": manifest["validation"],
        "software": sorted(manifest["software"].items()),
        "version": manifest["dprelease"],
    }


def _placed(tables: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return all sections; a publisher's own title, given once, needs no table behind it."""
    sections: list[dict[str, Any]] = [s for t in tables for s in t["sections"]]
    titles = Counter(s["title"] for s in sections)
    for s in sections:
        s["place"] = "" if s["given"] and titles[s["title"]] == 1 else s["table"]
    return sections


def _said(manifest: Mapping[str, Any], words: PublicWords) -> dict[str, Any]:
    """Return who is protected, and which rows are taken, in the publisher's words."""
    plan, guarantee = manifest["plan"], manifest["guarantee"]
    return {
        "where": plan["where"],
        "condition": words.condition(plan["where"]) if plan["where"] else None,
        "counted": words.counted,
        "statement": words.statement(guarantee["statement"]),
        "protects": words.statement(guarantee["protects"]),
        "protected": words.protected,
        "one": words.one if words.about.unit_name else "one unit",
    }


def _tables(
    noised: Draw, words: PublicWords, cells: int, *, labelled: bool
) -> list[dict[str, Any]]:
    """Return what the page shows of every table, of one without a name: published ones of so many `cells`."""
    out: list[dict[str, Any]] = []
    for name, part in (noised.parts or {"": noised.published}).items():
        first = 1 + sum(len(table["sections"]) for table in out)
        made = _one_table(name, part, first, words, labelled=labelled)
        tables, detailed = noised.plan.tables, bool(part.rows)
        if labelled and not detailed:
            above = [()] * made["groups"] if tables is None else keys_above(tables, name)[1]
            made["crossed"] = cross_tab(made["by"], made["summary"], above[: made["listed"]])
        if detailed:
            made["detail"] = detail_section(noised, part.plan.statistics, words, TABLE_LIMIT)
        rules, whole = noised.plan.rules, cells if tables is None else made["groups"]
        made["left_out"] = whole - made["groups"]
        made["round"] = rules and rules.round
        out.append(made)
    return out


def _one_table(
    name: str, part: Draw, first: int, words: PublicWords, *, labelled: bool
) -> dict[str, Any]:
    """Return one table's part of the page; `first` numbers its first section."""
    plan, mixed = part.plan, bool(part.rows)
    listed = plan.keys[:TABLE_LIMIT]
    names = [group_name(key, mixed=mixed) for key in listed]
    released = released_rows(part.table, listed)
    sections = [
        section(i, s, plan, listed, names, released, words, by_row=labelled)
        for i, s in enumerate(plan.statistics, start=first)
    ]
    single = [s for s in sections if len(s["columns"]) == 1]
    marks = {c["status"] for s in single for row in s["rows"] for c in row["cells"]}
    for one in sections:
        one["legend"] = bool(single) and one is single[0]
    return {
        "name": name,
        "by": [words.column(n) for n in plan.by],
        "grouped": [inside(words.column(n)) for n in plan.by],
        "groups": len(plan.keys),
        "listed": len(listed),
        "hidden": max(0, len(plan.keys) - TABLE_LIMIT),
        "single": single,
        "summary": [
            {"key": key, "cells": [s["rows"][i]["cells"][0] for s in single]}
            for i, key in enumerate(listed)
        ],
        "suppressed": SUPPRESSED in marks,
        "impossible": IMPOSSIBLE in marks,
        "weak": bool(marks & {*WEAK.values()} - {SUPPRESSED}),
        "at_bound": any(s["at_bound"] for s in single),
        "adjusted": sum(s["adjusted"] for s in sections),
        "gap": sum(s["gap"] for s in sections),
        "sections": sections,
        "detail": None,
        "crossed": None,
    }


def _accounting(block: Block, statistics: Sequence[PlannedStatistic]) -> dict[str, str]:
    return {
        "name": block.name,
        "statistics": ", ".join(s.text for s in statistics if s.block == block.name)
        or "only which level rows stand at",
        "mechanism": mechanism_words(block.mechanism),
        "epsilon": block_loss(block),
        "proved": proved(block),
    }
