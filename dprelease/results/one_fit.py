"""One fit: what its plan and its noisy integers make of it, each part computed once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.fitting.certificate import gaps, violations
from dprelease.fitting.estimate import ONE, Estimates, Estimator
from dprelease.fitting.feasible import Feasible, feasible
from dprelease.fitting.interval import Ends, certain_ends, ends, holding
from dprelease.fitting.least_squares import estimator
from dprelease.fitting.nearest import Fit, SumBounds, nearest
from dprelease.intervals.noise import Noise
from dprelease.release_plan.block import Cells
from dprelease.release_plan.fits import noise_of, runs_of
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import CERTAIN_NAMES, PlannedStatistic
from dprelease.release_plan.tables import PlannedFit
from dprelease.statistics.base import Floats

STANDARD_ERRORS = 5
"""A value that fitting moved by more of them from its own measurement is `adjusted`."""

Column = Mapping[str, npt.NDArray[Any]]
"""One published column of one table by its parts: value, lower, upper, both certain ends, estimate, unbiased, its
reach (0 of a public number alone), and status; `(cells,)` each."""

Columns = Mapping[tuple[str, str], Column]
"""Columns by table and published name."""


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
        reach[self.variances[table] == 0] = 0.0
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
