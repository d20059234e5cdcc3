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

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dprelease.core import registry
from dprelease.fitting.certificate import gaps, violations
from dprelease.fitting.estimate import ONE, Estimates, Estimator
from dprelease.fitting.feasible import Feasible, feasible
from dprelease.fitting.interval import Ends, certain_ends, ends, holding
from dprelease.fitting.least_squares import estimator
from dprelease.fitting.nearest import Fit, SumBounds, nearest
from dprelease.fitting.structure import Structure
from dprelease.intervals.noise import Noise
from dprelease.release_plan.detail import DetailRow
from dprelease.release_plan.fits import noise_of, runs_of
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import CERTAIN_NAMES, PlannedStatistic, deciding
from dprelease.release_plan.tables import PlannedFit
from dprelease.results.draw import Cells, Draw, assemble, tidy
from dprelease.results.fitted_ratios import Column, Columns, own_parts, ratio_parts
from dprelease.results.receipt import Receipt
from dprelease.results.rules import Decision, without_companions, without_impossible, without_values
from dprelease.statistics.base import Floats

Fits = Mapping[str, Mapping[str, Any]]
"""Per fit `{"values": {table: integers}, "proof": …}`, as JSON holds it."""

STANDARD_ERRORS = 5
"""A value that fitting moved by more of them from its own measurement is `adjusted`."""


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
        without_values(
            plan.statistics, parts, Decision.decide(by, own["unbiased"], own["reach"], rule.below)
        )
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


