"""How one number of several tables is fitted: what is public of it, what measures it, and how wide its intervals are.

    totals       public numbers of a table, where they may be stated at all: they are not measured
    estimator    least squares over the measured tables, by the noise that each is drawn with
    fits         per table: the block that measures it, half widths of its intervals, its totals
    sets         tables of which none is the finest: one block behind all of them
    pairs        a sum beside the count of the same rows: l count <= sum <= u count

All of it is public and decided before the charge.

Units: half widths in steps of the number; variances in steps squared.
Sources: `docs/theory/publications-that-add-up.md#feasible-values`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

from dprelease.allocation.share import Priced
from dprelease.core import registry
from dprelease.core.errors import PlanError
from dprelease.fitting.estimate import Estimator
from dprelease.fitting.interval import half_widths
from dprelease.fitting.least_squares import estimator
from dprelease.fitting.structure import Level, Structure
from dprelease.intervals.noise import Gaussian, Noise
from dprelease.measurements.base import family_named, family_of
from dprelease.measurements.members import BlockLayout, Member
from dprelease.planning.prices import Figures
from dprelease.planning.tables.quotients import row_range
from dprelease.query.spec import Query
from dprelease.query.tables import TableGroups, Tables
from dprelease.release_plan.fits import noise_of
from dprelease.release_plan.tables import FitTable, PlannedFit, PlannedTables
from dprelease.schema.release_spec import TotalSpec
from dprelease.schema.unit import Adjacency, RowUnit, UserUnit

if TYPE_CHECKING:
    from dprelease.planning.tables.families import Family


@dataclass(frozen=True, slots=True)
class Fitting:
    """One family with what measures it; `halves`: half an interval's width, per class of cells, in steps."""

    family: Family
    structure: Structure
    estimator: Estimator
    priced: Mapping[str, Priced]
    halves: Mapping[str, tuple[Fraction, ...]]
    totals: Mapping[str, tuple[int, ...]]
    raised: Fraction

    @property
    def noises(self) -> dict[str, Noise]:
        return {name: noise_of(p.best.law) for name, p in self.priced.items()}

    def drawn_for(self, table: str) -> tuple[str, str]:
        """Return the block and the mechanism that a table's numbers are drawn with."""
        priced = self.priced.get(table, self.priced[self.family.finest])
        return priced.block.name, priced.best.law.mechanism

    def variances(self, table: str) -> tuple[float, float]:
        """Return the mean variance of a table's cells: fitted, and were every table measured alone."""
        return float(self.estimator.variance(table).mean()), alone_variance(self, table)


Errors = tuple[float, float | None, float]
"""Expected errors of a number: fitted, as measured (None: it is not), every table measured alone."""

Critical = tuple[tuple[Fraction, ...], ...]
"""Critical values of a quotient, per class of cells and piece of its range."""


class Recorded(Protocol):
    """The floating point figures of a plan that is made again: last digits differ between machines.

    They return what is recorded, or raise VerificationError where it is not near what is found.
    """

    def halves(
        self, table: str, statistic: str, found: tuple[Fraction, ...]
    ) -> tuple[Fraction, ...]: ...

    def errors(self, table: str, statistic: str, found: Errors) -> Errors: ...

    def critical(self, table: str, statistic: str, found: Critical) -> Critical: ...

    def figures(self, table: str, statistic: str) -> Figures: ...


def fitting_of(
    query: Query,
    tables: PlannedTables,
    family: Family,
    by_name: Mapping[str, Priced],
    recorded: Recorded | None,
    raised: Fraction,
) -> Fitting:
    """Return a family with what measures it, of what was priced by the names of blocks.

    Raises:
        PlanError: as `_totals`, or the finest table is not measured (DPR280).
    """
    structure = tables.structure(list(family.members))
    priced = {
        table: by_name[name]
        for table in family.members
        if (name := family.layout(table, None).name) in by_name
    }
    if not family.finest:
        (priced[""],) = by_name.values()
    noises: dict[str, Noise | None] = dict.fromkeys(family.members)
    noises |= {table: noise_of(p.best.law) for table, p in priced.items()}
    totals = _totals(query, family, tables)
    made = _estimator(structure, noises, totals, priced.get(""))
    known: dict[Any, Fraction] | None = None if family.finest else {}
    halves = {table: tuple(half_widths(made, table, known=known)) for table in family.members}
    if recorded is not None:
        names = {table: m.statistic.spec.name for table, m in family.members.items()}
        halves = {t: recorded.halves(t, names[t], found) for t, found in halves.items()}
    return Fitting(family, structure, made, priced, halves, totals, raised)


