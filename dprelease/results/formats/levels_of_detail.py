"""What a report says of a table whose rows stand at several levels: which group stands where, and why.

A function of the plan and of the drawn sizes, as they stand in the manifest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dprelease.core.numeric import fraction_from_json, plain, short
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.release_plan.tables import PlannedTables
from dprelease.results.formats.public_words import PublicWords


def shape_of(plan: Mapping[str, Any], table: Any) -> tuple[list[str], list[list[str]]]:
    """Return the key columns of the tidy table with rows of several levels, and its groups, in order."""
    tables = PlannedTables.from_json(plan["tables"])
    assert tables.detail is not None
    by = list(tables.detail.by(tables))
    return by, groups_of(table, len(by))


def groups_of(table: Any, keys: int) -> list[list[str]]:
    """Return the groups that a tidy table with so many key columns has, in order."""
    columns = [table.column(i).to_pylist() for i in range(keys)]
    groups = zip(*columns, strict=True) if keys else [()] * min(1, table.num_rows)
    return [list(key) for key in dict.fromkeys(groups)]


def detail_section(
    plan: Mapping[str, Any],
    draw: Mapping[str, Any],
    statistics: Sequence[PlannedStatistic],
    words: PublicWords,
    most: int,
) -> dict[str, Any]:
    """Return what the page shows of the choice of levels; `most` groups are listed.

    Args:
        plan, draw: the manifest's.
    """
    tables = PlannedTables.from_json(plan["tables"])
    detail = tables.detail
    assert detail is not None
    fit = next(f for f in tables.fits if any(_is(detail, t) for t in f.tables))
    drawn = None if detail.block is None else draw["cells"][detail.block]
    sizes = None if drawn is None else [int(row[0]) for row in drawn]
    chosen = detail.chosen(sizes)
    coarsest = tables.named(detail.levels[0])

    def shown(steps: int | None) -> str:
        return "–" if steps is None else f"{plain(steps * fit.step_size)}"

    rows = [
        {
            "key": list(coarsest.keys[i]),
            "level": detail.levels[at],
            "size": "" if sizes is None else shown(sizes[i]),
            "needed": [
                shown(needed[i]) if sizes is not None or needed[i] is None else "met"
                for needed in detail.needed
            ],
        }
        for i, at in enumerate(chosen[:most])
    ]
    goals = []
    if detail.max_error is not None:
        goals.append(f"at most {plain(detail.max_error)}")
    if detail.max_relative_error is not None:
        goals.append(f"at most {plain(100 * detail.max_relative_error)} % of the average size")
    block = next((b for b in plan["blocks"] if b["name"] == detail.block), None)
    return {
        "coarsest": coarsest.name,
        "by": [words.column(name) for name in coarsest.by],
        "finer": list(detail.levels[1:]),
        "goal": " and ".join(goals),
        "epsilon": "" if block is None else short(fraction_from_json(block["epsilon"])),
        "counts": [f"{chosen.count(i):,} at {name}" for i, name in enumerate(detail.levels)],
        "groups": len(chosen),
        "sums": detail.added_up(tables, statistics),
        "rows": rows,
    }


def _is(detail: Any, part: Any) -> bool:
    return (part.table, part.statistic) == (detail.table, detail.statistic)
