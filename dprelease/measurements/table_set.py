"""Integers behind a set of tables: cells of its largest tables, or what each margin says beyond smaller ones.

Noise of one law is added to each, and tables are fitted to all of them (`fitting.margin_sets`).

Source: `docs/theory/publications-that-add-up.md#any-set-of-tables`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, cast

import numpy as np

from dprelease.fitting.cross import Spaces
from dprelease.fitting.estimate import Estimator
from dprelease.fitting.margin_sets import designs, estimator_of, tables_first
from dprelease.fitting.structure import Design, Level, Structure
from dprelease.intervals.noise import Gaussian, Noise
from dprelease.measurements.candidate import Candidate, Pricing
from dprelease.measurements.cells import CellLaw, CentredLaw
from dprelease.measurements.gaussian import GaussianLaw, read_together
from dprelease.measurements.law import Law
from dprelease.measurements.linear import LinearCells
from dprelease.measurements.members import Loss, Member
from dprelease.mechanisms.forms.vector import GaussianCells
from dprelease.query.bounded import Cross
from dprelease.statistics.base import Floats
from dprelease.statistics.measurement import Measure, Measurement
from dprelease.statistics.sensitivity import Sensitivity

_UNIT = Fraction(10**6)


class TableSet(LinearCells):
    """Cells that are never read but through a fit."""

    forms = ("table_set",)

    def __init__(self) -> None:
        super().__init__("table_set", "", CentredLaw)
        self.draws = (*self.draws, GaussianLaw.tag)
        self.mechanisms = LinearCells.mechanisms[:2]

    def errors(self, member: Member, law: CellLaw, pricing: Pricing) -> tuple[float, ...]:
        return (error_of(pricing.measurement, law, pricing.loss),)

    def gaussian(self, measurement: Measurement, noise: GaussianCells) -> GaussianLaw:
        return read_together(measurement, noise)

    def gaussian_errors(
        self, member: Member, measurement: Measurement, law: Law, size: int, loss: Loss
    ) -> tuple[tuple[float, ...], float | None]:
        return (error_of(measurement, law, loss),), None

    def ways(
        self, columns: Sequence[str], axes: tuple[Any, ...], tables: Sequence[Level]
    ) -> tuple[Measurement, ...]:
        """Return how a set of tables over key columns may be measured; LookupError as `tables_first`."""
        tables_first(tables)
        return tuple(_measurement(columns, design) for design in designs(axes, tables))

    def estimator(self, measurement: Measurement, structure: Structure, law: Law) -> Estimator:
        """Return the estimator of tables over its axes, as noisy integers of a law measure them."""
        assert measurement.margins is not None
        return estimator_of(measurement.margins, structure, _noise(law))

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        return f"{s.l1_over_groups} over all integers"

    def typical(self, best: Candidate, member: Member, size: int, *, narrow: bool) -> Floats:
        return np.zeros(len(best.measurement.cells))


def _noise(law: Law) -> Noise:
    assert law.added is not None
    return cast("Noise", law.added.noise)


def error_of(measurement: Measurement, law: Law, loss: Loss) -> float:
    """Return the expected error of a fitted cell, on average over the tables."""
    assert measurement.margins is not None
    root = math.sqrt(_noise(law).variance())
    deviations = [d * root for d in _deviations(measurement.margins)]
    mean = [d * d if loss == "squared" else math.sqrt(2 / math.pi) * d for d in deviations]
    return sum(mean) / len(mean)


@lru_cache(maxsize=16)
def _deviations(design: Design) -> tuple[float, ...]:
    """Return the standard deviation of a cell of every table, on average, per that of the noise."""
    structure = design.structure()
    made, unit = estimator_of(design, structure, Gaussian(_UNIT)), Gaussian(_UNIT).variance()
    return tuple(math.sqrt(made.variance(t.name).mean() / unit) for t in structure.tables)


def _measurement(columns: Sequence[str], design: Design) -> Measurement:
    places = Spaces(design.structure().axes)
    added = square = replaced = cells = 0
    for source in design.sources:
        fans, k = places.fans(source.level) if source.residual else [], source.scale
        own = k * k * math.prod(f * (f - 1) for f in fans)
        # two rows that differ in one axis alone are farthest apart
        apart = max(
            (own // (f - 1) for f in fans),
            default=-own if source.residual or not any(source.level) else 0,
        )
        added, square = added + k * math.prod(2 * (f - 1) for f in fans), square + own
        replaced += 2 * (own + apart)
        cells += math.prod(places.shape(source.level))
    return Measurement(
        family="table_set",
        key=("residuals" if design.sources[-1].residual else "tables",),
        cells=tuple(map(str, range(cells))),
        weights=(),
        l1_added_row=added,
        l1_replaced_row=2 * added,
        measures=tuple(Measure("tally", _crossed(columns, design, t)) for t in design.counted),
        form="table_set",
        squares=(square, replaced),
        margins=design,
    )


def _crossed(columns: Sequence[str], design: Design, table: Level) -> Cross:
    used = [(n, len(a[-1])) for n, a, k in zip(columns, design.axes, table, strict=True) if k]
    return Cross(tuple(n for n, _ in used), tuple(size for _, size in used))


family = TableSet()
