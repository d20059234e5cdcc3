"""Make the plan of several tables that add up: measure some of them, fit all. Reads no row.

    families    statistics of all tables -> additive numbers, each with its finest table
    shares      which tables are measured, with which part of the budget (`fitting.levels`)
    spend       as for one table: laws at these shares, and how they compose
    fits        per number: who measures it, how wide its intervals are; empty valid sets are refused

All laws are of integer cells with noise that is added and never cut. Errors are expected absolute
errors (root mean squares under squared loss), taken as those of normal noise of the same variance.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dprelease.allocation.goals import goal_missed, missed
from dprelease.allocation.spend import Spending, spend
from dprelease.budget.composition import SUMS
from dprelease.core.errors import PlanError
from dprelease.core.numeric import figure, shown
from dprelease.fitting.levels import Kind
from dprelease.fitting.structure import Structure
from dprelease.measurements.candidate import Option
from dprelease.measurements.members import BlockLayout
from dprelease.planning.layout import check_names
from dprelease.planning.prices import Prices
from dprelease.planning.tables.detail import Detail, detail_of, in_detail
from dprelease.planning.tables.families import (
    Family,
    by_themselves,
    deviation,
    families,
    measured,
    not_added_up,
)
from dprelease.planning.tables.fitting import (
    Errors,
    Fitting,
    Recorded,
    alone_variance,
    fits_of_family,
    fitting_of,
    paired,
    set_block,
)
from dprelease.planning.tables.quotients import TableQuotient
from dprelease.planning.tables.ratios import hidden_of, planned_ratio
from dprelease.planning.tables.shares import family_parts, own_part, shares_of
from dprelease.planning.write import planned, planned_statistic, statistic_notes, written
from dprelease.query.spec import Query
from dprelease.release_plan.fits import check_valid
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.release_plan.tables import APART, STATED, PlannedTable, PlannedTables

_KINDS: tuple[Kind, ...] = ("zcdp", "pure")
"""What losses the budget is split for; with a delta both, as few wide tables may cost less added up."""

WAYS = ("fitted to the other tables", "as measured", "every table measured alone")
"""Notes of the three errors that a plan states of a number."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What a request of several tables decides by itself."""

    query: Query
    prices: Prices
    families: tuple[Family, ...]
    quotients: tuple[TableQuotient, ...]
    tables: PlannedTables
    own: tuple[BlockLayout, ...] = ()
    detail: Detail | None = None
    set: BlockLayout | None = None
    """What is behind all tables, where none is the finest."""

    @property
    def sizing(self) -> list[BlockLayout]:
        """The block whose draw tells how fine a table is published, if there is one."""
        layout = None if self.detail is None else self.detail.layout
        return [] if layout is None else [layout]

    @property
    def fitted(self) -> dict[str, int]:
        """How many numbers are fitted in each table."""
        return Counter(table for family in self.families for table in family.members)

    def structure(self, family: Family) -> Structure:
        return self.tables.structure(list(family.members))


def plan_tables(query: Query) -> ReleasePlan:
    """Return the plan of a release of several tables.

    Raises:
        PlanError: as `families.families` and `spend`; published names meet (DPR207), shares leave
            nothing (DPR220), a `max_error` cannot be met (DPR240), or no values can be valid (DPR281 to DPR284, DPR294).
    """
    frame = frame_of(query)
    if frame.set is not None:
        return write_tables(
            frame, spend([frame.set], query.epsilon, query.spec.delta, query.loss, frame.prices)
        )
    structures = {family.name: frame.structure(family) for family in frame.families}
    sensitivities = {
        family.name: {
            name: frame.prices.sensitivity(member.options[0], family.layout(name, None))
            for name, member in family.members.items()
        }
        for family in frame.families
    }

    def made(kind: Kind) -> ReleasePlan:
        def split(family: Family, part: Fraction) -> dict[str, Fraction]:
            return shares_of(
                query,
                family,
                part,
                structures[family.name],
                sensitivities[family.name],
                kind,
                frame.fitted,
            )

        whole = Fraction(1) - (Fraction(0) if frame.detail is None else frame.detail.share)
        whole -= own_part(frame.families, frame.own, query.loss)
        parts = zip(frame.families, family_parts(frame.families, query, split, whole), strict=True)
        blocks = [b for f, part in parts for b in measured(f, split(f, part))]
        blocks += [*frame.own, *frame.sizing]
        spending = spend(blocks, query.epsilon, query.spec.delta, query.loss, frame.prices)
        return write_tables(frame, spending)

    tried: list[ReleasePlan] = []
    refused: PlanError | None = None
    for kind in _KINDS if query.spec.delta else _KINDS[1:]:
        try:
            tried.append(made(kind))
        except PlanError as why:
            refused = why
        if tried and (found := tried[0].composition) is not None and found.method not in SUMS:
            break  # zCDP pays: shares that were chosen for pure losses are no better
    if not tried:
        assert refused is not None
        raise refused
    return min(tried, key=lambda plan: _relative_error(plan, tried[0]))


