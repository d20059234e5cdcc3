"""How fine a table will be published: its levels, the draw that tells sizes, and what each level needs.

All of it is public and decided before the charge: which tables rows may stand at, and from which noisy
size of a branch on. What the sizes are, only a draw of its own tells, which fitting never sees.

Source: `docs/theory/publications-that-add-up.md#adaptive-detail`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import NoReturn

import numpy as np

from dprelease.allocation.share import Priced
from dprelease.core.errors import PlanError
from dprelease.core.numeric import figure, plain
from dprelease.measurements.members import BlockLayout
from dprelease.planning.layout import check_names
from dprelease.planning.tables.families import Family, above, deviation
from dprelease.planning.tables.fitting import Fitting
from dprelease.query.spec import Query
from dprelease.query.tables import TableGroups
from dprelease.release_plan.detail import (
    ALL,
    LEVEL_COLUMN,
    Branches,
    Need,
    PlannedDetail,
    branches,
    detail_by,
)
from dprelease.release_plan.fits import noise_of
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.release_plan.tables import PlannedTables
from dprelease.schema.release_spec import DetailSpec
from dprelease.statistics.base import Floats

_PARTS = 1000
_DIGITS = 6
"""Of an error, in a need: floating point differs between machines in later ones."""


@dataclass(frozen=True, slots=True)
class Detail:
    """The detail that a request asks for.

    Attributes:
        levels: coarse to fine, the table last; families: of each, the statistic that decides.
    """

    spec: DetailSpec
    table: str
    levels: tuple[str, ...]
    families: tuple[Family, ...]

    @property
    def share(self) -> Fraction:
        """The part of the budget for the draw that tells sizes, in whole thousandths; 0 without one."""
        if self.spec.share is None:
            return Fraction(0)
        return Fraction(max(1, round(self.spec.share * _PARTS)), _PARTS)

    @property
    def layout(self) -> BlockLayout | None:
        """The block that draws the size of each branch, apart from what is published of it."""
        if not self.share:
            return None
        block = self.families[0].layout(self.levels[0], self.share)
        member = block.members[0]
        name = f"{member.statistic.spec.name}-detail"
        # It is not published: no way to spend is better for its error.
        spec = replace(member.statistic.spec, name=name, weight=Fraction(0))
        options = tuple(replace(o, key=(*o.key, "detail")) for o in member.options)
        statistic = replace(member.statistic, spec=spec)
        member = replace(member, statistic=statistic, options=options)
        return BlockLayout((member,), options, block.table)


def detail_of(
    query: Query, families: Sequence[Family], own: Sequence[BlockLayout]
) -> Detail | None:
    """Return the detail that the request asks for, None without one.

    Raises:
        PlanError: the table is not the finest, has no levels, or they do not publish the same (DPR295);
            names of key columns meet those of published ones (DPR207).
    """
    assert query.tables is not None
    table = next((t for t in query.tables.tables if t.spec.detail is not None), None)
    if table is None:
        return None
    spec = table.spec.detail
    assert spec is not None
    alone = next((block.members[0] for block in own if block.table == table.name), None)
    if alone is not None:
        _refuse(spec, f"{alone.statistic.spec.text} does not add up", "leave it out of this table")
    for each in families:
        if table.name in each.members and each.finest != table.name:
            _refuse(
                spec,
                f"`{table.name}` is not the finest table with {each.name}",
                f"give `detail` to `{each.finest}`",
            )
    text = _deciding(spec, table, families)
    levels = _levels(query, spec, table)
    _check_labels(spec, levels)
    names = tuple(t.name for t in levels)
    deciding = tuple(next(f for f in families if _asks(f, name, text)) for name in names)
    return Detail(spec, table.name, names, deciding)


def _asks(family: Family, table: str, text: str) -> bool:
    member = family.published.get(table)
    return member is not None and member.statistic.spec.text == text


def _deciding(spec: DetailSpec, table: TableGroups, families: Sequence[Family]) -> str:
    """Return the statistic that tells sizes, as written: one number per group, never negative."""
    here = {
        m.statistic.spec.name: m for f in families if (m := f.published.get(table.name)) is not None
    }
    member = here.get(spec.statistic)
    if member is None or len(member.options[0].cells) != 1 or member.domain.hull[0] < 0:
        _refuse(
            spec,
            f"{spec.statistic} does not say how large a group is",
            "name one number that adds up and is never negative, such as a count",
        )
    return member.statistic.spec.text


def _levels(query: Query, spec: DetailSpec, table: TableGroups) -> list[TableGroups]:
    """Return the tables that rows may stand at, coarse to fine; `table` is the last one."""
    assert query.tables is not None
    wanted = _texts(table)
    coarser = [
        t
        for t in query.tables.tables
        if t.name != table.name and above(t, table) and wanted <= _texts(t)
    ]
    if not spec.levels:
        nearest = [t for t in coarser if not any(above(t, o) for o in coarser if o is not t)]
        if len(nearest) != 1:
            found = ", ".join(t.name for t in nearest) or "none"
            _refuse(
                spec,
                f"the next coarser table of `{table.name}` with the same statistics is not one: {found}",
                "name it with `levels: [TABLE]`, or add one"
                if coarser
                else _lacking(query.tables.tables, table) or "add one",
            )
        return [*nearest, table]
    known = {t.name: t for t in coarser}
    strange = next((name for name in spec.levels if name not in known), None)
    if strange is not None:
        _refuse(
            spec,
            f"`{strange}` is not a coarser table of `{table.name}` with the same statistics",
            _lacking([t for t in query.tables.tables if t.name == strange], table)
            or f"name some of: {', '.join(known) or 'none'}",
        )
    levels = [*(known[name] for name in spec.levels), table]
    for coarse, fine in pairwise(levels):
        if coarse.name == fine.name or not above(coarse, fine):
            _refuse(
                spec,
                f"`{coarse.name}` is not coarser than `{fine.name}`",
                "list the levels coarse to fine, each a sum of the next",
            )
    return levels


def _lacking(tables: Iterable[TableGroups], table: TableGroups) -> str | None:
    """Return what mends the finest of `tables` that is coarser than `table`: the statistics it lacks."""
    coarser = [t for t in tables if t.name != table.name and above(t, table)]
    if not coarser:
        return None
    nearest = max(coarser, key=lambda t: len(t.keys))
    lacks = ", ".join(sorted(_texts(table) - _texts(nearest)))
    return f"add to the statistics of `{nearest.name}`: {lacks}" if lacks else None


def _texts(table: TableGroups) -> set[str]:
    return {statistic.text for statistic in table.spec.statistics}


def _check_labels(spec: DetailSpec, levels: Sequence[TableGroups]) -> None:
    """Names and labels of the mixed table must be told apart."""
    table = levels[-1].spec
    by = detail_by([level.spec.by for level in levels])
    certain = any(s.certain for s in table.statistics)
    check_names(by, [s.name for s in table.statistics], (), spec.origin, certain=certain)
    if len(set(by)) != len(by):
        _refuse(spec, f"a key column is called `{LEVEL_COLUMN}`", "rename it in the schema")
    for level in levels:
        for key in level.keys:
            if ALL in key:
                _refuse(
                    spec,
                    f"`{level.name}` has a group called `{ALL}`",
                    f"rename it: `{ALL}` stands where a row's level has no such column",
                )


# --- what a level needs -----------------------------------------------------------------------


def in_detail(
    detail: Detail | None,
    tables: PlannedTables,
    found: Sequence[Fitting],
    statistics: Sequence[PlannedStatistic],
    priced: Mapping[str, Priced],
    loss: str,
) -> tuple[PlannedTables, list[str]]:
    """Return the tables with how fine one of them is published, and what the plan says of it.

    Args:
        found: what measures each family; statistics: of all tables; priced: blocks by name.

    Raises:
        PlanError: a row of some level may not stand in the table (DPR295).
    """
    if detail is None:
        return tables, []
    _check_same(detail, statistics, priced)
    mine = [next(f for f in found if f.family is family) for family in detail.families]
    each = zip(detail.levels, mine, strict=True)
    variances = {name: fitting.estimator.variance(name) for name, fitting in each}
    made = _planned(detail, tables, variances, deviation(loss))
    drawn = 0 if made.block is None else noise_of(priced[made.block].best.law).variance()
    notes = _notes(
        made, detail, deviation(loss) * math.sqrt(drawn), made.added_up(tables, statistics)
    )
    return replace(tables, detail=made), notes


def _check_same(
    detail: Detail, statistics: Sequence[PlannedStatistic], priced: Mapping[str, Priced]
) -> None:
    """A row of any level must be allowed to stand in the table: in its domain, on its step, certain or not."""
    own = {s.text: s for s in statistics if s.table == detail.table}
    certain = {s.block for s in statistics if priced[s.block].best.law.bound is not None}
    seen: set[tuple[str | None, str]] = set()
    for statistic in statistics:
        mine, place = own.get(statistic.text), (statistic.table, statistic.text)
        if mine is None or statistic.table not in detail.levels:
            continue
        if place in seen:  # which of the two would a row of the other level have?
            _refuse(detail.spec, f"`{place[0]}` has {place[1]} twice", "keep one of the two")
        seen.add(place)
        if (statistic.domain, statistic.step) != (mine.domain, mine.step):
            _refuse(
                detail.spec,
                f"{mine.text} has other allowed values in `{statistic.table}` than in `{detail.table}`",
                "declare one `domain` for both, with its `step`",
            )
        if (statistic.block in certain) != (mine.block in certain):
            _refuse(
                detail.spec,
                f"{mine.text} is certain in one of `{statistic.table}` and `{detail.table}`",
                "write `certain: true` in both, or in neither",
            )


def _planned(
    detail: Detail, tables: PlannedTables, variances: Mapping[str, Floats], error: float
) -> PlannedDetail:
    """Return the plan's record: the levels, and what each needs.

    Args:
        variances: of the fitted cells, in squared steps, per level; error: the expected one of normal
            noise per standard deviation.
    """
    known = branches(tables, detail.levels)
    step_size = detail.families[0].step_size
    needed = tuple(
        _needed(
            detail.spec, known, place, error * np.sqrt(np.maximum(0.0, variances[name])), step_size
        )
        for place, name in enumerate(detail.levels)
        if place
    )
    layout = detail.layout
    return PlannedDetail(
        table=detail.table,
        statistic=detail.spec.statistic,
        levels=detail.levels,
        block=None if layout is None else layout.name,
        max_error=detail.spec.max_error,
        max_relative_error=detail.spec.max_relative_error,
        needed=needed,
    )


def _needed(
    spec: DetailSpec, known: Branches, place: int, errors: Floats, step_size: Fraction
) -> tuple[Need, ...]:
    """Return the least size, per branch, at which a level's goals are met; None where they never are."""
    of, live = known.of[place], ~known.empty[place]
    count = int(known.of[0].max()) + 1
    parts = np.bincount(of[live], minlength=count)
    worst = np.zeros(count)
    np.maximum.at(worst, of[live], errors[live])
    return tuple(
        _need(spec, int(n), Fraction(f"{error:.{_DIGITS}g}"), step_size)
        for n, error in zip(parts, worst, strict=True)
    )


