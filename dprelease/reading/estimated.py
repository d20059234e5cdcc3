"""Cells of tables that add up, as something to compute with.

What is published of such a cell is a fitted value. Its error is that of the least-squares estimate behind
it: a linear form, with exact public weights, in the noisy integers of all tables that were measured. A
form over these cells stays short until its law is asked for; `expanded` then follows the estimates
backwards, all cells of a fit at once, and what two cells have in common cancels or adds up.

Units: weights are in the statistic's unit per step. Sources: `docs/theory/intervals.md#derived-values`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from dprelease.fitted import OneFit
from dprelease.measurements.draw import AddedNoise, draw_from_json
from dprelease.noised import Noised
from dprelease.reading.forms import Atom, Linear, Source

__all__ = ["Estimate", "FitForms", "expanded"]


_TRACE = Fraction(1, 2**36)
_SURELY = 1 - 1e-15
"""Of 10^5 traces not one is larger, but for a chance of 10^-10: `noise_sums.ROOM`."""


class FitForms:
    """The estimates of one fit of one release."""

    def __init__(self, release: str, noised: Noised, fit: str) -> None:
        assert noised.plan.tables is not None
        self.release, self.plan = release, noised.plan
        self.fit = noised.plan.tables.fit(fit)
        self._cells = noised.cells
        self._one = OneFit(noised.plan, self.fit, dict(noised.cells))

    def form(self, wanted: Mapping[str, Mapping[int, Fraction]]) -> Linear:
        """Return a weighted sum of estimates, in steps, over the noisy integers.

        Weights of a fit are rounded in their last digits, so that a sum over all cells may keep a trace of
        what cancels in it. Traces are left out; the most that they can come to is the form's slack.
        """
        constant, slack = Fraction(0), Fraction(0)
        terms: dict[Atom, Fraction] = {}
        least = _TRACE * max(abs(w) for of in wanted.values() for w in of.values())
        for table, weights in self._one.estimator.behind(wanted).items():
            totals = self.fit.totals.get(table)
            if totals is not None:
                constant += sum(w * t for w, t in zip(weights, totals, strict=True))
                continue
            for group, weight in enumerate(weights):
                if not weight:
                    continue
                source = self._source(table, group)
                if abs(weight) < least:
                    slack += abs(weight) * source.noise.quantile(_SURELY)
                else:
                    terms[source] = weight
        return Linear(constant, terms, slack)

    def _source(self, table: str, group: int) -> Source:
        block = self.fit.at(table).block
        assert block is not None
        added = self._added[block]
        raw, cell = self._cells[block][group][self.fit.cell], self.fit.cell
        return Source(self.release, block, group, cell, raw, added.noise, added.moved)

    @cached_property
    def _added(self) -> Mapping[str, AddedNoise]:
        blocks = [t.block for t in self.fit.tables if t.block is not None]
        found = {b: draw_from_json(self.plan.block(b).law).added for b in blocks}
        return {b: added for b, added in found.items() if added is not None}


@dataclass(frozen=True, slots=True)
class Estimate:
    """One cell's estimate in one table.

    Attributes:
        release, block, table, group: which one; the block is the fit's name.
    """

    release: str
    block: str
    table: str
    group: int
    of: FitForms = field(compare=False, repr=False)

    @property
    def raw(self) -> Fraction:
        """The estimate itself, before it is rounded, in steps."""
        return self.of.form({self.table: {self.group: Fraction(1)}}).observed


def expanded(form: Linear) -> Linear:
    """Return the same form over noisy integers alone."""
    atoms: dict[Atom, Fraction] = {}
    wanted: dict[tuple[str, str], dict[str, dict[int, Fraction]]] = {}
    found: dict[tuple[str, str], FitForms] = {}
    for atom, weight in form.terms.items():
        if isinstance(atom, Estimate):
            place = atom.release, atom.block
            found[place] = atom.of
            wanted.setdefault(place, {}).setdefault(atom.table, {})[atom.group] = weight
        else:
            atoms[atom] = weight
    if not found:
        return form
    out = Linear(form.constant, atoms)
    for place, forms in found.items():
        out = out.plus(forms.form(wanted[place]))
    return out