class OneFit:
    """One fit with what its plan and its noisy integers make of it."""

    def __init__(self, plan: ReleasePlan, fit: PlannedFit, cells: Cells) -> None:
        assert plan.tables is not None
        self.plan, self.fit = plan, fit
        both = (*plan.statistics, *plan.tables.hidden)
        self.statistics = {(s.table or "", s.name): s for s in both}
        self.structure = plan.tables.structure([t.table for t in fit.tables])
        self._blocks = {t.table: plan.block(t.block) for t in fit.tables if t.block is not None}
        self.noises: dict[str, Noise | None] = dict.fromkeys(t.table for t in fit.tables)
        self.noises |= {name: noise_of(b.law) for name, b in self._blocks.items()}
        self._cells = cells

    @cached_property
    def noisy(self) -> dict[str, list[int]]:
        return {
            table: [row[self.fit.cell] for row in self._cells[block.name]]
            for table, block in self._blocks.items()
        }

    @cached_property
    def domains(self) -> dict[str, tuple[tuple[int, int], ...]]:
        return {t.table: runs_of(self.statistics[t.table, t.statistic]) for t in self.fit.tables}

    @cached_property
    def feasible(self) -> Feasible:
        return feasible(self.structure, self.domains, self.fit.coarse_totals)

    @cached_property
    def estimator(self) -> Estimator:
        return estimator(self.structure, self.noises, list(self.fit.totals))

    @cached_property
    def estimates(self) -> Estimates:
        return self.estimator.estimates(self.noisy, self.fit.totals)

    @cached_property
    def variances(self) -> dict[str, Floats]:
        return {t.table: self.estimator.variance(t.table) for t in self.fit.tables}

    def between(self, fits: Mapping[str, Any]) -> SumBounds | None:
        """Return the counts that a sum keeps within, and what a row adds at least and at most."""
        if self.fit.counts is None:
            return None
        return SumBounds(fits[self.fit.counts]["values"], self.fit.low, self.fit.high)

    @cached_property
    def aims(self) -> tuple[Estimates, dict[str, Floats]]:
        """What values are fitted to, estimates and their variances, in the multiples that are published."""
        each = self.fit.multiple
        values = {name: [v // each for v in found] for name, found in self.estimates.values.items()}
        variances = {name: found / each**2 for name, found in self.variances.items()}
        return replace(self.estimates, values=values), variances

    def nearest(self, fits: Mapping[str, Any]) -> Fit:
        """Return the values, beside those of the counts that they keep within."""
        return nearest(self.structure, self.feasible, *self.aims, sum_bounds=self.between(fits))

    def broken(self, fits: Mapping[str, Any]) -> list[str]:
        """Return the constraints that the values of this fit do not meet."""
        between = self.between(fits)
        return violations(
            self.structure,
            self.domains,
            self.fit.coarse_totals,
            fits[self.fit.name]["values"],
            counts=None if between is None else between.counts,
            between=(0, 0) if between is None else (between.low, between.high),
        )

    def distance(self, fits: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return how far, by what is stated as a proof, values may be from the nearest ones; per table."""
        stated, (aims, variances) = fits[self.fit.name], self.aims
        sets = self.sets(fits), aims.values, variances
        return gaps(self.structure, *sets, stated["values"], stated["proof"])

    def sets(self, fits: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what every cell can take: beside counts, what they leave of it."""
        between = self.between(fits)
        if between is None:
            return self.feasible.sets
        return {
            table: [((between.low * c, between.high * c),) for c in counts]
            for table, counts in between.counts.items()
        }

    def column(self, table: str, values: Mapping[str, Sequence[int]]) -> Column:
        """Return a table's published column."""
        part = self.fit.in_table(table)
        statistic = self.statistics[table, part.statistic]
        runs = self.domains[table]
        hull, each = (runs[0][0], runs[-1][1]), self.fit.multiple
        exact = self.estimates.values[table]
        classes = self.estimator.classes(table)
        halves = [part.halves[c] for c in classes]
        steps = statistic.domain.on_grid(self.fit.step_size)  # what is exact is no multiple
        lows, highs = ends(exact, halves, (steps.lower, steps.upper), slack=self.estimates.slack)
        lows, highs = [k // each for k in lows], [-(-k // each) for k in highs]
        lows, highs = holding(values[table], lows, highs, runs)
        value = np.array(values[table], dtype=object)
        estimate = np.array([e / ONE for e in exact], dtype=float)
        middle = np.clip(self._scaled(estimate), *statistic.domain.hull)
        reach = np.array([float(half + self.estimates.slack) for half in halves])
        certain = map(self._scaled, self.certain(table, statistic))
        return {
            "value": self._scaled(value * each),
            "lower": self._scaled(np.array(lows, dtype=object) * each),
            "upper": self._scaled(np.array(highs, dtype=object) * each),
            "estimate": middle,
            "unbiased": self._scaled(estimate),
            "reach": self._scaled(reach),
            "status": self._status(table, value, lows, highs, hull),
            **dict(zip(CERTAIN_NAMES, certain, strict=True)),
        }

    def certain(self, table: str, statistic: PlannedStatistic) -> Ends:
        """Return certain ends in steps, outward to the multiples that are published."""
        domain, each = statistic.domain, self.fit.multiple
        hull = (
            math.floor(domain.lower / self.fit.step_size),
            math.ceil(domain.upper / self.fit.step_size),
        )
        low, high = certain_ends(self.structure, self._blocks, self.noisy, table, hull)
        return low // each * each, -(-high // each) * each

    def _scaled(self, steps: npt.NDArray[Any]) -> Floats:
        """Return steps in the statistic's unit, each the double nearest to its multiple."""
        num, den = self.fit.step_size.as_integer_ratio()
        if steps.dtype == object:
            small = all(abs(int(k)) * num < 2**53 for k in steps) and den < 2**53
            if not small:
                return np.array([float(int(k) * self.fit.step_size) for k in steps]) + 0.0
        return np.asarray(steps.astype(float) * num / den) + 0.0

    def _status(
        self,
        table: str,
        value: npt.NDArray[np.object_],
        lows: Sequence[int],
        highs: Sequence[int],
        hull: tuple[int, int],
    ) -> npt.NDArray[np.object_]:
        low, high = np.array(lows, dtype=object), np.array(highs, dtype=object)
        status = np.full(len(value), "ok", dtype=object)
        status[(value <= hull[0]) | (value >= hull[1])] = "at_bound"
        status[(value < low) | (value > high)] = "gap"
        status[self._far_off(table, value)] = "adjusted"
        whole = (low <= hull[0]) & (high >= hull[1]) & (hull[0] < hull[1])
        status[whole.astype(bool)] = "uninformative"
        public = self.structure.empty(self.structure.table(table))
        if self.fit.in_table(table).totals:
            public = np.ones(len(value), dtype=bool)
        status[public] = "ok"
        return status

    def _far_off(self, table: str, value: npt.NDArray[np.object_]) -> npt.NDArray[np.bool_]:
        """Return where a value lies more than five standard errors from what was measured of it."""
        noise = self.noises[table]
        if noise is not None:
            spread = np.full(len(value), math.sqrt(float(noise.variance())))
            centre = np.array(self.noisy[table], dtype=object).astype(float)
        else:
            spread = np.sqrt(np.maximum(self.variances[table], 0.0))
            centre = np.array([e / ONE for e in self.estimates.values[table]], dtype=float)
        off = np.abs(value.astype(float) * self.fit.multiple - centre)
        return np.asarray(off > STANDARD_ERRORS * spread + self.fit.multiple // 2)