def _relative_error(plan: ReleasePlan, other: ReleasePlan) -> float:
    """Return the sum of a plan's expected errors, each a part of the other's."""
    pairs = zip(plan.statistics, other.statistics, strict=True)
    return sum((a.planned_error or 0) / b.planned_error for a, b in pairs if b.planned_error)


def frame_of(query: Query) -> Frame:
    """Return families and groups of a request whose published names can stand together."""
    assert query.tables is not None
    found, quotients, others = families(query)
    own = by_themselves(query, others)
    for table in query.tables.tables:
        members = [f.members[table.name] for f in found if table.name in f.published]
        members += [q.member for q in quotients if q.table == table.name]
        members += [m for block in own if block.table == table.name for m in block.members]
        columns = [c for m in members for c in m.kind.columns(m.statistic)]
        names = [m.statistic.spec.name for m in members]
        certain = any(m.statistic.spec.certain for m in members)
        check_names(table.spec.by, names, columns, table.spec.origin, certain=certain)
    made = set_block(query, found[0]) if query.tables.margins else None
    detail = detail_of(query, found, own)
    return Frame(query, Prices(query), found, quotients, _tables(query), own, detail, made)


def _tables(query: Query) -> PlannedTables:
    assert query.tables is not None
    made = PlannedTables(
        axes=tuple(
            tuple(tuple(cells.tolist()) for cells in axis.cells) for axis in query.tables.axes
        ),
        tables=tuple(
            PlannedTable(t.name, t.spec.by, t.keys, t.level, tuple(t.of.tolist()))
            for t in query.tables.tables
        ),
    )
    return replace(made, impossible=any(0 < len(set(t.of)) < len(t.keys) for t in made.tables))


def table_blocks(frame: Frame, names: Sequence[str]) -> tuple[BlockLayout, ...]:
    """Return the blocks of these names, as `plan_tables` orders them, with their declared shares."""
    out: list[BlockLayout] = []
    if frame.set is not None:
        return (frame.set,)
    for family in frame.families:
        for table in family.members:
            block = family.layout(table, None)
            if block.name in names:
                out.append(block)
    return (*out, *frame.own, *frame.sizing)


# --- writing ----------------------------------------------------------------------------------


def write_tables(frame: Frame, spending: Spending, recorded: Recorded | None = None) -> ReleasePlan:
    """Return the plan of what was chosen: the same for equal requests, choices and figures."""
    query, prices = frame.query, frame.prices
    by_name = {p.block.name: p for p in spending.priced}
    found = [
        fitting_of(query, frame.tables, family, by_name, recorded, spending.raised)
        for family in frame.families
    ]
    fits = paired([fit for each in found for fit in fits_of_family(each)], frame.families)
    by_family = {each.family.name: each for each in found}
    quotients = {
        (q.table, q.member.statistic.spec.name): planned_ratio(
            query, q, by_family[q.top], by_family[q.bottom], recorded
        )
        for q in frame.quotients
    }
    tables = replace(
        frame.tables,
        fits=fits,
        ratios=tuple(ratio for _, ratio in quotients.values()),
        hidden=tuple(s for each in found for s in hidden_of(each)),
    )
    made = {place: s for place, (s, _) in quotients.items()} | _own(frame, spending, recorded)
    statistics = [
        s
        for table in frame.tables.tables
        for s in _statistics(frame, found, table.name, recorded, made)
    ]
    check_valid(tables, (*statistics, *tables.hidden), query.spec.origin)
    assert query.tables is not None
    by = tuple(axis.column for axis in query.tables.axes)
    tables, said = in_detail(frame.detail, tables, found, statistics, by_name, query.loss)
    notes = [*_notes(query, found, frame.own), *said]
    return written(query, spending, prices, by, statistics, tables, notes)


def _own(
    frame: Frame, spending: Spending, recorded: Recorded | None
) -> dict[tuple[str, str], PlannedStatistic]:
    """Return what is fitted to nothing, by table and name."""
    names, out = {block.name for block in frame.own}, {}
    for p in spending.priced:
        for i, member in enumerate(p.block.members if p.block.name in names else ()):
            place = p.block.table or "", member.statistic.spec.name
            figures = None if recorded is None else recorded.figures(*place)
            made = planned_statistic(frame.prices, p, i, spending.epsilon, figures)
            out[place] = replace(made, notes=(*made.notes, APART))
    return out


