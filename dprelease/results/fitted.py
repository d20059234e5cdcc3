"""Several tables made of noisy integers: estimates, values that add up, and their intervals.

All of it is post-processing: a function of the plan and the noisy integers, the same everywhere.

    estimates   weighted least squares over the tables that were measured: unbiased, rarely whole
    values      the nearest numbers that are allowed, parents first (`fitting.nearest`)
    intervals   of the estimates, half widths from the plan, kept to the hull of the domain

The values, and the proof of how near they are, stand in a folder beside the noisy integers. Who checks
it makes the estimates again, looks at every constraint, and follows the proof. Then the values are made
again: a proof leaves room (across gaps, in margins), and values that are equally near prove the same.

Units: a fit's numbers are steps of its step size; estimates are in `fitting.estimate.ONE`ths of a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from dprelease.core import registry
from dprelease.fitting.structure import Structure
from dprelease.release_plan.block import Cells
from dprelease.release_plan.detail import DetailRow
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import PlannedStatistic, deciding
from dprelease.release_plan.tables import PlannedFit
from dprelease.results.draw import Draw, assemble, tidy
from dprelease.results.fitted_ratios import own_parts, ratio_parts
from dprelease.results.one_fit import Column, Columns, OneFit
from dprelease.results.receipt import Receipt
from dprelease.results.rules import Decision, without_companions, without_impossible, without_values

Fits = Mapping[str, Mapping[str, Any]]
"""Per fit `{"values": {table: integers}, "proof": …}`, as JSON holds it."""


def noised_of(plan: ReleasePlan, cells: Cells, receipt: Receipt, fits: Fits | None = None) -> Draw:
    """Return what a draw gives: the tidy table, or of a release of several tables all of them.

    Args:
        fits: values that were fitted before; made here without them.
    """
    if plan.tables is None:
        table = assemble(plan.by, plan.keys, plan.statistics, plan.blocks, cells, plan.rules)
        return Draw(plan=plan, table=table, cells=cells, receipt=receipt)
    fits = fits_of(plan, cells) if fits is None else fits
    columns = columns_of(plan, cells, fits)
    parts = {}
    for name in (t.name for t in plan.tables.tables):
        own, mine = plan.of_table(name), columns
        rows: tuple[tuple[str, int], ...] = ()
        drawn: Sequence[Sequence[PlannedStatistic]] = ()
        if plan.tables.detail is not None and plan.tables.detail.table == name:
            found = plan.tables.detail.rows(plan.tables, cells)
            by, keys = plan.tables.detail.by(plan.tables), tuple(row.key for row in found)
            own = replace(own, by=by, keys=keys)
            mine, drawn = _mixed(plan, own.statistics, columns, found)
            rows = tuple((row.table, row.cell) for row in found)
        table = _table(own, name, mine, plan.tables.empty(name, rows), drawn)
        parts[name] = Draw(own, table, {}, receipt, rows=rows, all_tables=plan.tables)
    return Draw(plan, pa.table({}), cells, receipt, parts=parts, fits=fits)


def _mixed(
    plan: ReleasePlan,
    statistics: Sequence[PlannedStatistic],
    columns: Columns,
    rows: Sequence[DetailRow],
) -> tuple[Columns, list[list[PlannedStatistic]]]:
    """Return the columns of a table whose rows stand at several levels, each of its own table, and what each row was drawn as."""
    assert plan.tables is not None
    assert plan.tables.detail is not None
    table, levels = plan.tables.detail.table, plan.tables.detail.levels
    cells = {level: [row.cell for row in rows if row.table == level] for level in levels}
    order = np.argsort(np.argsort([levels.index(row.table) for row in rows], kind="stable"))
    planned = {(s.table, s.text): s for s in plan.statistics}
    out = {}
    for statistic in statistics:
        for i, column in enumerate(statistic.columns):
            here = {n: columns[n, planned[n, statistic.text].columns[i]] for n in levels}
            out[table, column] = {
                part: np.concatenate([here[n][part][cells[n]] for n in levels])[order]
                for part in here[table]
            }
    apart = plan.tables.detail.apart(plan.tables)
    drawn = {n: [planned[n, s.text] if s.name in apart else s for s in statistics] for n in levels}
    return out, [drawn[row.table] for row in rows]


def _table(
    plan: ReleasePlan,
    name: str,
    columns: Columns,
    empty: Sequence[bool],
    drawn: Sequence[Sequence[PlannedStatistic]],
) -> pa.Table:
    """Return the tidy table of one table of several: the fitted value is the consistent one; `empty`: impossible rows."""
    parts: dict[str, list[Any]] = {}
    for statistic in plan.statistics:
        mine = [columns[name, column] for column in statistic.columns]
        for part in mine[0]:
            parts.setdefault(part, []).append(np.stack([c[part] for c in mine], axis=1))
    if plan.rules is not None:
        without_companions(plan.statistics, parts, plan.rules)
    rule = None if plan.rules is None else plan.rules.suppress
    by = None if rule is None else deciding(plan.statistics, rule)
    if rule is not None and by is not None:
        own = columns[name, by.columns[0]]
        lower = np.minimum(own["unbiased"], own["value"])
        near = float(by.step) + np.ceil(own["unbiased"] - lower)
        flat = np.where(own["reach"] > 0, near, -np.inf)
        decision = Decision.decide(by, lower, own["reach"], flat, rule.below)
        without_values(plan.statistics, parts, decision)
    made = tidy(plan.by, plan.keys, plan.statistics, plan.blocks, parts, drawn)
    return without_impossible(made, len(plan.by), empty) if any(empty) else made


def fits_of(plan: ReleasePlan, cells: Cells) -> Fits:
    """Return the values of every fit with their proofs. Never raises on a draw."""
    assert plan.tables is not None
    out: dict[str, dict[str, Any]] = {}
    # counts first: a sum of the same rows keeps within what they allow
    for fit in sorted(plan.tables.fits, key=lambda f: f.counts is not None):
        each = one_fit(plan, fit, cells)
        found = each.nearest(out)
        out[fit.name] = {
            "values": {name: list(map(int, values)) for name, values in found.values.items()},
            "proof": found.proof,
        }
    return {fit.name: out[fit.name] for fit in plan.tables.fits}


def broken(plan: ReleasePlan, fits: Fits) -> dict[str, list[str]]:
    """Return, per fit, the constraints that its values do not meet. Never raises on its values."""
    assert plan.tables is not None
    out: dict[str, list[str]] = {}
    for fit in plan.tables.fits:
        each = one_fit(plan, fit, {})
        values = fits.get(fit.name, {}).get("values", {})
        if not shaped(each.structure, values):
            out[fit.name] = ["its values are of another shape"]
            continue
        out[fit.name] = each.broken(fits)
    return out


def shaped(structure: Structure, values: Mapping[str, Any]) -> bool:
    sizes = {table.name: table.cells for table in structure.tables}
    return set(values) == set(sizes) and all(
        len(values[name]) == size and all(type(v) is int for v in values[name])
        for name, size in sizes.items()
    )


def columns_of(plan: ReleasePlan, cells: Cells, fits: Fits) -> Columns:
    """Return every fitted column, by table and published name."""
    assert plan.tables is not None
    out: dict[tuple[str, str], Column] = {}
    ones = {fit.name: one_fit(plan, fit, cells) for fit in plan.tables.fits}
    for name, each in ones.items():
        for part in each.fit.tables:
            out[part.table, part.column] = each.column(part.table, fits[name]["values"])
    for ratio in plan.tables.ratios:
        top, bottom = ones[ratio.top], ones[ratio.bottom]
        (column,) = top.statistics[ratio.table, ratio.statistic].columns
        out[ratio.table, column] = ratio_parts(ratio, top, bottom, fits)
    for table in plan.tables.tables:
        out |= own_parts(plan, table.name, cells, out)
    return out


def one_fit(plan: ReleasePlan, fit: PlannedFit, cells: Cells) -> OneFit:
    """Return a fit: of tables of which one is the finest, or of a set of them."""
    made = registry.load("table_fits", registry.TABLE_SET) if plan.query.groups.whole else OneFit
    return cast("type[OneFit]", made)(plan, fit, cells)
