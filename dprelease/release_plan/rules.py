"""What rules change in a plan: steps and stated errors of rounded numbers, and sentences; never a share.

Units: errors in the statistic's unit, squared under squared loss. Source: `docs/theory/rules.md`.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from fractions import Fraction
from typing import NoReturn

from dprelease.core.errors import PlanError
from dprelease.core.numeric import figure
from dprelease.measurements.scalar_grid import in_steps
from dprelease.query.spec import Query
from dprelease.release_plan.fits import check_valid
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import PlannedStatistic, deciding, numbers
from dprelease.release_plan.tables import PlannedTables
from dprelease.schema.release_spec import Rules, StatisticSpec, Suppress

_DIGITS = 12
"""Of a stated error: the last ones of an exponential differ between machines."""


def ruled(plan: ReleasePlan, rules: Rules, query: Query) -> ReleasePlan:
    """Return the plan with the rules of its request.

    Raises:
        PlanError: a rule cannot act on this release (DPR297).
    """
    notes = [*plan.notes]
    if plan.tables is not None and plan.tables.detail is not None:
        _refuse(query, "a table with `detail` has no rules", "its rows stand at several levels")
    if rules.sparse and rules.suppress is None:
        _refuse(
            query,
            "`sparse` leaves out suppressed cells, and none is suppressed",
            "files and pages would be the same without it",
            "add e.g. `suppress: {below: 10}`",
        )
    rounded = []
    if rules.round is not None:
        plan, said = _rounded(plan, query, rules.round)
        rounded.append(said)
    if rules.suppress is not None:
        notes += _suppressed(plan, query, rules, rules.suppress)
    return replace(plan, rules=rules, notes=(*notes, *rounded))


def _refuse(query: Query, what: str, why: str, fix: str | None = None) -> NoReturn:
    raise PlanError(
        what, where=query.spec.origin, why=why, fix=fix or "leave the rule out", code="DPR297"
    )


# --- suppress ---------------------------------------------------------------------------------


def _suppressed(plan: ReleasePlan, query: Query, rules: Rules, rule: Suppress) -> list[str]:
    """Return what a plan says of suppression, once every table has a count that can decide."""
    if rules.sparse and plan.tables is not None:
        _refuse(
            query,
            "`sparse` is for a release of one table",
            "cells that are fitted to each other are no independent draws, and intervals of selected ones would miss",
            "leave `sparse` out, or release one table",
        )
    by_table: dict[str | None, list[PlannedStatistic]] = {}
    for statistic in plan.statistics:
        by_table.setdefault(statistic.table, []).append(statistic)
    for table, statistics in by_table.items():
        count = deciding(statistics, rule)
        name = rule.statistic or "number of rows"
        if count is None:
            place = "" if table is None else f" of table {table}"
            named = [s for s in statistics if deciding([s], replace(rule, statistic=s.name))]
            _refuse(
                query,
                f"`suppress` compares the {name}, which is no count{place}",
                "a cell is suppressed by a number of rows or persons that is released with it",
                f"name the one that is there: `suppress: {{below: {rule.below}, statistic: {named[0].name}}}`"
                if named
                else "add `count` to the statistics",
            )
        _check_decides(plan, query, count, rule)
        least = count.threshold(rule.below)
    below = f"{rule.below:,}"
    if plan.tables is None and least > rule.below:
        below = f"{least:,}, and would be rounded to less than {rule.below:,},"
    said = f"a cell whose noisy {name} is below {below} is published without a value, and so is all else of it"
    out = [f"{said}; this costs nothing, and its interval says how many there may be"]
    if rules.sparse:
        out.append(
            "files and pages hold published cells only; their intervals are as wide as it takes for at most"
            " 5 % of the published ones to be expected to miss"
        )
    if plan.tables is not None:
        out.append(
            "tables add up: the lower of a cell's least-squares estimate and its fitted number decides, so none is"
            f" published below {rule.below:,}; that 95 % of the published ones are covered is observed there, not proved."
            " A suppressed number may follow from its neighbours and totals, and privacy does not rest on suppression"
        )
    return out


def _check_decides(
    plan: ReleasePlan, query: Query, count: PlannedStatistic, rule: Suppress
) -> None:
    """Refuse a count whose noisy number, before it is moved into its domain, is not known or not noisy, or always too low."""
    block = plan.block(count.block)
    if count.domain.hull[1] // count.step * count.step < rule.below:
        _refuse(
            query,
            f"no published `{count.name}` could reach {rule.below:,}, below which cells are suppressed",
            f"its domain ends at {count.domain.hull[1]:g}",
            "lower `below`, or raise the end of the domain, which is `rows: {max: ...}` where none is declared",
        )
    if count.domain.exact_gaps:
        _refuse(
            query,
            f"`{count.name}` has a forbidden interval and decides what is suppressed",
            "one rule moves small numbers out of a gap, the other leaves them out: together they would say what neither means",
            "keep one: `forbidden` to move numbers, `suppress` to leave small ones out",
        )
    if block.public:
        _refuse(query, f"`{count.name}` is a public number", "it is released as it is", None)
    if block.law.added is None:
        _refuse(
            query,
            f"{count.mechanism} is no additive noise, and `{count.name}` decides what is suppressed",
            "a cell is suppressed by its number before that is moved into the domain, which this law does not have",
            "let the planner choose, or pin `mechanism: discrete_laplace`",
        )


# --- round ------------------------------------------------------------------------------------


def _rounded(plan: ReleasePlan, query: Query, base: int) -> tuple[ReleasePlan, str]:
    """Return the plan with numbers as multiples of `base`, and the sentence that says so."""
    names = {(s.table, s.name) for s in numbers(plan.statistics) if not plan.block(s.block).public}
    if not names:
        _refuse(query, "`round` has nothing to round", "it is for numbers of rows or persons")
    specs: dict[tuple[str | None, str], StatisticSpec] = {
        (table.name, s.name): s for table in query.spec.tables for s in table.statistics
    }
    specs |= {(None, s.name): s for s in query.spec.statistics}
    made = []
    for s in plan.statistics:
        if (s.table, s.name) not in names:
            made.append(s)
            continue
        if s.domain.exact_gaps or not s.domain.on_grid(Fraction(base)).runs:
            _refuse(
                query,
                f"`{s.name}` cannot be rounded to {base:,}",
                "its domain is cut by a forbidden interval, or holds no multiple",
            )
        if s.step != 1:
            _refuse(
                query,
                f"`{s.name}` has a `step` of its own",
                "both say what it is rounded to",
                "keep one: `step` or `round`",
            )
        one = _with_step(s, base, squared=plan.loss == "squared")
        goal = specs[s.table, s.name].max_error
        if goal is not None and (
            one.planned_error is None or _at_worst(s, base, plan.loss) > float(goal)
        ):
            _refuse(
                query,
                f"`max_error` of {s.text} is not met once it is rounded to {base:,}",
                f"rounding moves a number by up to {base // 2}",
                "raise `max_error`, or round less",
            )
        made.append(one)
    said = f"numbers of rows, persons and values are rounded to multiples of {base:,}, intervals outward; stated errors include it"
    tables = None if plan.tables is None else _multiples(plan.tables, query, base, names)
    if tables is not None:
        check_valid(tables, (*made, *tables.hidden), query.spec.origin)
    return replace(plan, statistics=tuple(made), tables=tables), said


def _multiples(
    tables: PlannedTables, query: Query, base: int, names: Collection[tuple[str | None, str]]
) -> PlannedTables:
    """Return the tables with fits of rounded numbers in multiples of `base`."""
    named = {f.name for f in tables.fits if any((t.table, t.statistic) in names for t in f.tables)}
    used = {f.counts for f in tables.fits} | {r.bottom for r in tables.ratios}
    if named & used:
        _refuse(
            query,
            "`round` and sums or means of the same rows in tables that add up",
            "these are fitted to the number of rows, and would be moved by its rounding",
            "release them without `round`, or in a release of their own",
        )
    fits = tuple(replace(f, multiple=base) if f.name in named else f for f in tables.fits)
    if any(
        v % base for f in fits if f.multiple > 1 for values in f.totals.values() for v in values
    ):
        _refuse(
            query,
            f"a public total is no multiple of {base:,}",
            "what adds up to it is rounded",
            "state rounded totals, or leave them out",
        )
    return replace(tables, fits=fits)


def _with_step(s: PlannedStatistic, base: int, *, squared: bool) -> PlannedStatistic:
    def after(error: float) -> float:
        return float(f"{in_steps(error, base, base / 2, squared=squared)[0]:.{_DIGITS}g}")

    own = s.chosen[0].expected_error
    unit = f" {s.measure}" if s.measure else ""
    text = s.error_text
    if own is not None:
        root = math.sqrt(after(own)) if squared else after(own)
        text = f"±{figure(root)}{unit} in steps of {base:,} ({text} before rounding)"
    return replace(
        s,
        step=Fraction(base),
        planned_error=None if s.planned_error is None else after(s.planned_error),
        error_text=text,
        group_errors=None if s.group_errors is None else tuple(map(after, s.group_errors)),
    )


def _at_worst(s: PlannedStatistic, base: int, loss: str) -> float:
    squared = loss == "squared"
    most = in_steps(s.planned_error or 0.0, base, base // 2, squared=squared)[1]
    return math.sqrt(most) if squared else most