def _need(spec: DetailSpec, parts: int, error: Fraction, step_size: Fraction) -> Need:
    """Return the least size of a branch of `parts` cells that can hold a row, each with this error, in steps."""
    if not parts or (spec.max_error is not None and error * step_size > spec.max_error):
        return None
    if spec.max_relative_error is None:
        return 0
    return math.ceil(parts * error / spec.max_relative_error)


# --- words ------------------------------------------------------------------------------------


def _notes(planned: PlannedDetail, detail: Detail, spread: float, added_up: str) -> list[str]:
    """Return what a plan says of a table's detail; `spread`: the expected error of a drawn size, in steps."""
    coarsest, *finer = planned.levels
    step_size = detail.families[0].step_size
    goals = []
    if planned.max_error is not None:
        goals.append(f"at most {plain(planned.max_error)}")
    if planned.max_relative_error is not None:
        goals.append(f"at most {plain(100 * planned.max_relative_error)} % of the average size")
    rule = (
        f"rows of {planned.table} stand at one of the levels {', '.join(planned.levels)}, each group of"
        f" {coarsest} at the finest where the expected error of {planned.statistic} is {' and '.join(goals)};"
        f" the others stand at {coarsest}, and {added_up}"
    )
    if planned.block is None:
        return [rule, _publicly(planned)]
    drawn = (
        f"sizes are told by a draw of their own, ±{figure(spread * float(step_size))} for {plain(100 * detail.share)} %"
        " of the budget, used for nothing else; how many groups will stand at a fine level depends on it and"
        " is not known now"
    )
    return [
        rule,
        *(_from(planned, place, name, step_size) for place, name in enumerate(finer)),
        drawn,
    ]


def _publicly(planned: PlannedDetail) -> str:
    found = planned.chosen(None)
    counts = [f"{found.count(i):,} at {name}" for i, name in enumerate(planned.levels)]
    return f"public errors decide: of {len(found):,} groups of {planned.levels[0]}, {', '.join(counts)}"


def _from(planned: PlannedDetail, place: int, name: str, step_size: Fraction) -> str:
    needs = [need for need in planned.needed[place] if need is not None]
    if not needs:
        return f"no group stands at {name}: its errors are too large"
    ends = dict.fromkeys(str(plain(need * step_size)) for need in (min(needs), max(needs)))
    return f"a group stands at {name} from a drawn {planned.statistic} of {' to '.join(ends)} on"


def _refuse(spec: DetailSpec, what: str, fix: str) -> NoReturn:
    raise PlanError(
        what,
        where=spec.origin,
        why="every row of a table with `detail` is a group of the table or of a coarser one",
        fix=fix,
        code="DPR295",
    )
