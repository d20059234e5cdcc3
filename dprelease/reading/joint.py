"""The joint law of the noise of several linear forms, as their intervals need it.

Behind one cell of tables that add up stand the noisy integers of all cells, thousands of them, with a few
different weights: cells in like places have like weights. `joint` counts them, for one form or for
several together (the top and the bottom of a ratio), and never makes a term per cell.

Units: of the statistic. Sources: `docs/theory/intervals.md#derived-values`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dprelease.fitting.estimate import Behind, whole_numbers
from dprelease.intervals.noise import IntegerNoise, Term
from dprelease.reading.estimated import SURELY, TRACE, Drawn, Estimate, FitForms, expanded
from dprelease.reading.forms import Linear, NoisyInteger

Weights = tuple[Fraction, ...]
"""The weight of one noisy integer in each form."""


@dataclass(frozen=True, slots=True)
class Joint:
    """Several forms over the same noise.

    Attributes:
        observed, moved: of each form, as `Linear.observed` and `Linear.moved`.
        draws: how many independent draws of a noise have these weights; not all of them are 0.
    """

    observed: tuple[Fraction, ...]
    rounding: tuple[Fraction, ...]
    draws: Mapping[tuple[IntegerNoise, Weights], int]

    def pattern(self) -> tuple[Term, ...]:
        """Return the noise of the first form: (law, how often, weight), equal ones together."""
        counted: Counter[tuple[IntegerNoise, Fraction]] = Counter()
        for (noise, weights), count in self.draws.items():
            if weights[0]:
                counted[noise, abs(weights[0])] += count
        ordered = sorted(counted.items(), key=lambda item: (float(item[0][1]), repr(item[0][0])))
        return tuple(Term(noise, count, weight) for (noise, weight), count in ordered)


def joint(*forms: Linear) -> Joint:
    """Return forms together, over exact cells and estimates alike."""
    fits = {
        variable.place: variable.of
        for form in forms
        for variable in form.terms
        if isinstance(variable, Estimate)
    }
    sources = dict.fromkeys(
        variable for form in forms for variable in form.terms if isinstance(variable, NoisyInteger)
    )
    if any(_shared(source, fits) for source in sources):
        forms = tuple(expanded(form) for form in forms)
        fits, sources = {}, dict.fromkeys(s for form in forms for s, _ in form.cells)
    made = _Sum(forms)
    for source in sources:
        weights = tuple(form.terms.get(source, Fraction(0)) for form in forms)
        made.add(source.noise, source.rounding, weights, 1)
        made.observe([weight * source.raw for weight in weights])
    for fit in fits.values():
        _add_fit(made, fit, forms)
    return Joint(tuple(made.observed), tuple(made.rounding), made.draws)


def _shared(source: NoisyInteger, fits: Mapping[tuple[str, str], FitForms]) -> bool:
    """Whether a cell that a form names is one that a fit is made of, too."""
    return any(
        source.release == fit.release and fit.measures(source.block) for fit in fits.values()
    )


class _Sum:
    """What is known of the forms so far."""

    def __init__(self, forms: Sequence[Linear]) -> None:
        self.observed = [form.constant for form in forms]
        self.rounding = [form.slack for form in forms]
        self.draws: Counter[tuple[IntegerNoise, Weights]] = Counter()

    def observe(self, parts: Sequence[Fraction]) -> None:
        self.observed = [a + b for a, b in zip(self.observed, parts, strict=True)]

    def add(self, noise: IntegerNoise, rounding: Fraction, weights: Weights, count: int) -> None:
        """Add independent draws of the same weights."""
        if rounding:
            self.rounding = [
                m + count * rounding * abs(w) for m, w in zip(self.rounding, weights, strict=True)
            ]
        self.draws[noise, weights] += count


def _add_fit(made: _Sum, fit: FitForms, forms: Sequence[Linear]) -> None:
    """Add what the forms take of one fit."""
    behind = [
        fit.behind(form.terms)
        if any(
            isinstance(variable, Estimate) and variable.place == fit.place
            for variable in form.terms
        )
        else None
        for form in forms
    ]
    least = [
        TRACE * max((abs(w) for w in form.terms.values()), default=Fraction(0)) for form in forms
    ]
    tables = next(one for one in behind if one is not None).weights
    for table in tables:
        if not any(one is not None and one.weights[table].any() for one in behind):
            continue
        raw, drawn = fit.numbers(table)
        made.observe([_observed(one, table, raw) for one in behind])
        if drawn is not None:
            _count(made, drawn, behind, table, least)


def _observed(behind: Behind | None, table: str, raw: Sequence[int]) -> Fraction:
    if behind is None:
        return Fraction(0)
    return Fraction(int(np.dot(behind.weights[table], whole_numbers(raw))), behind.bottom)


def _count(
    made: _Sum,
    drawn: Drawn,
    behind: Sequence[Behind | None],
    table: str,
    least: Sequence[Fraction],
) -> None:
    """Add a table's draws; traces of what cancels are left out, and what they can come to is kept."""
    size = next(one.weights[table].size for one in behind if one is not None)
    columns = [[0] * size if one is None else one.weights[table].tolist() for one in behind]
    for numerators, count in Counter(zip(*columns, strict=True)).items():
        weights = [
            Fraction(0) if one is None else Fraction(n, one.bottom)
            for n, one in zip(numerators, behind, strict=True)
        ]
        for k, weight in enumerate(weights):
            if weight and abs(weight) < least[k]:
                made.rounding[k] += count * abs(weight) * drawn.noise.quantile(SURELY)
                weights[k] = Fraction(0)
        if any(weights):
            made.add(drawn.noise, drawn.rounding, tuple(weights), count)
