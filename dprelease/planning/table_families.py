"""Which statistics of several tables are one number that adds up, and how that number is measured.

A family is one additive statistic wherever it stands: `count` of the nation, of the regions and of the
districts. One of its tables must be the finest: all others are sums of its cells. Every family is
measured as integer cells with noise that is added and never cut, as only those may be averaged.

Units: a cell counts steps of the column; a share is a part of epsilon, or of rho.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from dprelease.aggregates.base import aggregate_named
from dprelease.aggregates.encoding import Encoding
from dprelease.errors import PlanError
from dprelease.measurements.members import BlockLayout, Member
from dprelease.numeric import plain
from dprelease.planning.layout import member_of
from dprelease.query.spec import Query, Statistic
from dprelease.query.tables import TableGroups
from dprelease.schema.domain import Domain
from dprelease.schema.unit import UserUnit

__all__ = ["Family", "deviation", "families", "measured"]


_NORMAL = math.sqrt(2 / math.pi)


def deviation(loss: str) -> float:
    """Return the expected error of normal noise per standard deviation: its absolute value, or root mean square."""
    return 1.0 if loss == "squared" else _NORMAL


@dataclass(frozen=True, slots=True)
class Family:
    """One additive statistic of several tables.

    Attributes:
        name: as it is asked for; members: by table, in the tables' order; finest: the table of which
            all others are sums.
    """

    name: str
    members: Mapping[str, Member]
    finest: str

    @property
    def pitch(self) -> Fraction:
        return next(iter(self.members.values())).options[0].pitch

    @property
    def weight(self) -> float:
        """How much of the budget it asks for, beside other families."""
        weights = [float(m.statistic.spec.weight) for m in self.members.values()]
        return sum(weights) / len(weights)

    def goals(self, loss: str) -> dict[str, float]:
        """Return the largest mean variance of a fitted cell, in squared steps, per table with a `max_error`."""
        return {
            name: (float(m.statistic.spec.max_error / self.pitch) / deviation(loss)) ** 2
            for name, m in self.members.items()
            if m.statistic.spec.max_error is not None
        }

    def layout(self, table: str, share: Fraction | None) -> BlockLayout:
        """Return the block that measures `table`."""
        member = self.members[table]
        # what a goal asks is of the fitted number, not of this measurement
        spec = replace(member.statistic.spec, share=share, max_error=None)
        member = replace(member, statistic=replace(member.statistic, spec=spec))
        return BlockLayout((member,), member.options, table)


def families(query: Query) -> tuple[Family, ...]:
    """Return the families of a release of several tables, in order of first appearance.

    Raises:
        PlanError: a statistic does not add up (DPR292), stands twice in a table or in no finest one
            (DPR290), or as `layout.member_of`.
    """
    assert query.tables is not None
    found: dict[tuple[object, ...], dict[str, Member]] = {}
    each = iter(query.statistics)
    for table in query.tables.tables:
        for _ in table.spec.statistics:
            statistic = next(each)
            key = (statistic.function, statistic.spec.arguments)
            members = found.setdefault(key, {})
            if table.name in members:
                raise PlanError(
                    f"table `{table.name}` asks for {statistic.spec.text} twice",
                    where=statistic.spec.origin,
                    fix="keep one of the two",
                    code="DPR290",
                )
            members[table.name] = _member(query, table, statistic)
    return tuple(_family(query, members) for members in found.values())


def _family(query: Query, members: Mapping[str, Member]) -> Family:
    assert query.tables is not None
    first = next(iter(members.values())).statistic.spec
    finest = query.tables.finest_of(list(members))
    if finest is None:
        raise PlanError(
            f"no table with {first.text} is the finest of those that publish it",
            where=first.origin,
            why=f"{', '.join(members)} have no common table, and margins alone may fit none of whole"
            " numbers",
            fix=f"add {first.text} to a table by all of their columns",
            code="DPR290",
        )
    pitches = {m.options[0].pitch for m in members.values()}
    steps = {m.statistic.spec.step for m in members.values()} - {None, *pitches}
    if steps:
        raise PlanError(
            f"{first.text} adds up in steps of {plain(min(pitches))}, not of {plain(min(s for s in steps if s))}",
            where=first.origin,
            why="every cell is an exact sum of the rows' steps",
            fix="leave the statistic's `step` out, or declare it for the column",
            code="DPR292",
        )
    return Family(first.text, _widened(query, members, finest), finest.name)


def _widened(query: Query, members: Mapping[str, Member], finest: TableGroups) -> dict[str, Member]:
    """Return the members, those of margins that cross each other with room for all sums of their cells.

    Numbers that may be negative have no total that keeps a part of it within its own domain.
    """
    assert query.tables is not None
    low, high = members[finest.name].domain.hull
    chosen = [query.tables.named(name) for name in members]
    crossing = any(not (_above(a, b) or _above(b, a)) for a in chosen for b in chosen)
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


def _above(coarse: TableGroups, fine: TableGroups) -> bool:
    return all(a <= b for a, b in zip(coarse.level, fine.level, strict=True))


def _member(query: Query, table: TableGroups, statistic: Statistic) -> Member:
    spec, unit = statistic.spec, query.schema.unit
    aggregate = aggregate_named(statistic.function)
    if not aggregate.adds_up:
        raise PlanError(
            f"{spec.text} does not add up over groups",
            where=spec.origin,
            why=f"table `{table.name}` is fitted to the other tables of the release",
            fix="publish what it is made of, e.g. count and sum, or release it in a release of its own",
            code="DPR292",
        )
    member = member_of(query, statistic)
    encoding = _added(member.options[0], table.name)
    if encoding.per_unit and isinstance(unit, UserUnit) and unit.max_groups > 1:
        raise PlanError(
            f"{spec.text} does not add up where a unit may be in {unit.max_groups} groups",
            where=spec.origin,
            why="the sum of two groups would count a unit of both twice",
            fix="declare `max_groups: 1`, or publish `count`",
            code="DPR292",
        )
    settled = replace(spec, step=spec.step or encoding.pitch)
    return replace(member, statistic=replace(statistic, spec=settled), options=(encoding,))


def _added(encoding: Encoding, table: str) -> Encoding:
    """Return the encoding as cells that noise is added to."""
    return replace(encoding, family="bins", key=(*encoding.key, "table", table))


def measured(family: Family, shares: Mapping[str, Fraction | None]) -> tuple[BlockLayout, ...]:
    """Return the blocks of the family's tables that have a share."""
    return tuple(family.layout(table, shares[table]) for table in family.members if table in shares)
