"""Cells of tables that add up, as something to compute with.

What is published of such a cell is a fitted value. Its error is that of the least-squares estimate behind
it: a linear form, with exact public weights, in the noisy integers of all tables that were measured. A
form over these cells stays short until its law is asked for; `expanded` then follows the estimates
backwards, all cells of a fit at once, and what two cells have in common cancels or adds up.

Units: weights are in the statistic's unit per step. Sources: `docs/theory/intervals.md#derived-values`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from dprelease.fitting.estimate import Behind
from dprelease.intervals.noise import IntegerNoise
from dprelease.measurements.law import AddedNoise
from dprelease.reading.forms import Linear, NoisyInteger, RatioForm, Variable
from dprelease.results.draw import Draw
from dprelease.results.one_fit import OneFit

TRACE = Fraction(1, 2**36)
SURELY = 1 - 1e-15
"""Of 10^5 traces not one is larger, but for a chance of 10^-10: `intervals.few.ROOM`."""


class Drawn(NamedTuple):
    """The noise of one table's cells: block, cell of it, law, and what rounding may have moved."""

    block: str
    cell: int
    noise: IntegerNoise
    rounding: Fraction

    def source(self, release: str, group: int, raw: int) -> NoisyInteger:
        """Return one of its noisy integers."""
        return NoisyInteger(release, self.block, group, self.cell, raw, self.noise, self.rounding)


class FitForms:
    """The estimates of one fit of one release."""

    def __init__(self, release: str, noised: Draw, fit: str) -> None:
        assert noised.plan.tables is not None
        self.release, self.plan = release, noised.plan
        self.fit = noised.plan.tables.fit(fit)
        self._cells = noised.cells
        self._one = OneFit(noised.plan, self.fit, dict(noised.cells))
        self._followed: deque[tuple[Mapping[Variable, Fraction], Behind]] = deque(maxlen=4)

    @property
    def place(self) -> tuple[str, str]:
        """Which fit it is: release, and name."""
        return self.release, self.fit.name

    def behind(self, terms: Mapping[Variable, Fraction]) -> Behind:
        """Return what a form over estimates of this fit takes of each noisy integer.

        Forms that many rows share, such as a total, are followed once.
        """
        for known, found in self._followed:
            if known is terms:
                return found
        wanted: dict[str, dict[int, Fraction]] = {}
        for variable, weight in terms.items():
            if isinstance(variable, Estimate) and variable.place == self.place:
                wanted.setdefault(variable.table, {})[variable.group] = weight
        found = self._one.estimator.behind(wanted)
        self._followed.append((terms, found))
        return found

    def numbers(self, table: str) -> tuple[Sequence[int], Drawn | None]:
        """Return a table's noisy integers and their noise; public totals have none.

        A table that is neither measured nor public has no numbers, and nothing is made of it.
        """
        totals = self.fit.totals.get(table)
        if totals is not None:
            return totals, None
        block = self.fit.in_table(table).block
        assert block is not None
        added = self._added[block]
        assert added.noise is not None
        return self._one.noisy[table], Drawn(block, self.fit.cell, added.noise, added.rounding)

    @cached_property
    def _groups(self) -> Mapping[str, Sequence[int]]:
        """Which of the engine's groups each cell of a table holds: a bit per group."""
        assert self.plan.tables is not None
        out = {}
        for part in self.fit.tables:
            table = self.plan.tables.named(part.table)
            bits = [0] * len(table.keys)
            for group, cell in enumerate(table.of):
                bits[cell] |= 1 << group
            out[part.table] = bits
        return out

    def covered(self, form: Linear) -> tuple[int, Fraction] | None:
        """Return the groups that a plain sum of cells is over, and the weight of each.

        None if it is not a plain sum over this fit: a constant, other weights, a cell counted twice.
        """
        weights, groups = set(form.terms.values()), 0
        if form.constant or len(weights) != 1:
            return None
        for variable in form.terms:
            if not isinstance(variable, Estimate) or variable.place != self.place:
                return None
            own = self._groups[variable.table][variable.group]
            if groups & own:
                return None
            groups |= own
        return groups, weights.pop()

    def measures(self, block: str) -> bool:
        """Whether the fit is made of this block's integers."""
        return any(part.block == block for part in self.fit.tables)

    def form(self, terms: Mapping[Variable, Fraction]) -> Linear:
        """Return a weighted sum of estimates, in steps, over the noisy integers.

        Weights of a fit are rounded in their last digits, so that a sum over all cells may keep a trace of
        what cancels in it. Traces are left out; the most that they can come to is the form's slack.
        """
        constant, slack = Fraction(0), Fraction(0)
        out: dict[Variable, Fraction] = {}
        least = TRACE * max(abs(w) for w in terms.values())
        for table, weights in self.behind(terms).fractions().items():
            if not any(weights):
                continue
            raw, drawn = self.numbers(table)
            if drawn is None:
                constant += sum(w * t for w, t in zip(weights, raw, strict=True))
                continue
            for group, weight in enumerate(weights):
                if weight and abs(weight) < least:
                    slack += abs(weight) * drawn.noise.quantile(SURELY)
                elif weight:
                    out[drawn.source(self.release, group, raw[group])] = weight
        return Linear(constant, out, slack)

    @cached_property
    def _added(self) -> Mapping[str, AddedNoise]:
        blocks = [t.block for t in self.fit.tables if t.block is not None]
        found = {b: self.plan.block(b).law.added for b in blocks}
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
    def place(self) -> tuple[str, str]:
        """The fit's own name: `FitForms.place`."""
        return self.release, self.block

    @property
    def raw(self) -> Fraction:
        """The estimate itself, before it is rounded, in steps."""
        return self.of.form({self: Fraction(1)}).observed


def ratio_domain(ratio: RatioForm, *, positive: bool) -> tuple[float, float] | None:
    """Return what a ratio of sums of cells can be whatever the rows are; None if that is not known.

    A sum over the count of its rows is a mean of one row's values; a part of a whole, both of them
    at least 0 (`positive`), is at most 1.
    """
    tops = [variable.of for variable in ratio.top.terms if isinstance(variable, Estimate)][:1]
    bottoms = [variable.of for variable in ratio.bottom.terms if isinstance(variable, Estimate)][:1]
    if not tops or not bottoms:
        return None
    (over,), (under,) = tops, bottoms
    top, bottom = over.covered(ratio.top), under.covered(ratio.bottom)
    if top is None or bottom is None or over.release != under.release:
        return None
    factor = top[1] / bottom[1]
    if over.fit.counts == under.fit.name and top[0] == bottom[0]:
        ends = sorted((over.fit.low * factor, over.fit.high * factor))
        return float(ends[0]), float(ends[1])
    part = over.place == under.place and top[0] | bottom[0] == bottom[0]
    return (0.0, float(factor)) if part and positive and factor > 0 else None


def expanded(form: Linear) -> Linear:
    """Return the same form over noisy integers alone."""
    sources: dict[Variable, Fraction] = {}
    estimates: dict[tuple[str, str], dict[Variable, Fraction]] = {}
    fits: dict[tuple[str, str], FitForms] = {}
    for variable, weight in form.terms.items():
        if isinstance(variable, Estimate):
            fits[variable.place] = variable.of
            estimates.setdefault(variable.place, {})[variable] = weight
        else:
            sources[variable] = weight
    if not fits:
        return form
    out = Linear(form.constant, sources, form.slack)
    for place, fit in fits.items():
        out = out.plus(fit.form(estimates[place]))
    return out
