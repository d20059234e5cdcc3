"""Which statistics of several tables are one number that adds up, and how that number is measured.

A family is one additive statistic wherever it stands: `count` of the nation, of the regions and of the
districts. One of its tables must be the finest: all others are sums of its cells. Every family is
measured as integer cells with noise that is added and never cut, as only those may be averaged.

Units: a cell counts steps of the column; a share is a part of epsilon, or of rho.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from dprelease.core.errors import PlanError
from dprelease.core.numeric import plain
from dprelease.measurements.members import BlockLayout, Member
from dprelease.planning.layout import layout, member_of
from dprelease.planning.prices import size_of
from dprelease.planning.tables.quotients import (
    Key,
    QuotientSum,
    TableQuotient,
    parts_of,
    settled,
    span_of,
)
from dprelease.query.bounded import several_met
from dprelease.query.resolved import Statistic
from dprelease.query.spec import Query
from dprelease.query.tables import TableGroups
from dprelease.schema.domain import Domain
from dprelease.schema.release_spec import StatisticSpec
from dprelease.schema.unit import UserUnit
from dprelease.statistics.base import kind_named
from dprelease.statistics.exact import of_sums

_NORMAL = math.sqrt(2 / math.pi)


def deviation(loss: str) -> float:
    """Return the expected error of normal noise per standard deviation: its absolute value, or root mean square."""
    return 1.0 if loss == "squared" else _NORMAL


@dataclass(frozen=True, slots=True)
class Aim:
    """What the `max_error` of a quotient asks of one of its two sums in a table: the largest mean variance."""

    table: str
    variance: float
    spec: StatisticSpec


@dataclass(frozen=True, slots=True)
class Family:
    """One additive statistic of several tables.

    Attributes:
        name: as it is asked for; members: by table, in the tables' order; finest: the table of which
            all others are sums, "" where none is.
        hidden: tables that do not publish it: a quotient there is computed from it.
        counts: the family of the rows that it sums, where it is a sum; aims: of quotients that it is a part of.
    """

    name: str
    members: Mapping[str, Member]
    finest: str
    hidden: frozenset[str] = frozenset()
    counts: str | None = None
    aims: tuple[Aim, ...] = ()

    @property
    def published(self) -> dict[str, Member]:
        return {table: m for table, m in self.members.items() if table not in self.hidden}

    @property
    def step_size(self) -> Fraction:
        return next(iter(self.members.values())).options[0].step_size

    @property
    def certain(self) -> bool:
        """Whether its noise ends: in all its tables, those that do not publish it too."""
        return any(m.statistic.spec.certain for m in self.members.values())

    @property
    def weight(self) -> float:
        """How much of the budget it asks for, beside other families."""
        weights = [float(m.statistic.spec.weight) for m in self.members.values()]
        return sum(weights) / len(weights)

    def goals(self, loss: str) -> dict[str, float]:
        """Return the largest mean variance of a fitted cell, in squared steps, per table with a `max_error`."""
        found = {
            name: (float(m.statistic.spec.max_error / self.step_size) / deviation(loss)) ** 2
            for name, m in self.members.items()
            if m.statistic.spec.max_error is not None
        }
        for aim in self.aims:
            found[aim.table] = min(aim.variance, found.get(aim.table, math.inf))
        return found

    def asking(self, table: str | None = None) -> StatisticSpec:
        """Return the statistic of a `max_error`, of those of `table` the one that asks for most."""
        aims = [aim for aim in self.aims if table in (None, aim.table)]
        own = [m.statistic.spec for name, m in self.members.items() if table in (None, name)]
        goals = [spec for spec in own if spec.max_error is not None]
        return goals[0] if goals or not aims else min(aims, key=lambda aim: aim.variance).spec

    def layout(self, table: str, share: Fraction | None) -> BlockLayout:
        """Return the block that measures `table`."""
        member = self.members[table]
        # what a goal asks is of the fitted number, not of this measurement
        spec = replace(member.statistic.spec, share=share, max_error=None, certain=self.certain)
        member = replace(member, statistic=replace(member.statistic, spec=spec))
        return BlockLayout((member,), member.options, table)


@dataclass(slots=True)
class _Found:
    """A family while it is looked for."""

    name: str
    members: dict[str, Member] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    counts: Key | None = None


TableStatistic = tuple[TableGroups, Statistic]


def families(
    query: Query,
) -> tuple[tuple[Family, ...], tuple[TableQuotient, ...], tuple[TableStatistic, ...]]:
    """Return the families of a release of several tables, in order of first appearance, their quotients, and what is neither.

    Raises:
        PlanError: nothing is a sum or a quotient of sums (DPR292), a statistic stands twice in a table or
            in no finest one (DPR290), or as `layout.member_of`.
    """
    assert query.tables is not None
    each = iter(query.statistics)
    listed = [(t, next(each)) for t in query.tables.tables for _ in t.spec.statistics]
    found: dict[Key, _Found] = {}
    others: list[tuple[TableGroups, Statistic]] = []
    for table, statistic in listed:
        if not kind_named(statistic.function).adds_up:
            others.append((table, statistic))
            continue
        family = found.setdefault(*_found(query, table, statistic))
        if table.name in family.members:
            raise PlanError(
                f"table `{table.name}` asks for {statistic.spec.text} twice",
                where=statistic.spec.origin,
                fix="keep one of the two",
                code="DPR290",
            )
        family.members[table.name] = _member(query, table, statistic)
    known = frozenset(found)
    made_of = [(each, _quotient(query, *each, found, known)) for each in others]
    quotients = [quotient for _, quotient in made_of if quotient is not None]
    if not found:
        raise _not_fitted(others[0][1], "and nothing in the tables does", "add `count` to them")
    names = {key: one.name for key, one in found.items()}
    made = [_family(query, f, names[f.counts] if f.counts else None) for f in found.values()]
    aimed = tuple(_aimed(query, family, made, quotients) for family in made)
    return aimed, tuple(quotients), tuple(each for each, quotient in made_of if quotient is None)


def _aimed(
    query: Query, family: Family, every: Sequence[Family], quotients: Sequence[TableQuotient]
) -> Family:
    """Return a family with what the goals of quotients ask of it: half of their variance of each sum.

    The first-order variance of a quotient is (var of the top + t^2 var of the bottom) / rows^2.
    """
    named = {each.name: each for each in every}
    aims = []
    for quotient in quotients:
        spec, table = quotient.member.statistic.spec, quotient.table
        if spec.max_error is None or family.name not in (quotient.top, quotient.bottom):
            continue
        members = (named[sums].members[table] for sums in (quotient.top, quotient.bottom))
        span = span_of(quotient, *members)
        most = float(spec.max_error / span.step) * size_of(query, table).rows * span.each
        half = (most / deviation(query.loss)) ** 2 / 2
        if family.name == quotient.bottom:
            half /= span.square or 1.0
        aims.append(Aim(table, half, spec))
    return replace(family, aims=tuple(aims))


def _quotient(
    query: Query,
    table: TableGroups,
    statistic: Statistic,
    found: dict[Key, _Found],
    known: Collection[Key],
) -> TableQuotient | None:
    """Return a statistic as a quotient, once its two sums are among those found; None: it is none."""
    parts = parts_of(query, table, statistic, known)
    if parts is None:
        return None
    member, top, bottom = parts
    for part in (top, bottom):
        _joined(found.setdefault(part.key, _Found(part.text)), table.name, part)
    return TableQuotient(table.name, member, found[top.key].name, found[bottom.key].name)


def by_themselves(query: Query, listed: Sequence[TableStatistic]) -> tuple[BlockLayout, ...]:
    """Return the blocks of what is fitted to nothing, of each table as alone; PlanError as `layout`, or of other forms (DPR292)."""
    assert query.tables is not None
    out = []
    for table in query.tables.tables:
        here = tuple(statistic for of, statistic in listed if of is table)
        for statistic in here:
            if kind_named(statistic.function).instead_in_tables(statistic):
                raise _not_fitted(statistic, "as it is written", "")
            if table.spec.share is not None:
                why = f"and the `share` of table `{table.name}` is for what does"
                raise _not_fitted(statistic, why, "leave `share` out")
        for block in layout(replace(query, statistics=here)):
            options = tuple(filter(of_sums, block.options))
            if not options:
                why = "nor can it be drawn of sums of groups"
                raise _not_fitted(
                    block.members[0].statistic, why, "publish it in a release of its own"
                )
            out.append(BlockLayout(block.members, options, table.name))
    return tuple(out)


def _not_fitted(statistic: Statistic, why: str, fix: str) -> PlanError:
    what, where = f"{statistic.spec.text} does not add up over groups", statistic.spec.origin
    fix = kind_named(statistic.function).instead_in_tables(statistic) or fix
    return PlanError(what, where=where, why=why, fix=fix, code="DPR292")


def _joined(family: _Found, table: str, part: QuotientSum) -> None:
    family.counts = family.counts or part.counts
    if table not in family.members:
        family.members[table] = part.member
        family.hidden.add(table)


def _found(query: Query, table: TableGroups, statistic: Statistic) -> tuple[Key, _Found]:
    """Return what tells one additive number from others; alone in its table where units are in several groups."""
    key: Key = (statistic.function, statistic.spec.identity)
    if _units_in_several(query, statistic):
        return (*key, table.name), _Found(f"{statistic.spec.text} of {table.name}")
    return key, _Found(statistic.spec.text)


def _units_in_several(query: Query, statistic: Statistic) -> bool:
    return bool(_why_several(query)) and member_of(query, statistic).options[0].per_unit


def _why_several(query: Query) -> str:
    """Return why a unit, or the person whose rows of an interval it is, may be in several groups; "": in one at most."""
    unit = query.schema.unit
    if isinstance(unit, UserUnit) and unit.max_groups > 1:
        return f"a unit may be in {unit.max_groups} of the finest groups"
    met = several_met(query.intervals, query.window)
    return "a person may be in other groups in other intervals" if met else ""


def not_added_up(query: Query, found: Sequence[Family]) -> list[str]:
    """Return what a plan says of counts of units that may be in several groups."""
    alone = [f for f in found if next(iter(f.members.values())).options[0].per_unit]
    if not _why_several(query) or not alone:
        return []
    names, (first, *_) = ", ".join(family.finest for family in alone), alone
    text = first.members[first.finest].statistic.spec.text
    why = f"{_why_several(query)}, and counts once in each of its cells"
    return [f"{text} of {names} is fitted to no other table and need not add up: {why}"]


def _family(query: Query, found: _Found, counts: str | None) -> Family:
    assert query.tables is not None
    members = found.members
    first = next(iter(members.values())).statistic.spec
    finest = query.tables.finest_of(list(members))
    if finest is None and not query.tables.margins:
        every = query.tables.finest_of([t.name for t in query.tables.tables])
        alone = "; or ask for `count` alone, without a `where` of its own, `share`, `zeros`, `detail` and `totals`"
        raise PlanError(
            f"no table with {first.text} is the finest of those that publish it",
            where=first.origin,
            why=f"{', '.join(members)} have no common table, and margins alone may fit none of whole"
            " numbers",
            fix=f"add {first.text} to a table by all of their columns{'' if every else alone}",
            code="DPR290",
        )
    if len({m.statistic.spec.certain for t, m in members.items() if t not in found.hidden}) > 1:
        raise PlanError(
            f"{first.text} is certain in one table and not in another",
            where=first.origin,
            why="the values of all its tables are fitted to each other, from the noise of all of them",
            fix="write `certain: true` in all tables that ask for it, or in none",
            code="DPR292",
        )
    step_sizes = {m.options[0].step_size for m in members.values()}
    steps = {m.statistic.spec.step for m in members.values()} - {None, *step_sizes}
    if steps:
        raise PlanError(
            f"{first.text} adds up in steps of {plain(min(step_sizes))}, not of {plain(min(s for s in steps if s))}",
            where=first.origin,
            why="every cell is an exact sum of the rows' steps",
            fix="leave `step` out of the statistic's `domain`, or declare it for the column",
            code="DPR292",
        )
    if finest is None:
        return Family(found.name, members, "")
    widened = _widened(query, members, finest)
    return Family(found.name, widened, finest.name, frozenset(found.hidden), counts)


def _widened(query: Query, members: Mapping[str, Member], finest: TableGroups) -> dict[str, Member]:
    """Return the members, those of margins that cross each other with room for all sums of their cells.

    Numbers that may be negative have no total that keeps a part of it within its own domain.
    """
    assert query.tables is not None
    low, high = members[finest.name].domain.hull
    chosen = [query.tables.named(name) for name in members]
    crossing = any(not (above(a, b) or above(b, a)) for a in chosen for b in chosen)
    if low >= 0 or not crossing:
        return dict(members)
    out = {}
    for name, member in members.items():
        pairs = np.unique(np.stack([query.tables.named(name).of, finest.of]), axis=1)
        parts = int(np.bincount(pairs[0]).max())
        own = Domain(parts * Fraction(low), parts * Fraction(high))
        free = member.statistic.spec.domain is None and name != finest.name
        out[name] = replace(member, domain=own) if free else member
    return out


def above(coarse: TableGroups, fine: TableGroups) -> bool:
    """Return whether every group of `coarse` is a sum of groups of `fine`."""
    return all(a <= b for a, b in zip(coarse.level, fine.level, strict=True))


def _member(query: Query, table: TableGroups, statistic: Statistic) -> Member:
    member = member_of(query, statistic)
    if not table.apart and _units_in_several(query, statistic):
        member = _once_per_cell(member, table)
    return settled(member, table.name)


def _once_per_cell(member: Member, table: TableGroups) -> Member:
    """Return a count of units of which each counts once in a cell, in however many of its groups it is."""
    (measurement,) = member.options
    (measure,) = measurement.measures
    once = replace(measure, kind="persons_in_cells", cells=tuple(table.of.tolist()))
    return replace(member, options=(replace(measurement, measures=(once,)),))


def measured(family: Family, shares: Mapping[str, Fraction | None]) -> tuple[BlockLayout, ...]:
    """Return the blocks of the family's tables that have a share."""
    return tuple(family.layout(table, shares[table]) for table in family.members if table in shares)
