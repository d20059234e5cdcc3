"""The laws that may draw each block of a request, their expected errors, and what would make them informative.

Reads no row, and writes no plan: that is `planning.write`.

Units: epsilon in nats; errors in the statistic's unit; sizes in rows per group.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dprelease.allocation.choose import option
from dprelease.allocation.share import Priced, Share, ways
from dprelease.budget.composition import Proof
from dprelease.core.numeric import ranking
from dprelease.core.patience import tick
from dprelease.measurements.base import family_of
from dprelease.measurements.candidate import Candidate, Option, Pricing
from dprelease.measurements.informative import (
    Near,
    least_factor,
    least_size,
    says_nothing,
    two_digits,
)
from dprelease.measurements.members import BlockLayout, Member
from dprelease.measurements.price import REFERENCE_SIZE
from dprelease.query.spec import Query
from dprelease.release_plan.statistic import Uninformative
from dprelease.schema.unit import Adjacency, EdgeUnit
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.ranks import whole
from dprelease.statistics.sensitivity import (
    Bounds,
    PrimitivePlaces,
    Sensitivity,
    bounded_query,
    merged,
    unit_bounds,
)
from dprelease.statistics.types_of_change import types_of_change

_WAYS_SEARCHED = 3


@dataclass(frozen=True, slots=True)
class Figures:
    """The floating point figures of one statistic's plan, as they were priced.

    options: the chosen law and its rivals with their errors; group_errors: per group, if known.
    """

    options: tuple[Option, ...]
    group_errors: tuple[float, ...] | None


@dataclass(frozen=True, slots=True)
class Size:
    """Rows per cell of a table: as expected, else a number to compare at."""

    rows: float
    known: bool


def size_of(query: Query, table: str) -> Size:
    assert query.tables is not None
    rows = query.schema.rows
    groups, cells = len(query.groups.keys), len(query.tables.named(table).keys)
    if rows.expected:
        return Size(max(1.0, rows.expected * groups / cells), known=True)
    if rows.exact:
        return Size(max(1.0, rows.exact / cells), known=True)
    return Size(float(REFERENCE_SIZE), known=False)


_Found = tuple[BlockLayout, Candidate | None, list[Candidate]]
"""A block, the candidate that its pricing was limited to, and the result. Holding the first two keeps their `id` theirs."""


class Prices:
    """The prices of one query's blocks; `allocation.share.Pricer` says which of them the allocation asks for.

    `recorded` holds the figures of a plan that is made again, by statistic: they are repeated then, not priced
    (floating point differs between machines), and `planning.again` compares them. With `brief`, figures name the
    chosen law alone, without rivals.

    Attributes:
        sizes: rows of a group, or of a cell of a table by its name, and whether that is declared.
        sums: how many cells a table has, of those with cells of several groups.
    """

    def __init__(
        self, query: Query, recorded: Mapping[str, Figures] | None = None, *, brief: bool = False
    ) -> None:
        self.query = query
        self.recorded = recorded
        self.brief = brief
        exact, tables = query.schema.rows.exact, query.tables
        known = query.expected
        self.sizes: dict[str | None, tuple[int, bool]] = {
            None: (known or exact or REFERENCE_SIZE, bool(known))
        }
        self.sums: dict[str | None, int] = {}
        for table in () if tables is None else tables.tables:
            size = size_of(query, table.name)
            self.sizes[table.name] = round(size.rows), size.known
            if not table.apart:
                self.sums[table.name] = len(table.keys)
        self.uses_types = query.schema.adjacency is Adjacency.substitution and _uses_types(query)
        self.by_rho = query.spec.composition == "zcdp"
        self._known: dict[tuple[int, Share, int, int], _Found] = {}
        self._near: dict[int, tuple[Near, Near]] = defaultdict(lambda: ([], []))

    def sensitivity(self, measurement: Measurement, block: BlockLayout) -> Sensitivity:
        bounds, groups = self._bounds(block)
        adjacency = self.query.schema.adjacency
        return family_of(measurement).sensitivity(measurement, bounds, adjacency, groups)

    def proofs(self, priced: Sequence[Priced]) -> list[Proof]:
        """Return the proofs of all blocks of a release, with what each type of change costs."""
        if not self.uses_types:
            return [p.proof for p in priced]
        task = bounded_query(
            self.query, tuple((p.best.measurement, p.block.max_rows) for p in priced)
        )
        places, out = PrimitivePlaces(task), []
        for p in priced:
            m, rows = p.best.measurement, self.rows(p.block)
            row = m.l1_added_row, m.l1_replaced_row, *m.squares
            found, (bounds, cells) = places.find(m, rows), self._bounds(p.block)
            signed = not family_of(m).nowhere_negative or m.lower < 0
            types = types_of_change(task, m, found, row, bounds, cells, signed=signed)
            out.append(p.best.law.proved(replace(p.sensitivity, types=types)))
        return out

    def _bounds(self, block: BlockLayout) -> tuple[Bounds, int]:
        """Return the contribution bounds and the number of what is drawn: groups, or sums of groups."""
        groups = self.query.groups.count
        bounds = unit_bounds(self.query.schema.unit, block.max_rows, groups)
        cells = self.sums.get(block.table)
        return (bounds, groups) if cells is None else (merged(bounds, cells), cells)

    def rows(self, block: BlockLayout) -> int:
        groups = self.query.groups.count
        return unit_bounds(self.query.schema.unit, block.max_rows, groups).rows

    def _candidates(
        self, block: BlockLayout, share: Share, size: int, only_as: Candidate | None = None
    ) -> list[Candidate]:
        """Return what `ways` does, best first. It is cached: each member of a block asks for the same."""
        key = id(block), share, size, id(only_as)
        if key not in self._known:
            claimed = {o: self.sensitivity(o, block) for o in block.options}
            judge = block.judged_by(self.query.judge)
            found = ways(block, share, self.query.loss, size, claimed, judge, only_as)
            if block.table in self.sums:  # ranks are no group's: all values are counted
                found = [replace(c, measurement=whole(c.measurement)) for c in found]
            if self.by_rho:  # of two that err alike, what costs less rho

                def costs(each: Candidate) -> tuple[float, Fraction]:
                    return ranking(each.price(judge)), each.law.proof(
                        each.sensitivity(claimed)
                    ).concentrated

                found.sort(key=costs)
            self._known[key] = block, only_as, found
        return self._known[key][2]

    def comparable(self, priced: Priced) -> tuple[float, ...]:
        """Return the best candidate's error per member, for comparison with itself at other shares.

        Where it is stated at several spreads of the rows, their geometric mean: by the largest, the budget
        would go to a statistic whose rows may not lie that close together. Else it is that of answers anywhere.
        """
        best = priced.best
        several = best.stated or ((),) * len(best.errors)
        errors = (
            math.prod(stated) ** (1 / len(stated)) if len(stated) > 1 else error
            for stated, error in zip(several, best.anywhere or best.errors, strict=True)
        )
        return tuple(e if self.query.loss == "absolute" else math.sqrt(e) for e in errors)

    def errors(self, priced: Priced, *, farthest: bool = False) -> tuple[float | None, ...]:
        """Return the best candidate's errors in the statistics' units, or those of `placed`; None where unknown."""
        best = priced.best
        kind = family_of(best.measurement)
        if not kind.judged or (kind.sized and not self.sizes[priced.block.table][1]):
            return (None,) * len(best.errors)
        errors = best.placed if farthest and best.placed else best.errors
        return tuple(e if self.query.loss == "absolute" else math.sqrt(e) for e in errors)

    def priced(self, block: BlockLayout, share: Share, only_as: Candidate | None = None) -> Priced:
        tick()
        ranked = self._candidates(block, share, self.sizes[block.table][0], only_as)
        return Priced(block, share, tuple(ranked), self.sensitivity(ranked[0].measurement, block))

    def figures(self, priced: Priced, index: int) -> Figures:
        """Return the figures of one member of a block."""
        if self.brief:
            return Figures((option(priced.best, index),), None)
        options = tuple(_distinct(self._options(priced, index)))
        depends = family_of(priced.best.measurement).sized
        return Figures(options, self._group_errors(priced, index) if depends else None)

    def _options(self, priced: Priced, index: int) -> list[Option]:
        best, block = priced.best, priced.block
        member, claimed = block.members[index], lambda e: self.sensitivity(e, block)
        options = []
        for c in priced.ranked:
            made, kind = option(c, index), family_of(c.measurement)
            if made.expected_error is None:
                said = kind.error_text(c.law, c.measurement, member.view)
                made = replace(made, rank=said or "")
            options.append(made)
        pricing = Pricing(
            block,
            best.measurement,
            priced.share.epsilon,
            self.query.loss,
            self.sizes[block.table][0],
            priced.sensitivity,
            block.judged_by(self.query.judge),
        )
        return options + family_of(best.measurement).rivals(member, best, pricing, claimed)

    def uninformative(self, priced: Priced, index: int, total: Fraction) -> Uninformative | None:
        """Return what a statistic that is expected to say nothing would need, else None."""
        member, best = priced.block.members[index], priced.best
        sizes = self._sizes(priced.block)
        silent = [n for n in set(sizes) if says_nothing(best, member, n)]
        if not silent:
            return None
        size = max(silent)

        factor = self._factor_that_says(priced, member, size, total)
        return Uninformative(
            groups=sum(n in silent for n in sizes),
            of=len(sizes),
            size=size,
            narrow=not says_nothing(best, member, size, narrow=False),
            epsilon=None if factor is None else two_digits(total * factor),
            rows=least_size(best, member, size, self._near[size][1]),
        )

    def _factor_that_says(
        self, priced: Priced, member: Member, size: int, total: Fraction
    ) -> Fraction | None:
        """Return about the least factor of the budget `total` at which `member` says something.

        The search tries many budgets, so at each it prices one candidate, not all. Where all candidates measure
        alike, that is the best law of the budget tried first. Otherwise all are priced at the factor found, and
        it is returned if the candidate searched with measures as the best one there does.
        """
        alone = len(priced.block.options) == 1

        def ranked(factor: Fraction, only_as: Candidate | None) -> Candidate:
            law = only_as and replace(only_as, errors=())
            return self._candidates(priced.block, priced.share.times(factor), size, law)[0]

        def least(only_as: Candidate | None) -> Fraction | None:
            def says(factor: Fraction) -> bool:
                nonlocal only_as
                best = ranked(factor, only_as)
                only_as = best if alone else only_as
                return not says_nothing(best, member, size)

            return least_factor(says, total, self._near[size][0])

        only_as = priced.best
        for _ in range(0 if alone else _WAYS_SEARCHED):
            factor = least(only_as)
            if factor is None:
                break
            best = ranked(factor, None)
            if only_as.measures_as(best.measurement):
                return factor
            only_as = best
        return least(None)

    def _sizes(self, block: BlockLayout) -> list[int]:
        """Return the public guess of every group's size, in key order."""
        guesses, (size, _) = self.query.schema.rows.expected_by_key, self.sizes[block.table]
        if block.table is not None and self.query.tables is not None:
            return [size] * len(self.query.tables.named(block.table).keys)
        return [guesses.get("/".join(key), size) for key in self.query.groups.keys]

    def _group_errors(self, priced: Priced, index: int) -> tuple[float, ...] | None:
        """Errors at the public per-key guesses, in key order, where there are any."""
        if not self.query.schema.rows.expected_by_key or priced.block.table is not None:
            return None
        cache: dict[int, float] = {}
        out = []
        for size in self._sizes(priced.block):
            if size not in cache:
                ranked = self._candidates(priced.block, priced.share, size)
                same = [c for c in ranked if type(c.law) is type(priced.best.law)]
                cache[size] = same[0].errors[index]
            out.append(cache[size])
        return tuple(out)


def _uses_types(query: Query) -> bool:
    """Return whether losses are summed per type of change: not under zCDP, nor where shares or errors are declared."""
    spec = query.spec
    declared = [t.share or t.detail for t in spec.tables]
    declared += [s.share or s.max_error for s in spec.statistics]
    edges = isinstance(query.schema.unit, EdgeUnit)
    return spec.composition != "zcdp" and not edges and not any(declared)


def _distinct(options: Iterable[Option]) -> list[Option]:
    seen: set[tuple[str, str]] = set()
    out = []
    for each in options:
        if (each.mechanism, each.note) not in seen:
            seen.add((each.mechanism, each.note))
            out.append(each)
    return out
