"""Write a plan: what a request asks for, laid out under names that can stand together, and what was chosen.

The passes run in this order, each a function of public metadata only:

    layout      statistics -> blocks, measurements, domains
    allocation  a share of the budget per block; every admissible law priced, the best kept
    write       errors and words (`maker`), and the engine's task, from the measurements that were chosen
"""

from __future__ import annotations

from collections.abc import Sequence

from dprelease.aggregates.base import aggregate_named
from dprelease.allocation.spend import Spending
from dprelease.errors import PlanError
from dprelease.measurements.members import BlockLayout
from dprelease.numeric import plain
from dprelease.planning.layout import layout
from dprelease.planning.maker import Maker
from dprelease.query.shortcuts import shortcut_notes
from dprelease.query.spec import Query
from dprelease.query.view import view_notes
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.promise import time_notes
from dprelease.release_plan.statistic import TIDY_NAMES, WIDE_PARTS, PlannedStatistic
from dprelease.release_plan.tables import PlannedTables
from dprelease.sensitivity import Places, bound

__all__ = ["check_names", "laid_out", "write_plan", "written"]


def laid_out(query: Query) -> tuple[BlockLayout, ...]:
    """Return the blocks of a request that asks for something, under names that can stand together.

    Raises:
        PlanError: as `layout`; nothing is asked for (DPR201), or two columns share a name (DPR207).
    """
    if not query.statistics:
        raise PlanError(
            "nothing to release: no statistics are asked for",
            where=query.spec.origin,
            fix="list at least one, e.g. `statistics: [count]`",
            code="DPR201",
        )
    by, origin = query.spec.by, query.spec.origin
    check_names(by, [s.spec.name for s in query.statistics], (), origin)
    blocks = layout(query)
    columns = [c for b in blocks for m in b.members for c in m.aggregate.columns(m.context)]
    check_names(by, (), columns, origin)
    return blocks


def check_names(
    by: Sequence[str], names: Sequence[str], columns: Sequence[str], origin: str
) -> None:
    """Refuse columns of one published table that would share a name.

    Args:
        names: of the statistics; columns: that they publish.

    Raises:
        PlanError: they meet (DPR207).
    """
    taken = {*TIDY_NAMES, *names}
    for name in by:
        if name in taken:
            raise PlanError(
                f"the grouping column `{name}` has the name of a published column",
                where=origin,
                why="two columns of one table cannot share a name",
                fix="rename the statistic with `as`, or the column in the schema and a view",
                code="DPR207",
            )
    beside = {f"{c}_{part}": c for c in columns for part in WIDE_PARTS}
    for name in (*by, *columns):
        if name in beside:
            raise PlanError(
                f"`{name}` is also what the table of all groups calls a column of `{beside[name]}`",
                where=origin,
                why=f"beside every published column stand {', '.join(f'<name>_{p}' for p in WIDE_PARTS)}",
                fix="rename one of the two with `as`",
                code="DPR207",
            )


def write_plan(query: Query, spending: Spending, maker: Maker) -> ReleasePlan:
    """Return the plan that says what was chosen: the same for equal requests and equal choices."""
    order = {s.spec.name: i for i, s in enumerate(query.statistics)}
    statistics = sorted(
        (s for p in spending.priced for s in maker.statistics(p, spending.epsilon)),
        key=lambda s: order[s.name],
    )
    return written(query, spending, maker, query.spec.by, statistics)


def written(
    query: Query,
    spending: Spending,
    maker: Maker,
    by: tuple[str, ...],
    statistics: Sequence[PlannedStatistic],
    tables: PlannedTables | None = None,
    notes: Sequence[str] = (),
) -> ReleasePlan:
    """Return the plan of these statistics: what the engine is asked, the blocks, and what is promised.

    Args:
        by: columns of the engine's groups; notes: what is said before the sentences of any plan.
    """
    priced = spending.priced
    task = bound(query, tuple((p.best.measurement, p.block.max_rows) for p in priced))
    places = Places(task)
    schema, window = query.schema, query.window
    return ReleasePlan(
        schema=schema.name,
        adjacency=schema.adjacency,
        unit=schema.unit,
        epsilon=spending.epsilon,
        delta=query.spec.delta,
        loss=query.loss,
        by=by,
        keys=query.groups.keys,
        where=query.where.canonical if query.where else None,
        statistics=tuple(statistics),
        blocks=tuple(maker.block(p, places) for p in priced),
        query=task,
        window=None if window is None else (window.start, window.end),
        allow=query.spec.allow,
        time=schema.time,
        notes=(*notes, *plan_notes(query, spending)),
        composition=spending.composition,
        tables=tables,
        asked=query,
    )


def plan_notes(query: Query, spending: Spending) -> tuple[str, ...]:
    """Return the plan's sentences on what is spent, and on what is promised."""
    notes = []
    if not query.epsilon:
        notes.append(
            f"the declared `max_error` of every statistic needs epsilon {plain(spending.epsilon)}"
        )
    if spending.epsilon < query.epsilon:
        notes.append(
            f"of the epsilon {plain(query.epsilon)} asked for, {plain(spending.epsilon)} is used and charged"
        )
    if query.judge == "worst":
        notes.append("laws were compared by their expected error at the worst answer")
    notes += time_notes(query, spending.epsilon, query.spec.delta)
    notes += view_notes(query.view)
    notes += shortcut_notes(query.spec.allow)
    return (
        *notes,
        *_said(query),
        *spending.notes(query.spec.delta),
    )


def _said(query: Query) -> list[str]:
    """Return what the plan must say because of the statistics that are asked for."""
    said = (aggregate_named(s.function).plan_note(s) for s in query.statistics)
    return [note for note in said if note is not None]