def _estimator(
    structure: Structure,
    noises: Mapping[str, Noise | None],
    totals: Mapping[str, Any],
    whole: Priced | None,
) -> Estimator:
    if whole is None:
        return estimator(structure, noises, list(totals))
    kind: Any = family_of(whole.best.measurement)
    return cast("Estimator", kind.estimator(whole.best.measurement, structure, whole.best.law))


def fits_of_family(found: Fitting) -> list[PlannedFit]:
    """Return the family's fits: one per cell of its blocks."""
    family = found.family
    cells = next(iter(family.members.values())).options[0].cells
    columns = {
        t: (m.statistic.spec.name,) if t in family.hidden else m.kind.columns(m.statistic)
        for t, m in family.members.items()
    }
    out = []
    for cell, label in enumerate(cells):
        tables = tuple(
            FitTable(
                table=table,
                statistic=member.statistic.spec.name,
                column=columns[table][cell],
                block=found.priced[table].block.name if table in found.priced else None,
                halves=found.halves[table],
                totals=tuple(found.totals.get(table, ())),
            )
            for table, member in family.members.items()
        )
        name = family.name if len(cells) == 1 else f"{family.name} {label}"
        out.append(PlannedFit(name, cell, family.step_size, tables))
    return out


def alone_variance(found: Fitting, table: str) -> float:
    """Return the variance of a table that gets an equal part of what the family spends."""
    count = sum(name not in found.totals for name in found.family.members)
    finest = found.priced[found.family.finest]
    mine = found.priced.get(table, finest)
    normal = isinstance(noise_of(finest.best.law), Gaussian)
    if not found.family.finest:
        of = finest.best.measurement  # a row moves a table alone by 1
        each = of.squares[0] / count if normal else (of.l1_added_row / count) ** 2
        return float(noise_of(finest.best.law).variance()) / each
    if normal:
        rho = sum((p.share.rho or Fraction(0) for p in found.priced.values()), Fraction(0))
        own, rho = mine.share.rho or rho, rho / found.raised
        return float(noise_of(mine.best.law).variance() * own * count / rho)
    total = sum((p.share.epsilon for p in found.priced.values()), Fraction(0)) / found.raised
    ratio = float(mine.share.epsilon * count / total)
    return float(noise_of(mine.best.law).variance()) * ratio**2


def paired(fits: Sequence[PlannedFit], families: Sequence[Family]) -> tuple[PlannedFit, ...]:
    """Return the fits, sums tied to the count of the same rows in the same tables."""
    out = []
    for fit in fits:
        family = next(
            f for f in families if f.name == fit.name or fit.name.startswith(f"{f.name} ")
        )
        counts = next((f for f in families if f.name == _rows_of(family)), None)
        same = counts is not None and set(counts.members) == set(family.members)
        if counts is not None and same and not fit.totals and _plain(family):
            low, high, _ = row_range(next(iter(family.members.values())))
            fit = replace(fit, counts=counts.name, low=low, high=high)  # noqa: PLW2901
        out.append(fit)
    return tuple(out)


def _rows_of(family: Family) -> str | None:
    """Return the family of the rows that a family sums: of all rows, where no null leaves one out."""
    member = next(iter(family.members.values()))
    column = member.statistic.column
    complete = column is not None and column.null_default is not None
    return family.counts or (member.kind.within if complete else None)


def _plain(family: Family) -> bool:
    """Return whether no domain of its own was declared: then every count leaves a sum."""
    return all(m.statistic.spec.domain is None for m in family.members.values())


# --- public totals ----------------------------------------------------------------------------


def _totals(query: Query, family: Family, tables: PlannedTables) -> dict[str, tuple[int, ...]]:
    """Return the public totals of a family's tables, in steps.

    Raises:
        PlanError: they may not be stated here, are not one number per group, or are between two steps
            (DPR294).
    """
    out: dict[str, tuple[int, ...]] = {}
    for total in stated(query, family):
        member = family.members[total.table]
        _legal(query, member, total)
        keys = tables.named(total.table).keys
        values = dict(total.values)
        if set(values) != set(keys) or len(values) != len(total.values):
            _refuse(total, "the totals are not one number per group of the table", "list each once")
        steps = [values[key] / family.step_size for key in keys]
        if any(step.denominator != 1 for step in steps):
            _refuse(total, "a total lies between two steps of the statistic", "correct it")
        out[total.table] = tuple(step.numerator for step in steps)
    return out


def _legal(query: Query, member: Member, total: TotalSpec) -> None:
    schema = query.schema
    column = member.statistic.column
    problems = {
        "the unit is not a row": not isinstance(schema.unit, RowUnit),
        "the adjacency is not substitution": schema.adjacency is not Adjacency.substitution,
        "nulls leave rows out": column is not None and column.null_default is None,
        "a condition takes rows out": query.where is not None,
        "a period takes rows out": query.window is not None,
    }
    found = next((words for words, true in problems.items() if true), None)
    if found is not None:
        _refuse(
            total,
            f"public totals of {member.statistic.spec.text} cannot be stated here: {found}",
            "they need `unit: row`, `adjacency: substitution`, a default for nulls, no `where` and no period",
        )