def _statistics(
    frame: Frame,
    found: Sequence[Fitting],
    table: str,
    recorded: Recorded | None,
    others: Mapping[tuple[str, str], PlannedStatistic],
) -> list[PlannedStatistic]:
    """Return one table's statistics, in the order in which they were asked for; `others`: those that are not fitted."""
    assert frame.query.tables is not None
    made = {name: s for (of, name), s in others.items() if of == table}
    for each in found:
        if table in each.family.published:
            statistic = _statistic(frame.query, each, table, recorded)
            made[statistic.name] = statistic
    return [made[s.name] for s in frame.query.tables.named(table).spec.statistics]


def _statistic(
    query: Query, found: Fitting, table: str, recorded: Recorded | None
) -> PlannedStatistic:
    family = found.family
    member = family.members[table]
    spec = member.statistic.spec
    priced = found.priced.get(table, found.priced[family.finest])
    errors = _errors(query, found, table)
    if recorded is not None:
        errors = recorded.errors(table, spec.name, errors)
    fitted, before, alone = errors
    if missed(spec, fitted):
        raise goal_missed(spec, query.epsilon, fitted / float(spec.max_error or 1))
    mechanism = priced.best.law.mechanism
    step_size = family.step_size
    options = [Option(mechanism, fitted, None, WAYS[0])]
    if before is not None:
        options.append(Option(mechanism, before, None, WAYS[1]))
    options.append(Option(mechanism, alone, None, WAYS[2]))
    claimed = priced.sensitivity.l1_over_groups * step_size
    unit = f" {member.measure}" if member.measure else ""
    return planned(
        member,
        block=priced.block.name,
        step=step_size,
        mechanism=mechanism,
        chosen=tuple(options),
        planned_error=fitted,
        error_text=STATED
        if table in found.totals
        else _error_text(fitted, before, alone, unit, together=not family.finest),
        sensitivity=_sensitivity_text(found, table, f"{shown(claimed)}{unit}"),
        spikes=True,
        notes=statistic_notes(query, member, member.options[0]),
        table=table,
    )


def _sensitivity_text(found: Fitting, table: str, text: str) -> str:
    if table in found.priced:
        return f"{text} over all cells"
    if table in found.totals:
        return f"not measured: {STATED}"
    if not found.family.finest:
        return "of all tables together"
    return f"not measured: added up from `{found.family.finest}`"


def _errors(query: Query, found: Fitting, table: str) -> Errors:
    """Return the errors after fitting, as measured, and of every table measured alone at equal parts."""

    def error(variance: float) -> float:
        return deviation(query.loss) * math.sqrt(max(0.0, variance)) * float(found.family.step_size)

    noises = found.noises
    fitted = float(found.estimator.variance(table).mean())
    before = float(noises[table].variance()) if table in noises else None
    return (
        error(fitted),
        None if before is None else error(before),
        error(alone_variance(found, table)),
    )


def _error_text(
    fitted: float, before: float | None, alone: float, unit: str, *, together: bool
) -> str:
    own = "measured together" if together else "not measured"
    own = own if before is None else f"±{figure(before)} as measured"
    return f"±{figure(fitted)}{unit} fitted ({own}; ±{figure(alone)} if every table were measured alone)"


def _notes(query: Query, found: Sequence[Fitting], own: Sequence[BlockLayout]) -> list[str]:
    """Return what a plan says of its tables."""
    assert query.tables is not None
    names = ", ".join(t.name for t in query.tables.tables)
    finest = ", ".join(c.name for c in query.groups.columns) or "no column"
    notes = [
        f"the tables {names} add up: their values are fitted to each other, from noisy numbers alone"
    ]
    if query.tables.margins:
        design = found[0].priced[""].best.measurement.margins
        assert design is not None
        measured = (
            "what every margin says beyond its own margins"
            if design.sources[-1].residual
            else "the largest tables"
        )
        return [
            *notes,
            f"measured are {measured}; the cross of all columns is never made",
            "contributions are bounded once for all tables: rows of a unit in whichever cells",
        ]
    notes += [
        f"contributions are bounded once for all tables, by the finest groups ({finest}; {len(query.groups.keys):,})",
    ]
    notes += not_added_up(query, [each.family for each in found])
    names = ", ".join(block.name for block in own)
    notes += [f"{names}: {APART}"] if own else []
    for each in found:
        notes += [
            f"stated by the publisher, not protected: {each.family.name} of table {table}"
            for table in each.totals
        ]
        left = [t for t in each.family.members if t not in each.priced and t not in each.totals]
        if left:
            notes.append(f"{each.family.name} of {', '.join(left)} is not measured: it is added up")
    return notes
