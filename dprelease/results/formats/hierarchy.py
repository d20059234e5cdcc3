"""Which tables of a release are sums of which: the picture at the head of a report of several.

Tables stand in layers, coarse above fine; each names the tables that it adds up to, and no table that
those add up to in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dprelease.fitting.structure import Level, within
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.tables import STATED, PlannedTable, PlannedTables
from dprelease.results.formats.public_words import PublicWords
from dprelease.results.formats.words import inside


def layers(tables: PlannedTables, words: PublicWords) -> list[list[dict[str, Any]]]:
    """Return the layers of the picture, coarse first: per table its name, groups, origin, what it adds up to."""
    parts = [part for fit in tables.fits for part in fit.tables]
    fitted = [t for t in tables.tables if any(part.table == t.name for part in parts)]
    level = {t.name: _level(t, tables.axes) for t in fitted}
    above = {
        name: [o for o in level if o != name and within(level[o], own)]
        for name, own in level.items()
    }
    depth: dict[str, int] = {}
    for name in sorted(level, key=lambda n: len(above[n])):
        depth[name] = 1 + max((depth[o] for o in above[name]), default=-1)
    origin = {part.table: STATED for part in parts if part.totals}
    measured = {part.table: "measured" for part in parts if part.block is not None}
    other = "not measured, added up" if measured or origin else "measured together with the others"
    origin |= measured
    made: list[list[dict[str, Any]]] = [[] for _ in range(1 + max(depth.values()))]
    for table in fitted:
        name = table.name
        nearest = [o for o in above[name] if not any(o in above[p] for p in above[name])]
        made[depth[name]].append(
            {
                "name": name,
                "by": [inside(words.column(column)) for column in table.by],
                "groups": len(table.keys),
                "of": nearest,
                "origin": origin.get(name, other),
            }
        )
    return made


def not_adding_up(plan: ReleasePlan) -> dict[str, list[str]]:
    """Return the statistics whose tables do not add up: computed of others, counted apart, or drawn in each."""
    if plan.tables is None:
        return {}
    text = {(s.table, s.name): s.text for s in plan.statistics}
    fits = [[(t.table, t.statistic) for t in fit.tables] for fit in plan.tables.fits]
    ratios = [(ratio.table, ratio.statistic) for ratio in plan.tables.ratios]
    alone = [text[parts[0]] for parts in fits if len(parts) == 1 and parts[0] in text]
    several = [each for each in alone if list(text.values()).count(each) > 1]
    known = {place for parts in (*fits, ratios) for place in parts}
    drawn = [each for place, each in text.items() if place not in known]
    found = {"computed": [text[place] for place in ratios], "apart": several, "drawn": drawn}
    return {why: [*dict.fromkeys(each)] for why, each in found.items()}


def _level(table: PlannedTable, axes: Sequence[Sequence[Sequence[int]]]) -> Level:
    """Return the table's level per axis; a level of one cell is none."""
    return tuple(
        at if at >= 0 and any(axis[at]) else -1 for at, axis in zip(table.level, axes, strict=True)
    )
