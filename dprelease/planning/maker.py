"""Make a plan: lay out blocks, allocate the budget, choose laws, state errors. Reads no row.

The passes run in this order, each a function of public metadata only:

    layout      statistics -> blocks, encodings, domains
    allocate    epsilon per block
    choose      price every admissible law, keep the best, note the runner-ups
    bound       the engine's task, from the encodings that were chosen
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dprelease.aggregates.base import aggregate_named
from dprelease.aggregates.encoding import Encoding
from dprelease.errors import PlanError
from dprelease.measurements.base import measurement_of
from dprelease.measurements.candidate import Candidate, Option, Pricing
from dprelease.measurements.members import BlockLayout, Member
from dprelease.measurements.price import REFERENCE_SIZE
from dprelease.measurements.steps import check_step, publish_step
from dprelease.numeric import plain
from dprelease.patience import tick
from dprelease.planning.choose import option
from dprelease.planning.informative import least_factor, least_size, says_nothing, two_digits
from dprelease.planning.layout import layout
from dprelease.planning.model import (
    TIDY_NAMES,
    WIDE_PARTS,
    PlannedBlock,
    PlannedStatistic,
    ReleasePlan,
    Uninformative,
)
from dprelease.planning.promise import time_notes
from dprelease.planning.share import Priced, Share, cost, ways
from dprelease.planning.spend import Spending
from dprelease.planning.statistic_words import error_text, sensitivity_text, statistic_notes
from dprelease.query.shortcuts import shortcut_notes
from dprelease.query.spec import Query
from dprelease.query.view import view_notes
from dprelease.sensitivity import Bounds, Places, Sensitivity, bound, merged, unit_bounds

__all__ = [
    "Figures",
    "Maker",
    "check_names",
    "laid_out",
    "plan_notes",
    "write_plan",
]


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


def write_plan(query: Query, spending: Spending, maker: Maker) -> ReleasePlan:
    """Return the plan that says what was chosen: the same for equal requests and equal choices."""
    priced = spending.priced
    task = bound(query, tuple((p.best.encoding, p.block.max_rows) for p in priced))
    places = Places(task)
    order = {s.spec.name: i for i, s in enumerate(query.statistics)}
    statistics = sorted(
        (s for p in priced for s in maker.statistics(p, spending.epsilon)),
        key=lambda s: order[s.name],
    )
    schema, window = query.schema, query.window
    return ReleasePlan(
        schema=schema.name,
        adjacency=schema.adjacency,
        unit=schema.unit,
        epsilon=spending.epsilon,
        delta=query.spec.delta,
        loss=query.loss,
        by=query.spec.by,
        keys=query.groups.keys,
        where=query.where.canonical if query.where else None,
        statistics=tuple(statistics),
        blocks=tuple(maker.block(p, places) for p in priced),
        query=task,
        window=None if window is None else (window.start, window.end),
        allow=query.spec.allow,
        time=query.schema.time,
        notes=plan_notes(query, spending),
        composition=spending.composition,
        asked=query,
    )


def _data(member: Member) -> dict[str, Any]:
    """Return public facts of the measured columns that consistency between statistics needs.

    complete: no null leaves a row out; partition: every row falls into one of the bins;
    forbidden: the column's gaps, exact.
    """
    context = member.context
    columns = context.columns if context.column is None else (context.column,)
    complete = context.condition is None and all(c.null_default is not None for c in columns)
    out: dict[str, Any] = {"complete": complete}
    if context.column is not None and context.column.domain is not None:
        domain = context.column.domain
        out["forbidden"] = [[str(a), str(b)] for a, b in domain.exact_gaps]
        if context.edges:
            inside = context.edges[0] <= domain.lower and domain.upper <= context.edges[-1]
            out["partition"] = complete and inside
    return out


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


@dataclass(frozen=True, slots=True)
class Figures:
    """The floating point figures of one statistic's plan, as they were priced.

    options: the chosen law and its rivals with their errors; group_errors: per group, if known.
    """

    options: tuple[Option, ...]
    group_errors: tuple[float, ...] | None


class Maker:
    """Prices blocks for one query, and says what was priced.

    `recorded` holds the figures of a plan that is made again, by statistic: they are repeated then,
    and compared elsewhere (`planning.again`), as floating point differs between machines.
    """

    def __init__(self, query: Query, recorded: Mapping[str, Figures] | None = None) -> None:
        self.query = query
        self.recorded = recorded
        rows = query.schema.rows
        whole = not (query.spec.by or query.where or query.window)
        by_key = sorted(rows.expected_by_key.values())
        typical = by_key[len(by_key) // 2] if by_key else None
        self.guess = rows.expected or typical or (rows.exact if whole else None)
        self.size = self.guess or rows.exact or REFERENCE_SIZE

    def sensitivity(self, encoding: Encoding, block: BlockLayout) -> Sensitivity:
        bounds, groups = self._bounds(block)
        adjacency = self.query.schema.adjacency
        return measurement_of(encoding).sensitivity(encoding, bounds, adjacency, groups)

    def _bounds(self, block: BlockLayout) -> tuple[Bounds, int]:
        """Return the contribution bounds and the number of what is drawn: groups, or sums of groups."""
        groups = len(self.query.groups.keys)
        bounds = unit_bounds(self.query.schema.unit, block.max_rows, groups)
        if self.query.tables is None or block.table is None:
            return bounds, groups
        table = self.query.tables.named(block.table)
        if table.apart:
            return bounds, groups
        return merged(bounds, len(table.keys)), len(table.keys)

    def _rows(self, block: BlockLayout) -> int:
        groups = len(self.query.groups.keys)
        return unit_bounds(self.query.schema.unit, block.max_rows, groups).rows

    def _candidates(
        self, block: BlockLayout, share: Share, size: int, like: Candidate | None = None
    ) -> list[Candidate]:
        known = {o: self.sensitivity(o, block) for o in block.options}
        return ways(block, share, self.query.loss, size, known, self.query.judge, like)

    def relative(self, priced: Priced) -> float:
        """Return the best candidate's error as a share of its first member's domain.

        Where it is stated at several spreads of the rows, by their geometric mean: divided by the
        largest, the budget would go to a statistic whose rows may not lie that close together.
        """
        block, best = priced.block, priced.best
        stated = best.stated[0] if best.stated else best.errors[:1]
        error = math.prod(stated) ** (1 / len(stated))
        error = error if self.query.loss == "absolute" else math.sqrt(error)
        domain = block.members[0].domain
        scale = float(domain.width)
        if (
            measurement_of(best.encoding).counts
            and best.encoding.axes == ()
            and block.members[0].statistic.column is None
        ):
            scale = min(scale, float(self.size))
        return error / scale if scale > 0 else 0.0

    def errors(self, priced: Priced) -> tuple[float | None, ...]:
        """Return the best candidate's errors in the statistics' units; None where unknown."""
        best = priced.best
        kind = measurement_of(best.encoding)
        if not kind.judged or (kind.sized and not self.guess):
            return (None,) * len(best.errors)
        return tuple(e if self.query.loss == "absolute" else math.sqrt(e) for e in best.errors)

    def priced(self, block: BlockLayout, share: Share, like: Candidate | None = None) -> Priced:
        tick()
        ranked = self._candidates(block, share, self.size, like)
        return Priced(block, share, tuple(ranked), self.sensitivity(ranked[0].encoding, block))

    def block(self, priced: Priced, places: Places) -> PlannedBlock:
        best = priced.best
        s = priced.sensitivity
        spent = cost(priced, self.query.spec.delta)
        return PlannedBlock(
            name=priced.block.name,
            family=best.encoding.family,
            cells=best.encoding.cells,
            epsilon=spent.epsilon,
            rho=spent.rho,
            table=priced.block.table,
            share=priced.share.to_json(),
            mechanism=best.draw.mechanism,
            encoding={
                **best.encoding.to_json(),
                "max_rows": priced.block.max_rows,
                "data": _data(priced.block.members[0]),
                "primitives": list(places.of(best.encoding, self._rows(priced.block))),
                "sensitivity": {
                    "in_group": str(s.in_group),
                    "total": str(s.total),
                    "touched": s.touched,
                    "moves": s.moves,
                },
            },
            law=best.draw.to_json(),
            certificate={"epsilon_upper": str(spent.epsilon_upper), **best.draw.evidence()},
        )

    def statistics(self, priced: Priced, total: Fraction) -> list[PlannedStatistic]:
        """Return the block's statistics; `total` is the epsilon of the whole release."""
        return [self._statistic(priced, i, total) for i in range(len(priced.block.members))]

    def _statistic(self, priced: Priced, index: int, total: Fraction) -> PlannedStatistic:
        member = priced.block.members[index]
        spec, best = member.statistic.spec, priced.best
        figures = (
            self.recorded[spec.name] if self.recorded is not None else self.figures(priced, index)
        )
        error = best.errors[index]
        kind = measurement_of(best.encoding)
        depends = kind.sized
        stated = best.stated[index] if best.stated else (error,)
        roots = stated if self.query.loss == "absolute" else tuple(map(math.sqrt, stated))
        root = max(roots)
        step = spec.step or publish_step(best.draw, member, root)
        check_step(member, step, public=kind.free)
        known = error if kind.judged else None  # else its price ranks the ways to draw it, no more
        text = kind.error_text(best.draw, best.encoding, member.view) or error_text(
            roots, member, self.size if depends else None, public=kind.free
        )
        notes = statistic_notes(self.query, member, best.encoding)
        notes += kind.notes(best.draw, best.encoding, member.view)
        return PlannedStatistic(
            name=spec.name,
            text=spec.text,
            function=member.statistic.function,
            block=priced.block.name,
            columns=member.aggregate.columns(member.context),
            domain=member.domain,
            step=step,
            measure=member.measure,
            mechanism=best.draw.mechanism,
            chosen=figures.options,
            planned_error=known if self.guess or not depends else None,
            error_text=text,
            sensitivity=sensitivity_text(priced, member),
            spikes=spec.spikes,
            notes=notes,
            remark=spec.note,
            view=member.view,
            uninformative=self._uninformative(priced, index, total),
            group_errors=figures.group_errors if depends else None,
        )

    def figures(self, priced: Priced, index: int) -> Figures:
        """Return the figures of one member of a block."""
        options = tuple(_distinct(self._options(priced, index)))
        depends = measurement_of(priced.best.encoding).sized
        return Figures(options, self._group_errors(priced, index) if depends else None)

    def _options(self, priced: Priced, index: int) -> list[Option]:
        best, block = priced.best, priced.block
        options = [option(c, index) for c in priced.ranked]
        asked = Pricing(
            block,
            best.encoding,
            priced.share.epsilon,
            self.query.loss,
            self.size,
            priced.sensitivity,
            self.query.judge,
        )
        member, moved = block.members[index], lambda e: self.sensitivity(e, block)
        return options + measurement_of(best.encoding).beside(member, best, asked, moved)

    def _uninformative(self, priced: Priced, index: int, total: Fraction) -> Uninformative | None:
        """Return what a statistic that is expected to say nothing would need, else None."""
        member, best = priced.block.members[index], priced.best
        sizes = self._sizes()
        mute = [n for n in set(sizes) if says_nothing(best, member, n)]
        if not mute:
            return None
        size = max(mute)

        like: Candidate | None = None

        def says(factor: Fraction) -> bool:
            nonlocal like
            ranked = self._candidates(priced.block, priced.share.times(factor), size, like)
            if (
                len(priced.block.options) == 1
            ):  # rivals differ by their law: they are priced once, at the most
                like = ranked[0]
            return not says_nothing(ranked[0], member, size)

        factor = least_factor(says, total)
        return Uninformative(
            groups=sum(n in mute for n in sizes),
            of=len(sizes),
            size=size,
            narrow=not says_nothing(best, member, size, narrow=False),
            epsilon=None if factor is None else two_digits(total * factor),
            rows=least_size(best, member, size),
        )

    def _sizes(self) -> list[int]:
        """Return the public guess of every group's size, in key order."""
        guesses = self.query.schema.rows.expected_by_key
        return [guesses.get("/".join(key), self.size) for key in self.query.groups.keys]

    def _group_errors(self, priced: Priced, index: int) -> tuple[float, ...] | None:
        """Errors at the public per-key guesses, in key order, where there are any."""
        guesses = self.query.schema.rows.expected_by_key
        if not guesses:
            return None
        cache: dict[int, float] = {}
        out = []
        for size in self._sizes():
            if size not in cache:
                ranked = self._candidates(priced.block, priced.share, size)
                same = [c for c in ranked if type(c.draw) is type(priced.best.draw)]
                cache[size] = same[0].errors[index]
            out.append(cache[size])
        return tuple(out)


def _distinct(options: Any) -> list[Option]:
    seen: set[tuple[str, str]] = set()
    out = []
    for each in options:
        if (each.mechanism, each.note) not in seen:
            seen.add((each.mechanism, each.note))
            out.append(each)
    return out


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
