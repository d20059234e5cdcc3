"""The fit of a set of tables of which none is the finest (`fitting.margin_sets`): its values, and what a reader checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from dprelease.fitting.certificate import node_faults
from dprelease.fitting.cross import CrossEstimator
from dprelease.fitting.estimate import ONE, Estimates, Objects
from dprelease.fitting.margin_sets import estimator_of, fit, parts_of, tables_first
from dprelease.fitting.nearest import Fit
from dprelease.fitting.structure import Level, coarser
from dprelease.release_plan.fits import noise_of, runs_of
from dprelease.results.fitted import OneFit


class MarginFit(OneFit):
    """One fit of margins with what its plan and its noisy integers make of it."""

    @cached_property
    def _levels(self) -> dict[str, Level]:
        return {t.name: t.level for t in self.structure.tables}

    @cached_property
    def _order(self) -> list[tuple[Level, tuple[Level, ...]]]:
        return tables_first(self._levels.values())

    @cached_property
    def estimator(self) -> CrossEstimator:
        (block,) = self.plan.blocks
        assert block.measurement.margins is not None
        return estimator_of(block.measurement.margins, self.structure, noise_of(block.law))

    @property
    def domains(self) -> dict[str, tuple[tuple[int, int], ...]]:
        return {t.table: runs_of(self.statistics[t.table, t.statistic]) for t in self.fit.tables}

    @cached_property
    def _estimated(self) -> dict[Level, Objects]:
        (block,) = self.plan.blocks
        (noisy,) = self._cells[block.name]
        assert block.measurement.margins is not None
        parts = parts_of(block.measurement.margins, noisy)
        return self.estimator.estimated(parts, {}, [t for t, _ in self._order])

    @cached_property
    def estimates(self) -> Estimates:
        values = {t: self._estimated[level].tolist() for t, level in self._levels.items()}
        return Estimates(values, Fraction(1, ONE))

    def nearest(self, fits: Mapping[str, Any]) -> Fit:
        del fits
        most = min(runs[-1][1] for runs in self.domains.values())
        values, nodes = fit(self.structure, self._order, self._estimated, most)
        found = {t: values[level].tolist() for t, level in self._levels.items()}
        return Fit(found, {_key(level): part for level, part in nodes.items()}, 0)

    def _inner(self, values: Mapping[str, Sequence[int]]) -> dict[Level, Objects]:
        """Return the values of every table in the order of fit: of inner ones, sums of a published one."""
        out = {}
        for level, _ in self._order:
            finer = [(sum(k), t) for t, k in self._levels.items() if k == tuple(map(max, k, level))]
            name = min(finer)[1]
            out[level] = self._summed(
                np.array(values[name], dtype=object), self._levels[name], level
            )
        return out

    def _summed(self, values: Objects, fine: Level, coarse: Level) -> Objects:
        of = coarser(self.structure.axes, fine, coarse)
        out = np.zeros(int(of.max()) + 1, dtype=object)
        np.add.at(out, of, values)
        return out

    def broken(self, fits: Mapping[str, Any]) -> list[str]:
        values = fits[self.fit.name]["values"]
        inner, found = self._inner(values), []
        for table, level in self._levels.items():
            own = np.array(values[table], dtype=object)
            low, high = self.domains[table][0][0], self.domains[table][-1][1]
            if (own < low).any() or (own > high).any():
                found.append(f"{table}: a cell is outside its domain")
            found += [
                f"{table}: a margin is not the sum of its cells"
                for t, margins in self._order
                for margin in (margins if t == level else ())
                if (self._summed(own, level, margin) != inner[margin]).any()
            ]
        return found

    def distance(self, fits: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what node numbers do not prove."""
        stated = fits[self.fit.name]
        assert self.plan.tables is not None
        inner = self._inner(stated["values"]).items()
        values, aims = [
            {t: v.tolist() for t, v in part} for part in (inner, self._estimated.items())
        ]
        nodes = {level: stated["proof"].get(_key(level), []) for level, _ in self._order}
        axes = [
            [axis.map(k).tolist() for k in range(1, len(axis.sizes))]
            for axis in self.structure.axes
        ]
        try:
            off = node_faults(axes, self._order, aims, values, nodes)
        except (IndexError, TypeError, ValueError):
            off = ["the node numbers are of another shape"]
        return dict.fromkeys(off, 1)


def _key(level: Level) -> str:
    return " ".join(map(str, level))
