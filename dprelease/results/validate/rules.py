"""The built-in rules: a noised table holds every declared value once, each of them allowed.

    shape      the tidy columns are there; no row has an undeclared group or statistic
    groups     every declared group appears exactly once per published column
    finite     the value is a number; a suppressed one is missing, and so is all else of its cell
    domain     the value lies in its statistic's domain, gaps left out
    step       the value is the double nearest to a multiple of its statistic's step
    consistent the consistent value is in the domain and on the step, too; where tables add up there is none
    interval   lower and upper are numbers and lower <= upper; both missing for a choice by rank;
               where noise ends, the certain ends alike, which a suppressed one has not
    status     ok, at_bound, uninformative, empty_signal or no_interval; adjusted or gap; impossible where no row can be,
               and nowhere else: then there is no value and no interval. Where tables add up, no number that decides what is
               suppressed is below the threshold
    adds_up    several tables: every constraint between them holds
    joint_*    mean, variance and standard deviation of one block fit together (`validate.joint`)

The check is total: a broken table yields a failing verdict, never an exception, because nothing
after the charge may fail on a value. It repairs nothing and asks for no redraw: drawing until the
rules hold would be rejection sampling, a different and uncalibrated mechanism
(`docs/theory/the-wall-and-the-ledger.md#no-redraw`).

Vectorised over rows; the joint rules are exact rationals for every group that doubles alone do not
settle beyond doubt.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import CERTAIN_NAMES, PlannedStatistic, deciding
from dprelease.results.draw import Draw, tidy_columns
from dprelease.results.fitted import broken
from dprelease.results.formats.tidy_rows import group_places, places_of
from dprelease.results.rules import WEAK, WITHOUT_VALUE
from dprelease.results.validate.joint import moment_rules
from dprelease.results.validate.joint_pairs import pair_rules
from dprelease.results.validate.verdict import RuleResult, Verdict

ENGINE = "built-in"
STATUSES = ("ok", "at_bound", *WEAK, "no_interval", "adjusted", "gap", *WITHOUT_VALUE)

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Table:
    """The tidy table as arrays, shape `(rows,)`; `slot` = group * columns + column, or -1."""

    slot: Integers
    value: Floats
    lower: Floats
    upper: Floats
    consistent: Floats
    legal_status: npt.NDArray[np.bool_]
    missing: npt.NDArray[np.bool_]
    impossible: npt.NDArray[np.bool_]
    certain: tuple[Floats, Floats]


def check(noised: Draw) -> Verdict:
    """Return the verdict of the built-in rules on a drawn release. Never raises on its values."""
    if noised.plan.tables is not None:
        return _several(noised)
    plan = noised.plan
    rows = noised.table.num_rows
    if not has_tidy_columns(noised.table, plan):
        return Verdict.from_rules((RuleResult("shape", "*", rows, max(rows, 1)),), ENGINE)
    table = _read(noised)
    stray = int((table.slot < 0).sum())
    results = [RuleResult("shape", "*", rows, stray)]
    start = 0
    for statistic in plan.statistics:
        results += _statistic_rules(plan, statistic, start, table)
        start += len(statistic.columns)
    results += _joint_rules(plan, table)
    return Verdict.from_rules(tuple(results), ENGINE)


def _several(noised: Draw) -> Verdict:
    """Return the verdict on several tables: each by itself, and that they add up."""
    assert noised.plan.tables is not None
    results: list[RuleResult] = []
    for table in noised.plan.tables.tables:
        part = noised.parts.get(table.name)
        if part is None:
            results.append(RuleResult("shape", table.name, 1, 1))
            continue
        found = check(part).rules
        results += [replace(r, statistic=f"{table.name}.{r.statistic}") for r in found]
    values = sum(part.table.num_rows for part in noised.parts.values())
    for name, problems in broken(noised.plan, noised.fits).items():
        results.append(RuleResult("adds_up", name, values, len(problems)))
    return Verdict.from_rules(tuple(results), ENGINE)


def has_tidy_columns(table: pa.Table, plan: ReleasePlan) -> bool:
    """Return whether the table has the key columns and then exactly the tidy ones, with types."""
    columns = tidy_columns(plan)
    if table.column_names != [*plan.by, *columns.names]:
        return False
    return [field.type for field in table.schema][len(plan.by) :] == columns.types and all(
        pa.types.is_string(f.type) for f in list(table.schema)[: len(plan.by)]
    )


def _read(noised: Draw) -> _Table:
    table, plan, tables = noised.table, noised.plan, noised.all_tables
    empty = [] if tables is None else tables.empty(plan.statistics[0].table or "", noised.rows)
    keys = len(plan.by)
    published = [c for s in plan.statistics for c in s.columns]
    column = places_of(table.column(keys), published)
    group = group_places(table, plan)
    slot = np.where((column >= 0) & (group >= 0), group * len(published) + column, -1)
    parts = tidy_columns(plan)
    sure = CERTAIN_NAMES if CERTAIN_NAMES[0] in parts.names else ("lower", "upper")
    value, lower, upper, fitted, low, high = (
        table.column(keys + parts.get_field_index(name))
        .to_numpy(zero_copy_only=False)
        .astype(float)
        for name in ("value", "lower", "upper", "value" if plan.fitted else "consistent", *sure)
    )
    said = table.column(keys + len(parts) - 1)
    status = pc.is_in(said, value_set=pa.array(STATUSES))
    legal = status.to_numpy(zero_copy_only=False).astype(bool)
    gone, none = (
        pc.equal(said, name).to_numpy(zero_copy_only=False).astype(bool) for name in WITHOUT_VALUE
    )
    legal = legal & ~gone if plan.rules is None else legal
    legal = legal & (none == np.isin(group, np.flatnonzero(empty)))
    return _Table(slot, value, lower, upper, fitted, legal, gone | none, none, (low, high))


def _statistic_rules(
    plan: ReleasePlan, statistic: PlannedStatistic, start: int, table: _Table
) -> list[RuleResult]:
    width = sum(len(s.columns) for s in plan.statistics)
    column = np.where(table.slot >= 0, table.slot % width, -1)
    mine = (column >= start) & (column < start + len(statistic.columns))
    group = table.slot[mine] // width
    place = group * len(statistic.columns) + column[mine] - start
    expected = len(plan.keys) * len(statistic.columns)
    times = np.bincount(place, minlength=expected)
    value, lower, upper = table.value[mine], table.lower[mine], table.upper[mine]
    fitted = table.consistent[mine]
    nothing = np.isnan(lower) & np.isnan(upper)
    ordered = on_step(lower, statistic.step) & on_step(upper, statistic.step) & (lower <= upper)
    block = plan.block(statistic.block)
    if not block.has_interval:
        ordered = nothing
    if block.law.bound is not None and block.certain(statistic.function):
        least, most = (ends[mine] for ends in table.certain)
        sure = on_step(least, statistic.step) & on_step(most, statistic.step) & (least <= most)
        ordered &= np.where(table.missing[mine], np.isnan(least) & np.isnan(most), sure)

    ordered = np.where(table.impossible[mine], nothing, ordered)

    def result(name: str, good: npt.NDArray[np.bool_]) -> RuleResult:
        return RuleResult(name, statistic.name, int(good.size), int((~good).sum()))

    missing = table.missing[mine] & np.isnan(value) & np.isnan(fitted)
    valid = statistic.domain.contains(fitted) & on_step(fitted, statistic.step)
    legal = table.legal_status[mine] & (~table.missing[mine] | np.isnan(value))
    rule = plan.rules and plan.rules.suppress
    if plan.fitted and rule and deciding(plan.statistics, rule) is statistic:
        legal &= ~(value < rule.below)
    return [
        result("groups", times == 1),
        result("finite", np.isfinite(value) | missing),
        result("domain", statistic.domain.contains(value) | missing),
        result("step", on_step(value, statistic.step) | missing),
        *([] if plan.fitted else [result("consistent", valid | missing)]),
        result("interval", ordered),
        result("status", legal),
    ]


def suppresses(plan: ReleasePlan) -> bool:
    """Return whether values of the release may be suppressed."""
    return plan.rules is not None and plan.rules.suppress is not None


def on_step(values: Floats, step: Fraction) -> npt.NDArray[np.bool_]:
    """Return, per value, whether it is the double nearest to some multiple of `step`.

    k * p / q is one correctly rounded division while k * p and q are below 2**53; larger values, and those
    whose k the product above may have missed, take the exact road, one by one. Comparing with a
    tolerance instead would pass values that carry more digits than were drawn.
    """
    p, q = step.numerator, step.denominator
    with np.errstate(all="ignore"):
        k = np.rint(values * (q / p))
        near = k * p / q == values
        small = (np.abs(k) * p < 2.0**53) & (q < 2**53)
    large = np.flatnonzero(np.isfinite(values) & ~(small & near))
    for i in large:
        multiple = round(Fraction(float(values[i])) / step) * step
        near[i] = float(multiple) == values[i]
    return np.asarray(near & np.isfinite(values))


def _joint_rules(plan: ReleasePlan, table: _Table) -> list[RuleResult]:
    starts, width = {}, 0
    for statistic in plan.statistics:
        starts[statistic.name] = width
        width += len(statistic.columns)
    results = []
    for rule in (*moment_rules(plan), *pair_rules(plan)):
        values = np.stack([_by_group(plan, table, starts[s.name], width) for s in rule.members])
        known = values[:, np.isfinite(values).all(axis=0)]
        unsettled = known[:, ~rule.surely_holds(known)]
        exact = [
            np.array([round(Fraction(x) / s.step) * s.step for x in row.tolist()], dtype=object)
            for s, row in zip(rule.members, unsettled, strict=True)
        ]
        failed = int((~rule.holds(exact)).sum())
        results.append(RuleResult(rule.name, rule.names, known.shape[1], failed))
    return results


def _by_group(plan: ReleasePlan, table: _Table, column: int, width: int) -> Floats:
    """Return one published column in group order, NaN where it is missing; `(groups,)`."""
    out = np.full(len(plan.keys), np.nan)
    mine = (table.slot >= 0) & (table.slot % width == column)
    out[table.slot[mine] // width] = table.value[mine]
    return out
