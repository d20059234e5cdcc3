"""Write a plan: what was chosen for a request, what the engine is asked, and the sentences for readers.

    plan         its statistics and blocks, the engine's task, and what is spent and promised
    blocks       which law draws which integers, what that costs, and the proof of it
    statistics   the error at the guessed size, the step, the laws that were compared, which rows count

Nothing is chosen here: `Prices` has priced everything. Of several tables the plan is written here, too; its
statistics are written in `planning.tables`. Sentences are made of public numbers, and nothing is computed from
them again.

Units: epsilon in nats; errors in the statistic's unit; sizes in rows per group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dprelease.allocation.share import Priced, cost
from dprelease.allocation.spend import Spending
from dprelease.core.numeric import counted, figure, plain, shown
from dprelease.measurements.base import family_of
from dprelease.measurements.members import Member
from dprelease.measurements.of_scalar import scalar_of
from dprelease.measurements.spread import NARROW, SAME, guessed
from dprelease.measurements.steps import check_step, publish_step
from dprelease.planning.prices import Figures, Prices
from dprelease.query.shortcuts import shortcut_notes
from dprelease.query.spec import Query
from dprelease.query.view import view_notes
from dprelease.release_plan.block import Block
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.promise import time_notes
from dprelease.release_plan.rules import ruled
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.release_plan.tables import PlannedTables
from dprelease.schema.unit import UserUnit, caps_words
from dprelease.statistics.base import kind_named
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import PrimitivePlaces, bounded_query


def write_plan(query: Query, spending: Spending, prices: Prices) -> ReleasePlan:
    """Return the plan that says what was chosen: the same for equal requests and equal choices."""
    statistics = planned_statistics(query, spending, prices)
    return written(query, spending, prices, query.spec.by, statistics)


def planned_statistics(query: Query, spending: Spending, prices: Prices) -> list[PlannedStatistic]:
    """Return what is said of every statistic, in the order of the request."""
    order = {s.spec.name: i for i, s in enumerate(query.statistics)}
    recorded, found = prices.recorded or {}, []
    for p in spending.priced:
        for i, member in enumerate(p.block.members):
            figures = recorded.get(member.statistic.spec.name)
            found.append(planned_statistic(prices, p, i, spending.epsilon, figures))
    return sorted(found, key=lambda s: order[s.name])


def written(
    query: Query,
    spending: Spending,
    prices: Prices,
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
    task = bounded_query(query, tuple((p.best.measurement, p.block.max_rows) for p in priced))
    places = PrimitivePlaces(task)
    schema, window = query.schema, query.window
    plan = ReleasePlan(
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
        blocks=tuple(_block(prices, p, places) for p in priced),
        query=task,
        window=None if window is None else (window.start, window.end),
        allow=query.spec.allow,
        time=schema.time,
        notes=(*notes, *_notes(query, spending)),
        composition=spending.composition,
        tables=tables,
        request=query,
    )
    return plan if query.spec.rules is None else ruled(plan, query.spec.rules, query)


def _notes(query: Query, spending: Spending) -> tuple[str, ...]:
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
    said = (kind_named(s.function).plan_note(s) for s in query.statistics)
    return (*notes, *filter(None, said), *spending.notes(query.spec.delta))


# --- a block ----------------------------------------------------------------------------------


def _block(prices: Prices, priced: Priced, places: PrimitivePlaces) -> Block:
    best = priced.best
    s = priced.sensitivity
    spent = cost(priced, prices.query.spec.delta)
    return Block(
        name=priced.block.name,
        epsilon=spent.epsilon,
        rho=spent.rho,
        delta=spent.delta,
        table=priced.block.table,
        share=priced.share.to_json(),
        measurement=replace(
            best.measurement,
            measures=(),
            primitives=places.find(best.measurement, prices.rows(priced.block)),
            max_rows=priced.block.max_rows,
            data=_data(priced.block.members[0], best.measurement),
            sensitivity={
                "l1_per_group": str(s.l1_per_group),
                "l1_over_groups": str(s.l1_over_groups),
                "changed_groups": s.changed_groups,
                "chain_length": s.chain_length,
            },
        ),
        law=best.law,
        certificate={"epsilon_upper": str(spent.epsilon_upper), **best.law.evidence()},
    )


def _data(member: Member, of: Measurement) -> dict[str, Any]:
    """Return public facts of the measured columns that consistency between statistics needs.

    complete: no null leaves a row out; partition: every row falls into one of the bins;
    forbidden: the column's gaps, exact, of a block of one column.
    """
    context = member.statistic
    columns = context.columns if context.column is None else (context.column,)
    columns += () if context.weight is None else (context.weight.column,)
    complete = context.condition is None and all(c.null_default is not None for c in columns)
    out: dict[str, Any] = {"complete": complete}
    if of.key[1:] and context.column is not None and context.column.domain is not None:
        domain = context.column.domain
        out["forbidden"] = [[str(a), str(b)] for a, b in domain.exact_gaps]
        if context.edges:
            inside = context.edges[0] <= domain.lower and domain.upper <= context.edges[-1]
            out["partition"] = complete and inside
    return out


_ELSEWHERE = 1.25
"""Errors beyond this factor are said of answers elsewhere in the domain, too."""

# --- a statistic ------------------------------------------------------------------------------


def planned_statistic(
    prices: Prices, priced: Priced, index: int, total: Fraction, figures: Figures | None
) -> PlannedStatistic:
    """Return one statistic of a block; `total` is the epsilon of the whole release, `figures` those recorded of it."""
    member = priced.block.members[index]
    spec, best = member.statistic.spec, priced.best
    figures = figures or prices.figures(priced, index)
    error = best.errors[index]
    kind = family_of(best.measurement)
    depends = kind.sized
    stated = best.stated[index] if best.stated else (error,)
    roots = stated if prices.query.loss == "absolute" else tuple(map(math.sqrt, stated))
    root = max(roots)
    step = spec.step or publish_step(best.law, member, root)
    check_step(member, step, public=kind.free)
    known = error if kind.judged else None  # else its price ranks the ways to draw it, no more
    elsewhere = best.anywhere[index] if best.anywhere else error
    size, known_size = prices.sizes[priced.block.table]
    near = not error / _ELSEWHERE <= elsewhere <= error * _ELSEWHERE  # of likely answers alone
    text = kind.error_text(best.law, best.measurement, member.view) or _error_text(
        roots, member, size if depends or (near and known_size) else None, public=kind.free
    )
    if best.law.bound is not None:
        unit = f" {member.measure}" if member.measure else ""
        text += f", never more than {shown(best.law.bound * best.measurement.step_size)}{unit}"
    worst = best.worst[index]
    if worst:
        most = worst if prices.query.loss == "absolute" else math.sqrt(worst)
        if member.domain.exact_gaps:  # there values leave the gap, whatever the law
            text += f", up to ±{figure(most)} in a forbidden interval"
        elif (
            kind.direct
            and most > _ELSEWHERE * root
            and scalar_of(member.kind, member.options) is None
        ):
            text += f", up to ±{figure(most)} by where the answer lies"
    notes = statistic_notes(prices.query, member, best.measurement)
    notes += kind.notes(best.law, best.measurement, member.view)
    return planned(
        member,
        block=priced.block.name,
        step=step,
        mechanism=best.law.mechanism,
        chosen=figures.options,
        planned_error=known if known_size or not depends else None,
        error_text=text,
        sensitivity=kind.sensitivity_text(best, priced.sensitivity, member),
        spikes=spec.spikes,
        notes=notes,
        view=member.view,
        uninformative=None if prices.brief else prices.uninformative(priced, index, total),
        group_errors=figures.group_errors if depends else None,
        table=priced.block.table,
    )


def planned(member: Member, **decided: Any) -> PlannedStatistic:
    """Return a statistic as it was asked for, with what was decided of it."""
    spec = member.statistic.spec
    return PlannedStatistic(
        name=spec.name,
        text=spec.text,
        function=member.statistic.function,
        columns=member.kind.columns(member.statistic),
        domain=member.domain,
        measure=member.measure,
        remark=spec.note,
        **decided,
    )


def _error_text(errors: Sequence[float], member: Member, size: int | None, *, public: bool) -> str:
    """Return "±2.5 years at n=1,000", as a function of the rows' spread where that matters.

    Args:
        errors: in the statistic's unit, one per spread (`measurements.spread.spreads`).
        size: rows per group; None: the error does not depend on it.
        public: nothing is drawn. An error of 0 is not proof of it: with a large epsilon the error is less than the least double.
    """
    if public:
        return "exact (public)"
    unit = f" {member.measure}" if member.measure else ""
    at = "" if size is None else f" at n={size:,}"
    known, multivariate = guessed(member), len(member.statistic.columns) > 1
    if max(errors) > SAME * min(errors):
        fills, narrow = (f"±{figure(e)}{unit}" for e in errors)
        part = f"{100 * NARROW:g} %"
        placed = (
            f"{fills} if values fill their ranges, {narrow} if each sd is {part} of its range"
            if multivariate
            else f"{fills} if values fill the range, {narrow} if sd is {part} of it"
        )
    else:
        placed = f"±{figure(max(errors))}{unit}"
        if known and member.kind.by_spread:
            guess = shown(known[0].expected_sd or Fraction(0))
            placed += " if the sds are as guessed" if multivariate else f" if sd is {guess}"
    known_for = member.kind.stated_for(member)
    if known_for:
        placed += f", {known_for}" if " if " in placed else f" {known_for}"
    return f"{placed},{at}" if at and (known_for or " if " in placed) else f"{placed}{at}"


def statistic_notes(query: Query, member: Member, measurement: Measurement) -> tuple[str, ...]:
    """Return which rows enter a statistic, and in which form."""
    unit, notes = query.schema.unit, []
    if isinstance(unit, UserUnit) and query.groups.whole:
        caps = caps_words(unit.in_any_cells, 1, unit.column, member.max_rows)
        notes.append(f"over rows kept, {caps}")
    elif isinstance(unit, UserUnit):
        m = member.max_rows or unit.max_rows_per_group
        notes.append(
            f"over at most {counted(m, 'row')} per {unit.column} and group, "
            f"and at most {counted(unit.max_groups, 'group')} per {unit.column}"
        )
    return (*notes, *member.kind.notes(member, measurement))