def _refuse(total: TotalSpec, what: str, fix: str) -> NoReturn:
    raise PlanError(
        what,
        where=total.origin,
        why="a public total is a number of the bounded table as it is released",
        fix=fix,
        code="DPR294",
    )


# --- sets without a finest table --------------------------------------------------------------


def set_block(query: Query, family: Family) -> BlockLayout:
    """Return the one block; PlanError where whole tables may not exist (DPR290), or a statistic asks for more (DPR292)."""
    tables = query.tables
    assert tables is not None
    refused = [
        what
        for one in (each.spec for each in query.statistics)
        for what, said in (
            ("domain of its own", one.domain),
            ("`certain`", one.certain),
            ("`max_error`", one.max_error),
            ("`mechanism`", one.mechanism),
            ("`rules`", query.spec.rules),
        )
        if said
    ]
    if refused:
        raise PlanError(
            f"tables of which none is the finest have no {refused[0]}",
            where=query.spec.origin,
            why="they are drawn as one, and their whole numbers are fitted within their margins alone",
            fix="leave it out, or add a table by all of the columns",
            code="DPR292",
        )
    kind: Any = family_named(registry.TABLE_SET)
    axes = tuple(tuple(tuple(c.tolist()) for c in axis.cells) for axis in tables.axes)
    ways = partial(kind.ways, [column.name for column in tables.groups.columns], axes)
    try:
        options = ways([_level(t) for t in tables.tables])
    except LookupError as found:
        raise _no_order(query, tables, ways, *found.args) from None
    unit = query.schema.unit
    most = unit.in_any_cells.max_rows_per_group if isinstance(unit, UserUnit) else None
    member = next(iter(family.members.values()))
    spec = replace(member.statistic.spec, name="tables", max_rows=most)
    member = replace(member, statistic=replace(member.statistic, spec=spec), options=options)
    return BlockLayout((member,), options)


def _level(table: TableGroups) -> Level:
    return tuple(k + 1 for k in table.level)


def _no_order(
    query: Query, tables: Tables, ways: Any, table: Level, margins: Sequence[Level]
) -> PlanError:
    """Return the refusal of a set, with the nearest one that is taken."""
    names = {_level(t): t.name for t in tables.tables}

    def words(level: Level) -> str:
        each = zip(tables.axes, level, strict=True)
        return " x ".join(axis.levels[k - 1] for axis, k in each if k)

    taken = []
    for without in (*reversed(margins), table):
        with suppress(LookupError):
            ways([t for t in names if t != without])
            taken.append(names[without])
    left = "where it is one of `all_pairs`, list the others one by one"
    near = (
        f"leave out the table `{taken[0]}`; {left}"
        if taken
        else "add a table by all of the columns"
    )
    return PlanError(
        f"`{words(table)}` has the margins {', '.join(map(words, margins))}, which may be those of no whole table",
        where=query.spec.origin,
        why="each of them may fit the others in whole numbers, and all together none",
        fix=near,
        code="DPR290",
    )


def stated(query: Query, family: Family) -> list[TotalSpec]:
    """Return the totals that are public: those stated by name, and the number of all rows.

    `rows.exact` is the count of a table without groups wherever no row can be in none of the finest
    groups: every column has a key for other values and one for nulls, and all groups are published.
    """
    found = [
        total
        for total in query.spec.totals
        if total.table in family.members
        and family.members[total.table].statistic.spec.name == total.statistic
    ]
    for table, member in family.members.items():
        named = any(t.table == table for t in found) or table == family.finest
        if not named and _counts_all_rows(query, member, table):
            size = Fraction(query.schema.rows.exact or 0)
            name, origin = member.statistic.spec.name, member.statistic.spec.origin
            found.append(TotalSpec(table, name, (((), size),), origin))
    return found


def _counts_all_rows(query: Query, member: Member, table: str) -> bool:
    assert query.tables is not None
    columns = query.groups.columns
    return (
        member.kind.of_rows
        and not next(t for t in query.tables.tables if t.name == table).spec.by
        and query.schema.rows.exact is not None
        and isinstance(query.schema.unit, RowUnit)
        and query.where is None
        and query.window is None
        and (query.view is None or query.view.keeps_rows)
        and all(c.other is not None and c.null_key is not None for c in columns)
        and len(query.groups.keys) == math.prod(len(c.keys) for c in columns)
    )
