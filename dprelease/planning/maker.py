"""Price the blocks of one request, and say in a plan what was priced. Reads no row.

Units: epsilon in nats; errors in the statistic's unit; sizes in rows per group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from dprelease.aggregates.measurement import Measurement
from dprelease.allocation.choose import option
from dprelease.allocation.share import Priced, Share, cost, ways
from dprelease.measurements.base import family_of
from dprelease.measurements.candidate import Candidate, Option, Pricing
from dprelease.measurements.informative import least_factor, least_size, says_nothing, two_digits
from dprelease.measurements.members import BlockLayout, Member
from dprelease.measurements.price import REFERENCE_SIZE
from dprelease.measurements.steps import check_step, publish_step
from dprelease.patience import tick
from dprelease.planning.statistic_words import error_text, sensitivity_text, statistic_notes
from dprelease.query.spec import Query
from dprelease.release_plan.block import PlannedMeasurement
from dprelease.release_plan.statistic import PlannedStatistic, Uninformative
from dprelease.sensitivity import Bounds, Places, Sensitivity, merged, unit_bounds

__all__ = ["Figures", "Maker"]

_WAYS_SEARCHED = 3


def _data(member: Member) -> dict[str, Any]:
    """Return public facts of the measured columns that consistency between statistics needs.

    complete: no null leaves a row out; partition: every row falls into one of the bins;
    forbidden: the column's gaps, exact.
    """
    context = member.context
    columns = context.columns if context.column is None else (context.column,)
    columns += () if context.weight is None else (context.weight.column,)
    complete = context.condition is None and all(c.null_default is not None for c in columns)
    out: dict[str, Any] = {"complete": complete}
    if context.column is not None and context.column.domain is not None:
        domain = context.column.domain
        out["forbidden"] = [[str(a), str(b)] for a, b in domain.exact_gaps]
        if context.edges:
            inside = context.edges[0] <= domain.lower and domain.upper <= context.edges[-1]
            out["partition"] = complete and inside
    return out


@dataclass(frozen=True, slots=True)
class Figures:
    """The floating point figures of one statistic's plan, as they were priced.

    options: the chosen law and its rivals with their errors; group_errors: per group, if known.
    """

    options: tuple[Option, ...]
    group_errors: tuple[float, ...] | None


_Found = tuple[BlockLayout, Candidate | None, list[Candidate]]
"""What was found of which block and like which candidate: held, so that no other has their place."""


class Maker:
    """Prices blocks for one query, and says what was priced.

    `recorded` holds the figures of a plan that is made again, by statistic: they are repeated then,
    and compared elsewhere (`planning.again`), as floating point differs between machines. With `brief`,
    what is chosen is said alone (`planning.make.make_plan`).
    """

    def __init__(
        self, query: Query, recorded: Mapping[str, Figures] | None = None, *, brief: bool = False
    ) -> None:
        self.query = query
        self.recorded = recorded
        self.brief = brief
        rows = query.schema.rows
        whole = not (query.spec.by or query.where or query.window)
        by_key = sorted(rows.expected_by_key.values())
        typical = by_key[len(by_key) // 2] if by_key else None
        self.guess = rows.expected or typical or (rows.exact if whole else None)
        self.size = self.guess or rows.exact or REFERENCE_SIZE
        self._known: dict[tuple[int, Share, int, int], _Found] = {}

    def sensitivity(self, measurement: Measurement, block: BlockLayout) -> Sensitivity:
        bounds, groups = self._bounds(block)
        adjacency = self.query.schema.adjacency
        return family_of(measurement).sensitivity(measurement, bounds, adjacency, groups)

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
        """Return what `ways` does; it is kept, for the members of a block ask for the same."""
        key = id(block), share, size, id(like)
        if key not in self._known:
            moved = {o: self.sensitivity(o, block) for o in block.options}
            found = ways(block, share, self.query.loss, size, moved, self.query.judge, like)
            self._known[key] = block, like, found
        return self._known[key][2]

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
            family_of(best.measurement).counts
            and best.measurement.axes == ()
            and block.members[0].statistic.column is None
        ):
            scale = min(scale, float(self.size))
        return error / scale if scale > 0 else 0.0

    def errors(self, priced: Priced) -> tuple[float | None, ...]:
        """Return the best candidate's errors in the statistics' units; None where unknown."""
        best = priced.best
        kind = family_of(best.measurement)
        if not kind.judged or (kind.sized and not self.guess):
            return (None,) * len(best.errors)
        return tuple(e if self.query.loss == "absolute" else math.sqrt(e) for e in best.errors)

    def priced(self, block: BlockLayout, share: Share, like: Candidate | None = None) -> Priced:
        tick()
        ranked = self._candidates(block, share, self.size, like)
        return Priced(block, share, tuple(ranked), self.sensitivity(ranked[0].measurement, block))

    def block(self, priced: Priced, places: Places) -> PlannedMeasurement:
        best = priced.best
        s = priced.sensitivity
        spent = cost(priced, self.query.spec.delta)
        return PlannedMeasurement(
            name=priced.block.name,
            family=best.measurement.family,
            cells=best.measurement.cells,
            epsilon=spent.epsilon,
            rho=spent.rho,
            table=priced.block.table,
            share=priced.share.to_json(),
            mechanism=best.draw.mechanism,
            measurement={
                **best.measurement.to_json(),
                "max_rows": priced.block.max_rows,
                "data": _data(priced.block.members[0]),
                "primitives": list(places.of(best.measurement, self._rows(priced.block))),
                "sensitivity": {
                    "l1_per_group": str(s.l1_per_group),
                    "l1_over_groups": str(s.l1_over_groups),
                    "changed_groups": s.changed_groups,
                    "chain_length": s.chain_length,
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
        kind = family_of(best.measurement)
        depends = kind.sized
        stated = best.stated[index] if best.stated else (error,)
        roots = stated if self.query.loss == "absolute" else tuple(map(math.sqrt, stated))
        root = max(roots)
        step = spec.step or publish_step(best.draw, member, root)
        check_step(member, step, public=kind.free)
        known = error if kind.judged else None  # else its price ranks the ways to draw it, no more
        text = kind.error_text(best.draw, best.measurement, member.view) or error_text(
            roots, member, self.size if depends else None, public=kind.free
        )
        notes = statistic_notes(self.query, member, best.measurement)
        notes += kind.notes(best.draw, best.measurement, member.view)
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
            uninformative=None if self.brief else self._uninformative(priced, index, total),
            group_errors=figures.group_errors if depends else None,
        )

    def figures(self, priced: Priced, index: int) -> Figures:
        """Return the figures of one member of a block."""
        if self.brief:
            return Figures((option(priced.best, index),), None)
        options = tuple(_distinct(self._options(priced, index)))
        depends = family_of(priced.best.measurement).sized
        return Figures(options, self._group_errors(priced, index) if depends else None)

    def _options(self, priced: Priced, index: int) -> list[Option]:
        best, block = priced.best, priced.block
        options = [option(c, index) for c in priced.ranked]
        asked = Pricing(
            block,
            best.measurement,
            priced.share.epsilon,
            self.query.loss,
            self.size,
            priced.sensitivity,
            self.query.judge,
            by_rho=priced.share.rho is not None,
        )
        member, moved = block.members[index], lambda e: self.sensitivity(e, block)
        return options + family_of(best.measurement).beside(member, best, asked, moved)

    def _uninformative(self, priced: Priced, index: int, total: Fraction) -> Uninformative | None:
        """Return what a statistic that is expected to say nothing would need, else None."""
        member, best = priced.block.members[index], priced.best
        sizes = self._sizes
        mute = [n for n in set(sizes) if says_nothing(best, member, n)]
        if not mute:
            return None
        size = max(mute)

        factor = self._factor_that_says(priced, member, size, total)
        return Uninformative(
            groups=sum(n in mute for n in sizes),
            of=len(sizes),
            size=size,
            narrow=not says_nothing(best, member, size, narrow=False),
            epsilon=None if factor is None else two_digits(total * factor),
            rows=least_size(best, member, size),
        )

    def _factor_that_says(
        self, priced: Priced, member: Member, size: int, total: Fraction
    ) -> Fraction | None:
        """Return about the least factor of the budget `total` at which `member` says something.

        Rivals are priced seldom: where they differ by their law alone, at the largest factor; where
        they measure in different ways, at the factor found, which counts where the way that was
        searched is the best one there.
        """
        alone = len(priced.block.options) == 1

        def ranked(factor: Fraction, like: Candidate | None) -> Candidate:
            return self._candidates(priced.block, priced.share.times(factor), size, like)[0]

        def least(like: Candidate | None) -> Fraction | None:
            def says(factor: Fraction) -> bool:
                nonlocal like
                best = ranked(factor, like)
                like = best if alone else like
                return not says_nothing(best, member, size)

            return least_factor(says, total)

        like = priced.best
        for _ in range(0 if alone else _WAYS_SEARCHED):
            factor = least(like)
            if factor is None:
                break
            best = ranked(factor, None)
            if like.measures_as(best.measurement):
                return factor
            like = best
        return least(None)

    @cached_property
    def _sizes(self) -> list[int]:
        """The public guess of every group's size, in key order."""
        guesses = self.query.schema.rows.expected_by_key
        return [guesses.get("/".join(key), self.size) for key in self.query.groups.keys]

    def _group_errors(self, priced: Priced, index: int) -> tuple[float, ...] | None:
        """Errors at the public per-key guesses, in key order, where there are any."""
        guesses = self.query.schema.rows.expected_by_key
        if not guesses:
            return None
        cache: dict[int, float] = {}
        out = []
        for size in self._sizes:
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
