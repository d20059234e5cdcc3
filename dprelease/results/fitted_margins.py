"""The fit of a set of tables of which none is the finest (`fitting.margin_sets`): its values, and what a reader checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

from dprelease.fitting.certificate import node_faults
from dprelease.fitting.cross import CrossEstimator
from dprelease.fitting.estimate import ONE, Estimates
from dprelease.fitting.margin_sets import estimator_of, fit, parts_of, tables_first
from dprelease.fitting.nearest import Fit
from dprelease.fitting.structure import Design, Level, coarser, sums_of, within
from dprelease.release_plan.fits import noise_of
from dprelease.results.one_fit import OneFit

Cells = Mapping[Level, Sequence[int]]


class MarginFit(OneFit):
    """One fit of margins with what its plan and its noisy integers make of it."""

    @property
    def _design(self) -> Design:
        design = self.plan.blocks[0].measurement.margins
        assert design is not None
        return design

    @cached_property
    def _order(self) -> list[tuple[Level, tuple[Level, ...]]]:
        return tables_first(t.level for t in self.structure.tables)

    @cached_property
    def estimator(self) -> CrossEstimator:
        return estimator_of(self._design, self.structure, noise_of(self.plan.blocks[0].law))

    @cached_property
    def _estimated(self) -> dict[Level, Any]:
        (noisy,) = self._cells[self.plan.blocks[0].name]
        parts = parts_of(self._design, noisy)
        return self.estimator.estimated(parts, {}, [level for level, _ in self._order])

    @cached_property
    def estimates(self) -> Estimates:
        values = {t.name: self._estimated[t.level].tolist() for t in self.structure.tables}
        return Estimates(values, Fraction(1, ONE))

    def nearest(self, fits: Mapping[str, Any]) -> Fit:
        del fits
        most = min(runs[-1][1] for runs in self.domains.values())
        values, nodes = fit(self.structure, self._order, self._estimated, most)
        proof = {" ".join(map(str, level)): part for level, part in nodes.items()}
        return Fit({t.name: values[t.level].tolist() for t in self.structure.tables}, proof, 0)

    def _summed(self, values: Sequence[int], fine: Level, coarse: Level) -> list[int]:
        of = coarser(self.structure.axes, fine, coarse)
        return sums_of(values, of, int(of.max()) + 1)

    def _inner(self, fits: Mapping[str, Any]) -> Cells:
        """Return the values of every table in the order of fit: of inner ones, sums of a published one."""
        values, out = fits[self.fit.name]["values"], {}
        for level, _ in self._order:
            finer = [t for t in self.structure.tables if within(level, t.level)]
            least = min(finer, key=lambda t: sum(t.level))
            out[level] = self._summed(values[least.name], least.level, level)
        return out

    def broken(self, fits: Mapping[str, Any]) -> list[str]:
        values, found = self._inner(fits), []
        for table in self.structure.tables:
            low, high = self.domains[table.name][0][0], self.domains[table.name][-1][1]
            if not all(low <= value <= high for value in values[table.level]):
                found.append(f"{table.name}: a cell is outside its domain")
        for level, margins in self._order:
            if any(self._summed(values[level], level, m) != values[m] for m in margins):
                found.append(f"the table of levels {list(level)} does not add up to its margins")
        return found

    def distance(self, fits: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what node numbers do not prove."""
        proof = fits[self.fit.name]["proof"]
        nodes = {tuple(map(int, level.split())): part for level, part in proof.items()}
        aims = {level: cells.tolist() for level, cells in self._estimated.items()}
        off = node_faults(self.structure.axes, self._order, aims, self._inner(fits), nodes)
        return dict.fromkeys(off, 1)
