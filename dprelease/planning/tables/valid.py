"""Which values several tables can be published with: public, and decided before the charge.

    domains   of every table, in steps
    totals    public numbers of a table, where they may be stated at all
    pairs     a sum beside the count of the same rows: l count <= sum <= u count

Units: steps of the statistic.
Sources: `docs/theory/publications-that-add-up.md#feasible-values`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NoReturn

from dprelease.errors import PlanError
from dprelease.fitting.feasible import Feasible, check_pair
from dprelease.measurements.members import Member
from dprelease.planning.tables.families import Family
from dprelease.planning.tables.quotients import row_range
from dprelease.query.spec import Query
from dprelease.release_plan.fits import feasible_values
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.release_plan.tables import PlannedFit, PlannedTables
from dprelease.schema.table import TotalSpec
from dprelease.schema.unit import Adjacency, RowUnit

__all__ = ["check_valid", "paired", "public_totals", "stated"]


def check_valid(tables: PlannedTables, statistics: Sequence[PlannedStatistic], origin: str) -> None:
    """Refuse tables that no values can fill; PlanError as `feasible_values`, or of a pair (DPR284)."""
    known = {(s.table or "", s.name): s for s in statistics}
    found: dict[str, Feasible] = {}
    try:
        for fit in tables.fits:
            structure = tables.structure([t.table for t in fit.tables])
            _, found[fit.name] = feasible_values(fit, known, structure)
        for fit in tables.fits:
            if fit.counts is not None:
                structure = tables.structure([t.table for t in fit.tables])
                check_pair(structure, found[fit.counts], found[fit.name], fit.low, fit.high)
    except PlanError as refused:
        if refused.where is not None:
            raise
        raise PlanError(
            refused.what, where=origin, why=refused.why, fix=refused.fix, code=refused.code
        ) from None


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
    return family.counts or (member.aggregate.within if complete else None)


def _plain(family: Family) -> bool:
    """Return whether no domain of its own was declared: then every count leaves a sum."""
    return all(m.statistic.spec.domain is None for m in family.members.values())


# --- public totals ----------------------------------------------------------------------------


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
    every = math.prod(len(c.keys) for c in columns)
    return (
        member.aggregate.of_rows
        and not next(t for t in query.tables.tables if t.name == table).spec.by
        and query.schema.rows.exact is not None
        and isinstance(query.schema.unit, RowUnit)
        and query.where is None
        and query.window is None
        and (query.view is None or query.view.keeps_rows)
        and all(c.other is not None and c.null_key is not None for c in columns)
        and len(query.groups.keys) == every
    )


def public_totals(
    query: Query, family: Family, tables: PlannedTables
) -> dict[str, tuple[int, ...]]:
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
        given = dict(total.values)
        if set(given) != set(keys) or len(given) != len(total.values):
            _refuse(total, "the totals are not one number per group of the table", "list each once")
        steps = [given[key] / family.step_size for key in keys]
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
