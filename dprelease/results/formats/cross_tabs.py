"""A table of groups as a reader wants it: one key across, the others down, by the level above them.

    across    the last key whose columns fit, but not the first one; more than half of all crosses are there
    levels    the labels of the tables that add up to this one, or the first of several keys down

Limits  what a page lists; the data files hold one row per group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from dprelease.fitting.structure import within
from dprelease.release_plan.detail import branches, detail_by, keys_of
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.tables import PlannedTables
from dprelease.results.draw import Draw, tidy_columns
from dprelease.results.formats.format import of_today

MOST_ACROSS = 12
"""Columns of numbers, at most."""
MOST_OPEN = 40
"""So many rows stand open; of more, each level is opened by its reader."""

Key = tuple[str, ...]


def keys_above(plan: PlannedTables, name: str) -> tuple[Key, list[Key]]:
    """Return the keys of coarser tables that a table has not itself, coarse to fine, and their labels of each group."""
    own = plan.named(name)
    levels = [
        table.name
        for table in sorted(plan.tables, key=lambda t: sum(t.level))
        if table != own and within(table.level, own.level)
    ]
    levels.append(name)
    by = detail_by([plan.named(level).by for level in levels])[:-1]
    at = [i for i, column in enumerate(by) if column not in own.by]
    if not at:
        return (), [()] * len(own.keys)
    keys = keys_of(plan, levels, branches(plan, levels), len(levels) - 1)
    return tuple(by[i] for i in at), [tuple(key[i] for i in at) for key in keys]


def labels_above(tables: PlannedTables, plan: ReleasePlan) -> dict[str, list[str]]:
    """Return the columns that data files of one table of several end with: per group, its labels in coarser tables.

    Args:
        plan: of the table. Rows of several levels name them all, and a name that the file has is not repeated.
    """
    name = plan.statistics[0].table or ""
    if tables.detail is not None and tables.detail.table == name:
        return {}
    names, labels = keys_above(tables, name)
    taken = {*tidy_columns(plan).names, *(c for s in plan.statistics for c in s.columns)}
    return {n: [key[i] for key in labels] for i, n in enumerate(names) if n not in taken}


def labels_above_in_folder(noised: Draw, manifest: Mapping[str, Any]) -> dict[str, pa.Array]:
    """Return these columns of one table of a folder, a label per group; older folders stay without them."""
    found = {}
    if noised.all_tables is not None and of_today(manifest):
        found = labels_above(noised.all_tables, noised.plan)
    return {name: pa.array(labels, pa.utf8()) for name, labels in found.items()}


def cross_tab(
    by: Sequence[str], rows: Sequence[Mapping[str, Any]], above: Sequence[Key]
) -> dict[str, Any] | None:
    """Return the table, None where it is best one row per group.

    Args:
        by: what the keys are called; rows: the key and cells of each group.
        above: per row, the labels of the tables that this one adds up to.
    """
    columns = len(rows[0]["cells"]) if rows else 0
    across = _across([row["key"] for row in rows], columns)
    labels = [] if across is None else [*dict.fromkeys(row["key"][across] for row in rows)]
    down = [i for i in range(len(by)) if i != across]
    inner = down if any(above) or len(down) < 2 else down[1:]
    if across is None and inner == down and not any(above):
        return None
    levels: dict[Key, dict[Key, dict[str, Any]]] = {}
    for row, labelled in zip(rows, above, strict=True):
        key = row["key"]
        outer = labelled or tuple(f"{by[i]}: {key[i]}" for i in down if i not in inner)
        line = levels.setdefault(outer, {}).setdefault(tuple(key[i] for i in inner), {})
        line["" if across is None else key[across]] = row["cells"]
    return {
        "by": [by[i] for i in inner],
        "across": "" if across is None else by[across],
        "labels": labels or [""],
        "open": len(rows) <= MOST_OPEN * len(labels or [""]),
        "levels": [
            {
                "name": " · ".join(outer),
                "groups": sum(map(len, lines.values())),
                "rows": [
                    {
                        "key": key,
                        # statistic by statistic, the labels of each side by side
                        "cells": [
                            line[label][i] if label in line else None
                            for i in range(columns)
                            for label in labels or [""]
                        ],
                    }
                    for key, line in lines.items()
                ],
            }
            for outer, lines in levels.items()
        ],
    }


def _across(keys: Sequence[Key], columns: int) -> int | None:
    """Return which key stands across, None for none."""
    counts = [len(set(labels)) for labels in zip(*keys, strict=True)]
    for at in reversed(range(1, len(counts))):
        rest = len({key[:at] + key[at + 1 :] for key in keys})
        if 1 < counts[at] <= MOST_ACROSS // max(columns, 1) and 2 * len(keys) > rest * counts[at]:
            return at
    return None
