"""What a report says of a table whose rows stand at several levels: which group stands where, and why.

A function of the plan and of the drawn sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dprelease.core.numeric import plain, short
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.results.draw import Draw
from dprelease.results.formats.public_words import PublicWords


def detail_section(
    noised: Draw, statistics: Sequence[PlannedStatistic], words: PublicWords, most: int
) -> dict[str, Any]:
    """Return what the page shows of the choice of levels; `most` groups are listed."""
    plan, tables = noised.plan, noised.plan.tables
    assert tables is not None
    assert tables.detail is not None
    detail = tables.detail
    place = detail.table, detail.statistic
    fit = next(f for f in tables.fits if any((t.table, t.statistic) == place for t in f.tables))
    sizes = detail.sizes(noised.cells)
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
    return {
        "coarsest": coarsest.name,
        "by": [words.column(name) for name in coarsest.by],
        "finer": list(detail.levels[1:]),
        "goal": " and ".join(goals),
        "epsilon": "" if detail.block is None else short(plan.block(detail.block).epsilon),
        "counts": [f"{chosen.count(i):,} at {name}" for i, name in enumerate(detail.levels)],
        "groups": len(chosen),
        "sums": detail.added_up(tables, statistics),
        "rows": rows,
    }
